"""Policies that choose nodes and keep jobs on them, as IRMaSim's managers Heuristic and Backfill do.

The name of a *node selection* stands where that of a core selection would, with ``node_`` before it:
``shortest-node_low_power``, ``fcfs+easy-node_high_gflops``.

====================  ======================================================================
node selection        the next node is one with enough free cores and memory,
====================  ======================================================================
``node_random``       any
``node_first``        that comes first in the platform
``node_high_gflops``  with the highest speed of its slowest core
``node_high_cores``   with the most free cores
``node_low_cores``    with the fewest free cores
``node_high_mem``     with the most free memory
``node_high_mem_bw``  with the most memory bandwidth that its running jobs do not demand
``node_low_power``    that draws the least when all its cores serve
====================  ======================================================================

Without backfilling, a job is given as many nodes as its workload says (`Workload.nodes`; one if it says nothing), and
its cores are dealt out among them, one to each in turn; nothing overtakes a job that does not fit. With ``fcfs+easy``,
a job is kept on one node, and each node backfills by itself: until the date on which the head of the queue would fit
there, jobs that are expected to end by then may start there. That is IRMaSim's rule, not EASY's: each node has a date
of its own, and spare cores do not count, while `backfilling.Easy` has one date for the machine.

Others are in `node_policies_energy` and `node_policies_backfill`; `python_policies` reads their names.

Source: IRMaSim, https://github.com/irmasim/IRMaSim, its workload managers Heuristic and Backfill (2021-2023). Here
memory is respected, a job that fits nowhere is an error, and selections do what their names say
(published versions of Heuristic take the node that draws *most* for ``low_power`` and the one whose memory is
*fullest* for ``high_mem``; the last one was not seen).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hdrl.base.errors import DecisionError, UnknownName
from hdrl.base.seeding import stream
from hdrl.settings.batch.policies.backfilling import Backfilling
from hdrl.settings.batch.policies.choices import NODE
from hdrl.settings.batch.policies.machine import MachinePicture
from hdrl.settings.batch.policies.priorities import WaitingJob
from hdrl.settings.batch.simulation.view import View

QUEUE = "fcfs+"
"""Prefix of the names of policies that backfill."""

BACKFILLING = f"{QUEUE}easy"
"""The job selection of the manager that backfills."""

RANDOM = "random"

JOB_KEYS: Mapping[str, Callable[[WaitingJob], float]] = MappingProxyType(
    {
        "first": lambda _job: 0.0,
        "shortest": lambda job: job.requested_time_s,
        "longest": lambda job: -job.requested_time_s,
        "smallest": lambda job: job.cores,
        "low_mem": lambda job: job.memory_mib,
        "low_mem_bw": lambda job: job.bandwidth_gbps,
    }
)
"""Keys of job selections; the lowest is next, ties go to the job that came first. ``random`` draws instead."""

TIMED = frozenset({"shortest", "longest", BACKFILLING})
"""Job selections that look at requested times."""

NODE_SELECTIONS = (RANDOM, "first", "high_gflops", "high_cores", "low_cores", "high_mem", "high_mem_bw", "low_power")


def check_name(what: str, name: str, known: tuple[str, ...], prefix: str = "") -> None:
    """Refuse a name that is not known; messages put a prefix before all of them."""
    if name not in known:
        raise UnknownName(what, f"{prefix}{name}", [f"{prefix}{one}" for one in known])


class NodePolicy(Backfilling):
    """Base of node policies: the order of nodes, and what each of them has left."""

    def __init__(self, job_selection: str, node_selection: str, *, seed: int = 0) -> None:
        self.job_selection, self.node_selection, self.seed = job_selection, node_selection, seed
        super().__init__(self._key)

    rule = ""
    """Part of its name behind the job selection."""

    _running: dict[int, tuple[float, NDArray[np.int64]]]
    """Expected end and cores per node."""

    @property
    def name(self) -> str:
        """Its name."""
        return f"{self.job_selection}{self.rule}{NODE}{self.node_selection}"

    @property
    def looks_at_times(self) -> bool:
        """True if it uses requested times."""
        return self.job_selection in TIMED

    def _begin(self) -> None:
        super()._begin()
        self._rng = stream(self.seed, "nodes of jobs")
        self._drawn = np.zeros(0)

    def _machine(self, view: View) -> MachinePicture:
        self._nodes = view.workload.nodes
        if not len(self._drawn):
            self._drawn = stream(self.seed, "order of jobs").random(view.workload.n_jobs)
        return super()._machine(view)

    def _key(self, job: WaitingJob, now_s: float) -> float:
        del now_s
        if self.job_selection == RANDOM:
            return float(self._drawn[job.job])
        return JOB_KEYS[self.job_selection](job)

    def _ordered(self, machine: MachinePicture, nodes: NDArray[np.int64], job: int) -> NDArray[np.int64]:
        """Return some nodes in the order of the node selection; ties go to the one that comes first."""
        if self.node_selection == RANDOM:
            return self._rng.permutation(nodes)
        return nodes[np.argsort(self._node_keys(machine, job)[nodes], kind="stable")]

    def _node_keys(self, machine: MachinePicture, job: int) -> NDArray[np.float64]:
        """Return the sort key of each node for a job, the lowest first."""
        del job
        platform = machine.tables.platform
        n_nodes = platform.n_nodes
        if self.node_selection == "first":
            return np.zeros(n_nodes)
        if self.node_selection == "high_gflops":
            return -machine.tables.gflops_of_node
        if self.node_selection == "high_mem":
            return -machine.free_memory_mib
        if self.node_selection == "high_mem_bw":
            left_gbps = np.bincount(platform.node_of_processor, platform.bandwidth_gbps, n_nodes).astype(np.float64)
            for job, (_, cores) in self._running.items():
                left_gbps -= cores * float(machine.jobs["bandwidth_gbps"][job])
            return -left_gbps
        if self.node_selection == "low_power":
            cores = np.diff(platform.first_core_of_processor)
            power_w = np.bincount(platform.node_of_processor, platform.peak_power_w * cores, n_nodes)
            return power_w.astype(np.float64)
        free = free_cores(machine).astype(np.float64)
        return -free if self.node_selection == "high_cores" else free

    def start(self, machine: MachinePicture, job: int, counts: Mapping[int, int]) -> None:
        """Start a job on a number of cores of each node, the free ones with the lowest ids."""
        free = np.flatnonzero(machine.free)
        node_of_free = machine.tables.node_of_core[free]
        cores = np.sort(np.concatenate([free[node_of_free == node][:count] for node, count in counts.items()]))
        self._running[job] = (machine.start(job, cores), machine.cores_per_node(cores))

    def check(self, machine: MachinePicture, job: int, n_nodes: int, each: int) -> None:
        """Refuse a job for which there will never be nodes enough."""
        whole = np.bincount(machine.tables.node_of_core, minlength=len(machine.free_memory_mib))
        able = machine.room(job, whole, machine.tables.platform.memory_mib) >= each
        if np.count_nonzero(able) < n_nodes:
            memory_mib = float(machine.jobs["memory_mib"][job]) * each
            raise DecisionError(
                f"job {job} wants {n_nodes} node{'s' if n_nodes > 1 else ''} with {each} cores and {memory_mib:g} MiB"
                f" each, the platform has {np.count_nonzero(able)} such nodes; its widest node has {whole.max()} cores"
            )


class NodeHeuristic(NodePolicy):
    """IRMaSim's Heuristic: the next job gets the next nodes, and nothing overtakes it."""

    def _decide(self, machine: MachinePicture, queue: list[int], arrivals: list[int]) -> None:
        del arrivals
        for job in queue:
            wanted = int(machine.jobs["cores"][job])
            n_nodes = 1 if self._nodes is None else int(self._nodes[job])
            each = math.ceil(wanted / n_nodes)
            self.check(machine, job, n_nodes, each)
            room = machine.room(job, free_cores(machine), machine.free_memory_mib)
            nodes = self._ordered(machine, np.flatnonzero(room >= each), job)[:n_nodes].tolist()
            if len(nodes) < n_nodes:
                return
            shares = {node: len(range(position, wanted, n_nodes)) for position, node in enumerate(nodes)}
            self.start(machine, job, shares)


