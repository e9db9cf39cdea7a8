"""What is known of holes that are not there, so that most jobs need not look for any.

A decision asks every waiting job whether it can start earlier, and nearly all of them cannot. What is known of a job is
kept: when it was asked last, before which date it had no hole then. Reservations only ever take something, so that it
still has none, unless something has been given back since that makes one.

- Where its own reservation is no part of it, a new hole is a stretch of time that touches what was given back, in
  which enough cores are free for long enough (`kernel.stretches`). Jobs that ask for about the same share a *cell*,
  which keeps when there was such a stretch last for the least that any of them asks for. It also knows a date before
  which the plan has no hole even for that: then it has none for any of them, since more cores, a longer time and more
  memory are never easier to find. Dates from which a stretch could be one are looked at again. Cells in which nobody
  waits are told nothing, most of them after a while: small jobs start first (4,000 jobs at once on gaia: a sixteenth
  of the cells are left to be told).
- A job could also start so little before its date that it uses part of its own reservation. Where cores are counted,
  only what was given back right before its date can let a job do so, and only if enough cores are free there: whoever
  gives back tells those jobs (``may_slide``). Where nodes are looked at, anything that such a start would reach to
  counts: time is divided into *buckets*, and each keeps when something in it was given back last.
- A job cannot start now as long as fewer cores than it needs are free at a date before it would end on the fastest
  cores that are free: jobs of about as many cores share one such date (``lack_s``), until something is given back then.

None of it changes any schedule. A hole that begins between two events is also one at the first of them. Events close to
each other, within the rounding of dates, are one date: where one is added to them or taken out, holes may come and go
by that rounding alone. This counts as given back, too.
"""

from __future__ import annotations

import math

import numpy as np

from hdrl.compiled.jit import jit
from hdrl.settings.batch.kernel.blocks import following, place_before, slot_of
from hdrl.settings.batch.kernel.cells import begin_cells
from hdrl.settings.batch.kernel.holes import (
    find_hole,
    first_date_after_s,
    first_free_s,
    first_lack_s,
    most_free_before,
    most_free_between,
    near_s,
)
from hdrl.settings.batch.kernel.plan import NOT_FOUND, ROUNDING_S, length_at, length_s, place_of_free
from hdrl.settings.batch.kernel.stretches import find_stretches, width_of

N_USES = 8
"""Widths of jobs that buckets tell apart, each four times the one before."""

_BUCKETS_PER_JOB = 64
"""How many buckets the longest job takes."""


@jit
def _use(n_cores):
    return min(np.int64(math.log2(np.float64(max(n_cores, 1)))) >> 1, np.int64(N_USES - 1))


@jit
def begin_bounds(state):
    """Find the cell of each job, of which nothing is known, and how long a bucket is to be."""
    s = state.scalars[0]
    begin_cells(state)
    s.bucket_s = s.longest_s / _BUCKETS_PER_JOB
    # A group of events that are close to each other is no longer than that.
    s.margin_s = (2 * len(state.jobs) + 4) * ROUNDING_S


@jit
def begin_asking(state):
    """Note what jobs that have ended leave before they were expected to; whether an event is close behind now."""
    s = state.scalars[0]
    if s.vacated_s > s.message_s:
        give_back(state, s.message_s, s.vacated_s)
    s.vacated_s = NOT_FOUND
    s.is_close = 1 if first_date_after_s(state, s.message_s) <= s.message_s + ROUNDING_S else 0


@jit
def no_hole_before(state, row, core_key, limit_s):
    """Return a date before which the plan, with all reservations, has no hole for a job: at most a limit."""
    s = state.scalars[0]
    cell = state.cells[row.cell]
    if _is_unchanged(state, row, core_key) and row.no_hole_before_s >= limit_s:
        return limit_s
    until_s = min(cell.again_until_s, cell.no_hole_before_s, limit_s)
    if cell.again_from_s < until_s and cell.found_at != s.n_reserved:
        date_s = _find(state, cell, core_key, cell.again_from_s, until_s)
        if date_s == NOT_FOUND:
            cell.again_from_s = until_s
        else:
            cell.again_from_s, cell.found_at = date_s, s.n_reserved
    if cell.again_from_s >= min(cell.again_until_s, cell.no_hole_before_s):
        cell.again_from_s, cell.again_until_s = np.inf, -np.inf
    first_s = min(cell.again_from_s, cell.no_hole_before_s)
    if first_s < limit_s and cell.found_at != s.n_reserved:
        date_s = _find(state, cell, core_key, cell.no_hole_before_s, limit_s)
        cell.no_hole_before_s = limit_s
        if date_s != NOT_FOUND:
            cell.no_hole_before_s, cell.found_at = date_s, s.n_reserved
        first_s = cell.no_hole_before_s
    return min(first_s, limit_s)


