"""Gavel's rounds: jobs get shares of time on types of GPUs, and each round runs who is furthest behind its share.

As in Gavel's simulator: jobs are whole steps, a round lasts until the last of its jobs has done its steps, jobs that
arrive meanwhile wait for the next one, and shares are computed anew when jobs have come or gone, but not too often.

What gets shares are rows: the first are the jobs, each alone; behind them are pairs of jobs that are packed, which hold
the same GPUs at the same time.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hdrl.compiled.borrow import borrow
from hdrl.compiled.jit import jit
from hdrl.settings.gpu.kernel.jit import entry

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

DONE, NEEDS_SHARES, NEEDS_ORDERS, NEEDS_ROOM, STUCK = range(5)
"""Why the rounds stop."""

NOW_S, ROUND_START_S, ROUND_END_S, LAST_RESET_S, BUSY_S, N_NUMBERS = range(6)
"""Places in ``numbers``."""

(
    NEXT_JOB,
    N_ACTIVE,
    N_RUNNING,
    NEEDS_UPDATE,
    NEXT_ORDER,
    N_STAYS,
    N_UNITS,
    N_LEFT,
    SKIPS_ZERO,
    N_PREEMPTIONS,
    N_MIGRATIONS,
    N_ROUNDS,
    N_IDLE,
    N_PACKED,
    N_COUNTS,
) = range(15)
"""Places in ``counts``; ``N_LEFT`` jobs of the window have not ended, ``SKIPS_ZERO``: only jobs with a share run."""

MAX_IDLE = 1000
"""After so many rounds in which jobs are there and none runs, none will."""


class Rounds(NamedTuple):
    """Arrays of a simulation: jobs ``j``, rows, types ``t``, GPUs.

    ``member`` holds the one or two jobs of a row (-1: none), ``rates`` their steps per second on each type.
    """

    round_s: Floats
    reset_s: Floats
    type_first: Ints
    type_gpus: Ints
    orders: Ints
    # of each job
    arrival_s: Floats
    size: Ints
    is_counted: Ints
    left: Floats
    steps: Floats
    start_s: Floats
    end_s: Floats
    goes_to: Ints
    first_unit: Ints
    units: Ints
    # of each row
    member: Ints
    rates: Floats
    share: Floats
    has_share: Ints
    time_s: Floats
    deficit_s: Floats
    on_type: Ints
    next_type: Ints
    finish_s: Floats
    since_s: Floats
    active: Ints
    sorted: Ints
    priority: Floats
    # of the whole
    type_time_s: Floats
    is_taken: Ints
    numbers: Floats
    counts: Ints
    # the log of stays
    stay_job: Ints
    stay_first: Ints
    stay_start_s: Floats
    stay_end_s: Floats
    stay_rate: Floats
    stay_units: Ints


OF_ROWS = (
    "member",
    "rates",
    "share",
    "has_share",
    "time_s",
    "deficit_s",
    "on_type",
    "next_type",
    "finish_s",
    "since_s",
    "active",
    "sorted",
    "priority",
)
"""Fields whose first axis are rows."""


@jit
def _n_members(r, row):
    """Return how many jobs a row has."""
    return 2 if r.member[row, 1] >= 0 else 1


@jit
def _close_stay(r, row, end_s):
    """Log where the jobs of a row have been; those of a pair were on the same GPUs."""
    leader = r.member[row, 0]
    for m in range(_n_members(r, row)):
        place, first = r.counts[N_STAYS], r.counts[N_UNITS]
        r.stay_job[place], r.stay_first[place] = r.member[row, m], first
        r.stay_rate[place] = r.rates[row, r.on_type[row], m]
        r.stay_start_s[place], r.stay_end_s[place] = r.since_s[row], end_s
        for i in range(r.size[leader]):
            r.stay_units[first + i] = r.units[r.first_unit[leader] + i]
        r.counts[N_STAYS] += 1
        r.counts[N_UNITS] += r.size[leader]


@jit
def _count_steps(r, row):
    """Take off the steps that the jobs of a row have done; tell whether one of them has ended."""
    has_ended = False
    for m in range(_n_members(r, row)):
        j = r.member[row, m]
        r.left[j] -= r.steps[j]
        if r.left[j] <= 0.0:
            has_ended = True
            r.end_s[j] = r.finish_s[row]
            r.counts[NEEDS_UPDATE] = 1
            r.counts[N_LEFT] -= r.is_counted[j]
    return has_ended


@jit
def _is_there(r, row):
    """Tell whether no job of a row has ended."""
    return r.end_s[r.member[row, 0]] < 0.0 and r.end_s[r.member[row, _n_members(r, row) - 1]] < 0.0


@jit
def _end_round(r):
    """Go to the end of the round that runs, or to the next arrival; tell whether there is either."""
    latest_s = 0.0
    for i in range(r.counts[N_ACTIVE]):
        row = r.active[i]
        if r.on_type[row] >= 0:
            latest_s = max(latest_s, r.finish_s[row])
    if latest_s <= 0.0:
        # Jobs without shares may be there; the next date is that of an arrival all the same.
        if r.counts[NEXT_JOB] < len(r.arrival_s):
            r.numbers[NOW_S] = max(r.numbers[NOW_S], r.arrival_s[r.counts[NEXT_JOB]])
            return True
        r.numbers[NOW_S] += r.round_s[0]
        r.counts[N_IDLE] += 1
        return r.counts[N_ACTIVE] > 0 and r.counts[N_IDLE] < MAX_IDLE
    r.numbers[ROUND_START_S] = max(0.0, r.numbers[ROUND_END_S])
    r.numbers[ROUND_END_S] = r.numbers[NOW_S] = latest_s
    for i in range(r.counts[N_ACTIVE]):
        row = r.active[i]
        t = r.on_type[row]
        if t < 0:
            continue
        passed_s = r.finish_s[row] - r.numbers[ROUND_START_S]
        r.time_s[row, t] += passed_s
        if _count_steps(r, row):
            _close_stay(r, row, r.finish_s[row])
            r.on_type[row] = -1
        else:
            r.type_time_s[t] += passed_s
    kept = 0
    for i in range(r.counts[N_ACTIVE]):
        if _is_there(r, r.active[i]):
            r.active[kept] = r.active[i]
            kept += 1
    r.counts[N_ACTIVE] = kept
    return True


@jit
def _admit(r):
    """Take in the jobs that have arrived."""
    while r.counts[NEXT_JOB] < len(r.arrival_s) and r.arrival_s[r.counts[NEXT_JOB]] <= r.numbers[NOW_S]:
        j = r.counts[NEXT_JOB]
        for t in range(len(r.type_gpus)):
            r.time_s[j, t] = r.round_s[0] / 2.0
        r.active[r.counts[N_ACTIVE]] = j
        r.counts[N_ACTIVE] += 1
        r.counts[NEXT_JOB] += 1
        r.counts[NEEDS_UPDATE] = 1


@jit
def _is_before(r, row, other, t):
    if r.priority[row] != r.priority[other]:
        return r.priority[row] > r.priority[other]
    if r.deficit_s[row, t] != r.deficit_s[other, t]:
        return r.deficit_s[row, t] > r.deficit_s[other, t]
    if r.share[row, t] != r.share[other, t]:
        return r.share[row, t] > r.share[other, t]
    # Who could run first: a pair is there as soon as its later job is, and that job alone is before it.
    last, other_last = max(r.member[row, 0], r.member[row, 1]), max(r.member[other, 0], r.member[other, 1])
    if last != other_last:
        return last < other_last
    return r.member[row, 1] < 0 or (r.member[other, 1] >= 0 and r.member[row, 0] < r.member[other, 0])


@jit
def _may_go(r, row, t):
    """Tell whether the jobs of a row can run on a type, and do not run elsewhere in the next round."""
    may = True
    for m in range(_n_members(r, row)):
        may = may and r.rates[row, t, m] > 0.0 and r.goes_to[r.member[row, m]] < 0
    return may


@jit
def _sort_for(r, t):
    """Write the active rows that may run on a type into ``sorted``, the furthest behind first; return how many."""
    n = 0
    for i in range(r.counts[N_ACTIVE]):
        row = r.active[i]
        if not _may_go(r, row, t):
            continue
        value = r.share[row, t] * 1e9
        if value > 0.0 and r.type_time_s[t] > 0.0 and r.time_s[row, t] > 0.0:
            value = r.share[row, t] / (r.time_s[row, t] / r.type_time_s[t])
        r.priority[row] = value
        if value > 0.0 or r.counts[SKIPS_ZERO] == 0:
            r.sorted[n] = row
            n += 1
    gap = n // 2
    while gap > 0:
        for i in range(gap, n):
            row = r.sorted[i]
            k = i
            while k >= gap and _is_before(r, row, r.sorted[k - gap], t):
                r.sorted[k] = r.sorted[k - gap]
                k -= gap
            r.sorted[k] = row
        gap //= 2
    return n


@jit
def _choose(r):
    """Set ``next_type`` of the active rows: on which type they run in the next round, -1 for none."""
    for i in range(r.counts[N_ACTIVE]):
        row = r.active[i]
        r.next_type[row] = -1
        for m in range(_n_members(r, row)):
            r.goes_to[r.member[row, m]] = -1
    order = r.counts[NEXT_ORDER]
    for place in range(len(r.type_gpus)):
        t = r.orders[order, place]
        free = r.type_gpus[t]
        n = _sort_for(r, t)
        for i in range(n):
            row = r.sorted[i]
            if free == 0:
                break
            size = r.size[r.member[row, 0]]
            if size <= free and _may_go(r, row, t):
                free -= size
                r.next_type[row] = t
                for m in range(_n_members(r, row)):
                    r.goes_to[r.member[row, m]] = t
    r.counts[NEXT_ORDER] += 1


@jit
def _keep_or_leave(r):
    """End the stays of rows that do not go on where they are, and mark the GPUs of those that do."""
    for g in range(len(r.is_taken)):
        r.is_taken[g] = 0
    for i in range(r.counts[N_ACTIVE]):
        row = r.active[i]
        t = r.on_type[row]
        if t < 0:
            continue
        leader = r.member[row, 0]
        if r.next_type[row] == t:
            for k in range(r.size[leader]):
                r.is_taken[r.units[r.first_unit[leader] + k]] = 1
            continue
        _close_stay(r, row, r.numbers[NOW_S])
        r.on_type[row] = -1
        for m in range(_n_members(r, row)):
            goes_to = r.goes_to[r.member[row, m]]
            r.counts[N_PREEMPTIONS] += goes_to != t
            r.counts[N_MIGRATIONS] += goes_to >= 0 and goes_to != t


@jit
def _take_units(r, j, t):
    k = 0
    for g in range(r.type_first[t], r.type_first[t] + r.type_gpus[t]):
        if k < r.size[j] and r.is_taken[g] == 0:
            r.is_taken[g] = 1
            r.units[r.first_unit[j] + k] = g
            k += 1


@jit
def _begin_round(r):
    """Let the chosen rows do the steps of a round; who is packed waits for the other."""
    now_s = r.numbers[NOW_S]
    for i in range(r.counts[N_ACTIVE]):
        row = r.active[i]
        t = r.next_type[row]
        if t < 0 or r.has_share[row] == 0:
            continue
        leader = r.member[row, 0]
        if r.on_type[row] != t:
            _take_units(r, leader, t)
            r.on_type[row], r.since_s[row] = t, now_s
        longest_s = 0.0
        for m in range(_n_members(r, row)):
            j = r.member[row, m]
            if r.start_s[j] < 0.0:
                r.start_s[j] = now_s
            r.steps[j] = min(max(1.0, np.floor(r.rates[row, t, m] * r.round_s[0])), r.left[j])
            longest_s = max(longest_s, r.steps[j] / r.rates[row, t, m])
        r.finish_s[row] = now_s + longest_s
        r.numbers[BUSY_S] += longest_s * r.size[leader]
        r.counts[N_PACKED] += _n_members(r, row) - 1
        r.counts[N_IDLE] = 0
    r.counts[N_ROUNDS] += 1


@jit
def _is_new_round(r):
    """Tell whether shares are computed before this round."""
    last_s = r.numbers[LAST_RESET_S]
    return r.counts[NEEDS_UPDATE] > 0 and (last_s == 0.0 or r.numbers[NOW_S] - last_s >= r.reset_s[0])


@jit
def _has_room(r):
    most = 4 * len(r.is_taken)  # all GPUs left and taken anew, by pairs
    return r.counts[N_STAYS] + most < len(r.stay_job) and r.counts[N_UNITS] + most < len(r.stay_units)


@entry
def run(rounds, has_new_shares):
    """Simulate rounds until shares, orders of types or room for stays are needed; return which, or that it is done."""
    r = borrow(rounds)
    goes_on = has_new_shares
    while True:
        if not goes_on:
            if r.counts[N_LEFT] == 0:
                return DONE
            if not _has_room(r):
                return NEEDS_ROOM
            if r.counts[NEXT_ORDER] >= r.orders.shape[0]:
                return NEEDS_ORDERS
            if not _end_round(r):
                return STUCK
            _admit(r)
            if _is_new_round(r):
                return NEEDS_SHARES
        goes_on = False
        _choose(r)
        _keep_or_leave(r)
        _begin_round(r)
