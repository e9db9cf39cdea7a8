"""Gavel's rounds: jobs get shares of time on types of GPUs, and each round runs those furthest behind their share.

As in Gavel's simulator: jobs are whole steps, a round lasts until the last of its jobs has done its steps, jobs that
arrive meanwhile wait for the next one, and shares are computed anew when jobs have come or gone, but not too often.

What gets shares are rows: the first are the jobs, each alone; behind them are pairs of jobs that are packed, which hold
the same GPUs at the same time. Shares without a linear program are computed here, all others in Python.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hdrl.compiled.borrow import borrow
from hdrl.compiled.codes import UNKNOWN_CODE, CodeTable
from hdrl.compiled.fields import log, own, shared
from hdrl.compiled.jit import jit
from hdrl.compiled.records import of, record_dtype
from hdrl.compiled.twister import draw_below
from hdrl.settings.gpu.kernel.jit import entry

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Rows = NDArray[np.void]
Words = NDArray[np.uint32]

DONE, NEEDS_SHARES, PAUSED, NEEDS_ROOM, STUCK = range(5)
"""Why the rounds stop."""

SHARES = CodeTable("policy of shares", range(4))
BY_PYTHON, FIRST_COME, FASTEST, EQUAL_PARTS = SHARES
"""Rules that compute shares. ``FIRST_COME``: a job keeps the type that it got; ``FASTEST``: of the types that are free,
jobs get the fastest anew every time."""

N_ROUNDS_AT_ONCE = 4096
"""The kernel returns after this many rounds, so that Python can show progress."""

MAX_IDLE = 1000
"""After this many rounds in which jobs wait and none runs, the kernel reports a deadlock."""

STAYS_PER_GPU = 4
"""Entries for each GPU that a round adds to the log of stays at most: all are left and taken anew, by pairs."""

SCALAR_DTYPE = record_dtype(
    [
        *of(np.float64, "round_s", "reset_s"),
        # rule of the shares, whether types choose in a drawn order, number of jobs of the window that have not ended
        *of(np.int64, "shares", "is_shuffled", "n_left"),
        *of(np.float64, "now_s", "round_start_s", "round_end_s", "last_reset_s", "busy_s"),
        *of(np.int64, "next_job", "n_holders", "repeats", "needs_update", "n_active", "n_stays", "n_units"),
        *of(np.int64, "n_preemptions", "n_migrations", "n_rounds", "n_idle", "n_packed"),
    ]
)

STAY_DTYPE = record_dtype([*of(np.int64, "job", "first"), *of(np.float64, "start_s", "end_s", "rate")])


class Rounds(NamedTuple):
    """Arrays of a simulation: jobs ``j``, rows, types ``t``, GPUs.

    ``member`` holds the one or two jobs of a row (-1: none), ``rates`` their steps per second on each type. Under
    `FIRST_COME` and `FASTEST`, ``held_type`` is the type of each job (-1: none), and the ``holders`` are the jobs that
    got one by the last shares, ascending.
    """

    scalars: Annotated[Rows, own(SCALAR_DTYPE, "one")]
    type_first: Annotated[Ints, shared(np.int64, "n_types")]
    type_gpus: Annotated[Ints, shared(np.int64, "n_types")]
    order: Annotated[Ints, own(np.int64, "n_types")]
    order_draws: Annotated[Words, own(np.uint32, "n_twister")]
    type_draws: Annotated[Words, own(np.uint32, "n_twister")]
    free: Annotated[Ints, own(np.int64, "n_types")]
    is_open: Annotated[Ints, own(np.int64, "n_types")]
    # of each job
    arrival_s: Annotated[Floats, shared(np.float64, "n_jobs")]
    size: Annotated[Ints, shared(np.int64, "n_jobs")]
    is_counted: Annotated[Ints, shared(np.int64, "n_jobs")]
    first_unit: Annotated[Ints, shared(np.int64, "n_jobs")]
    left: Annotated[Floats, own(np.float64, "n_jobs")]
    steps: Annotated[Floats, own(np.float64, "n_jobs")]
    start_s: Annotated[Floats, own(np.float64, "n_jobs")]
    end_s: Annotated[Floats, own(np.float64, "n_jobs")]
    goes_to: Annotated[Ints, own(np.int64, "n_jobs")]
    held_type: Annotated[Ints, own(np.int64, "n_jobs")]
    holders: Annotated[Ints, own(np.int64, "n_jobs")]
    units: Annotated[Ints, own(np.int64, "n_asked")]
    # of each row
    member: Annotated[Ints, own(np.int64, "n_rows", "two")]
    rates: Annotated[Floats, own(np.float64, "n_rows", "n_types", "two")]
    share: Annotated[Floats, own(np.float64, "n_rows", "n_types")]
    has_share: Annotated[Ints, own(np.int64, "n_rows")]
    time_s: Annotated[Floats, own(np.float64, "n_rows", "n_types")]
    deficit_s: Annotated[Floats, own(np.float64, "n_rows", "n_types")]
    on_type: Annotated[Ints, own(np.int64, "n_rows")]
    next_type: Annotated[Ints, own(np.int64, "n_rows")]
    finish_s: Annotated[Floats, own(np.float64, "n_rows")]
    since_s: Annotated[Floats, own(np.float64, "n_rows")]
    active: Annotated[Ints, own(np.int64, "n_rows")]
    sorted: Annotated[Ints, own(np.int64, "n_rows")]
    priority: Annotated[Floats, own(np.float64, "n_rows")]
    # of the machine
    type_time_s: Annotated[Floats, own(np.float64, "n_types")]
    is_taken: Annotated[Ints, own(np.int64, "n_gpus")]
    # the log of stays
    stays: Annotated[Rows, log(STAY_DTYPE, "n_log", counted_by="n_stays")]
    stay_units: Annotated[Ints, log(np.int64, "n_log_units", counted_by="n_units")]


@jit
def _n_members(r, row):
    """Return the number of jobs of a row."""
    return 2 if r.member[row, 1] >= 0 else 1


@jit
def _close_stay(r, row, end_s):
    """Log the stay of the jobs of a row; those of a pair were on the same GPUs."""
    s = r.scalars[0]
    leader = r.member[row, 0]
    for m in range(_n_members(r, row)):
        position, first = s.n_stays, s.n_units
        stay = r.stays[position]
        stay.job, stay.first, stay.rate = r.member[row, m], first, r.rates[row, r.on_type[row], m]
        stay.start_s, stay.end_s = r.since_s[row], end_s
        for i in range(r.size[leader]):
            r.stay_units[first + i] = r.units[r.first_unit[leader] + i]
        s.n_stays += 1
        s.n_units += r.size[leader]


@jit
def _count_steps(r, row):
    """Take off the steps that the jobs of a row have done; return whether one of them has ended."""
    s = r.scalars[0]
    has_ended = False
    for m in range(_n_members(r, row)):
        j = r.member[row, m]
        r.left[j] -= r.steps[j]
        if r.left[j] <= 0.0:
            has_ended = True
            r.end_s[j] = r.finish_s[row]
            s.needs_update = 1
            s.n_left -= r.is_counted[j]
    return has_ended


@jit
def _is_there(r, row):
    """Return whether no job of a row has ended."""
    return r.end_s[r.member[row, 0]] < 0.0 and r.end_s[r.member[row, _n_members(r, row) - 1]] < 0.0


@jit
def _end_round(r):
    """Go to the end of the round that runs, or to the next arrival; return whether there is either."""
    s = r.scalars[0]
    latest_s = 0.0
    for i in range(s.n_active):
        row = r.active[i]
        if r.on_type[row] >= 0:
            latest_s = max(latest_s, r.finish_s[row])
    if latest_s <= 0.0:
        # Jobs without shares may be there; the next date is that of an arrival all the same.
        if s.next_job < len(r.arrival_s):
            s.now_s = max(s.now_s, r.arrival_s[s.next_job])
            return True
        # No job arrives and none runs: rounds pass until shares change, or `MAX_IDLE` shows that they never will.
        s.now_s += s.round_s
        s.n_idle += 1
        return s.n_active > 0 and s.n_idle < MAX_IDLE
    s.round_start_s = max(0.0, s.round_end_s)
    s.round_end_s = s.now_s = latest_s
    for i in range(s.n_active):
        row = r.active[i]
        t = r.on_type[row]
        if t < 0:
            continue
        passed_s = r.finish_s[row] - s.round_start_s
        r.time_s[row, t] += passed_s
        if _count_steps(r, row):
            _close_stay(r, row, r.finish_s[row])
            r.on_type[row] = -1
        else:
            # As in Gavel's simulator, time of jobs that have ended does not count for their type.
            r.type_time_s[t] += passed_s
    # Compacted in place: functions of the kernel do not allocate.
    kept = 0
    for i in range(s.n_active):
        if _is_there(r, r.active[i]):
            r.active[kept] = r.active[i]
            kept += 1
    s.n_active = kept
    return True


@jit
def _admit(r):
    """Take in the jobs that have arrived."""
    s = r.scalars[0]
    while s.next_job < len(r.arrival_s) and r.arrival_s[s.next_job] <= s.now_s:
        j = s.next_job
        for t in range(len(r.type_gpus)):
            # Gavel begins with half a round, so that new jobs are not infinitely far behind.
            r.time_s[j, t] = s.round_s / 2.0
        r.active[s.n_active], r.next_type[j] = j, -1
        s.n_active += 1
        s.next_job += 1
        s.needs_update = 1


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
    """Return whether the jobs of a row can run on a type, and do not run elsewhere in the next round."""
    may = True
    for m in range(_n_members(r, row)):
        may = may and r.rates[row, t, m] > 0.0 and r.goes_to[r.member[row, m]] < 0
    return may


@jit
def _gives_types(s):
    """Return whether a job gets one type, or none and does not run."""
    return s.shares in (FIRST_COME, FASTEST)


@jit
def _sort_for(r, t):
    """Write the active rows that may run on a type into ``sorted``, the furthest behind first; return how many."""
    s = r.scalars[0]
    n = 0
    for i in range(s.n_active):
        row = r.active[i]
        if not _may_go(r, row, t):
            continue
        # A row that has never run on the type is ahead of all that have, by its share.
        value = r.share[row, t] * 1e9
        if value > 0.0 and r.type_time_s[t] > 0.0 and r.time_s[row, t] > 0.0:
            value = r.share[row, t] / (r.time_s[row, t] / r.type_time_s[t])
        r.priority[row] = value
        if value > 0.0 or not _gives_types(s):
            r.sorted[n] = row
            n += 1
    # Shell sort: no memory, no recursion, and n is some hundreds; the order is total, so stability does not matter.
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
    s = r.scalars[0]
    for i in range(s.n_active):
        row = r.active[i]
        r.next_type[row] = -1
        for m in range(_n_members(r, row)):
            r.goes_to[r.member[row, m]] = -1
    # Types in a drawn order: which one chooses first matters for jobs that could run on several.
    n_waiting = s.n_holders
    for position in range(len(r.type_gpus)):
        t = r.order[position]
        free = r.type_gpus[t]
        n = _sort_for(r, t)
        for i in range(n):
            row = r.sorted[i]
            if free == 0:
                break
            size = r.size[r.member[row, 0]]
            if size <= free and _may_go(r, row, t):
                free -= size
                n_waiting -= 1
                r.next_type[row] = t
                for m in range(_n_members(r, row)):
                    r.goes_to[r.member[row, m]] = t
    # Where each job that holds a type runs on it, nothing else can be chosen before there are new shares.
    s.repeats = _gives_types(s) and n_waiting == 0


@jit
def _keep_or_leave(r):
    """End the stays of rows that do not go on where they are, and mark the GPUs of those that do."""
    s = r.scalars[0]
    # Rows that go on keep their GPUs; all others choose anew, so marks are made before any GPU is taken.
    for g in range(len(r.is_taken)):
        r.is_taken[g] = 0
    for i in range(s.n_active):
        row = r.active[i]
        t = r.on_type[row]
        if t < 0:
            continue
        leader = r.member[row, 0]
        if r.next_type[row] == t:
            for k in range(r.size[leader]):
                r.is_taken[r.units[r.first_unit[leader] + k]] = 1
            continue
        _close_stay(r, row, s.now_s)
        r.on_type[row] = -1
        for m in range(_n_members(r, row)):
            goes_to = r.goes_to[r.member[row, m]]
            # A move to another type is both a preemption and a migration.
            s.n_preemptions += goes_to != t
            s.n_migrations += goes_to >= 0 and goes_to != t


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
    """Let the chosen rows do the steps of a round; a packed job waits for the other of its pair."""
    s = r.scalars[0]
    now_s = s.now_s
    for i in range(s.n_active):
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
            # Whole steps, at least one: otherwise a job with less than a step in a round would never end.
            r.steps[j] = min(max(1.0, np.floor(r.rates[row, t, m] * s.round_s)), r.left[j])
            longest_s = max(longest_s, r.steps[j] / r.rates[row, t, m])
        r.finish_s[row] = now_s + longest_s
        s.busy_s += longest_s * r.size[leader]
        s.n_packed += _n_members(r, row) - 1
        s.n_idle = 0
    s.n_rounds += 1


@jit
def _is_new_round(r):
    """Return whether shares are computed before this round."""
    s = r.scalars[0]
    last_s = s.last_reset_s
    # The first shares are computed at once (last_s is 0), later ones not more often than every reset_s.
    return s.needs_update > 0 and (last_s == 0.0 or s.now_s - last_s >= s.reset_s)


@jit
def _settle(r):
    """Write the active rows, ascending, into ``sorted``; what they did not get of their old shares is remembered."""
    s = r.scalars[0]
    passed_s, half_s = s.now_s - s.last_reset_s, s.round_s / 2.0
    for i in range(s.n_active):
        row, k = r.active[i], i
        while k > 0 and r.sorted[k - 1] > row:
            r.sorted[k] = r.sorted[k - 1]
            k -= 1
        r.sorted[k] = row
        for t in range(len(r.type_gpus)):
            r.deficit_s[row, t] += r.share[row, t] * passed_s - (r.time_s[row, t] - half_s)
            r.time_s[row, t] = half_s
    for t in range(len(r.type_gpus)):
        r.type_time_s[t] = s.n_active * half_s
    s.last_reset_s, s.needs_update, s.repeats = s.now_s, 0, 0


@jit
def _draw_order(r):
    """Write the order in which types choose: the last by name first, or shuffled as by Python's ``random.shuffle``."""
    n = len(r.order)
    for t in range(n):
        r.order[t] = n - 1 - t
    if r.scalars[0].is_shuffled:
        for i in range(n - 1, 0, -1):
            j = draw_below(r.order_draws, i + 1)
            r.order[i], r.order[j] = r.order[j], r.order[i]


