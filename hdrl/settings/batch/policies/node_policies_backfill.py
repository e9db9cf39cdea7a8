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

Orders are ``first``, ``random``, ``shortest``, ``longest``, ``smallest``, ``largest`` and those of
`node_policies_energy` (``timetasks_lowest``, ...). How well a job fits is ``time_best``, ``time_worst``, ``core_best``,
``core_worst``, ``timecore_best`` or ``timecore_worst``: by the time that it would leave until the head needs the node
(0 on an empty node, no limit on one that is not protected), by the cores that it would leave free, or by their product;
the least first, or the most. Node selections are those of `node_policies`, but for the last two those by energies, too
(``node_energy_lowest``, ...).

Source: IRMaSim, https://github.com/irmasim/IRMaSim, its workload managers of these names in commits 5a1e395
(HBackfill), a7f863a (HBackfillR), c84811b (BackfillFit; ``timecore`` is of 3045cc1) and 0eea4a4
(BackfillBestFit), 2024. Their errors are left out; `hdrl.compat.irmasim.managers` has them.

Memory is respected and node selections do what their names say, see `node_policies`.
"""

from __future__ import annotations

import abc
import math
import sys
from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from hdrl.base.errors import UnknownName
from hdrl.settings.batch.policies.machine import MachinePicture
from hdrl.settings.batch.policies.node_policies import (
    JOB_KEYS,
    NODE_SELECTIONS,
    QUEUE,
    RANDOM,
    NodeEasy,
    Protected,
    check_name,
    free_cores,
)
from hdrl.settings.batch.policies.node_policies_energy import (
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
"""Keys of orders of jobs; the lowest is tried first, ties go to the job that came first."""

ORDERS = (RANDOM, *ORDER_KEYS, *JOBS)
"""The orders in which jobs are tried that may overtake; the last ones are those of `node_policies_energy`."""

FITS = tuple(f"{metric}_{criterion}" for metric in ("time", "core", "timecore") for criterion in ("best", "worst"))
"""The ways to tell how well a job fits on a node."""

NO_LIMIT_S = sys.maxsize
"""The time that is left on a node that is not protected: IRMaSim's, finite, so that times no cores it is zero."""

BY_ORDER = {"hbackfill": False, "hbackfillr": True}
"""The rules that try jobs in an order, and whether only the best node is protected."""

BY_FIT = "backfillfit"
BY_BEST_FIT = "backfillbestfit"


def read_backfilling(
    rule: str,
    node: str,
    *,
    seed: int = 0,
    by_order: Callable[..., NodeReserving] | None = None,
    by_fit: Callable[..., NodeReserving] | None = None,
) -> NodeReserving:
    """Return a policy by the two parts of its name.

    Parameters
    ----------
    rule
        Part of the name between ``fcfs+`` and ``-node_``, for instance ``"hbackfill_shortest"``.
    by_order, by_fit
        Classes to make instead of `NodeByOrder` and `NodeByFit`.

    Raises
    ------
    UnknownName
        If there is no such rule, order, fit or node selection.
    """
    kind, _, detail = rule.partition("_")
    if kind in BY_ORDER:
        check_name("order of jobs that overtake", detail, ORDERS)
        check_name("node selection", node, (*NODE_SELECTIONS, *NODES), "node_")
        return (by_order or NodeByOrder)(kind, detail, node, seed=seed)
    if rule != BY_BEST_FIT:
        if kind != BY_FIT:
            raise UnknownName("backfilling on nodes", rule, _rules())
        check_name("fit of jobs on nodes", detail, FITS)
    check_name("node selection", node, NODE_SELECTIONS, "node_")
    return (by_fit or NodeByFit)(kind, detail, node, seed=seed)


def _rules() -> list[str]:
    by_order = [f"{kind}_{order}" for kind in BY_ORDER for order in ORDERS]
    return ["easy", *by_order, *(f"{BY_FIT}_{fit}" for fit in FITS), BY_BEST_FIT]


class NodeReserving(NodeEasy):
    """Base of these policies: what the head of the queue needs, and which jobs may overtake it.

    - ``kind``: the rule, a word of `node_policies_backfill`.
    - ``detail``: what follows it in the name.
    - ``node_selection``: a name of `node_policies.NODE_SELECTIONS`, or of `node_policies_energy.NODES`.
    """

    def __init__(self, kind: str, detail: str, node_selection: str, *, seed: int = 0) -> None:
        self.kind, self.detail = kind, detail
        super().__init__(node_selection, seed=seed)
        self.job_selection = f"{QUEUE}{kind}_{detail}" if detail else f"{QUEUE}{kind}"

    @property
    def looks_at_times(self) -> bool:
        """True: it always uses requested times."""
        return True

    @property
    @abc.abstractmethod
    def _protects_one(self) -> bool:
        """True if only the node is protected on which the head is expected to fit first."""

    def _begin(self) -> None:
        super()._begin()
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
        """Start a job on a number of cores of a node; see `NodePolicy.start`."""
        super().start(machine, job, counts)
        self._forget_picture()

    # ---- what is there

    def _expected_s(self, machine: MachinePicture, job: int, node: int) -> float:
        """Return the expected run time of a job on a node, in seconds."""
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

    # ---- what the head needs

    def _on_node(self, machine: MachinePicture, head: int, node: int) -> Protected | None:
        """Return the protection of a node; ``None``: nothing."""
        if node not in self._protected:
            self._protected[node] = (
                self._if_best(machine, head, node) if self._protects_one else self._then(machine, head, node)[0]
            )
        return self._protected[node]

    def _if_best(self, machine: MachinePicture, head: int, node: int) -> Protected | None:
        """Return the head's needs on a node, if that is where it is expected to fit first."""
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


class NodeByOrder(NodeReserving):
    """IRMaSim's HBackfill and HBackfillR: jobs that may overtake are tried in an order."""

    @property
    def _protects_one(self) -> bool:
        return BY_ORDER[self.kind]

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

    @property
    def _protects_one(self) -> bool:
        return self.kind == BY_FIT

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
        """Return the fit of a job on a node; the lowest is best."""
        metric, _, criterion = self.detail.partition("_")
        left_cores = int(self._free_cores(machine)[node] - machine.jobs["cores"][job])
        if metric == "core":
            spare: float = left_cores
        else:
            spare = self._spare_s(machine, head, job, node) * (left_cores if metric == "timecore" else 1)
        return -spare if criterion == "worst" else spare

    def _spare_s(self, machine: MachinePicture, head: int, job: int, node: int) -> float:
        """Return the time between a job's expected end on a node and the head's need of it, in seconds."""
        if self._is_empty(machine, node):
            return -NO_LIMIT_S if self.kind == BY_BEST_FIT else 0
        limit_s = self._limit_s(machine, head, node)
        return limit_s if limit_s == NO_LIMIT_S else limit_s - machine.now_s - self._expected_s(machine, job, node)

    def _limit_s(self, machine: MachinePicture, head: int, node: int) -> float:
        """Return the date at which the head needs a node, in seconds; `NO_LIMIT_S`: never."""
        protected = self._on_node(machine, head, node)
        return NO_LIMIT_S if protected is None or protected.date_s == math.inf else protected.date_s
