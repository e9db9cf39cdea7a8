"""Sorting a slice of an integer array in place, without allocating (heap sort)."""

from __future__ import annotations

from hdrl.kernel.jit import jit


@jit
def _sift_down(values, first, place, size):
    value = values[first + place]
    while True:
        below = 2 * place + 1
        if below >= size:
            break
        if below + 1 < size and values[first + below + 1] > values[first + below]:
            below += 1
        if values[first + below] <= value:
            break
        values[first + place] = values[first + below]
        place = below
    values[first + place] = value


@jit
def sort_slice(values, first, n):
    """Sort ``values[first:first + n]`` ascending; what is sorted already costs one pass."""
    i = 1
    while i < n and values[first + i - 1] <= values[first + i]:
        i += 1
    if i >= n:
        return
    for place in range(n // 2 - 1, -1, -1):
        _sift_down(values, first, place, n)
    for size in range(n - 1, 0, -1):
        largest = values[first]
        values[first] = values[first + size]
        values[first + size] = largest
        _sift_down(values, first, 0, size)