@jit
def _find(state, cell, core_key, from_s, limit_s):
    """Return the date of the first hole for what a cell asks for at least, or ``NOT_FOUND``."""
    date_s, _ = find_hole(state, cell.n_requested, cell.requested_time_s, cell.memory_mib, core_key, from_s, limit_s)
    return date_s


@jit
def give_back(state, start_s, end_s):
    """Note that something has been given back between two dates."""
    s = state.scalars[0]
    s.n_given_back += 1
    start_s, end_s = start_s - s.margin_s, end_s + s.margin_s
    for w in range(s.n_waited_widths):
        if start_s <= width_of(state, w).lack_s <= end_s:
            width_of(state, w).lack_s = NOT_FOUND
    for w in range(find_stretches(state, start_s, end_s)):
        width = width_of(state, w)
        from_s, stretch_s = width.from_s - s.margin_s, width.stretch_s + 2.0 * s.margin_s
        for place in range(width.first_cell, width.first_cell + width.n_waited_for):
            own = state.waited_for[place]
            cell = state.cells[own]
            if cell.shortest_s > stretch_s:
                break
            state.given_at[own] = s.n_given_back
            first_s = max(from_s, start_s - cell.longest_s) if cell.longest_s < np.inf else from_s
            if first_s < cell.no_hole_before_s:
                cell.again_from_s = min(cell.again_from_s, first_s)
                cell.again_until_s = max(cell.again_until_s, end_s)
                cell.found_at = -1
    if s.plans_nodes == 0:
        tell_those_behind(state, start_s, end_s)
        return
    first, n = _buckets(state, start_s, end_s)
    n_buckets = len(state.buckets) // N_USES
    for use in range(_use(most_free_between(state, start_s, end_s)) + 1):
        for i in range(n):
            state.buckets[use * n_buckets + ((first + i) & (n_buckets - 1))] = s.n_given_back


@jit
def tell_those_behind(state, start_s, end_s):
    """Note which jobs find as many cores as they need right before their dates, of those with dates between two."""
    s = state.scalars[0]
    date_s, most = -np.inf, np.int64(0)  # the most cores that are free close before a date
    block, i, free = place_before(state, start_s - s.margin_s)
    while block < s.n_blocks:
        slot = slot_of(state, block, i)
        at_s = state.slot_s[slot]
        if at_s > end_s:
            break
        if at_s > date_s:
            most = max(most, free) if at_s <= date_s + s.margin_s else free
            date_s = at_s
        if state.slot_change[slot] < 0 and state.slot_event[slot] >= 0:
            row = state.reservations[state.slot_event[slot]]
            if row.n_requested <= most:
                row.may_slide = 1
        free += state.slot_change[slot]
        block, i = following(state, block, i)


@jit
def rests(state, job, freed_s):
    """Tell whether a job can neither start nor move, if that is known; what was freed until a date is not offered yet.

    Where 10,000 wait at once on gaia, that is asked 134 million times.
    """
    s, row = state.scalars[0], state.reservations[job]
    date_s = row.reserved_s
    limit_s = min(date_s, max(freed_s, s.freed_s))
    if limit_s <= s.message_s:
        return date_s > s.message_s
    if date_s <= s.message_s + s.margin_s or row.may_slide == 1 or s.plans_nodes == 1:
        return False
    cell = state.cells[row.cell]
    if s.is_close == 1 and cell.decision != s.n_decisions:
        return False
    is_unknown = row.no_hole_before_s < limit_s or state.given_at[row.cell] > row.asked_at
    if is_unknown and min(cell.again_from_s, cell.no_hole_before_s) < limit_s:
        return False
    if row.n_requested > s.n_free_cores:
        return True
    width = state.widths[cell.width]
    least_s = length_at(state, cell.requested_time_s, width.free_gflops)
    return s.message_s < width.lack_s < s.message_s + least_s - ROUNDING_S and near_s(state, row) > s.message_s


@jit
def forget_lacks(state):
    """Let no date be known at which too few cores are free for some."""
    for w in range(state.scalars[0].n_widths):
        state.widths[w].lack_s = NOT_FOUND


@jit
def note_lack(state, job):
    """Note until when as many cores as jobs about as wide as one ask for are free."""
    width = state.widths[state.cells[state.reservations[job].cell].width]
    until_s = state.scalars[0].message_s + length_s(state, job, width.free_gflops)
    width.lack_s = first_lack_s(state, width.n_requested, until_s)


@jit
def note_free_speeds(state):
    """Note for each width how fast the fastest cores that are free are at best."""
    s = state.scalars[0]
    place, n = 0, np.int64(0)
    for w in range(s.n_waited_widths):
        width = width_of(state, w)
        if width.n_requested > s.n_free_cores:
            break
        place, n = place_of_free(state, width.n_requested, place, n)
        width.free_gflops = state.processors[state.by_speed[place]].peak_gflops


