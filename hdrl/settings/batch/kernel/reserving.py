"""What becomes of one job under conservative backfilling: it starts, its reservation moves, or it stays as it is.

A job that may start now gets the cores that the core selection chooses, if those delay no reservation, and is judged by
how long it takes on them; else, where jobs ask for memory, the nodes that were planned for it.
"""

from __future__ import annotations

import math

import numpy as np

from hdrl.compiled.jit import jit
from hdrl.settings.batch.kernel.backfill import expected_run_s
from hdrl.settings.batch.kernel.bounds import (
    give_back,
    no_hole_before,
    note_asked,
    note_free_speeds,
    note_lack,
    where_to_look,
)
from hdrl.settings.batch.kernel.cells import join_cell, leave_cell
from hdrl.settings.batch.kernel.cluster import lock, unlock
from hdrl.settings.batch.kernel.holes import find_hole, find_slide, near_s, stays_free
from hdrl.settings.batch.kernel.plan import NOT_FOUND, fastest_free_gflops, length_s
from hdrl.settings.batch.kernel.plan_changes import add_hidden, hide, hold_until, move_earlier, show, withdraw
from hdrl.settings.batch.kernel.plan_nodes import nodes_have_place, nodes_stay_free, plan_chosen_nodes, plan_cores_of
from hdrl.settings.batch.kernel.selection import CHOSEN, NO_CORES, choose_cores
from hdrl.settings.batch.kernel.sorting import sort_cores
from hdrl.settings.batch.kernel.starting import start_job
from hdrl.settings.batch.kernel.waiting import find

NO_RESERVATION = -1.0
"""The date of a reservation that is none."""


@jit
def held_until_s(state, job):
    """Return until when a job holds its cores; one that has overrun is expected to end at once."""
    return max(state.jobs[job].expected_end_s, math.nextafter(state.scalars[0].message_s, np.inf))


@jit
def start_or_move(state, job, core_key, limit_s):
    """Start a job, or give it the earliest reservation before a limit, or leave it its old one."""
    s = state.scalars[0]
    row = state.reservations[job]
    has_old = row.reserved_s != NO_RESERVATION
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
    if from_s < until_s and s.plans_nodes == 0 and from_s >= reach_s:
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
    date_s, end_s = find_hole_for(state, job, core_key, from_s, until_s)
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
    if row.reserved_s != NO_RESERVATION:
        withdraw(state, job)
    reserve(state, job, date_s, end_s)
    return outcome


@jit
def find_hole_for(state, job, core_key, from_s, limit_s):
    """Return the earliest start and the expected end of a waiting job: see `find_hole`."""
    row = state.jobs[job]
    return find_hole(state, row.n_requested, row.requested_time_s, row.memory_mib, core_key, from_s, limit_s)


@jit
def reserve(state, job, date_s, end_s):
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
    if s.plans_nodes == 1:  # the core selection tells what else is missing
        return True
    return stays_free(state, n, s.message_s + length_s(state, job, fastest_free_gflops(state, n)))


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
    if row.reserved_s != NO_RESERVATION:
        withdraw(state, job)
        row.reserved_s = NO_RESERVATION
    start_job(state, job, find(state, job), first, n)
    note_free_speeds(state)
    if s.plans_nodes == 1:
        plan_cores_of(state, job, state.pool, first, n)
    s.n_reserved += 1
    end_s = held_until_s(state, job)
    if hold_until(state, job, end_s):
        give_back(state, end_s, end_s)
