"""The plan of conservative backfilling: when cores will be taken and given back, and the earliest hole for a job.

The plan is a sorted list of events: the expected ends of the jobs that hold cores, and the starts and ends of the
reservations of those that wait. On a machine whose memory nobody asks for, any free cores will do: holes are found by
counting cores, and a job is expected to take as long as on the slowest cores of the platform, for nobody knows yet
which it will get. Where jobs ask for memory, the plan says on which nodes each job will run.
"""

from __future__ import annotations

import math

import numpy as np

from hdrl.compiled.jit import jit
from hdrl.kernel import codes

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


# ------------------------------------------------------------------ the list of events


@jit
def _job_of(code):
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
    n = state.jobs[_job_of(code)].n_requested
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
def _is_settled(state, place):
    """Tell whether the first ``place`` events, the last of which counts, and no others have come at some date."""
    n = state.scalars[0].n_plan
    following = place
    while following < n and state.plan_change[following] == 0:
        following += 1
    return following == n or state.plan_s[following] > state.plan_s[place - 1] + ROUNDING_S


# ------------------------------------------------------------------ holes, by counting cores


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
        if free < n and state.plan_change[place - 1] != 0 and _is_settled(state, place):
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
            is_free = left >= n or state.plan_change[i - 1] == 0 or not _is_settled(state, i)
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
    date_s, is_settled = NOT_FOUND, False
    while place < s.n_plan and (free < n or not is_settled):
        if state.plan_change[place] != 0:
            date_s = state.plan_s[place]
            free += state.plan_change[place]
            is_settled = _is_settled(state, place + 1)
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
    known = _look_at_nodes(state) if judged else 0
    while True:
        date_s, place, free = _next_hole(state, place, free, date_s, n, duration_s, limit_s)
        if date_s == NOT_FOUND or not judged:
            return date_s, date_s + duration_s
        while known < place:
            _apply_event(state, known, is_later=False)
            known += 1
        planned_s = _choose_nodes(state, job, core_key, date_s, place)
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
        _look_at_nodes(state)
    is_free, is_checked = True, False
    while is_free and place < s.n_plan and (state.plan_s[place] <= date_s or state.plan_s[place] < end_s - ROUNDING_S):
        if state.plan_s[place] > date_s and not is_checked:
            is_free, is_checked = _has_place(state, job, n, free, judged), True
        free += state.plan_change[place]
        if judged:
            _apply_event(state, place, is_later=False)
        place += 1
        if is_free and is_checked and _is_settled(state, place):
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


# ------------------------------------------------------------------ holes, node by node


@jit
def _look_at_nodes(state):
    """Start from what is free on each node now; return how many events of the plan have been looked at: none."""
    for i in range(len(state.nodes)):
        forecast = state.forecasts[i]
        forecast.plan_cores = state.n_free_on[i]
        forecast.plan_memory_mib = state.free_memory_mib[i]
    return 0


@jit
def _apply_event(state, place, is_later):
    """Let what is free on the nodes change by an event: at the date that is looked at, or later than that."""
    change = state.plan_change[place]
    if change == 0:
        return
    sign = 1 if change > 0 else -1
    row = state.jobs[_job_of(state.plan[place])]
    for k in range(row.first_planned, row.first_planned + row.n_planned):
        forecast = state.forecasts[state.planned_nodes[k]]
        n_cores = sign * state.planned_cores[k]
        if is_later:
            forecast.later_cores += n_cores
            forecast.later_memory_mib += n_cores * row.memory_mib
        else:
            forecast.plan_cores += n_cores
            forecast.plan_memory_mib += n_cores * row.memory_mib


@jit
def _keep_least(state, first, place):
    """Keep the least that was free on the nodes that the events ``first`` to ``place`` have changed."""
    for i in range(first, place):
        row = state.jobs[_job_of(state.plan[i])]
        for k in range(row.first_planned, row.first_planned + row.n_planned):
            forecast = state.forecasts[state.planned_nodes[k]]
            forecast.least_cores = min(forecast.least_cores, forecast.later_cores)
            forecast.least_memory_mib = min(forecast.least_memory_mib, forecast.later_memory_mib)


@jit
def _room(forecast, memory_mib):
    """Return how many cores with that much memory each stay free on a node."""
    room = np.int64(forecast.least_cores)
    if memory_mib > 0.0:
        # What adding and taking away leaves behind in the last bits must not cost a core.
        room = min(room, np.int64(min(math.floor(forecast.least_memory_mib / memory_mib + 1e-9), 1e9)))
    return max(room, np.int64(0))


