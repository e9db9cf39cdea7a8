"""Sorting the cores of an allocation."""

from __future__ import annotations

from hdrl.compiled import bits
from hdrl.compiled.jit import jit


@jit
def sort_cores(state, first, n):
    """Sort ``pool[first:first + n]`` ascending: different cores.

    Each is put into a set, out of which they come in order: that takes one pass, and nothing in it depends on a
    comparison that cannot be foretold.
    """
    if n < 2:
        return
    pool, words = state.pool, state.chosen
    least, greatest = pool[first], pool[first]
    for i in range(first, first + n):
        bits.put(words, pool[i])
        least, greatest = min(least, pool[i]), max(greatest, pool[i])
    place = first
    for i in range(bits.place_of(least), bits.place_of(greatest) + 1):
        word = words[i]
        words[i] = bits.NONE
        while word != bits.NONE:
            pool[place] = bits.number(i, word)
            word = bits.without_lowest(word)
            place += 1
