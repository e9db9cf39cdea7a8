"""Telling before a simulation which jobs a platform can never run."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from hdrl.base.errors import UnknownName, WorkloadError
from hdrl.settings.batch.platform.model import Platform
from hdrl.settings.batch.site_rules.fit import can_ever_start
from hdrl.settings.batch.site_rules.model import components_of
from hdrl.settings.batch.workload.model import Workload


def max_cores(platform: Platform, memory_mib: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the number of cores of the empty platform that can each have that much memory at the same time.

    A node lends a core for as long as it has that much memory left: ``min(cores, floor(memory / memory_mib))``.
    """
    if not np.any(memory_mib):  # as in most logs
        return np.full(np.shape(memory_mib), platform.n_cores)
    wanted, position = np.unique(memory_mib, return_inverse=True)
    total = np.zeros(len(wanted), dtype=np.int64)
    for cores, node_mib, n_nodes in platform.node_sizes:
        holds = np.full(len(wanted), float(cores))
        with np.errstate(over="ignore"):  # an infinity is right for next to no memory
            np.divide(node_mib, wanted, out=holds, where=wanted > 0)
        total += n_nodes * np.minimum(np.floor(holds), cores).astype(np.int64)
    return total[position].reshape(np.shape(memory_mib))


def fits(workload: Workload, platform: Platform) -> NDArray[np.bool_]:
    """Tell of each job whether the empty platform can run it."""
    jobs = workload.jobs
    found = jobs["cores"] <= max_cores(platform, jobs["memory_mib"])
    if platform.site is not None:
        found &= can_ever_start(platform.site, workload.site, jobs["cores"], jobs["memory_mib"])
    return found


def check_fits(workload: Workload, platform: Platform, *, oversized: str = "error") -> Workload:
    """Return the workload if the platform can run all of its jobs.

    Parameters
    ----------
    oversized
        Treatment of jobs that it can never run: ``"error"``, or ``"drop"`` to leave them out and count them in
        `Workload.n_dropped`.

    Raises
    ------
    WorkloadError
        If a job does not fit (``"error"``) or none does (``"drop"``).
    UnknownName
        If ``oversized`` is something else.
    """
    if oversized not in ("error", "drop"):
        raise UnknownName("rule for oversized jobs", oversized, ("error", "drop"))
    bad = ~fits(workload, platform)
    n_bad = int(np.count_nonzero(bad))
    if n_bad == 0:
        return workload
    if oversized == "error":
        raise WorkloadError(_message(workload, platform, int(np.argmax(bad)), n_bad))
    if n_bad == workload.n_jobs:
        raise WorkloadError(f"{workload.name}: none of its {n_bad} jobs fits platform {platform.name}")
    kept = workload.take(np.flatnonzero(~bad).astype(np.int64))
    n_before = workload.n_dropped.get("does not fit the platform", 0)
    return replace(kept, n_dropped={**workload.n_dropped, "does not fit the platform": n_before + n_bad})


def _message(workload: Workload, platform: Platform, worst: int, n_bad: int) -> str:
    job = workload.jobs[worst]
    cores, memory_mib = int(job["cores"]), float(job["memory_mib"])
    who = f"{workload.name}: job '{workload.sources[job['source']]}!{workload.job_ids[worst]}' asks for {cores} cores"
    if cores > platform.n_cores:
        problem = f"{who}, platform {platform.name} has {platform.n_cores}"
    else:
        possible = int(max_cores(platform, np.array(memory_mib)))
        problem = (
            f"{who} with {memory_mib:g} MiB each, platform {platform.name} has {possible} "
            f"(its largest node has {platform.memory_mib.max():g} MiB)"
        )
        if cores <= possible:
            problem = f"{who}, which none of its partitions on {platform.name} has on nodes such as it wants"
            if workload.site is not None and components_of(workload.site.jobs["het_group"])[0][worst] >= 0:
                problem += ", beside the other components of its het job"
    return (
        f"{problem}; {n_bad:,} of {workload.n_jobs:,} jobs can never run"
        " (--set workload.oversized=drop leaves them out; in Python, hdrl.check_fits(..., oversized='drop'))"
    )