@jit
def _buckets(state, start_s, end_s):
    """Return the bucket of a date, and how many there are up to another date: at most all."""
    bucket_s, n_buckets = state.scalars[0].bucket_s, len(state.buckets) // N_USES
    if not end_s - start_s < bucket_s * (n_buckets - 2):
        return np.int64(0), np.int64(n_buckets)
    first = np.int64(math.floor(start_s / bucket_s))
    return first & (n_buckets - 1), np.int64(math.floor(end_s / bucket_s)) - first + 1


@jit
def where_to_look(state, job, core_key, limit_s):
    """Return where a job whose date has not come is to look for a hole that begins before a limit.

    Returns
    -------
    tuple
        The dates between which there may be one (no earlier than the second: nowhere), and whether there is none before
        the limit if there is none between them, as far as it is not known already.
    """
    s, row = state.scalars[0], state.reservations[job]
    reaches = _may_reach_own(state, row, core_key)
    if not reaches and row.no_hole_before_s >= limit_s and _is_unchanged(state, row, core_key):
        return limit_s, limit_s, False
    near_to_s = near_s(state, row)
    is_all = not reaches or limit_s == row.reserved_s
    if not reaches or limit_s <= near_to_s:
        # By nodes, what is near may be a hole only because its own reservation is passed over.
        until_s = limit_s if s.plans_nodes == 0 else min(limit_s, near_to_s)
        return no_hole_before(state, row, core_key, until_s), until_s, is_all
    from_s = no_hole_before(state, row, core_key, near_to_s)
    if from_s >= near_to_s and s.plans_nodes == 1 and not _reaches_own(state, row):
        from_s = first_free_s(state, row.n_requested, state.planned_jobs[job].shortest_s, near_to_s, limit_s)
    return from_s, limit_s, is_all


@jit
def _is_unchanged(state, row, core_key):
    """Tell whether nothing that makes a hole for jobs like this one was given back since it was asked.

    Holes that its own reservation would be part of do not count.
    """
    if state.scalars[0].is_close == 1:
        _look_at_now(state, row.cell, core_key)
    return state.given_at[row.cell] <= row.asked_at


@jit
def _look_at_now(state, own, core_key):
    """Look once in a decision whether the jobs of a cell may have a hole now, where half of a group of events has come.

    Now is like no other date then.
    """
    s, cell = state.scalars[0], state.cells[own]
    if cell.decision == s.n_decisions:
        return
    cell.decision = s.n_decisions
    soon_s = math.nextafter(s.message_s, np.inf)
    if _find(state, cell, core_key, -np.inf, soon_s) != NOT_FOUND:
        cell.again_from_s = min(cell.again_from_s, s.message_s)
        cell.again_until_s = max(cell.again_until_s, soon_s)
        s.n_given_back += 1
        state.given_at[own] = s.n_given_back


@jit
def _may_reach_own(state, row, core_key):
    """Tell whether a job may be able to start before its date so that it uses part of its own reservation.

    It was not when it was asked: something must have been given back since then that such a start would reach to.
    """
    s = state.scalars[0]
    if s.plans_nodes == 0:
        # It finds as many cores as it needs where its own reservation is: only before that anything can be new.
        if row.may_slide == 1 and not _reaches_own(state, row):
            row.may_slide = 0
        return row.may_slide == 1
    date_s, margin_s, use = row.reserved_s, s.margin_s, _use(row.n_requested)
    if _is_untouched(state, date_s - row.longest_s - margin_s, date_s, use, row.asked_at) and (
        _is_untouched(state, date_s - margin_s, date_s + row.longest_s + margin_s, 0, row.asked_at)
    ):
        return False
    return not _is_unchanged(state, row, core_key) or _reaches_own(state, row)


@jit
def _reaches_own(state, row):
    """Tell whether as many cores as a job needs are free right before its date."""
    date_s = row.reserved_s
    return most_free_before(state, date_s - state.scalars[0].margin_s, date_s) >= row.n_requested


@jit
def _is_untouched(state, start_s, end_s, width, since):
    """Tell whether nothing was given back between two dates, as far as jobs of a width can use it."""
    first, n = _buckets(state, start_s, end_s)
    n_buckets = len(state.buckets) // N_USES
    last = np.int64(0)
    for i in range(n):
        last = max(last, state.buckets[width * n_buckets + ((first + i) & (n_buckets - 1))])
    return last <= since


@jit
def note_asked(state, row, core_key, until_s):
    """Note that there is no hole for a job before a date, at most its own."""
    if row.no_hole_before_s < until_s or not _is_unchanged(state, row, core_key):
        row.no_hole_before_s = until_s
    row.asked_at = state.scalars[0].n_given_back
    row.may_slide = 0
