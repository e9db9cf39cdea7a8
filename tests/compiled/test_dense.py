"""Small layers over blocks of rows: what comes out is what matrix products give, whatever the block."""

from __future__ import annotations

import itertools

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from hdrl.compiled import plain
from hdrl.compiled.dense import (
    collect_tile,
    forward_of,
    multiply_tile,
    multiply_two_tiles,
    n_units,
    n_weights,
    pad,
    sum_rows,
)
from hdrl.compiled.onerow import forward_one, turn

plain_tile, plain_two, plain_collect, plain_sum = (
    plain.multiply_tile,
    plain.multiply_two_tiles,
    plain.collect_tile,
    plain.sum_rows,
)

SMALL, LARGE = 16, 32
small_forward, large_forward = forward_of(SMALL), forward_of(LARGE)


@numba.njit
def forward(weights, widths, is_open, padded, units):  # type: ignore[no-untyped-def] # Python cannot call it itself
    pad(weights, widths, padded)
    if units.shape[1] == SMALL:
        return small_forward(padded, widths, is_open, units)
    return large_forward(padded, widths, is_open, units)


@numba.njit
def forward_alone(weights, widths, is_open, by_input, units, active):  # type: ignore[no-untyped-def]
    turn(weights, widths, by_input)
    return forward_one(by_input, widths, is_open, units, active)


def alone(
    row: NDArray[np.float32], weights: NDArray[np.float32], widths: NDArray[np.int64], *, is_open: bool
) -> NDArray[np.float32]:
    """Return what comes out for a row that passes alone."""
    units = np.full(widths.sum(), np.nan, np.float32)
    units[: widths[0]] = row
    at = forward_alone(weights, widths, is_open, np.empty_like(weights), units, np.empty(widths.max(), np.int32))
    return units[at : at + widths[-1]]


def by_block(
    rows: NDArray[np.float32], weights: NDArray[np.float32], widths: NDArray[np.int64], block: int, *, is_open: bool
) -> NDArray[np.float32]:
    """Return what comes out for each row; the last block is not full."""
    padded, units = np.zeros(n_weights(widths), np.float32), np.zeros((n_units(widths), block), np.float32)
    found = np.empty((len(rows), widths[-1]), np.float32)
    for first in range(0, len(rows), block):
        some = rows[first : first + block]
        units[: widths[0], : len(some)] = some.T
        at = forward(weights, widths, is_open, padded, units)
        found[first : first + block] = units[at : at + widths[-1], : len(some)].T
    return found


def expected(
    rows: NDArray[np.float32], weights: NDArray[np.float32], widths: NDArray[np.int64], *, is_open: bool
) -> NDArray[np.float64]:
    values, at, n_layers = rows.astype(np.float64), 0, len(widths) - 1
    for layer in range(n_layers):
        n_in, n_out = widths[layer], widths[layer + 1]
        weight, at = weights[at : at + n_in * n_out].reshape(n_out, n_in), at + n_in * n_out
        bias, at = weights[at : at + n_out], at + n_out
        values = values @ weight.T + bias
        if is_open or layer < n_layers - 1:
            values = np.maximum(values, 0.0)
    return values


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(1, 34), min_size=2, max_size=5), st.integers(1, 50), st.booleans(), st.integers(0, 2**32))
def test_layers_are_matrix_products(sizes: list[int], n_rows: int, is_open, seed: int) -> None:
    rng, widths = np.random.default_rng(seed), np.array(sizes)
    n = sum((n_in + 1) * n_out for n_in, n_out in itertools.pairwise(sizes))
    weights = rng.normal(size=n).astype(np.float32)
    rows = rng.normal(size=(n_rows, sizes[0])).astype(np.float32)
    found = [by_block(rows, weights, widths, block, is_open=is_open) for block in (SMALL, LARGE)]
    exact = expected(rows, weights, widths, is_open=is_open)
    np.testing.assert_allclose(found[0], exact, rtol=1e-4, atol=1e-5 * np.abs(exact).max())
    assert (found[0] == found[1]).all()
    assert (alone(rows[0], weights, widths, is_open=is_open) == found[0][0]).all()
    rows[0, rng.random(sizes[0]) < 0.7] = 0.0
    few = by_block(rows[:1], weights, widths, SMALL, is_open=is_open)[0]
    assert (alone(rows[0], weights, widths, is_open=is_open) == few).all(), "inputs that are 0 are passed over"


