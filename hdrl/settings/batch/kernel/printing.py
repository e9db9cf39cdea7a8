"""Rows of tables as text, compiled: numbers as C prints them, sets of cores in Batsim's notation.

To write its files takes a fifth of a short run, and half of a long one, where each number becomes a text of Python.
What double precision cannot decide for certain is left to Python: a number so close to the middle of two texts
that it takes more digits to decide, and numbers of more than 15 digits.
"""

from __future__ import annotations

import math
from typing import Annotated, Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hdrl.compiled.borrow import take_as
from hdrl.compiled.borrowed import Addresses
from hdrl.compiled.fields import new_arrays, own
from hdrl.compiled.jit import jit
from hdrl.settings.batch.kernel.jit import entry

FIXED, FIXED_OR_NA, GENERAL, WHOLE, CHARACTER, TEXT, SET = range(7)
"""Kinds of columns: numbers with six decimals (``%f``); the same, and ``NA`` for -1; numbers with six significant
digits (``%g``); whole numbers; single characters; texts; sets of whole numbers, ascending, as intervals."""

UNCERTAIN, NO_ROOM = -1, -2
"""Instead of the number of bytes: Python is to print these rows, or sets take more than there is room for."""

LONGEST = 24
"""Characters of the longest number."""

_LARGEST, _CLOSE, _SHORT = 1e15, 1e-8, 2.0**20
_N_DIGITS = 6
_MILLION = 10**_N_DIGITS
_POWERS = np.array([10.0**power for power in range(23)])
"""All powers of ten that a double holds exactly."""

_NO_POWER = -100

_ZERO, _COMMA, _NEWLINE, _POINT, _MINUS, _PLUS, _SPACE, _E, _N, _A = (ord(one) for one in "0,\n.-+ eNA")

Numbers: TypeAlias = NDArray[np.int64]


class PrintedTable(NamedTuple):
    """Rows to be printed; a column has one row of ``reals``, or one or two of ``wholes``, in the order of the columns.

    A text is a slice of ``characters``, a set one of ``members``: where it begins, and how long it is.
    """

    kinds: Annotated[Numbers, own(np.int64, "n_columns")]
    reals: Annotated[NDArray[np.float64], own(np.float64, "n_reals", "n_rows")]
    wholes: Annotated[Numbers, own(np.int64, "n_wholes", "n_rows")]
    characters: Annotated[NDArray[np.uint8], own(np.uint8, "n_characters")]
    members: Annotated[NDArray[np.int32], own(np.int32, "n_members")]
    powers: Annotated[NDArray[np.float64], own(np.float64, "n_powers")]
    printed: Annotated[NDArray[np.uint8], own(np.uint8, "n_printed")]


def new_table(
    kinds: list[int],
    reals: list[NDArray[np.float64]],
    wholes: list[Numbers],
    characters: bytes,
    members: NDArray[np.int32],
    n_rows: int,
    room: int,
) -> PrintedTable:
    """Return rows to be printed.

    ``room``: how many bytes sets take at most.
    """
    n_printed = n_rows * len(kinds) * (LONGEST + 1) + len(characters) + room
    given: dict[str, NDArray[Any]] = {
        "kinds": np.array(kinds, dtype=np.int64),
        "reals": np.array(reals, dtype=np.float64).reshape(len(reals), n_rows),
        "wholes": np.array(wholes, dtype=np.int64).reshape(len(wholes), n_rows),
        "characters": np.frombuffer(characters, dtype=np.uint8),
        "members": members,
        "powers": _POWERS,
    }
    sizes = {
        "n_columns": len(kinds),
        "n_reals": len(reals),
        "n_wholes": len(wholes),
        "n_rows": n_rows,
        "n_characters": len(characters),
        "n_members": len(members),
        "n_powers": len(_POWERS),
        "n_printed": n_printed,
    }
    return new_arrays(PrintedTable, sizes, given)


