"""Numbers of 80 bits (``long double`` on x86 processors), in which Batsim adds up energies and dates.

They are kept as two doubles, the nearest one and the rest, so that NumPy need not be loaded for them: that takes a
tenth of the processor time of a simulation of 2,000 jobs. Sums are exact as long as 64 bits hold every partial sum;
nearly always they do, and then two sums of doubles give them. Where they do not, integers are added up and rounded one
by one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fractions import Fraction

Extended = tuple[float, float]
"""A number of 80 bits: the nearest double, and what is left."""

ZERO: Extended = (0.0, 0.0)

EXTENDED_BITS = 64
"""Significant bits of such a number."""

_LARGEST_SUM = 1.8e19
"""Units in the last place of the smallest addend that 64 bits hold, a little less than 2**64."""

_CLOSE = 2.0**-9
"""A rest that is nearer to half a unit in the last place than this, relative to it, may be rounded twice."""

_MICRO = 1e6
_HALF = 0.5


def add_up(values: Sequence[float]) -> Extended:
    """Add doubles, one after the other in 80 bits."""
    about = sum(values)
    smallest = min(values, default=0.0)
    if smallest == 0.0:
        smallest = min(filter(None, values), default=1.0)
    if smallest > 0.0 and about < _LARGEST_SUM * math.ulp(smallest):
        rest = math.fsum((*values, -about))
        nearest = about + rest
        return nearest, about - nearest + rest
    return _add_one_by_one(values)


def _add_one_by_one(values: Iterable[float]) -> Extended:
    ratios = [value.as_integer_ratio() for value in values]
    unit = max(denominator for _, denominator in ratios)
    total = 0
    for numerator, denominator in ratios:
        total = rounded(total + numerator * (unit // denominator))
    nearest = total / unit
    numerator, denominator = nearest.as_integer_ratio()
    return nearest, (total * denominator - numerator * unit) / (unit * denominator)


def rounded(value: int) -> int:
    """Round an integer to 64 significant bits, to the nearest one; halfway to the even one."""
    excess = value.bit_length() - EXTENDED_BITS
    if excess <= 0:
        return value
    kept = value >> excess
    rest = value - (kept << excess)
    if not rest:
        return value
    half = 1 << (excess - 1)
    if rest > half or (rest == half and kept & 1):
        kept += 1
    return kept << excess


def difference(a: Extended, b: Extended) -> float:
    """Return a difference in 80 bits, as the nearest double to that."""
    if a[0] >= b[0] >= 0.0 and a[1] == 0.0 == b[1]:
        nearest = a[0] - b[0]
        rest = abs(a[0] - nearest - b[0])  # exact: the smaller of two doubles is taken from the larger one
    else:
        nearest = math.fsum((a[0], a[1], -b[0], -b[1]))
        rest = abs(math.fsum((a[0], a[1], -b[0], -b[1], -nearest)))
    if rest:
        half = math.ulp(nearest) * _HALF
        # below a power of two, units are half as large
        if min(abs(rest - half), abs(rest - half * _HALF)) <= half * _CLOSE:
            return float(rounded_fraction(fraction(a) - fraction(b)))
    return nearest


def fraction(value: Extended) -> Fraction:
    """Return a number of 80 bits as a fraction."""
    from fractions import Fraction  # costs as much as 1,000 jobs, and is hardly ever needed

    return Fraction(value[0]) + Fraction(value[1])


def rounded_fraction(value: Fraction) -> Fraction:
    """Round a fraction to the nearest number of 80 bits."""
    if not value:
        return value
    # so far to the left that the whole part has more than 64 bits; a further one holds whether anything is behind it
    shift = EXTENDED_BITS + 2 + value.denominator.bit_length() - value.numerator.bit_length()
    scaled = value * 2**shift if shift >= 0 else value / 2**-shift
    whole = scaled.numerator // scaled.denominator
    is_inexact = whole * scaled.denominator != scaled.numerator
    result = rounded(2 * whole + is_inexact)
    return (result * type(value)(1, 2)) / type(value)(2) ** shift


def six_decimals(value: Extended) -> str:
    """Print a number of 80 bits with six decimals, as C's ``%Lf`` does."""
    nearest, rest = value
    if not rest:
        return f"{nearest:f}"
    whole = math.floor(nearest)
    micros = (nearest - whole + rest) * _MICRO
    if is_sure(micros, 1e-6) and nearest >= 1.0:
        n_micros = round(micros)
        if 0 <= n_micros < 1_000_000:
            return f"{whole}.{n_micros:06d}"
    exact = fraction(value)
    n_micros = round(abs(exact) * 10**6)
    sign = "-" if exact < 0 else ""
    return f"{sign}{n_micros // 10**6}.{n_micros % 10**6:06d}"


def is_sure(micros: float, error: float) -> bool:
    """Return True if a number of millionths rounds to the same integer anywhere within its error."""
    return abs(micros % 1.0 - _HALF) > error
