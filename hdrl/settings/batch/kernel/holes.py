"""Holes in the plan: the earliest dates at which jobs can start without delaying anybody.

On a machine whose memory nobody asks for, any free cores will do: holes are found by counting cores, and a job is
expected to take as long as on the slowest cores of the platform, for nobody knows yet which it will get. Where jobs ask
for memory, what counting finds is looked at node by node (`kernel.plan_nodes`).
"""

from __future__ import annotations

import numpy as np

from hdrl.compiled.jit import jit
from hdrl.settings.batch.kernel.blocks import (
    apply_event,
    following,
    is_apart,
    is_settled,
    last_date_s,
    look_at_block,
    place_after,
    place_before,
    slot_of,
)
from hdrl.settings.batch.kernel.plan import NOT_FOUND, ROUNDING_S, fastest_gflops, length_at, slowest_gflops
from hdrl.settings.batch.kernel.plan_nodes import choose_nodes, look_at_nodes_of, nodes_have_place
from hdrl.settings.batch.kernel.scanning import first_below, first_from, last_below


@jit
def stays_free(state, n, until_s):
    """Tell whether the plan leaves ``n`` cores, of those that are free now, free until a date."""
    return first_lack_s(state, n, until_s) == np.inf


@jit
def first_lack_s(state, n, until_s):
    """Return the first date from now on at which fewer than ``n`` cores are free.

    It is infinite if there is none before another date; only cores that are free now count.
    """
    now_s = state.scalars[0].message_s
    block, i, free = place_after(state, now_s)
    if free < n:
        return now_s
    block, i, stays = _walk(state, block, i, n, until_s - ROUNDING_S)
    if stays:
        return np.inf
    return state.slot_s[slot_of(state, block, i - 1)] if i > 0 else last_date_s(state, block - 1)


@jit
def _walk(state, block, i, n, end_s):
    """Go on to the first event at which fewer than ``n`` cores are free, if there is one before a date.

    Returns
    -------
    tuple
        The place behind that event, and whether there is none.
    """
    while block < state.scalars[0].n_blocks:
        row = state.blocks[state.block_order[block]]
        first = slot_of(state, block, 0)
        slot = first_below(state.slot_free, first + i, first + row.n, n - row.free)
        while slot < first + row.n:
            date_s = state.slot_s[slot]
            if not date_s < end_s:
                return block, i, True
            later, k = following(state, block, slot - first)
            if state.slot_change[slot] != 0 and is_settled(state, later, k, date_s):
                return later, k, False
            slot = first_below(state.slot_free, slot + 1, first + row.n, n - row.free)
        if not last_date_s(state, block) < end_s:
            break
        block, i = first_below(state.block_least, block + 1, state.scalars[0].n_blocks, n), 0
    return block, i, True


@jit
def _next_hole(state, block, i, free, date_s, n, duration_s, limit_s):
    """Return the first date from ``date_s`` on, before a limit, at which ``n`` cores are free for a time.

    The events before a place have come by ``date_s``, which leave ``free`` cores. The date is ``NOT_FOUND`` if there is
    none; the place and the cores then are returned with it.
    """
    while date_s < limit_s:
        behind, k, is_free = block, i, free >= n
        if is_free:
            behind, k, is_free = _walk(state, block, i, n, date_s + duration_s - ROUNDING_S)
        if is_free:
            return date_s, block, i, free
        # Nothing that contains the event that was in the way will do: go on behind it.
        date_s, block, i, free = _next_date(state, behind, k, n)
        if date_s == NOT_FOUND:
            break
    return NOT_FOUND, block, i, free


@jit
def _next_date(state, block, i, n):
    """Go on to the next date at which ``n`` cores are free; return it, the place behind it, and the cores.

    The date is ``NOT_FOUND`` if there is none.
    """
    while block < state.scalars[0].n_blocks:
        row = state.blocks[state.block_order[block]]
        first = slot_of(state, block, 0)
        slot = first_from(state.slot_free, first + i, first + row.n, n - row.free)
        while slot < first + row.n:
            later, k = following(state, block, slot - first)
            if state.slot_change[slot] != 0 and is_settled(state, later, k, state.slot_s[slot]):
                return state.slot_s[slot], later, k, row.free + state.slot_free[slot]
            slot = first_from(state.slot_free, slot + 1, first + row.n, n - row.free)
        block, i = first_from(state.block_most, block + 1, state.scalars[0].n_blocks, n), 0
    return NOT_FOUND, block, i, np.int64(0)


