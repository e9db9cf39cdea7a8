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
from hdrl.settings.pipelines.loads.pipeline import NEVER, Pipeline
from hdrl.settings.pipelines.machine import Units

MAX_TESTED = 2_000_000
"""Largest number of dates that the sufficient test examines before it gives no answer."""

MAX_BOUNDED = 1000
"""Number of instances that the demand bound examines together; longer loads are cut into stretches."""


MAX_COVERED = 12
"""Kernels of a pipeline whose cheapest ways to be cut into groups the search looks at; with more, it bounds them."""

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
    """Return the number of instances that miss because spans are overloaded: the best sum over disjoint spans."""
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
        position = int(np.searchsorted(dates, begin, side="right")) - 1
        value = best[position] + n_dropped
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
        """True if the number is known."""
        return self.at_least == self.at_most


def fewest_misses(
    machine: Units, load: PipelineLoad, *, max_nodes: int = 200_000, at_most: int | None = None
) -> Fewest:
    """Search for the schedule of a small load that misses the fewest deadlines, with full knowledge.

    For 0, 1, 2, ... misses, the search looks for a schedule with no more. Kernels and groups are appended to units in
    the order of their starts, each as early as it can start there; some schedule made like that is among the best,
    since starting earlier never makes anything late. Instances that will be late are not begun: they can run after
    everything else.

    Parameters
    ----------
    max_nodes
        Largest number of partial schedules that are tried.
    at_most
        Misses of a known schedule; ``None``: none is known.
    """
    search = _Exact(machine, load, max_nodes)
    best = load.n_items if at_most is None else at_most
    for n_misses in range(unavoidable_misses(machine, load), best):
        found = search.is_possible(n_misses)
        if search.n_nodes > max_nodes:
            return Fewest(n_misses, best)
        if found:
            return Fewest(n_misses, n_misses)
    return Fewest(best, best)


_ENDLESS = 1 << 60
"""A time beyond all deadlines, in microseconds."""


@dataclass(frozen=True, slots=True)
class _Step:
    """A kernel or a group of a pipeline; sets of kernels are bit masks."""

    members: int
    kernels: tuple[int, ...]
    before: tuple[int, ...]  # kernels outside it that must have ended
    needs: int  # the same as a mask
    times_us: tuple[int, ...]  # on each unit; `_ENDLESS` where it cannot run


