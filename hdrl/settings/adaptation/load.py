"""Loads: jobs that come one after the other, each with the table of what adapting would do to it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hdrl.base.arguments import check_type
from hdrl.base.errors import OptionsError, WorkloadError, quoted
from hdrl.base.hashing import sha256_of
from hdrl.base.seeding import stream
from hdrl.base.windows import check_window
from hdrl.settings.adaptation.machine import Device
from hdrl.settings.adaptation.table import Table
from hdrl.trace.model import repr_of_load


@dataclass(frozen=True)
class Jobs:
    """Jobs in the order of their release.

    Attributes
    ----------
    tables
        The tables; all have as many actions and decisions.
    table
        Index of the table of each job, shape ``(n_items,)``.
    draw
        Training of the table that each job draws, same shape.
    release_s
        Arrival of each job in seconds, same shape.
    origin, n_dropped
        See `hdrl.setting.Load`.
    """

    name: str
    tables: tuple[Table, ...]
    table: NDArray[np.int64]
    draw: NDArray[np.int64]
    release_s: NDArray[np.float64]
    origin: Mapping[str, Any] = field(default_factory=dict)
    n_dropped: Mapping[str, int] = field(default_factory=dict)

    def __repr__(self) -> str:
        """Return one line, see `repr_of_load`."""
        return repr_of_load(self)

    @property
    def n_items(self) -> int:
        """Number of jobs."""
        return len(self.table)

    @property
    def budgets_s(self) -> NDArray[np.float64]:
        """Training budget of each job, in seconds."""
        return np.array([table.budget_s for table in self.tables])[self.table]

    @property
    def n_actions(self) -> int:
        """Number of actions of each decision."""
        return self.tables[0].n_actions

    @property
    def n_steps(self) -> int:
        """Number of decisions of each job."""
        return self.tables[0].n_steps

    def window(self, start: int, n_items: int, /) -> Jobs:
        """Return consecutive jobs; the first comes at 0. See `hdrl.trace.Load.window`."""
        check_window(self.name, start, n_items, self.n_items)
        part = slice(start, start + n_items)
        return dataclasses.replace(
            self,
            table=self.table[part],
            draw=self.draw[part],
            release_s=self.release_s[part] - self.release_s[start],
        )

    def sha256(self) -> str:
        """Return the SHA-256 of all jobs."""
        arrays = [("table", self.table), ("draw", self.draw), ("release_s", self.release_s)]
        return sha256_of(arrays, [table.sha256() for table in self.tables])


def jobs_of(name: str, tables: Sequence[Table], n_items: int | None, origin: Mapping[str, Any] | None = None) -> Jobs:
    """Return jobs that take turns among tables, and come as soon as the one before has used up its budget.

    Parameters
    ----------
    n_items
        Number of jobs, each a training that is drawn; ``None``: each training of each table once.

    Raises
    ------
    OptionsError
        If the tables do not go together.
    """
    check_alike(name, tables)
    n = sum(table.n_draws for table in tables) if n_items is None else n_items
    if n_items is None:
        turns = [(draw, number) for number, table in enumerate(tables) for draw in range(table.n_draws)]
        draws, numbers = (np.array(column, dtype=np.int64) for column in zip(*sorted(turns), strict=True))
    else:
        numbers = np.arange(n, dtype=np.int64) % len(tables)
        n_draws = np.array([table.n_draws for table in tables])
        # Drawn, and always alike: if they took turns, windows would repeat each other and intervals be too narrow.
        draws = stream(0, "trainings of jobs").integers(n_draws[numbers])
    budgets_s = np.array([table.budget_s for table in tables])[numbers]
    release_s = np.cumsum(budgets_s) - budgets_s
    return Jobs(name, tuple(tables), numbers, draws, release_s, origin or {})


def poisson_jobs(name: str, tables: Sequence[Table], n_items: int, offered_load: float, seed: int) -> Jobs:
    """Return jobs of random tables and trainings that come as a Poisson process.

    ``offered_load`` is the sum of budgets that arrive per time.
    """
    check_alike(name, tables)
    random = stream(seed, "adaptation jobs")
    numbers = random.integers(len(tables), size=n_items)
    draws = random.integers(np.array([table.n_draws for table in tables])[numbers])
    mean_s = float(np.mean([table.budget_s for table in tables]))
    gaps_s = random.exponential(mean_s / offered_load, n_items)
    return Jobs(name, tuple(tables), numbers, draws, np.cumsum(gaps_s) - gaps_s[0], {"seed": seed})


def check_alike(name: str, tables: Sequence[Table]) -> None:
    """Refuse tables that differ in actions, decisions or device, or have one name: one advisor cannot serve them."""
    check_names(name, tables)
    first = tables[0]
    for other in tables[1:]:
        for what in ("n_actions", "n_steps", "device"):
            mine, its = getattr(first, what), getattr(other, what)
            if mine != its:
                raise OptionsError(
                    f"{name}: {other.name} has {what} {its}, {first.name} has {mine}, expected tables that agree"
                )


def check_names(where: str, tables: Sequence[Table]) -> None:
    """Refuse tables of one name: files and pictures would mix them up."""
    names = [table.name for table in tables]
    twice = next((name for position, name in enumerate(names) if name in names[:position]), None)
    if twice is not None:
        raise OptionsError(f"{where}: two tables are called {quoted(twice)}, expected different names")


def check_device(load: Jobs, device: Device) -> None:
    """Refuse jobs that were not measured on a device: there are no outcomes for other ones."""
    check_type("load", load, Jobs, "what hdrl.adaptation.jobs_of returns")
    check_type("device", device, Device, "what hdrl.adaptation.read_device returns")
    for table in load.tables:
        if table.device != device.name:
            raise WorkloadError(
                f"{load.name}: {table.name} was measured on {table.device}, not on {device.name},"
                f" expected platform {table.device}"
            )
