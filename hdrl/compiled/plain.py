"""Substitutes for `hdrl.compiled.fast` in plain Numba, or in plain Python."""

from __future__ import annotations

from typing import Any

import numpy as np

from hdrl.compiled.backends import JIT_DISABLED, TILE_ROWS
from hdrl.compiled.fma import fma
from hdrl.compiled.jit import jit


@jit
def unchanged(borrowed):  # type: ignore[no-untyped-def]
    """Return a tuple of arrays as it is."""
    return borrowed


borrow = unchanged


@jit
def copy_rows(target, source, first, n):  # type: ignore[no-untyped-def]
    """Copy rows of a flat array to the beginning of another: ``copy_rows(target, source, first, n)``."""
    for i in range(n):
        target[i] = source[first + i]


def moved_to(state, batch, row):  # type: ignore[no-untyped-def]
    """Let a borrowed tuple look at another row of a batch; return the tuple from then on.

    - ``state``: the tuple, which was made of some row of the same batch.
    - ``batch``: the arrays of the batch. Those that have as many dimensions in both are shared.
    """
    pairs = zip(state, batch, strict=True)
    return type(state)._make(_row_of(own, whole, row) for own, whole in pairs)


def _row_of(own: Any, whole: Any, row: int) -> Any:
    if isinstance(own, tuple):
        return moved_to(own, whole, row)
    return whole if own.ndim == whole.ndim else whole[row]


def _compiled_moved_to(state, batch, row):  # type: ignore[no-untyped-def]
    """Return the same for compiled code: one line that names every array."""
    del row
    from numba import types

    if not isinstance(state, types.NamedTuple):
        return None
    namespace: dict[str, Any] = {}
    exec(f"def move(state, batch, row):\n    return {_moved(state, batch, 'batch', namespace)}", namespace)
    return namespace["move"]


def _moved(state: Any, batch: Any, name: str, makers: dict[str, Any]) -> str:
    """Return Python code that makes a row of a batch; the constructors it calls are added to ``makers``."""
    arrays = []
    for field, own, whole in zip(state.fields, state.types, batch.types, strict=True):
        if hasattr(own, "fields"):
            arrays.append(_moved(own, whole, f"{name}.{field}", makers))
        else:
            arrays.append(f"{name}.{field}" if own.ndim == whole.ndim else f"{name}.{field}[row]")
    maker = f"make_{len(makers)}"
    makers[maker] = state.instance_class
    return f"{maker}({', '.join(arrays)})"


if not JIT_DISABLED:
    from numba.extending import overload

    overload(moved_to)(_compiled_moved_to)


@jit
def load(team, position):  # type: ignore[no-untyped-def]
    """Return an integer of an array, which no other thread writes."""
    return team[position]


@jit
def add(team, position, value):  # type: ignore[no-untyped-def]
    """Add to an integer of an array, which no other thread looks at; return what it was."""
    before = team[position]
    team[position] += value
    return before


_ZERO, _ONE = np.uint64(0), np.uint64(1)


@jit
def n_of(word):  # type: ignore[no-untyped-def]
    """Return the number of set bits of a word."""
    n = 0
    while word != _ZERO:
        word &= word - _ONE
        n += 1
    return n


@jit
def lowest(word):  # type: ignore[no-untyped-def]
    """Return the number of the lowest bit of a word that is set; the word is not zero."""
    n = 0
    while word & _ONE == _ZERO:
        word >>= _ONE
        n += 1
    return n


@jit
def multiply_tile(padded, at, per_output, per_input, biases, least, xs, at_x, n_in, ys, at_y, first):  # type: ignore[no-untyped-def]
    """Multiply the units of a tile of rows by weights, to four units: see `hdrl.compiled.dense.multiply_of`."""
    for o in range(4):
        y = ys[at_y + o, first : first + TILE_ROWS]
        y[:] = biases[o]
        for i in range(n_in):
            x, weight = xs[at_x + i, first : first + TILE_ROWS], padded[at + o * per_output + i * per_input]
            for r in range(TILE_ROWS):
                y[r] = fma(weight, x[r], y[r])
        for r in range(TILE_ROWS):
            y[r] = least if y[r] < least else y[r]


@jit
def multiply_two_tiles(padded, at, per_output, per_input, biases, least, xs, at_x, n_in, ys, at_y, first):  # type: ignore[no-untyped-def]
    """Multiply the units of two tiles of rows, which lie side by side, as `multiply_tile`."""
    for tile in range(first, first + 2 * TILE_ROWS, TILE_ROWS):
        multiply_tile(padded, at, per_output, per_input, biases, least, xs, at_x, n_in, ys, at_y, tile)


@jit
def collect_tile(gradients, at, per_output, xs, at_x, ys, at_y, n_rows):  # type: ignore[no-untyped-def]
    """Add to the gradients by four times four weights what rows give: see `hdrl.compiled.dense.backward_of`.

    Every 16th row is summed up by itself, then the halves of these sums are added until one is left.
    """
    for o in range(4):
        for i in range(4):
            x, y = xs[at_x + i], ys[at_y + o]
            even = _four_products(x, y, 0, n_rows) + _four_products(x, y, 2, n_rows)
            odd = _four_products(x, y, 1, n_rows) + _four_products(x, y, 3, n_rows)
            gradients[at + o * per_output + i] += even + odd


@jit
def _four_products(x, y, first, n_rows):  # type: ignore[no-untyped-def]
    one = _products(x, y, first, n_rows) + _products(x, y, first + 8, n_rows)
    return one + (_products(x, y, first + 4, n_rows) + _products(x, y, first + 12, n_rows))


@jit
def _products(x, y, first, n_rows):  # type: ignore[no-untyped-def]
    total = np.float32(0.0)
    for r in range(first, n_rows, TILE_ROWS):
        total = fma(y[r], x[r], total)
    return total


@jit
def sum_rows(ys, at_y, n_rows):  # type: ignore[no-untyped-def]
    """Return the sum of a unit over rows, in the order of `collect_tile`."""
    y = ys[at_y]
    return (_four(y, 0, n_rows) + _four(y, 2, n_rows)) + (_four(y, 1, n_rows) + _four(y, 3, n_rows))


@jit
def _four(y, first, n_rows):  # type: ignore[no-untyped-def]
    one = _every_16th(y, first, n_rows) + _every_16th(y, first + 8, n_rows)
    return one + (_every_16th(y, first + 4, n_rows) + _every_16th(y, first + 12, n_rows))


@jit
def _every_16th(y, first, n_rows):  # type: ignore[no-untyped-def]
    total = np.float32(0.0)
    for r in range(first, n_rows, TILE_ROWS):
        total = total + y[r]
    return total
