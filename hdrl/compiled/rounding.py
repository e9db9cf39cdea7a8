"""Dates as Batsim prints them: six decimals, exactly rounded."""

from __future__ import annotations

import math

from hdrl.compiled.jit import jit

_MILLION = 1e6
_SPLITTER = 134217729.0  # 2**27 + 1, Veltkamp's constant for doubles


@jit
def round6(value):
    """Round a date to six decimals as printing with ``%.6f`` and reading again does.

    The product with a million is computed exactly (Dekker's product), so that a date just below or
    above a half is rounded to the right side; exact halves go to the even digit, as in C.

    ``value``: a date in seconds, at most 1e9 in magnitude.
    """
    product = value * _MILLION
    big = _SPLITTER * value
    high = big - (big - value)
    low = value - high
    # 1e6 has 20 significant bits: it needs no splitting.
    error = (high * _MILLION - product) + low * _MILLION
    whole = math.floor(product)
    rest = (product - whole) + error
    if rest > 0.5 or (rest == 0.5 and whole % 2 == 1):
        whole += 1.0
    return whole / _MILLION
