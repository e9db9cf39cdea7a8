"""Metrics of batch jobs: the metrics of every Trace, and metrics of energy and over-commitment."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from hdrl.metrics.catalogue import MetricInfo
from hdrl.metrics.formulas import FloatArray, bounded_slowdown, covered_s, energy_delay_product, ratio, utilization
from hdrl.metrics.tasks import COUNTS, DISTRIBUTIONS, MACHINE, OWN, count_states, describe_times, is_finished

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hdrl.settings.batch.simulation.trace import BatchTrace, OverUtilization

_BATSIM = "Batsim 4.2.1, out_schedule.csv"
_HDEEPRM = "HDeepRM 0.3.1, overutilizations.json"
_JAIN = "Jain, Chiu and Hawe, DEC Research Report TR-301, 1984"
_EDP = "Gonzalez and Horowitz, IEEE J. Solid-State Circuits 31(9), 1996, on a whole run"


def _counts() -> dict[str, MetricInfo]:
    batsims = {
        "n_finished": "jobs that ended after their start: the sum of the next four counts",
        "n_successful": "finished jobs in COMPLETED_SUCCESSFULLY",
        "n_rejected": "jobs that the policy rejected",
        "success_rate": "n_successful / n_jobs",
    }
    ours = {
        "n_failed": "finished jobs in COMPLETED_FAILED",
        "n_walltime_reached": "finished jobs in COMPLETED_WALLTIME_REACHED",
        "n_killed": "finished jobs in COMPLETED_KILLED",
    }
    named = {name: replace(COUNTS[name], formula=formula, source=_BATSIM) for name, formula in batsims.items()}
    named |= {name: replace(COUNTS[name], formula=formula) for name, formula in ours.items()}
    return {name: named.get(name, info) for name, info in COUNTS.items()}


def _machine() -> dict[str, MetricInfo]:
    cores = "sum over finished jobs of (cores * run) / (cores of the platform * makespan_s)"
    return {
        "makespan_s": MACHINE["makespan_s"],
        "batsim_makespan_s": MetricInfo(
            "s", "date of the last end of a job; 0 without any", _BATSIM, lower_is_better=True
        ),
        "utilization": replace(MACHINE["utilization"], formula=cores),
        "throughput_jobs_per_h": MACHINE["throughput_jobs_per_h"],
    }


def _energy() -> dict[str, MetricInfo]:
    return {
        "energy_j": MetricInfo(
            "J", "energy of all hosts from the first submission to the last end of a job", _BATSIM, lower_is_better=True
        ),
        "wasted_energy_j": MetricInfo(
            "J",
            "energy_j - energy of jobs and of hosts that are off: the energy of idle and switching hosts",
            "batsim-py 1.0.5, energy_waste",
            lower_is_better=True,
            is_of_whole_run=True,
        ),
        "mean_power_w": MetricInfo("W", "energy_j / makespan_s", OWN, lower_is_better=True),
        "energy_delay_product_js": MetricInfo("J s", "energy_j * makespan_s", _EDP, lower_is_better=True),
    }


def _overutilization() -> dict[str, MetricInfo]:
    def of_whole_run(unit: str, formula: str, source: str) -> MetricInfo:
        return MetricInfo(unit, formula, source, lower_is_better=True, is_of_whole_run=True)

    return {
        "n_core_shortages": of_whole_run("1", "number of times that the chosen job found too few free cores", _HDEEPRM),
        "n_memory_shortages": of_whole_run(
            "1", "number of times that the chosen job found too little memory on the nodes with free cores", _HDEEPRM
        ),
        "n_bandwidth_overcommitments": of_whole_run(
            "1", "spans in which the memory bandwidth of a processor was over-committed", _HDEEPRM
        ),
        "bandwidth_overcommitted_s": of_whole_run(
            "s", "time in which the memory bandwidth of any processor was over-committed", OWN
        ),
        "bandwidth_overcommitted_processor_s": of_whole_run(
            "s", "sum over processors of the time in which their memory bandwidth was over-committed", OWN
        ),
    }


def _fairness() -> dict[str, MetricInfo]:
    formula = (
        "(sum of x)^2 / (users * sum of x^2), x the mean bounded slowdown of a user's finished jobs; 1 if all are equal"
    )
    return {"user_fairness": MetricInfo("1", formula, _JAIN, lower_is_better=False)}


METRICS: Mapping[str, MetricInfo] = MappingProxyType(
    _counts() | _machine() | dict(DISTRIBUTIONS) | _fairness() | _energy() | _overutilization()
)
"""Every metric that `compute_metrics` gives, by name, in the order in which it gives them."""

ENERGY_METRICS = frozenset(_energy())
"""Metrics that only runs with energy have."""


def _overutilization_numbers(log: OverUtilization, end_s: float) -> dict[str, float]:
    start_s = log.bandwidth_start_s
    still_open = log.bandwidth_duration_s < 0
    duration_s = np.where(still_open, np.maximum(0.0, end_s - start_s), log.bandwidth_duration_s)
    return {
        "n_core_shortages": float(len(log.core_s)),
        "n_memory_shortages": float(len(log.memory_s)),
        "n_bandwidth_overcommitments": float(len(start_s)),
        "bandwidth_overcommitted_s": covered_s(start_s, duration_s),
        "bandwidth_overcommitted_processor_s": float(np.sum(duration_s)),
    }


def _user_fairness(user: NDArray[np.int32], wait_s: FloatArray, run_s: FloatArray) -> float:
    """Return Jain's index over users; NaN if fewer than two are known."""
    known = user >= 0
    users, owner = np.unique(user[known], return_inverse=True)
    if len(users) < 2:
        return math.nan
    sums = np.bincount(owner, weights=bounded_slowdown(wait_s[known], run_s[known]))
    means = sums / np.bincount(owner)
    return float(means.sum() ** 2 / (len(means) * (means**2).sum()))


