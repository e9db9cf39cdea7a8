"""How long cores stay free where something has been given back: what a new hole has to do with it."""

from __future__ import annotations

import numpy as np

from hdrl.compiled.jit import jit
from hdrl.settings.batch.kernel.blocks import following, is_apart, is_settled, last_date_s, place_before, slot_of


@jit
def width_of(state, w):
    """Return the width that is at a place among those for which jobs wait, the narrowest first."""
    return state.widths[state.waited_widths[w]]


@jit
def find_stretches(state, start_s, end_s):
    """Find for each width the longest stretch in which so many cores are free, of those that touch a time.

    ``stretch_s`` of the widths becomes its length, negative if there is none, and ``from_s`` the date at which the
    first stretch begins. Both may be too favourable by what close events make, never too unfavourable.

    Returns
    -------
    int
        For how many widths there is any: those of fewest cores.
    """
    s = state.scalars[0]
    block, i, free = place_before(state, start_s)
    n_open = _n_within(state, 0, free)
    _look_back(state, block, i, free, n_open, start_s)
    n_found = n_open
    for w in range(n_open):
        width_of(state, w).from_s, width_of(state, w).stretch_s = width_of(state, w).since_s, -1.0
    while block < s.n_blocks:
        if i == 0:
            row = state.blocks[state.block_order[block]]
            none_ends = n_open == 0 or state.block_least[block] >= width_of(state, n_open - 1).n_requested
            none_begins = n_open == s.n_waited_widths or state.block_most[block] < width_of(state, n_open).n_requested
            if none_ends and none_begins and last_date_s(state, block) <= end_s:
                free = row.free_after
                block += 1
                continue
        slot = slot_of(state, block, i)
        at_s = state.slot_s[slot]
        if at_s > end_s:
            break
        free += state.slot_change[slot]
        block, i = following(state, block, i)
        if n_open > 0 and free < width_of(state, n_open - 1).n_requested and is_settled(state, block, i, at_s):
            n_open = _end(state, n_open, free, at_s)
        while n_open < s.n_waited_widths and width_of(state, n_open).n_requested <= free:
            width_of(state, n_open).since_s = at_s
            if n_open == n_found:
                width_of(state, n_open).from_s, width_of(state, n_open).stretch_s = at_s, -1.0
                n_found += 1
            n_open += 1
    _look_ahead(state, block, i, free, n_open)
    return n_found


@jit
def _n_within(state, n, free):
    """Return how many widths, ``n`` of which do, ask for no more cores than are free."""
    while n < state.scalars[0].n_waited_widths and width_of(state, n).n_requested <= free:
        n += 1
    return n


@jit
def _look_back(state, block, i, free, n_open, start_s):
    """Find since when as many cores as each of some widths asks for have been free at a place."""
    s = state.scalars[0]
    while n_open > 0:
        if i == 0:
            if block == 0:
                break
            block -= 1
            row = state.blocks[state.block_order[block]]
            i = row.n
            if state.block_least[block] >= width_of(state, n_open - 1).n_requested:
                free, i = row.free, 0
                if start_s - state.slot_s[slot_of(state, block, 0)] > s.longest_s:
                    break
                continue
        i -= 1
        slot = slot_of(state, block, i)
        at_s = state.slot_s[slot]
        if start_s - at_s > s.longest_s:
            break
        free -= state.slot_change[slot]
        if free < width_of(state, n_open - 1).n_requested and is_apart(state, block, i, at_s):
            while n_open > 0 and free < width_of(state, n_open - 1).n_requested:
                n_open -= 1
                width_of(state, n_open).since_s = at_s
    for w in range(n_open):
        width_of(state, w).since_s = s.message_s if block == 0 and i == 0 else -np.inf


@jit
def _end(state, n_open, free, at_s):
    """Let the stretches of widths end for which too few cores are free from a date on; return how many go on."""
    while n_open > 0 and free < width_of(state, n_open - 1).n_requested:
        n_open -= 1
        width_of(state, n_open).stretch_s = max(
            width_of(state, n_open).stretch_s, at_s - width_of(state, n_open).since_s
        )
    return n_open


@jit
def _look_ahead(state, block, i, free, n_open):
    """Find how long the stretches go on that have not ended at a place; longer than any job takes is infinite."""
    s = state.scalars[0]
    while block < s.n_blocks and n_open > 0:
        if i == 0:
            row = state.blocks[state.block_order[block]]
            if state.block_least[block] >= width_of(state, n_open - 1).n_requested:
                if last_date_s(state, block) - width_of(state, n_open - 1).since_s > s.longest_s:
                    break
                free = row.free_after
                block += 1
                continue
        slot = slot_of(state, block, i)
        at_s = state.slot_s[slot]
        if at_s - width_of(state, n_open - 1).since_s > s.longest_s:
            break
        free += state.slot_change[slot]
        block, i = following(state, block, i)
        if free < width_of(state, n_open - 1).n_requested and is_settled(state, block, i, at_s):
            n_open = _end(state, n_open, free, at_s)
    for w in range(n_open):
        width_of(state, w).stretch_s = np.inf
