"""The plan node by node, where jobs ask for memory: what will be free on each node, and where each job will run.

What is free on each node is kept for some dates of the plan, its *marks*, while a decision is made. From the mark
before a date, what the events do until then is added up, and where these are many, a new mark is left there.
"""

from __future__ import annotations

import math

import numpy as np

from hdrl.compiled.jit import jit
from hdrl.settings.batch.kernel import codes
from hdrl.settings.batch.kernel.plan import NOT_FOUND, ROUNDING_S, event_after, is_settled, job_of, length_at, next_lack

N_SNAPSHOTS = 256
"""Dates for which it is kept what is free on each node, at most."""

_SPACING = 16
"""Events that are added up before a mark is left, at least; more where there would be too many marks."""


@jit
def reset_snapshots(state):
    """Leave no mark but the first, before all events, where the nodes are as they are now."""
    _look_at_nodes(state)
    state.scalars[0].n_snapshots = 0
    _set_snapshot(state, 0, -np.inf)


@jit
def _set_snapshot(state, snapshot, date_s):
    """Keep ``plan_cores`` and ``plan_memory_mib`` as what is free on the nodes at a date, before a mark."""
    s, n_nodes = state.scalars[0], len(state.nodes)
    for k in range(s.n_snapshots, snapshot, -1):
        state.snapshot_s[k] = state.snapshot_s[k - 1]
    for k in range((s.n_snapshots + 1) * n_nodes - 1, (snapshot + 1) * n_nodes - 1, -1):
        state.snapshot_cores[k] = state.snapshot_cores[k - n_nodes]
        state.snapshot_memory_mib[k] = state.snapshot_memory_mib[k - n_nodes]
    state.snapshot_s[snapshot] = date_s
    for node in range(n_nodes):
        state.snapshot_cores[snapshot * n_nodes + node] = state.plan_cores[node]
        state.snapshot_memory_mib[snapshot * n_nodes + node] = state.plan_memory_mib[node]
    s.n_snapshots += 1


@jit
def update_snapshots(state, job, start_s, end_s, sign):
    """Let the cores of a job be free (taken: ``sign`` -1) at the marks between two dates."""
    row = state.reservations[job]
    for snapshot in range(_snapshot_before(state, start_s), state.scalars[0].n_snapshots):
        if state.snapshot_s[snapshot] >= end_s:
            break
        if state.snapshot_s[snapshot] < start_s:
            continue
        first = snapshot * len(state.nodes)
        for k in range(row.first_planned, row.first_planned + row.n_planned):
            n_cores = sign * state.planned_cores[k]
            state.snapshot_cores[first + state.planned_nodes[k]] += n_cores
            state.snapshot_memory_mib[first + state.planned_nodes[k]] += n_cores * row.memory_mib


@jit
def _snapshot_before(state, date_s):
    """Return the last mark that is not behind a date."""
    low, high = 0, state.scalars[0].n_snapshots - 1
    while low < high:
        middle = (low + high + 1) >> 1
        if state.snapshot_s[middle] <= date_s:
            low = middle
        else:
            high = middle - 1
    return low


@jit
def _look_at_nodes(state):
    """Let ``plan_cores`` and ``plan_memory_mib`` of the nodes be what is free now."""
    for node in range(len(state.nodes)):
        state.plan_cores[node] = state.n_free_on[node]
        state.plan_memory_mib[node] = state.free_memory_mib[node]


@jit
def look_at_nodes_before(state, position):
    """Let ``plan_cores`` and ``plan_memory_mib`` of the nodes be what is free before an event."""
    snapshot = _snapshot_before(state, state.plan_s[position - 1])
    first = snapshot * len(state.nodes)
    for node in range(len(state.nodes)):
        state.plan_cores[node] = state.snapshot_cores[first + node]
        state.plan_memory_mib[node] = state.snapshot_memory_mib[first + node]
    behind = event_after(state, state.snapshot_s[snapshot])
    for earlier in range(behind, position):
        apply_event(state, earlier, 1, state.plan_cores, state.plan_memory_mib)
    s = state.scalars[0]
    is_far = position - behind > _SPACING + s.n_plan // N_SNAPSHOTS
    if is_far and s.n_snapshots < N_SNAPSHOTS and state.plan_s[position] > state.plan_s[position - 1]:
        _set_snapshot(state, snapshot + 1, state.plan_s[position - 1])


