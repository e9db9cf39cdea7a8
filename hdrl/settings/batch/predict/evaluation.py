"""Accuracy of run-time predictors on a log: each job is predicted at its submission, from the jobs ended by then."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hdrl.base import elementary
from hdrl.base.errors import UnknownName, WorkloadError
from hdrl.base.windows import range_of_shares
from hdrl.settings.batch.kernel.groups import LAYERS, SUMS_DTYPE
from hdrl.settings.batch.kernel.replay import REPLAYED, replay
from hdrl.settings.batch.predict.network import answers, shipped_network
from hdrl.settings.batch.predict.predictors import PREDICTORS
from hdrl.settings.batch.workload.history import LEVELS, LogHistory
from hdrl.settings.batch.workload.model import Workload

Floats = NDArray[np.float64]

EVALUATED = tuple(name for name in PREDICTORS if not PREDICTORS[name].is_clairvoyant)
"""The predictors that are evaluated."""

N_BINS = 10

_SHORTEST_S = 1.0


@dataclass(frozen=True, slots=True)
class Bin:
    """Jobs with similar predictions.

    Attributes
    ----------
    n_jobs
        Number of jobs.
    predicted_s, run_s
        Geometric means of the predictions and of the run times, in seconds.
    """

    n_jobs: int
    predicted_s: float
    run_s: float


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Accuracy of a predictor.

    Attributes
    ----------
    predictor
        Its name.
    n_jobs
        Number of predicted jobs.
    r2_log
        Share of the variance of log(run time) that log(prediction) explains; negative if the mean does better.
    gamma_deviance
        Mean of 2 ((y - p)/p - log(y/p)), y the run time and p the prediction, both at least a second.
    too_short
        Share of the jobs that ran longer than predicted.
    median_ratio
        Median of prediction / run time.
    bins
        Its calibration: jobs by their predictions, in ten bins of about as many.
    """

    predictor: str
    n_jobs: int
    r2_log: float
    gamma_deviance: float
    too_short: float
    median_ratio: float
    bins: tuple[Bin, ...]


def predictions_of(history: LogHistory, predictors: Sequence[str] = EVALUATED) -> dict[str, Floats]:
    """Return by name each predictor's prediction of each job of a log at its submission, in seconds.

    ``predictors`` are names of `EVALUATED`; raise UnknownName for another.
    """
    for name in predictors:
        if name not in EVALUATED:
            raise UnknownName("predictor", name, EVALUATED)
    learned, seen = replayed(history)
    found = {**learned, "requested": history.requested_time_s}
    if "learned" in predictors:
        log_ratio = np.minimum(answers(shipped_network().numbers, seen)[:, 0], 0.0)
        found["learned"] = history.requested_time_s * elementary.exp(log_ratio)
    if "geo_name" in predictors:
        found["geo_name"] = replayed(history, by_name=True)[0]["geo"]
    return {name: found[name] for name in predictors}


def replayed(history: LogHistory, *, by_name: bool = False) -> tuple[dict[str, Floats], Floats]:
    """Replay a log by its own dates; predictors learn from the jobs that have ended, of groups by name or not.

    Return the predictions at submission of predictors without a network, by name, in seconds of shape ``(n_jobs,)``;
    and the input of a network, shape ``(n_jobs, kernel.groups.LAYERS[0])``.
    """
    n_jobs = len(history.submit_s)
    alike = history.groups_by_name if by_name else history.groups
    offsets = np.cumsum([0, *(alike[:, level].max(initial=0) + 1 for level in range(len(LEVELS) - 1))])
    groups = np.ascontiguousarray(alike + offsets.astype(np.int32), dtype=np.int32)
    sums = np.zeros(int(groups.max(initial=0)) + 1, dtype=SUMS_DTYPE)
    results, seen = np.zeros((n_jobs, len(REPLAYED))), np.zeros((n_jobs, LAYERS[0]))
    arrivals = np.lexsort((np.arange(n_jobs), history.submit_s)).astype(np.int64)
    ends = history.by_end[np.isfinite(history.ended_s[history.by_end])]
    columns = (ends, history.requested_time_s, history.run_s, history.submit_s, history.ended_s)
    known, requested_s, run_s, submit_s, ended_s = map(np.ascontiguousarray, columns)
    replay(arrivals, known, requested_s, run_s, submit_s, ended_s, groups, sums, results, seen)
    return dict(zip(REPLAYED, results.T, strict=True)), seen


