"""Holes in the plan node by node, where jobs ask for memory: on which nodes each job will run."""

from __future__ import annotations

import math

import numpy as np

from hdrl.compiled.jit import jit
from hdrl.settings.batch.kernel import codes
from hdrl.settings.batch.kernel.blocks import (
    apply_event,
    begins_settled,
    following,
    is_settled,
    last_date_s,
    look_at_nodes,
    place_before,
    slot_of,
)
from hdrl.settings.batch.kernel.plan import NOT_FOUND, ROUNDING_S, job_of, length_at


@jit
def _keep_least(state, slot, memory_mib):
    """Keep the least that was free on the nodes that an event has changed; return how much room that leaves less."""
    row = state.jobs[job_of(state.slot_event[slot])]
    n_less = np.int64(0)
    for k in range(row.first_planned, row.first_planned + row.n_planned):
        node = state.planned_nodes[k]
        cores, free_mib = state.later_cores[node], state.later_memory_mib[node]
        if cores < state.least_cores[node] or free_mib < state.least_memory_mib[node]:
            state.least_cores[node] = min(state.least_cores[node], cores)
            state.least_memory_mib[node] = min(state.least_memory_mib[node], free_mib)
            room = _room(state, node, memory_mib)
            n_less += state.room[node] - room
            state.room[node] = room
    return n_less


@jit
def _room(state, node, memory_mib):
    """Return how many cores with that much memory each stay free on a node."""
    room, free_mib = np.int64(max(state.least_cores[node], 0)), state.least_memory_mib[node]
    if memory_mib <= 0.0 or memory_mib * room <= free_mib:
        return room
    # What adding and taking away leaves behind in the last bits must not cost a core.
    return min(room, np.int64(max(math.floor(free_mib / memory_mib + 1e-9), 0.0)))


@jit
def _begin_rooms(state, memory_mib):
    """Find how much room there is on each node at the date that is looked at; return how much on all."""
    total = np.int64(0)
    for node in range(len(state.nodes)):
        state.later_cores[node] = state.least_cores[node] = state.plan_cores[node]
        state.later_memory_mib[node] = state.least_memory_mib[node] = state.plan_memory_mib[node]
        room = _room(state, node, memory_mib)
        state.room[node] = room
        total += room
    return total


@jit
def _keep_least_of_block(state, block, memory_mib):
    """Keep the least that is free where a block begins, too; return how much room that leaves on all nodes.

    So most places that are too small are found out without looking at every event.
    """
    first = state.block_order[block] * len(state.nodes)
    total = np.int64(0)
    for node in range(len(state.nodes)):
        state.least_cores[node] = min(state.least_cores[node], state.block_cores[first + node])
        state.least_memory_mib[node] = min(state.least_memory_mib[node], state.block_memory_mib[first + node])
        room = _room(state, node, memory_mib)
        state.room[node] = room
        total += room
    return total


@jit
def _room_on(state, speed):
    """Return how much room there is on nodes of at least a speed."""
    total = np.int64(0)
    for node in range(len(state.nodes)):
        total += state.room[node] if state.speed_of[node] <= speed else 0
    return total


@jit
def _take_nodes(state, n, core_key, speed):
    """Choose ``n`` cores on nodes of at least a speed, which have so many."""
    for node in range(len(state.nodes)):
        state.n_chosen[node] = 0
    missing = np.int64(n)
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


@jit
def choose_nodes(state, n, requested_time_s, memory_mib, core_key, date_s, block, i):
    """Choose nodes for a job from a date on; return how long it is expected to run there, or ``NOT_FOUND``.

    ``plan_cores`` and ``plan_memory_mib`` hold what is free on the nodes then, by the events before a place. The
    fastest nodes need to be free for the shortest time: they are tried alone first, then with the next slower ones, and
    so on.
    """
    total = _begin_rooms(state, memory_mib)
    end_s = date_s + length_at(state, requested_time_s, state.node_gflops[0]) - ROUNDING_S
    later = block + 1
    while total >= n and later < state.scalars[0].n_blocks and last_date_s(state, later - 1) < end_s:
        if begins_settled(state, later):
            total = _keep_least_of_block(state, later, memory_mib)
        later += 1
    first, k = block, i  # what has not settled yet
    for speed in range(len(state.node_gflops)):
        duration_s = length_at(state, requested_time_s, state.node_gflops[speed])
        while total >= n and block < state.scalars[0].n_blocks:
            slot = slot_of(state, block, i)
            at_s = state.slot_s[slot]
            if not at_s < date_s + duration_s - ROUNDING_S:
                break
            apply_event(state, slot, state.later_cores, state.later_memory_mib)
            block, i = following(state, block, i)
            if state.slot_change[slot] != 0 and is_settled(state, block, i, at_s):
                while first != block or k != i:
                    total -= _keep_least(state, slot_of(state, first, k), memory_mib)
                    first, k = following(state, first, k)
        if total < n:  # more nodes would be needed for even longer
            return NOT_FOUND
        if _room_on(state, speed) >= n:
            _take_nodes(state, n, core_key, speed)
            return duration_s
    return NOT_FOUND


@jit
def nodes_stay_free(state, until_s):
    """Tell whether the plan finds what it needs on every node until a date, as the nodes are now."""
    s = state.scalars[0]
    look_at_nodes(state)
    block, i, _ = place_before(state, -np.inf)
    while block < s.n_blocks and state.slot_s[slot_of(state, block, i)] <= s.message_s:
        apply_event(state, slot_of(state, block, i), state.plan_cores, state.plan_memory_mib)
        block, i = following(state, block, i)
    for node in range(len(state.nodes)):
        if not _is_possible(state, node):
            return False
    first, k = block, i  # what has not settled yet
    while block < s.n_blocks:
        slot = slot_of(state, block, i)
        if not state.slot_s[slot] < until_s - ROUNDING_S:
            break
        apply_event(state, slot, state.plan_cores, state.plan_memory_mib)
        block, i = following(state, block, i)
        if state.slot_change[slot] != 0 and is_settled(state, block, i, state.slot_s[slot]):
            while first != block or k != i:
                settled = slot_of(state, first, k)
                if state.slot_change[settled] < 0 and not _are_possible(state, state.jobs[state.slot_event[settled]]):
                    return False
                first, k = following(state, first, k)
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
def look_at_nodes_of(state, row, block, i):
    """Let the nodes that are planned for a job be as at a place; the others are not looked at."""
    if block == state.scalars[0].n_blocks:
        block -= 1
        i = state.blocks[state.block_order[block]].n
    first = state.block_order[block] * len(state.nodes)
    for k in range(row.first_planned, row.first_planned + row.n_planned):
        node = state.planned_nodes[k]
        state.plan_cores[node] = state.block_cores[first + node]
        state.plan_memory_mib[node] = state.block_memory_mib[first + node]
    for event in range(i):
        apply_event(state, slot_of(state, block, event), state.plan_cores, state.plan_memory_mib)


@jit
def nodes_have_place(state, row, cores, memory_mib):
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
    """Write the nodes that `find_hole` chose down as those of a job."""
    row = state.jobs[job]
    row.n_planned = 0
    for i in range(len(state.nodes)):
        if state.n_chosen[i] > 0:
            place = row.first_planned + row.n_planned
            state.planned_nodes[place] = i
            state.planned_cores[place] = state.n_chosen[i]
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
