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
    is_apart,
    is_settled,
    last_date_s,
    look_at_nodes,
    place_before,
    slot_of,
)
from hdrl.settings.batch.kernel.plan import NOT_FOUND, ROUNDING_S, job_of, length_at


@jit
def memory_binds(state):
    """Tell whether a node may lack memory for a job while it has free cores for it.

    Where none may, rooms are counted in cores alone: 2,000 jobs at once on gaia take 10.0 instead of 11.9 s.
    """
    most_mib = 0.0
    for job in range(len(state.jobs)):
        most_mib = max(most_mib, state.jobs[job].memory_mib)
    for i in range(len(state.nodes)):
        node = state.nodes[i]
        first = state.processors[node.first_processor].first_core
        n_cores = state.processors[node.end_processor - 1].end_core - first
        if not n_cores * most_mib * (1.0 + 1e-6) < node.memory_mib:
            return 1
    return 0


@jit
def _apply_later(state, slot, sign):
    """Let an event come in ``later_cores`` and ``later_memory_mib``, or, with the sign -1, take it back."""
    change = sign * state.slot_change[slot]
    if change == 0:
        return
    sign = 1 if change > 0 else -1
    row = state.planned_jobs[job_of(state.slot_event[slot])]
    last = row.first_planned + row.n_planned
    if state.scalars[0].memory_binds == 0:
        for k in range(row.first_planned, last):
            state.later_cores[state.planned_nodes[k]] += sign * state.planned_cores[k]
        return
    for k in range(row.first_planned, last):
        n_cores = sign * state.planned_cores[k]
        state.later_cores[state.planned_nodes[k]] += n_cores
        state.later_memory_mib[state.planned_nodes[k]] += n_cores * row.memory_mib


@jit
def _keep_least(state, slot, memory_mib):
    """Keep the least that was free on the nodes that an event has changed; return how much room that leaves less."""
    row = state.planned_jobs[job_of(state.slot_event[slot])]
    n_less = np.int64(0)
    if state.scalars[0].memory_binds == 0:
        for k in range(row.first_planned, row.first_planned + row.n_planned):
            node = state.planned_nodes[k]
            room = min(state.room[node], max(state.later_cores[node], np.int32(0)))
            n_less += state.room[node] - room
            state.room[node] = room
        return n_less
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
def _begin_rooms(state, memory_mib, cores, free_memory_mib, first):
    """Find how much room there is on each node by what is free there from now on; return how much on all.

    ``cores`` and ``free_memory_mib`` hold what is free on the nodes from their place ``first`` on.
    """
    total = np.int64(0)
    if state.scalars[0].memory_binds == 0:
        for node in range(len(state.nodes)):
            free = cores[first + node]
            state.later_cores[node] = free
            state.room[node] = max(free, np.int32(0))
            total += state.room[node]
        return total
    for node in range(len(state.nodes)):
        state.later_cores[node] = state.least_cores[node] = cores[first + node]
        state.later_memory_mib[node] = state.least_memory_mib[node] = free_memory_mib[first + node]
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
    if state.scalars[0].memory_binds == 0:
        for node in range(len(state.nodes)):
            room = min(state.room[node], max(state.block_cores[first + node], np.int32(0)))
            state.room[node] = room
            total += room
        return total
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

    Returns
    -------
    tuple
        How long, and the place from which on the next date is to be looked for if there are no such nodes.
    """
    begin, k = block, i
    total = _begin_rooms(state, memory_mib, state.plan_cores, state.plan_memory_mib, 0)
    end_s = date_s + length_at(state, requested_time_s, state.node_gflops[0]) - ROUNDING_S
    if total < n:
        return NOT_FOUND, begin, k
    later, total = _block_with_lack(state, n, memory_mib, total, block, end_s)
    if total < n:
        own = state.block_order[later] * len(state.nodes)
        total = _begin_rooms(state, memory_mib, state.block_cores, state.block_memory_mib, own)
        begin, k = _last_with_lack(state, n, memory_mib, total, later, 0, begin, k)
        return NOT_FOUND, begin, k
    first, first_i = block, i  # what has not settled yet
    for speed in range(len(state.node_gflops)):
        duration_s = length_at(state, requested_time_s, state.node_gflops[speed])
        end_s = date_s + duration_s - ROUNDING_S
        while total >= n and block < state.scalars[0].n_blocks:
            slot = slot_of(state, block, i)
            at_s = state.slot_s[slot]
            if not at_s < end_s:
                break
            _apply_later(state, slot, 1)
            block, i = following(state, block, i)
            if state.slot_change[slot] != 0 and is_settled(state, block, i, at_s):
                total -= _keep_least_between(state, first, first_i, block, i, memory_mib, -1)
                first, first_i = block, i
        if total < n:  # more nodes would be needed for even longer
            if speed == 0:  # else the fastest may do later, which need not be free until here
                total = _begin_rooms(state, memory_mib, state.later_cores, state.later_memory_mib, 0)
                begin, k = _last_with_lack(state, n, memory_mib, total, block, i, begin, k)
            break
        if _room_on(state, speed) >= n:
            _take_nodes(state, n, core_key, speed)
            return duration_s, block, i
    return NOT_FOUND, begin, k


@jit
def _block_with_lack(state, n, memory_mib, total, block, end_s):
    """Keep the least that is free where later blocks begin, up to a date; return the last one, and the room then.

    The last one is the first with which there is too little room for ``n`` cores, if there is any.
    """
    block += 1
    while total >= n and block < state.scalars[0].n_blocks and last_date_s(state, block - 1) < end_s:
        if begins_settled(state, block):
            total = _keep_least_of_block(state, block, memory_mib)
        block += 1
    return block - 1, total


@jit
def _keep_least_between(state, block, i, end, end_i, memory_mib, sign):
    """Keep the least that was free on the nodes from which events between two places have taken something.

    With the sign 1, the events have been taken back: those that give something back take it. Return how much room that
    leaves less.
    """
    n_less = np.int64(0)
    while block != end or i != end_i:
        slot = slot_of(state, block, i)
        if sign * state.slot_change[slot] > 0:
            n_less += _keep_least(state, slot, memory_mib)
        block, i = following(state, block, i)
    return n_less


@jit
def _last_with_lack(state, n, memory_mib, total, block, i, begin, begin_i):
    """Return the last place from which on there is too little room until another place: no hole begins before it.

    What is between them would be in every hole that begins there. To pass over all such dates, instead of trying each,
    saves 7.9 of 12.5 million choices of nodes where 2,000 jobs that ask for memory wait at once on gaia.

    ``later_cores``, ``later_memory_mib`` and the ``total`` room are those at the other place. From the place
    (``begin``, ``begin_i``) on there is too little room.
    """
    last, k = block, i  # what has not settled yet
    while block != begin or i != begin_i:
        if i == 0:
            block -= 1
            i = state.blocks[state.block_order[block]].n
        i -= 1
        slot = slot_of(state, block, i)
        _apply_later(state, slot, -1)
        if state.slot_change[slot] != 0 and is_apart(state, block, i, state.slot_s[slot]):
            total -= _keep_least_between(state, block, i, last, k, memory_mib, 1)
            last, k = block, i
            if total < n:
                break
    return block, i


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
                if state.slot_change[settled] < 0 and not _are_possible(
                    state, state.planned_jobs[state.slot_event[settled]]
                ):
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
    row = state.planned_jobs[job]
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
    row = state.planned_jobs[job]
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
