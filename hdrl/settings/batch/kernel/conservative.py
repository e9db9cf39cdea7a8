"""Conservative backfilling: every waiting job has a reservation, which no other job may delay.

A job gets its reservation when it comes: the earliest room in the plan (`kernel.plan`) that is there without moving
another. When something becomes free earlier than expected, the jobs are taken in the order of their priority, and each
moves to the earliest room that the reservations of all others leave; this is repeated, in the order of the dates, until
no job can move. So a reservation never becomes later as long as no job takes longer than expected. Where one does, it
is expected to end at once, and reservations that are possible no more are made anew in the order of their dates.
`kernel.reserving` examines a job, `kernel.reexamining` says which jobs need not be examined.

References
----------
D. Feitelson, A. Mu'alem Weil, "Utilization and Predictability in Scheduling the IBM SP2 with Backfilling", IPPS/SPDP
1998. S. Srinivasan, R. Kettimuthu, V. Subramani, P. Sadayappan, "Characterization of Backfilling Strategies for
Parallel Job Scheduling", ICPP Workshops 2002 (priorities under conservative backfilling).
"""

from __future__ import annotations

import math

import numpy as np

from hdrl.compiled.jit import jit
from hdrl.settings.batch.kernel import codes
from hdrl.settings.batch.kernel.backfill import cores_in_answer, note_failure
from hdrl.settings.batch.kernel.plan import NO_RESERVATION, NOT_FOUND, ROUNDING_S, clear, hold
from hdrl.settings.batch.kernel.plan_nodes import is_possible, plan_chosen_nodes, plan_cores_of, reset_snapshots
from hdrl.settings.batch.kernel.reexamining import (
    begin_examining,
    begin_kinds,
    can_skip,
    give_back,
    notify_later_jobs,
    reach_s,
    record_examined,
    room_from_s,
)
from hdrl.settings.batch.kernel.reserving import find_hole, held_until_s, reserve, start_or_move
from hdrl.settings.batch.kernel.selection import CHOSEN
from hdrl.settings.batch.kernel.waiting import sort_by_priority


@jit
def schedule_conservative(state, job_key, core_key):
    """Start the jobs whose time has come, and give all others reservations."""
    s = state.scalars[0]
    s.n_decisions += 1
    s.news = codes.NO_NEWS
    _prepare(state, core_key)
    sort_by_priority(state, job_key)
    reason = _settle(state, core_key)
    if s.n_expected == 0 and s.n_queue > 0:  # with nothing on the machine, no further decision would come
        _begin_plan(state)
        reason = _settle(state, core_key)
    if reason != CHOSEN:
        note_failure(state, reason)
    s.has_plan = 1


@jit
def _settle(state, core_key):
    """Let jobs start and move until none can any more; return why the first did not start."""
    s = state.scalars[0]
    n, reason = s.n_queue, CHOSEN
    for i in range(n):
        state.candidates[i] = state.queue[i]
    freed_s, s.freed_s = s.freed_s, NOT_FOUND
    for i in range(n):
        job = state.candidates[i]
        if i == 0:
            reason = _replan(state, job, core_key, freed_s)
        elif not can_skip(state, job, freed_s):
            _replan(state, job, core_key, freed_s)
    while s.freed_s > s.message_s:
        freed_s, s.freed_s = s.freed_s, NOT_FOUND
        for i in range(_gather_by_date(state)):  # they only ever move to earlier dates
            if not can_skip(state, state.candidates[i], freed_s):
                _replan(state, state.candidates[i], core_key, freed_s)
    s.freed_s = NOT_FOUND
    return reason


@jit
def _gather_by_date(state):
    """Let the jobs with reservations be the candidates, in the order of their dates, then ranks; return how many."""
    n = 0
    for position in range(1, state.scalars[0].n_plan):
        job = state.plan[position]
        if job < 0:
            continue
        at = n
        while at > 0 and _comes_before(state, job, state.candidates[at - 1]):
            state.candidates[at] = state.candidates[at - 1]
            at -= 1
        state.candidates[at] = job
        n += 1
    return n


@jit
def _comes_before(state, job, other):
    row, that = state.reservations[job], state.reservations[other]
    return row.reserved_s < that.reserved_s or (row.reserved_s == that.reserved_s and row.rank < that.rank)


# ------------------------------------------------------------------ the plan before the decision


@jit
def _prepare(state, core_key):
    """Bring the plan up to date: begin one, or mend it where jobs take longer than expected, or did."""
    s = state.scalars[0]
    if s.has_plan == 0:
        _begin_plan(state)
        return
    position = 1
    while position < s.n_plan and state.plan_s[position] <= s.message_s:
        if state.plan[position] < 0 or state.plan_s[position] < s.message_s:
            _mend(state, core_key)
            return
        position += 1
    _begin_decision(state)


@jit
def _begin_decision(state):
    """Record the free resources of the nodes, and those freed since the last decision."""
    if state.scalars[0].plans_nodes == 1:
        reset_snapshots(state)
    begin_examining(state)


