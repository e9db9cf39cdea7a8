"""Events in a pool: jobs start, end and are submitted."""

from __future__ import annotations

import numpy as np

from hdrl.compiled.heap import add_date, drop_date
from hdrl.compiled.jit import jit
from hdrl.settings.batch.identical_cores.codes import (
    MAKESPAN,
    MAX_BOUNDED_SLOWDOWN,
    MAX_SLOWDOWN,
    MAX_TURNAROUND,
    MAX_WAIT,
    MEAN_BOUNDED_SLOWDOWN,
    MEAN_SLOWDOWN,
    MEAN_TURNAROUND,
    MEAN_WAIT,
    N_OBJECTIVES,
    THROUGHPUT,
    UTILIZATION,
)
from hdrl.settings.batch.identical_cores.history import note_end, note_start
from hdrl.settings.batch.identical_cores.queue import release_held, submit_next, take

BOUND_S = 10.0  # of the bounded slowdown, as in hdrl.metrics.formulas
SHORTEST_RUN_S = 1e-5  # what Batsim records for a job that takes no time


@jit
def _expect_end(state, job):
    """Insert the expected end of a job that starts now, in the order of these dates."""
    s = state.scalars[0]
    dates_s, jobs = state.expected_s, state.expected_jobs
    expected_s = s.message_s + state.jobs[job].requested_time_s
    position = s.n_running  # the heap does not hold the job yet
    while position > 0 and dates_s[position - 1] > expected_s:
        dates_s[position] = dates_s[position - 1]
        jobs[position] = jobs[position - 1]
        position -= 1
    dates_s[position] = expected_s
    jobs[position] = job


@jit
def _forget_expected(state, job):
    dates_s, jobs = state.expected_s, state.expected_jobs
    last = state.scalars[0].n_running - 1
    position = 0
    while jobs[position] != job:
        position += 1
    for i in range(position, last):
        dates_s[i] = dates_s[i + 1]
        jobs[i] = jobs[i + 1]


@jit
def start_at(state, position):
    """Start the job at a position of the queue; it fits."""
    s = state.scalars[0]
    job = state.waiting[position]
    row = state.jobs[job]
    take(state, position)
    if state.settings[0].has_expectations == 1:
        _expect_end(state, job)
    run_s = max(row.run_s, SHORTEST_RUN_S)
    wait_s = s.message_s - row.submit_s
    end_s = s.message_s + row.run_s
    s.n_running = add_date(state.end_s, state.end_jobs, s.n_running, end_s, job)
    note_start(state, job)
    state.start_s[job - s.first_job] = s.message_s
    s.n_free -= row.n_requested
    s.n_started += 1
    bounded_slowdown, slowdown = max(1.0, (wait_s + run_s) / max(run_s, BOUND_S)), (wait_s + run_s) / run_s
    s.max_wait_s = max(s.max_wait_s, wait_s)
    s.max_turnaround_s = max(s.max_turnaround_s, wait_s + run_s)
    s.max_slowdown = max(s.max_slowdown, slowdown)
    s.max_bounded_slowdown = max(s.max_bounded_slowdown, bounded_slowdown)
    s.bounded_slowdown += bounded_slowdown
    s.slowdown += slowdown
    s.wait_s += wait_s
    s.turnaround_s += wait_s + run_s
    s.area_s += run_s * row.n_requested
    s.last_end_s = max(s.last_end_s, s.message_s + run_s)


@jit
def _end_first(state):
    s = state.scalars[0]
    job = state.end_jobs[0]
    if state.settings[0].has_expectations == 1:
        _forget_expected(state, job)
    s.n_running = drop_date(state.end_s, state.end_jobs, s.n_running)
    s.n_free += state.jobs[job].n_requested
    note_end(state, job)


@jit
def has_event(state):
    """Tell whether anything will happen."""
    s = state.scalars[0]
    return s.n_running > 0 or s.next_job < s.end_job


@jit
def _submission_is_next(state):
    """Tell whether the next event is a submission; one at the date of an end comes before it."""
    s = state.scalars[0]
    if s.next_job == s.end_job:
        return False
    return s.n_running == 0 or state.jobs[s.next_job].submit_s <= state.end_s[0]


@jit
def next_event(state):
    """Go on to the next submission or end of a job; unless looked at one by one, to all of that date."""
    s = state.scalars[0]
    s.is_reserved = 0
    s.is_weighed = 0
    s.shown_s = np.nan  # the observation follows from this event even if no time passes
    release_held(state)
    if _submission_is_next(state):
        s.message_s = max(s.message_s, state.jobs[s.next_job].submit_s)
        submit_next(state)
    else:
        s.message_s = max(s.message_s, state.end_s[0])
        _end_first(state)
    if state.settings[0].is_one_by_one == 1:
        return
    while s.next_job < s.end_job and state.jobs[s.next_job].submit_s <= s.message_s:
        submit_next(state)
    while s.n_running > 0 and state.end_s[0] <= s.message_s:
        _end_first(state)


@jit
def _largest_value(s, objective):
    """Return an objective that is a maximum over jobs, NaN for any other."""
    if objective == MAX_WAIT:
        return s.max_wait_s
    if objective == MAX_TURNAROUND:
        return s.max_turnaround_s
    if objective == MAX_SLOWDOWN:
        return s.max_slowdown
    if objective == MAX_BOUNDED_SLOWDOWN:
        return s.max_bounded_slowdown
    return np.nan


@jit
def objective_value(state, objective):
    """Return an objective over the jobs that have been started: a mean divides by all jobs of the episode.

    NaN for a number that is none of `identical_cores.codes`.
    """
    s = state.scalars[0]
    if objective < 0 or objective >= N_OBJECTIVES:
        return np.nan
    if s.n_started == 0:
        return 0.0
    n_jobs = s.end_job - s.first_job
    span_s = s.last_end_s - s.first_submit_s
    if objective == UTILIZATION:
        value = s.area_s / (s.n_procs * span_s)
    elif objective == MEAN_BOUNDED_SLOWDOWN:
        value = s.bounded_slowdown / n_jobs
    elif objective == MEAN_SLOWDOWN:
        value = s.slowdown / n_jobs
    elif objective == MEAN_WAIT:
        value = s.wait_s / n_jobs
    elif objective == MEAN_TURNAROUND:
        value = s.turnaround_s / n_jobs
    elif objective == MAKESPAN:
        value = span_s
    elif objective == THROUGHPUT:
        value = 3600.0 * s.n_started / span_s
    else:
        value = _largest_value(s, objective)
    return value


@jit
def reward_for(objective, gain):
    """Return the reward for what an objective has grown by."""
    return gain if objective in (UTILIZATION, THROUGHPUT) else -gain
