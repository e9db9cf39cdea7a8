"""The plan of conservative backfilling: when cores will be taken and given back.

The plan is a sorted list of events: the expected ends of the jobs that hold cores, and the starts and ends of the
reservations of those that wait. `kernel.holes` finds out where a job fits into it.
"""

from __future__ import annotations

import numpy as np

from hdrl.compiled.jit import jit

NOT_FOUND = -1.0

ROUNDING_S = 1e-5
"""Events within this time of each other are one: dates are told with six decimals, and jobs start a little late."""


@jit
def length_s(state, job, gflops):
    """Return how long a job is expected to run on cores of a speed, in seconds."""
    return state.jobs[job].requested_time_s * state.scalars[0].reference_flops / (gflops * 1e9)


@jit
def fastest_gflops(state):
    """Return the speed of the fastest cores of the platform, in Gflop/s."""
    return state.processors[state.by_speed[0]].peak_gflops


@jit
def slowest_gflops(state):
    """Return the speed of the slowest cores of the platform, in Gflop/s."""
    return state.processors[state.by_speed[len(state.by_speed) - 1]].peak_gflops


@jit
def job_of(code):
    """Return the job of an event."""
    return code if code >= 0 else -1 - code


@jit
def add_event(state, date_s, code):
    """Add an event: ``code`` is a job that takes its cores, or -1 - a job that gives them back.

    Of what has one date, cores are given back first.
    """
    s = state.scalars[0]
    place = s.n_plan
    while place > 0 and (
        state.plan_s[place - 1] > date_s
        or (code < 0 and state.plan[place - 1] >= 0 and state.plan_s[place - 1] == date_s)
    ):
        state.plan_s[place] = state.plan_s[place - 1]
        state.plan[place] = state.plan[place - 1]
        state.plan_change[place] = state.plan_change[place - 1]
        place -= 1
    state.plan_s[place] = date_s
    state.plan[place] = code
    n = state.jobs[job_of(code)].n_requested
    state.plan_change[place] = -n if code >= 0 else n
    s.n_plan += 1


@jit
def _remove(state, place):
    s = state.scalars[0]
    s.n_plan -= 1
    for i in range(place, s.n_plan):
        state.plan_s[i] = state.plan_s[i + 1]
        state.plan[i] = state.plan[i + 1]
        state.plan_change[i] = state.plan_change[i + 1]


@jit
def _find(state, date_s, code):
    """Return the place of an event (binary search)."""
    low, high = 0, state.scalars[0].n_plan
    while low < high:
        middle = (low + high) >> 1
        if state.plan_s[middle] < date_s:
            low = middle + 1
        else:
            high = middle
    while state.plan[low] != code:
        low += 1
    return low


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
    _remove(state, place)
    # One that has overrun has kept others waiting: all of them may move.
    s.freed_s = max(s.freed_s, date_s if date_s > s.message_s else np.inf)


@jit
def hide(state, job):
    """Let the reservation of a job be passed over."""
    row = state.jobs[job]
    state.plan_change[_find(state, row.reserved_s, job)] = 0
    state.plan_change[_find(state, row.reserved_end_s, -1 - job)] = 0


@jit
def show(state, job):
    """Let a reservation that was passed over count again."""
    row = state.jobs[job]
    state.plan_change[_find(state, row.reserved_s, job)] = -row.n_requested
    state.plan_change[_find(state, row.reserved_end_s, -1 - job)] = row.n_requested


@jit
def withdraw(state, job):
    """Take the reservation of a job out of the plan."""
    row = state.jobs[job]
    _remove(state, _find(state, row.reserved_s, job))
    _remove(state, _find(state, row.reserved_end_s, -1 - job))


@jit
def is_settled(state, place):
    """Tell whether the first ``place`` events, the last of which counts, and no others have come at some date."""
    n = state.scalars[0].n_plan
    following = place
    while following < n and state.plan_change[following] == 0:
        following += 1
    return following == n or state.plan_s[following] > state.plan_s[place - 1] + ROUNDING_S
