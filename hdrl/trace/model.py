"""The Trace that every setting gives: arrays of tasks and of their stays, step signals, counts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray


class Machine(Protocol):
    """Machine that tasks are scheduled on: a cluster, a rack of GPUs, the units of a car."""

    @property
    def name(self) -> str:
        """Its name, from its file or as it was given."""

    @property
    def n_units(self) -> int:
        """Number of its units: the smallest things that a task can hold."""

    @property
    def unit_kinds(self) -> Mapping[str, int]:
        """Number of units of each kind."""

    def sha256(self) -> str:
        """Return the SHA-256 of all that a simulation depends on, hexadecimal."""

    def facts(self) -> dict[str, Any]:
        """Return its name and size, as JSON, for the provenance of a run."""


class Load(Protocol):
    """Items to schedule, from a log or a generator, in the order of their release."""

    @property
    def name(self) -> str:
        """Its name, from its file or its generator."""

    @property
    def n_items(self) -> int:
        """Number of its jobs, instances or trainings."""

    @property
    def n_dropped(self) -> Mapping[str, int]:
        """Number of items of the source that were left out, by reason."""

    @property
    def origin(self) -> Mapping[str, Any]:
        """Its source: file, hash, model and parameters."""

    def window(self, start: int, n_items: int, /) -> Self:
        """Return consecutive items, in the order of release.

        ``start`` items come before the window; it has at least one.
        """

    def sha256(self) -> str:
        """Return the SHA-256 of all items, hexadecimal; the name and the origin do not count."""


class TaskState(IntEnum):
    """State of a task, and how it ended."""

    NOT_RELEASED = 0
    WAITING = 1
    RUNNING = 2
    DONE = 3
    FAILED = 4
    OVERRAN = 5
    """It was ended because it took longer than it may."""
    KILLED = 6
    REJECTED = 7


TASK_DTYPE = np.dtype(
    [
        ("release_s", np.float64),
        ("start_s", np.float64),
        ("end_s", np.float64),
        ("deadline_s", np.float64),
        ("state", np.int8),
        ("requested_s", np.float64),
        ("user", np.int32),
        ("kind", np.int32),
    ]
)
"""One task: a job, an instance of a pipeline, a training.

``release_s`` the date from which on it could run; ``start_s`` its first start, -1 if it never started; ``end_s`` its
end, -1 if it has none; ``deadline_s`` infinite without one; ``state`` a `TaskState`; ``requested_s`` the time that its
user requested, NaN if unknown; ``user`` and ``kind`` numbers, -1 if unknown.
"""

STAY_DTYPE = np.dtype(
    [
        ("task", np.int64),
        ("start_s", np.float64),
        ("end_s", np.float64),
        ("first_unit", np.int64),
        ("n_units", np.int32),
        ("pace", np.float64),
    ]
)
"""One stay of a task on units of the machine; a task that is preempted, moved or resized has several.