def compute_metrics(trace: BatchTrace) -> dict[str, float]:
    """Return every metric of `METRICS` for one simulation.

    Times and slowdowns are those of *finished* jobs: all that ran to an end, whether success, failure, walltime or a
    kill. Rejected jobs, jobs still running at the end and jobs that never started have no such times; they are
    counted in ``n_rejected``, ``n_unfinished`` and ``n_not_started``, which belong beside any mean that is compared.

    Returns
    -------
    dict[str, float]
        One number per name, in the order of `METRICS`. NaN where a number does not exist: times without a finished
        job, energies of a run without energy.
    """
    from hdrl.settings.batch.simulation.hosts import off_j  # callers of the names alone need no platforms

    records, jobs = trace.records, trace.workload.jobs
    finished = is_finished(records["state"])
    start_s, run_s = records["start_s"][finished], records["run_s"][finished]
    wait_s = start_s - jobs["submit_s"][finished]
    last_end_s = float(np.max(start_s + run_s, initial=0.0))
    makespan_s = last_end_s - float(np.min(jobs["submit_s"])) if len(run_s) else math.nan
    energy_j = float(trace.consumed_j) if trace.has_energy else math.nan

    result = count_states(records["state"])
    result["makespan_s"] = makespan_s
    result["batsim_makespan_s"] = last_end_s
    held_s = run_s if trace.site is None else run_s - trace.site["suspended_s"][finished]
    result["utilization"] = utilization(records["n_cores"][finished], held_s, trace.platform.n_cores, makespan_s)
    result["throughput_jobs_per_h"] = ratio(3600 * result["n_finished"], makespan_s)
    result |= describe_times(wait_s, run_s)
    result["user_fairness"] = _user_fairness(jobs["user"][finished], wait_s, run_s)
    result["energy_j"] = energy_j
    jobs_j = float(np.sum(np.maximum(records["energy_j"], 0.0)))
    first_s = float(np.min(jobs["submit_s"], initial=math.inf))
    result["wasted_energy_j"] = energy_j - jobs_j - off_j(trace, first_s, last_end_s)
    result["mean_power_w"] = ratio(energy_j, makespan_s)
    result["energy_delay_product_js"] = energy_delay_product(energy_j, makespan_s)
    result |= _overutilization_numbers(trace.overutilization, trace.end_s)
    return {name: result[name] for name in METRICS}
