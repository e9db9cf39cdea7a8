"""Gavel's rounds: jobs get shares of time on types of GPUs, and each round runs who is furthest behind its share.

As in Gavel's simulator: jobs are whole steps, a round lasts until the last of its jobs has done its steps, jobs that
arrive meanwhile wait for the next one, and shares are computed anew when jobs have come or gone, but not too often.
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
    N_COUNTS,
) = range(14)
"""Places in ``counts``; ``N_LEFT`` jobs of the window have not ended, ``SKIPS_ZERO``: only jobs with a share run."""

MAX_IDLE = 1000
"""After so many rounds in which jobs are there and none runs, none will."""


class Rounds(NamedTuple):
    """Arrays of a simulation: jobs ``j``, types ``t``, GPUs."""

    round_s: Floats
    reset_s: Floats
    type_first: Ints
    type_gpus: Ints
    orders: Ints
    arrival_s: Floats
    size: Ints
    rates: Floats
    is_counted: Ints
    left: Floats
    share: Floats
    has_share: Ints
    time_s: Floats
    deficit_s: Floats
    type_time_s: Floats
    start_s: Floats
    end_s: Floats
    on_type: Ints
    next_type: Ints
    finish_s: Floats
    steps: Floats
    since_s: Floats
    first_unit: Ints
    units: Ints
    is_taken: Ints
    active: Ints
    sorted: Ints
    priority: Floats
    numbers: Floats
    counts: Ints
    stay_job: Ints
    stay_first: Ints
    stay_start_s: Floats
    stay_end_s: Floats
    stay_type: Ints
    stay_units: Ints


@jit
def _close_stay(r, j, end_s):
    place, first = r.counts[N_STAYS], r.counts[N_UNITS]
    r.stay_job[place], r.stay_first[place], r.stay_type[place] = j, first, r.on_type[j]
    r.stay_start_s[place], r.stay_end_s[place] = r.since_s[j], end_s
    for i in range(r.size[j]):
        r.stay_units[first + i] = r.units[r.first_unit[j] + i]
    r.counts[N_STAYS] += 1
    r.counts[N_UNITS] += r.size[j]


@jit
def _end_round(r):
    """Go to the end of the round that runs, or to the next arrival; tell whether there is either."""
    latest_s = 0.0
    for i in range(r.counts[N_ACTIVE]):
        j = r.active[i]
        if r.on_type[j] >= 0:
            latest_s = max(latest_s, r.finish_s[j])
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
    kept = 0
    for i in range(r.counts[N_ACTIVE]):
        j = r.active[i]
        t = r.on_type[j]
        if t >= 0:
            passed_s = r.finish_s[j] - r.numbers[ROUND_START_S]
            r.time_s[j, t] += passed_s
            r.left[j] -= r.steps[j]
            if r.left[j] <= 0.0:
                r.end_s[j] = r.finish_s[j]
                _close_stay(r, j, r.finish_s[j])
                r.on_type[j] = -1
                r.counts[NEEDS_UPDATE] = 1
                r.counts[N_LEFT] -= r.is_counted[j]
                continue
            r.type_time_s[t] += passed_s
        r.active[kept] = j
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
def _is_before(r, j, other, t):
    if r.priority[j] != r.priority[other]:
        return r.priority[j] > r.priority[other]
    if r.deficit_s[j, t] != r.deficit_s[other, t]:
        return r.deficit_s[j, t] > r.deficit_s[other, t]
    if r.share[j, t] != r.share[other, t]:
        return r.share[j, t] > r.share[other, t]
    return j < other


@jit
def _sort_for(r, t):
    """Write the active jobs that may run on a type into ``sorted``, the furthest behind first; return how many."""
    n = 0
    for i in range(r.counts[N_ACTIVE]):
        j = r.active[i]
        if r.rates[j, t] <= 0.0 or r.next_type[j] >= 0:
            continue
        value = r.share[j, t] * 1e9
        if value > 0.0 and r.type_time_s[t] > 0.0 and r.time_s[j, t] > 0.0:
            value = r.share[j, t] / (r.time_s[j, t] / r.type_time_s[t])
        r.priority[j] = value
        if value > 0.0 or r.counts[SKIPS_ZERO] == 0:
            r.sorted[n] = j
            n += 1
    gap = n // 2
    while gap > 0:
        for i in range(gap, n):
            j = r.sorted[i]
            k = i
            while k >= gap and _is_before(r, j, r.sorted[k - gap], t):
                r.sorted[k] = r.sorted[k - gap]
                k -= gap
            r.sorted[k] = j
        gap //= 2
    return n


@jit
def _choose(r):
    """Set ``next_type`` of the active jobs: on which type they run in the next round, -1 for none."""
    for i in range(r.counts[N_ACTIVE]):
        r.next_type[r.active[i]] = -1
    order = r.counts[NEXT_ORDER]
    for place in range(len(r.type_gpus)):
        t = r.orders[order, place]
        free = r.type_gpus[t]
        n = _sort_for(r, t)
        for i in range(n):
            j = r.sorted[i]
            if free == 0:
                break
            if r.size[j] <= free:
                free -= r.size[j]
                r.next_type[j] = t
    r.counts[NEXT_ORDER] += 1


@jit
def _keep_or_leave(r):
    """End the stays of jobs that do not go on where they are, and mark the GPUs of those that do."""
    for g in range(len(r.is_taken)):
        r.is_taken[g] = 0
    for i in range(r.counts[N_ACTIVE]):
        j = r.active[i]
        if r.on_type[j] < 0:
            continue
        if r.next_type[j] == r.on_type[j]:
            for k in range(r.size[j]):
                r.is_taken[r.units[r.first_unit[j] + k]] = 1
        else:
            _close_stay(r, j, r.numbers[NOW_S])
            r.counts[N_PREEMPTIONS] += 1
            r.counts[N_MIGRATIONS] += r.next_type[j] >= 0
            r.on_type[j] = -1


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
    """Let the chosen jobs do the steps of a round."""
    now_s = r.numbers[NOW_S]
    for i in range(r.counts[N_ACTIVE]):
        j = r.active[i]
        t = r.next_type[j]
        if t < 0 or r.has_share[j] == 0:
            continue
        if r.on_type[j] != t:
            _take_units(r, j, t)
            r.on_type[j], r.since_s[j] = t, now_s
        if r.start_s[j] < 0.0:
            r.start_s[j] = now_s
        r.steps[j] = min(max(1.0, np.floor(r.rates[j, t] * r.round_s[0])), r.left[j])
        r.finish_s[j] = now_s + r.steps[j] / r.rates[j, t]
        r.numbers[BUSY_S] += r.steps[j] / r.rates[j, t] * r.size[j]
        r.counts[N_IDLE] = 0
    r.counts[N_ROUNDS] += 1


@jit
def _is_new_round(r):
    """Tell whether shares are computed before this round."""
    last_s = r.numbers[LAST_RESET_S]
    return r.counts[NEEDS_UPDATE] > 0 and (last_s == 0.0 or r.numbers[NOW_S] - last_s >= r.reset_s[0])


@jit
def _has_room(r):
    n = r.counts[N_ACTIVE]
    return r.counts[N_STAYS] + n + 1 < len(r.stay_job) and r.counts[N_UNITS] + 2 * len(r.is_taken) < len(r.stay_units)


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