def test_what_is_not_finite_stays_so() -> None:
    widths, weights = np.array([2, 3, 1]), np.ones(13, np.float32)
    rows = np.array([[1.0, np.nan], [1.0, 2.0], [np.inf, 1.0]], np.float32)
    found = by_block(rows, weights, widths, SMALL, is_open=True)[:, 0]
    assert np.isfinite(found).tolist() == [False, True, False]
    assert found[1] == pytest.approx(13.0)


@numba.njit
def tiles(weights, inputs, found, least):  # type: ignore[no-untyped-def]
    biases = (weights[0], weights[1], weights[2], weights[3])
    multiply_tile(weights, 0, 7, 1, biases, least, inputs, 2, 7, found[0], 1, 16)
    plain_tile(weights, 0, 7, 1, biases, least, inputs, 2, 7, found[1], 1, 16)


@numba.njit
def two_tiles(weights, inputs, found, least):  # type: ignore[no-untyped-def]
    biases = (weights[0], weights[1], weights[2], weights[3])
    multiply_two_tiles(weights, 0, 7, 1, biases, least, inputs, 2, 7, found[0], 1, 16)
    plain_two(weights, 0, 7, 1, biases, least, inputs, 2, 7, found[1], 1, 16)


@numba.njit
def gradients_of(found, xs, ys, n_rows):  # type: ignore[no-untyped-def]
    collect_tile(found[0], 2, 7, xs, 1, ys, 2, n_rows)
    plain_collect(found[1], 2, 7, xs, 1, ys, 2, n_rows)
    found[0, 0], found[1, 0] = sum_rows(ys, 3, n_rows), plain_sum(ys, 3, n_rows)


@pytest.mark.parametrize("least", [0.0, -np.inf])
def test_vectors_give_the_bytes_of_plain_numba(least: float) -> None:
    rng = np.random.default_rng(0)
    weights, inputs = rng.normal(size=28).astype(np.float32), rng.normal(size=(9, 48)).astype(np.float32)
    found = np.full((2, 6, 48), np.nan, np.float32)
    tiles(weights, inputs, found, np.float32(least))
    assert found[0].tobytes() == found[1].tobytes()
    assert np.isfinite(found[:, 1:5, 16:32]).all()
    assert np.isnan(found).sum() == found.size - 2 * 4 * 16


@pytest.mark.parametrize("least", [0.0, -np.inf])
def test_two_tiles_give_the_bytes_of_plain_numba(least: float) -> None:
    rng = np.random.default_rng(1)
    weights, inputs = rng.normal(size=28).astype(np.float32), rng.normal(size=(9, 64)).astype(np.float32)
    found = np.full((2, 6, 64), np.nan, np.float32)
    two_tiles(weights, inputs, found, np.float32(least))
    assert found[0].tobytes() == found[1].tobytes()
    assert np.isfinite(found[:, 1:5, 16:48]).all()
    assert np.isnan(found).sum() == found.size - 2 * 4 * 32


@pytest.mark.parametrize("n_rows", [16, 48, 320])
def test_gradients_and_sums_are_the_bytes_of_plain_numba(n_rows: int) -> None:
    rng = np.random.default_rng(2)
    xs, ys = (rng.normal(size=(6, n_rows)).astype(np.float32) * 10.0 ** rng.integers(-3, 4) for _ in range(2))
    xs, ys = xs.astype(np.float32), ys.astype(np.float32)
    found = np.tile(rng.normal(size=30).astype(np.float32), (2, 1))
    before = found[0].copy()
    gradients_of(found, xs, ys, n_rows)
    assert found[0].tobytes() == found[1].tobytes()
    exact = (ys[2:6, None].astype(np.float64) * xs[None, 1:5]).sum(-1)
    np.testing.assert_allclose(
        (found[0] - before)[2:].reshape(4, 7)[:, :4], exact, rtol=1e-2, atol=1e-5 * np.abs(exact).max() + 1e-5
    )
    assert found[0, 0] == pytest.approx(ys[3].astype(np.float64).sum(), rel=1e-4, abs=1e-4)