class _Exact:
    """Depth first search over orders of starts."""

    def __init__(self, machine: Units, load: PipelineLoad, max_nodes: int) -> None:
        self.max_nodes, self.n_nodes = max_nodes, 0
        table = load.instances
        self._due = (table["deadline_us"] + table["tolerance_us"]).tolist()
        self._by_due = np.argsort(self._due, kind="stable").tolist()
        self._releases = table["release_us"].tolist()
        self._pipelines = [load.pipelines[number] for number in table["pipeline"].tolist()]
        shares, first = load.shares().tolist(), load.first_kernels.tolist()
        self._steps = [
            _steps_of(one, machine, shares[first[i] : first[i] + len(one.kernels)])
            for i, one in enumerate(self._pipelines)
        ]
        self._least = [_least_us(one, steps) for one, steps in zip(self._pipelines, self._steps, strict=True)]
        # What is left of an instance costs the same in all of its pipeline where kernels take their worst-case times.
        is_worst = load.times.low == 1.0
        self._alike = table["pipeline"].tolist() if is_worst else list(range(load.n_items))
        self._demands: dict[tuple[int, int], int] = {}
        self._whole = [(1 << len(one.kernels)) - 1 for one in self._pipelines]
        self._free = [0] * machine.n_units

    def is_possible(self, n_misses: int) -> bool:
        """Return whether a schedule misses no more deadlines; ``n_nodes`` says whether the search came to its end."""
        self._n_misses = n_misses
        self._done = [0] * len(self._pipelines)
        self._ends: list[dict[int, int]] = [{} for _ in self._pipelines]
        self._seen: set[tuple[object, ...]] = set()
        return self._go((0, -1))

    def _go(self, after: tuple[int, int]) -> bool:
        """Search on from a partial schedule whose last start was at a date on a unit."""
        self.n_nodes += 1
        if self.n_nodes > self.max_nodes:
            return False
        now = after[0]
        free = [max(one, now) for one in self._free]
        open_ = [i for i in self._by_due if self._done[i] != self._whole[i]]
        late = [i for i in open_ if self._earliest_end(i, min(free)) > self._due[i]]
        if len(late) > self._n_misses or any(self._done[i] for i in late):
            return False
        open_ = [i for i in open_ if i not in late]
        if not any(self._done[i] for i in open_) and len(late) + len(open_) <= self._n_misses:
            return True
        if len(late) + self._n_dropped(open_, free) > self._n_misses:
            return False
        # What ended before the last start makes no difference any more.
        ends = tuple(tuple(sorted(one for one in ends.items() if one[1] >= now)) for ends in self._ends)
        key = (after, tuple(max(one, now - 1) for one in self._free), tuple(self._done), ends)
        if key in self._seen:
            return False
        self._seen.add(key)
        return any(self._put(*move) for move in self._moves(open_, after))

    def _earliest_end(self, instance: int, from_us: int) -> int:
        """Return a date before which an instance cannot end if nothing starts before a date."""
        pipeline, done, ends = self._pipelines[instance], self._done[instance], self._ends[instance]
        begin_us = max(self._releases[instance], from_us)
        reached = dict(ends)
        for kernel in pipeline.order:
            if not done >> kernel & 1:
                ready_us = max((reached[before] for before in pipeline.predecessors[kernel]), default=0)
                reached[kernel] = max(begin_us, ready_us) + self._least[instance][kernel]
        return max(reached.values())

    def _n_dropped(self, open_: Sequence[int], free: Sequence[int]) -> float:
        """Return the number of instances not begun that do not fit before their deadlines, the largest first.

        Moore and Hodgson's rule, as if all were released and could be split among the units.
        """
        kept: list[int] = []
        total, n_dropped = 0, 0
        for i in open_:
            demand = self._demand(i, self._done[i])
            total += demand
            if not self._done[i]:
                heapq.heappush(kept, -demand)
            room = sum(self._due[i] - one for one in free if one < self._due[i])
            while total > room:
                if not kept:
                    return math.inf
                total += heapq.heappop(kept)
                n_dropped += 1
        return n_dropped

    def _demand(self, instance: int, done: int) -> int:
        """Return the least time that units must spend on the kernels of an instance that are not done."""
        key = (self._alike[instance], done)
        if key not in self._demands:
            left = self._whole[instance] & ~done
            if len(self._pipelines[instance].kernels) > MAX_COVERED:
                least = self._least[instance]
                self._demands[key] = sum(one for kernel, one in enumerate(least) if left >> kernel & 1)
            else:
                first = left & -left  # some step must hold it
                fitting = [one for one in self._steps[instance] if one.members & first and not one.members & done]
                prices = [min(one.times_us) + self._demand(instance, done | one.members) for one in fitting]
                self._demands[key] = min(prices, default=_ENDLESS) if left else 0
        return self._demands[key]

    def _moves(self, open_: Sequence[int], after: tuple[int, int]) -> list[tuple[int, int, int, int, _Step]]:
        """Return the possible next starts, the most urgent first: instance, unit, start, end and step."""
        moves = []
        for i in open_:
            done, ends = self._done[i], self._ends[i]
            for number, step in enumerate(self._steps[i]):
                if step.members & done or step.needs & ~done:
                    continue
                ready_us = max([self._releases[i], *(ends[one] for one in step.before)])
                for unit, time_us in enumerate(step.times_us):
                    start_us = max(ready_us, self._free[unit])
                    if (start_us, unit) > after and start_us + time_us <= self._due[i]:
                        moves.append((self._due[i], start_us + time_us, start_us, unit, i, number))
        return [(i, unit, start, end, self._steps[i][number]) for _, end, start, unit, i, number in sorted(moves)]

    def _put(self, instance: int, unit: int, start_us: int, end_us: int, step: _Step) -> bool:
        """Search on with one more start."""
        before = self._free[unit]
        self._free[unit] = end_us
        self._done[instance] |= step.members
        self._ends[instance].update(dict.fromkeys(step.kernels, end_us))
        found = self._go((start_us, unit))
        for kernel in step.kernels:
            del self._ends[instance][kernel]
        self._done[instance] &= ~step.members
        self._free[unit] = before
        return found


def _steps_of(pipeline: Pipeline, machine: Units, shares: Sequence[int]) -> list[_Step]:
    """Return the kernels and groups of an instance with their true times on units, given the shares of its kernels."""
    steps = []
    for option in pipeline.options:
        members = sum(1 << kernel for kernel in option.kernels)
        before = sorted({one for kernel in option.kernels for one in pipeline.predecessors[kernel]} - {*option.kernels})
        share = sum(shares[kernel] for kernel in option.kernels)
        times_us = []
        for kind, ecu in zip(machine.kinds, machine.ecus, strict=True):
            worst_us = option.times_us[kind]
            can_run = worst_us != NEVER and pipeline.ecu in (-1, ecu)
            times_us.append(-(-worst_us * share // (WHOLE * len(option.kernels))) if can_run else _ENDLESS)
        needs = sum(1 << one for one in before)
        steps.append(_Step(members, option.kernels, tuple(before), needs, tuple(times_us)))
    return steps


def _least_us(pipeline: Pipeline, steps: Sequence[_Step]) -> list[int]:
    """Return the smallest share of a step that each kernel takes."""
    return [
        min(min(one.times_us) // len(one.kernels) for one in steps if one.members >> kernel & 1)
        for kernel in range(len(pipeline.kernels))
    ]
