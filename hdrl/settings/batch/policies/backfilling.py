"""EASY and conservative backfilling in plain Python, to write your own policies with.

An object of either class is a policy: it is called with a `View` and returns decisions. Both decide exactly as the
compiled ``+easy`` and ``+conservative`` do (a test compares them), but far more slowly; they are here to be read,
changed and derived from, which compiled functions cannot be: that is why EASY stands here once more. A priority alone
needs none of this: ``my.py+easy`` combines it with the compiled backfilling.
"""

from __future__ import annotations

import abc
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hdrl.base.errors import UnknownName
from hdrl.settings.batch.kernel.plan import ROUNDING_S
from hdrl.settings.batch.policies.machine import CoreTables, MachinePicture
from hdrl.settings.batch.policies.priorities import PriorityFunction, priorities_of
from hdrl.settings.batch.simulation.decisions import Start
from hdrl.settings.batch.simulation.view import News, View

EASY_ORDERS = ("fcfs", "sjf", "priority")


def fcfs(job: object, now_s: float) -> float:
    """Serve first come, first served: all priorities are equal, and ties go to the job that came first."""
    del job, now_s
    return 0.0


class Backfilling(abc.ABC):
    """Base of both kinds: when to decide, and the queue.

    Parameters
    ----------
    priority
        ``priority(job, now_s)``, see `policies.WaitingJob`; the lowest is served first, ties go to the job that
        came first.
    core_selection
        ``"high_gflops"`` or ``"low_power"``.

    Raises
    ------
    TypeError
        If the priority is no function.
    """

    def __init__(self, priority: PriorityFunction = fcfs, *, core_selection: str = "high_gflops") -> None:
        if not callable(priority):
            raise TypeError(f"priority is {priority!r}, expected a function priority(job, now_s)")
        self.priority = priority
        self.core_selection = core_selection
        self._tables: CoreTables | None = None
        self._begin()

    def __call__(self, view: View) -> list[Start]:
        """Return the jobs to start now."""
        for kind, subject in view.news:
            if kind == News.SIMULATION_BEGINS:
                self._begin()
            elif kind == News.JOB_COMPLETED:
                self._forget(subject)
            if kind in (News.JOB_SUBMITTED, News.JOB_COMPLETED):
                self._is_due = True
        if not self._is_due or not len(view.waiting):
            return []
        self._is_due = False
        machine = self._machine(view)
        waiting = view.waiting
        keys = priorities_of(self.priority, view, waiting)
        self._decide(machine, waiting[np.argsort(keys, kind="stable")].tolist(), waiting.tolist())
        return machine.started

    def _machine(self, view: View) -> MachinePicture:
        """Return the free resources, on the platform of the last simulation or on another one."""
        if self._tables is None or self._tables.platform is not view.platform:
            self._tables = CoreTables.of(view.platform, self.core_selection)
        return MachinePicture(view, self._tables)

    def _begin(self) -> None:
        self._is_due = False
        self._running: dict[int, Any] = {}  # state of each running job

    def _forget(self, job: int) -> None:
        """Forget a job that has ended."""
        self._running.pop(job, None)

    @abc.abstractmethod
    def _decide(self, machine: MachinePicture, queue: list[int], arrivals: list[int]) -> None:
        """Start jobs: ``queue`` is sorted by priority, ``arrivals`` by when they came."""


class HeadReservation(NamedTuple):
    """Earliest start of the first job of the queue, in seconds, and what is free on each node then: cores, and MiB."""

    shadow_s: float
    cores: NDArray[np.int64]
    memory_mib: NDArray[np.float64]