@jit
def near_s(state, row):
    """Return from when on a start of a job with a reservation would reach into that reservation."""
    return row.reserved_s - row.longest_s - state.scalars[0].margin_s


@jit
def find_slide(state, row, from_s):
    """Return the earliest start of a job from a date on, each of which would use part of its reservation.

    As many cores as it needs must be free from then until right before its date: behind it they are.

    Returns
    -------
    tuple
        Whether that can be told without hiding the reservation, which is so unless another event is close before it;
        and the date, ``NOT_FOUND`` if there is none.
    """
    n, s = row.n_requested, state.scalars[0]
    block, i, free = place_before(state, row.reserved_s)
    if not is_apart(state, block, i, row.reserved_s - 2.0 * s.margin_s):
        return False, NOT_FOUND
    if free < n:
        return True, NOT_FOUND
    lack_s, block, i = _behind_last_lack(state, block, i, n, from_s)
    if lack_s > s.message_s:
        date_s, _, _, _ = _next_date(state, block, i, n)
        return True, date_s
    date_s, block, i, free = _first_date(state, max(from_s, lack_s), n)
    if date_s == s.message_s and free < n:
        date_s, _, _, _ = _next_date(state, block, i, n)
    return True, date_s


@jit
def _behind_last_lack(state, block, i, n, from_s):
    """Return the last date before a place, and from another date on, from which on fewer than ``n`` cores are free.

    It is ``NOT_FOUND`` if there is none; the place behind it is returned with it.
    """
    while True:
        if i == 0:
            block = last_below(state.block_least, 0, block, n)
            if block < 0 or last_date_s(state, block) < from_s:
                return NOT_FOUND, block, i
            i = state.blocks[state.block_order[block]].n
        first = slot_of(state, block, 0)
        slot = last_below(state.slot_free, first, first + i, n - state.blocks[state.block_order[block]].free)
        i = np.int64(max(slot - first, 0))
        if slot < first:
            continue
        date_s = state.slot_s[slot]
        if date_s < from_s:
            return NOT_FOUND, block, i
        later, k = following(state, block, i)
        if state.slot_change[slot] != 0 and is_settled(state, later, k, date_s):
            return date_s, later, k


@jit
def first_date_after_s(state, date_s):
    """Return the date of the first event after a date, infinite if there is none."""
    block, i, _ = place_after(state, date_s)
    return state.slot_s[slot_of(state, block, i)] if block < state.scalars[0].n_blocks else np.inf


@jit
def most_free_between(state, start_s, end_s):
    """Return the most cores that are free between two dates."""
    block, i, free = place_before(state, start_s)
    most = free
    while block < state.scalars[0].n_blocks:
        row = state.blocks[state.block_order[block]]
        if i == 0 and last_date_s(state, block) <= end_s:
            most, free = max(most, row.peak), row.free_after
            block += 1
            continue
        slot = slot_of(state, block, i)
        if state.slot_s[slot] > end_s:
            break
        free += state.slot_change[slot]
        most = max(most, free)
        block, i = following(state, block, i)
    return most


@jit
def most_free_before(state, start_s, end_s):
    """Return the most cores that are free between two dates, without the second."""
    block, i, free = place_before(state, start_s)
    most = free
    while block < state.scalars[0].n_blocks and state.slot_s[slot_of(state, block, i)] < end_s:
        free += state.slot_change[slot_of(state, block, i)]
        most = max(most, free)
        block, i = following(state, block, i)
    return most


@jit
def _first_date(state, from_s, n):
    """Return the first date from which to look for ``n`` cores, now at the earliest, its place and what is free there.

    The date is ``NOT_FOUND`` if there is none.
    """
    now_s = state.scalars[0].message_s
    if from_s <= now_s:
        block, i, free = place_after(state, now_s)
        return now_s, block, i, free
    block, i, _ = place_before(state, from_s)
    return _next_date(state, block, i, n)


