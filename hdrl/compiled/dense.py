"""Small fully connected layers with ReLU in between, over blocks of rows: forwards, and backwards to their gradients.

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
    units[at, :n]                                           # what came out: a number for each row

Widths are filled up to multiples of four with weights that are 0. In `forward_of` sums are made in a fixed order: what
comes out for a row depends neither on its place nor on the size of the block. Numbers that are not finite become NaN.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hdrl.compiled.jit import by_way, jit, jit_with
from hdrl.compiled.plain import TILE_ROWS

_TILE = 4
"""Units of two layers that are computed with together: 16 products for 8 loads."""

_LINE = 64
"""Bytes of a cache line: vectors that lie across two take twice as long, in all a fifth."""

_ZERO, _LEAST = np.float32(0.0), np.float32(-np.inf)
_NO_BIASES = (_ZERO, _ZERO, _ZERO, _ZERO)

multiply_tile = by_way("tiles.multiply_tile")


def _full(width: int) -> int:
    return (width + _TILE - 1) // _TILE * _TILE


full = jit(_full)
"""Return a width filled up to whole tiles."""


def n_units(widths: NDArray[np.int64]) -> int:
    """Return how many rows the array ``units`` has.

    Parameters
    ----------
    widths
        Of the inputs and of each layer, shape ``(n_layers + 1,)``.
    """
    return sum(_full(width) for width in widths.tolist())


def new_units(widths: NDArray[np.int64], block: int) -> NDArray[np.float32]:
    """Return the units of a block, all 0: of shape ``(n_units(widths), block)``, and where cache lines begin.

    Parameters
    ----------
    widths
        As in `n_units`.
    block
        How many rows there are.
    """
    n = n_units(widths) * block
    numbers = np.zeros(n + _LINE // 4, np.float32)
    first = -numbers.ctypes.data % _LINE // 4
    return numbers[first : first + n].reshape(-1, block)


def n_weights(widths: NDArray[np.int64]) -> int:
    """Return how many numbers the padded weights of all layers are.

    Parameters
    ----------
    widths
        As in `n_units`.
    """
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
    """Return the compiled function that sends a block of rows through layers.

    It is ``forward(padded, widths, is_open, units)``: weights by `pad`, widths, whether a ReLU follows the last layer,
    too, and the units, of which those of the inputs are given. It returns which of them is the first of the last layer.

    Parameters
    ----------
    block
        How many rows a block has; a multiple of 16. The code is compiled for this number. Large blocks are faster,
        small ones waste less on few rows.
    """
    multiply = multiply_of(block)

    @jit
    def forward(padded, widths, is_open, units):
        at_weight, at = 0, 0
        n_layers = len(widths) - 1
        for layer in range(n_layers):
            n_in, n_out = full(widths[layer]), full(widths[layer + 1])
            at_bias = at_weight + n_out * n_in
            least = _ZERO if is_open or layer < n_layers - 1 else _LEAST
            multiply(padded, at_weight, n_in, 1, at_bias, least, units, at, n_in, units, at + n_in, n_out)
            at += n_in
            at_weight = at_bias + n_out
        return at

    return forward


@cache
def multiply_of(block: int) -> Callable[..., None]:
    """Return the compiled function that multiplies a block's units by weights.

    It is ``multiply(padded, at, per_output, per_input, at_bias, least, xs, at_x, n_in, ys, at_y, n_out)``: unit ``o``
    of ``ys`` becomes ``padded[at_bias + o]`` (0 if ``at_bias`` is negative) and, for each unit ``i`` of ``xs``,
    ``padded[at + o * per_output + i * per_input]`` times that; ``least`` stands for what is below it. Sums begin with
    the biases and end in the ReLU: passes of their own would take a quarter of the time.

    Parameters
    ----------
    block
        As in `forward_of`.
    """

    @jit
    def multiply(padded, at, per_output, per_input, at_bias, least, xs, at_x, n_in, ys, at_y, n_out):
        for first in range(0, block, TILE_ROWS):
            for o in range(0, n_out, _TILE):
                p, y = at + o * per_output, at_y + o
                b = at_bias + o
                biases = (padded[b], padded[b + 1], padded[b + 2], padded[b + 3]) if at_bias >= 0 else _NO_BIASES
                multiply_tile(padded, p, per_output, per_input, biases, least, xs, at_x, n_in, ys, y, first)

    return multiply


@cache
def backward_of(block: int) -> Callable[..., None]:
    """Return the compiled function that follows `forward_of` with the gradients of a block.

    It is ``backward(padded, widths, is_open, units, slopes, has_inputs, gradients)``. ``units`` are as `forward_of`
    left them. ``slopes``, of the same shape, holds the gradients by what came out at the same places, 0 for rows that
    do not count; the others are written, those by the inputs if ``has_inputs``. The gradients by the weights are added
    to ``gradients``, laid out like ``padded``.

    Parameters
    ----------
    block
        As in `forward_of`.
    """
    multiply, collect = multiply_of(block), _collect_of(block)

    @jit
    def backward(padded, widths, is_open, units, slopes, has_inputs, gradients):
        n_layers = len(widths) - 1
        at, end = 0, 0
        for layer in range(n_layers):
            at += full(widths[layer])
            end += (full(widths[layer]) + 1) * full(widths[layer + 1])
        for layer in range(n_layers - 1, -1, -1):
            n_in, n_out = full(widths[layer]), full(widths[layer + 1])
            if is_open or layer < n_layers - 1:
                for o in range(at, at + n_out):
                    for r in range(block):
                        slopes[o, r] = _ZERO if units[o, r] <= _ZERO else slopes[o, r]
            end -= (n_in + 1) * n_out
            collect(gradients, end, units, at - n_in, n_in, slopes, at, n_out)
            if layer > 0 or has_inputs:
                multiply(padded, end, 1, n_in, -1, _LEAST, slopes, at, n_out, slopes, at - n_in, n_in)
            at -= n_in

    return backward


def _collect_of(block: int) -> Callable[..., None]:
    """Return the compiled function that adds to a layer's gradients what a block gives."""

    @jit_with("contract", "reassoc")
    def collect(gradients, at, xs, at_x, n_in, ys, at_y, n_out):
        for o in range(0, n_out, _TILE):
            y0, y1, y2, y3 = ys[at_y + o], ys[at_y + o + 1], ys[at_y + o + 2], ys[at_y + o + 3]
            for i in range(0, n_in, _TILE):
                x0, x1, x2, x3 = xs[at_x + i], xs[at_x + i + 1], xs[at_x + i + 2], xs[at_x + i + 3]
                g00 = g01 = g02 = g03 = g10 = g11 = g12 = g13 = _ZERO
                g20 = g21 = g22 = g23 = g30 = g31 = g32 = g33 = _ZERO
                for r in range(block):
                    u0, u1, u2, u3 = x0[r], x1[r], x2[r], x3[r]
                    v0, v1, v2, v3 = y0[r], y1[r], y2[r], y3[r]
                    g00, g01, g02, g03 = g00 + v0 * u0, g01 + v0 * u1, g02 + v0 * u2, g03 + v0 * u3
                    g10, g11, g12, g13 = g10 + v1 * u0, g11 + v1 * u1, g12 + v1 * u2, g13 + v1 * u3
                    g20, g21, g22, g23 = g20 + v2 * u0, g21 + v2 * u1, g22 + v2 * u2, g23 + v2 * u3
                    g30, g31, g32, g33 = g30 + v3 * u0, g31 + v3 * u1, g32 + v3 * u2, g33 + v3 * u3
                p0 = at + o * n_in + i
                p1, p2, p3 = p0 + n_in, p0 + 2 * n_in, p0 + 3 * n_in
                _add_four(gradients, p0, g00, g01, g02, g03)
                _add_four(gradients, p1, g10, g11, g12, g13)
                _add_four(gradients, p2, g20, g21, g22, g23)
                _add_four(gradients, p3, g30, g31, g32, g33)
            g0 = g1 = g2 = g3 = _ZERO
            for r in range(block):
                g0, g1, g2, g3 = g0 + y0[r], g1 + y1[r], g2 + y2[r], g3 + y3[r]
            _add_four(gradients, at + n_out * n_in + o, g0, g1, g2, g3)

    return collect


@jit
def _add_four(numbers, at, a, b, c, d):
    numbers[at] += a
    numbers[at + 1] += b
    numbers[at + 2] += c
    numbers[at + 3] += d


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
