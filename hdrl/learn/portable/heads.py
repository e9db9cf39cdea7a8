"""Rows of a table look at each other, there and back: the entries into compiled code.

Sixteen rows look at once, and lie side by side: loops over them become vectors, and every sum over the rows that are
looked at is made from the first to the last.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from hdrl.compiled import elementary32
from hdrl.compiled.cache import cache_folder
from hdrl.compiled.fma import fma
from hdrl.compiled.jit import entry_in, jit

LANES = 16
"""Rows that look at once."""

_entry = entry_in(
    cache_folder("hdrl-heads", [Path(__file__)]), "compiling attention (the first time only, some seconds)"
)
_ZERO = np.float32(0.0)
_exp = elementary32.exp


@_entry
def attend(parts, positions, starts, n_heads, scale, first, last, lanes, shares, out):
    """Write the attention of each row to the others of its observation, for some observations.

    ``parts`` holds the queries, keys and values of all rows side by side, those of each head in a piece. The rows of
    observation ``i`` are ``positions[starts[i]:starts[i + 1]]``; others neither look nor are looked at. ``lanes`` and
    ``shares`` are room.
    """
    width = parts.shape[1] // 3
    depth = width // n_heads
    for i in range(first, last):
        rows = positions[starts[i] : starts[i + 1]]
        for head in range(n_heads):
            at = head * depth
            for begin in range(0, len(rows), LANES):
                n = min(LANES, len(rows) - begin)
                _look(parts, rows, begin, n, at, depth, width, scale, lanes[0], lanes[1, 0], shares)
                for d in range(depth):
                    _gather(parts, rows, 2 * width + at + d, shares, lanes[1, 0])
                    for k in range(n):
                        out[rows[begin + k], at + d] = lanes[1, 0, k]


@_entry
def attend_back(
    parts, positions, starts, n_heads, scale, first, last, lanes, shares, turned, by_others, slopes, by_parts
):
    """Write the gradients by what went into `attend`, for some observations; ``lanes`` to ``by_others`` are room."""
    width = parts.shape[1] // 3
    depth = width // n_heads
    for i in range(first, last):
        rows = positions[starts[i] : starts[i + 1]]
        for head in range(n_heads):
            at = head * depth
            by_others[:] = _ZERO
            for begin in range(0, len(rows), LANES):
                n = min(LANES, len(rows) - begin)
                _look(parts, rows, begin, n, at, depth, width, scale, lanes[0], lanes[2, 0], shares[0])
                _take(slopes, rows, begin, n, at, depth, np.float32(1.0), lanes[1])
                _score(parts, rows, 2 * width + at, depth, lanes[1], shares[1])
                _to_scores(shares[0], shares[1], len(rows), scale, lanes[2, 0])
                for d in range(depth):
                    _gather(parts, rows, width + at + d, shares[1], lanes[2, 0])
                    for k in range(n):
                        by_parts[rows[begin + k], at + d] = lanes[2, 0, k]
                looking = rows[begin : begin + n]
                _add_all(shares[1], len(rows), parts, looking, at, turned, by_others[:depth])
                _add_all(shares[0], len(rows), slopes, looking, at, turned, by_others[depth:])
            for j in range(len(rows)):
                for d in range(depth):
                    by_parts[rows[j], width + at + d] = by_others[d, j]
                    by_parts[rows[j], 2 * width + at + d] = by_others[depth + d, j]


@jit
def _add_all(weights, n, parts, looking, at, turned, sums):
    """Add the numbers of rows that look, weighed, to the sums of those that are looked at."""
    for j in range(n):
        for k in range(LANES):
            turned[k, j] = weights[j, k]
    for d in range(len(sums)):
        for k in range(len(looking)):
            _add(sums[d], parts[looking[k], at + d], turned[k], n)


@jit
def _add(sums, factor, numbers, n):
    for j in range(n):
        sums[j] = fma(factor, numbers[j], sums[j])


@jit
def _look(parts, rows, begin, n, at, depth, width, scale, queries, room, shares):
    """Write the attention weights of ``n`` rows: ``shares[j, k]`` is the weight of row ``j`` for row ``begin + k``."""
    _take(parts, rows, begin, n, at, depth, scale, queries)
    _score(parts, rows, width + at, depth, queries, shares)
    _find_largest(shares, len(rows), room)
    for j in range(len(rows)):
        for k in range(LANES):
            shares[j, k] = _exp(shares[j, k] - room[k])
    for k in range(LANES):
        room[k] = _ZERO
    for j in range(len(rows)):
        for k in range(LANES):
            room[k] += shares[j, k]
    for j in range(len(rows)):
        for k in range(LANES):
            shares[j, k] = shares[j, k] / room[k]


@jit
def _find_largest(scores, n, room):
    for k in range(LANES):
        room[k] = scores[0, k]
    for j in range(1, n):
        for k in range(LANES):
            room[k] = scores[j, k] if scores[j, k] > room[k] else room[k]


@jit
def _take(parts, rows, begin, n, at, depth, scale, lanes):
    """Lay numbers of rows side by side, 0 where there are no more rows."""
    for d in range(depth):
        for k in range(LANES):
            lanes[d, k] = _ZERO
        for k in range(n):
            lanes[d, k] = parts[rows[begin + k], at + d] * scale


@jit
def _score(parts, rows, at, depth, lanes, scores):
    """Write the products of each row's numbers with those that lie side by side."""
    for j in range(len(rows)):
        mine = parts[rows[j], at : at + depth]
        for k in range(LANES):
            scores[j, k] = mine[0] * lanes[0, k]
        for d in range(1, depth - (depth - 1) % 4, 4):
            a, b, c, e = mine[d], mine[d + 1], mine[d + 2], mine[d + 3]
            for k in range(LANES):
                near = fma(b, lanes[d + 1, k], fma(a, lanes[d, k], scores[j, k]))
                scores[j, k] = fma(e, lanes[d + 3, k], fma(c, lanes[d + 2, k], near))
        for d in range(depth - (depth - 1) % 4, depth):
            a = mine[d]
            for k in range(LANES):
                scores[j, k] = fma(a, lanes[d, k], scores[j, k])


@jit
def _gather(parts, rows, at, weights, sums):
    """Write the sums of a number of each row, weighed."""
    for k in range(LANES):
        sums[k] = _ZERO
    end = len(rows) - len(rows) % 4
    for j in range(0, end, 4):
        a, b, c, e = parts[rows[j], at], parts[rows[j + 1], at], parts[rows[j + 2], at], parts[rows[j + 3], at]
        for k in range(LANES):
            near = fma(b, weights[j + 1, k], fma(a, weights[j, k], sums[k]))
            sums[k] = fma(e, weights[j + 3, k], fma(c, weights[j + 2, k], near))
    for j in range(end, len(rows)):
        a = parts[rows[j], at]
        for k in range(LANES):
            sums[k] = fma(a, weights[j, k], sums[k])


@jit
def _to_scores(shares, slopes, n, scale, room):
    """Turn the gradients by shares into those by scores."""
    for k in range(LANES):
        room[k] = _ZERO
    for j in range(n):
        for k in range(LANES):
            room[k] = fma(shares[j, k], slopes[j, k], room[k])
    for j in range(n):
        for k in range(LANES):
            slopes[j, k] = shares[j, k] * (slopes[j, k] - room[k]) * scale
