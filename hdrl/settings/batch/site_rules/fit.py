"""Which jobs the empty machine of a site can run at all."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hdrl.settings.batch.site_rules.model import UNLIMITED, SiteJobs, SiteRules, undemanding_jobs


def can_ever_start(
    rules: SiteRules, site: SiteJobs | None, cores: NDArray[np.int32], memory_mib: NDArray[np.float64]
) -> NDArray[np.bool_]:
    """Tell of each job whether one of its partitions has the nodes that it asks for, if all were free.

    Limits of time are not looked at: what a log says has run, has run.

    Parameters
    ----------
    cores, memory_mib
        Cores of each job and memory of each of them, shape ``(n_jobs,)``.
    """
    jobs = undemanding_jobs(len(cores)) if site is None else site.jobs
    table = np.stack(
        [
            np.where(jobs["partitions"] == 0, np.uint64(1 << rules.default_partition), jobs["partitions"]),
            cores.astype(np.uint64),
            np.where(jobs["nodes"] == UNLIMITED, 0, jobs["nodes"]).astype(np.uint64),
            jobs["features"],
            jobs["gpus"].astype(np.uint64),
            (np.ascontiguousarray(memory_mib) if rules.counts_memory else np.zeros(len(cores))).view(np.uint64),
        ],
        axis=1,
    )
    kinds, place = np.unique(table, axis=0, return_inverse=True)
    found = np.array([_can_start(rules, *row.tolist()) for row in kinds], dtype=np.bool_)
    return found[place.reshape(-1)]


def _can_start(
    rules: SiteRules, partitions: int, cores: int, n_nodes: int, features: int, gpus: int, memory: int
) -> bool:
    memory_mib = float(np.array([memory], dtype=np.uint64).view(np.float64)[0])
    nodes = rules.nodes
    for number, partition in enumerate(rules.partitions):
        if not partitions >> number & 1:
            continue
        suits = rules.partition_nodes[number] & (nodes["features"] & np.uint64(features) == features)
        suits = suits & (nodes["gpus"] >= gpus)
        room = nodes["cores"][suits].astype(np.int64)
        if memory_mib > 0:
            room = np.minimum(room, np.floor(nodes["memory_mib"][suits] / memory_mib).astype(np.int64))
        room = np.sort(room[room > 0])[::-1]
        most = len(room) if partition["max_nodes"] == UNLIMITED else int(partition["max_nodes"])
        if n_nodes <= most and len(room) >= max(n_nodes, 1) and int(np.sum(room[:most])) >= cores:
            return True
    return False
