"""The queue: waiting jobs in the order in which they are shown, and job keys."""

from __future__ import annotations

import math

from hdrl.compiled.jit import jit
from hdrl.settings.batch.identical_cores.history import note_submission
from hdrl.settings.batch.kernel import codes
from hdrl.settings.batch.kernel.keys import changes_with_time, job_key

NOWHERE = 1 << 40  # as the position from which on something has changed
_TINY = 1e-15  # what RLScheduler adds so that log2(1) is not 0


@jit
def key_value(state, job, key):
    """Return the value of a job key; the smallest is served first. NaN for a number that is none of theirs."""
    if key not in (codes.JOB_WFP3_INVERTED, codes.JOB_UNICEF_INVERTED):
        return job_key(state, job, key, state.jobs[job].requested_time_s)
    row = state.jobs[job]
    wait_s = -1.0 - row.submit_s  # a job that has not started has started at -1 there
    requested_s = row.requested_time_s if row.requested_time_s > 0.0 else 1.0
    if key == codes.JOB_WFP3_INVERTED:
        return -((wait_s / requested_s) ** 3) * row.n_requested
    return -(wait_s + _TINY) / (math.log2(row.n_requested + _TINY) * requested_s)


@jit
def _is_before(state, left, right):
    """Tell whether a job comes before another by its priority, or by its submission if these are equal."""
    first = state.scalars[0].first_job
    a, b = state.priorities[left - first], state.priorities[right - first]
    return a < b or (a == b and left < right)


@jit
def _rise(state, position):
    """Move the job at a position to the front until the one before it precedes it; return its new position."""
    waiting, submit_s, sizes = state.waiting, state.waiting_submit_s, state.waiting_sizes
    job, date_s, size = waiting[position], submit_s[position], sizes[position]
    to = position
    while to > 0 and _is_before(state, job, waiting[to - 1]):
        waiting[to], submit_s[to], sizes[to] = waiting[to - 1], submit_s[to - 1], sizes[to - 1]
        to -= 1
    if to != position:
        waiting[to], submit_s[to], sizes[to] = job, date_s, size
    return to


@jit
def note_change(state, position):
    """Note that other jobs are in the queue from a position on than the observation shows."""
    s = state.scalars[0]
    if s.moved_from != NOWHERE and position < s.n_shown - 1:  # then it is not just one job that has gone
        position = min(position, s.moved_from)
        s.moved_from = NOWHERE
    s.changed_from = min(s.changed_from, position)


@jit
def submit_next(state):
    """Put the next job of the episode into the queue."""
    s = state.scalars[0]
    job = s.next_job
    s.next_job += 1
    enqueue(state, job)
    note_submission(state, job)


@jit
def enqueue(state, job):
    """Put a job into the queue."""
    s = state.scalars[0]
    key = state.settings[0].order_key
    row = state.jobs[job]
    state.waiting[s.n_waiting] = job
    state.waiting_submit_s[s.n_waiting] = row.submit_s
    state.waiting_sizes[s.n_waiting] = row.n_requested
    state.start_s[job - s.first_job] = -1.0
    state.priorities[job - s.first_job] = key_value(state, job, key)
    position = _rise(state, s.n_waiting)
    note_change(state, position)
    s.n_waiting += 1


@jit
def sort_queue(state):
    """Bring the queue into its order if that changes with time (insertion sort: it changes slowly)."""
    if changes_with_time(state.settings[0].order_key):
        arrange_queue(state)


@jit
def arrange_queue(state):
    """Bring the queue into its order, whatever it is in."""
    s = state.scalars[0]
    key = state.settings[0].order_key
    for position in range(s.n_waiting):
        job = state.waiting[position]
        state.priorities[job - s.first_job] = key_value(state, job, key)
    for position in range(1, s.n_waiting):
        to = _rise(state, position)
        if to != position:
            note_change(state, to)


@jit
def take(state, position):
    """Take the job at a position out of the queue."""
    s = state.scalars[0]
    waiting, submit_s, sizes = state.waiting, state.waiting_submit_s, state.waiting_sizes
    s.n_waiting -= 1
    for i in range(position, s.n_waiting):
        waiting[i], submit_s[i], sizes[i] = waiting[i + 1], submit_s[i + 1], sizes[i + 1]
    if s.moved_from == NOWHERE and s.changed_from == NOWHERE:
        s.moved_from = position
    else:
        note_change(state, position)


@jit
def hold(state, position):
    """Hold the job at a position of the queue until the next event: it counts as too large to start."""
    s = state.scalars[0]
    state.waiting_sizes[position] = state.settings[0].n_procs + 1
    s.n_held += 1
    s.shown_free = -1


@jit
def is_open(state, position):
    """Tell whether the job at a position of the queue is not held."""
    return state.scalars[0].n_held == 0 or state.waiting_sizes[position] <= state.settings[0].n_procs


@jit
def release_held(state):
    """Let go of all held jobs."""
    s = state.scalars[0]
    if s.n_held == 0:
        return
    for position in range(s.n_waiting):
        state.waiting_sizes[position] = state.jobs[state.waiting[position]].n_requested
    s.n_held = 0
    s.shown_free = -1


@jit
def position_of(state, job):
    """Return the position of a waiting job."""
    position = 0
    while state.waiting[position] != job:
        position += 1
    return position


@jit
def best_position(state, key):
    """Return the position of the waiting job with the smallest value of a job key; the earliest of equal ones."""
    best = 0
    best_key = key_value(state, state.waiting[0], key)
    for position in range(1, state.scalars[0].n_waiting):
        value = key_value(state, state.waiting[position], key)
        if value < best_key or (value == best_key and state.waiting[position] < state.waiting[best]):
            best, best_key = position, value
    return best


@jit
def any_fits(state):
    """Tell whether a waiting job could start now."""
    s = state.scalars[0]
    if s.n_free == 0:
        return False
    sizes, n_free = state.waiting_sizes, s.n_free
    for position in range(s.n_waiting):  # noqa: SIM110 - compiled code knows no generators
        if sizes[position] <= n_free:
            return True
    return False