@jit
def _next_without(r, position):
    """Return the position in ``sorted``, from one on, of the first job that holds no type."""
    while position < r.scalars[0].n_active and r.held_type[r.sorted[position]] >= 0:
        position += 1
    return position


@jit
def _choose_type(r, job):
    """Return the type that a job gets, and the one that is closed if that type is used up; -1 if none has room.

    Gavel's program without throughputs draws a type, takes the last one that is left all the same, and closes the one
    that it drew. Its published numbers come from that.
    """
    fastest, last, n_fitting = -1, -1, 0
    for t in range(len(r.free)):
        # A type with fewer GPUs than the job needs would keep it waiting forever.
        if r.is_open[t] and r.rates[job, t, 0] > 0.0 and r.type_gpus[t] >= r.size[job]:
            last = t
            if r.free[t] >= r.size[job]:
                n_fitting += 1
                if fastest < 0 or r.rates[job, t, 0] > r.rates[job, fastest, 0]:
                    fastest = t
    if n_fitting == 0:
        return -1, -1
    if r.scalars[0].shares == FASTEST:
        return fastest, fastest
    drawn = draw_below(r.type_draws, n_fitting)
    for t in range(len(r.free)):
        if r.is_open[t] and r.rates[job, t, 0] > 0.0 and r.free[t] >= r.size[job]:
            if drawn == 0:
                return last, t
            drawn -= 1
    return -1, -1


