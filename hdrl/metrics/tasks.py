"""Metrics that every Trace has: how many tasks ended how, how long they waited and took, how busy the machine was."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hdrl.metrics.catalogue import MetricInfo, less, more, neutral
from hdrl.metrics.formulas import FloatArray, bounded_slowdown, ratio, slowdown, summaries, turnaround
from hdrl.trace.model import TaskState, Trace

QUEUEING = "common use in job scheduling"
OWN = "hdrl"
_JSSPP_1997 = "Feitelson et al., Theory and Practice in Parallel Job Scheduling, JSSPP 1997"

STATISTICS = (
    ("mean", "mean"),
    ("median", "median"),
    ("p95", "95th percentile (linear interpolation)"),
    ("p99", "99th percentile (linear interpolation)"),
    ("max", "maximum"),
)
"""Statistics of a distribution, and their words."""


_wrong = partial(less, hides_zero=True)
_unrun = partial(_wrong, counts_unrun=True)

COUNTS: Mapping[str, MetricInfo] = MappingProxyType(
    {
        "n_jobs": neutral("1", "jobs of the workload", OWN),
        "n_finished": more("1", "jobs that ended after their start, with any result", OWN),
        "n_successful": more("1", "finished jobs that did all their work", OWN),
        "n_failed": _wrong("1", "finished jobs that failed", OWN),
        "n_walltime_reached": _wrong("1", "finished jobs that reached their time limit", OWN),
        "n_killed": _wrong("1", "finished jobs that were killed", OWN),
        "n_rejected": _unrun("1", "jobs that the policy rejected", OWN),
        "n_unfinished": _unrun("1", "jobs still running at the end of the simulation", OWN),
        "n_not_started": _unrun("1", "jobs neither started nor rejected at the end of the simulation", OWN),
        "success_rate": more("1", "n_successful / n_jobs", OWN),
    }
)
"""Numbers of jobs by outcome."""

UNRUN = ("n_rejected", "n_unfinished", "n_not_started")
"""Metrics of `COUNTS` that say which jobs were not brought to an end."""

MACHINE: Mapping[str, MetricInfo] = MappingProxyType(
    {
        "makespan_s": less("s", "last end of a job - first submission of a job", QUEUEING),
        "utilization": more(
            "1", "sum over finished jobs of (units * time on them) / (units of the machine * makespan_s)", QUEUEING
        ),
        "throughput_jobs_per_h": more("1/h", "3600 * n_finished / makespan_s", QUEUEING),
    }
)
"""Metrics of the machine's use."""


def distributions(kinds: Iterable[tuple[str, str, str, str]]) -> dict[str, MetricInfo]:
    """Return the metrics of the distribution of a number of finished jobs; less is better.

    Each kind is a name (with ``_s`` behind it for a time), a unit, a formula and a source.
    """
    return {
        f"{statistic}_{name}": less(unit, f"{words} over finished jobs of {formula}", source)
        for name, unit, formula, source in kinds
        for statistic, words in STATISTICS
    }


DISTRIBUTIONS: Mapping[str, MetricInfo] = MappingProxyType(
    distributions(
        (
            ("wait_s", "s", "start - submission", QUEUEING),
            ("turnaround_s", "s", "end - submission", QUEUEING),
            ("slowdown", "1", "(wait + run) / run", QUEUEING),
            ("bounded_slowdown", "1", "max(1, (wait + run) / max(run, 10 s))", _JSSPP_1997),
        )
    )
)
"""Waits and durations of jobs; of a job that was interrupted, all time not on units is waiting."""

TASK_METRICS: Mapping[str, MetricInfo] = MappingProxyType({**COUNTS, **MACHINE, **DISTRIBUTIONS})
"""Every metric that `task_metrics` gives, in its order."""


def count_states(state: NDArray[Any]) -> dict[str, float]:
    """Return the metrics of `COUNTS`."""
    n_in = np.bincount(state, minlength=len(TaskState))
    n_finished = n_in[TaskState.DONE : TaskState.KILLED + 1].sum()
    counts = {
        "n_jobs": len(state),
        "n_finished": n_finished,
        "n_successful": n_in[TaskState.DONE],
        "n_failed": n_in[TaskState.FAILED],
        "n_walltime_reached": n_in[TaskState.OVERRAN],
        "n_killed": n_in[TaskState.KILLED],
        "n_rejected": n_in[TaskState.REJECTED],
        "n_unfinished": n_in[TaskState.RUNNING],
        "n_not_started": n_in[TaskState.NOT_RELEASED] + n_in[TaskState.WAITING],
    }
    result = {name: float(count) for name, count in counts.items()}
    result["success_rate"] = ratio(result["n_successful"], result["n_jobs"])
    return result


def describe_times(wait_s: FloatArray, run_s: FloatArray) -> dict[str, float]:
    """Return the metrics of `DISTRIBUTIONS`."""
    distributions = {
        "wait_s": wait_s,
        "turnaround_s": turnaround(wait_s, run_s),
        "slowdown": slowdown(wait_s, run_s),
        "bounded_slowdown": bounded_slowdown(wait_s, run_s),
    }
    found = zip(distributions, summaries([*distributions.values()]), strict=True)
    return {f"{statistic}_{kind}": value for kind, summary in found for statistic, value in summary.items()}


def is_finished(state: NDArray[Any]) -> NDArray[np.bool_]:
    """Return the mask of the tasks that ran to an end, whatever end."""
    finished: NDArray[np.bool_] = (state >= TaskState.DONE) & (state <= TaskState.KILLED)
    return finished


def task_metrics(trace: Trace) -> dict[str, float]:
    """Return every metric of `TASK_METRICS` for one simulation, in their order; NaN where a number does not exist."""
    tasks, stays = trace.tasks, trace.stays
    finished = is_finished(tasks["state"])
    on_units_s = np.zeros(len(tasks))
    ended = stays[stays["end_s"] >= 0]
    np.add.at(on_units_s, ended["task"], ended["end_s"] - ended["start_s"])
    unit_s = np.zeros(len(tasks))
    np.add.at(unit_s, ended["task"], ended["n_units"] * (ended["end_s"] - ended["start_s"]))
    took_s = tasks["end_s"][finished] - tasks["release_s"][finished]
    run_s = on_units_s[finished]
    last_end_s = float(np.max(tasks["end_s"][finished], initial=0.0))
    makespan_s = last_end_s - float(np.min(tasks["release_s"])) if finished.any() else math.nan
    result = count_states(tasks["state"])
    result["makespan_s"] = makespan_s
    result["utilization"] = ratio(float(np.sum(unit_s[finished])), trace.machine.n_units * makespan_s)
    result["throughput_jobs_per_h"] = ratio(3600 * result["n_finished"], makespan_s)
    result |= describe_times(np.maximum(0.0, took_s - run_s), run_s)
    return {name: result[name] for name in TASK_METRICS}