class Easy(Backfilling):
    """EASY: jobs may overtake the first of the queue as long as they do not delay it.

    Parameters
    ----------
    priority
        ``priority(job, now_s)``; the lowest is served first.
    order
        In which order jobs are tried that may overtake: of their submission (``"fcfs"``), of their requested time
        (``"sjf"``) or of their priority (``"priority"``).
    core_selection
        ``"high_gflops"`` or ``"low_power"``.

    Raises
    ------
    UnknownName
        If there is no such order.
    """

    _running: dict[int, tuple[float, NDArray[np.int64]]]
    """Expected end and cores per node."""

    def __init__(
        self, priority: PriorityFunction = fcfs, *, order: str = "fcfs", core_selection: str = "high_gflops"
    ) -> None:
        super().__init__(priority, core_selection=core_selection)
        if order not in EASY_ORDERS:
            raise UnknownName("order of backfilling", order, EASY_ORDERS)
        self.order = order

    def _start(self, machine: MachinePicture, job: int, cores: NDArray[np.int64]) -> None:
        self._running[job] = (machine.start(job, cores), machine.cores_per_node(cores))

    def _decide(self, machine: MachinePicture, queue: list[int], arrivals: list[int]) -> None:
        while queue and (cores := machine.choose(queue[0])) is not None:
            self._start(machine, queue.pop(0), cores)
        if len(queue) < 2:
            return
        head = queue[0]
        then = self._reserve(machine, head)
        for job in self._candidates(machine, queue, arrivals):
            cores = machine.choose(job)
            left = None if cores is None else self._reservation_after(machine, head, job, cores, then)
            if cores is not None and left is not None:
                then = left
                self._start(machine, job, cores)

    @staticmethod
    def _reservation_after(
        machine: MachinePicture, head: int, job: int, cores: NDArray[np.int64], then: HeadReservation
    ) -> HeadReservation | None:
        """Return the head's reservation if a job starts on some cores now, ``None`` if that delays the head."""
        if machine.now_s + machine.duration_s(job, cores) <= then.shadow_s:
            return then
        taken = machine.cores_per_node(cores)
        taken_mib = taken * float(machine.jobs["memory_mib"][job])
        left = HeadReservation(then.shadow_s, then.cores - taken, then.memory_mib - taken_mib)
        fits = machine.room(head, left.cores, left.memory_mib).sum() >= machine.jobs["cores"][head]
        return left if fits else None

    def _reserve(self, machine: MachinePicture, head: int) -> HeadReservation:
        """Return the reservation of the head of the queue."""
        cores = machine.cores_per_node(np.flatnonzero(machine.free))
        memory_mib = machine.free_memory_mib.copy()
        shadow_s = machine.now_s
        for job, (end_s, taken) in sorted(self._running.items(), key=lambda item: item[1][0]):
            if machine.room(head, cores, memory_mib).sum() >= machine.jobs["cores"][head] and end_s > shadow_s:
                break
            shadow_s = max(shadow_s, end_s)
            cores = cores + taken
            memory_mib = memory_mib + taken * float(machine.jobs["memory_mib"][job])
        return HeadReservation(shadow_s, cores, memory_mib)

    def _candidates(self, machine: MachinePicture, queue: list[int], arrivals: list[int]) -> list[int]:
        if self.order == "priority":
            return queue[1:]
        waiting = set(queue[1:])
        others = [job for job in arrivals if job in waiting]
        if self.order == "sjf":
            others.sort(key=machine.requested_s)
        return others


@dataclass(slots=True)
class _Stay:
    """A job's time on the machine, expected or reserved, and what it takes of each node."""

    job: int
    start_s: float
    end_s: float
    cores: NDArray[np.int64]
    memory_mib: NDArray[np.float64]


