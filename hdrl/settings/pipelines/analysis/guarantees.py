"""Guarantees without simulation: misses that no scheduler can avoid, and sets that never miss."""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from hdrl.settings.pipelines.loads.covers import demand_us, latency_us
from hdrl.settings.pipelines.loads.load import WHOLE, PipelineLoad
from hdrl.settings.pipelines.loads.pipeline import NEVER
from hdrl.settings.pipelines.machine import Units

MAX_TESTED = 2_000_000
"""Largest number of dates that the sufficient test examines before it gives no answer."""

MAX_BOUNDED = 1000
"""How many instances the demand bound looks at together; longer loads are cut into stretches."""


MAX_SEARCHED, MAX_NODES = 12, 20_000
"""The search for the fewest misses of a simulation: how many kernels and schedules it takes at most."""


@dataclass(frozen=True, slots=True)
class PeriodicTask:
    """A pipeline on one unit."""

    time_us: int  # worst-case time of an instance
    longest_us: int  # the longest part of it that is not preempted
    period_us: int  # the shortest time between two releases; 0: it is never released
    deadline_us: int  # the shortest relative deadline of its instances
    latest_us: int  # the longest one


def is_dispatch_safe(tasks: Sequence[PeriodicTask]) -> bool:
    """Return whether earliest deadline first, without preemption, meets all deadlines of tasks on one unit for sure.

    For every length, what is released and due within it, and one part that was begun before by a task with a later
    deadline, must fit. For deadlines at the ends of periods and tasks of one part that is Jeffay's condition, which is
    also necessary if releases may come at any date.

    Returns
    -------
    bool
        ``False`` also if there are too many lengths to look at (`MAX_TESTED`).

    References
    ----------
    K. Jeffay, D. Stanat, C. Martel, "On Non-Preemptive Scheduling of Periodic and Sporadic Tasks", RTSS 1991;
    L. George, N. Rivierre, M. Spuri, "Preemptive and Non-Preemptive Real-Time Uniprocessor Scheduling", INRIA 1996.
    """
    tasks = [one for one in tasks if one.period_us > 0]
    horizon_us = _busy_period_us(tasks)
    if horizon_us is None:
        return False
    latest_us = max((one.latest_us for one in tasks), default=0)
    horizon_us = max(horizon_us, latest_us)
    if sum(horizon_us // one.period_us + 1 for one in tasks) > MAX_TESTED:
        return False
    dates = sorted({d for one in tasks for d in range(one.deadline_us, horizon_us + 1, one.period_us)})
    if not dates:
        return True
    at = np.array(dates, dtype=np.int64)
    demand = np.zeros(len(at), dtype=np.int64)
    blocking = np.zeros(len(at), dtype=np.int64)
    for one in tasks:
        demand += np.where(at >= one.deadline_us, (at - one.deadline_us) // one.period_us + 1, 0) * one.time_us
        # It must have begun before, and its deadline be later. At lengths between deadlines the demand is that of
        # the deadline before, but a task whose deadline lies between does no longer block: the deadlines suffice.
        blocking = np.maximum(blocking, np.where(at < one.latest_us, one.longest_us - 1, 0))
    return bool(np.all(demand + blocking <= at))


def _busy_period_us(tasks: Sequence[PeriodicTask]) -> int | None:
    """Return for how long a unit can be busy without a break, ``None`` if that is longer than can be looked at."""
    if sum((Fraction(one.time_us, one.period_us) for one in tasks), Fraction(0)) > 1:
        return None
    length = sum(one.time_us for one in tasks) + max((one.longest_us for one in tasks), default=0)
    hyperperiod = math.lcm(*(one.period_us for one in tasks)) if tasks else 0
    bound = hyperperiod + max((one.deadline_us for one in tasks), default=0)
    for _ in range(100_000):
        blocked = max((one.longest_us for one in tasks), default=0)
        after = blocked + sum(-(-length // one.period_us) * one.time_us for one in tasks)
        if after <= length or length >= bound:
            return min(length, bound)
        length = after
    return None


def unavoidable_misses(machine: Units, load: PipelineLoad, *, is_fusing: bool = True) -> int:
    """Return a number of instances that miss their deadlines under any scheduler with full knowledge: a lower bound.

    Two reasons: an instance takes longer than it has, on the fastest units and alone; or instances that are released
    and due within some span need more unit time than there is: then the shortest are kept. The bounds of spans that do
    not overlap add up. Worst-case times are true times unless the load says that they are shorter.
    """
    if load.times.low < 1.0:
        return 0  # the bounds are about worst cases, which do not happen here
    kinds = tuple(sorted(set(machine.kinds)))
    table = load.instances
    needs = np.array([demand_us(one, kinds, is_fusing=is_fusing) for one in load.pipelines], dtype=np.int64)
    takes = np.array([latency_us(one, kinds, is_fusing=is_fusing) for one in load.pipelines], dtype=np.int64)
    due = table["deadline_us"] + table["tolerance_us"]
    is_hopeless = table["release_us"] + takes[table["pipeline"]] > due
    kept = np.flatnonzero(~is_hopeless)
    releases, dues, times = table["release_us"][kept], due[kept], needs[table["pipeline"]][kept]
    n = int(np.count_nonzero(is_hopeless))
    for first in range(0, len(kept), MAX_BOUNDED):
        part = slice(first, first + MAX_BOUNDED)
        n += _overload(releases[part].tolist(), dues[part].tolist(), times[part].tolist(), machine.n_units)
    return n


def least_misses(machine: Units, load: PipelineLoad) -> int:
    """Return the best lower bound on misses that is quickly known: exact for few kernels, else `unavoidable_misses`."""
    question = f"least misses on {machine.sha256()}"
    if question not in load.found_out:
        is_small = int(load.first_kernels[-1]) <= MAX_SEARCHED
        found = fewest_misses(machine, load, max_nodes=MAX_NODES).at_least if is_small else None
        load.found_out[question] = unavoidable_misses(machine, load) if found is None else found
    return load.found_out[question]


def _overload(releases: list[int], dues: list[int], times: list[int], n_units: int) -> int:
    """Return how many of instances miss because spans are overloaded: the best sum over spans that are apart."""
    by_due = sorted(range(len(dues)), key=lambda i: dues[i])
    # best[d]: what spans up to a due date d amount to, at ascending dates.
    dates, best = [-1], [0]
    spans: list[tuple[int, int, int]] = []
    for begin in sorted(set(releases)):
        kept: list[int] = []  # a heap of the times kept, the longest first
        total, n_dropped = 0, 0
        for i in by_due:
            if releases[i] < begin:
                continue
            heapq.heappush(kept, -times[i])
            total += times[i]
            while total > n_units * (dues[i] - begin):
                total += heapq.heappop(kept)
                n_dropped += 1
                spans.append((dues[i], begin, n_dropped))
    for end, begin, n_dropped in sorted(spans):
        place = int(np.searchsorted(dates, begin, side="right")) - 1
        value = best[place] + n_dropped
        if value <= best[-1]:
            continue
        if dates[-1] == end:
            best[-1] = value
        else:
            dates.append(end)
            best.append(value)
    return best[-1]


@dataclass(frozen=True, slots=True)
class Fewest:
    """Bounds of the fewest deadlines that can be missed; equal if the search came to its end."""

    at_least: int
    at_most: int

    @property
    def is_exact(self) -> bool:
        """Whether the number is known."""
        return self.at_least == self.at_most


def fewest_misses(machine: Units, load: PipelineLoad, *, max_nodes: int = 200_000) -> Fewest:
    """Search for the schedule of a small load that misses the fewest deadlines, with full knowledge.

    Kernels and groups are appended to units in the order of their starts, each as early as it can start there; some
    schedule made like that is among the best, since starting earlier never makes anything late. Instances that will be
    late are left out: they can run after everything else. At most ``max_nodes`` partial schedules are tried.
    """
    search = _Exact(machine, load, max_nodes)
    floor = unavoidable_misses(machine, load)
    search.floor = floor
    search.go(0)
    return Fewest(search.best if search.n_nodes <= max_nodes or search.best == floor else floor, search.best)


class _Exact:
    """Depth first search over orders of starts."""

    def __init__(self, machine: Units, load: PipelineLoad, max_nodes: int) -> None:
        self.machine, self.load, self.max_nodes = machine, load, max_nodes
        table = load.instances
        self.due = (table["deadline_us"] + table["tolerance_us"]).tolist()
        self.pipelines = [load.pipelines[number] for number in table["pipeline"].tolist()]
        self.releases = table["release_us"].tolist()
        self.shares: list[int] = load.shares().tolist()
        self.first: list[int] = load.first_kernels.tolist()
        self.n = load.n_items
        kinds = tuple(sorted(set(machine.kinds)))
        self.left = [latency_us(one, kinds) if load.times.low == 1.0 else 0 for one in self.pipelines]
        self.ends: dict[tuple[int, int], int] = {}
        self.free = [0] * machine.n_units
        self.dropped = [False] * self.n
        self.n_done = [0] * self.n
        self.best, self.floor, self.n_nodes = self.n, 0, 0
        self.seen: dict[tuple[object, ...], int] = {}

    def go(self, n_late: int, after: tuple[int, int] = (0, -1)) -> None:
        """Search on from a partial schedule whose last start was at a date on a unit."""
        self.n_nodes += 1
        if n_late >= self.best or self.n_nodes > self.max_nodes or self.best == self.floor:
            return
        open_ = [i for i in range(self.n) if not self.dropped[i] and self.n_done[i] < len(self.pipelines[i].kernels)]
        if not open_:
            self.best = n_late
            return
        if n_late + self._n_lost(open_) >= self.best:
            return
        key = (tuple(self.free), after, tuple(sorted(self.ends.items())), tuple(self.dropped))
        if self.seen.get(key, self.n + 1) <= n_late:
            return
        self.seen[key] = n_late
        for start, unit, end, instance, members in self._moves(open_, after):
            self._put(instance, members, unit, end, n_late, (start, unit))
        # Or one of the instances is given up. Only whole ones, in their order, so that each set is tried once.
        last = max((i for i in range(self.n) if self.dropped[i]), default=-1)
        for instance in open_:
            if self.n_done[instance] == 0 and instance > last:
                self.dropped[instance] = True
                self.go(n_late + 1, after)
                self.dropped[instance] = False

    def _n_lost(self, open_: list[int]) -> int:
        """Return how many instances that were not begun cannot end in time any more."""
        earliest = min(self.free)
        return sum(self.n_done[i] == 0 and max(self.releases[i], earliest) + self.left[i] > self.due[i] for i in open_)

    def _moves(self, open_: list[int], after: tuple[int, int]) -> list[tuple[int, int, int, int, tuple[int, ...]]]:
        """Return what can start next, the earliest first."""
        moves = []
        for instance in open_:
            pipeline = self.pipelines[instance]
            for option, group in enumerate(pipeline.options):
                if any((instance, k) in self.ends for k in group.kernels):
                    continue
                inside = set(group.kernels)
                before = {b for k in group.kernels for b in pipeline.predecessors[k]} - inside
                if any((instance, b) not in self.ends for b in before):
                    continue
                ready = max([self.releases[instance], *(self.ends[instance, b] for b in before)])
                for unit, (kind, ecu) in enumerate(zip(self.machine.kinds, self.machine.ecus, strict=True)):
                    worst = pipeline.options[option].times_us[kind]
                    if worst == NEVER or pipeline.ecu not in (-1, ecu):
                        continue
                    start = max(ready, self.free[unit])
                    end = start + self._true_us(instance, group.kernels, worst)
                    if (start, unit) > after and end <= self.due[instance]:
                        moves.append((start, unit, end, instance, group.kernels))
        return sorted(moves)

    def _true_us(self, instance: int, members: tuple[int, ...], worst: int) -> int:
        total = sum(self.shares[self.first[instance] + k] for k in members)
        return -(-worst * total // (WHOLE * len(members)))

    def _put(
        self, instance: int, members: tuple[int, ...], unit: int, end: int, n_late: int, start: tuple[int, int]
    ) -> None:
        before = self.free[unit]
        self.free[unit] = end
        self.n_done[instance] += len(members)
        for k in members:
            self.ends[instance, k] = end
        self.go(n_late, start)
        for k in members:
            del self.ends[instance, k]
        self.n_done[instance] -= len(members)
        self.free[unit] = before
