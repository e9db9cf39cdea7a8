"""Fully connected layers with ReLU or another function in between, over blocks of rows: there, and back to gradients.

A *row* is what the layers are applied to, for instance the features of a job. A *block* is a fixed number of rows, and
its numbers are kept *unit by unit*: ``units[u, r]`` is unit ``u`` of row ``r``, first the inputs, then the units of
each layer. So the innermost loops run over rows and become vectors, four units of a layer and four of the one before
share what is loaded, and a block with all of its layers stays in the nearest cache. ::

    layers, block = np.array([8, 32, 16, 8, 1]), 128        # widths of the inputs and of each layer
    padded = np.zeros(n_weights(layers), np.float32)        # once for each change of the weights:
    pad(weights, layers, padded)                            #   all layers', weight and bias in turn, as torch has them
    units = new_units(layers, block)                        # once
    units[:8, :n] = ...                                     # for each block: n rows; what is beyond must be finite
    at = forward_of(block)(padded, layers, False, units)    # False: no ReLU after the last layer
    units[at, :n]                                           # the outputs: a number for each row

Widths are filled up to multiples of four with weights that are 0. All sums are made in a fixed order, a product and a
sum in one operation (`hdrl.compiled.fma`), so that bits are the same on every processor. What comes out for a row
depends neither on its position nor on the size of the block. Numbers that are not finite become NaN.
"""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hdrl.compiled import elementary32
from hdrl.compiled.backends import TILE_ROWS
from hdrl.compiled.jit import backend, jit

_TILE = 4
"""Units of two layers that are computed with together: 16 products for 8 loads."""

_LINE = 64
"""Bytes of a cache line: vectors that lie across two take twice as long, in all a fifth."""

_ZERO, _ONE, _LEAST = np.float32(0.0), np.float32(1.0), np.float32(-np.inf)
_NO_BIASES = (_ZERO, _ZERO, _ZERO, _ZERO)

RELU, TANH, LEAKY_RELU = range(3)
"""Activations between layers."""

LEAK = np.float32(0.01)
"""By what ``LEAKY_RELU`` multiplies what is negative."""

multiply_tile, multiply_two_tiles = backend("tiles.multiply_tile"), backend("tiles.multiply_two_tiles")
collect_tile, sum_rows = backend("tiles.collect_tile"), backend("tiles.sum_rows")
_tanh = elementary32.tanh


def _full(width: int) -> int:
    return (width + _TILE - 1) // _TILE * _TILE


full = jit(_full)
"""Return a width filled up to whole tiles."""


def n_units(widths: NDArray[np.int64]) -> int:
    """Return the number of rows of the array ``units``.

    ``widths``: of the inputs and of each layer, shape ``(n_layers + 1,)``.
    """
    return sum(_full(width) for width in widths.tolist())


