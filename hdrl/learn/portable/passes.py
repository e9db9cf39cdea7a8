"""Rows of a table pass layers, there and back: the entries into compiled code."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from hdrl.compiled.backends import TILE_ROWS
from hdrl.compiled.cache import cache_folder
from hdrl.compiled.dense import pad, send, send_back, unpad
from hdrl.compiled.jit import entry_in, jit

BLOCK = 256
"""Rows that pass the layers together; their units take only 70 kB. Through 7-32-16-8-1 and back, in turn on one core,
16,384 rows take 0.97 times as long with 128 and 1.10 times with 512. Both ways together are an eighth of a training, so
that no other size would save 5 % of it; and sums of gradients depend on this size: another gives other bytes."""

SPARE = 16
"""Rows that units have room for, and that are left empty: else all units of a row would share a few sets of a cache."""

_STRIP = 16
"""Numbers of a row that are turned into units together: the cache lines that they go to are filled one after another,
not in turn with those of all other numbers."""

_ZERO = np.float32(0.0)

_entry = entry_in(
    cache_folder("hdrl-layers", [Path(__file__)]),
    "compiling layers of networks (the first time only, some seconds)",
)


@_entry
def find_rows(mask, index, n_rows, found):
    """Write the positions of the rows of some observations in the table, and among themselves; return their number."""
    n = 0
    for i in range(len(index)):
        legal, source, position = mask[index[i]], index[i] * n_rows, i * n_rows
        for row in range(n_rows):
            found[0, n], found[1, n] = source + row, position + row  # written over unless it is counted
            n += legal[row]
    return n


@jit
def _take_in(table, rows, first, n, units, at):
    """Put ``n`` rows of a table into a block, from a unit on, and zeros up to the end of a tile."""
    width = table.shape[1]
    for strip in range(0, width, _STRIP):
        end = min(strip + _STRIP, width)
        for r in range(n):
            row = rows[first + r]
            for f in range(strip, end):
                units[at + f, r] = table[row, f]
    n_full = (n + TILE_ROWS - 1) // TILE_ROWS * TILE_ROWS
    for f in range(at, at + width):
        for r in range(n, n_full):
            units[f, r] = _ZERO


@jit
def _put_out(units, at, n, rows, first, table):
    """Put units of a block into ``n`` rows of a table."""
    width = table.shape[1]
    for strip in range(0, width, _STRIP):
        end = min(strip + _STRIP, width)
        for r in range(n):
            row = rows[first + r]
            for f in range(strip, end):
                table[row, f] = units[at + f, r]


@_entry
def pass_rows(table, sources, positions, weights, widths, is_open, kind, first, last, padded, units, out):
    """Send rows of a table through layers, and put what comes out to their positions."""
    pad(weights, widths, padded)
    block = units.shape[1] - SPARE
    for begin in range(first, last, block):
        n = min(block, last - begin)
        _take_in(table, sources, begin, n, units, 0)
        at = send(padded, widths, is_open, kind, units, n)
        _put_out(units, at, n, positions, begin, out)


@_entry
def pass_back(
    table,
    sources,
    positions,
    weights,
    widths,
    is_open,
    kind,
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
    block = units.shape[1] - SPARE
    for begin in range(first, last, block):
        n = min(block, last - begin)
        _take_in(table, sources, begin, n, units, 0)
        at = send(padded[0], widths, is_open, kind, units, n)
        _take_in(by_out, positions, begin, n, slopes, at)
        send_back(padded[0], widths, is_open, kind, units, slopes, n, has_inputs, gradients)
        if has_inputs:
            _put_out(slopes, 0, n, sources, begin, by_table)
    unpad(gradients, widths, by_weights)
