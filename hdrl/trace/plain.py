"""A plain machine, a plain load, and the Trace of items on single units: enough for a small setting."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from hdrl.base.hashing import columns, sha256_of
from hdrl.base.windows import check_window
from hdrl.trace.model import STAY_DTYPE, TASK_DTYPE, Machine, TaskState, TaskTrace, repr_of_load


@dataclass(frozen=True, slots=True)
class PlainMachine:
    """A machine of units that differ by their kinds alone."""

    name: str
    unit_kinds: Mapping[str, int]

    @property
    def n_units(self) -> int:
        """Number of units."""
        return sum(self.unit_kinds.values())

    def sha256(self) -> str:
        """Return the SHA-256 of its units, hexadecimal."""
        return sha256_of([], dict(self.unit_kinds))

    def facts(self) -> dict[str, object]:
        """Return its name, the number of its units, and their kinds."""
        of_kinds = {f"n_{kind}": n for kind, n in self.unit_kinds.items()}
        return {"name": self.name, "n_units": self.n_units, **(of_kinds if len(of_kinds) > 1 else {})}


@dataclass(frozen=True, slots=True)
class PlainLoad:
    """A load that is a table.

    Attributes
    ----------
    name, origin, n_dropped
        See `hdrl.trace.Load`.
    items
        A row for each item, in the order of ``release_s``, its one column that must be there.
    """

    name: str
    items: NDArray[np.void]
    origin: Mapping[str, object] = field(default_factory=dict)
    n_dropped: Mapping[str, int] = field(default_factory=dict)

    def __repr__(self) -> str:
        """Return one line, see `repr_of_load`."""
        return repr_of_load(self)

    @property
    def n_items(self) -> int:
        """Number of items."""
        return len(self.items)

    def window(self, start: int, n_items: int, /) -> PlainLoad:
        """Return consecutive items, the first of which is released at date 0."""
        check_window(self.name, start, n_items, self.n_items, items="items")
        items = self.items[start : start + n_items].copy()
        items["release_s"] -= items["release_s"][0]
        return replace(self, items=items)

    def sha256(self) -> str:
        """Return the SHA-256 of all items, hexadecimal."""
        return sha256_of(columns(self.items))


def trace_of_runs(
    machine: Machine,
    load: PlainLoad,
    start_s: NDArray[np.float64],
    end_s: NDArray[np.float64],
    unit: NDArray[np.int32],
    n_decisions: int = 0,
) -> TaskTrace:
    """Return the Trace of items that each held one unit, and did all their work.

    ``start_s``, ``end_s`` and ``unit`` have the shape ``(n_items,)``.
    """
    tasks = np.zeros(load.n_items, TASK_DTYPE)
    tasks["release_s"], tasks["start_s"], tasks["end_s"] = load.items["release_s"], start_s, end_s
    tasks["deadline_s"], tasks["state"], tasks["user"], tasks["kind"] = np.inf, TaskState.DONE, -1, -1
    tasks["requested_s"] = load.items["requested_s"] if "requested_s" in (load.items.dtype.names or ()) else np.nan
    order = np.argsort(start_s, kind="stable")
    stays = np.zeros(load.n_items, STAY_DTYPE)
    stays["task"], stays["start_s"], stays["end_s"] = order, start_s[order], end_s[order]
    stays["first_unit"], stays["n_units"], stays["pace"] = np.arange(load.n_items), 1, 1.0
    return TaskTrace(machine, load, tasks, float(end_s.max()), n_decisions, stays, unit[order].astype(np.int32))