def new_units(widths: NDArray[np.int64], block: int) -> NDArray[np.float32]:
    """Return the units of a block, all 0: of shape ``(n_units(widths), block)``, and where cache lines begin."""
    n = n_units(widths) * block
    numbers = np.zeros(n + _LINE // 4, np.float32)
    first = -numbers.ctypes.data % _LINE // 4
    return numbers[first : first + n].reshape(-1, block)


def n_weights(widths: NDArray[np.int64]) -> int:
    """Return the length of the padded weights of all layers."""
    return sum((_full(n_in) + 1) * _full(n_out) for n_in, n_out in pairwise(widths.tolist()))


@jit
def pad(weights, widths, padded):
    """Lay out weights for `forward_of`.

    ``weights`` holds of each layer its weight, output by output, then its bias, as ``parameters()`` of torch's layers
    gives them; ``padded`` is of length `n_weights`, and 0 where nothing is written.
    """
    source, target = 0, 0
    for layer in range(len(widths) - 1):
        n_in, n_out = widths[layer], widths[layer + 1]
        for o in range(n_out):
            for i in range(n_in):
                padded[target + o * full(n_in) + i] = weights[source + o * n_in + i]
        source += n_out * n_in
        target += full(n_out) * full(n_in)
        for o in range(n_out):
            padded[target + o] = weights[source + o]
        source += n_out
        target += full(n_out)


@cache
def forward_of(block: int) -> Any:
    """Return the compiled function that sends a block of rows through layers with ReLU in between.

    It is ``forward(padded, widths, is_open, units)``: weights by `pad`, widths, whether a ReLU follows the last layer,
    too, and the units, of which those of the inputs are given. It returns which of them is the first of the last layer.

    ``block``: how many rows a block has; a multiple of 16. The code is compiled for this number. Large blocks are
    faster, small ones waste less on few rows.
    """

    @jit
    def forward(padded, widths, is_open, units):
        return send(padded, widths, is_open, RELU, units, block)

    return forward


@jit
def send(padded, widths, is_open, kind, units, n_rows):
    """Send the first rows of a block through layers, with ``RELU`` or another ``kind`` in between: as `forward_of`."""
    at_weight, at = 0, 0
    n_layers = len(widths) - 1
    for layer in range(n_layers):
        n_in, n_out = full(widths[layer]), full(widths[layer + 1])
        at_bias = at_weight + n_out * n_in
        is_followed = is_open or layer < n_layers - 1
        least = _ZERO if is_followed and kind == RELU else _LEAST
        _multiply(padded, at_weight, n_in, 1, at_bias, least, units, at, n_in, units, at + n_in, n_out, n_rows)
        at += n_in
        if is_followed and kind == TANH:
            for o in range(at, at + n_out):
                for r in range(n_rows):
                    units[o, r] = _tanh(units[o, r])
        elif is_followed and kind == LEAKY_RELU:
            for o in range(at, at + n_out):
                for r in range(n_rows):
                    units[o, r] = units[o, r] * (LEAK if units[o, r] <= _ZERO else _ONE)
        at_weight = at_bias + n_out
    return at


@jit
def _multiply(padded, at, per_output, per_input, at_bias, least, xs, at_x, n_in, ys, at_y, n_out, n_rows):
    """Multiply a block's units by weights.

    Unit ``o`` of ``ys`` becomes ``padded[at_bias + o]`` (0 if ``at_bias`` is negative) and, for each unit ``i`` of
    ``xs``, ``padded[at + o * per_output + i * per_input]`` times that; ``least`` stands for what is below it. Sums
    begin with the biases and end in the ReLU: passes of their own would take a quarter of the time.
    """
    two = 2 * TILE_ROWS
    n_pairs = n_rows // two
    n_left = n_rows - n_pairs * two
    if n_left > TILE_ROWS:
        n_pairs, n_left = n_pairs + 1, 0
    for tile in range(n_pairs + (1 if n_left > 0 else 0)):
        first = tile * two
        for o in range(0, n_out, _TILE):
            p, y = at + o * per_output, at_y + o
            b = at_bias + o
            biases = (padded[b], padded[b + 1], padded[b + 2], padded[b + 3]) if at_bias >= 0 else _NO_BIASES
            if tile < n_pairs:
                multiply_two_tiles(padded, p, per_output, per_input, biases, least, xs, at_x, n_in, ys, y, first)
            else:
                multiply_tile(padded, p, per_output, per_input, biases, least, xs, at_x, n_in, ys, y, first)


@jit
def send_back(padded, widths, is_open, kind, units, slopes, n_rows, has_inputs, gradients):
    """Follow `send` with the gradients of a block.

    ``units`` are as `send` left them. ``slopes``, of the same shape, holds the gradients by what came out at the same
    positions, 0 for rows that do not count up to the next multiple of 16; others are written, those by the inputs if
    ``has_inputs``. The gradients by the weights are added to ``gradients``, laid out like ``padded``.
    """
    n_layers = len(widths) - 1
    at, end = 0, 0
    for layer in range(n_layers):
        at += full(widths[layer])
        end += (full(widths[layer]) + 1) * full(widths[layer + 1])
    n_full = (n_rows + TILE_ROWS - 1) // TILE_ROWS * TILE_ROWS
    for layer in range(n_layers - 1, -1, -1):
        n_in, n_out = full(widths[layer]), full(widths[layer + 1])
        if is_open or layer < n_layers - 1:
            for o in range(at, at + n_out):
                _follow_back(kind, units[o], slopes[o], n_full)
        end -= (n_in + 1) * n_out
        at_bias = end + n_out * n_in
        for o in range(0, n_out, _TILE):
            for i in range(0, n_in, _TILE):
                collect_tile(gradients, end + o * n_in + i, n_in, units, at - n_in + i, slopes, at + o, n_full)
        for o in range(n_out):
            gradients[at_bias + o] += sum_rows(slopes, at + o, n_full)
        if layer > 0 or has_inputs:
            _multiply(padded, end, 1, n_in, -1, _LEAST, slopes, at, n_out, slopes, at - n_in, n_in, n_full)
        at -= n_in


@jit
def _follow_back(kind, units, slopes, n_rows):
    """Turn slopes by what came out of ReLU or another kind into slopes by what went in."""
    if kind == TANH:
        for r in range(n_rows):
            slopes[r] = slopes[r] * (_ONE - units[r] * units[r])
    elif kind == LEAKY_RELU:
        for r in range(n_rows):
            slopes[r] = slopes[r] * (LEAK if units[r] <= _ZERO else _ONE)
    else:
        for r in range(n_rows):
            slopes[r] = _ZERO if units[r] <= _ZERO else slopes[r]


@jit
def unpad(padded, widths, weights):
    """Undo `pad`: add what is laid out for `forward_of` to numbers in the order of ``parameters()``."""
    source, target = 0, 0
    for layer in range(len(widths) - 1):
        n_in, n_out = widths[layer], widths[layer + 1]
        for o in range(n_out):
            for i in range(n_in):
                weights[target + o * n_in + i] += padded[source + o * full(n_in) + i]
        target += n_out * n_in
        source += full(n_out) * full(n_in)
        for o in range(n_out):
            weights[target + o] += padded[source + o]
        target += n_out
        source += full(n_out)
