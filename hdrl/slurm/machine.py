"""The machine of a platform as Slurm sees it: few nodes, each of one or several nodes of the platform."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hdrl.base.errors import PlatformError
from hdrl.settings.batch.platform.model import Platform
from hdrl.settings.batch.site_rules.model import SiteRules
from hdrl.settings.batch.workload.model import Workload

MAX_NODE_CORES = 65_533
"""CPUs of one node: Slurm counts them in 16 bits, of which it keeps the largest numbers for itself."""

_MAX_MEMORY_MIB = 2**40


@dataclass(frozen=True, slots=True)
class SlurmNode:
    """A node of Slurm.

    Attributes
    ----------
    name
        ``k0n1``: the first node of kind 0; kinds are numbered by speed, the slowest first.
    kind
        Number of its kind.
    cores
        Ids of the cores of the platform that it stands for, ascending.
    memory_mib
        Its memory in MiB.
    like
        A node of the platform that it stands for; the rules of a site say the same of all of them.
    """

    name: str
    kind: int
    cores: NDArray[np.int64]
    memory_mib: int
    like: int = 0


@dataclass(frozen=True, slots=True)
class SlurmMachine:
    """All nodes.

    Attributes
    ----------
    nodes
        The nodes, the slowest kind first.
    speeds_flops
        Speed of a core of each kind in flop/s, ascending.
    counts_memory
        True if Slurm shares out memory, since jobs could run short of it.
    """

    nodes: tuple[SlurmNode, ...]
    speeds_flops: tuple[float, ...]
    counts_memory: bool


def machine_of(platform: Platform, workload: Workload, *, max_nodes: int) -> SlurmMachine:
    """Return the machine of a platform.

    Parameters
    ----------
    workload
        Its jobs: whether they could run short of memory or bandwidth decides what Slurm must do.
    max_nodes
        Largest number of nodes, since each needs a daemon.

    Raises
    ------
    PlatformError
        If Slurm cannot simulate it.
    """
    _check_bandwidth(platform, workload)
    node_of_core = platform.node_of_processor[platform.processor_of_core]
    cores_of_node = _cores_by(node_of_core)
    rules = platform.site
    counts_memory = _can_lack_memory(platform, workload, cores_of_node) and (rules is None or rules.counts_memory)
    memory_mib = platform.memory_mib
    if platform.n_nodes == 1 and not counts_memory and rules is None:
        # A machine that does not say its nodes: Slurm plans by nodes, so that one for all would be no machine to plan.
        cores_of_node = _cores_by(platform.processor_of_core)
        memory_mib = np.full(len(cores_of_node), platform.memory_mib[0] / len(cores_of_node))
    speed_of_core = platform.speed_flops[:, 0]
    for node, cores in enumerate(cores_of_node):
        if np.ptp(speed_of_core[cores]) > 0:
            raise PlatformError(
                f"{platform.name}: node {node} has cores of different speeds, and Slurm does not report which of "
                "them a job uses; simulator 'slurm' supports only nodes of equal cores"
            )
    speeds = np.unique(speed_of_core)
    kinds = [int(np.searchsorted(speeds, speed_of_core[cores[0]])) for cores in cores_of_node]
    if len(cores_of_node) > max_nodes and counts_memory:
        raise PlatformError(
            f"{platform.name}: jobs can run short of memory on its {len(cores_of_node):,} nodes, and slurm.daemons "
            f"allows {max_nodes:,}; raise it, or ignore memory (--set workload.memory=none)"
        )
    shared = [() if rules is None else _of_node(rules, node) for node in range(len(kinds))]
    alike = sorted(set(zip(kinds, shared, strict=True)))
    if len(alike) > max_nodes:
        raise PlatformError(
            f"{platform.name} has {len(alike):,} kinds of nodes, and each needs a daemon; raise "
            f"slurm.daemons from {max_nodes:,}"
        )
    groups = [[node for node, own in enumerate(zip(kinds, shared, strict=True)) if own == one] for one in alike]
    nodes: list[SlurmNode] = []
    shares = _shares([len(one) for one in groups], max_nodes)
    for (kind, _), group, n_parts in zip(alike, groups, shares, strict=True):
        for part in np.array_split(np.array(group), n_parts):
            cores = np.concatenate([cores_of_node[node] for node in part.tolist()]).astype(np.int64)
            whole_mib = max(int(min(float(np.sum(memory_mib[part])), _MAX_MEMORY_MIB)), 1)
            number = 1 + sum(one.kind == kind for one in nodes)
            nodes.append(SlurmNode(f"k{kind}n{number}", kind, cores, whole_mib, group[0]))
    largest = max(len(node.cores) for node in nodes)
    if largest > MAX_NODE_CORES:
        raise PlatformError(
            f"{platform.name}: a node of Slurm would have {largest:,} cores, more than {MAX_NODE_CORES:,}; raise "
            "slurm.daemons, or take a smaller machine"
        )
    return SlurmMachine(tuple(nodes), tuple(speeds.tolist()), counts_memory)


def _of_node(rules: SiteRules, node: int) -> tuple[tuple[float, ...], ...]:
    """Return the rules of a site about a node: only nodes with equal rules are merged."""
    outages = rules.outages[rules.outages["node"] == node]
    return (
        tuple(rules.partition_nodes[:, node].tolist()),
        tuple(rules.reservation_nodes[:, node].tolist() if len(rules.reservations) else ()),
        tuple(rules.nodes[["features", "weight"]][node].tolist()),
        *(tuple(row) for row in outages[["start_s", "end_s", "is_drain"]].tolist()),
    )


def _cores_by(unit_of_core: NDArray[np.int32]) -> list[NDArray[np.int64]]:
    """Return the cores of each unit; those of one unit have ids side by side."""
    return np.split(np.arange(len(unit_of_core)), np.flatnonzero(np.diff(unit_of_core)) + 1)


def _shares(sizes: list[int], total: int) -> list[int]:
    """Return into how many nodes of Slurm the nodes of each kind are put, at most as many as they are."""
    shares = [1] * len(sizes)
    while sum(shares) < total:
        fullest = max(range(len(sizes)), key=lambda kind: sizes[kind] / shares[kind])
        if sizes[fullest] <= shares[fullest]:
            break
        shares[fullest] += 1
    return shares


def _check_bandwidth(platform: Platform, workload: Workload) -> None:
    n_cores = np.diff(platform.first_core_of_processor)
    most_gbps = float(np.max(workload.jobs["bandwidth_gbps"], initial=0.0))
    if np.any(most_gbps * n_cores > platform.bandwidth_gbps):
        raise PlatformError(
            "jobs can over-commit the memory bandwidth of processors, which slows nothing down where jobs only sleep; "
            "simulator 'slurm' supports only jobs without it: --set workload.bandwidth=none"
        )


def _can_lack_memory(platform: Platform, workload: Workload, cores_of_node: list[NDArray[np.int64]]) -> bool:
    most_mib = float(np.max(workload.jobs["memory_mib"], initial=0.0))
    n_cores = np.array([len(cores) for cores in cores_of_node])
    return bool(np.any(most_mib * n_cores > platform.memory_mib))
