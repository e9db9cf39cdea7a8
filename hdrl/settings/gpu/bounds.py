"""Lower bounds on job completion times under any scheduler; they need no schedule.

A job takes no less than on its fastest GPUs, alone. And all jobs together take the time of all GPUs: let the cluster be
one machine that every job can have for itself, and give it the least GPU time that the job needs. What is best there
can be found, and no schedule of the real cluster is better. A job's *mean busy time*, the mean date of its work, is at
least half of its shortest run before its end; its sum over all jobs is least if the shortest job always goes first.

References
----------
M. X. Goemans, M. Queyranne, A. S. Schulz, M. Skutella, Y. Wang, "Single Machine Scheduling with Release Dates", SIAM J.
Discrete Mathematics 15(2), 2002 (mean busy times). L. Schrage, "A Proof of the Optimality of the Shortest Remaining
Processing Time Discipline", Operations Research 16(3), 1968.
"""

from __future__ import annotations

import heapq
import math

import numpy as np
from numpy.typing import NDArray

from hdrl.settings.gpu.cluster.machine import GpuCluster
from hdrl.settings.gpu.loads.load import WHOLE_GPU, GpuLoad

Floats = NDArray[np.float64]


def jct_bound_s(load: GpuLoad, cluster: GpuCluster, *, jobs_per_gpu: int = 1) -> float:
    """Return a lower bound of the mean completion time of all jobs, in seconds; NaN if a job can never run.

    It holds for preemption without loss, full knowledge, and jobs that may leave their nodes at any time. Up to
    ``jobs_per_gpu`` jobs may share a GPU, none faster than alone.
    """
    shortest_s, share_s = _shortest_s(load, cluster), _share_s(load, cluster) / jobs_per_gpu
    if not np.isfinite(shortest_s).all():
        return math.nan
    arrival_s = load.jobs["arrival_s"] - load.jobs["arrival_s"][0]
    ends_s, _ = _single_machine_schedule(arrival_s, share_s, by_remaining=True)
    _, busy_s = _single_machine_schedule(arrival_s, share_s, by_remaining=False)
    sums = (shortest_s.sum(), (ends_s - arrival_s).sum(), (busy_s - arrival_s).sum() + shortest_s.sum() / 2)
    return float(max(sums)) / len(shortest_s)


def _rates(load: GpuLoad, cluster: GpuCluster) -> Floats:
    """Return the work per second of each job on each type, 0 where it may not run, shape ``(n_jobs, n_types)``."""
    numbers, rates = load.profiles(cluster)
    is_allowed = (load.allowed(cluster)[:, None] >> np.arange(len(cluster.types))) & 1
    return np.asarray(rates.max(axis=2)[numbers] * is_allowed)


def _shortest_s(load: GpuLoad, cluster: GpuCluster) -> Floats:
    """Return the shortest duration of each job, in seconds."""
    with np.errstate(divide="ignore"):
        return np.asarray(load.jobs["work"] / _rates(load, cluster).max(axis=1))


def _share_s(load: GpuLoad, cluster: GpuCluster) -> Floats:
    """Return for how long each job needs the whole cluster at least.

    GPUs may be counted as one likes, since what a job takes is weighed like what there is: each as one, or by its
    speed. What gives more is the better bound.
    """
    width = load.jobs["n_gpus"] * load.jobs["gpu_milli"] / WHOLE_GPU
    with np.errstate(divide="ignore"):
        time_s = load.jobs["work"][:, None] / _rates(load, cluster)
    counted = [
        width * (time_s * weight).min(axis=1) / float(np.add.reduce(weight * cluster.gpus_of_type))
        for weight in (np.ones(len(cluster.types)), cluster.speeds)
    ]
    return max(counted, key=lambda share_s: float(share_s.sum()))


def _single_machine_schedule(arrival_s: Floats, length_s: Floats, *, by_remaining: bool) -> tuple[Floats, Floats]:
    """Return the end of each job, and the mean date of its work, on a machine that runs one job at a time.

    The one with the least work goes first, with the least that remains if ``by_remaining``, at any time.
    """
    ends_s, busy_s = arrival_s.copy(), arrival_s.copy()
    left_s, moments = length_s.copy(), np.zeros(len(length_s))
    waiting: list[tuple[float, int]] = []
    now_s, next_job = 0.0, 0
    while waiting or next_job < len(arrival_s):
        if not waiting:
            now_s = max(now_s, float(arrival_s[next_job]))
        while next_job < len(arrival_s) and arrival_s[next_job] <= now_s:
            if length_s[next_job] > 0:
                heapq.heappush(waiting, (float(length_s[next_job]), next_job))
            next_job += 1
        if not waiting:
            continue
        key, job = heapq.heappop(waiting)
        until_s = float(arrival_s[next_job]) if next_job < len(arrival_s) else math.inf
        ran_s = min(float(left_s[job]), until_s - now_s)
        moments[job] += ran_s * (now_s + ran_s / 2)
        now_s, left_s[job] = now_s + ran_s, left_s[job] - ran_s
        if now_s < until_s or left_s[job] <= 0:
            ends_s[job], busy_s[job] = now_s, moments[job] / length_s[job]
        else:
            heapq.heappush(waiting, (float(left_s[job]) if by_remaining else key, job))
    return ends_s, busy_s
