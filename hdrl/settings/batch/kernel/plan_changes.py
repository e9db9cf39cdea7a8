"""Changing the plan while a decision is made: events come in and are taken out, reservations are hidden and shown.

A reservation that is *hidden* is passed over: its events stay where they are and change nothing (`kernel.blocks`). So
a job can be offered what is free without its own reservation, and keep that if there is nothing better.
"""

from __future__ import annotations

from hdrl.compiled.jit import jit
from hdrl.settings.batch.kernel.blocks import (
    apply_event,
    block_before,
    fill,
    fold,
    following,
    keep_nodes,
    last_date_s,
    look_at_block,
    place_before,
    slot_of,
    sum_up,
)
from hdrl.settings.batch.kernel.plan import ROUNDING_S, job_of


@jit
def _make_room(state, block):
    """Split a full block in two, or put all events into half-full blocks where there are no more blocks."""
    s = state.scalars[0]
    if s.n_blocks == len(state.blocks):
        if s.plans_nodes == 1:
            look_at_block(state, 0)
        free = state.blocks[state.block_order[0]].free
        fold(state)
        fill(state, free)
        return
    new = state.block_order[s.n_blocks]
    for k in range(s.n_blocks, block + 1, -1):
        state.block_order[k] = state.block_order[k - 1]
        state.block_least[k], state.block_most[k] = state.block_least[k - 1], state.block_most[k - 1]
    state.block_order[block + 1] = new
    s.n_blocks += 1
    left, right = state.blocks[state.block_order[block]], state.blocks[new]
    half = left.n >> 1
    free = left.free
    if s.plans_nodes == 1:
        look_at_block(state, block)
    for i in range(half):
        free += state.slot_change[slot_of(state, block, i)]
        if s.plans_nodes == 1:
            apply_event(state, slot_of(state, block, i), state.plan_cores, state.plan_memory_mib)
    right.free, right.n = free, left.n - half
    if s.plans_nodes == 1:
        keep_nodes(state, block + 1)
    for i in range(right.n):
        source, target = slot_of(state, block, half + i), slot_of(state, block + 1, i)
        state.slot_s[target] = state.slot_s[source]
        state.slot_event[target] = state.slot_event[source]
        state.slot_change[target] = state.slot_change[source]
    left.n = half
    sum_up(state, block)
    sum_up(state, block + 1)


@jit
def _comes_before(state, code, other):
    """Tell whether an event comes before another one of the same date.

    Cores are given back first, and reservations begin in the order of the jobs' ranks.
    """
    if other < 0:
        return False
    return code < 0 or state.reservations[code].rank < state.reservations[other].rank


@jit
def _block_for(state, date_s, code):
    """Return the block in which the place of an event is that is to be added."""
    block = block_before(state, date_s)
    while block + 1 < state.scalars[0].n_blocks:
        slot = slot_of(state, block + 1, 0)
        if state.slot_s[slot] > date_s or _comes_before(state, code, state.slot_event[slot]):
            break
        block += 1
    return block


@jit
def _insert(state, date_s, code):
    """Add an event that is passed over as yet; return its place."""
    block = _block_for(state, date_s, code)
    if state.blocks[state.block_order[block]].n == state.scalars[0].block_size:
        _make_room(state, block)
        block = _block_for(state, date_s, code)
    row = state.blocks[state.block_order[block]]
    slot = slot_of(state, block, row.n)
    first = slot - row.n
    while slot > first and (
        state.slot_s[slot - 1] > date_s
        or (state.slot_s[slot - 1] == date_s and _comes_before(state, code, state.slot_event[slot - 1]))
    ):
        state.slot_s[slot] = state.slot_s[slot - 1]
        state.slot_event[slot] = state.slot_event[slot - 1]
        state.slot_change[slot] = state.slot_change[slot - 1]
        state.slot_free[slot] = state.slot_free[slot - 1]
        slot -= 1
    state.slot_s[slot], state.slot_event[slot], state.slot_change[slot] = date_s, code, 0
    state.slot_free[slot] = state.slot_free[slot - 1] if slot > first else 0
    row.n += 1
    return block, slot - first


@jit
def add_hidden(state, date_s, code):
    """Add an event that is passed over as yet; return whether it is close to another one, but not at its date."""
    block, i = _insert(state, date_s, code)
    return _is_close_to_another(state, block, i, date_s)


@jit
def _is_close_to_another(state, block, i, date_s):
    """Tell whether the event before or behind the one at a place is at another date within the rounding of dates."""
    s = state.scalars[0]
    if i > 0 or block > 0:
        before_s = state.slot_s[slot_of(state, block, i - 1)] if i > 0 else last_date_s(state, block - 1)
        if before_s != date_s and date_s - before_s <= ROUNDING_S:
            return True
    block, i = following(state, block, i)
    if block == s.n_blocks:
        return False
    after_s = state.slot_s[slot_of(state, block, i)]
    return after_s != date_s and after_s - date_s <= ROUNDING_S


