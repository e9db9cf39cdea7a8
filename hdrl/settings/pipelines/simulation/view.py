"""View and decisions of a policy in Python."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from hdrl.base.errors import DecisionError
from hdrl.base.moved import load_moved
from hdrl.compiled.borrowed import Borrowed
from hdrl.settings.pipelines.kernel import codes, entries
from hdrl.settings.pipelines.kernel.state import PipelinesState
from hdrl.settings.pipelines.loads.load import PipelineLoad, check_runs_on
from hdrl.settings.pipelines.loads.pipeline import NEVER, Group, Pipeline
from hdrl.settings.pipelines.machine import KINDS, Units
from hdrl.settings.pipelines.simulation.policies import check_ended, one_state
from hdrl.settings.pipelines.simulation.trace import PipelineTrace, trace_of


@dataclass(frozen=True, slots=True)
class UnitView:
    """A unit.

    Attributes
    ----------
    is_idle
        True if nothing runs there.
    backlog_us
        Time that it will be busy if all kernels there take their worst time, in microseconds.
    """

    number: int
    kind: str
    ecu: int
    is_idle: bool
    backlog_us: int


@dataclass(frozen=True, slots=True)
class ReadyView:
    """A ready kernel.

    Attributes
    ----------
    place
        Its place among the ready kernels, which are sorted by local deadline.
    instance
        The number of its instance.
    pipeline
        The pipeline.
    kernel
        The number of the kernel in it.
    release_us, deadline_us, tolerance_us, period_us
        Of the instance.
    local_deadline_us
        Date by which the kernel must have ended if all later ones take their worst time.
    choices
        Groups that can be started with it now: the kernel alone first, then groups by size.
    """

    place: int
    instance: int
    pipeline: Pipeline
    kernel: int
    release_us: int
    deadline_us: int
    tolerance_us: int
    period_us: int
    local_deadline_us: int
    choices: tuple[Group, ...]


@dataclass(frozen=True, slots=True)
class KernelStart:
    """A decision: start a choice of a ready kernel on a unit, or let it wait in the unit's queue."""

    ready: ReadyView
    choice: Group
    unit: int


class DispatchView:
    """Information for a decision; valid until the next one."""

    def __init__(self, state: PipelinesState, machine: Units, load: PipelineLoad) -> None:
        self._state, self._machine, self._load = state, machine, load

    @property
    def now_us(self) -> int:
        """The date."""
        return int(self._state.scalars[0, 0]["now_us"])

    @property
    def units(self) -> list[UnitView]:
        """The units."""
        found = []
        for number, (kind, ecu) in enumerate(zip(self._machine.kinds, self._machine.ecus, strict=True)):
            unit = self._state.unit[0, number]
            is_idle = int(unit["stay"]) == codes.NONE
            backlog_us = 0
            if not is_idle:
                stay = self._state.stays[0, int(unit["stay"])]
                left_us = int(stay["start_us"]) + int(stay["worst_us"]) - self.now_us
                backlog_us = max(left_us, 0) + int(unit["queued_us"])
            found.append(UnitView(number, KINDS[kind], ecu, is_idle, backlog_us))
        return found

    @property
    def ready(self) -> list[ReadyView]:
        """The ready kernels, by local deadline."""
        return [self._ready(position) for position in range(int(self._state.scalars[0, 0]["n_ready"]))]

    def time_us(self, ready: ReadyView, choice: Group, unit: int) -> int | None:
        """Return the worst-case time of a choice on a unit, ``None`` if it cannot run there."""
        if not 0 <= unit < self._machine.n_units or ready.pipeline.ecu not in (-1, self._machine.ecus[unit]):
            return None
        time_us = choice.times_us[self._machine.kinds[unit]]
        return None if time_us == NEVER else time_us

    def _ready(self, position: int) -> ReadyView:
        entry = self._state.ready[0, position]
        instance, kernel = int(entry["instance"]), int(entry["kernel"])
        row = self._load.instances[instance]
        pipeline = self._load.pipelines[int(row["pipeline"])]
        options = [pipeline.options[number] for number in pipeline.choices[kernel]]
        return ReadyView(
            position,
            instance,
            pipeline,
            kernel,
            int(row["release_us"]),
            int(row["deadline_us"]),
            int(row["tolerance_us"]),
            int(row["period_us"]),
            int(entry["local_deadline_us"]),
            tuple(one for one in options if self._is_startable(pipeline, instance, one)),
        )

    def _is_startable(self, pipeline: Pipeline, instance: int, choice: Group) -> bool:
        waits_for = self._state.waits_for[0, int(self._load.first_kernels[instance]) :]
        inside = set(choice.kernels)
        return all(int(waits_for[k]) == len(inside & set(pipeline.predecessors[k])) for k in choice.kernels)


PythonPolicy: TypeAlias = Callable[[DispatchView], KernelStart | None]
"""Returns a decision whenever one is due; ``None``: wait for the next event."""


def simulate_python(machine: Units, load: PipelineLoad, policy: PythonPolicy) -> PipelineTrace:
    """Simulate a load under a policy in Python.

    Raise DecisionError if it decides what is not possible, WorkloadError if the load can never run on the machine.
    """
    check_runs_on(load, machine)
    state = one_state(machine, load)
    batch, view = Borrowed(state), DispatchView(state, machine, load)
    entries.begin_one(batch)
    while state.scalars[0, 0]["stage"] == codes.CHOOSE:
        entries.dispatch_one(batch, *_checked(policy(view), view, state))
    check_ended(state, getattr(policy, "__name__", "policy"))
    return trace_of(state, 0, machine, load, {"policy": getattr(policy, "__name__", "policy")})


def _checked(decision: object, view: DispatchView, state: PipelinesState) -> tuple[int, int, int]:
    """Return the numbers of a decision; refuse one that is not possible."""
    where = f"at {view.now_us} us"
    if decision is None:
        return -1, -1, -1
    if not isinstance(decision, KernelStart):
        raise DecisionError(f"{where}: the policy returned {decision!r}, expected a KernelStart or None")
    ready = decision.ready
    if ready not in view.ready or decision.choice not in ready.choices:
        raise DecisionError(f"{where}: the policy starts a kernel or group that is not ready")
    unit: object = decision.unit
    is_number = isinstance(unit, (int, np.integer)) and not isinstance(unit, bool)
    if not is_number or view.time_us(ready, decision.choice, decision.unit) is None:
        raise DecisionError(f"{where}: {ready.pipeline.name!r} cannot run on unit {unit!r} there")
    options = ready.pipeline.choices[ready.kernel]
    position = [ready.pipeline.options[number] for number in options].index(decision.choice)
    table = state.pipelines[int(state.instances[ready.instance]["pipeline"])]
    row = state.kernels[int(table["first_kernel"]) + ready.kernel]
    return ready.place, int(row["first_choice"]) + position, decision.unit


def __getattr__(name: str) -> object:
    return load_moved(__name__, name)
