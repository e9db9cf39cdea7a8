"""The plan: how many cores will be free from when on, by expected ends and reservations.

A plan is a list of *events*, sorted by date: jobs that take their cores (their reservations begin), and jobs that give
them back (they are expected to end). Each event knows how many cores are free behind it, so that a search for room
reads numbers side by side. Event 0, before all dates, has what is free now, and an infinite date ends the list. Events
of one date stand in the order in which they came.

Dates have six decimals, and jobs start a little late: events within `ROUNDING_S` of each other are one, and
what is free counts behind the last of them only, where the plan has *settled*. Room behind an event is looked at
where the plan has settled, and now.

The plan knows jobs, cores and dates, and nothing of policies: conservative backfilling (`kernel.conservative`) keeps
one and changes it (`kernel.reserving`). Where jobs ask for memory, `kernel.plan_nodes` says which nodes are free, too.
"""

from __future__ import annotations

import math

import numpy as np

from hdrl.compiled.jit import jit
from hdrl.compiled.records import of, record_dtype

NOT_FOUND = -1.0

ROUNDING_S = 1e-5
"""Events within this time of each other are one: dates have six decimals, and jobs start a little late."""

NO_RESERVATION = -1.0
"""The date of a reservation that is none."""

RESERVATION_DTYPE = record_dtype(
    [
        # what `kernel.reexamining` reads again and again, side by side: how many cores; its kind; how often room had
        # been given back when it was examined last; whether it may start so early that it uses part of its reservation
        ("reserved_s", np.float64),
        *of(np.int32, "n_requested", "kind"),
        ("examined_at", np.int64),
        ("may_slide", np.int8),
        # its end; its position among those of one date; how long it is expected to run at most and at least
        ("reserved_end_s", np.float64),
        ("rank", np.int64),
        *of(np.float64, "longest_s", "shortest_s"),
        # its memory with each core, and its part of `planned_nodes` and `planned_cores`
        ("memory_mib", np.float64),
        ("first_planned", np.int64),
        ("n_planned", np.int32),
    ]
)
"""The reservation of a job (start -1: none), and what the plan knows of it."""


# ------------------------------------------------------------------ how long jobs take


@jit
def length_at(state, requested_time_s, gflops):
    """Return the expected duration on cores of a speed of work with a requested time, in seconds."""
    return requested_time_s * state.scalars[0].reference_flops / (gflops * 1e9)


@jit
def length_s(state, job, gflops):
    """Return the expected run time of a job on cores of a speed, in seconds."""
    return length_at(state, state.jobs[job].requested_time_s, gflops)


@jit
def fastest_gflops(state):
    """Return the speed of the fastest cores of the platform, in Gflop/s."""
    return state.processors[state.by_speed[0]].peak_gflops


@jit
def slowest_gflops(state):
    """Return the speed of the slowest cores of the platform, in Gflop/s."""
    return state.processors[state.by_speed[len(state.by_speed) - 1]].peak_gflops


@jit
def fastest_free_gflops(state, n):
    """Return the speed of the slowest of the fastest ``n`` cores that are free, in Gflop/s."""
    position, n_before = 0, np.int64(0)
    while n_before + state.n_free[state.by_speed[position]] < n:
        n_before += state.n_free[state.by_speed[position]]
        position += 1
    return state.processors[state.by_speed[position]].peak_gflops


# ------------------------------------------------------------------ events


@jit
def job_of(code):
    """Return the job of an event: ``code`` is a job that takes its cores, or -1 - a job that gives them back."""
    return code if code >= 0 else -1 - code


@jit
def clear(state, n_free):
    """Empty the plan: ``n_free`` cores are free, without an end."""
    state.plan_s[0], state.plan_free[0], state.plan_s[1] = -np.inf, n_free, np.inf
    state.scalars[0].n_plan = 1


