"""Indexed binary heaps over slots: the earliest key on top, any slot removable, no allocation.

``slots[i].key`` is the key of slot ``i`` and ``slots[i].position`` its place in the heap (-1: not in it);
``slots[p].heap`` is the slot at place ``p``. The caller keeps the size. Equal keys come out in any order: who
needs one sorts by ``seq`` afterwards.
"""

from __future__ import annotations

import numpy as np

from hdrl.compiled.jit import jit
from hdrl.compiled.records import record_dtype

SLOT_DTYPE = record_dtype([("key", np.float64), ("seq", np.int64), ("position", np.int32), ("heap", np.int32)])
"""A row of an indexed heap: ``key`` and ``position`` belong to the slot of that index, ``heap`` is the heap."""


@jit
def _sift_up(slots, place):
    slot = slots[place].heap
    key = slots[slot].key
    while place > 0:
        above = (place - 1) >> 1
        other = slots[above].heap
        if slots[other].key <= key:
            break
        slots[place].heap = other
        slots[other].position = place
        place = above
    slots[place].heap = slot
    slots[slot].position = place


@jit
def _sift_down(slots, place, size):
    slot = slots[place].heap
    key = slots[slot].key
    while True:
        below = 2 * place + 1
        if below >= size:
            break
        if below + 1 < size and slots[slots[below + 1].heap].key < slots[slots[below].heap].key:
            below += 1
        other = slots[below].heap
        if slots[other].key >= key:
            break
        slots[place].heap = other
        slots[other].position = place
        place = below
    slots[place].heap = slot
    slots[slot].position = place


@jit
def push(slots, size, slot, key, seq):
    """Put ``slot`` into the heap, or move it if it is there; return the new size."""
    slots[slot].key = key
    slots[slot].seq = seq
    place = slots[slot].position
    if place < 0:
        place = size
        slots[place].heap = slot
        slots[slot].position = place
        size += 1
    _sift_up(slots, place)
    _sift_down(slots, slots[slot].position, size)
    return size


@jit
def remove(slots, size, slot):
    """Take ``slot`` out of the heap if it is in it; return the new size."""
    place = slots[slot].position
    if place < 0:
        return size
    slots[slot].position = -1
    size -= 1
    if place < size:
        last = slots[size].heap
        slots[place].heap = last
        slots[last].position = place
        _sift_up(slots, place)
        _sift_down(slots, slots[last].position, size)
    return size