def small_table() -> PrintedTable:
    """Return a row of one column, with arrays of the types of all tables."""
    return new_table([WHOLE], [], [np.zeros(1, dtype=np.int64)], b"", np.zeros(0, dtype=np.int32), 1, 0)


@jit
def _put_whole(printed, position, value):
    """Print a whole number; return where it ends."""
    if value < 0:
        printed[position] = _MINUS
        position += 1
        value = -value
    end, rest = position + 1, value // 10
    while rest > 0:
        end += 1
        rest //= 10
    for at in range(end - 1, position - 1, -1):
        rest = value // 10
        printed[at] = value - 10 * rest + _ZERO
        value = rest
    return end


@jit
def _put_digits(printed, position, value, n):
    """Print a number of ``n`` digits; return where it ends."""
    for at in range(position + n - 1, position - 1, -1):
        rest = value // 10
        printed[at] = value - 10 * rest + _ZERO
        value = rest
    return position + n


@jit
def _is_uncertain(fraction, scaled, nearest):
    """Tell whether a scaled fraction is too close to the middle of two whole numbers to say which one is the nearest.

    A fraction of few bits is not: scaled by no more than a million it is exact, and so is the middle.
    """
    if abs(abs(scaled - nearest) - 0.5) > _CLOSE:
        return False
    short = fraction * _SHORT
    return short != math.floor(short)


@jit
def _put_fixed(printed, position, value):
    """Print a number as ``%f`` does; return where it ends, or that this is uncertain."""
    magnitude = abs(value)
    if not magnitude < _LARGEST:
        return UNCERTAIN
    whole = math.floor(magnitude)
    fraction = magnitude - whole
    millionths = fraction * 1e6
    nearest = np.rint(millionths)
    if _is_uncertain(fraction, millionths, nearest):
        return UNCERTAIN
    high, low = np.int64(whole), np.int64(nearest)
    if low == _MILLION:
        high, low = high + 1, np.int64(0)
    if math.copysign(1.0, value) < 0.0:
        printed[position] = _MINUS
        position += 1
    position = _put_whole(printed, position, high)
    printed[position] = _POINT
    return _put_digits(printed, position + 1, low, _N_DIGITS)


@jit
def _power_below(powers, value):
    """Return the power of ten that a positive number begins with, from -17 on; `_NO_POWER` of others."""
    last = len(powers) - 1
    if value >= 1.0:
        power = 0
        while power < last and value >= powers[power + 1]:
            power += 1
        return power if value < _LARGEST else _NO_POWER
    power = -1
    while value < 1.0 / powers[-power]:
        power -= 1
        if power < _N_DIGITS - 1 - last:
            return _NO_POWER
    return power


@jit
def _six_digits(powers, value, up):
    """Return a positive number times a power of ten as a whole one, or that this is uncertain."""
    whole = math.floor(value)
    if up < 0:  # exactly, since dates of some weeks are whole seconds, which often lie in the middle
        unit = np.int64(powers[-up])
        digits, rest = np.int64(whole) // unit, np.int64(whole) % unit
        is_above = 2 * rest > unit or (2 * rest == unit and (value > whole or digits % 2 == 1))
        return digits + 1 if is_above else digits
    if up == 0:
        return np.int64(np.rint(value))
    fraction = (value - whole) * powers[up]
    nearest = np.rint(fraction)
    is_exact = up <= _N_DIGITS
    if _is_uncertain(value - whole if is_exact else math.nan, fraction, nearest):
        return UNCERTAIN
    return np.int64(whole) * np.int64(powers[min(up, 18)]) + np.int64(nearest)


