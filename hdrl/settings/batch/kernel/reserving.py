"""Conservative backfilling of one job: it starts, its reservation moves, or it stays unchanged.

A job that may start now gets the cores that the core selection chooses, if those delay no reservation, and is judged by
how long it takes on them; else, where jobs ask for memory, the nodes that were planned for it.

Where nodes are not planned, a reservation stays in the plan while its job looks for something better: behind its date
there is room for the job, whatever else is planned there. It must be taken out only if it begins close to another
event, for that one may count without it, or where more is reserved than there is.
"""

from __future__ import annotations

import math

import numpy as np

from hdrl.compiled.jit import jit
from hdrl.settings.batch.kernel.backfill import expected_run_s, start_job
from hdrl.settings.batch.kernel.cluster import lock, sort_cores, unlock
from hdrl.settings.batch.kernel.plan import (
    NO_RESERVATION,
    NOT_FOUND,
    ROUNDING_S,
    event_from,
    fastest_free_gflops,
    find_room,
    first_date,
    hold,
    is_separate,
    length_s,
    move_earlier,
    next_date,
    next_lack,
    put_in,
    stays_free,
    take_out,
)
from hdrl.settings.batch.kernel.plan_nodes import (
    choose_nodes,
    fits_on_nodes,
    nodes_stay_free,
    plan_chosen_nodes,
    plan_cores_of,
    update_snapshots,
)
from hdrl.settings.batch.kernel.reexamining import give_back, reach_s, record_examined, room_from_s
from hdrl.settings.batch.kernel.selection import CHOSEN, NO_CORES, choose_cores
from hdrl.settings.batch.kernel.waiting import find


@jit
def held_until_s(state, job):
    """Return until when a job holds its cores; one that has overrun is expected to end at once."""
    return max(state.jobs[job].expected_end_s, math.nextafter(state.scalars[0].message_s, np.inf))


@jit
def start_or_move(state, job, core_key, limit_s):
    """Start a job, or give it the earliest reservation before a limit, or leave it its old one.

    Returns why it did not start: `selection.CHOSEN` if it did.
    """
    s, row = state.scalars[0], state.reservations[job]
    old_s, old_end_s = row.reserved_s, row.reserved_end_s
    own_s, from_s = np.inf, -np.inf
    if old_s != NO_RESERVATION:
        must_go, from_s = _where_to_look(state, job, limit_s)
        if must_go:
            _take_out(state, job)
        else:
            own_s = old_s
    outcome = _start_on_chosen_cores(state, job, core_key, own_s)
    if outcome == CHOSEN:
        return CHOSEN
    date_s, end_s = NOT_FOUND, NOT_FOUND
    if from_s < limit_s:
        date_s, end_s = find_hole(state, job, core_key, from_s, limit_s, own_s)
        record_examined(state, job)
    if date_s == NOT_FOUND:
        date_s, end_s = old_s, old_end_s
    elif s.plans_nodes == 1:
        if own_s < np.inf:
            _take_out(state, job)
            own_s = np.inf
        plan_chosen_nodes(state, job)
    if (
        date_s <= s.message_s
        and s.plans_nodes == 1
        and fits_on_nodes(state, row, state.n_free_on, state.free_memory_mib)
    ):
        _start_on_planned_nodes(state, job)
        return CHOSEN
    _keep(state, job, date_s, end_s, own_s)
    return outcome


@jit
def _keep(state, job, date_s, end_s, own_s):
    """Let the reservation of a job, which begins at ``own_s`` if it is still in the plan, be between two dates."""
    old_s = state.reservations[job].reserved_s
    if own_s == np.inf and date_s == old_s:
        _put_in(state, job, date_s, end_s)
    elif own_s == np.inf:
        reserve(state, job, date_s, end_s)
    elif date_s != old_s:
        starts_close, ends_close = move_earlier(state, job, date_s, end_s)
        _note_if_close(state, job, starts_close, ends_close)


@jit
def _where_to_look(state, job, limit_s):
    """Return whether the reservation of a job must be taken out to look for room, and from when on there may be any."""
    s, row = state.scalars[0], state.reservations[job]
    if row.reserved_s <= s.message_s + s.margin_s:
        return True, -np.inf
    from_s, near_s = room_from_s(state, job), reach_s(state, row)
    must_go = not is_separate(state, row.reserved_s)
    if s.plans_nodes == 0:
        # It finds as many cores as it needs behind its date: only before that anything can be new.
        from_s = min(from_s, near_s) if row.may_slide == 1 else from_s
        looks = from_s < limit_s or near_s <= s.message_s
        return looks and (must_go or _is_overbooked(state, row)), from_s
    starts_near = near_s <= s.message_s and row.n_requested <= s.n_free_cores
    starts_near = starts_near and (must_go or _may_start(state, job, row.reserved_s))
    # On other nodes it can use part of its reservation, but not without the cores for it right before its date.
    if row.may_slide == 0 or _most_free_before(state, row.reserved_s) < row.n_requested:
        return starts_near, from_s
    from_s = min(from_s, near_s)
    if not must_go and from_s < limit_s:  # most jobs find no room even where nodes do not count
        n = np.int64(row.n_requested)
        date_s, position = first_date(state, n, from_s)
        date_s, _ = find_room(state, n, row.shortest_s, date_s, position, limit_s, row.reserved_s)
        if date_s == NOT_FOUND:
            record_examined(state, job)
            return starts_near, np.inf
        from_s = date_s
    return True, from_s


