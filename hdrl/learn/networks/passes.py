"""Rows of a table pass layers, there and back: the entries into compiled code."""

from __future__ import annotations

from pathlib import Path

from hdrl.compiled.cache import cache_folder
from hdrl.compiled.dense import backward_of, forward_of, pad, unpad
from hdrl.compiled.jit import entry_in, jit

BLOCK = 256
"""Rows that pass the layers together; their units take only 70 kB. Through 7-32-16-8-1 and back, in turn on one core,
16,384 rows take 0.97 times as long with 128 and 1.10 times with 512. Both ways together are an eighth of a training, so
that no other size would save 5 % of it; and sums of gradients go by this size, so that another gives other bytes."""

_entry = entry_in(
    cache_folder("hdrl-layers", [Path(__file__)]),
    "compiling layers of networks (the first time only, some seconds)",
)
_forward, _backward = forward_of(BLOCK), backward_of(BLOCK)


@_entry
def find_rows(mask, index, n_rows, found):
    """Write where the rows of some observations are in the table, and where among them; return how many there are."""
    n = 0
    for i in range(len(index)):
        legal, source, place = mask[index[i]], index[i] * n_rows, i * n_rows
        for row in range(n_rows):
            found[0, n], found[1, n] = source + row, place + row  # written over unless it is counted
            n += legal[row]
    return n


@jit
def _take_in(table, sources, first, n, units):
    """Put ``n`` rows into a block."""
    for r in range(n):
        at = sources[first + r]
        for f in range(table.shape[1]):
            units[f, r] = table[at, f]


@_entry
def send(table, sources, places, weights, widths, is_open, first, last, padded, units, out):
    """Send rows of a table through layers, and put what comes out to their places."""
    pad(weights, widths, padded)
    for begin in range(first, last, BLOCK):
        n = min(BLOCK, last - begin)
        _take_in(table, sources, begin, n, units)
        at = _forward(padded, widths, is_open, units)
        for r in range(n):
            for o in range(out.shape[1]):
                out[places[begin + r], o] = units[at + o, r]


@_entry
def send_back(
    table,
    sources,
    places,
    weights,
    widths,
    is_open,
    first,
    last,
    padded,
    units,
    slopes,
    by_out,
    has_inputs,
    by_table,
    by_weights,
):
    """Send rows of a table through layers once more, then what came out back to gradients."""
    pad(weights, widths, padded[0])
    gradients = padded[1]
    gradients[:] = 0.0
    for begin in range(first, last, BLOCK):
        n = min(BLOCK, last - begin)
        _take_in(table, sources, begin, n, units)
        at = _forward(padded[0], widths, is_open, units)
        for o in range(by_out.shape[1]):
            slopes[at + o, n:] = 0.0
        for r in range(n):
            for o in range(by_out.shape[1]):
                slopes[at + o, r] = by_out[places[begin + r], o]
        _backward(padded[0], widths, is_open, units, slopes, has_inputs, gradients)
        if has_inputs:
            for r in range(n):
                for f in range(table.shape[1]):
                    by_table[sources[begin + r], f] = slopes[f, r]
    unpad(gradients, widths, by_weights)
