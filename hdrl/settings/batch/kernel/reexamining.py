"""Jobs that conservative backfilling examines again: those that may use the room that was given back.

A decision examines whether waiting jobs can start or move, and nearly all of them cannot: none of them could when it
was examined last, and reservations only ever take room. So a job is examined again only if room has been given back
since then that suits one like it:

- room apart from its own reservation is a stretch of time that touches what was given back, in which enough cores are
  free for long enough. Jobs of about as many cores and about the same length are of a *kind*, four to each doubling of
  either, and `give_back` notes for which kinds there is such a stretch;
- it could also begin so early that it uses part of its own reservation. Then something must have been given back
  right before its date (or, where nodes are planned, anywhere that it would reach to): that is noted with the job.

Both are only ever too favourable, so that none of this changes a schedule. Room may also come and vanish through the
rounding of dates alone where an event comes close to another one. That counts as given back, too.
"""

from __future__ import annotations

import math

import numpy as np

from hdrl.compiled.jit import jit
from hdrl.settings.batch.kernel.plan import (
    NO_RESERVATION,
    NOT_FOUND,
    ROUNDING_S,
    event_after,
    event_from,
    fastest_gflops,
    last_lack,
    length_at,
    next_lack,
    slowest_gflops,
)

_N_WIDTHS = _N_LENGTHS = 64
N_KINDS = _N_WIDTHS * _N_LENGTHS
_SHORT_S = 16.0
_FEWEST = np.array([0, *(math.ceil(2.0 ** (width / 4.0) - 1e-9) for width in range(_N_WIDTHS - 1))])
"""The fewest cores of jobs of each width."""


@jit
def _step(value, shortest):
    """Return on which step of 64 a value is, four to each doubling; the lowest has all up to the shortest."""
    return np.int64(min(max(math.log2(max(value, 1e-300) / shortest) * 4.0 + 1.0, 0.0), 63.0))


@jit
def begin_kinds(state):
    """Find the kind of each job: none has been examined, and nothing was given back."""
    s = state.scalars[0]
    # A group of events that are close to each other is no longer than that.
    s.margin_s = (2 * len(state.jobs) + 4) * ROUNDING_S
    s.n_given_back, s.most_requested = 0, 0
    for job in range(len(state.jobs)):
        row, request = state.reservations[job], state.jobs[job]
        row.longest_s = length_at(state, request.requested_time_s, slowest_gflops(state))
        row.shortest_s = length_at(state, request.requested_time_s, fastest_gflops(state))
        row.examined_at, row.may_slide = -1, 0
        least_s = row.shortest_s if s.plans_nodes == 1 else row.longest_s
        row.kind = _step(np.float64(row.n_requested), 1.0) * _N_LENGTHS + _step(least_s, _SHORT_S)
        s.most_requested = max(s.most_requested, np.int64(row.n_requested))
    for kind in range(len(state.given_at)):
        state.given_at[kind] = 0


@jit
def begin_examining(state):
    """Give back the room of jobs that ended early, and the present date if an event is close behind it."""
    s = state.scalars[0]
    s.n_given_before = s.n_given_back
    vacated_s, s.vacated_s = s.vacated_s, NOT_FOUND
    if not _has_reservations(state):
        return
    if vacated_s > s.message_s:
        give_back(state, s.message_s, vacated_s)
    # Where half of a group of close events has come, now is like no other date.
    if state.plan_s[event_after(state, s.message_s)] <= s.message_s + ROUNDING_S:
        give_back(state, s.message_s, s.message_s)


@jit
def _has_reservations(state):
    """Tell whether any waiting job has a reservation: most jobs of most logs start when they come."""
    n, i = state.scalars[0].n_queue, 0
    while i < n and state.reservations[state.queue[i]].reserved_s == NO_RESERVATION:
        i += 1
    return i < n


@jit
def can_skip(state, job, freed_s):
    """Return True if a job can neither start nor move for certain; what was freed until a date is not offered yet.

    Where 10,000 wait at once on gaia, this is called 134 million times.
    """
    s, row = state.scalars[0], state.reservations[job]
    limit_s = min(row.reserved_s, max(freed_s, s.freed_s))
    if limit_s <= s.message_s:
        return row.reserved_s > s.message_s
    if row.reserved_s <= s.message_s + s.margin_s or row.n_requested <= s.n_free_cores:
        return False
    return row.may_slide == 0 and room_from_s(state, job) >= limit_s