class _Running(NamedTuple):
    """A job on a node: when it is expected to end, its first core, its index and its cores."""

    end_s: float
    first_core: int
    job: int
    cores: int


class Protected(NamedTuple):
    """Date at which the head is expected to fit on a node, in seconds, and what is free there then."""

    date_s: float
    cores: int
    memory_mib: float


class NodeEasy(NodePolicy):
    """IRMaSim's Backfill: a job is kept on one node, and each node backfills by itself."""

    def __init__(self, node_selection: str, *, seed: int = 0) -> None:
        super().__init__(BACKFILLING, node_selection, seed=seed)

    def _begin(self) -> None:
        super()._begin()
        self._positions: dict[int, tuple[int, int]] = {}  # node and first core of each running job

    def start(self, machine: MachinePicture, job: int, counts: Mapping[int, int]) -> None:
        """Start a job on a number of cores of a node; see `NodePolicy.start`."""
        super().start(machine, job, counts)
        (node,) = counts
        self._positions[job] = node, min(machine.started[-1].cores)

    def _forget(self, job: int) -> None:
        super()._forget(job)
        self._positions.pop(job, None)

    def _key(self, job: WaitingJob, now_s: float) -> float:
        del job, now_s
        return 0.0

    def _decide(self, machine: MachinePicture, queue: list[int], arrivals: list[int]) -> None:
        queue = list(arrivals)
        while queue and self._start_somewhere(machine, queue[0]):
            queue.pop(0)
        if len(queue) < 2:
            return
        self._backfill(machine, queue)

    def _backfill(self, machine: MachinePicture, queue: list[int]) -> None:
        """Start jobs behind the head of the queue, which fits nowhere."""
        head = queue[0]
        for node in self._ordered(machine, np.flatnonzero(free_cores(machine) > 0), head).tolist():
            then, fits = self._then(machine, head, node)
            for job in queue[1:] if fits else ():
                gflops = float(machine.tables.gflops_of_node[node])
                if machine.now_s + machine.duration_at(job, gflops) <= then.date_s and self._fits(machine, job, node):
                    self.start(machine, job, {node: int(machine.jobs["cores"][job])})
                    queue.remove(job)

    def _fits(self, machine: MachinePicture, job: int, node: int) -> bool:
        room = machine.room(job, free_cores(machine), machine.free_memory_mib)
        return bool(room[node] >= machine.jobs["cores"][job])

    def _start_somewhere(self, machine: MachinePicture, job: int) -> bool:
        wanted = int(machine.jobs["cores"][job])
        self.check(machine, job, 1, wanted)
        room = machine.room(job, free_cores(machine), machine.free_memory_mib)
        nodes = self._ordered(machine, np.flatnonzero(room >= wanted), job)
        if len(nodes):
            self.start(machine, job, {int(nodes[0]): wanted})
        return len(nodes) > 0

    def _free_cores(self, machine: MachinePicture) -> NDArray[np.int64]:
        return free_cores(machine)

    def _on(self, node: int) -> list[_Running]:
        """Return the jobs on a node in the order in which they are expected to end."""
        here = (
            _Running(self._running[job][0], core, job, int(self._running[job][1][node]))
            for job, (where, core) in self._positions.items()
            if where == node
        )
        return sorted(here)

    def _then(self, machine: MachinePicture, head: int, node: int) -> tuple[Protected, bool]:
        """Return date and resources with which the head fits on a node, and True; else the empty node's, and False."""
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


def free_cores(machine: MachinePicture) -> NDArray[np.int64]:
    """Return the number of free cores of each node, shape ``(n_nodes,)``."""
    return machine.cores_per_node(np.flatnonzero(machine.free))
