"""Binary heaps without allocation, of three kinds; the caller keeps the size.

*Slots* (`push`, `remove`): the earliest key on top, any slot removable. ``slots[i].key`` is the key of slot ``i`` and
``slots[i].position`` its index in the heap (-1: not in it); ``slots[p].heap`` is the slot at position ``p``. Equal keys
come out in any order: who needs one sorts by ``seq`` afterwards.

*Items* (`rise`, `sink`): an array of numbers, in an order that a compiled function tells, which may change with time.

*Dates* (`add_date`, `drop_date`): dates and whose they are in two arrays, nothing removable but the first; of equal
dates, the one that was added first need not come out first. A position takes 12 bytes instead of the 24 of a slot.
"""

from __future__ import annotations

import numpy as np

from hdrl.compiled.jit import jit
from hdrl.compiled.records import record_dtype

SLOT_DTYPE = record_dtype([("key", np.float64), ("seq", np.int64), ("position", np.int32), ("heap", np.int32)])
"""A row of an indexed heap: ``key`` and ``position`` belong to the slot of that index, ``heap`` is the heap."""


@jit
def _sift_up(slots, position):
    slot = slots[position].heap
    key = slots[slot].key
    while position > 0:
        above = (position - 1) >> 1
        other = slots[above].heap
        if slots[other].key <= key:
            break
        slots[position].heap = other
        slots[other].position = position
        position = above
    slots[position].heap = slot
    slots[slot].position = position


@jit
def _sift_down(slots, position, size):
    slot = slots[position].heap
    key = slots[slot].key
    while True:
        below = 2 * position + 1
        if below >= size:
            break
        if below + 1 < size and slots[slots[below + 1].heap].key < slots[slots[below].heap].key:
            below += 1
        other = slots[below].heap
        if slots[other].key >= key:
            break
        slots[position].heap = other
        slots[other].position = position
        position = below
    slots[position].heap = slot
    slots[slot].position = position


@jit
def push(slots, size, slot, key, seq):
    """Put ``slot`` into the heap, or move it if it is there; return the new size."""
    slots[slot].key = key
    slots[slot].seq = seq
    position = slots[slot].position
    if position < 0:
        position = size
        slots[position].heap = slot
        slots[slot].position = position
        size += 1
    _sift_up(slots, position)
    _sift_down(slots, slots[slot].position, size)
    return size


@jit
def remove(slots, size, slot):
    """Take ``slot`` out of the heap if it is in it; return the new size."""
    position = slots[slot].position
    if position < 0:
        return size
    slots[slot].position = -1
    size -= 1
    if position < size:
        last = slots[size].heap
        slots[position].heap = last
        slots[last].position = position
        _sift_up(slots, position)
        _sift_down(slots, slots[last].position, size)
    return size


# ------------------------------------------------------------------ items


@jit
def rise(items, position, comes_before, state, key):
    """Move the item at a position up as far as it ``comes_before(state, item, other, key)``."""
    item = items[position]
    while position > 0:
        above = (position - 1) >> 1
        if not comes_before(state, item, items[above], key):
            break
        items[position] = items[above]
        position = above
    items[position] = item


@jit
def sink(items, position, size, comes_before, state, key):
    """Move the item at a position down as far as others come before it; the heap holds the first ``size`` items."""
    item = items[position]
    while True:
        below = 2 * position + 1
        if below >= size:
            break
        if below + 1 < size and comes_before(state, items[below + 1], items[below], key):
            below += 1
        if not comes_before(state, items[below], item, key):
            break
        items[position] = items[below]
        position = below
    items[position] = item


@jit
def pop(items, size, comes_before, state, key):
    """Take the first item off the heap of ``size`` items and put it behind it; return it."""
    top = items[0]
    items[0] = items[size - 1]
    items[size - 1] = top
    sink(items, 0, size - 1, comes_before, state, key)
    return top


# ------------------------------------------------------------------ dates


@jit
def _rise_date(dates_s, owners, position, date_s, one, is_before_equals):
    """Put a date into the heap at a free position, or above it."""
    while position > np.uint64(0):
        above = (position - np.uint64(1)) >> np.uint64(1)
        if dates_s[above] < date_s or (dates_s[above] == date_s and not is_before_equals):
            break
        dates_s[position] = dates_s[above]
        owners[position] = owners[above]
        position = above
    dates_s[position] = date_s
    owners[position] = one


@jit
def add_date(dates_s, owners, size, date_s, one):
    """Put a date and whose it is into the heap, behind equal ones; return the new size."""
    _rise_date(dates_s, owners, np.uint64(size), date_s, one, False)  # noqa: FBT003 - compiled code knows positions alone
    return size + 1


@jit
def drop_date(dates_s, owners, size):
    """Take the first date out of the heap; return the new size."""
    # Down to the bottom, always to the earlier one of two, and from there up with the last one: which way the
    # comparisons go can be foretold less often than how many there are. (Unsigned numbers need no look at the sign.)
    size -= 1
    last, one = np.uint64(size), np.uint64(1)
    position, below = np.uint64(0), one
    while below < last:
        if below + one < last:
            below += np.uint64(dates_s[below + one] < dates_s[below])
        dates_s[position] = dates_s[below]
        owners[position] = owners[below]
        position = below
        below = position + position + one
    _rise_date(dates_s, owners, position, dates_s[last], owners[last], True)  # noqa: FBT003 - as above
    return size
