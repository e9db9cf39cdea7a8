"""One point of a comparison: a candidate on a case with a seed, from the jobs to the metrics."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hdrl.errors import DecisionError, HdrlError, SimulationError
from hdrl.experiment.compare.candidates import Candidate
from hdrl.experiment.compare.cases import Case
from hdrl.experiment.compare.knowledge import policy_of
from hdrl.experiment.compare.sweep import Sweep
from hdrl.experiment.run.agentfile import blame
from hdrl.metrics import METRICS, compute_metrics
from hdrl.platform.model import Platform
from hdrl.workload.model import Workload
from hdrl.workload.statistics import offered_load

if TYPE_CHECKING:
    from hdrl.experiment.train.modeluse import Model
    from hdrl.simulation.trace import Trace

JOBS_PER_BATCH = 20_000
"""Simulated jobs that are worth a message to a worker: some tenths of a second."""

SHORTEST_BATCHES = 4
"""Batches per worker at least, so that all end at about the same time."""

WHOLE_RUN_METRICS = tuple(
    name for name in METRICS if name.startswith(("n_core_", "n_memory_", "n_bandwidth_", "bandw"))
)
"""Metrics of a whole simulation that cannot be told for a part of its jobs."""


class Point(NamedTuple):
    """What is simulated: indices of the case and the candidate, and the number of the seed."""

    case: int
    candidate: int
    seed: int


@dataclass(frozen=True, slots=True)
class PointResult:
    """What came of a point.

    Attributes
    ----------
    metrics
        Metrics by name; all NaN if it could not be simulated.
    offered_load
        Offered load of the jobs; NaN where there is none.
    problem
        Why it could not be simulated to its end; empty if it could.
    """

    metrics: dict[str, float]
    offered_load: float
    problem: str = ""


@dataclass(frozen=True, slots=True)
class PointRunner:
    """Everything that points need; workers get it once.

    Attributes
    ----------
    sweep, platform, workloads, cases, candidates
        What is compared.
    energy
        Whether energy is accounted for.
    """

    sweep: Sweep
    platform: Platform
    workloads: tuple[Workload, ...]
    cases: tuple[Case, ...]
    candidates: tuple[Candidate, ...]
    energy: bool

    def __call__(self, batch: Sequence[Point]) -> list[PointResult]:
        """Simulate points one after the other.

        Parameters
        ----------
        batch
            The points, those of a case together.
        """
        results, made, jobs = [], -1, None
        models: dict[str, Model] = {}
        for point in batch:
            case, candidate = self.cases[point.case], self.candidates[point.candidate]
            if jobs is None or point.case != made:
                made, jobs = point.case, case.jobs(self.platform, self.workloads, self.sweep)
            results.append(self._result(case, jobs, candidate, point.seed, models))
        return results

    def describe(self, batch: Sequence[Point]) -> str:
        """Return the name of a batch for messages.

        Parameters
        ----------
        batch
            The points.
        """
        first = batch[0]
        case, name = self.cases[first.case], self.candidates[first.candidate].name
        more = f" (or one of the {len(batch) - 1} points after it)" if len(batch) > 1 else ""
        return f"{name} on window {case.window} of {case.workload}, seed {self.sweep.seed + first.seed}{more}"

    def _result(
        self, case: Case, jobs: Workload, candidate: Candidate, seed: int, models: dict[str, Model]
    ) -> PointResult:
        load = offered_load(jobs, self.platform)
        load = math.nan if load is None else load
        try:
            trace = self._simulate(jobs, candidate, seed, models)
        except (SimulationError, DecisionError) as error:
            nothing = dict.fromkeys(METRICS, math.nan) | {"n_jobs": float(case.n_jobs)}
            return PointResult(nothing, load, " ".join(str(error).split()))
        metrics = {name: float(value) for name, value in compute_metrics(_counted(trace, case.warm_up)).items()}
        if case.warm_up:
            metrics |= dict.fromkeys(WHOLE_RUN_METRICS, math.nan)
        return PointResult(metrics, load)

    def _simulate(self, jobs: Workload, candidate: Candidate, seed: int, models: dict[str, Model]) -> Trace:
        from hdrl.policies import simulate

        number = self.sweep.seed + seed
        if candidate.is_model:
            return _model(candidate, seed, models).play(self.platform, jobs, seed=number, energy=self.energy)
        if not candidate.is_file:
            return simulate(self.platform, jobs, candidate.policy, seed=number, energy=self.energy)
        path = Path(candidate.files[0])
        # Loaded anew for each point: what a policy remembers must not pass from one to the next.
        policy = policy_of(candidate)
        try:
            return simulate(self.platform, jobs, policy, seed=number, energy=self.energy)
        except HdrlError:
            raise
        except Exception as error:
            blamed = blame(error, path)
            if blamed is None:
                raise
            raise blamed from error


def _model(candidate: Candidate, seed: int, models: dict[str, Model]) -> Model:
    """Return the model of a seed; a batch reads each once."""
    from hdrl.experiment.train.modeluse import Model

    path = candidate.files[seed % len(candidate.files)]
    if path not in models:
        models[path] = Model(path)
    return models[path]


def batches(points: Sequence[Point], cases: Sequence[Case], n_workers: int) -> list[list[Point]]:
    """Return points in pieces that are worth a message: points of the same case together, all pieces of about a size.

    Parameters
    ----------
    points
        The points, in any order.
    cases
        The cases that they refer to.
    n_workers
        How many work on them.
    """
    ordered = sorted(points)
    total = sum(_cost(cases[point.case]) for point in ordered)
    target = min(JOBS_PER_BATCH, total / (SHORTEST_BATCHES * n_workers))
    return list(_pieces(ordered, cases, target))


def _cost(case: Case) -> int:
    return case.n_jobs + case.warm_up


def _pieces(points: Sequence[Point], cases: Sequence[Case], target: float) -> Iterator[list[Point]]:
    piece: list[Point] = []
    cost = 0
    for point in points:
        piece.append(point)
        cost += _cost(cases[point.case])
        if cost >= target:
            yield piece
            piece, cost = [], 0
    if piece:
        yield piece


def _counted(trace: Trace, warm_up: int) -> Trace:
    """Return the trace without the jobs that warmed the machine up; energy from the first submission that counts on."""
    if not warm_up:
        return trace
    keep = np.arange(warm_up, trace.workload.n_jobs)
    records, workload = trace.records[warm_up:], trace.workload.take(keep)
    consumed_j = 0.0
    if len(trace.energy) and np.any(records["run_s"] >= 0):
        # Power changes with the rows of the log only, so energy grows linearly between them.
        span_s = (workload.jobs["submit_s"].min(), np.max(records["start_s"] + records["run_s"]))
        begin_j, end_j = np.interp(span_s, trace.energy["time_s"], trace.energy["energy_j"])
        consumed_j = float(end_j - begin_j)
    return dataclasses.replace(trace, workload=workload, records=records, consumed_j=consumed_j)
