"""Doubles as RapidJSON writes them: Grisu2, whose 17th digit is not always the nearest one.

Batsim keeps descriptions of jobs and profiles as such texts and reads them again, which may move a number by an ulp.
"""

from __future__ import annotations

import math
from functools import cache

_WORD = 2**64
_LAST_ROUNDED = 9
"""From this many digits behind the first ones on, the last one is no longer rounded to the nearest."""


def write_double(value: float) -> str:
    """Write a finite double."""
    if value == 0:
        return "-0.0" if math.copysign(1.0, value) < 0 else "0.0"
    digits, power = _shortest(abs(value))
    return ("-" if value < 0 else "") + _lay_out(digits, power)


def _shortest(value: float) -> tuple[str, int]:
    """Return digits and a power of ten that stand for a positive double."""
    significand, exponent = math.frexp(value)
    f, e = int(significand * 2**53), exponent - 53
    if e < -1074:  # subnormal
        f, e = f >> (-1074 - e), -1074
    upper, upper_e = _normalized(2 * f + 1, e - 1)
    lower, lower_e = (4 * f - 1, e - 2) if f == 2**52 else (2 * f - 1, e - 1)
    lower <<= lower_e - upper_e
    middle, _ = _normalized(f, e)
    scale, scale_e, power = _cached_power(upper_e)
    top, bottom = _times(upper, scale) - 1, _times(lower, scale) + 1
    return _digits(_times(middle, scale), top, top - bottom, -(upper_e + scale_e + 64), power)


def _digits(middle: int, top: int, delta: int, shift: int, power: int) -> tuple[str, int]:
    """Write the upper end of the interval until what is left out stays within it; round towards the middle."""
    one = 1 << shift
    whole, rest = str(top >> shift), top & (one - 1)
    to_middle = top - middle
    for k in range(1, len(whole) + 1):
        kappa = len(whole) - k
        left = (int(whole[k:] or 0) << shift) + rest
        if left <= delta:
            return _rounded(int(whole[:k]), delta, left, 10**kappa << shift, to_middle), power + kappa
    number, n = int(whole), 0
    while True:
        rest = rest * 10 % _WORD
        delta = delta * 10 % _WORD
        number = number * 10 + (rest >> shift)
        rest &= one - 1
        n += 1
        if rest < delta:
            to_middle = to_middle * 10**n % _WORD if n < _LAST_ROUNDED else 0
            return _rounded(number, delta, rest, one, to_middle), power - n


def _rounded(number: int, delta: int, rest: int, unit: int, to_middle: int) -> str:
    while (
        rest < to_middle
        and delta - rest >= unit
        and (rest + unit < to_middle or to_middle - rest > rest + unit - to_middle)
    ):
        number -= 1
        rest += unit
    return str(number)


def _lay_out(digits: str, power: int) -> str:
    n, point = len(digits), len(digits) + power
    if power >= 0 and point <= 21:
        return digits + "0" * power + ".0"
    if 0 < point <= 21:
        return f"{digits[:point]}.{digits[point:]}"
    if -6 < point <= 0:
        return "0." + "0" * -point + digits
    return digits[0] + ("." + digits[1:] if n > 1 else "") + f"e{point - 1}"


def _normalized(f: int, e: int) -> tuple[int, int]:
    shift = 64 - f.bit_length()
    return f << shift, e - shift


def _times(a: int, b: int) -> int:
    """Return the upper 64 bits of a product, rounded."""
    return (a * b + (1 << 63)) >> 64


def _cached_power(e: int) -> tuple[int, int, int]:
    """Return significand and exponent of a power of ten that suits an exponent of two, and its inverse's power."""
    exact = (-61 - e) * 0.30102999566398114 + 347
    k = int(exact)
    k += exact > k
    index = (k >> 3) + 1
    ten = -348 + 8 * index
    return (*_power_of_ten(ten), -ten)


@cache
def _power_of_ten(n: int) -> tuple[int, int]:
    """Return 10**n as the nearest 64-bit significand and an exponent of two."""
    if n >= 0:
        exact, over = 10**n, 1
    else:
        exact, over = 1, 10**-n
    e = exact.bit_length() - over.bit_length() - 64
    while True:
        scaled, divisor = (exact << -e, over) if e < 0 else (exact, over << e)
        f = (2 * scaled + divisor) // (2 * divisor)
        if f.bit_length() <= 64:
            return _normalized(f, e)
        e += 1