``end_s`` -1 while it lasts; ``first_unit`` and ``n_units`` its slice of ``stay_units``; ``pace`` the speed of its work
relative to its own best.
"""


@dataclass(frozen=True, slots=True)
class Signal:
    """A quantity that changes in steps.

    Attributes
    ----------
    time_s
        Dates of the changes, ascending, shape ``(n,)``.
    value
        The value from each of them on, same shape.
    unit
        Its unit; ``"1"`` for a pure number.
    """

    time_s: NDArray[np.float64]
    value: NDArray[np.float64]
    unit: str = "1"


class DeferredSignals(Mapping[str, Signal]):
    """Signals that are computed when one is first read: comparisons read none, and sorting dates takes long."""

    def __init__(self, compute: Callable[[], Mapping[str, Signal]]) -> None:
        self._compute = compute
        self._signals: Mapping[str, Signal] | None = None

    def _computed(self) -> Mapping[str, Signal]:
        if self._signals is None:
            self._signals = self._compute()
        return self._signals

    def __getitem__(self, name: str) -> Signal:
        """Return the signal of a name."""
        return self._computed()[name]

    def __iter__(self) -> Iterator[str]:
        """Return an iterator over the names."""
        return iter(self._computed())

    def __len__(self) -> int:
        """Return the number of signals."""
        return len(self._computed())


class Trace(Protocol):
    """Everything that happened in one simulation, as metrics, tables and pictures of every setting see it.

    A setting may have a class of its own with more attributes; all of them have these.
    """

    @property
    def machine(self) -> Machine:
        """Machine of the simulation."""

    @property
    def load(self) -> Load:
        """Load of the simulation."""

    @property
    def tasks(self) -> NDArray[np.void]:
        """Outcome of each item of the load: array of `TASK_DTYPE`, in the order of the load."""

    @property
    def stays(self) -> NDArray[np.void]:
        """Spans in which tasks held units: array of `STAY_DTYPE`, by start."""

    @property
    def stay_units(self) -> NDArray[np.int32]:
        """The units of all stays, one stay's after the other's."""

    @property
    def signals(self) -> Mapping[str, Signal]:
        """Values over time, by name: ``queue``, ``power_w``, free units of a kind."""

    @property
    def counts(self) -> Mapping[str, float]:
        """Counts, by name."""

    @property
    def end_s(self) -> float:
        """The date at which the simulation ended."""

    @property
    def n_decisions(self) -> int:
        """Number of decisions of the policy."""

    @property
    def info(self) -> Mapping[str, Any]:
        """Facts about the run that are not part of its result."""

    def part(self, first: int, n_items: int) -> Self:
        """Return the Trace of some consecutive items, as if there were no others."""


def never() -> NDArray[np.void]:
    """Return no stays, for traces of what holds no units."""
    return np.zeros(0, dtype=STAY_DTYPE)


def repr_of_machine(machine: Machine) -> str:
    """Return one line about a machine; all its arrays would fill a notebook."""
    return f"<{type(machine).__name__} {machine.name}: {machine.n_units:,} units>"


def repr_of_load(load: Load) -> str:
    """Return one line about a load; all its arrays would fill a notebook."""
    return f"<{type(load).__name__} {load.name}: {load.n_items:,} items>"


def repr_of_trace(trace: Trace) -> str:
    """Return one line about a Trace; all its arrays would fill a notebook."""
    kind, load, machine = type(trace).__name__, trace.load, trace.machine
    return f"<{kind}: {load.n_items:,} items of {load.name} on {machine.name} until {trace.end_s:.0f} s>"


@dataclass(frozen=True, slots=True)
class TaskTrace:
    """A Trace that is what its arrays say: for settings without formats of their own."""

    machine: Machine
    load: Load
    tasks: NDArray[np.void]
    end_s: float
    n_decisions: int = 0
    stays: NDArray[np.void] = field(default_factory=never)
    stay_units: NDArray[np.int32] = field(default_factory=lambda: np.zeros(0, dtype=np.int32))
    signals: Mapping[str, Signal] = field(default_factory=dict)
    counts: Mapping[str, float] = field(default_factory=dict)
    info: Mapping[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        """Return one line, see `repr_of_trace`."""
        return repr_of_trace(self)

    def part(self, first: int, n_items: int) -> Self:
        """Return the Trace of some consecutive items."""
        last = first + n_items
        stays = self.stays[(self.stays["task"] >= first) & (self.stays["task"] < last)].copy()
        stays["task"] -= first
        return replace(self, load=self.load.window(first, n_items), tasks=self.tasks[first:last], stays=stays)


@dataclass(frozen=True, slots=True, repr=False)
class OutcomeTrace(TaskTrace):
    """A Trace with more data on each task than all settings have: the decisions for it, and their outcomes.

    ``outcomes`` is an array of a type of the setting, a row per task.
    """

    outcomes: NDArray[np.void] = field(kw_only=True)

    def part(self, first: int, n_items: int) -> Self:
        """Return the Trace of some consecutive items, see `TaskTrace.part`."""
        found = TaskTrace.part(self, first, n_items)  # no super(): a class with slots is made twice
        return replace(found, outcomes=self.outcomes[first : first + n_items])
