"""Compiled computations on the numbers of tensors: the entries."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

from hdrl.compiled import elementary32 as own
from hdrl.compiled.addresses import read, write
from hdrl.compiled.backends import TILE_ROWS
from hdrl.compiled.cache import cache_folder
from hdrl.compiled.dense import multiply_tile
from hdrl.compiled.jit import entry_in, jit
from hdrl.compiled.quantiles import normal, waiting_time

_entry = entry_in(
    cache_folder("hdrl-arithmetic", [Path(__file__)]),
    "compiling the arithmetic of networks (the first time only, some seconds)",
)
F = np.float32
_ZERO, _ONE = F(0.0), F(1.0)
_LOWEST = F(-np.inf)

_exp, _log = own.exp, own.log


# Functions of each number


def _of_each(name: str, function: Any) -> Any:
    """Return the entry of a name that writes what a function makes of each number."""

    def apply(x, out):
        for i in range(len(x)):
            out[i] = function(x[i])

    apply.__qualname__ = name  # under which its code is kept
    return _entry(apply)


exp_each, expm1_each = _of_each("exp_each", own.exp), _of_each("expm1_each", own.expm1)
log_each, log1p_each = _of_each("log_each", own.log), _of_each("log1p_each", own.log1p)
tanh_each, sigmoid_each = _of_each("tanh_each", own.tanh), _of_each("sigmoid_each", own.sigmoid)
softplus_each, sin_each = _of_each("softplus_each", own.softplus), _of_each("sin_each", own.sin)
sqrt_each = _of_each("sqrt_each", np.sqrt)
# These are given shares, or uniform numbers, in double precision.
normal_each, time_each = _of_each("normal_each", normal), _of_each("time_each", waiting_time)


# Sums: in double precision, eight after eight, then these eight in pairs


@jit
def _total(x, first, last):
    a = b = c = d = e = f = g = h = 0.0
    end = first + (last - first) // 8 * 8
    for i in range(first, end, 8):
        a, b, c, d = a + x[i], b + x[i + 1], c + x[i + 2], d + x[i + 3]
        e, f, g, h = e + x[i + 4], f + x[i + 5], g + x[i + 6], h + x[i + 7]
    rest = 0.0
    for i in range(end, last):
        rest += x[i]
    return (((a + e) + (c + g)) + ((b + f) + (d + h))) + rest


@jit
def _squares(x, mean):
    a = b = c = d = e = f = g = h = 0.0
    end = len(x) // 8 * 8
    for i in range(0, end, 8):
        p, q, r, s = x[i] - mean, x[i + 1] - mean, x[i + 2] - mean, x[i + 3] - mean
        t, u, v, w = x[i + 4] - mean, x[i + 5] - mean, x[i + 6] - mean, x[i + 7] - mean
        a, b, c, d = a + p * p, b + q * q, c + r * r, d + s * s
        e, f, g, h = e + t * t, f + u * u, g + v * v, h + w * w
    rest = 0.0
    for i in range(end, len(x)):
        p = x[i] - mean
        rest += p * p
    return (((a + e) + (c + g)) + ((b + f) + (d + h))) + rest


@_entry
def total(x):
    """Return the sum of all numbers."""
    return _total(x, 0, len(x))


@_entry
def squares(x, mean):
    """Return the sum of the squares of the distances from a number."""
    return _squares(x, mean)


@_entry
def sum_axis(x, room, out):
    """Sum over the middle one of three axes; ``room`` is as long as the last one, in double precision."""
    n, n_inner = x.shape[1], x.shape[2]
    for outer in range(x.shape[0]):
        if n_inner == 1:
            out[outer, 0] = F(_total(x[outer, :, 0], 0, n))
            continue
        for i in range(n_inner):
            room[i] = 0.0
        for k in range(n):
            for i in range(n_inner):
                room[i] += x[outer, k, i]
        for i in range(n_inner):
            out[outer, i] = F(room[i])


# Softmax


@jit
def _largest(x, row):
    """Return the largest number of a row."""
    largest = _LOWEST
    for i in range(x.shape[1]):
        largest = x[row, i] if x[row, i] > largest else largest
    return largest


@_entry
def softmax_rows(x, out):
    """Write the softmax of each row."""
    n = x.shape[1]
    for row in range(len(x)):
        largest = _largest(x, row)
        for i in range(n):
            out[row, i] = _exp(x[row, i] - largest)
        by = F(_total(out[row], 0, n))
        for i in range(n):
            out[row, i] = out[row, i] / by


@_entry
def softmax_back(shares, slopes, out):
    """Write the gradient by what went into `softmax_rows`."""
    n = shares.shape[1]
    for row in range(len(shares)):
        for i in range(n):
            out[row, i] = slopes[row, i] * shares[row, i]
        mean = F(_total(out[row], 0, n))
        for i in range(n):
            out[row, i] = out[row, i] - mean * shares[row, i]


@jit
def _logsumexp(x, row, room):
    """Return the largest number of a row, and the logarithm of the sum of the exponentials of what is below it."""
    n, largest = x.shape[1], _largest(x, row)
    for i in range(n):
        room[i] = _exp(x[row, i] - largest)
    return largest, _log(F(_total(room, 0, n)))


@_entry
def logsumexp_rows(x, room, out):
    """Write the logarithm of the sum of the exponentials of each row; ``room`` is as long as a row."""
    for row in range(len(x)):
        largest, more = _logsumexp(x, row, room)
        out[row] = largest + more


@_entry
def log_softmax_rows(x, out):
    """Write the log-softmax of each row."""
    for row in range(len(x)):
        largest, more = _logsumexp(x, row, out[row])
        for i in range(x.shape[1]):
            out[row, i] = (x[row, i] - largest) - more


@_entry
def log_softmax_back(logs, slopes, out):
    """Write the gradient by what went into `log_softmax_rows`."""
    n = logs.shape[1]
    for row in range(len(logs)):
        by = F(_total(slopes[row], 0, n))
        for i in range(n):
            out[row, i] = slopes[row, i] - by * _exp(logs[row, i])


@_entry
def choose(x, actions, logs, shares, log_probs, entropies):
    """Write log-softmax and softmax of each row, the log-probability of an action, and the entropy."""
    n = x.shape[1]
    for row in range(len(x)):
        of_row, log = shares[row], logs[row]
        largest = _largest(x, row)
        for i in range(n):
            of_row[i] = _exp(x[row, i] - largest)
        whole = F(_total(of_row, 0, n))
        more = _log(whole)
        for i in range(n):
            log[i] = (x[row, i] - largest) - more
            of_row[i] = of_row[i] / whole
        log_probs[row] = log[actions[row]]
        entropies[row] = _entropy(of_row, log, n)


@jit
def _entropy(shares, logs, n):
    a = b = c = d = _ZERO
    end = n // 4 * 4
    for i in range(0, end, 4):
        a, b = a - shares[i] * logs[i], b - shares[i + 1] * logs[i + 1]
        c, d = c - shares[i + 2] * logs[i + 2], d - shares[i + 3] * logs[i + 3]
    for i in range(end, n):
        a = a - shares[i] * logs[i]
    return (a + c) + (b + d)


@_entry
def choose_back(logs, shares, actions, entropies, by_log_prob, by_entropy, has_entropy, out):
    """Write the gradient by what went into `choose`."""
    n = logs.shape[1]
    for row in range(len(logs)):
        of_row, log, to = shares[row], logs[row], out[row]
        slope, of_entropy, entropy = by_log_prob[row], by_entropy[row], entropies[row]
        if has_entropy:
            for i in range(n):
                to[i] = -of_row[i] * (slope + of_entropy * (log[i] + entropy))
        else:
            for i in range(n):
                to[i] = -of_row[i] * slope
        to[actions[row]] += slope


# Matrix products


@_entry
def multiply(a, b, turns_a, turns_b, packed_a, packed_b, packed_c, first, last, out):
    """Write the products of matrices, some of a batch; either may be given turned."""
    n, m = out.shape[1], out.shape[2]
    n_inner = a.shape[1] if turns_a else a.shape[2]
    n_full = len(packed_c)
    none = (_ZERO, _ZERO, _ZERO, _ZERO)
    for one in range(first, last):
        for i in range(n):
            for k in range(n_inner):
                packed_a[i * n_inner + k] = a[one, k, i] if turns_a else a[one, i, k]
        for k in range(n_inner):
            for j in range(m):
                packed_b[k, j] = b[one, j, k] if turns_b else b[one, k, j]
        for j in range(0, packed_c.shape[1], TILE_ROWS):
            for i in range(0, n_full, 4):
                multiply_tile(packed_a, i * n_inner, n_inner, 1, none, _LOWEST, packed_b, 0, n_inner, packed_c, i, j)
        for i in range(n):
            for j in range(m):
                out[one, i, j] = packed_c[i, j]


@_entry
def orthogonalise(vectors):
    """Make vectors, in double precision, orthogonal to those before them and of length 1."""
    n = vectors.shape[1]
    for j in range(len(vectors)):
        mine = vectors[j]
        for _ in range(2):  # the second time takes away what rounding has left
            for i in range(j):
                other = vectors[i]
                along = _along(mine, other)
                for k in range(n):
                    mine[k] = mine[k] - along * other[k]
        length = math.sqrt(_along(mine, mine))
        for k in range(n):
            mine[k] = mine[k] / length


@jit
def _along(x, y):
    a = b = c = d = 0.0
    end = len(x) // 4 * 4
    for i in range(0, end, 4):
        a, b = a + x[i] * y[i], b + x[i + 1] * y[i + 1]
        c, d = c + x[i + 2] * y[i + 2], d + x[i + 3] * y[i + 3]
    for i in range(end, len(x)):
        a = a + x[i] * y[i]
    return (a + c) + (b + d)


# Many tensors in one call, by their addresses


@_entry
def adam_step(addresses, sizes, lr, beta1, beta2, eps):
    """Make a step of Adam with each tensor of weights.

    A row of addresses: weights, gradient, means of gradients, means of their squares, number of steps so far.
    """
    keep1, keep2, take1, take2 = F(beta1), F(beta2), F(1.0 - beta1), F(1.0 - beta2)
    least = F(eps)
    for one in range(len(sizes)):
        weights, gradients, means = addresses[one, 0], addresses[one, 1], addresses[one, 2]
        squared, steps = addresses[one, 3], addresses[one, 4]
        n_steps = read(steps, 0) + _ONE
        write(steps, 0, n_steps)
        size = F(lr / (1.0 - _power(beta1, np.int64(n_steps))))
        by = F(math.sqrt(1.0 - _power(beta2, np.int64(n_steps))))
        for i in range(sizes[one]):
            slope = read(gradients, i)
            mean = keep1 * read(means, i) + take1 * slope
            square = keep2 * read(squared, i) + take2 * (slope * slope)
            write(means, i, mean)
            write(squared, i, square)
            write(weights, i, read(weights, i) - size * (mean / (np.sqrt(square) / by + least)))


@jit
def _power(x, n):
    found = 1.0
    while n > 0:
        if n & 1:
            found *= x
        x *= x
        n >>= 1
    return found


@_entry
def squares_at(addresses, sizes):
    """Return the sum of the squares of all numbers of some tensors."""
    found = 0.0
    for one in range(len(sizes)):
        x, n = addresses[one], sizes[one]
        a = b = c = d = 0.0
        end = n // 4 * 4
        for i in range(0, end, 4):
            p, q = np.float64(read(x, i)), np.float64(read(x, i + 1))
            r, s = np.float64(read(x, i + 2)), np.float64(read(x, i + 3))
            a, b, c, d = a + p * p, b + q * q, c + r * r, d + s * s
        for i in range(end, n):
            p = np.float64(read(x, i))
            a = a + p * p
        found += (a + c) + (b + d)
    return found


@_entry
def scale_at(addresses, sizes, factor):
    """Multiply all numbers of some tensors by a factor."""
    by = F(factor)
    for one in range(len(sizes)):
        numbers = addresses[one]
        for i in range(sizes[one]):
            write(numbers, i, read(numbers, i) * by)


@_entry
def move_at(addresses, sizes, share):
    """Move all numbers of some tensors towards those of others, whose addresses are beside theirs."""
    by = F(share)
    for one in range(len(sizes)):
        mine, theirs = addresses[one, 0], addresses[one, 1]
        for i in range(sizes[one]):
            write(mine, i, read(mine, i) + by * (read(theirs, i) - read(mine, i)))
