"""Searching lists of numbers for the first that is small or large enough, several at a time."""

from __future__ import annotations

from hdrl.compiled.jit import jit

_STRIDE = 8
"""Numbers that are compared together, with one branch for all: most searches go past many."""


@jit
def first_below(values, place, end, limit):
    """Return the first place of a list, from a place on, whose number is below a limit, or the end."""
    while place + _STRIDE <= end:
        least = values[place]
        for k in range(1, _STRIDE):
            least = min(least, values[place + k])
        if least < limit:
            break
        place += _STRIDE
    while place < end and values[place] >= limit:
        place += 1
    return place


@jit
def first_from(values, place, end, limit):
    """Return the first place of a list, from a place on, whose number is at least a limit, or the end."""
    while place + _STRIDE <= end:
        most = values[place]
        for k in range(1, _STRIDE):
            most = max(most, values[place + k])
        if most >= limit:
            break
        place += _STRIDE
    while place < end and values[place] < limit:
        place += 1
    return place


@jit
def last_below(values, first, end, limit):
    """Return the last place of a list, between two places, whose number is below a limit, or one before the first."""
    place = end - 1
    while place - _STRIDE >= first - 1:
        least = values[place]
        for k in range(1, _STRIDE):
            least = min(least, values[place - k])
        if least < limit:
            break
        place -= _STRIDE
    while place >= first and values[place] >= limit:
        place -= 1
    return place