@jit
def _begin_plan(state):
    """Begin a plan with the jobs that hold cores; those that wait have no reservation."""
    s = state.scalars[0]
    s.freed_s = NOT_FOUND
    s.plans_nodes = 0
    n_positions = 0
    for job in range(len(state.jobs)):
        row = state.reservations[job]
        row.n_requested, row.memory_mib = state.jobs[job].n_requested, state.jobs[job].memory_mib
        row.reserved_s = NO_RESERVATION
        row.first_planned = n_positions
        n_positions += row.n_requested
        if row.memory_mib > 0.0:
            s.plans_nodes = 1
    _plan_running(state)
    for i in range(s.n_expected if s.plans_nodes == 1 else 0):
        job = state.expected[i]
        if state.jobs[job].n_cores > 0:
            plan_cores_of(state, job, state.allocated, state.jobs[job].first_core, state.jobs[job].n_cores)
        else:  # started in this very answer
            first, n, _ = cores_in_answer(state, job)
            plan_cores_of(state, job, state.pool, first, n)
    begin_kinds(state)
    _begin_decision(state)


@jit
def _plan_running(state):
    """Let the plan be made of the jobs alone that hold cores."""
    s = state.scalars[0]
    n_free = s.n_free_cores
    for i in range(s.n_expected):
        n_free += state.reservations[state.expected[i]].n_requested
    clear(state, n_free)
    for i in range(s.n_expected):
        hold(state, state.expected[i], held_until_s(state, state.expected[i]))


@jit
def _mend(state, core_key):
    """Make the reservations anew, in the order of their dates: the old ones where they still are possible."""
    s = state.scalars[0]
    n = _gather_by_date(state)
    _plan_running(state)
    _begin_decision(state)
    for i in range(n):
        job = state.candidates[i]
        row = state.reservations[job]
        old_s, old_end_s = row.reserved_s, row.reserved_end_s
        date_s, end_s = _postponed(state, row)
        if is_possible(state, job, date_s, end_s):
            reserve(state, job, date_s, end_s)
            continue
        give_back(state, old_s, old_end_s)
        # Up to its date the plan is as it was, but for what has been given back.
        from_s = min(room_from_s(state, job), reach_s(state, row))
        date_s, end_s = find_hole(state, job, core_key, from_s, np.inf, np.inf)
        if s.plans_nodes == 1:
            plan_chosen_nodes(state, job)
        reserve(state, job, date_s, end_s)
        record_examined(state, job)
    s.freed_s = np.inf


@jit
def _postponed(state, row):
    """Return the start and the expected end of a job with a reservation now that its date may have gone by."""
    date_s, end_s = row.reserved_s, row.reserved_end_s
    soon_s = math.nextafter(state.scalars[0].message_s, np.inf)
    if date_s >= soon_s:
        return date_s, end_s
    late_s = soon_s - date_s
    # Messages round dates to six decimals: a delay within that does not move the end, which later jobs look at.
    return soon_s, end_s if late_s <= ROUNDING_S else end_s + late_s


# ------------------------------------------------------------------ the decision


@jit
def _replan(state, job, core_key, freed_s):
    """Let a job start or move to the earliest hole; return why it did not start.

    What was freed until ``freed_s`` has not been offered to any job yet; ``scalars.freed_s`` becomes the same for what
    is freed on the way.
    """
    s = state.scalars[0]
    row = state.reservations[job]
    old_s, old_end_s = row.reserved_s, row.reserved_end_s
    limit_s = np.inf if old_s == NO_RESERVATION else min(old_s, max(freed_s, s.freed_s))
    if old_s > s.message_s and limit_s <= s.message_s:
        return CHOSEN
    outcome = start_or_move(state, job, core_key, limit_s)
    if outcome == CHOSEN:  # others would get other cores now: maybe faster ones, maybe those of nodes with room
        s.freed_s = max(s.freed_s, math.nextafter(s.message_s, np.inf))
    if row.reserved_s == old_s:
        return outcome
    if old_s != NO_RESERVATION:
        from_s = _given_from_s(state, job, old_s, old_end_s)
        give_back(state, from_s, old_end_s)
        if from_s > old_s:  # jobs that start at about that date may start a little earlier now
            notify_later_jobs(state, old_s - s.margin_s, old_s + s.margin_s)
        if _has_freed(state, job, old_s, old_end_s):
            s.freed_s = max(s.freed_s, old_end_s)
    if row.reserved_s != NO_RESERVATION:
        record_examined(state, job)
    return outcome


@jit
def _given_from_s(state, job, old_s, old_end_s):
    """Return from when on a job leaves what was reserved for it until a date; the rest it still needs."""
    row = state.reservations[job]
    if state.scalars[0].plans_nodes == 1:  # maybe on other nodes
        return old_s
    end_s = state.jobs[job].expected_end_s if row.reserved_s == NO_RESERVATION else row.reserved_end_s
    return min(max(old_s, end_s), old_end_s)


@jit
def _has_freed(state, job, old_s, old_end_s):
    """Tell whether a job leaves something free of what was reserved for it."""
    s = state.scalars[0]
    date_s = state.reservations[job].reserved_s
    if date_s == NO_RESERVATION:  # it has started, maybe on other nodes
        return s.plans_nodes == 1 or old_s > s.message_s or state.jobs[job].expected_end_s < old_end_s
    return date_s < old_s