@jit
def find_hole(state, n, requested_time_s, memory_mib, core_key, from_s, limit_s):
    """Return the earliest start of a job that delays nobody in the plan, and its expected end.

    Parameters
    ----------
    state
        The arrays of one environment.
    n, requested_time_s, memory_mib
        What the job asks for: cores, seconds, and MiB for each core. It is not in the plan, or hidden.
    core_key
        Where jobs ask for memory: nodes are planned for in the order of power for ``CORE_LOW_POWER``, else of speed.
    from_s
        There is no hole before this date, which may have gone by.
    limit_s
        The start must be before this date.

    Returns
    -------
    tuple
        The two dates; the first is ``NOT_FOUND`` if there is no hole before the limit. Where jobs ask for memory, the
        nodes' ``n_chosen`` say where the job goes.
    """
    s = state.scalars[0]
    judged = s.plans_nodes == 1
    duration_s = length_at(state, requested_time_s, fastest_gflops(state) if judged else slowest_gflops(state))
    date_s, block, i, free = _first_date(state, from_s, n)
    if date_s == NOT_FOUND:
        return NOT_FOUND, NOT_FOUND
    known, n_known = -1, 0
    while True:
        date_s, block, i, free = _next_hole(state, block, i, free, date_s, n, duration_s, limit_s)
        if date_s == NOT_FOUND or not judged:
            return date_s, date_s + duration_s
        known, n_known = _look_at_nodes_at(state, block, i, known, n_known)
        planned_s, block, i = choose_nodes(state, n, requested_time_s, memory_mib, core_key, date_s, block, i)
        if planned_s != NOT_FOUND:
            return date_s, date_s + planned_s
        date_s, block, i, free = _next_date(state, block, i, n)
        if date_s == NOT_FOUND:
            return NOT_FOUND, NOT_FOUND


@jit
def first_free_s(state, n, duration_s, from_s, limit_s):
    """Return the first date between two others from which on ``n`` cores are free for a time, or the second one."""
    date_s, block, i, free = _first_date(state, from_s, n)
    if date_s == NOT_FOUND:
        return limit_s
    date_s, _, _, _ = _next_hole(state, block, i, free, date_s, n, duration_s, limit_s)
    return limit_s if date_s == NOT_FOUND else date_s


@jit
def _look_at_nodes_at(state, block, i, known, n_known):
    """Let the nodes be as at a place, where they are as behind ``n_known`` events of the block ``known``."""
    if block == state.scalars[0].n_blocks:
        block -= 1
        i = state.blocks[state.block_order[block]].n
    if block != known:
        look_at_block(state, block)
        n_known = 0
    for k in range(n_known, i):
        apply_event(state, slot_of(state, block, k), state.plan_cores, state.plan_memory_mib)
    return block, i


@jit
def is_hole(state, job, date_s, end_s):
    """Tell whether what is planned for a job that is not in the plan is free between two dates."""
    s = state.scalars[0]
    row = state.reservations[job]
    judged = s.plans_nodes == 1
    block, i, free = place_after(state, date_s)
    if free < row.n_requested:
        return False
    if not judged:
        _, _, stays = _walk(state, block, i, row.n_requested, end_s - ROUNDING_S)
        return stays
    planned = state.planned_jobs[job]
    look_at_nodes_of(state, planned, block, i)
    if not nodes_have_place(state, planned, state.plan_cores, state.plan_memory_mib):
        return False
    while block < s.n_blocks and state.slot_s[slot_of(state, block, i)] < end_s - ROUNDING_S:
        slot = slot_of(state, block, i)
        free += state.slot_change[slot]
        apply_event(state, slot, state.plan_cores, state.plan_memory_mib)
        block, i = following(state, block, i)
        if is_settled(state, block, i, state.slot_s[slot]) and (
            free < row.n_requested or not nodes_have_place(state, planned, state.plan_cores, state.plan_memory_mib)
        ):
            return False
    return True
