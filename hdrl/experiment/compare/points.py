"""One point of a comparison: a candidate on a case with a seed, from the jobs to the metrics."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from hdrl.base.errors import DecisionError, SimulationError
from hdrl.experiment.compare.candidates import Candidate
from hdrl.experiment.compare.cases import Case
from hdrl.experiment.decider import Decider
from hdrl.metrics.statistics import FEWEST_BLOCKS
from hdrl.options.sweep import Sweep
from hdrl.setting import Load, Machine, Setting, SettingRef, find_setting

JOBS_PER_BATCH = 20_000
"""Simulated jobs that are worth a message to a worker: some tenths of a second."""

SHORTEST_BATCHES = 4
"""Batches per worker at least, so that all end at about the same time."""


WEEK_S = 604_800.0


class Point(NamedTuple):
    """One simulation: indices of the case and the candidate, and the number of the seed."""

    case: int
    candidate: int
    seed: int


@dataclass(frozen=True, slots=True)
class PointResult:
    """Result of a point."""

    metrics: dict[str, float]  # metrics by name; all NaN if it could not be simulated
    offered_load: float  # offered load of the jobs; NaN where there is none
    problem: str = ""  # why it could not be simulated to its end; empty if it could
    # metrics of the jobs of each week in which there were any, if the whole log is one run
    weeks: tuple[dict[str, float], ...] = ()


@dataclass(frozen=True, slots=True)
class PointRunner:
    """Everything that points need; workers get it once."""

    place: SettingRef  # source of its setting; first, so that workers load it first
    sweep: Sweep
    machine: Machine
    workloads: tuple[Load, ...]
    cases: tuple[Case, ...]
    candidates: tuple[Candidate, ...]

    @property
    def setting(self) -> Setting:
        """The setting of the sweep."""
        return find_setting(self.place)

    def __call__(self, batch: Sequence[Point]) -> list[PointResult]:
        """Simulate points one after the other."""
        setting = self.setting
        results, made, items, offered_load = [], -1, None, math.nan
        models: dict[tuple[int, int], Decider] = {}
        for point in batch:
            case, candidate = self.cases[point.case], self.candidates[point.candidate]
            if items is None or point.case != made:
                made, items = point.case, case.items(setting, self.machine, self.workloads, self.sweep)
                load = setting.inputs.offered_load(self.machine, items)
                offered_load = math.nan if load is None else load
            which = point.candidate, point.seed % max(1, len(candidate.files))
            decider = models.get(which) or candidate.decider(setting, point.seed, self.sweep)
            if candidate.is_model:  # a batch reads each once
                models[which] = decider
            results.append(self._result(setting, case, items, offered_load, decider, self.sweep.seed + point.seed))
        return results

    def describe(self, batch: Sequence[Point]) -> str:
        """Return the name of a batch for messages."""
        first = batch[0]
        case, name = self.cases[first.case], self.candidates[first.candidate].name
        more = f" (or one of the {len(batch) - 1} points after it)" if len(batch) > 1 else ""
        return f"{name} on window {case.window} of {case.workload}, seed {self.sweep.seed + first.seed}{more}"

    def _result(
        self, setting: Setting, case: Case, items: Load, offered_load: float, decider: Decider, seed: int
    ) -> PointResult:
        try:
            trace = decider.play(self.machine, items, seed=seed)
        except (SimulationError, DecisionError) as error:
            nothing = dict.fromkeys(setting.measures.metrics, math.nan) | {"n_jobs": float(case.n_jobs)}
            return PointResult(nothing, offered_load, " ".join(str(error).split()))
        weeks = self._weeks(setting, case, trace) if self.sweep.is_continuous else ()
        if case.n_simulated == case.n_jobs:
            return PointResult(setting.measures.measure(trace), offered_load, weeks=weeks)
        return PointResult(_part(setting, trace, case.warm_up, case.n_jobs), offered_load, weeks=weeks)

    def _weeks(self, setting: Setting, case: Case, trace: Any) -> tuple[dict[str, float], ...]:
        """Return the metrics of each week, by the dates of release; nothing of a run that is too short."""
        dates = trace.tasks["release_s"][case.warm_up : case.warm_up + case.n_jobs]
        number = ((dates - dates[0]) // WEEK_S).astype(int)
        firsts = np.flatnonzero(np.diff(number, prepend=-1))
        if len(firsts) < FEWEST_BLOCKS:
            return ()
        ends = [*firsts[1:], case.n_jobs]
        return tuple(
            _part(setting, trace, case.warm_up + int(first), int(end - first))
            for first, end in zip(firsts, ends, strict=True)
        )


def _part(setting: Setting, trace: Any, first: int, n_jobs: int) -> dict[str, float]:
    """Return the metrics of some jobs of a simulation; NaN for those that only a whole run has."""
    metrics = setting.measures.measure(trace.part(first, n_jobs))
    return metrics | {name: math.nan for name, info in setting.measures.metrics.items() if info.is_of_whole_run}


def batches(points: Sequence[Point], cases: Sequence[Case], n_workers: int) -> list[list[Point]]:
    """Return points in pieces that are worth a message, of about one size; points of one case are together."""
    ordered = sorted(points)
    total = sum(cases[point.case].n_simulated for point in ordered)
    target = min(JOBS_PER_BATCH, total / (SHORTEST_BATCHES * n_workers))
    pieces: list[list[Point]] = []
    cost = math.inf
    for point in ordered:
        if cost >= target:
            pieces.append([])
            cost = 0
        pieces[-1].append(point)
        cost += cases[point.case].n_simulated
    return pieces