@jit
def _put_general(powers, printed, position, value):
    """Print a number as ``%g`` does; return where it ends, or that this is uncertain."""
    if math.copysign(1.0, value) < 0.0:
        printed[position] = _MINUS
        position += 1
        value = -value
    if value == 0.0:
        printed[position] = _ZERO
        return position + 1
    power = _power_below(powers, value)
    if power == _NO_POWER:
        return UNCERTAIN
    digits, n = _six_digits(powers, value, _N_DIGITS - 1 - power), _N_DIGITS
    if digits == UNCERTAIN:
        return UNCERTAIN
    if digits == _MILLION:
        digits, power = digits // 10, power + 1
    while digits % 10 == 0 and n > 1:
        digits, n = digits // 10, n - 1
    if -4 <= power < _N_DIGITS:
        return _put_decimal(printed, position, digits, n, power)
    position = _put_decimal(printed, position, digits, n, 0)
    printed[position] = _E
    printed[position + 1] = _PLUS if power >= 0 else _MINUS
    return _put_digits(printed, position + 2, abs(power), 2)


@jit
def _put_decimal(printed, position, digits, n, power):
    """Print ``n`` digits from a power of ten down, without an exponent; return the end of the text."""
    if power < 0:
        printed[position] = _ZERO
        printed[position + 1] = _POINT
        position = _put_digits(printed, position + 2, 0, -power - 1)
        return _put_digits(printed, position, digits, n)
    if n <= power + 1:
        position = _put_digits(printed, position, digits, n)
        return _put_digits(printed, position, 0, power + 1 - n)
    end = _put_digits(printed, position + 1, digits, n)
    for at in range(position, position + power + 1):
        printed[at] = printed[at + 1]
    printed[position + power + 1] = _POINT
    return end


@jit
def _put_set(members, printed, position, first, n, room):
    """Print ascending whole numbers as intervals, ``0-3 8``; return where they end, or that there is no room."""
    i, last_place = first, position + room - 2 * LONGEST
    while i < first + n:
        if position > last_place:
            return NO_ROOM
        last = i
        while last + 1 < first + n and members[last + 1] == members[last] + 1:
            last += 1
        if i > first:
            printed[position] = _SPACE
            position += 1
        position = _put_whole(printed, position, np.int64(members[i]))
        if last > i:
            printed[position] = _MINUS
            position = _put_whole(printed, position + 1, np.int64(members[last]))
        i = last + 1
    return position


@jit
def _put_real(powers, kind, printed, position, value):
    if kind == GENERAL:
        return _put_general(powers, printed, position, value)
    if kind == FIXED_OR_NA and value == -1.0:
        printed[position] = _N
        printed[position + 1] = _A
        return position + 2
    return _put_fixed(printed, position, value)


@jit
def _put_other(table, kind, position, value, n, room):
    """Print a value that is no real number: a whole number, a character, or ``n`` characters or members from one on."""
    if kind == WHOLE:
        return _put_whole(table.printed, position, value)
    if kind == CHARACTER:
        table.printed[position] = value
        return position + 1
    if kind == SET:
        return _put_set(table.members, table.printed, position, value, n, room)
    for at in range(n):
        table.printed[position + at] = table.characters[value + at]
    return position + n


_taken = take_as(small_table)


@entry
def print_rows(addresses: Addresses, n_rows: int, room: int) -> int:
    """Print rows, whose sets take so much room at most; return how many bytes these are, or why they are not."""
    table = _taken(addresses)
    printed, position = table.printed, 0
    for row in range(n_rows):
        n_reals, n_wholes = 0, 0
        for column in range(len(table.kinds)):
            kind = table.kinds[column]
            if kind <= GENERAL:
                end = _put_real(table.powers, kind, printed, position, table.reals[n_reals, row])
                n_reals += 1
            else:
                value, n = table.wholes[n_wholes, row], 0
                if kind >= TEXT:
                    n_wholes += 1
                    n = table.wholes[n_wholes, row]
                n_wholes += 1
                end = _put_other(table, kind, position, value, n, room)
            if end < 0:
                return end
            room -= end - position if kind == SET else 0
            printed[end] = _COMMA if column < len(table.kinds) - 1 else _NEWLINE
            position = end + 1
    return position
