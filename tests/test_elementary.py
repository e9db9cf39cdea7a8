"""Elementary functions beside those of NumPy, which agree but for the last bits."""

from __future__ import annotations

import math

import numpy as np
import pytest

from hdrl.base import elementary

NUMBERS = np.concatenate([np.linspace(-0.99, 5.0, 200), np.geomspace(1e-300, 1e300, 50), [0.0, math.inf, math.nan]])


@pytest.mark.parametrize("name", [name for name in elementary.__all__ if name != "power"])
def test_agrees_with_numpy(name: str) -> None:
    with np.errstate(all="ignore"):
        expected = getattr(np, name)(NUMBERS)
    np.testing.assert_allclose(getattr(elementary, name)(NUMBERS), expected, rtol=1e-14, atol=0.0)


@pytest.mark.parametrize("exponent", [-1.5, 0.0, 0.5, 3.0])
def test_power_agrees_with_numpy(exponent: float) -> None:
    numbers = np.abs(NUMBERS)
    with np.errstate(all="ignore"):
        expected = np.power(numbers, exponent)
    np.testing.assert_allclose(elementary.power(numbers, exponent), expected, rtol=1e-14, atol=0.0)


def test_power_takes_pairs_and_numbers() -> None:
    assert elementary.power(2.0, [-1.0, 0.0, 3.0]).tolist() == [0.5, 1.0, 8.0]
    assert elementary.power([4.0, 0.0, 0.0], [0.5, -1.0, 2.0]).tolist() == [2.0, math.inf, 0.0]


def test_keeps_shapes_and_takes_single_numbers() -> None:
    assert elementary.exp(np.zeros((2, 3))).tolist() == [[1.0] * 3] * 2
    assert elementary.log(np.zeros((0, 2))).shape == (0, 2)
    assert float(elementary.log(1.0)) == 0.0