@jit
def apply_event(state, position, sign, cores, memory_mib):
    """Apply an event to the free resources of the nodes, or, with the sign -1, undo it."""
    code = state.plan[position]
    row = state.reservations[job_of(code)]
    if code >= 0:
        sign = -sign
    for k in range(row.first_planned, row.first_planned + row.n_planned):
        n_cores = sign * state.planned_cores[k]
        cores[state.planned_nodes[k]] += n_cores
        memory_mib[state.planned_nodes[k]] += n_cores * row.memory_mib


# ------------------------------------------------------------------ which nodes


@jit
def _room(state, node, memory_mib):
    """Return the number of cores with that much memory each that stay free on a node."""
    room, free_mib = np.int64(max(state.least_cores[node], 0)), state.least_memory_mib[node]
    if memory_mib <= 0.0 or memory_mib * room <= free_mib:
        return room
    # What adding and taking away leaves behind in the last bits must not cost a core.
    return min(room, np.int64(max(math.floor(free_mib / memory_mib + 1e-9), 0.0)))


@jit
def _begin_rooms(state, memory_mib):
    """Find the room on each node by its free resources now; return the sum over all."""
    total = np.int64(0)
    for node in range(len(state.nodes)):
        state.least_cores[node], state.least_memory_mib[node] = state.plan_cores[node], state.plan_memory_mib[node]
        state.room[node] = _room(state, node, memory_mib)
        total += state.room[node]
    return total


@jit
def _keep_least(state, first, end, sign, memory_mib):
    """Keep the least that is free on the nodes from which events between two positions take something.

    With the sign -1, the plan is gone through backwards: those take something that give it back. Return how much room
    that leaves less.
    """
    n_less = np.int64(0)
    for position in range(first, end):
        if (state.plan[position] >= 0) != (sign > 0):
            continue
        row = state.reservations[job_of(state.plan[position])]
        for k in range(row.first_planned, row.first_planned + row.n_planned):
            node = state.planned_nodes[k]
            cores, free_mib = state.plan_cores[node], state.plan_memory_mib[node]
            if cores < state.least_cores[node] or free_mib < state.least_memory_mib[node]:
                state.least_cores[node] = min(state.least_cores[node], cores)
                state.least_memory_mib[node] = min(state.least_memory_mib[node], free_mib)
                room = _room(state, node, memory_mib)
                n_less += state.room[node] - room
                state.room[node] = room
    return n_less


@jit
def choose_nodes(state, job, core_key, date_s, position):
    """Choose nodes for a job from a date on; return how long it is expected to run there, or ``NOT_FOUND``.

    The fastest nodes need to be free for the shortest time: they are tried alone first, then with the next slower
    ones, and so on.

    Parameters
    ----------
    state, job, core_key
        The arrays of one environment; the job; nodes are chosen in the order of power for ``CORE_LOW_POWER``, else
        of speed.
    date_s, position
        The date, and the position behind it.

    Returns
    -------
    tuple
        Length, and, if there are no such nodes, the position from which on the next date is to be looked for.
    """
    row = state.reservations[job]
    n, memory_mib = np.int64(row.n_requested), row.memory_mib
    look_at_nodes_before(state, position)
    total = _begin_rooms(state, memory_mib)
    begin, first = position, position  # events that have not settled yet
    for speed in range(len(state.node_gflops)):
        duration_s = length_at(state, state.jobs[job].requested_time_s, state.node_gflops[speed])
        while total >= n and state.plan_s[position] < date_s + duration_s - ROUNDING_S:
            apply_event(state, position, 1, state.plan_cores, state.plan_memory_mib)
            position += 1
            if is_settled(state, position - 1):
                total -= _keep_least(state, first, position, 1, memory_mib)
                first = position
        if total < n:  # more nodes would be needed for even longer
            # Else the fastest may do later, which need not be free until here.
            return NOT_FOUND, _last_with_lack(state, n, memory_mib, begin, position) if speed == 0 else begin
        if _room_on(state, speed) >= n:
            _take_nodes(state, n, core_key, speed)
            return duration_s, position
    return NOT_FOUND, begin


@jit
def _last_with_lack(state, n, memory_mib, begin, position):
    """Return the last place from which on there is too little room until another position: no hole begins before it.

    What is between them would be in every hole that begins there. From the position ``begin`` on there is too little
    room; ``plan_cores`` and ``plan_memory_mib`` are what is free behind the other one.
    """
    total, last = _begin_rooms(state, memory_mib), position  # events that have not settled yet
    while position > begin and total >= n:
        position -= 1
        apply_event(state, position, -1, state.plan_cores, state.plan_memory_mib)
        if is_settled(state, position - 1):
            total -= _keep_least(state, position, last, -1, memory_mib)
            last = position
    return position