@jit
def _give(r, job, t):
    r.held_type[job] = t
    r.free[t] -= r.size[job]


@jit
def _follow(r):
    """Give the positions of jobs that have ended to the first that wait; return where in ``sorted`` the next one is."""
    s, position = r.scalars[0], _next_without(r, 0)
    for i in range(s.n_holders):
        job = r.holders[i]
        t = r.held_type[job]
        if r.end_s[job] < 0.0:
            r.free[t] -= r.size[job]
            continue
        # A job that does not fit in the place of one that has ended stays the first that waits.
        if position < s.n_active:
            follower = r.sorted[position]
            if r.size[follower] <= r.free[t] and r.rates[follower, t, 0] > 0.0:
                _give(r, follower, t)
                position = _next_without(r, position)
    return position


@jit
def _fill(r, position):
    """Give the types that are left to the jobs that wait, from a position in ``sorted`` on."""
    for t in range(len(r.free)):
        r.is_open[t] = r.free[t] > 0
    while position < r.scalars[0].n_active:
        t, full = _choose_type(r, r.sorted[position])
        if t < 0:
            break
        _give(r, r.sorted[position], t)
        if r.free[t] == 0:
            r.is_open[full] = 0
        position = _next_without(r, position)


@jit
def _give_types(r):
    """Give waiting jobs, the first come first, types; the active ones are in ``sorted``."""
    s = r.scalars[0]
    for t in range(len(r.free)):
        r.free[t] = r.type_gpus[t]
    if s.shares == FASTEST:
        for i in range(s.n_holders):
            r.held_type[r.holders[i]] = -1
        s.n_holders = 0
    _fill(r, _follow(r))
    s.n_holders = 0
    for i in range(s.n_active):
        job = r.sorted[i]
        for t in range(len(r.free)):
            r.share[job, t] = r.held_type[job] == t
        if r.held_type[job] >= 0:
            r.holders[s.n_holders] = job
            s.n_holders += 1


