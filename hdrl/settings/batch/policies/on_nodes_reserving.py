"""Policies that keep jobs on nodes and let others overtake the head of the queue where they do not delay it.

Who is tried in which order is said by `on_nodes_backfill`. What is reserved are cores of single nodes, under rules of
IRMaSim; so neither `backfilling.Easy` nor `on_nodes.NodeEasy` finds the dates.
"""

from __future__ import annotations

import abc
import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hdrl.settings.batch.policies.machine import MachinePicture
from hdrl.settings.batch.policies.on_nodes import QUEUE, NodeEasy, free_cores
from hdrl.settings.batch.policies.on_nodes_energy import ENDS, NODES, check_power, expected_energy
from hdrl.settings.batch.simulation.view import View


class _Running(NamedTuple):
    """A job on a node: when it is expected to end, its first core, its index and its cores."""

    end_s: float
    first_core: int
    job: int
    cores: int


class Protected(NamedTuple):
    """When the head is expected to fit on a node, in seconds, and what is free there then."""

    date_s: float
    cores: int
    memory_mib: float


class NodeReserving(NodeEasy):
    """What these policies have in common: what the head of the queue needs, and who may overtake it.

    Parameters
    ----------
    kind
        The rule, a word of `on_nodes_backfill`.
    detail
        What follows it in the name.
    node_selection
        A name of `on_nodes.NODE_SELECTIONS`, or of `on_nodes_energy.NODES`.
    """

    def __init__(self, kind: str, detail: str, node_selection: str, *, seed: int = 0) -> None:
        self.kind, self.detail = kind, detail
        super().__init__(node_selection, seed=seed)
        self.job_selection = f"{QUEUE}{kind}_{detail}" if detail else f"{QUEUE}{kind}"

    @property
    def looks_at_times(self) -> bool:
        """Whether it looks at requested times: always."""
        return True

    @property
    @abc.abstractmethod
    def _protects_one(self) -> bool:
        """Whether only the node is protected on which the head is expected to fit first."""

    def _begin(self) -> None:
        super()._begin()
        self._places: dict[int, tuple[int, int]] = {}  # node and first core of each running job
        self._free: NDArray[np.int64] | None = None
        self._protected: dict[int, Protected | None] = {}

    def _machine(self, view: View) -> MachinePicture:
        if self.node_selection in NODES:
            check_power(self.name, view)
        machine = super()._machine(view)
        self._forget_picture()
        self._whole = np.bincount(machine.tables.node_of_core, minlength=len(machine.free_memory_mib))
        return machine

    def _forget_picture(self) -> None:
        self._free = None
        self._protected = {}

    def _node_keys(self, machine: MachinePicture, job: int) -> NDArray[np.float64]:
        if self.node_selection not in NODES:
            return super()._node_keys(machine, job)
        criterion, _, end = self.node_selection.partition("_")
        running = (cores for _, cores in self._running.values())
        return ENDS[end] * expected_energy(machine, running, job, is_edp=criterion == "edp")

    def start(self, machine: MachinePicture, job: int, counts: Mapping[int, int]) -> None:
        """Start a job on so many cores of a node; see `NodePolicy.start`."""
        super().start(machine, job, counts)
        (node,) = counts
        self._places[job] = node, min(machine.started[-1].cores)
        self._forget_picture()

    def _forget(self, job: int) -> None:
        super()._forget(job)
        self._places.pop(job, None)

    # ---- what is there

    def _expected_s(self, machine: MachinePicture, job: int, node: int) -> float:
        """Return how long a job is expected to run on a node, in seconds."""
        return machine.duration_at(job, float(machine.tables.gflops_of_node[node]))

    def _free_cores(self, machine: MachinePicture) -> NDArray[np.int64]:
        if self._free is None:
            self._free = free_cores(machine)
        return self._free

    def _tried_nodes(self, machine: MachinePicture, job: int) -> list[int]:
        """Return the nodes with a free core, in the order in which a job is tried on them."""
        return list(map(int, self._ordered(machine, np.flatnonzero(self._free_cores(machine) > 0), job)))

    def _is_empty(self, machine: MachinePicture, node: int) -> bool:
        return bool(self._free_cores(machine)[node] == self._whole[node])

    def _on(self, node: int) -> list[_Running]:
        """Return the jobs on a node in the order in which they are expected to end."""
        here = (
            _Running(self._running[job][0], core, job, int(self._running[job][1][node]))
            for job, (where, core) in self._places.items()
            if where == node
        )
        return sorted(here)

    # ---- what the head needs

    def _then(self, machine: MachinePicture, head: int, node: int) -> tuple[Protected, bool]:
        """Return when the head is expected to fit on a node; if it never does, when the node is empty, and no."""
        cores, memory_mib = int(self._free_cores(machine)[node]), float(machine.free_memory_mib[node])
        date_s, fits = -math.inf, False
        for end_s, _, job, taken in self._on(node):
            if fits and not self._ends_in_time(end_s, date_s):
                break
            date_s, cores = end_s, cores + taken
            memory_mib += taken * float(machine.jobs["memory_mib"][job])
            fits = fits or self._leaves(machine, head, cores, memory_mib)
        return Protected(date_s, cores, memory_mib), fits

    def _ends_in_time(self, end_s: float, date_s: float) -> bool:
        """Return whether what a job leaves is there, too, at the date at which the head fits."""
        return end_s <= date_s

    @staticmethod
    def _leaves(machine: MachinePicture, head: int, cores: int, memory_mib: float) -> bool:
        """Tell whether some cores and memory are enough for the head."""
        room = machine.room(head, np.array([cores]), np.array([memory_mib]))
        return bool(room[0] >= machine.jobs["cores"][head])

    def _on_node(self, machine: MachinePicture, head: int, node: int) -> Protected | None:
        """Return what is protected on a node; ``None``: nothing."""
        if node not in self._protected:
            self._protected[node] = (
                self._if_best(machine, head, node) if self._protects_one else self._then(machine, head, node)[0]
            )
        return self._protected[node]

    def _if_best(self, machine: MachinePicture, head: int, node: int) -> Protected | None:
        """Return what the head needs on a node, if that is where it is expected to fit first."""
        dates_s = []
        for other in range(len(self._whole)):
            then, fits = self._then(machine, head, other)
            dates_s.append(then.date_s if fits else math.inf)
        return self._then(machine, head, node)[0] if node == int(np.argmin(dates_s)) else None

    def _may_start(self, machine: MachinePicture, head: int, job: int, node: int) -> bool:
        """Tell whether a job may start on a node now, although the head waits."""
        if not self._fits(machine, job, node):
            return False
        if self._is_empty(machine, node):
            return True
        protected = self._on_node(machine, head, node)
        if protected is None or machine.now_s + self._expected_s(machine, job, node) <= protected.date_s:
            return True
        wanted = int(machine.jobs["cores"][job])
        memory_mib = protected.memory_mib - wanted * float(machine.jobs["memory_mib"][job])
        return self._leaves(machine, head, protected.cores - wanted, memory_mib)

    def _overtake(self, machine: MachinePicture, queue: list[int], job: int, node: int) -> None:
        self.start(machine, job, {node: int(machine.jobs["cores"][job])})
        queue.remove(job)