@jit
def _find(state, date_s, code):
    """Return the place of an event."""
    block, i, _ = place_before(state, date_s)
    while state.slot_event[slot_of(state, block, i)] != code:
        block, i = following(state, block, i)
    return block, i


@jit
def _remove(state, block, i):
    """Take the event at a place out, as if it were passed over."""
    s = state.scalars[0]
    own = state.block_order[block]
    row = state.blocks[own]
    row.n -= 1
    first = slot_of(state, block, 0)
    for slot in range(first + i, first + row.n):
        state.slot_s[slot] = state.slot_s[slot + 1]
        state.slot_event[slot] = state.slot_event[slot + 1]
        state.slot_change[slot] = state.slot_change[slot + 1]
        state.slot_free[slot] = state.slot_free[slot + 1]
    if row.n == 0 and s.n_blocks > 1:
        s.n_blocks -= 1
        for k in range(block, s.n_blocks):
            state.block_order[k] = state.block_order[k + 1]
            state.block_least[k], state.block_most[k] = state.block_least[k + 1], state.block_most[k + 1]
        state.block_order[s.n_blocks] = own


@jit
def _shift(state, job, first, last, sign):
    """Let the cores of a job be free (taken: ``sign`` -1) from behind the place in one block to that in another."""
    s = state.scalars[0]
    row = state.planned_jobs[job]
    change = sign * state.reservations[job].n_requested
    for block in range(first + 1, last + 1):
        own = state.blocks[state.block_order[block]]
        own.free += change
        own.peak += change
        own.free_after += change
        state.block_least[block] += change
        state.block_most[block] += change
        if s.plans_nodes == 1:
            start = state.block_order[block] * len(state.nodes)
            for k in range(row.first_planned, row.first_planned + row.n_planned):
                n_cores = sign * state.planned_cores[k]
                state.block_cores[start + state.planned_nodes[k]] += n_cores
                state.block_memory_mib[start + state.planned_nodes[k]] += n_cores * row.memory_mib


@jit
def _set_reservation(state, job, n_cores):
    """Let the reservation of a job take so many cores: all, or none."""
    row = state.reservations[job]
    first, i = _find(state, row.reserved_s, job)
    last, k = _find(state, row.reserved_end_s, -1 - job)
    state.slot_change[slot_of(state, first, i)] = -n_cores
    state.slot_change[slot_of(state, last, k)] = n_cores
    sign = 1 if n_cores == 0 else -1
    if first <= last:
        _shift(state, job, first, last, sign)
    else:  # it takes no time, and cores are given back first
        _shift(state, job, last, first, -sign)
    sum_up(state, first)
    sum_up(state, last)


@jit
def hide(state, job):
    """Let the reservation of a job be passed over."""
    _set_reservation(state, job, 0)


@jit
def show(state, job):
    """Let a reservation that was passed over count again."""
    _set_reservation(state, job, state.reservations[job].n_requested)


@jit
def withdraw(state, job):
    """Take the reservation of a job, which is passed over, out of the plan."""
    row = state.reservations[job]
    block, i = _find(state, row.reserved_s, job)
    _remove(state, block, i)
    block, i = _find(state, row.reserved_end_s, -1 - job)
    _remove(state, block, i)


@jit
def move_earlier(state, job, date_s, end_s):
    """Let a reservation begin and end earlier; return whether its start is close to another event, and its end."""
    row = state.reservations[job]
    starts_close = _move_event(state, job, row.reserved_s, date_s, -row.n_requested)
    ends_close = _move_event(state, -1 - job, row.reserved_end_s, end_s, row.n_requested)
    return starts_close, ends_close


@jit
def _move_event(state, code, old_s, date_s, change):
    """Let an event, which changes how many cores are free, come earlier; tell whether it is close to another one."""
    s = state.scalars[0]
    first, i = _insert(state, date_s, code)
    last, old = _find(state, old_s, code)
    n_blocks = s.n_blocks
    _remove(state, last, old)
    if s.n_blocks < n_blocks:
        last -= 1
    state.slot_change[slot_of(state, first, i)] = change
    _shift(state, job_of(code), first, last, 1 if change > 0 else -1)
    sum_up(state, first)
    if last > first:
        sum_up(state, last)
    return _is_close_to_another(state, first, i, date_s)


@jit
def hold_until(state, job, end_s):
    """Let a job that starts now hold its cores until a date; return whether another event is close to that."""
    block, i = _insert(state, end_s, -1 - job)
    state.slot_change[slot_of(state, block, i)] = state.reservations[job].n_requested
    _shift(state, job, -1, block, -1)
    sum_up(state, block)
    return _is_close_to_another(state, block, i, end_s)
