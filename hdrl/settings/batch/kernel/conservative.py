"""Conservative backfilling: every waiting job has a reservation, and nobody may delay anybody.

A job gets its reservation when it comes: the earliest hole in the plan (`kernel.plan`) that is there without
moving anybody. When something becomes free earlier than expected, the jobs are taken in the order of their priority,
and each moves to the earliest hole that the reservations of all others leave; this is repeated, in the order of the
dates, until no job can move. So a reservation never becomes later as long as no job takes longer than expected. Where
one does, it is expected to end at once, and reservations that are possible no more are made anew in the order of their
dates.

A job that may start now gets the cores that the core selection chooses, if those delay no reservation, and is judged by
how long it takes on them; else, where jobs ask for memory, the nodes that were planned for it.

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
from hdrl.settings.batch.kernel.backfill import cores_in_answer, expected_run_s
from hdrl.settings.batch.kernel.blocks import fold, place_before, slot_of, unfold
from hdrl.settings.batch.kernel.bounds import (
    begin_asking,
    begin_bounds,
    forget_lacks,
    give_back,
    no_hole_before,
    note_asked,
    note_free_speeds,
    note_lack,
    rests,
    tell_those_behind,
    where_to_look,
)
from hdrl.settings.batch.kernel.cells import join_cell, leave_cell
from hdrl.settings.batch.kernel.cluster import lock, unlock
from hdrl.settings.batch.kernel.holes import find_hole, find_slide, is_hole, near_s, stays_free
from hdrl.settings.batch.kernel.plan import NOT_FOUND, ROUNDING_S, add_end, length_s
from hdrl.settings.batch.kernel.plan_changes import add_hidden, hide, hold_until, move_earlier, show, withdraw
from hdrl.settings.batch.kernel.plan_nodes import (
    memory_binds,
    nodes_have_place,
    nodes_stay_free,
    plan_chosen_nodes,
    plan_cores_of,
)
from hdrl.settings.batch.kernel.selection import CHOSEN, NO_CORES, choose_cores
from hdrl.settings.batch.kernel.sorting import sort_cores
from hdrl.settings.batch.kernel.starting import note_failure, start_job
from hdrl.settings.batch.kernel.waiting import find, sort_by_priority

_NO_RESERVATION = -1.0


@jit
def schedule_conservative(state, job_key, core_key):
    """Start the jobs whose time has come, and give all others reservations."""
    s = state.scalars[0]
    s.n_decisions += 1
    s.news = codes.NO_NEWS
    _prepare(state, core_key)
    sort_by_priority(state, job_key)
    reason = _settle(state, core_key)
    if s.n_expected == 0 and s.n_queue > 0:  # with nothing on the machine, nobody would be asked again
        _begin_plan(state)
        reason = _settle(state, core_key)
    if reason != CHOSEN:
        note_failure(state, reason)
    fold(state)
    s.has_plan = 1


@jit
def _settle(state, core_key):
    """Let jobs start and move until none can any more; return why the first did not start."""
    s = state.scalars[0]
    for i in range(s.n_queue):
        state.candidates[i] = state.queue[i]
    note_free_speeds(state)
    freed_s, s.freed_s = s.freed_s, NOT_FOUND
    n, reason = s.n_queue, CHOSEN
    for i in range(n):
        job = state.candidates[i]
        if i == 0:
            reason = _ask(state, job, core_key, freed_s)
        elif not rests(state, job, freed_s):
            _ask(state, job, core_key, freed_s)
    while s.freed_s > s.message_s:
        freed_s, s.freed_s = s.freed_s, NOT_FOUND
        _ask_by_date(state, core_key, freed_s)
    s.freed_s = NOT_FOUND
    return reason


@jit
def _ask_by_date(state, core_key, freed_s):
    """Ask the jobs with reservations in the order of their dates, then ranks: they only ever move to earlier dates."""
    s = state.scalars[0]
    asked_s, asked = -np.inf, -1
    block, i = 0, np.int64(0)
    while block < s.n_blocks:
        first = slot_of(state, block, 0)
        end = first + state.blocks[state.block_order[block]].n
        slot = _next_to_ask(state, first + i, end, freed_s)
        if slot == end:
            block, i = block + 1, np.int64(0)
            continue
        date_s, job, n_reserved = state.slot_s[slot], state.slot_event[slot], s.n_reserved
        i = slot - first + 1
        if asked_s == date_s and state.reservations[job].rank <= state.reservations[asked].rank:
            continue
        _ask(state, job, core_key, freed_s)
        asked_s, asked = date_s, job
        if s.n_reserved != n_reserved:
            block, i, _ = place_before(state, date_s)


@jit
def _next_to_ask(state, slot, end, freed_s):
    """Return the next place in a block where the reservation of a job begins that may start or move, or the end."""
    while slot < end and (state.slot_event[slot] < 0 or rests(state, state.slot_event[slot], freed_s)):
        slot += 1
    return slot


@jit
def _add_by_date(state, code, n):
    """Put the job of an event among ``n`` others if its reservation begins then; return how many that adds."""
    if code < 0:
        return 0
    place = n
    while place > 0 and _comes_before(state, code, state.candidates[place - 1]):
        state.candidates[place] = state.candidates[place - 1]
        place -= 1
    state.candidates[place] = code
    return 1


# ------------------------------------------------------------------ the plan before the decision


@jit
def _prepare(state, core_key):
    """Bring the plan up to date: begin one, or mend it where jobs take longer than expected, or did."""
    s = state.scalars[0]
    if s.has_plan == 0:
        _begin_plan(state)
        return
    place = 0
    while place < s.n_plan and state.plan_s[place] <= s.message_s:
        if state.plan[place] < 0 or state.plan_s[place] < s.message_s:
            _mend(state, core_key)
            return
        place += 1
    _unfold(state)


@jit
def _unfold(state):
    """Unfold the list of events; note what has become free since the last decision."""
    unfold(state)
    begin_asking(state)


@jit
def _begin_plan(state):
    """Begin a plan with the jobs that hold cores; those that wait have no reservation."""
    s = state.scalars[0]
    s.n_plan = 0
    s.freed_s = NOT_FOUND
    s.plans_nodes = 0
    n_places = 0
    for job in range(len(state.jobs)):
        row, planned = state.reservations[job], state.planned_jobs[job]
        row.n_requested, planned.memory_mib = state.jobs[job].n_requested, state.jobs[job].memory_mib
        row.reserved_s = _NO_RESERVATION
        planned.first_planned = n_places
        n_places += row.n_requested
        if planned.memory_mib > 0.0:
            s.plans_nodes = 1
    s.memory_binds = memory_binds(state)
    for i in range(s.n_expected):
        job = state.expected[i]
        row = state.jobs[job]
        add_end(state, _held_until_s(state, job), job)
        if s.plans_nodes == 0:
            continue
        if row.n_cores > 0:
            plan_cores_of(state, job, state.allocated, row.first_core, row.n_cores)
        else:  # started in this very answer
            first, n, _ = cores_in_answer(state, job)
            plan_cores_of(state, job, state.pool, first, n)
    begin_bounds(state)
    _unfold(state)


@jit
def _held_until_s(state, job):
    """Return until when a job holds its cores; one that has overrun is expected to end at once."""
    return max(state.jobs[job].expected_end_s, math.nextafter(state.scalars[0].message_s, np.inf))


@jit
def _mend(state, core_key):
    """Make the reservations anew, in the order of their dates: the old ones where they still are possible."""
    s = state.scalars[0]
    n = 0
    for place in range(s.n_plan):
        n += _add_by_date(state, state.plan[place], n)
    s.n_plan = 0
    for i in range(s.n_expected):
        add_end(state, _held_until_s(state, state.expected[i]), state.expected[i])
    forget_lacks(state)
    _unfold(state)
    for i in range(n):
        job = state.candidates[i]
        row = state.reservations[job]
        old_s, old_end_s = row.reserved_s, row.reserved_end_s
        date_s, end_s = _postponed(state, row)
        if is_hole(state, job, date_s, end_s):
            _reserve(state, job, date_s, end_s)
            continue
        give_back(state, old_s, old_end_s)
        # Up to its date the plan is as it was, but for what has been given back.
        from_s = no_hole_before(state, row, core_key, near_s(state, row))
        date_s, end_s = _find_hole(state, job, core_key, from_s, np.inf)
        if s.plans_nodes == 1:
            plan_chosen_nodes(state, job)
        _reserve(state, job, date_s, end_s)
        note_asked(state, row, core_key, date_s)
    s.freed_s = np.inf


@jit
def _postponed(state, row):
    """Return when a job with a reservation can start and is expected to end now that its date may have gone by."""
    date_s, end_s = row.reserved_s, row.reserved_end_s
    soon_s = math.nextafter(state.scalars[0].message_s, np.inf)
    if date_s >= soon_s:
        return date_s, end_s
    late_s = soon_s - date_s
    # Dates are told with six decimals: those who come next need not know of it.
    return soon_s, end_s if late_s <= ROUNDING_S else end_s + late_s


@jit
def _comes_before(state, job, other):
    date_s, other_s = state.reservations[job].reserved_s, state.reservations[other].reserved_s
    return date_s < other_s or (date_s == other_s and state.reservations[job].rank < state.reservations[other].rank)


# ------------------------------------------------------------------ the decision


@jit
def _ask(state, job, core_key, freed_s):
    """Let a job start or move to the earliest hole; return why it did not start.

    What was freed until ``freed_s`` has not been offered to anybody yet; ``scalars.freed_s`` becomes the same for what
    is freed on the way.
    """
    s = state.scalars[0]
    row = state.reservations[job]
    old_s, old_end_s = row.reserved_s, row.reserved_end_s
    limit_s = np.inf if old_s == _NO_RESERVATION else min(old_s, max(freed_s, s.freed_s))
    if old_s > s.message_s and limit_s <= s.message_s:
        return CHOSEN
    outcome = _start_or_move(state, job, core_key, limit_s)
    if row.reserved_s == old_s:
        return outcome
    if old_s != _NO_RESERVATION:
        from_s = _given_from_s(state, job, old_s, old_end_s)
        give_back(state, from_s, old_end_s)
        if from_s > old_s:  # what starts at about that date may start a little earlier now
            tell_those_behind(state, old_s - s.margin_s, old_s + s.margin_s)
        if _has_freed(state, job, old_s, old_end_s):
            s.freed_s = max(s.freed_s, old_end_s)
    if row.reserved_s != _NO_RESERVATION:
        note_asked(state, row, core_key, row.reserved_s)
    return outcome


@jit
def _given_from_s(state, job, old_s, old_end_s):
    """Return from when on a job leaves what was reserved for it until a date; the rest it still needs."""
    row = state.reservations[job]
    if state.scalars[0].plans_nodes == 1:  # maybe on other nodes
        return old_s
    end_s = state.jobs[job].expected_end_s if row.reserved_s == _NO_RESERVATION else row.reserved_end_s
    return min(max(old_s, end_s), old_end_s)


@jit
def _has_freed(state, job, old_s, old_end_s):
    """Tell whether a job leaves something free of what was reserved for it."""
    s = state.scalars[0]
    date_s = state.reservations[job].reserved_s
    if date_s == _NO_RESERVATION:  # it has started, maybe on other nodes
        return s.plans_nodes == 1 or old_s > s.message_s or state.jobs[job].expected_end_s < old_end_s
    return date_s < old_s


@jit
def _start_or_move(state, job, core_key, limit_s):
    """Start a job, or give it the earliest reservation before a limit, or leave it its old one."""
    s = state.scalars[0]
    row = state.reservations[job]
    has_old = row.reserved_s != _NO_RESERVATION
    if has_old and row.reserved_s > s.message_s + s.margin_s:
        return _start_or_move_waiting(state, job, core_key, limit_s)
    if has_old:
        hide(state, job)
    else:
        join_cell(state, job)
    outcome = _start_on_chosen_cores(state, job, core_key)
    if outcome == CHOSEN:
        return CHOSEN
    from_s = s.message_s if has_old else no_hole_before(state, row, core_key, limit_s)
    return _move(state, job, core_key, from_s, limit_s, outcome)


@jit
def _start_or_move_waiting(state, job, core_key, limit_s):
    """Do the same with a job whose date has not come: most of them can neither start nor move, which is soon known."""
    s = state.scalars[0]
    row = state.reservations[job]
    old_s, reach_s = row.reserved_s, near_s(state, row)
    outcome = NO_CORES
    # A start now does not reach into a reservation that is far away, which may be there when that is looked at.
    if row.n_requested <= s.n_free_cores and (reach_s <= s.message_s or _may_start(state, job)):
        hide(state, job)
        outcome = _start_on_chosen_cores(state, job, core_key)
        if outcome == CHOSEN:
            return CHOSEN
        show(state, job)
    elif row.n_requested <= s.n_free_cores:
        note_lack(state, job)
    from_s, until_s, is_all = where_to_look(state, job, core_key, limit_s)
    is_told = False
    if from_s < until_s and s.plans_nodes == 0 and from_s >= near_s(state, row):
        is_told, date_s = find_slide(state, row, from_s)
        if date_s != NOT_FOUND and date_s < until_s:
            _slide(state, job, date_s)
    if from_s < until_s and not is_told:
        hide(state, job)
        outcome = _move(state, job, core_key, from_s, until_s, outcome)
    if is_all and row.reserved_s == old_s:
        note_asked(state, row, core_key, limit_s)
    return outcome


@jit
def _slide(state, job, date_s):
    """Let the reservation of a job begin so little earlier that it uses part of the old one."""
    row = state.reservations[job]
    end_s = date_s + row.longest_s
    starts_close, ends_close = move_earlier(state, job, date_s, end_s)
    row.reserved_s, row.reserved_end_s, row.may_slide = date_s, end_s, 1
    state.scalars[0].n_reserved += 1
    if starts_close:
        give_back(state, date_s, date_s)
    if ends_close:
        give_back(state, end_s, end_s)


@jit
def _move(state, job, core_key, from_s, until_s, outcome):
    """Give a job that could not start the earliest reservation between two dates, or show its old one again."""
    s = state.scalars[0]
    row = state.reservations[job]
    date_s, end_s = _find_hole(state, job, core_key, from_s, until_s)
    if date_s == NOT_FOUND:
        date_s = row.reserved_s
    elif s.plans_nodes == 1:
        plan_chosen_nodes(state, job)
    if (
        date_s <= s.message_s
        and s.plans_nodes == 1
        and nodes_have_place(state, state.planned_jobs[job], state.n_free_on, state.free_memory_mib)
    ):
        _start_on_planned_nodes(state, job)
        return CHOSEN
    if date_s == row.reserved_s:
        show(state, job)
        return outcome
    if row.reserved_s != _NO_RESERVATION:
        withdraw(state, job)
    _reserve(state, job, date_s, end_s)
    return outcome


@jit
def _find_hole(state, job, core_key, from_s, limit_s):
    """Return the earliest start and the expected end of a waiting job: see `find_hole`."""
    row = state.jobs[job]
    return find_hole(state, row.n_requested, row.requested_time_s, row.memory_mib, core_key, from_s, limit_s)


@jit
def _reserve(state, job, date_s, end_s):
    """Give a job its reservation."""
    row = state.reservations[job]
    row.reserved_s, row.reserved_end_s, row.may_slide = date_s, end_s, 1
    row.rank = state.jobs[job].rank
    state.scalars[0].n_reserved += 1
    if add_hidden(state, date_s, job):
        give_back(state, date_s, date_s)
    if add_hidden(state, end_s, -1 - job):
        give_back(state, end_s, end_s)
    show(state, job)


@jit
def _may_start(state, job):
    """Tell whether a job may start now as far as counting cores tells, the fastest that are free at best."""
    s, n = state.scalars[0], state.reservations[job].n_requested
    if n > s.n_free_cores or not stays_free(state, n, s.message_s + state.planned_jobs[job].shortest_s):
        return False
    best_s = length_s(state, job, fastest_free_gflops(state, n))
    return s.predicts_ends == 1 or stays_free(state, n, s.message_s + best_s)


@jit
def fastest_free_gflops(state, n):
    """Return the speed of the slowest of the fastest ``n`` cores that are free, in Gflop/s."""
    place = 0
    missing = n - state.n_free[state.by_speed[0]]
    while missing > 0:
        place += 1
        missing -= state.n_free[state.by_speed[place]]
    return state.processors[state.by_speed[place]].peak_gflops


@jit
def _start_on_chosen_cores(state, job, core_key):
    """Start a job on the cores that the core selection chooses, if that delays nobody; else say what is missing."""
    s = state.scalars[0]
    n = state.reservations[job].n_requested
    if not _may_start(state, job):
        return NO_CORES
    first = s.n_pool
    outcome = choose_cores(state, job, core_key)
    if outcome != CHOSEN:
        return outcome
    until_s = s.message_s + expected_run_s(state, job, first, n)
    # The plan does not know of the cores that have been locked, the nodes do.
    if stays_free(state, n, until_s) and (s.plans_nodes == 0 or nodes_stay_free(state, until_s)):
        _start(state, job, first, n)
        return CHOSEN
    for i in range(first, s.n_pool):
        unlock(state, state.pool[i], job)
    s.n_pool = first
    return NO_CORES


@jit
def _start_on_planned_nodes(state, job):
    """Start a job on the first free cores of the nodes that were planned for it."""
    s = state.scalars[0]
    row = state.planned_jobs[job]
    first = s.n_pool
    for k in range(row.first_planned, row.first_planned + row.n_planned):
        node = state.nodes[state.planned_nodes[k]]
        missing = state.planned_cores[k]
        last = state.processors[node.end_processor - 1].end_core
        for core in range(state.processors[node.first_processor].first_core, last):
            if missing > 0 and state.cores[core].owner < 0:
                lock(state, core, job)
                state.pool[s.n_pool] = core
                s.n_pool += 1
                missing -= 1
    sort_cores(state, first, s.n_pool - first)
    _start(state, job, first, s.n_pool - first)


@jit
def _start(state, job, first, n):
    """Start a job, whose reservation is passed over, on locked cores, and put its end into the plan."""
    s = state.scalars[0]
    row = state.reservations[job]
    leave_cell(state, job)
    if row.reserved_s != _NO_RESERVATION:
        withdraw(state, job)
        row.reserved_s = _NO_RESERVATION
    start_job(state, job, find(state, job), first, n)
    note_free_speeds(state)
    if s.plans_nodes == 1:
        plan_cores_of(state, job, state.pool, first, n)
    s.n_reserved += 1
    end_s = _held_until_s(state, job)
    if hold_until(state, job, end_s):
        give_back(state, end_s, end_s)
