"""Sets of small whole numbers as bits: to put one in takes no branch, and they come out in ascending order."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hdrl.compiled.jit import backend, jit

lowest, n_of = backend("bits.lowest"), backend("bits.n_of")

_SHIFT, _MASK = 6, 63
_ONE = np.uint64(1)

WORD = 64
"""Bits of a word."""

NONE = np.uint64(0)
ALL = np.uint64(2**64 - 1)
"""Words with no bit set, and with all bits set."""


def all_of(n: int) -> NDArray[np.uint64]:
    """Return a set of all numbers below ``n``."""
    words = none_of(n)
    words[: n >> _SHIFT] = ALL
    words[n >> _SHIFT] = ALL >> np.uint64(WORD - n % WORD) if n % WORD else NONE
    return words


def none_of(n: int) -> NDArray[np.uint64]:
    """Return an empty set of numbers below ``n``."""
    # One word more than that takes: `cut` reads two at a time.
    return np.zeros(((n + _MASK) >> _SHIFT) + 1, dtype=np.uint64)


def as_flags(words: NDArray[np.uint64], n: int) -> NDArray[np.bool_]:
    """Tell of each number below ``n`` whether it is in a set."""
    numbers = np.arange(n)
    return (words[numbers >> _SHIFT] >> (numbers & _MASK).astype(np.uint64)) & _ONE != NONE


@jit
def word_of(value):
    """Return the index of the word that has the bit of a number."""
    return value >> _SHIFT


@jit
def _bit_of(value):
    return _ONE << np.uint64(value & _MASK)


@jit
def put(words, value):
    """Put a number into a set."""
    words[word_of(value)] |= _bit_of(value)


@jit
def take_out(words, value):
    """Take a number out of a set that holds it."""
    words[word_of(value)] ^= _bit_of(value)


@jit
def has(words, value):
    """Tell whether a number is in a set."""
    return words[word_of(value)] & _bit_of(value) != NONE


@jit
def after_skipping(words, value, n):
    """Return the number of a set that is at least ``value`` and has ``n`` such before it; there must be one."""
    place = word_of(value)
    word = words[place] & (ALL << np.uint64(value & _MASK))
    n_here = n_of(word)
    while n >= n_here:
        n -= n_here
        place += 1
        word = words[place]
        n_here = n_of(word)
    for _ in range(n):
        word = without_lowest(word)
    return number(place, word)


@jit
def lowest_ones(n):
    """Return a word whose lowest ``n`` bits are set, 1 to `WORD`."""
    return ALL >> np.uint64(WORD - n)


@jit
def cut(words, value, n):
    """Return ``n`` bits of a set as a word, 1 to `WORD`: the lowest one stands for ``value``."""
    place, shift = word_of(value), value & _MASK
    upper = words[place + 1] << np.uint64(_MASK - shift) << _ONE
    return (words[place] >> np.uint64(shift) | upper) & lowest_ones(n)


@jit
def put_word(words, value, word):
    """Put the numbers that the bits of a word stand for into a set: the lowest one stands for ``value``."""
    place, shift = word_of(value), value & _MASK
    words[place] |= word << np.uint64(shift)
    words[place + 1] |= word >> np.uint64(_MASK - shift) >> _ONE


@jit
def number(place, word):
    """Return the lowest number that a word still holds, which is ``words[place]`` or what is left of it; not zero."""
    return (place << _SHIFT) + lowest(word)


@jit
def without_lowest(word):
    """Return a word without its lowest bit that is set."""
    return word & (word - _ONE)
