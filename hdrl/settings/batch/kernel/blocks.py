"""The plan while a decision is made: its events in blocks, each with what is free where it begins.

Between two decisions the plan is a list (`kernel.plan`). A decision may look for thousands of holes and move hundreds
of reservations, so the list is unfolded into blocks first: to find a date, to add and to take out an event then takes a
look at the blocks and at one of them. A block knows how many cores are free before its first event, the least and the
most that are free at one of its dates, and, where jobs ask for memory, what is free on each node where it begins.
So whoever looks for a hole passes over whole blocks, and begins to look anywhere.

A place of the plan is two numbers: the block, counted by date, and the event in it. Behind the last event is the place
``(n_blocks, 0)``.
"""

from __future__ import annotations

import numpy as np

from hdrl.compiled.jit import jit
from hdrl.settings.batch.kernel.plan import ROUNDING_S, job_of

_NONE = -(1 << 30)
"""Less than is ever free, by far."""


@jit
def slot_of(state, block, i):
    """Return where the event ``i`` of a block is kept."""
    return state.block_order[block] * state.scalars[0].block_size + i


@jit
def following(state, block, i):
    """Return the place behind another one."""
    if i + 1 < state.blocks[state.block_order[block]].n:
        return block, i + 1
    return block + 1, 0


@jit
def is_settled(state, block, i, date_s):
    """Tell whether the last event that counts before a place, at ``date_s``, and no others have come at some date."""
    while block < state.scalars[0].n_blocks:
        slot = slot_of(state, block, i)
        if state.slot_change[slot] != 0:
            return state.slot_s[slot] > date_s + ROUNDING_S
        block, i = following(state, block, i)
    return True


@jit
def last_date_s(state, block):
    """Return the date of the last event of a block that holds any."""
    return state.slot_s[slot_of(state, block, state.blocks[state.block_order[block]].n - 1)]


@jit
def is_apart(state, block, i, date_s):
    """Tell whether the event before a place is at another date than the one at the place, which is at ``date_s``."""
    if i == 0:
        if block == 0:
            return True
        return last_date_s(state, block - 1) + ROUNDING_S < date_s
    return state.slot_s[slot_of(state, block, i - 1)] + ROUNDING_S < date_s


@jit
def begins_settled(state, block):
    """Tell whether the events before a block are at other dates than those in it."""
    return state.slot_s[slot_of(state, block, 0)] > last_date_s(state, block - 1) + ROUNDING_S


@jit
def block_before(state, date_s):
    """Return the last block that begins before a date, or the first block."""
    low, high = 0, state.scalars[0].n_blocks - 1
    while low < high:
        middle = (low + high + 1) >> 1
        if state.slot_s[slot_of(state, middle, 0)] < date_s:
            low = middle
        else:
            high = middle - 1
    return low


@jit
def place_before(state, date_s):
    """Return the place of the first event that is not before a date, and how many cores are free before it."""
    n_blocks, block, i = state.scalars[0].n_blocks, block_before(state, date_s), np.int64(0)
    row = state.blocks[state.block_order[block]]
    first = slot_of(state, block, 0)
    free = row.free
    for slot in range(first, first + row.n):
        is_before = state.slot_s[slot] < date_s
        i += is_before
        free += state.slot_change[slot] * is_before
    if i < row.n:
        return block, i, free
    return min(block + 1, n_blocks), 0, free


@jit
def place_after(state, date_s):
    """Return the place of the first event after a date, and how many cores are free before it."""
    block, i, free = place_before(state, date_s)
    while block < state.scalars[0].n_blocks and state.slot_s[slot_of(state, block, i)] <= date_s:
        free += state.slot_change[slot_of(state, block, i)]
        block, i = following(state, block, i)
    return block, i, free


# ------------------------------------------------------------------ nodes


@jit
def look_at_nodes(state):
    """Let ``plan_cores`` and ``plan_memory_mib`` of the nodes be what is free now."""
    for i in range(len(state.nodes)):
        state.plan_cores[i] = state.n_free_on[i]
        state.plan_memory_mib[i] = state.free_memory_mib[i]


@jit
def look_at_block(state, block):
    """Let ``plan_cores`` and ``plan_memory_mib`` of the nodes be what is free where a block begins."""
    first = state.block_order[block] * len(state.nodes)
    for i in range(len(state.nodes)):
        state.plan_cores[i] = state.block_cores[first + i]
        state.plan_memory_mib[i] = state.block_memory_mib[first + i]


