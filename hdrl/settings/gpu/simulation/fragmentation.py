"""FGD's experiment (Weng et al., USENIX ATC 2023): pods arrive until a cluster is full, and none ends."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from hdrl.base.errors import WorkloadError
from hdrl.base.seeding import stream
from hdrl.compiled.borrowed import Borrowed
from hdrl.compiled.codes import check_status
from hdrl.settings.gpu.cluster.machine import GpuCluster
from hdrl.settings.gpu.kernel import codes, entries, state
from hdrl.settings.gpu.loads.load import WHOLE_GPU, GpuLoad
from hdrl.settings.gpu.policies.names import Policy
from hdrl.settings.gpu.policies.rules import NodeOrder, Rules, Tie
from hdrl.settings.gpu.simulation.events import classes_of, new_world

PUBLISHED_ORDER: NodeOrder = "shuffled"
"""The order of nodes behind the published table: its program numbers nodes anew in every run; the smallest name wins.
"""

MEASURED_AT = 0.9
"""Fragmentation is reported when pods that request this share of the cluster's GPUs have arrived; for FGD 49.97 % were
published."""

REQUESTS = 1.3
"""Pods arrive until they request 1.3 times the GPUs of the cluster."""


@dataclass(frozen=True, slots=True)
class Filled:
    """Result of filling a cluster."""

    allocated: float  # share of its GPUs that pods have in the end
    # numbers of pods that arrived, and that were placed
    n_pods: int
    n_placed: int
    requested: NDArray[np.float64]  # requests that had arrived after each pod, as a share of all GPUs
    used: NDArray[np.float64]  # GPUs that pods had then, as a share of all
    fragmented: NDArray[np.float64]  # GPUs that typical pods could not use then, as a share of those that no pod had

    @property
    def fragmentation(self) -> float:
        """The fragmentation ratio when pods that request `MEASURED_AT` of all GPUs have arrived."""
        position = int(np.searchsorted(self.requested, MEASURED_AT))
        return float(self.fragmented[min(position, len(self.fragmented) - 1)])


def arrivals(pods: GpuLoad, cluster: GpuCluster, seed: int, requests: float = REQUESTS) -> GpuLoad:
    """Return pods in random order, then copies of random ones until ``requests`` times the GPUs are requested."""
    draws = stream(seed, "gpu-pods")
    requested = pods.jobs["n_gpus"] * pods.jobs["gpu_milli"] / WHOLE_GPU
    if not requested.sum() > 0:
        raise WorkloadError(f"{pods.name}: no pod asks for a GPU")
    order = draws.permutation(pods.n_items)
    total = requested[order].sum()
    while total < requests * cluster.n_units:
        more = draws.integers(0, pods.n_items, pods.n_items)
        total += requested[more].sum()
        order = np.concatenate([order, more])
    n = int(np.searchsorted(np.cumsum(requested[order]), requests * cluster.n_units)) + 1
    jobs = pods.jobs[order[:n]]
    jobs["arrival_s"] = np.arange(len(jobs))
    return replace(pods, jobs=jobs)


def fill(
    cluster: GpuCluster,
    pods: GpuLoad,
    placement: str,
    *,
    seed: int,
    tie: Tie = "first",
    node_order: NodeOrder = PUBLISHED_ORDER,
    requests: float = REQUESTS,
) -> Filled:
    """Let pods arrive at a cluster until it is full; those that do not fit are turned away.

    Parameters
    ----------
    placement
        A name of `hdrl.settings.gpu.policies.names.PLACEMENTS`.
    tie, node_order
        Choice among equally good nodes; by default as in the published program.
    """
    load = arrivals(pods, cluster, seed, requests)
    _, arrays = classes_of(cluster, pods)
    typical = {name: array for name, array in arrays.items() if name.startswith("typical_")}
    rules = Rules(tie=tie, node_order=node_order)
    world = new_world(cluster, load, Policy("fifo", placement), seed=seed, rules=rules, records=False, typical=typical)
    shares, fragments = np.zeros(load.n_items), np.zeros(load.n_items)
    n_placed = entries.place_jobs(Borrowed(world).addresses, shares, fragments)
    check_status(n_placed, *codes.codes_of_rules(world.rules))
    requested = np.cumsum(load.jobs["n_gpus"] * load.jobs["gpu_milli"] / WHOLE_GPU)
    total = cluster.n_units
    return Filled(
        allocated=float(world.sums[0, state.BUSY_NOW]) / total,
        n_pods=load.n_items,
        n_placed=int(n_placed),
        requested=requested / total,
        used=shares / total,
        fragmented=fragments / WHOLE_GPU / np.maximum(total - shares, 1e-9),
    )
