"""Backfilling node by node, as IRMaSim's managers HBackfill, HBackfillR, BackfillFit and BackfillBestFit do.

The head of the queue, which came first, starts on the next node of a node selection on which it fits. If there is none,
jobs behind it may start where they do not delay it: on a node without jobs, where the head cannot fit in any case; or
where they are expected to end by the date at which the head would fit there, or leave it what it needs then.

=========================================  ==============  =======================================================
policy                                     protected is    jobs that may overtake are tried
=========================================  ==============  =======================================================
``fcfs+hbackfill_<order>-node_<node>``     every node      those that an empty node can hold first, as they came;
                                                           then the others in an order
``fcfs+hbackfillr_<order>-node_<node>``    the node that   in an order
                                           the head is
                                           expected to
                                           fit on first
``fcfs+backfillfit_<fit>-node_<node>``     the same one    each on each node, by how well it fits there; anew
                                                           whenever one has started
``fcfs+backfillbestfit-node_<node>``       every node      the same by the least spare time
=========================================  ==============  =======================================================

Orders are ``first``, ``random``, ``shortest``, ``longest``, ``smallest``, ``largest`` and those of `on_nodes_energy`
(``timetasks_lowest``, ...). How well a job fits is ``time_best``, ``time_worst``, ``core_best``, ``core_worst``,
``timecore_best`` or ``timecore_worst``: by the time that it would leave until the head needs the node (0 on an empty
node, no limit on one that is not protected), by the cores that it would leave free, or by their product; the least
first, or the most. Node selections are those of `on_nodes`, but for the last two those by energies, too
(``node_energy_lowest``, ...).

Source: IRMaSim, https://github.com/irmasim/IRMaSim, its workload managers of these names in commits 5a1e395
(HBackfill), a7f863a (HBackfillR), c84811b (BackfillFit; ``timecore`` is of 3045cc1) and 0eea4a4
(BackfillBestFit), 2024. Their errors are left out, unless they are asked for (``as_published``):

- jobs are expected to take as long on slow nodes as on fast ones;
- HBackfillR and BackfillFit look at nodes in the order of the platform, and protect each that no later one beats, not
  only the best; and what they let overtake on a protected node for good, because enough cores are left there, is
  counted with the jobs of the last node of the platform.

Memory is respected and node selections do what their names say, see `on_nodes`.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hdrl.errors import UnknownName
from hdrl.settings.batch.policies.machine import MachinePicture
from hdrl.settings.batch.policies.on_nodes import (
    JOB_KEYS,
    NODE_SELECTIONS,
    QUEUE,
    RANDOM,
    NodeEasy,
    free_cores,
)
from hdrl.settings.batch.policies.on_nodes_energy import (
    ENDS,
    JOBS,
    NODES,
    check_power,
    energies_of,
    expected_energy,
    job_key,
)
from hdrl.settings.batch.policies.priorities import WaitingJob
from hdrl.settings.batch.simulation.view import View

ORDER_KEYS: Mapping[str, Callable[[WaitingJob], float]] = MappingProxyType(
    {
        **{name: JOB_KEYS[name] for name in ("first", "shortest", "longest", "smallest")},
        "largest": lambda job: -job.cores,
    }
)
"""What orders of jobs look at; the lowest is tried first, ties go to the job that came first."""

ORDERS = (RANDOM, *ORDER_KEYS, *JOBS)
"""The orders in which jobs are tried that may overtake; the last ones are those of `on_nodes_energy`."""

FITS = tuple(f"{metric}_{criterion}" for metric in ("time", "core", "timecore") for criterion in ("best", "worst"))
"""The ways to tell how well a job fits on a node."""

NO_LIMIT_S = sys.maxsize
"""The time that is left on a node that is not protected: IRMaSim's, finite, so that times no cores it is zero."""

BY_ORDER = {"hbackfill": False, "hbackfillr": True}
"""The rules that try jobs in an order, and whether only the best node is protected."""

BY_FIT = "backfillfit"
BY_BEST_FIT = "backfillbestfit"


def read_backfilling(rule: str, node: str, *, seed: int = 0, as_published: bool = False) -> NodeReserving:
    """Return a policy by the two parts of its name.

    Parameters
    ----------
    rule
        What stands between ``fcfs+`` and ``-node_``, for instance ``"hbackfill_shortest"``.
    node
        The node selection.
    seed
        Seed of what is drawn.
    as_published
        Whether it has the errors of IRMaSim's versions.

    Raises
    ------
    UnknownName
        If there is no such rule, order, fit or node selection.
    """
    kind, _, detail = rule.partition("_")
    if kind in BY_ORDER:
        _check("order of jobs that overtake", detail, ORDERS)
        _check("node selection", node, (*NODE_SELECTIONS, *NODES), "node_")
        return NodeByOrder(kind, detail, node, seed=seed, as_published=as_published)
    if rule != BY_BEST_FIT:
        if kind != BY_FIT:
            raise UnknownName("backfilling on nodes", rule, _rules())
        _check("fit of jobs on nodes", detail, FITS)
    _check("node selection", node, NODE_SELECTIONS, "node_")
    return NodeByFit(kind, detail, node, seed=seed, as_published=as_published)