@jit
def keep_nodes(state, block):
    """Note ``plan_cores`` and ``plan_memory_mib`` of the nodes as what is free where a block begins."""
    first = state.block_order[block] * len(state.nodes)
    for i in range(len(state.nodes)):
        state.block_cores[first + i] = state.plan_cores[i]
        state.block_memory_mib[first + i] = state.plan_memory_mib[i]


@jit
def apply_event(state, slot, cores, memory_mib):
    """Let what is free on the nodes, cores and their memory, change by an event."""
    change = state.slot_change[slot]
    if change == 0:
        return
    sign = 1 if change > 0 else -1
    row = state.planned_jobs[job_of(state.slot_event[slot])]
    for k in range(row.first_planned, row.first_planned + row.n_planned):
        node = state.planned_nodes[k]
        n_cores = sign * state.planned_cores[k]
        cores[node] += n_cores
        memory_mib[node] += n_cores * row.memory_mib


# ------------------------------------------------------------------ unfolding and folding


@jit
def unfold(state):
    """Put the list of events into blocks; what is free now is free before the first."""
    s = state.scalars[0]
    s.block_size = len(state.slot_s) // len(state.blocks)
    if s.plans_nodes == 1:
        look_at_nodes(state)
    fill(state, s.n_free_cores)


@jit
def fill(state, free):
    """Put the list of events into half-full blocks: ``free`` cores, and the nodes as they are, before the first."""
    s = state.scalars[0]
    for block in range(len(state.blocks)):
        state.block_order[block] = block
    place, s.n_blocks = 0, 0
    while s.n_blocks == 0 or place < s.n_plan:
        block = s.n_blocks
        row = state.blocks[block]
        row.n, row.free = min((s.block_size + 1) >> 1, s.n_plan - place), free
        first = block * s.block_size
        if s.plans_nodes == 1:
            keep_nodes(state, block)
        for i in range(row.n):
            state.slot_s[first + i] = state.plan_s[place + i]
        for i in range(row.n):
            state.slot_event[first + i] = state.plan[place + i]
        for i in range(row.n):
            state.slot_change[first + i] = state.plan_change[place + i]
        if s.plans_nodes == 1:
            for i in range(row.n):
                apply_event(state, first + i, state.plan_cores, state.plan_memory_mib)
        place += row.n
        s.n_blocks += 1
        sum_up(state, block)
        free = row.free_after


@jit
def fold(state):
    """Put the events of the blocks into the list again."""
    s = state.scalars[0]
    place = 0
    for block in range(s.n_blocks):
        first, n = slot_of(state, block, 0), state.blocks[state.block_order[block]].n
        for i in range(n):
            state.plan_s[place + i] = state.slot_s[first + i]
        for i in range(n):
            state.plan[place + i] = state.slot_event[first + i]
        for i in range(n):
            state.plan_change[place + i] = state.slot_change[first + i]
        place += n
    s.n_plan = place


@jit
def sum_up(state, block):
    """Find how many cores are free behind the events of a block, and the least and the most of them.

    Where others follow at the same date, what was free before all of them still counts: most dates at which somebody
    gives cores back are those at which somebody else takes them, and who looks for cores would stop at each (4,000 jobs
    at once on gaia that ask for no memory: 7.8 instead of 10.7 s).
    """
    row = state.blocks[state.block_order[block]]
    first = slot_of(state, block, 0)
    end = first + row.n
    free = settled = peak = least = np.int32(0)
    most = np.int64(_NONE)
    for slot in range(first, end):
        change, next_slot = state.slot_change[slot], min(slot + 1, end - 1)
        free += change
        # What follows the last event is for the next block to tell.
        follows = (state.slot_s[next_slot] <= state.slot_s[slot] + ROUNDING_S) & (state.slot_change[next_slot] != 0)
        counts = (change != 0) & ((follows == 0) | (next_slot == slot))
        settled = free if counts else settled
        state.slot_free[slot] = settled
        least, peak = min(least, settled), max(peak, free)
        most = max(most, np.int64(free) if counts else most)
    row.peak, row.free_after = row.free + peak, row.free + free
    state.block_least[block], state.block_most[block] = row.free + least, row.free + most
