"""Workloads exactly as HDeepRM 0.3.1 makes them: for comparing results, not for new work.

What differs from `workload_from_swf`, and is kept since it changes numbers: run times are drawn and the log's
are ignored; jobs with equal requested time, memory and bandwidth share the profile, thus the run time, of the
first of them; "MB" are KB/1000; dates are shifted by the first date that is not 0; jobs have no walltime.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hdrl.base.errors import OptionsError, WorkloadError
from hdrl.settings.batch.platform.model import Platform
from hdrl.settings.batch.workload.build import compute_jobs, count_reasons, log_numbers
from hdrl.settings.batch.workload.model import NO_WALLTIME, Workload, in_batsims_order
from hdrl.settings.batch.workload.models import BANDWIDTHS_GBPS, HDEEPRM_FRACTIONS, HDEEPRM_WEIGHTS
from hdrl.settings.batch.workload.swf import SwfLog

COMPATIBILITY = "hdeeprm-0.3.1"


def reference_gflops(platform: Platform) -> float:
    """Return HDeepRM's reference speed: the mean over the cores of clock times operations per cycle.

    Equal to `Platform.reference_gflops` but for the last bits, which matter where the result is truncated.
    """
    speeds = [
        processor.clock_ghz * processor.flops_per_cycle
        for cluster in platform.clusters
        for group in cluster.groups
        for _ in range(group.number)
        for processor, number in group.type.processors
        for _ in range(number * processor.cores)
    ]
    return float(np.mean(speeds)) if speeds else platform.reference_gflops


def hdeeprm_workload(log: SwfLog, platform: Platform, *, n_jobs: int, seed: int) -> Workload:
    """Make the workload that HDeepRM 0.3.1 makes of a log, draw by draw.

    Parameters
    ----------
    n_jobs
        Number of jobs; fewer if the log has fewer.
    seed
        The seed of its options file.

    Raises
    ------
    OptionsError
        If ``n_jobs`` or the seed is out of range.
    WorkloadError
        If no job is left, or a job is one that no simulator runs.
    """
    if n_jobs < 1:
        raise OptionsError(f"n_jobs is {n_jobs}, expected at least 1")
    if not 0 <= seed < 2**32:
        raise OptionsError(f"seed is {seed}, expected 0 to 2**32 - 1")
    rows, n_dropped = _kept(log, n_jobs)
    cores = np.trunc(rows["requested_processors"])
    submit_s = _shifted(np.trunc(rows["submit_s"]))
    for what, bad in (("no cores", cores < 1), ("a negative submission date after the shift", submit_s < 0)):
        if np.any(bad):
            raise WorkloadError(f"{log.name}: HDeepRM's job {int(np.argmax(bad))} has {what}")
    requested_s = np.trunc(rows["requested_s"])
    memory_kb = np.where(rows["requested_memory_kb"] <= -1, rows["memory_kb"], rows["requested_memory_kb"])
    memory_mb = np.trunc(np.trunc(memory_kb) / 1000)
    profile, names, work_flop, bandwidth = _profiles(requested_s, memory_mb, reference_gflops(platform), seed)
    made = compute_jobs(
        name=log.name,
        job_ids=tuple(map(str, range(len(rows)))),
        submit_s=submit_s,
        cores=cores,
        walltime_s=np.full(len(rows), NO_WALLTIME),
        requested_time_s=requested_s,
        work_flop=work_flop,
        memory_mib=memory_mb,
        bandwidth_gbps=bandwidth,
        numbers=log_numbers(rows),
        n_dropped=n_dropped,
        origin={
            **log.origin,
            "compatibility": COMPATIBILITY,
            "seed": seed,
            "n_jobs": len(rows),
            "platform": platform.name,
        },
        profile=profile,
        profile_names=names,
    )
    return in_batsims_order(made)  # HDeepRM writes a file for Batsim


def _kept(log: SwfLog, n_jobs: int) -> tuple[NDArray[np.void], dict[str, int]]:
    rows = log.rows
    # Fields are cut to whole numbers before they are compared with 0: -0.5 is not negative.
    unknown = {
        name: rows[name] <= -1
        for name in ("submit_s", "requested_processors", "requested_s", "requested_memory_kb", "memory_kb")
    }
    reasons = {
        "no submission date": unknown["submit_s"],
        "no cores": unknown["requested_processors"],
        "no requested time": unknown["requested_s"],
        "no memory": unknown["requested_memory_kb"] & unknown["memory_kb"],
    }
    usable = ~np.logical_or.reduce(list(reasons.values()))
    chosen = np.flatnonzero(usable)[:n_jobs]
    if len(chosen) == 0:
        raise WorkloadError(f"{log.name}: no job of {log.n_rows} has date, cores, requested time and memory")
    return rows[chosen], count_reasons(reasons, int(chosen[-1]) + 1 if len(chosen) == n_jobs else log.n_rows)


def _shifted(submit_s: NDArray[np.float64]) -> NDArray[np.float64]:
    """Shift by the first date that is not 0; a date of 0 counts as "none yet" and jobs before it are not shifted."""
    positive = np.flatnonzero(submit_s != 0)
    if len(positive):
        submit_s[positive[0] :] -= submit_s[positive[0]]
    return submit_s


def _profiles(
    requested_s: NDArray[np.float64], memory_mb: NDArray[np.float64], gflops: float, seed: int
) -> tuple[NDArray[np.int32], tuple[str, ...], NDArray[np.float64], NDArray[np.float64]]:
    """Draw fraction and bandwidth job by job from NumPy's old generator, and share profiles by name."""
    random = np.random.RandomState(seed)  # the generator that HDeepRM draws from
    cumulated = np.cumsum(HDEEPRM_WEIGHTS)
    cumulated /= cumulated[-1]
    index_of_name: dict[str, int] = {}
    work_flop: list[float] = []
    profile = np.empty(len(requested_s), dtype=np.int32)
    bandwidth = np.empty(len(requested_s))
    for i, (time_s, mb) in enumerate(zip(requested_s.tolist(), memory_mb.tolist(), strict=True)):
        fraction = float(HDEEPRM_FRACTIONS[np.searchsorted(cumulated, random.random_sample(), side="right")])
        bandwidth[i] = BANDWIDTHS_GBPS[random.randint(0, len(BANDWIDTHS_GBPS))]
        name = f"{int(time_s)}_{int(mb)}_{int(bandwidth[i])}"
        if name not in index_of_name:
            index_of_name[name] = len(work_flop)
            work_flop.append(float(int(gflops * fraction * time_s * 1e9)))
        profile[i] = index_of_name[name]
    return profile, tuple(index_of_name), np.array(work_flop), bandwidth