@jit
def event_from(state, date_s):
    """Return the position of the first event that is not before a date."""
    low, high = np.int64(1), state.scalars[0].n_plan
    while low < high:
        middle = (low + high) >> 1
        if state.plan_s[middle] < date_s:
            low = middle + 1
        else:
            high = middle
    return low


@jit
def event_after(state, date_s):
    """Return the position of the first event after a date: what is free then stands right before it."""
    return event_from(state, math.nextafter(date_s, np.inf))


@jit
def is_settled(state, position):
    """Tell whether what is free behind an event counts: no other one follows within the rounding."""
    return state.plan_s[position + 1] > state.plan_s[position] + ROUNDING_S


@jit
def is_close(state, position):
    """Return whether another event is close to one, not at its date: rounding alone may make or remove room there."""
    date_s, before_s, after_s = state.plan_s[position], state.plan_s[position - 1], state.plan_s[position + 1]
    return (before_s != date_s and date_s - before_s <= ROUNDING_S) or (
        after_s != date_s and after_s - date_s <= ROUNDING_S
    )


@jit
def _find(state, date_s, code):
    """Return the position of an event."""
    position = event_from(state, date_s)
    while state.plan[position] != code:
        position += 1
    return position


@jit
def _move_event(state, position, date_s, n_cores):
    """Move an event of ``n_cores`` cores (given back, if positive) to an earlier date; return its new position.

    Only what lies between the two dates changes: most reservations move by little.
    """
    target = event_after(state, date_s)
    code = state.plan[position]
    for i in range(position, target, -1):
        state.plan_s[i] = state.plan_s[i - 1]
    for i in range(position, target, -1):
        state.plan[i] = state.plan[i - 1]
    for i in range(position, target, -1):
        state.plan_free[i] = state.plan_free[i - 1] + n_cores
    state.plan_s[target], state.plan[target] = date_s, code
    state.plan_free[target] = state.plan_free[target - 1] + n_cores
    return target


@jit
def _add(state, date_s, code, n_cores):
    """Add an event of ``n_cores`` cores (given back, if positive); return its position."""
    s = state.scalars[0]
    position = s.n_plan
    state.plan_s[position + 1] = np.inf
    state.plan[position] = code
    s.n_plan += 1
    return _move_event(state, position, date_s, n_cores)


@jit
def _drop(state, position, n_cores):
    """Remove an event of ``n_cores`` cores (given back, if positive)."""
    s = state.scalars[0]
    s.n_plan -= 1
    for i in range(position, s.n_plan + 1):
        state.plan_s[i] = state.plan_s[i + 1]
    for i in range(position, s.n_plan):
        state.plan[i] = state.plan[i + 1]
    for i in range(position, s.n_plan):
        state.plan_free[i] = state.plan_free[i + 1] - n_cores


# ------------------------------------------------------------------ what takes cores and gives them back


@jit
def hold(state, job, end_s):
    """Let a job hold its cores from now until a date; return whether another event is close to that."""
    row = state.reservations[job]
    row.reserved_s, row.reserved_end_s = NO_RESERVATION, end_s
    position = _add(state, end_s, -1 - job, 0)
    for i in range(position):
        state.plan_free[i] -= row.n_requested
    return is_close(state, position)


@jit
def leave_plan(state, job):
    """Take the expected end of a job that has ended out of the plan, and note what became free by it."""
    s, row = state.scalars[0], state.reservations[job]
    date_s = row.reserved_end_s
    position = _find(state, date_s, -1 - job)
    for i in range(position):
        state.plan_free[i] += row.n_requested
    _drop(state, position, 0)
    if date_s > s.message_s:
        s.freed_s, s.vacated_s = max(s.freed_s, date_s), max(s.vacated_s, date_s)
    else:  # one that has overrun has kept others waiting: all of them may move
        s.freed_s = np.inf


@jit
def put_in(state, job, date_s, end_s):
    """Reserve the cores of a job between two dates; return whether its start is close to another event, and its end."""
    row = state.reservations[job]
    row.reserved_s, row.reserved_end_s, row.rank = date_s, end_s, state.jobs[job].rank
    start = _add(state, date_s, job, -row.n_requested)
    end = _add(state, end_s, -1 - job, row.n_requested)
    return is_close(state, start), is_close(state, end)