@jit
def _take_nodes(state, job, core_key, gflops):
    """Choose cores for a job on nodes of at least a speed; return whether they are enough."""
    row = state.jobs[job]
    for i in range(len(state.nodes)):
        state.forecasts[i].n_chosen = 0
    missing = np.int64(row.n_requested)
    for i in range(len(state.processors)):
        processor = state.by_power[i] if core_key == codes.CORE_LOW_POWER else state.by_speed[i]
        forecast = state.forecasts[state.processors[processor].node]
        if forecast.n_chosen > 0 or forecast.slowest_gflops < gflops:
            continue
        forecast.n_chosen = min(missing, _room(forecast, row.memory_mib))
        missing -= forecast.n_chosen
        if missing == 0:
            return True
    return False


@jit
def _next_slower(state, gflops):
    """Return the speed of the fastest nodes below a speed in Gflop/s, 0 if there are none."""
    found = 0.0
    for i in range(len(state.nodes)):
        if found < state.forecasts[i].slowest_gflops < gflops:
            found = state.forecasts[i].slowest_gflops
    return found


@jit
def _choose_nodes(state, job, core_key, date_s, place):
    """Choose nodes for a job from a date on; return how long it is expected to run there, or ``NOT_FOUND``.

    The nodes' ``plan_cores`` and ``plan_memory_mib`` hold what is free then, by the first ``place`` events. The fastest
    nodes need to be free for the shortest time: they are tried alone first, then with the next slower ones, and so on.
    """
    for i in range(len(state.nodes)):
        forecast = state.forecasts[i]
        forecast.later_cores = forecast.least_cores = forecast.plan_cores
        forecast.later_memory_mib = forecast.least_memory_mib = forecast.plan_memory_mib
    unsettled = place
    gflops = _next_slower(state, np.inf)
    while gflops > 0.0:
        duration_s = length_s(state, job, gflops)
        while place < state.scalars[0].n_plan and state.plan_s[place] < date_s + duration_s - ROUNDING_S:
            _apply_event(state, place, is_later=True)
            place += 1
            if state.plan_change[place - 1] != 0 and _is_settled(state, place):
                _keep_least(state, unsettled, place)
                unsettled = place
        if _take_nodes(state, job, core_key, gflops):
            return duration_s
        gflops = _next_slower(state, gflops)
    return NOT_FOUND


@jit
def nodes_stay_free(state, until_s):
    """Tell whether the plan finds what it needs on every node until a date, as the nodes are now."""
    s = state.scalars[0]
    place = _look_at_nodes(state)
    while place < s.n_plan and state.plan_s[place] <= s.message_s:
        _apply_event(state, place, is_later=False)
        place += 1
    for i in range(len(state.nodes)):
        if not _is_possible(state.forecasts[i]):
            return False
    unsettled = place
    while place < s.n_plan and state.plan_s[place] < until_s - ROUNDING_S:
        _apply_event(state, place, is_later=False)
        place += 1
        if state.plan_change[place - 1] != 0 and _is_settled(state, place):
            for i in range(unsettled, place):
                if state.plan_change[i] < 0 and not _are_possible(state, state.jobs[state.plan[i]]):
                    return False
            unsettled = place
    return True


@jit
def _is_possible(forecast):
    """Tell whether a node has what is taken from it."""
    return forecast.plan_cores >= 0 and forecast.plan_memory_mib >= -1e-6


@jit
def _are_possible(state, row):
    """Tell whether the nodes of a job have what it takes from them."""
    for k in range(row.first_planned, row.first_planned + row.n_planned):
        if not _is_possible(state.forecasts[state.planned_nodes[k]]):
            return False
    return True


@jit
def plan_chosen_nodes(state, job):
    """Write the nodes that `find_hole` chose down as those of a job."""
    row = state.jobs[job]
    row.n_planned = 0
    for i in range(len(state.nodes)):
        if state.forecasts[i].n_chosen > 0:
            place = row.first_planned + row.n_planned
            state.planned_nodes[place] = i
            state.planned_cores[place] = state.forecasts[i].n_chosen
            row.n_planned += 1


@jit
def plan_cores_of(state, job, cores, first, n):
    """Write the nodes of the cores ``cores[first:first + n]`` down as those of a job."""
    row = state.jobs[job]
    row.n_planned = 0
    for i in range(first, first + n):
        node = state.processors[state.processor_of[cores[i]]].node
        last = row.first_planned + row.n_planned - 1
        if row.n_planned > 0 and state.planned_nodes[last] == node:
            state.planned_cores[last] += 1
        else:
            state.planned_nodes[last + 1] = node
            state.planned_cores[last + 1] = 1
            row.n_planned += 1
