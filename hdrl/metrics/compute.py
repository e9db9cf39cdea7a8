"""From a Trace to numbers."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hdrl.metrics.catalogue import METRICS
from hdrl.metrics.formulas import (
    bounded_slowdown,
    covered_s,
    energy_delay_product,
    ratio,
    slowdown,
    summary,
    turnaround,
    utilization,
)

if TYPE_CHECKING:
    from hdrl.simulation.trace import OverUtilization, Trace

# The numbers of `hdrl.simulation.trace.JobState`. Metrics come below the simulation in the order of imports, so
# they are repeated here; a test keeps both equal.
NOT_SUBMITTED, SUBMITTED, RUNNING, SUCCESSFUL, FAILED, WALLTIME_REACHED, KILLED, REJECTED = range(8)


def _counts(state: NDArray[Any]) -> dict[str, float]:
    n_in = np.bincount(state, minlength=REJECTED + 1)
    n_finished = n_in[SUCCESSFUL : KILLED + 1].sum()
    counts = {
        "n_jobs": len(state),
        "n_finished": n_finished,
        "n_successful": n_in[SUCCESSFUL],
        "n_failed": n_in[FAILED],
        "n_walltime_reached": n_in[WALLTIME_REACHED],
        "n_killed": n_in[KILLED],
        "n_rejected": n_in[REJECTED],
        "n_unfinished": n_in[RUNNING],
        "n_not_started": n_in[NOT_SUBMITTED] + n_in[SUBMITTED],
    }
    result = {name: float(count) for name, count in counts.items()}
    result["success_rate"] = ratio(result["n_successful"], result["n_jobs"])
    return result


def _overutilization(log: OverUtilization, end_s: float) -> dict[str, float]:
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


def compute_metrics(trace: Trace) -> dict[str, float]:
    """Return every metric of `METRICS` for one simulation.

    Times and slowdowns are those of *finished* jobs: all that ran to an end, be it success, failure, walltime or a
    kill. Rejected jobs, jobs still running at the end and jobs that never started have no such times; they are
    counted in ``n_rejected``, ``n_unfinished`` and ``n_not_started``, which belong beside any mean that is compared.

    Parameters
    ----------
    trace
        What happened.

    Returns
    -------
    dict[str, float]
        One number per name, in the order of `METRICS`. NaN where a number does not exist: times without a finished
        job, energies of a run without energy.
    """
    records, jobs = trace.records, trace.workload.jobs
    is_finished = (records["state"] >= SUCCESSFUL) & (records["state"] <= KILLED)
    start_s, run_s = records["start_s"][is_finished], records["run_s"][is_finished]
    wait_s = start_s - jobs["submit_s"][is_finished]
    last_end_s = float(np.max(start_s + run_s, initial=0.0))
    makespan_s = last_end_s - float(np.min(jobs["submit_s"])) if len(run_s) else math.nan
    energy_j = float(trace.consumed_j) if trace.has_energy else math.nan

    result = _counts(records["state"])
    result["makespan_s"] = makespan_s
    result["batsim_makespan_s"] = last_end_s
    result["utilization"] = utilization(records["n_cores"][is_finished], run_s, trace.platform.n_cores, makespan_s)
    result["throughput_jobs_per_h"] = ratio(3600 * result["n_finished"], makespan_s)
    distributions = (
        ("wait", "_s", wait_s),
        ("turnaround", "_s", turnaround(wait_s, run_s)),
        ("slowdown", "", slowdown(wait_s, run_s)),
        ("bounded_slowdown", "", bounded_slowdown(wait_s, run_s)),
    )
    for kind, suffix, values in distributions:
        result |= {f"{statistic}_{kind}{suffix}": value for statistic, value in summary(values).items()}
    result["energy_j"] = energy_j
    result["mean_power_w"] = ratio(energy_j, makespan_s)
    result["energy_delay_product_js"] = energy_delay_product(energy_j, makespan_s)
    result |= _overutilization(trace.overutilization, trace.end_s)
    return {name: result[name] for name in METRICS}
