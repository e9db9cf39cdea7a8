"""Holes in the plan node by node, where jobs ask for memory: on which nodes each job will run."""

from __future__ import annotations

import math

import numpy as np

from hdrl.compiled.jit import jit
from hdrl.settings.batch.kernel import codes
from hdrl.settings.batch.kernel.plan import NOT_FOUND, ROUNDING_S, is_settled, job_of, length_s


@jit
def look_at_nodes(state):
    """Start from what is free on each node now; return how many events of the plan have been looked at: none."""
    for i in range(len(state.nodes)):
        forecast = state.forecasts[i]
        forecast.plan_cores = state.n_free_on[i]
        forecast.plan_memory_mib = state.free_memory_mib[i]
    return 0


@jit
def apply_event(state, place, is_later):
    """Let what is free on the nodes change by an event: at the date that is looked at, or later than that."""
    change = state.plan_change[place]
    if change == 0:
        return
    sign = 1 if change > 0 else -1
    row = state.jobs[job_of(state.plan[place])]
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
        row = state.jobs[job_of(state.plan[i])]
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
def choose_nodes(state, job, core_key, date_s, place):
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
            apply_event(state, place, is_later=True)
            place += 1
            if state.plan_change[place - 1] != 0 and is_settled(state, place):
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
    place = look_at_nodes(state)
    while place < s.n_plan and state.plan_s[place] <= s.message_s:
        apply_event(state, place, is_later=False)
        place += 1
    for i in range(len(state.nodes)):
        if not _is_possible(state.forecasts[i]):
            return False
    unsettled = place
    while place < s.n_plan and state.plan_s[place] < until_s - ROUNDING_S:
        apply_event(state, place, is_later=False)
        place += 1
        if state.plan_change[place - 1] != 0 and is_settled(state, place):
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
