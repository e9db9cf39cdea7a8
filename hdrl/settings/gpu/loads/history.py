"""History of a window: groups of jobs, and statistics of each group when the window began.

A job of the whole load that came before a window has ended by then if its arrival,
the wait in the trace (none if the trace has none) and its run time lie before the first arrival of the window.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hdrl.settings.gpu.cluster.machine import GpuCluster
from hdrl.settings.gpu.kernel.entries import count_ended_jobs
from hdrl.settings.gpu.kernel.state import BUCKET_END_S, MEMORY, N_OF_GROUP
from hdrl.settings.gpu.loads.load import GpuLoad
from hdrl.settings.gpu.loads.philly import USERS_ARE_VIRTUAL_CLUSTERS

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class JobHistory:
    """Initial data of predictions."""

    groups: Ints  # the group of each job at each level, -1 where it has none, shape ``(n_jobs, n_levels)``
    before: Floats  # statistics of the groups when the first job arrives, shape ``(n_groups, N_OF_GROUP)``


def history_of(load: GpuLoad, cluster: GpuCluster) -> JobHistory:
    """Return the history of the jobs of a load, or of a window of one: the whole load's jobs that ended before."""
    whole, first, n = load.whole or load, load.first, load.n_items
    used, numbers = np.unique(whole.groups[first : first + n], return_inverse=True)
    groups = numbers.reshape(n, -1) - int(used[0] < 0)
    used = used[used >= 0]
    before = np.zeros((len(used), N_OF_GROUP))
    if first == 0:
        return JobHistory(groups, before)
    past = whole.window(0, first)
    time_s = past.isolated_s(cluster)
    ended_s = past.jobs["arrival_s"] + past.jobs["wait_s"] + past.mean_s(cluster)
    known = np.flatnonzero((ended_s <= load.jobs["arrival_s"][0]) & np.isfinite(time_s))
    known = known[np.argsort(ended_s[known], kind="stable")]
    index_of_group = np.full(int(whole.groups.max()) + 2, -1)  # the last is that of no group
    index_of_group[used] = np.arange(len(used))
    count_ended_jobs(
        before, index_of_group[whole.groups[known]], np.ascontiguousarray(time_s[known]), MEMORY, BUCKET_END_S
    )
    return JobHistory(groups, before)


def unknown_users_caution(load: GpuLoad) -> str:
    """Return a caution about predictions for a load whose users are unknown; empty if they are known."""
    if not (load.jobs["user"] >= 0).any():
        return "names no users: predictions from history use virtual clusters, names and sizes alone"
    if load.origin.get("format") in USERS_ARE_VIRTUAL_CLUSTERS:
        return "names virtual clusters alone: they stand for users in predictions from history"
    return ""