def _rules() -> list[str]:
    by_order = [f"{kind}_{order}" for kind in BY_ORDER for order in ORDERS]
    return ["easy", *by_order, *(f"{BY_FIT}_{fit}" for fit in FITS), BY_BEST_FIT]


def _check(what: str, name: str, known: tuple[str, ...], prefix: str = "") -> None:
    if name not in known:
        raise UnknownName(what, f"{prefix}{name}", [f"{prefix}{one}" for one in known])


class _Running(NamedTuple):
    """A job on a node: when it is expected to end, its first core, its index and its cores."""

    end_s: float
    first_core: int
    job: int
    cores: int


class _Protected(NamedTuple):
    """When the head is expected to fit on a node, in seconds, and what is free there then."""

    date_s: float
    cores: int
    memory_mib: float


class NodeReserving(NodeEasy):
    """What these policies have in common: what the head of the queue needs, and who may overtake it.

    Parameters
    ----------
    kind
        A word of `BY_ORDER`, `BY_FIT` or `BY_BEST_FIT`.
    detail
        What follows it in the name.
    node_selection
        A name of `on_nodes.NODE_SELECTIONS`, or of `on_nodes_energy.NODES`.
    seed
        Seed of what is drawn.
    as_published
        Whether it has the errors of IRMaSim's versions.
    """

    def __init__(
        self, kind: str, detail: str, node_selection: str, *, seed: int = 0, as_published: bool = False
    ) -> None:
        self.kind, self.detail, self.as_published = kind, detail, as_published
        super().__init__(node_selection, seed=seed)
        self.job_selection = f"{QUEUE}{kind}_{detail}" if detail else f"{QUEUE}{kind}"

    @property
    def looks_at_times(self) -> bool:
        """Whether it looks at requested times: always."""
        return True

    @property
    def _protects_one(self) -> bool:
        return BY_ORDER.get(self.kind, self.kind == BY_FIT)

    def _begin(self) -> None:
        super()._begin()
        self._places: dict[int, tuple[int, int]] = {}  # node and first core of each running job
        self._free: NDArray[np.int64] | None = None
        self._protected: dict[int, _Protected | None] = {}

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
        if self.as_published:
            self._running[job] = machine.now_s + self._asked_s(machine, job), self._running[job][1]
        self._forget_picture()

    def _forget(self, job: int) -> None:
        super()._forget(job)
        self._places.pop(job, None)

    # ---- what is there

    @staticmethod
    def _asked_s(machine: MachinePicture, job: int) -> float:
        return float(machine.jobs["requested_time_s"][job])

    def _expected_s(self, machine: MachinePicture, job: int, node: int) -> float:
        """Return how long a job is expected to run on a node, in seconds."""
        if self.as_published:
            return self._asked_s(machine, job)
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

    def _then(self, machine: MachinePicture, head: int, node: int) -> tuple[_Protected, bool]:
        """Return when the head is expected to fit on a node; if it never does, when the node is empty, and no."""
        cores, memory_mib = int(self._free_cores(machine)[node]), float(machine.free_memory_mib[node])
        date_s, fits = -math.inf, False
        for end_s, _, job, taken in self._on(node):
            if fits and (end_s > date_s or self.as_published):
                break
            date_s, cores = end_s, cores + taken
            memory_mib += taken * float(machine.jobs["memory_mib"][job])
            fits = fits or self._leaves(machine, head, cores, memory_mib)
        return _Protected(date_s, cores, memory_mib), fits

    @staticmethod
    def _leaves(machine: MachinePicture, head: int, cores: int, memory_mib: float) -> bool:
        """Tell whether some cores and memory are enough for the head."""
        room = machine.room(head, np.array([cores]), np.array([memory_mib]))
        return bool(room[0] >= machine.jobs["cores"][head])

    def _on_node(self, machine: MachinePicture, head: int, node: int) -> _Protected | None:
        """Return what is protected on a node; ``None``: nothing."""
        if node not in self._protected:
            self._protected[node] = (
                self._if_best(machine, head, node) if self._protects_one else self._then(machine, head, node)[0]
            )
        return self._protected[node]

    def _if_best(self, machine: MachinePicture, head: int, node: int) -> _Protected | None:
        """Return what the head needs on a node, if that is where it is expected to fit first."""
        if self.as_published:
            return self._if_no_later_one_is_better(machine, head, node)
        dates_s = []
        for other in range(len(self._whole)):
            then, fits = self._then(machine, head, other)
            dates_s.append(then.date_s if fits else math.inf)
        return self._then(machine, head, node)[0] if node == int(np.argmin(dates_s)) else None

    def _if_no_later_one_is_better(self, machine: MachinePicture, head: int, node: int) -> _Protected | None:
        """Return what the two published versions protect: see the head of this file."""
        date_s, where, last = math.inf, node, 0
        for other in range(len(self._whole)):
            left = int(self._free_cores(machine)[other])
            for place, one in enumerate(self._on(other)):
                left += one.cores
                if left >= machine.jobs["cores"][head]:
                    if one.end_s < date_s:
                        where, last = other, place
                        date_s = one.end_s if other == node else math.inf
                    break
        if where != node:
            return None
        outlasting = sum(one.cores for one in self._on(len(self._whole) - 1)[last + 1 :])
        return _Protected(date_s, int(self._whole[node]) - outlasting, math.inf)

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


