"""Sorting a slice of an integer array in place.

The cores of an allocation are often chosen processor by processor, so that they come as a few ascending runs: merging
runs (natural merge sort) takes little more than one pass. Few values in no order are counted instead: how many are
smaller is the place of each, and nothing in that depends on a comparison that cannot be foretold.
"""

from __future__ import annotations

from hdrl.kernel.jit import jit

_FEW = 64


@jit
def _end_of_run(values, first, start, n):
    """Return where the ascending run that begins at ``start`` ends."""
    end = start + 1
    while end < n and values[first + end - 1] <= values[first + end]:
        end += 1
    return min(end, n)


@jit
def _merge(values, first, start, middle, end, scratch):
    """Merge two neighbouring runs; the left one is put aside."""
    n_left = middle - start
    for i in range(n_left):
        scratch[i] = values[first + start + i]
    left, right, place = 0, middle, start
    while left < n_left:
        if right < end and values[first + right] < scratch[left]:
            values[first + place] = values[first + right]
            right += 1
        else:
            values[first + place] = scratch[left]
            left += 1
        place += 1


@jit
def _sort_by_counting(values, first, n, scratch):
    for i in range(n):
        scratch[i] = values[first + i]
    for i in range(n):
        n_before = 0
        for k in range(i):
            n_before += scratch[k] <= scratch[i]
        for k in range(i + 1, n):
            n_before += scratch[k] < scratch[i]
        values[first + n_before] = scratch[i]


@jit
def sort_slice(values, first, n, scratch):
    """Sort ``values[first:first + n]`` ascending; ``scratch`` is as long as that at least."""
    if n < 2 or _end_of_run(values, first, 0, n) == n:
        return
    if n <= _FEW:
        _sort_by_counting(values, first, n, scratch)
        return
    n_runs = 2
    while n_runs > 1:
        n_runs = 0
        start = 0
        while start < n:
            middle = _end_of_run(values, first, start, n)
            end = middle
            if middle < n:
                end = _end_of_run(values, first, middle, n)
                _merge(values, first, start, middle, end, scratch)
            n_runs += 1
            start = end
