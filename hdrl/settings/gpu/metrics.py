"""Metrics of GPU clusters: completion times, fairness, and what became of the GPUs' time."""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from hdrl.metrics.catalogue import MetricInfo, less, more, neutral
from hdrl.metrics.formulas import ratio, summary
from hdrl.metrics.tasks import COUNTS, MACHINE, OWN, QUEUEING, count_states, distributions, is_finished
from hdrl.settings.gpu.bounds import jct_bound_s
from hdrl.settings.gpu.loads.load import WHOLE_GPU
from hdrl.trace.model import OutcomeTrace, TaskState, TaskTrace

_THEMIS = "Mahajan et al., Themis, NSDI 2020, with the mean number of jobs of the cluster"
_GOEMANS = "mean busy times of Goemans et al., SIAM J. Discrete Math. 15(2), 2002"
_GAVEL = "Narayanan et al., Gavel, OSDI 2020"

Floats = NDArray[np.float64]


_KINDS = (
    ("jct_s", "s", "end - arrival", QUEUEING),
    ("queueing_s", "s", "time in the cluster without GPUs", QUEUEING),
    ("slowdown", "1", "jct / time alone on the fastest allowed type", _GAVEL),
    ("fair_rho", "1", "jct / time on an equal share of the GPUs among the jobs present at the same time", _THEMIS),
)

_OWN: Mapping[str, MetricInfo] = {
    "mean_censored_jct_s": less("s", "mean over all jobs of (end of the job or of the simulation) - arrival", OWN),
    "jct_bound_s": neutral("s", "lower bound on the mean jct of all jobs under any scheduler", _GOEMANS),
    "jct_over_bound": less("1", "mean_censored_jct_s / jct_bound_s", OWN),
    "priority_jct_s": less("s", "mean jct of finished jobs, weighted by their priorities", OWN),
    "share_unfair": less("1", "share of finished jobs with a fair_rho above 1", _THEMIS),
    "n_missed": less("1", "jobs that end after their deadlines, or never", OWN, hides_zero=True),
    "utilization": more(
        "1", "GPU time of all jobs / (GPUs * makespan_s, or all the time if some run at the end)", QUEUEING
    ),
    "flops_utilization": more("1", "the same, each GPU weighted by its FLOPS", "HenryAJX/DRL_Scheduler"),
    "busy_utilization": more("1", "the same without restarts and work lost by preemption", OWN, is_of_whole_run=True),
    "n_preemptions": neutral("1", "number of times that a policy preempted a running job", OWN, is_of_whole_run=True),
    "n_migrations": neutral("1", "number of times that a job resumed on other GPUs", OWN, is_of_whole_run=True),
    "lost_gpu_h": less("h", "GPU time of restarts and of work lost by preemption", OWN, is_of_whole_run=True),
}

_MEAN = "mean over all jobs of "

_OF_VALUES: Mapping[str, MetricInfo] = {
    "mean_value": more("1", _MEAN + "the value at the end of the job; 0 if it never ran", OWN, hides_zero=True),
    "mean_grant": more("1", _MEAN + "the granted share of the budget", OWN, hides_zero=True),
    "share_without_result": less("1", "share of jobs that never ran", OWN, hides_zero=True),
    "grant_regret": less(
        "1",
        _MEAN + "(mean value of the best sequence with the whole budget - with the granted share)",
        OWN,
        hides_zero=True,
    ),
    "advice_regret": less(
        "1",
        _MEAN + "(mean value of the best sequence with the granted share - of the chosen sequence)",
        OWN,
        hides_zero=True,
    ),
}
"""Metrics of the values of jobs that adapt."""

METRICS: Mapping[str, MetricInfo] = MappingProxyType(
    {
        **COUNTS,
        "makespan_s": MACHINE["makespan_s"],
        "throughput_jobs_per_h": MACHINE["throughput_jobs_per_h"],
        **distributions(_KINDS),
        **_OWN,
        **_OF_VALUES,
    }
)
"""Every metric that `compute_metrics` gives, in its order."""