class NodeByOrder(NodeReserving):
    """IRMaSim's HBackfill and HBackfillR: jobs that may overtake are tried in an order."""

    def _machine(self, view: View) -> MachinePicture:
        machine = super()._machine(view)
        needs_energy = self.detail in JOBS and not self.detail.startswith("timetasks")
        self._energy_j = energies_of(self.name, view) if needs_energy else None
        return machine

    def _key(self, job: WaitingJob, now_s: float) -> float:
        del now_s
        if self.detail in JOBS:
            return job_key(job, self.detail, self._energy_j)
        return 0.0 if self.detail == RANDOM else ORDER_KEYS[self.detail](job)

    def _decide(self, machine: MachinePicture, queue: list[int], arrivals: list[int]) -> None:
        self._in_order = queue
        super()._decide(machine, queue, arrivals)

    def _backfill(self, machine: MachinePicture, queue: list[int]) -> None:
        head = queue[0]
        candidates = set()
        for job in queue[1:]:
            node = self._place(machine, head, job)
            if node is None:
                continue
            if self._is_empty(machine, node) and not self._protects_one:
                self._overtake(machine, queue, job, node)
            else:
                candidates.add(job)
        tried = [job for job in self._in_order if job in candidates]
        if self.detail == RANDOM:
            tried = self._rng.permutation(tried).tolist()
        for job in tried:
            node = self._place(machine, head, job)
            if node is not None:
                self._overtake(machine, queue, job, node)

    def _place(self, machine: MachinePicture, head: int, job: int) -> int | None:
        """Return the first node on which a job may start now."""
        return next(
            (node for node in self._tried_nodes(machine, job) if self._may_start(machine, head, job, node)), None
        )


class NodeByFit(NodeReserving):
    """IRMaSim's BackfillFit and BackfillBestFit: whatever fits best on a node is tried first."""

    def _backfill(self, machine: MachinePicture, queue: list[int]) -> None:
        head = queue[0]
        pairs = [
            (job, node)
            for job in queue[1:]
            for node in self._tried_nodes(machine, job)
            if self._may_start(machine, head, job, node)
        ]
        while pairs:
            # Sorting what is sorted already keeps the order of those that are alike.
            pairs.sort(key=lambda pair: self._fit(machine, head, *pair))
            job, node = pairs.pop(0)
            while pairs and not self._may_start(machine, head, job, node):
                job, node = pairs.pop(0)
            if self._may_start(machine, head, job, node):
                self._overtake(machine, queue, job, node)
                pairs = [pair for pair in pairs if pair[0] != job]

    def _fit(self, machine: MachinePicture, head: int, job: int, node: int) -> float:
        """Return how well a job fits on a node, the best first."""
        metric, _, criterion = self.detail.partition("_")
        left_cores = int(self._free_cores(machine)[node] - machine.jobs["cores"][job])
        if metric == "core":
            spare: float = left_cores
        else:
            spare = self._spare_s(machine, head, job, node) * (left_cores if metric == "timecore" else 1)
        return -spare if criterion == "worst" else spare

    def _spare_s(self, machine: MachinePicture, head: int, job: int, node: int) -> float:
        """Return how long before the head needs a node a job is expected to leave it, in seconds."""
        is_first = self.kind == BY_BEST_FIT and not self.as_published
        if self._is_empty(machine, node):
            return -NO_LIMIT_S if is_first else 0
        protected = self._on_node(machine, head, node)
        limit_s = NO_LIMIT_S if protected is None or protected.date_s == math.inf else protected.date_s
        if self.as_published:
            # Its numbers are whole where those of the workload are, so that even this difference is exact.
            asked_s = self._asked_s(machine, job)
            return limit_s - (int(asked_s) if asked_s.is_integer() else asked_s)
        return limit_s if limit_s == NO_LIMIT_S else limit_s - machine.now_s - self._expected_s(machine, job, node)
