"""The layers of `hdrl.compiled.dense` for one row alone: vectors hold units of a layer instead of rows.

::

    by_input, units, active = np.zeros(len(weights), np.float32), np.zeros(widths.sum(), np.float32), ...
    turn(weights, widths, by_input)             # once for each change of the weights
    units[:widths[0]] = ...                     # for each row
    at = forward_one(by_input, widths, False, units, active)
    units[at : at + widths[-1]]                 # the outputs

What comes out is what `hdrl.compiled.dense.forward_of` finds, to the last bit (of zeros perhaps not the sign): sums are
made in the same order. Inputs that are 0 are passed over, which are most of them where few of many positions are taken;
so weights have to be finite.
"""

from __future__ import annotations

import numpy as np

from hdrl.compiled.fma import fma
from hdrl.compiled.jit import jit

_ZERO = np.float32(0.0)


@jit
def turn(weights, widths, by_input):
    """Lay out weights for `forward_one`: of each layer the weights of one input after the other, then the biases.

    ``weights`` are as `hdrl.compiled.dense.pad` takes them; ``by_input`` is as long.
    """
    first = 0
    for layer in range(len(widths) - 1):
        n_in, n_out = widths[layer], widths[layer + 1]
        for o in range(n_out):
            for i in range(n_in):
                by_input[first + i * n_out + o] = weights[first + o * n_in + i]
        first += n_in * n_out
        for o in range(first, first + n_out):
            by_input[o] = weights[o]
        first += n_out


@jit
def forward_one(by_input, widths, is_open, units, active):
    """Send a row through layers; return which of its units is the first of the last layer.

    ``units`` holds the inputs, then has room for each layer; ``active``, of integers, is as long as the widest layer.
    The others are as in `hdrl.compiled.dense.forward_of`.
    """
    at, first = 0, 0
    n_layers = len(widths) - 1
    for layer in range(n_layers):
        n_in, n_out = widths[layer], widths[layer + 1]
        bias = first + n_in * n_out
        ys = units[at + n_in : at + n_in + n_out]
        for o in range(n_out):
            ys[o] = by_input[bias + o]
        n = 0
        for i in range(n_in):
            active[n] = i  # written over unless it counts
            n += units[at + i] != _ZERO
        for k in range(0, n - n % 4, 4):
            _add_four(by_input, first, n_out, active[k : k + 4], units[at : at + n_in], ys)
        for k in range(n - n % 4, n):
            _add_one(by_input, first + active[k] * n_out, units[at + active[k]], ys)
        if is_open or layer < n_layers - 1:
            for o in range(n_out):
                ys[o] = _ZERO if ys[o] < _ZERO else ys[o]
        at, first = at + n_in, bias + n_out
    return at


@jit
def _add_four(by_input, first, n_out, active, xs, ys):
    """Add the products of four inputs to the units of the next layer."""
    p0, p1, p2, p3 = active[0] * n_out, active[1] * n_out, active[2] * n_out, active[3] * n_out
    x0, x1, x2, x3 = xs[active[0]], xs[active[1]], xs[active[2]], xs[active[3]]
    w0, w1 = by_input[first + p0 : first + p0 + n_out], by_input[first + p1 : first + p1 + n_out]
    w2, w3 = by_input[first + p2 : first + p2 + n_out], by_input[first + p3 : first + p3 + n_out]
    for o in range(n_out):
        ys[o] = fma(w3[o], x3, fma(w2[o], x2, fma(w1[o], x1, fma(w0[o], x0, ys[o]))))


@jit
def _add_one(by_input, first, x, ys):
    for o in range(len(ys)):
        ys[o] = fma(by_input[first + o], x, ys[o])