def evaluate_predictors(workload: Workload, shares: tuple[float, float] = (0.7, 1.0)) -> list[Evaluation]:
    """Evaluate predictors on a part of a log; what ended before it has been learned from.

    Parameters
    ----------
    workload
        A log with run times and dates of starts.
    shares
        The part, as shares of the jobs in the order of submission.

    Raises
    ------
    WorkloadError
        If there is no log behind it, or it does not tell when jobs started.
    OptionsError
        If these are no shares.
    """
    history, judged = judged_jobs(workload, shares)
    run_s = np.maximum(history.run_s[judged], _SHORTEST_S)
    chosen = [name for name in EVALUATED if has_names(history) or not PREDICTORS[name].by_name]
    return [
        _evaluated(name, np.maximum(values[judged], _SHORTEST_S), run_s)
        for name, values in predictions_of(history, chosen).items()
    ]


def judged_jobs(workload: Workload, shares: tuple[float, float]) -> tuple[LogHistory, NDArray[np.int64]]:
    """Return the log behind a workload, and which of its jobs are those of a part of the workload.

    Raises
    ------
    WorkloadError
        If there is no log behind it, or it does not tell when jobs started.
    OptionsError
        If these are no shares.
    """
    history = workload.history
    if history is None or workload.positions is None:
        raise WorkloadError(f"{workload.name}: is not a log with its own run and requested times, expected an SWF file")
    if not np.isfinite(history.ended_s).any():
        raise WorkloadError(f"{workload.name}: has no wait times (field 3), so nothing can be learned")
    first, last = range_of_shares(shares, workload.n_jobs, what="range", items=f"jobs of {workload.name}")
    order = np.argsort(workload.jobs["submit_s"], kind="stable")
    return history, workload.positions[order[first:last]]


def has_users(workload: Workload) -> bool:
    """Return whether a workload names the users of its jobs; without, predictions use requests and sizes alone."""
    return bool((workload.jobs["user"] >= 0).any())


def has_names(history: LogHistory) -> bool:
    """Return whether a log names its jobs, or what they execute."""
    return history.name is not None and bool((history.name >= 0).any())


def as_rows(evaluations: Sequence[Evaluation]) -> list[Mapping[str, float | str]]:
    """Return a row per predictor, for a table or a file."""
    names = ("predictor", "n_jobs", "r2_log", "gamma_deviance", "too_short", "median_ratio")
    return [{name: getattr(one, name) for name in names} for one in evaluations]


def _evaluated(name: str, predicted_s: Floats, run_s: Floats) -> Evaluation:
    log_run, log_predicted = elementary.log(run_s), elementary.log(predicted_s)
    variance = float(np.var(log_run))
    ratio = run_s / predicted_s
    return Evaluation(
        predictor=name,
        n_jobs=len(run_s),
        r2_log=1.0 - float(np.mean((log_run - log_predicted) ** 2)) / variance if variance > 0 else float("nan"),
        gamma_deviance=float(np.mean(2 * (ratio - 1 - elementary.log(ratio)))),
        too_short=float(np.mean(run_s > predicted_s)),
        median_ratio=float(np.median(1 / ratio)),
        bins=tuple(_bins(log_predicted, log_run)),
    )


def _bins(log_predicted: Floats, log_run: Floats) -> list[Bin]:
    order = np.argsort(log_predicted, kind="stable")
    parts = [part for part in np.array_split(order, N_BINS) if len(part)]
    return [Bin(len(p), math.exp(log_predicted[p].mean()), math.exp(log_run[p].mean())) for p in parts]
