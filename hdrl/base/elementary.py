"""Elementary functions of float64 arrays that have the same bits on every processor.

NumPy chooses its own ``exp``, ``log``, ``power`` by the processor's vector instructions, and the last bit of what they
return differs between them. The functions here call the C library once for each number: slower (0.1 us each), but
equal wherever the library has one implementation, as the GNU C library has for every x86-64 processor with AVX2.

Outside of a function's domain they return what NumPy returns (``log(0)`` is minus infinity, ``log(-1)`` NaN), without
a warning.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["exp", "expm1", "log", "log1p", "log2", "log10", "power", "tan", "tanh"]


def exp(x: ArrayLike) -> NDArray[np.float64]:
    """Return ``e**x`` of each number; infinity where that is too large."""
    return _each(math.exp, x, overflow=math.inf)


def expm1(x: ArrayLike) -> NDArray[np.float64]:
    """Return ``e**x - 1`` of each number, exact for small ones; infinity where that is too large."""
    return _each(math.expm1, x, overflow=math.inf)


def log(x: ArrayLike) -> NDArray[np.float64]:
    """Return the natural logarithm of each number; minus infinity of 0, NaN of negative numbers."""
    return _each(math.log, x, pole=0.0)


def log2(x: ArrayLike) -> NDArray[np.float64]:
    """Return the logarithm to base 2 of each number; minus infinity of 0, NaN of negative numbers."""
    return _each(math.log2, x, pole=0.0)


def log10(x: ArrayLike) -> NDArray[np.float64]:
    """Return the logarithm to base 10 of each number; minus infinity of 0, NaN of negative numbers."""
    return _each(math.log10, x, pole=0.0)


def log1p(x: ArrayLike) -> NDArray[np.float64]:
    """Return ``log(1 + x)`` of each number, exact for small ones; minus infinity of -1, NaN below."""
    return _each(math.log1p, x, pole=-1.0)


def tan(x: ArrayLike) -> NDArray[np.float64]:
    """Return the tangent of each number of radians; NaN of infinite ones."""
    return _each(math.tan, x)


def tanh(x: ArrayLike) -> NDArray[np.float64]:
    """Return the hyperbolic tangent of each number."""
    return _each(math.tanh, x)


def power(x: ArrayLike, exponent: ArrayLike) -> NDArray[np.float64]:
    """Return ``x**exponent`` of each number, or of each pair of numbers; ``x`` must not be negative."""
    bases, exponents = np.broadcast_arrays(np.asarray(x, dtype=np.float64), np.asarray(exponent, dtype=np.float64))

    def one(base: float, by: float) -> float:
        try:
            return math.pow(base, by)
        except OverflowError:
            return math.inf
        except ValueError:
            return math.inf if base == 0.0 else math.nan

    found = [one(*pair) for pair in zip(bases.ravel().tolist(), exponents.ravel().tolist(), strict=True)]
    return np.array(found, dtype=np.float64).reshape(bases.shape)


def _each(
    function: Callable[[float], float],
    x: ArrayLike,
    *,
    overflow: float = math.nan,
    pole: float | None = None,
) -> NDArray[np.float64]:
    numbers = np.asarray(x, dtype=np.float64)

    def one(number: float) -> float:
        try:
            return function(number)
        except OverflowError:
            return overflow
        except ValueError:
            return -math.inf if number == pole else math.nan

    return np.array([one(number) for number in numbers.ravel().tolist()], dtype=np.float64).reshape(numbers.shape)