@jit
def take_out(state, job):
    """Take the reservation of a job out, whose dates it keeps."""
    row = state.reservations[job]
    _drop(state, _find(state, row.reserved_end_s, -1 - job), row.n_requested)
    _drop(state, _find(state, row.reserved_s, job), -row.n_requested)


@jit
def move_earlier(state, job, date_s, end_s):
    """Let a reservation begin and end earlier; return whether its start is close to another event, and its end."""
    row = state.reservations[job]
    start = _move_event(state, _find(state, row.reserved_s, job), date_s, -row.n_requested)
    end = _move_event(state, _find(state, row.reserved_end_s, -1 - job), end_s, row.n_requested)
    row.reserved_s, row.reserved_end_s = date_s, end_s
    return is_close(state, start), is_close(state, end)


# ------------------------------------------------------------------ room


@jit
def next_lack(state, n, position, until_s):
    """Return the first position from one on, before a date, of an event with fewer than ``n`` cores free; else 0."""
    for later in range(position, state.scalars[0].n_plan):
        if state.plan_free[later] < n:
            if not state.plan_s[later] < until_s:
                return 0
            if is_settled(state, later):
                return later
    return 0


@jit
def next_room(state, n, position):
    """Return the first position from one on of an event with at least ``n`` cores free, or the end of the plan."""
    end = state.scalars[0].n_plan
    while position < end and (state.plan_free[position] < n or not is_settled(state, position)):
        position += 1
    return position


@jit
def last_lack(state, n, position):
    """Return the position of the last event before a position with fewer than ``n`` cores free, or -1."""
    position -= 1
    while position >= 0 and (state.plan_free[position] >= n or not is_settled(state, position)):
        position -= 1
    return position


@jit
def stays_free(state, n, until_s, own_s):
    """Tell whether ``n`` cores are free from now until a date; for ``own_s`` see `find_room`."""
    position = event_after(state, state.scalars[0].message_s)
    return state.plan_free[position - 1] >= n and next_lack(state, n, position, min(until_s - ROUNDING_S, own_s)) == 0


@jit
def first_date(state, n, from_s):
    """Return the first date from another one on, now at the earliest, from which room may be, and the next position."""
    now_s = state.scalars[0].message_s
    if from_s <= now_s:
        position = event_after(state, now_s)
        if state.plan_free[position - 1] >= n:
            return now_s, position
    else:
        position = event_from(state, from_s)
    return next_date(state, n, position)


@jit
def next_date(state, n, position):
    """Return the date of the first event from a position on with ``n`` cores free, and the position behind it."""
    position = next_room(state, n, position)
    return state.plan_s[position], position + 1


@jit
def find_room(state, n, duration_s, date_s, position, limit_s, own_s):
    """Find the earliest date at which ``n`` cores are free for a time without delaying any job.

    Parameters
    ----------
    date_s, position
        The first date to look at, and the position behind it: see `first_date`.
    limit_s
        The date must be before this one.
    own_s
        Start of a reservation that is to be given up for it and ends no earlier: behind that, ``n`` cores are free.
        Infinite where there is none.

    Returns
    -------
    tuple
        The date, `NOT_FOUND` if there is none, and the position behind it.
    """
    while date_s < limit_s:
        lack = next_lack(state, n, position, min(date_s + duration_s - ROUNDING_S, own_s))
        if lack == 0:
            return date_s, position
        # Nothing that contains the event that was in the way will do: go on behind it.
        date_s, position = next_date(state, n, lack + 1)
    return NOT_FOUND, position


@jit
def is_separate(state, date_s):
    """Tell whether what the plan is right before a date does not depend on the events at it."""
    return state.plan_s[event_from(state, date_s) - 1] + ROUNDING_S < date_s
