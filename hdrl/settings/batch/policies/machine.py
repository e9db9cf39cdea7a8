"""State of the machine for policies in Python that choose cores; it follows their own decisions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hdrl.base.errors import UnknownName
from hdrl.settings.batch.platform.model import Platform
from hdrl.settings.batch.simulation.decisions import Start
from hdrl.settings.batch.simulation.view import View

CORE_ORDERS = ("high_gflops", "low_power")
"""The core selections that do not depend on what else runs."""


@dataclass(frozen=True, slots=True, eq=False)
class CoreTables:
    """Constant tables of a simulation; making them takes longer than a decision."""

    platform: Platform
    reference_flops: float  # the speed at which requested times are meant, in flop/s
    node_of_core: NDArray[np.int32]  # node of each core, shape ``(n_cores,)``
    # speed of each core, and of the slowest core of each node
    gflops_of_core: NDArray[np.float64]
    gflops_of_node: NDArray[np.float64]
    node_order: list[int]  # the nodes, those with the best processors first
    core_order: NDArray[np.int64]  # the cores, the best first

    @classmethod
    def of(cls, platform: Platform, core_selection: str) -> CoreTables:
        """Return the tables of a platform."""
        if core_selection not in CORE_ORDERS:
            raise UnknownName("core selection of a policy in Python", core_selection, CORE_ORDERS)
        processors = platform.processor_of_core
        rank = -platform.peak_flops if core_selection == "high_gflops" else platform.peak_power_w
        # Nodes in the order of their best processor.
        nodes = platform.node_of_processor[np.argsort(rank, kind="stable")]
        return cls(
            platform,
            platform.reference_gflops * 1e9,
            platform.node_of_processor[processors],
            platform.peak_flops[processors] / 1e9,
            np.minimum.reduceat(platform.peak_flops, platform.first_processor_of_node[:-1]) / 1e9,
            list(dict.fromkeys(nodes.tolist())),
            np.argsort(rank[processors], kind="stable"),
        )


class MachinePicture:
    """The free cores and memory of a view, and how they change by what is started.

    Attributes
    ----------
    free
        True if each core is free, shape ``(n_cores,)``.
    free_memory_mib
        Free memory of each node in MiB, shape ``(n_nodes,)``.
    now_s
        Date in seconds.
    """

    def __init__(self, view: View, tables: CoreTables) -> None:
        self.tables = tables
        self.jobs = view.workload.jobs
        self.now_s = view.now_s
        self.free = np.zeros(tables.platform.n_cores, dtype=bool)
        self.free[view.free_cores] = True
        self.free_memory_mib = view.free_memory_mib
        self.started: list[Start] = []

    @property
    def n_free(self) -> int:
        """Number of free cores."""
        return int(np.count_nonzero(self.free))

    def choose(self, job: int) -> NDArray[np.int64] | None:
        """Return the cores that a job gets now, ascending, or ``None`` if it does not fit."""
        wanted, memory_mib = int(self.jobs["cores"][job]), float(self.jobs["memory_mib"][job])
        if wanted > self.n_free:  # long queues are tried job by job
            return None
        free = self.tables.core_order[self.free[self.tables.core_order]]
        if memory_mib <= 0.0:
            return np.sort(free[:wanted]) if len(free) >= wanted else None
        left_mib = self.free_memory_mib.copy()
        chosen: list[int] = []
        for core in free.tolist():
            if len(chosen) == wanted:
                break
            node = self.tables.node_of_core[core]
            if left_mib[node] >= memory_mib:
                left_mib[node] -= memory_mib
                chosen.append(core)
        return np.sort(np.array(chosen, dtype=np.int64)) if len(chosen) == wanted else None

    def start(self, job: int, cores: NDArray[np.int64]) -> float:
        """Start a job on free cores, as many as it asks for; return its expected end in seconds."""
        self.free[cores] = False
        np.subtract.at(self.free_memory_mib, self.tables.node_of_core[cores], float(self.jobs["memory_mib"][job]))
        self.started.append(Start(int(job), cores.tolist()))
        return self.now_s + self.duration_s(job, cores)

    def duration_s(self, job: int, cores: NDArray[np.int64]) -> float:
        """Return the expected run time of a job on some cores; the slowest sets the pace; in seconds."""
        return self.duration_at(job, float(self.tables.gflops_of_core[cores].min()))

    def duration_at(self, job: int, gflops: float) -> float:
        """Return the expected run time of a job on cores of a speed, in seconds."""
        return self.requested_s(job) * self.tables.reference_flops / (gflops * 1e9)

    def requested_s(self, job: int) -> float:
        """Return the requested time of a job in seconds; an unknown one (-1) is 0, as in the kernel."""
        return max(float(self.jobs["requested_time_s"][job]), 0.0)

    def cores_per_node(self, cores: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the number of some cores on each node, shape ``(n_nodes,)``."""
        return np.bincount(self.tables.node_of_core[cores], minlength=len(self.free_memory_mib))

    def room(self, job: Any, cores: NDArray[np.int64], memory_mib: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return the number of cores of a job that fit on each node."""
        asked_mib = float(self.jobs["memory_mib"][job])
        if asked_mib <= 0.0:
            return np.maximum(cores, 0)
        by_memory = np.minimum(np.floor(memory_mib / asked_mib), 1e9).astype(np.int64)
        return np.maximum(np.minimum(cores, by_memory), 0)