@jit
def _give_equal_parts(r):
    """Give each job an equal part of the cluster, whatever its GPUs."""
    s = r.scalars[0]
    for i in range(s.n_active):
        job, total = r.sorted[i], 0.0
        for t in range(len(r.type_gpus)):
            r.share[job, t] = r.type_gpus[t] / s.n_active / r.size[job]
            total += r.share[job, t]
        for t in range(len(r.type_gpus)):
            r.share[job, t] /= max(1.0, total)


@jit
def _give_shares(r):
    """Compute the shares of the active jobs, which are in ``sorted``, without Python."""
    s = r.scalars[0]
    if _gives_types(s):
        _give_types(r)
    else:
        _give_equal_parts(r)
    for i in range(s.n_active):
        r.has_share[r.sorted[i]] = 1


@jit
def _has_room(r):
    s = r.scalars[0]
    most = STAYS_PER_GPU * len(r.is_taken)
    return s.n_stays + most < len(r.stays) and s.n_units + most < len(r.stay_units)


@jit
def _go_on(r, last_round):
    """Go to the next round and compute new shares if they are due; return why it stops, or -1."""
    s = r.scalars[0]
    if s.n_left == 0:
        return DONE
    if not _has_room(r):
        return NEEDS_ROOM
    if s.n_rounds >= last_round:
        return PAUSED
    if not _end_round(r):
        return STUCK
    _admit(r)
    if _is_new_round(r):
        _settle(r)
        if s.shares == BY_PYTHON:
            return NEEDS_SHARES
        if s.n_active > 0:
            _give_shares(r)
    return -1


@jit
def _run(r, has_new_shares):
    s = r.scalars[0]
    if s.shares not in SHARES:
        return UNKNOWN_CODE
    why, last_round = -1, s.n_rounds + N_ROUNDS_AT_ONCE
    while True:
        if not has_new_shares:
            why = _go_on(r, last_round)
        if why >= 0:
            return why
        has_new_shares = False
        _draw_order(r)
        if not s.repeats:
            _choose(r)
            _keep_or_leave(r)
        _begin_round(r)


@entry
def run(rounds, has_new_shares):
    """Simulate rounds until shares or room for stays are needed, or for some rounds; return why it stopped."""
    return _run(borrow(rounds), has_new_shares)