def compute_metrics(trace: TaskTrace) -> dict[str, float]:
    """Return every metric of `METRICS`."""
    tasks, load, cluster = trace.tasks, trace.load, trace.machine
    jobs = load.jobs  # type: ignore[attr-defined]
    finished = is_finished(tasks["state"])
    release_s, end_s = tasks["release_s"], tasks["end_s"]
    jct_s = (end_s - release_s)[finished]
    held_s = np.zeros(len(tasks))
    lengths_s = trace.stays["end_s"] - trace.stays["start_s"]
    np.add.at(held_s, trace.stays["task"], lengths_s)
    isolated_s = load.isolated_s(cluster)  # type: ignore[attr-defined]
    rho = fair_rho(trace, isolated_s)[finished]
    makespan_s = float(end_s[finished].max() - release_s.min()) if finished.any() else math.nan
    is_packed = trace.counts.get("n_packed", 0.0) > 0
    gpu_s = lengths_s * load.held_gpus(trace.stays, trace.stay_units, is_packed=is_packed)  # type: ignore[attr-defined]
    censored_s = np.where(finished, end_s, np.maximum(trace.end_s, release_s)) - release_s
    result = count_states(tasks["state"])
    result["makespan_s"] = makespan_s
    result["throughput_jobs_per_h"] = ratio(3600 * result["n_finished"], makespan_s)
    queueing_s = np.maximum(0.0, jct_s - held_s[finished])
    numbers = (jct_s, queueing_s, jct_s / isolated_s[finished], rho)
    for (kind, *_), values in zip(_KINDS, numbers, strict=True):
        result |= {f"{name}_{kind}": value for name, value in summary(values).items()}
    # Jobs that run when the simulation ends hold GPUs up to then.
    still_run = (tasks["state"] == TaskState.RUNNING).any()
    span_s = float(trace.end_s - release_s.min()) if still_run else makespan_s
    total = cluster.n_units * span_s
    # Jobs that are ended at their deadlines may leave earlier than any schedule could bring them to an end.
    ends_early = load.values is not None  # type: ignore[attr-defined]
    bound_s = math.nan if ends_early else jct_bound_s(load, cluster, jobs_per_gpu=2 if is_packed else 1)  # type: ignore[arg-type]
    result |= {
        "mean_censored_jct_s": float(censored_s.mean()),
        "jct_bound_s": bound_s,
        "jct_over_bound": ratio(float(censored_s.mean()), bound_s),
        "priority_jct_s": ratio(
            float((jct_s * jobs["priority"][finished]).sum()), float(jobs["priority"][finished].sum())
        ),
        "share_unfair": float(np.mean(rho > 1.0)) if len(rho) else math.nan,
        "n_missed": float(np.sum(np.where(tasks["state"] == TaskState.DONE, end_s, np.inf) > tasks["deadline_s"])),
        "utilization": ratio(float(gpu_s.sum()), total),
        "flops_utilization": _flops_utilization(trace, gpu_s, span_s),
        "busy_utilization": ratio(float(gpu_s.sum()) - trace.counts["lost_gpu_s"], total),
        "n_preemptions": trace.counts["n_preemptions"],
        "n_migrations": trace.counts["n_migrations"],
        "lost_gpu_h": trace.counts["lost_gpu_s"] / 3600,
        **_worth(trace),
    }
    return {name: float(result[name]) for name in METRICS}


def _worth(trace: TaskTrace) -> dict[str, float]:
    """Return the values of jobs that adapt; NaN where they do not."""
    if not isinstance(trace, OutcomeTrace):
        return dict.fromkeys(_OF_VALUES, math.nan)
    found = trace.outcomes
    return {
        "mean_value": float(found["value"].mean()),
        "mean_grant": float(found["granted"].mean()),
        "share_without_result": float(np.mean(found["granted"] == 0.0)),
        "grant_regret": float((found["best_whole"] - found["best"]).mean()),
        "advice_regret": float((found["best"] - found["expected"]).mean()),
    }


def _flops_utilization(trace: TaskTrace, gpu_s: Floats, span_s: float) -> float:
    """Return the share of the FLOPS of all GPUs that jobs held."""
    cluster = trace.machine
    speeds, kinds = cluster.speeds, cluster.type_of_gpu  # type: ignore[attr-defined]
    held = trace.stays["n_units"] > 0
    first = trace.stay_units[trace.stays["first_unit"][held]]
    return ratio(float((gpu_s[held] * speeds[kinds[first]]).sum()), cluster.n_units * span_s)


def fair_rho(trace: TaskTrace, isolated_s: Floats) -> Floats:
    """Return for each finished job its completion time as a multiple of that on an equal share of the cluster.

    The share is one of as many as there were jobs in the cluster in the mean while it was; a job whose GPUs are fewer
    than that runs there as it does alone, one with more takes its turns. NaN for others.
    """
    tasks = trace.tasks
    finished = is_finished(tasks["state"])
    last_s = np.where(finished, tasks["end_s"], trace.end_s)
    dates = np.unique(np.concatenate([tasks["release_s"], last_s]))
    changes = np.zeros(len(dates))
    np.add.at(changes, np.searchsorted(dates, tasks["release_s"]), 1.0)
    np.add.at(changes, np.searchsorted(dates, last_s), -1.0)
    area = np.concatenate([[0.0], np.cumsum(np.cumsum(changes)[:-1] * np.diff(dates))])
    begin, end = np.searchsorted(dates, tasks["release_s"]), np.searchsorted(dates, last_s)
    with np.errstate(divide="ignore", invalid="ignore"):
        n_there = (area[end] - area[begin]) / (last_s - tasks["release_s"])
        jobs = trace.load.jobs  # type: ignore[attr-defined]
        width = jobs["n_gpus"] * jobs["gpu_milli"] / WHOLE_GPU
        turns = np.maximum(1.0, width * n_there / trace.machine.n_units)
        rho = (last_s - tasks["release_s"]) / (isolated_s * turns)
    return np.where(finished, rho, np.nan)
