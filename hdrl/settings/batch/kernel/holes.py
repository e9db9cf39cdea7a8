"""Holes in the plan: the earliest dates at which jobs can start without delaying anybody.

On a machine whose memory nobody asks for, any free cores will do: holes are found by counting cores, and a job is
expected to take as long as on the slowest cores of the platform, for nobody knows yet which it will get. Where jobs ask
for memory, what counting finds is looked at node by node (`kernel.plan_nodes`).
"""

from __future__ import annotations

import numpy as np

from hdrl.compiled.jit import jit
from hdrl.settings.batch.kernel.plan import NOT_FOUND, ROUNDING_S, fastest_gflops, is_settled, length_s, slowest_gflops
from hdrl.settings.batch.kernel.plan_nodes import apply_event, choose_nodes, look_at_nodes


@jit
def stays_free(state, n, until_s):
    """Tell whether the plan leaves ``n`` cores, of those that are free now, free until a date."""
    s = state.scalars[0]
    free, place = _free_now(state)
    if free < n:
        return False
    while place < s.n_plan and state.plan_s[place] < until_s - ROUNDING_S:
        free += state.plan_change[place]
        place += 1
        if free < n and state.plan_change[place - 1] != 0 and is_settled(state, place):
            return False
    return True


@jit
def _free_now(state):
    """Return how many cores are free now and not claimed, and how many events have come."""
    s = state.scalars[0]
    free, place = np.int64(s.n_free_cores), 0
    while place < s.n_plan and state.plan_s[place] <= s.message_s:
        free += state.plan_change[place]
        place += 1
    return free, place


@jit
def _next_hole(state, place, free, date_s, n, duration_s, limit_s):
    """Return the first date from ``date_s`` on, before a limit, at which ``n`` cores are free for a time.

    Of the plan, ``place`` events have come by ``date_s``, which leave ``free`` cores. The date is ``NOT_FOUND`` if
    there is none; what has come by then is returned with it.
    """
    s = state.scalars[0]
    while date_s < limit_s:
        i, left, is_free = place, free, free >= n
        while is_free and i < s.n_plan and state.plan_s[i] < date_s + duration_s - ROUNDING_S:
            left += state.plan_change[i]
            i += 1
            is_free = left >= n or state.plan_change[i - 1] == 0 or not is_settled(state, i)
        if is_free:
            return date_s, place, free
        # Nothing that contains the event that was in the way will do: go on behind it.
        date_s, place, free = _next_date(state, i, left, n)
        if date_s == NOT_FOUND:
            break
    return NOT_FOUND, place, free


@jit
def _next_date(state, place, free, n):
    """Go on to the next date at which ``n`` cores are free; return it, and what has come by then."""
    s = state.scalars[0]
    date_s, has_settled = NOT_FOUND, False
    while place < s.n_plan and (free < n or not has_settled):
        if state.plan_change[place] != 0:
            date_s = state.plan_s[place]
            free += state.plan_change[place]
            has_settled = is_settled(state, place + 1)
        place += 1
    return date_s if free >= n else NOT_FOUND, place, free


@jit
def find_hole(state, job, core_key, limit_s):
    """Return the earliest start of a waiting job that delays nobody in the plan, and its expected end.

    Parameters
    ----------
    state
        The arrays of one environment.
    job
        A waiting job that is not in the plan, or hidden there.
    core_key
        Where jobs ask for memory: nodes are planned for in the order of power for ``CORE_LOW_POWER``, else of speed.
    limit_s
        The start must be before this date.

    Returns
    -------
    tuple
        The two dates; the first is ``NOT_FOUND`` if there is no hole before the limit. Where jobs ask for memory, the
        nodes' ``n_chosen`` say where the job goes.
    """
    s = state.scalars[0]
    n = state.jobs[job].n_requested
    judged = s.plans_nodes == 1
    duration_s = length_s(state, job, fastest_gflops(state) if judged else slowest_gflops(state))
    free, place = _free_now(state)
    date_s = s.message_s
    known = look_at_nodes(state) if judged else 0
    while True:
        date_s, place, free = _next_hole(state, place, free, date_s, n, duration_s, limit_s)
        if date_s == NOT_FOUND or not judged:
            return date_s, date_s + duration_s
        while known < place:
            apply_event(state, known, is_later=False)
            known += 1
        planned_s = choose_nodes(state, job, core_key, date_s, place)
        if planned_s != NOT_FOUND:
            return date_s, date_s + planned_s
        date_s, place, free = _next_date(state, place, free, 0)
        if date_s == NOT_FOUND:
            return NOT_FOUND, NOT_FOUND


@jit
def is_hole(state, job, date_s, end_s):
    """Tell whether what is planned for a job that is not in the plan is free between two dates."""
    s = state.scalars[0]
    n = state.jobs[job].n_requested
    judged = s.plans_nodes == 1
    free, place = np.int64(s.n_free_cores), 0
    if judged:
        look_at_nodes(state)
    is_free, is_checked = True, False
    while is_free and place < s.n_plan and (state.plan_s[place] <= date_s or state.plan_s[place] < end_s - ROUNDING_S):
        if state.plan_s[place] > date_s and not is_checked:
            is_free, is_checked = _has_place(state, job, n, free, judged), True
        free += state.plan_change[place]
        if judged:
            apply_event(state, place, is_later=False)
        place += 1
        if is_free and is_checked and is_settled(state, place):
            is_free = _has_place(state, job, n, free, judged)
    return is_free and (is_checked or _has_place(state, job, n, free, judged))


@jit
def _has_place(state, job, n, free, judged):
    """Tell whether a job has place by count and, if so judged, on the nodes that are planned for it."""
    if free < n:
        return False
    if not judged:
        return True
    row = state.jobs[job]
    for k in range(row.first_planned, row.first_planned + row.n_planned):
        forecast = state.forecasts[state.planned_nodes[k]]
        taken = state.planned_cores[k]
        if forecast.plan_cores < taken or forecast.plan_memory_mib - taken * row.memory_mib < -1e-6:
            return False
    return True