@jit
def _is_overbooked(state, row):
    """Return whether more is reserved at some date of a reservation than there is.

    Reservations may overlap by the rounding, also by way of events between them. When such an event goes, they overlap
    by more.
    """
    return next_lack(state, 0, event_from(state, row.reserved_s), row.reserved_end_s - ROUNDING_S) > 0


@jit
def _most_free_before(state, date_s):
    """Return the most cores that are free close before a date."""
    most = np.int64(0)
    for position in range(event_from(state, date_s - state.scalars[0].margin_s) - 1, event_from(state, date_s)):
        most = max(most, np.int64(state.plan_free[position]))
    return most


@jit
def _note_if_close(state, job, starts_close, ends_close):
    """Record that a reservation has come close to other events: others may have room by that."""
    s, row = state.scalars[0], state.reservations[job]
    if starts_close:
        give_back(state, row.reserved_s, row.reserved_s)
        s.freed_s = max(s.freed_s, row.reserved_s + s.margin_s)
    if ends_close:
        give_back(state, row.reserved_end_s, row.reserved_end_s)
        s.freed_s = max(s.freed_s, row.reserved_end_s + s.margin_s)


@jit
def reserve(state, job, date_s, end_s):
    """Give a job that has none its reservation."""
    starts_close, ends_close = _put_in(state, job, date_s, end_s)
    _note_if_close(state, job, starts_close, ends_close)


@jit
def _put_in(state, job, date_s, end_s):
    """Put a reservation into the plan; return whether its start is close to another event, and its end."""
    if state.scalars[0].plans_nodes == 1:
        update_snapshots(state, job, date_s, end_s, -1)
    return put_in(state, job, date_s, end_s)


@jit
def _take_out(state, job):
    """Take the reservation of a job out of the plan."""
    row = state.reservations[job]
    if state.scalars[0].plans_nodes == 1:
        update_snapshots(state, job, row.reserved_s, row.reserved_end_s, 1)
    take_out(state, job)


# ------------------------------------------------------------------ holes


@jit
def find_hole(state, job, core_key, from_s, limit_s, own_s):
    """Return the earliest start of a job that delays no other in the plan, and its expected end.

    Where no job asks for memory, any free cores will do, and a job is expected to take as long as on the
    slowest cores of the platform, since it is open which it will get. Where jobs ask for memory, what counting
    finds is looked at node by node.

    Parameters
    ----------
    core_key
        Order of nodes for jobs that ask for memory: the order of power for ``CORE_LOW_POWER``, else of speed.
    from_s, limit_s
        There is no hole before the first date, which may have gone by; the start must be before the second one.
    own_s
        Start of its own reservation if that is still in the plan; else infinite.

    Returns
    -------
    tuple
        The two dates; the first is ``NOT_FOUND`` if there is no hole before the limit. Where jobs ask for memory, the
        nodes' ``n_chosen`` say where the job goes.
    """
    row, by_nodes = state.reservations[job], state.scalars[0].plans_nodes == 1
    n, duration_s = np.int64(row.n_requested), row.shortest_s if by_nodes else row.longest_s
    date_s, position = first_date(state, n, from_s)
    while True:
        date_s, position = find_room(state, n, duration_s, date_s, position, limit_s, own_s)
        if date_s == NOT_FOUND or not by_nodes:
            return date_s, date_s + duration_s
        planned_s, position = choose_nodes(state, job, core_key, date_s, position)
        if planned_s != NOT_FOUND:
            return date_s, date_s + planned_s
        date_s, position = next_date(state, n, position)


# ------------------------------------------------------------------ starts


@jit
def _may_start(state, job, own_s):
    """Tell whether a job may start now by counting cores, at best the fastest free ones."""
    s, row = state.scalars[0], state.reservations[job]
    n = np.int64(row.n_requested)
    if n > s.n_free_cores or not stays_free(state, n, s.message_s + row.shortest_s, own_s):
        return False
    if s.plans_nodes == 1:  # the core selection tells what else is missing
        return True
    until_s = s.message_s + length_s(state, job, fastest_free_gflops(state, n))
    return stays_free(state, n, until_s, own_s)


@jit
def _start_on_chosen_cores(state, job, core_key, own_s):
    """Start a job on the cores that the core selection chooses, if that delays no other; else say what is missing.

    Its reservation, if it is still in the plan, begins at ``own_s``.
    """
    s = state.scalars[0]
    n = np.int64(state.reservations[job].n_requested)
    if not _may_start(state, job, own_s):
        return NO_CORES
    first = s.n_pool
    outcome = choose_cores(state, job, core_key)
    if outcome != CHOSEN:
        return outcome
    until_s = s.message_s + expected_run_s(state, job, first, n)
    # The plan does not know of the cores that have been locked, the nodes do.
    if stays_free(state, n, until_s, own_s) and (s.plans_nodes == 0 or nodes_stay_free(state, until_s)):
        if own_s < np.inf:
            _take_out(state, job)
        _start(state, job, first, n)
        return CHOSEN
    for i in range(first, s.n_pool):
        unlock(state, state.pool[i], job)
    s.n_pool = first
    return NO_CORES


@jit
def _start_on_planned_nodes(state, job):
    """Start a job on the first free cores of the nodes that were planned for it."""
    s, row = state.scalars[0], state.reservations[job]
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
    """Start a job, which has no reservation, on locked cores, and put its end into the plan."""
    start_job(state, job, find(state, job), first, n)
    end_s = held_until_s(state, job)
    if state.scalars[0].plans_nodes == 1:
        plan_cores_of(state, job, state.pool, first, n)
        update_snapshots(state, job, -np.inf, end_s, -1)
    if hold(state, job, end_s):
        give_back(state, end_s, end_s)