@jit
def _room_on(state, speed):
    """Return the room on nodes of at least a speed."""
    total = np.int64(0)
    for node in range(len(state.nodes)):
        total += state.room[node] if state.speed_of[node] <= speed else 0
    return total


@jit
def _take_nodes(state, n, core_key, speed):
    """Choose ``n`` cores on nodes of at least a speed, which have enough."""
    for node in range(len(state.nodes)):
        state.n_chosen[node] = 0
    missing = n
    for i in range(len(state.processors)):
        processor = state.by_power[i] if core_key == codes.CORE_LOW_POWER else state.by_speed[i]
        node = state.processors[processor].node
        if state.n_chosen[node] > 0 or state.speed_of[node] > speed:
            continue
        chosen = min(missing, np.int64(state.room[node]))
        state.n_chosen[node] = chosen
        missing -= chosen
        if missing == 0:
            return


# ------------------------------------------------------------------ whether nodes stay free


@jit
def nodes_stay_free(state, until_s):
    """Tell whether the plan finds what it needs on every node until a date, as the nodes are now."""
    s = state.scalars[0]
    _look_at_nodes(state)
    position = event_after(state, s.message_s)
    for earlier in range(1, position):
        apply_event(state, earlier, 1, state.plan_cores, state.plan_memory_mib)
    for node in range(len(state.nodes)):
        if not _is_possible(state, node):
            return False
    first = position  # events that have not settled yet
    while state.plan_s[position] < until_s - ROUNDING_S:
        apply_event(state, position, 1, state.plan_cores, state.plan_memory_mib)
        position += 1
        if is_settled(state, position - 1):
            for settled in range(first, position):
                if state.plan[settled] >= 0 and not _are_possible(state, state.reservations[state.plan[settled]]):
                    return False
            first = position
    return True


@jit
def _is_possible(state, node):
    """Tell whether a node has what is taken from it."""
    return state.plan_cores[node] >= 0 and state.plan_memory_mib[node] >= -1e-6


@jit
def _are_possible(state, row):
    """Tell whether the nodes of a job have what it takes from them."""
    for k in range(row.first_planned, row.first_planned + row.n_planned):
        if not _is_possible(state, state.planned_nodes[k]):
            return False
    return True


@jit
def is_possible(state, job, date_s, end_s):
    """Tell whether what is planned for a job that is not in the plan is free between two dates."""
    row, by_nodes = state.reservations[job], state.scalars[0].plans_nodes == 1
    position, n = event_after(state, date_s), np.int64(row.n_requested)
    if state.plan_free[position - 1] < n or next_lack(state, n, position, end_s - ROUNDING_S) > 0:
        return False
    if not by_nodes:
        return True
    look_at_nodes_before(state, position)
    is_there = fits_on_nodes(state, row, state.plan_cores, state.plan_memory_mib)
    while is_there and state.plan_s[position] < end_s - ROUNDING_S:
        apply_event(state, position, 1, state.plan_cores, state.plan_memory_mib)
        position += 1
        if is_settled(state, position - 1):
            is_there = fits_on_nodes(state, row, state.plan_cores, state.plan_memory_mib)
    return is_there


@jit
def fits_on_nodes(state, row, cores, memory_mib):
    """Tell whether the nodes that are planned for a job have place for it.

    ``cores`` and ``memory_mib`` are what each node has: as it is looked at, or now, when the job's date has come.
    Others may end a little later then: dates that are close to each other are one, but a message may come between them.
    """
    for k in range(row.first_planned, row.first_planned + row.n_planned):
        node, taken = state.planned_nodes[k], state.planned_cores[k]
        if cores[node] < taken or memory_mib[node] - taken * row.memory_mib < -1e-6:
            return False
    return True


@jit
def plan_chosen_nodes(state, job):
    """Write the nodes that `choose_nodes` chose down as the nodes of a job."""
    row = state.reservations[job]
    row.n_planned = 0
    for node in range(len(state.nodes)):
        if state.n_chosen[node] > 0:
            position = row.first_planned + row.n_planned
            state.planned_nodes[position] = node
            state.planned_cores[position] = state.n_chosen[node]
            row.n_planned += 1


@jit
def plan_cores_of(state, job, cores, first, n):
    """Write the nodes of the cores ``cores[first:first + n]`` down as the nodes of a job."""
    row = state.reservations[job]
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
