"""The plan of conservative backfilling: when cores will be taken and given back.

The plan is a list of events, sorted by date: the expected ends of the jobs that hold cores, and the starts and ends of
the reservations of those that wait. While a decision is made it is unfolded (`kernel.blocks`); `kernel.holes` finds out
where a job fits into it.
"""

from __future__ import annotations

import numpy as np

from hdrl.compiled.jit import jit

NOT_FOUND = -1.0

ROUNDING_S = 1e-5
"""Events within this time of each other are one: dates are told with six decimals, and jobs start a little late."""


@jit
def length_at(state, requested_time_s, gflops):
    """Return how long what asks for a time is expected to run on cores of a speed, in seconds."""
    return requested_time_s * state.scalars[0].reference_flops / (gflops * 1e9)


@jit
def length_s(state, job, gflops):
    """Return how long a job is expected to run on cores of a speed, in seconds."""
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
def place_of_free(state, n, place, n_before):
    """Return with which processor of ``by_speed`` ``n`` free cores are there, and how many those before it have.

    Parameters
    ----------
    state, n
        The arrays of one environment; how many cores.
    place, n_before
        A processor from which to look on, and how many free cores those before it have.
    """
    while n_before + state.n_free[state.by_speed[place]] < n:
        n_before += state.n_free[state.by_speed[place]]
        place += 1
    return place, n_before


@jit
def fastest_free_gflops(state, n):
    """Return the speed of the slowest of the fastest ``n`` cores that are free, in Gflop/s."""
    place, _ = place_of_free(state, n, 0, np.int64(0))
    return state.processors[state.by_speed[place]].peak_gflops


@jit
def job_of(code):
    """Return the job of an event: ``code`` is a job that takes its cores, or -1 - a job that gives them back."""
    return code if code >= 0 else -1 - code


@jit
def add_end(state, date_s, job):
    """Add the expected end of a job that holds cores to a list of such ends."""
    s = state.scalars[0]
    place = s.n_plan
    while place > 0 and state.plan_s[place - 1] > date_s:
        state.plan_s[place] = state.plan_s[place - 1]
        state.plan[place] = state.plan[place - 1]
        state.plan_change[place] = state.plan_change[place - 1]
        place -= 1
    state.plan_s[place], state.plan[place], state.plan_change[place] = date_s, -1 - job, state.jobs[job].n_requested
    s.n_plan += 1


@jit
def leave_plan(state, job):
    """Take the expected end of a job that has ended out of the plan, and note what became free by it."""
    s = state.scalars[0]
    place = 0
    while place < s.n_plan and state.plan[place] != -1 - job:
        place += 1
    if place == s.n_plan:
        return
    date_s = state.plan_s[place]
    s.n_plan -= 1
    for i in range(place, s.n_plan):
        state.plan_s[i] = state.plan_s[i + 1]
        state.plan[i] = state.plan[i + 1]
        state.plan_change[i] = state.plan_change[i + 1]
    if date_s > s.message_s:
        s.freed_s = max(s.freed_s, date_s)
        s.vacated_s = max(s.vacated_s, date_s)
    else:  # one that has overrun has kept others waiting: all of them may move
        s.freed_s = np.inf
