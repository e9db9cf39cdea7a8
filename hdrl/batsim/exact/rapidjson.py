"""JSON numbers as RapidJSON reads them by default, which is how Batsim reads JSON.

It gathers the digits in an integer, in a double once they are too many, and multiplies or divides by a power of ten.
From 16 digits on that may be some units in the last place away from the nearest double.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any, NoReturn

from hdrl.batsim.exact.grisu import write_double

_NUMBER = re.compile(r"(-?)(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?")
_EXACT_LENGTH = 16
"""A number of up to 16 characters has at most 15 digits and a point: both ways of reading give the nearest double."""

_LARGEST_INTEGER = (2**31, 2**32 - 1, 2**63, 2**64 - 1)
_LARGEST_EXACT = 2**53 - 1
_MOST_DIGITS = 17
_LARGEST_EXPONENT = 308
_KEPT = frozenset((str, int, bool))


def read_double(text: str) -> float:
    """Return a JSON number that has a point or an exponent, as RapidJSON reads it.

    That is infinity where RapidJSON refuses a number as too big.
    """
    if len(text) <= _EXACT_LENGTH and "e" not in text and "E" not in text:
        return float(text)
    match = _NUMBER.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not a JSON number")
    minus, whole, fraction, exponent = match.groups()
    significand, n_digits = _read_whole(whole, negative=bool(minus))
    shift = 0
    if fraction is not None:
        significand, shift = _read_fraction(significand, n_digits, fraction)
    power = int(exponent or 0)
    too_big = power > _LARGEST_EXPONENT - shift
    value = math.inf if too_big else _scale(float(significand), power + shift)
    return -value if minus else value


def reread(value: Any) -> Any:
    """Return a JSON value that is written and read once more, as Batsim does with descriptions of jobs and profiles."""
    if isinstance(value, float):
        return value if len(repr(value)) <= _EXACT_LENGTH else read_double(write_double(value))
    if isinstance(value, dict):
        return {key: item if type(item) in _KEPT else reread(item) for key, item in value.items()}
    if isinstance(value, list):
        return [reread(item) for item in value]
    return value


def read_integer(text: str) -> int | float:
    """Return a JSON number without point and exponent; one that 64 bits do not hold becomes a double."""
    if len(text) <= _EXACT_LENGTH:
        return int(text)
    value, _ = _read_whole(text.removeprefix("-"), negative=text.startswith("-"))
    return -value if text.startswith("-") else value


def _read_whole(digits: str, *, negative: bool) -> tuple[int | float, int]:
    """Return the digits before the point, as a double if 64 bits do not hold them, and how many RapidJSON counts."""
    value = int(digits)
    largest = _LARGEST_INTEGER[2 if negative else 3]
    if value <= largest:
        return value, len(digits) - 1
    n = len(str(largest))
    n_kept = n if int(digits[:n]) <= largest else n - 1
    double = float(int(digits[:n_kept]))
    for digit in digits[n_kept:]:
        double = double * 10.0 + int(digit)
    return double, n_kept - 1


def _read_fraction(significand: int | float, n_digits: int, digits: str) -> tuple[float, int]:
    """Return the significand with the digits behind the point, and the power of ten that it has to be taken times."""
    n_read = 0
    if isinstance(significand, int):
        while n_read < len(digits) and significand <= _LARGEST_EXACT:
            significand = significand * 10 + int(digits[n_read])
            n_read += 1
            n_digits += significand != 0
    double, shift = float(significand), -n_read
    for digit in digits[n_read:]:
        if n_digits >= _MOST_DIGITS:
            break
        double = double * 10.0 + int(digit)
        shift -= 1
        n_digits += double > 0.0
    return double, shift


def _scale(significand: float, power: int) -> float:
    """Multiply by a power of ten, in two steps if it is smaller than doubles have."""
    if power < -_LARGEST_EXPONENT:
        significand /= 1e308
        power += _LARGEST_EXPONENT
        if power < -_LARGEST_EXPONENT:
            return 0.0
    scale = float(f"1e{abs(power)}")
    return significand * scale if power >= 0 else significand / scale


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not a JSON number")


_DECODER = json.JSONDecoder(parse_float=read_double, parse_int=read_integer, parse_constant=_refuse)


def loads(text: str) -> Any:
    """Return a JSON value; raise `ValueError` if it is none."""
    try:
        value, end = _DECODER.raw_decode(text)
    except ValueError:
        value, end = None, -1
    # with blanks around it, or no JSON value at all: what takes longer says which
    return value if end == len(text) else _DECODER.decode(text)