@jit
def room_from_s(state, job):
    """Return from when on there may be room for a job since it was examined last; infinite if there is none.

    What its own reservation would be part of does not count.
    """
    row = state.reservations[job]
    # In the decisions before, all jobs have been examined.
    is_new = state.given_at[row.kind] > max(row.examined_at, state.scalars[0].n_given_before)
    return state.given_from_s[row.kind] if is_new else np.inf


@jit
def reach_s(state, row):
    """Return from when on a start of a job with a reservation would reach into that reservation."""
    return row.reserved_s - row.longest_s - state.scalars[0].margin_s


@jit
def record_examined(state, job):
    """Record that there is no room for a job before its date."""
    row = state.reservations[job]
    row.examined_at, row.may_slide = state.scalars[0].n_given_back, 0


@jit
def give_back(state, start_s, end_s):
    """Note that something has been given back between two dates."""
    s = state.scalars[0]
    s.n_given_back += 1
    start_s, end_s = start_s - s.margin_s, end_s + s.margin_s
    first, end = event_after(state, start_s) - 1, event_after(state, end_s)
    for width in range(1, _N_WIDTHS):
        n = _FEWEST[width]
        if n > s.most_requested:
            break
        from_s, stretch_s = _longest_stretch(state, n, first, end)
        if stretch_s < 0.0:
            break
        from_s -= s.margin_s
        last = width * _N_LENGTHS + _step(stretch_s + 2.0 * s.margin_s, _SHORT_S) + 1
        for kind in range(width * _N_LENGTHS, last):
            is_first = state.given_at[kind] <= s.n_given_before
            state.given_from_s[kind] = from_s if is_first else min(state.given_from_s[kind], from_s)
            state.given_at[kind] = s.n_given_back
    if s.plans_nodes == 1:
        _notify_near_jobs(state, start_s, end_s, first, end)
    else:
        notify_later_jobs(state, start_s, end_s)


@jit
def _longest_stretch(state, n, position, end):
    """Find the stretches with ``n`` free cores that touch the events between two positions.

    Return when the first begins, and how long the longest is: negative if there is none.
    """
    from_s, longest_s, begin_s = np.inf, -1.0, NOT_FOUND
    while position < end:
        if state.plan_free[position] < n:
            position += 1
            continue
        if begin_s == NOT_FOUND:  # it may have begun before
            begin_s = max(state.plan_s[last_lack(state, n, position) + 1], state.scalars[0].message_s)
        else:
            begin_s = state.plan_s[position]
        from_s = min(from_s, begin_s)
        position = next_lack(state, n, position + 1, np.inf)
        if position == 0:
            return from_s, np.inf
        longest_s = max(longest_s, state.plan_s[position] - begin_s)
    return from_s, longest_s


@jit
def notify_later_jobs(state, start_s, end_s):
    """Mark the jobs, of those with dates between two, that find enough cores right before their dates."""
    s = state.scalars[0]
    date_s, most = -np.inf, np.int64(0)  # the most cores that are free close before a date
    position = event_from(state, start_s - s.margin_s)
    while position < s.n_plan and state.plan_s[position] <= end_s:
        at_s, free = state.plan_s[position], np.int64(state.plan_free[position - 1])
        if at_s > date_s:
            most = max(most, free) if at_s <= date_s + s.margin_s else free
            date_s = at_s
        if state.plan[position] >= 0 and state.reservations[state.plan[position]].n_requested <= most:
            state.reservations[state.plan[position]].may_slide = 1
        position += 1


@jit
def _notify_near_jobs(state, start_s, end_s, first, end):
    """Mark the jobs that would overlap the span between two dates if they began a little before their own.

    It is free for them only if enough cores are, unless it is where their own reservations are.
    """
    most = np.int64(0)
    for position in range(first, end):
        most = max(most, np.int64(state.plan_free[position]))
    for i in range(state.scalars[0].n_queue):
        row = state.reservations[state.queue[i]]
        first_s = row.reserved_s - (row.longest_s if row.n_requested <= most else 0.0)
        if start_s <= row.reserved_s + row.longest_s and first_s <= end_s:
            row.may_slide = 1
