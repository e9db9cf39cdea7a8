"""The best static mapping: each pipeline on one unit, fused as is fastest there; found exactly."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from hdrl.base.errors import WorkloadError
from hdrl.settings.pipelines.analysis.guarantees import PeriodicTask, is_dispatch_safe
from hdrl.settings.pipelines.loads.covers import cheapest_cover
from hdrl.settings.pipelines.loads.load import PipelineLoad, check_runs_on
from hdrl.settings.pipelines.loads.pipeline import Pipeline
from hdrl.settings.pipelines.machine import Units
from hdrl.settings.pipelines.simulation.tables import Plan

MAX_NODES = 200_000
"""Largest number of partial mappings that the search examines."""


@dataclass(frozen=True, slots=True)
class Mapping:
    """A static mapping.

    Attributes
    ----------
    plan
        First kernel and unit of each group.
    units
        The unit of each pipeline.
    utilization
        The largest utilisation of a unit, by worst-case times.
    is_guaranteed
        True if earliest deadline first on every unit meets all deadlines for sure (`is_dispatch_safe`).
    is_exact
        True if every mapping was looked at, or could not be better.
    """

    plan: Plan
    units: tuple[int, ...]
    utilization: float
    is_guaranteed: bool
    is_exact: bool


def timings_us(load: PipelineLoad) -> list[tuple[int, int, int]]:
    """Return the shortest period, the shortest and the longest relative deadline of each pipeline of a load.

    Tolerances are not counted: earliest deadline first does not know them.
    """
    found = []
    table = load.instances
    for number in range(len(load.pipelines)):
        own = table[table["pipeline"] == number]
        if len(own) == 0:
            found.append((0, 0, 0))
            continue
        relative = own["deadline_us"] - own["release_us"]
        found.append((int(own["period_us"].min()), int(relative.min()), int(relative.max())))
    return found


@dataclass(frozen=True, slots=True)
class _Placement:
    """A pipeline on a kind of unit: its task, and the options that it is cut into."""

    task: PeriodicTask
    cover: tuple[int, ...]


def best_mapping(machine: Units, load: PipelineLoad) -> Mapping:
    """Return the static mapping with the most units that are guaranteed, then with the smallest largest utilisation.

    Each pipeline goes to one unit, cut into the kernels and groups that take the least time there. All such mappings
    are looked at by branch and bound. Sets that follow each other are mapped each by itself: they never share a unit.
    Raise WorkloadError if a pipeline can run on no single unit.
    """
    check_runs_on(load, machine)
    positions = [
        _placements(pipeline, machine, timing)
        for pipeline, timing in zip(load.pipelines, timings_us(load), strict=True)
    ]
    units = [min(one) for one in positions]  # those that are never released stay where they can run
    searches = []
    for together in _at_once(load):
        search = _Search(machine, [positions[number] for number in together])
        search.go()
        searches.append(search)
        for number, unit in zip(together, search.best, strict=True):
            units[number] = unit
    plan = {}
    for number, unit in enumerate(units):
        cover = positions[number][unit].cover
        pipeline = load.pipelines[number]
        plan[number] = {
            kernel: (pipeline.choices[kernel].index(option), unit)
            for option in cover
            for kernel in range(len(pipeline.kernels))
            if option in pipeline.choices[kernel]
        }
    return Mapping(
        plan,
        tuple(units),
        float(max(one.value[1] for one in searches)),
        all(one.value[0] == 0 for one in searches),
        all(one.n_nodes <= MAX_NODES for one in searches),
    )


def _at_once(load: PipelineLoad) -> list[list[int]]:
    """Return the pipelines that are released in groups, those together that are in the same configurations.

    Generated sets that follow each other are a group each; where periods switch, all pipelines are one group.
    """
    groups: list[set[int]] = []
    for first, end in itertools.pairwise((*load.first_items, load.n_items)):
        found = set(np.unique(load.instances["pipeline"][first:end]).tolist())
        others = [one for one in groups if not one & found]
        groups = [*others, found.union(*(one for one in groups if one & found))]
    return [sorted(one) for one in groups]


def _placements(pipeline: Pipeline, machine: Units, timing: tuple[int, int, int]) -> dict[int, _Placement]:
    """Return a pipeline's placement on each unit that can run all of it."""
    found = {}
    for unit, (kind, ecu) in enumerate(zip(machine.kinds, machine.ecus, strict=True)):
        cover = cheapest_cover(pipeline, (kind,)) or cheapest_cover(pipeline, (kind,), is_fusing=False)
        if pipeline.ecu not in (-1, ecu) or cover is None:
            continue
        time_us, options = cover
        longest_us = max(pipeline.options[option].times_us[kind] for option in options)
        found[unit] = _Placement(PeriodicTask(time_us, longest_us, *timing), options)
    if not found:
        raise WorkloadError(f"pipeline {pipeline.name!r} can run on no single unit, as a static mapping needs it")
    return found


class _Search:
    """Branch and bound over the unit of each pipeline, those that need most first."""

    def __init__(self, machine: Units, positions: Sequence[dict[int, _Placement]]) -> None:
        self.positions = positions
        self.order = sorted(
            range(len(positions)), key=lambda n: (-min(_share(one.task) for one in positions[n].values()), n)
        )
        self.kinds = list(zip(machine.kinds, machine.ecus, strict=True))
        self.tasks: list[list[PeriodicTask]] = [[] for _ in self.kinds]
        self.load = [Fraction(0)] * len(self.kinds)
        self.chosen = [-1] * len(positions)
        self.best: list[int] = []
        self.value: tuple[int, Fraction] = (len(self.kinds) + 1, Fraction(0))
        self.n_nodes = 0

    def go(self, depth: int = 0) -> None:
        """Try every unit for the pipelines from ``depth`` on."""
        self.n_nodes += 1
        if self.n_nodes > MAX_NODES and self.best:
            return
        if (self._n_unsafe(is_final=False), max(self.load)) >= self.value:
            return
        if depth == len(self.order):
            value = self._n_unsafe(is_final=True), max(self.load)
            if value < self.value:
                self.value, self.best = value, list(self.chosen)
            return
        number = self.order[depth]
        tried = set()
        for unit in sorted(
            self.positions[number], key=lambda u: (self.load[u] + _share(self.positions[number][u].task), u)
        ):
            twin = (self.kinds[unit], self.load[unit]) if not self.tasks[unit] else (unit, self.load[unit])
            if twin in tried:
                continue  # another empty unit of the same kind
            tried.add(twin)
            task = self.positions[number][unit].task
            before = self.load[unit]
            self.load[unit] += _share(task)
            self.tasks[unit].append(task)
            self.chosen[number] = unit
            self.go(depth + 1)
            self.tasks[unit].pop()
            self.load[unit] = before

    def _n_unsafe(self, *, is_final: bool) -> int:
        """Return the number of units that are not guaranteed; before the end, of those that never will be."""
        if is_final:
            return sum(not is_dispatch_safe(tasks) for tasks in self.tasks)
        return sum(load > 1 for load in self.load)


def _share(task: PeriodicTask) -> Fraction:
    return Fraction(task.time_us, task.period_us) if task.period_us else Fraction(0)


def is_solved(machine: Units, load: PipelineLoad) -> bool:
    """Return whether a fixed mapping meets every deadline of a load for sure."""
    try:
        return best_mapping(machine, load).is_guaranteed
    except WorkloadError:
        return False