class Conservative(Backfilling):
    """Conservative backfilling: every waiting job has a reservation, which no other job may delay.

    See `kernel.conservative` for the rules.

    Parameters
    ----------
    priority
        ``priority(job, now_s)``; the lowest gets the first choice of what becomes free.
    core_selection
        ``"high_gflops"`` or ``"low_power"``.

    Attributes
    ----------
    reservations
        Of each waiting job: its start and its expected end in seconds.
    """

    _running: dict[int, _Stay]

    @property
    def reservations(self) -> dict[int, tuple[float, float]]:
        """Start and expected end of each waiting job, in seconds."""
        return {job: (stay.start_s, stay.end_s) for job, stay in self._reserved.items()}

    def _begin(self) -> None:
        super()._begin()
        self._reserved: dict[int, _Stay] = {}

    def _decide(self, machine: MachinePicture, queue: list[int], arrivals: list[int]) -> None:
        self._has_memory = bool(np.any(machine.jobs["memory_mib"] > 0))
        self._renew_overdue(machine, arrivals)
        self._settle(machine, queue, arrivals)
        if not self._running and queue:  # dates that are close can hold each other up; no further decision would come
            self._reserved = {}
            self._settle(machine, queue, arrivals)

    def _settle(self, machine: MachinePicture, queue: list[int], arrivals: list[int]) -> None:
        """Let jobs start and move until none can any more."""
        jobs = list(queue)
        position = {job: number for number, job in enumerate(arrivals)}
        # All of them, whichever moves: no short cut.
        while any([self._start_or_move(machine, queue, job) for job in jobs]):  # noqa: C419
            jobs = sorted(self._reserved, key=lambda job: (self._reserved[job].start_s, position[job]))

    def _renew_overdue(self, machine: MachinePicture, arrivals: list[int]) -> None:
        """Renew reservations that jobs made impossible by running longer than expected, in the order of their dates."""
        now_s = machine.now_s
        late = [stay for stay in (*self._running.values(), *self._reserved.values()) if stay.end_s <= now_s]
        if not late and all(stay.start_s >= now_s for stay in self._reserved.values()):
            return
        for stay in self._running.values():
            stay.end_s = max(stay.end_s, float(np.nextafter(now_s, np.inf)))
        position = {job: number for number, job in enumerate(arrivals)}
        old = sorted(self._reserved.values(), key=lambda stay: (stay.start_s, position[stay.job]))
        self._reserved = {}
        for stay in old:
            later = self._postponed(stay, float(np.nextafter(now_s, np.inf)))
            if not self._is_possible(machine, later):
                later = self._find_hole(machine, stay.job, np.inf) or later
            self._reserved[stay.job] = later

    @staticmethod
    def _postponed(stay: _Stay, soon_s: float) -> _Stay:
        """Return a reservation whose date may have gone by, from now on."""
        late_s = soon_s - stay.start_s
        if late_s <= 0.0:
            return stay
        return replace(stay, start_s=soon_s, end_s=stay.end_s if late_s <= ROUNDING_S else stay.end_s + late_s)

    def _start_or_move(self, machine: MachinePicture, queue: list[int], job: int) -> bool:
        """Start a job, or let it move to the earliest hole; return whether the plan of the others may gain by it."""
        old = self._reserved.pop(job, None)
        cores = machine.choose(job) if machine.jobs["cores"][job] <= machine.n_free else None
        if cores is not None:
            end_s = machine.now_s + machine.duration_s(job, cores)
            stay = self._stay(machine, job, machine.now_s, end_s, machine.cores_per_node(cores))
            if self._is_possible(machine, stay):
                self._start(machine, queue, stay, cores)
                return True
        hole = self._find_hole(machine, job, np.inf if old is None else old.start_s) or old
        if hole is None:  # cannot be: every job fits on the empty machine
            return False
        if hole.start_s <= machine.now_s and self._has_memory and self._is_free(machine, hole):
            self._start(machine, queue, hole, self._first_cores(machine, hole.cores))
            return True
        self._reserved[job] = hole
        return old is not None and hole is not old

    def _start(self, machine: MachinePicture, queue: list[int], stay: _Stay, cores: NDArray[np.int64]) -> None:
        end_s = max(machine.start(stay.job, cores), float(np.nextafter(machine.now_s, np.inf)))
        self._running[stay.job] = self._stay(machine, stay.job, -np.inf, end_s, machine.cores_per_node(cores))
        queue.remove(stay.job)

    @staticmethod
    def _is_free(machine: MachinePicture, stay: _Stay) -> bool:
        """Tell whether what is planned for a job is free now: others may end a little later, within the rounding."""
        cores = machine.cores_per_node(np.flatnonzero(machine.free))
        return bool(np.all(cores >= stay.cores) and np.all(machine.free_memory_mib - stay.memory_mib >= -1e-6))

    @staticmethod
    def _first_cores(machine: MachinePicture, wanted: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the first free cores of each node, as many as are wanted of it."""
        free = np.flatnonzero(machine.free)
        parts = [free[machine.tables.node_of_core[free] == node][:n] for node, n in enumerate(wanted)]
        return np.sort(np.concatenate(parts))

    @staticmethod
    def _stay(machine: MachinePicture, job: int, start_s: float, end_s: float, cores: NDArray[np.int64]) -> _Stay:
        memory_mib = cores.astype(np.float64) * float(machine.jobs["memory_mib"][job])
        return _Stay(job, start_s, end_s, cores, memory_mib)

    # ---- the plan: what is free on each node from now on

    def _free_at(self, machine: MachinePicture, date_s: float) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        cores = machine.cores_per_node(np.flatnonzero(machine.free))
        memory_mib = machine.free_memory_mib.copy()
        for stay in self._running.values():
            if stay.end_s <= date_s:
                cores, memory_mib = cores + stay.cores, memory_mib + stay.memory_mib
        for stay in self._reserved.values():
            if stay.start_s <= date_s < stay.end_s:
                cores, memory_mib = cores - stay.cores, memory_mib - stay.memory_mib
        return cores, memory_mib

    def _dates(self, start_s: float, end_s: float) -> list[float]:
        """Return the start, and the dates before the end at which what is free changes; what is close is one."""
        stays = (*self._running.values(), *self._reserved.values())
        changes = sorted({stay.start_s for stay in stays} | {stay.end_s for stay in stays})
        following = [*changes[1:], np.inf]
        settled = [date_s for date_s, next_s in zip(changes, following, strict=False) if next_s > date_s + ROUNDING_S]
        return [start_s, *(date_s for date_s in settled if start_s < date_s < end_s - ROUNDING_S)]

    def _is_possible(self, machine: MachinePicture, stay: _Stay) -> bool:
        """Tell whether a stay leaves all others what they need."""
        for date_s in self._dates(stay.start_s, stay.end_s):
            cores, memory_mib = self._free_at(machine, date_s)
            if cores.sum() < stay.cores.sum():
                return False
            if self._has_memory and (np.any(cores < stay.cores) or np.any(memory_mib - stay.memory_mib < -1e-6)):
                return False
        return True

    def _find_hole(self, machine: MachinePicture, job: int, before_s: float) -> _Stay | None:
        """Return the earliest stay for a job that delays no other, if it starts before a date."""
        for date_s in self._dates(machine.now_s, np.inf):
            if date_s >= before_s:
                return None
            hole = self._hole_by_nodes(machine, job, date_s) if self._has_memory else self._hole(machine, job, date_s)
            if hole is not None:
                return hole
        return None

    def _hole(self, machine: MachinePicture, job: int, date_s: float) -> _Stay | None:
        """Count cores; a job may get the slowest."""
        end_s = date_s + machine.duration_at(job, float(machine.tables.gflops_of_core.min()))
        wanted = int(machine.jobs["cores"][job])
        if any(self._free_at(machine, one_s)[0].sum() < wanted for one_s in self._dates(date_s, end_s)):
            return None
        anywhere = np.zeros(len(machine.free_memory_mib), dtype=np.int64)
        anywhere[0] = wanted
        return self._stay(machine, job, date_s, end_s, anywhere)

    def _hole_by_nodes(self, machine: MachinePicture, job: int, date_s: float) -> _Stay | None:
        """Try the fastest nodes alone first, which are needed for the shortest time, then with slower ones."""
        for gflops in sorted(set(machine.tables.gflops_of_node.tolist()), reverse=True):
            end_s = date_s + machine.duration_at(job, gflops)
            then = [self._free_at(machine, one_s) for one_s in self._dates(date_s, end_s)]
            least = np.min([cores for cores, _ in then], axis=0)
            least_mib = np.min([memory_mib for _, memory_mib in then], axis=0)
            room = machine.room(job, least, least_mib + 1e-6)
            chosen = self._choose_nodes(machine, job, np.where(machine.tables.gflops_of_node >= gflops, room, 0))
            if chosen is not None:
                return self._stay(machine, job, date_s, end_s, chosen)
        return None

    @staticmethod
    def _choose_nodes(machine: MachinePicture, job: int, room: NDArray[np.int64]) -> NDArray[np.int64] | None:
        """Take nodes in the order of their best processor until there are cores enough."""
        missing = int(machine.jobs["cores"][job])
        chosen = np.zeros_like(room)
        for node in machine.tables.node_order:
            chosen[node] = min(missing, int(room[node]))
            missing -= int(chosen[node])
        return chosen if missing == 0 else None
