"""Sets of numbers as bits, and sorting by them."""

from __future__ import annotations

from typing import NamedTuple

import numba
import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from hdrl.compiled import bits
from hdrl.settings.batch.kernel.cluster import sort_cores

SIZE = 200
"""Numbers in these sets are below this: three words and a part of one."""

# What Python cannot call, a compiled function can.


@numba.njit
def members(words):  # type: ignore[no-untyped-def]
    found = []
    for position in range(len(words)):
        word = words[position]
        while word != bits.NONE:
            found.append(bits.number(position, word))
            word = bits.without_lowest(word)
    return found


@numba.njit
def put(words, value):  # type: ignore[no-untyped-def]
    bits.put(words, value)


@numba.njit
def take_out(words, value):  # type: ignore[no-untyped-def]
    bits.take_out(words, value)


@numba.njit
def has(words, value):  # type: ignore[no-untyped-def]
    return bits.has(words, value)


@numba.njit
def after_skipping(words, value, n):  # type: ignore[no-untyped-def]
    return bits.after_skipping(words, value, n)


@numba.njit
def cut(words, value, n):  # type: ignore[no-untyped-def]
    return bits.cut(words, value, n)


@numba.njit
def put_word(words, value, word):  # type: ignore[no-untyped-def]
    bits.put_word(words, value, word)


class Pool(NamedTuple):
    """The part of a state that is sorted, and what that takes."""

    pool: NDArray[np.int32]
    chosen: NDArray[np.uint64]


@numba.njit
def sort(pool, first, n):  # type: ignore[no-untyped-def]
    sort_cores(pool, first, n)


numbers = st.sets(st.integers(0, SIZE - 1))


def set_of(values: set[int]) -> NDArray[np.uint64]:
    """Return a set that holds some numbers."""
    words = bits.none_of(SIZE)
    for value in values:
        put(words, value)
    return words


@given(numbers, numbers)
def test_what_is_put_in_and_not_taken_out_comes_out_in_order(values: set[int], gone: set[int]):
    words = set_of(values | gone)
    for value in gone:
        take_out(words, value)
    assert list(members(words)) == sorted(values - gone)
    assert np.flatnonzero(bits.as_flags(words, SIZE)).tolist() == sorted(values - gone)
    assert [has(words, value) for value in range(SIZE)] == [value in values - gone for value in range(SIZE)]


@given(st.integers(0, 3 * bits.WORD))
def test_all_numbers_and_none(n: int):
    assert list(members(bits.all_of(n))) == list(range(n))
    assert list(members(bits.none_of(n))) == []
    assert len(bits.all_of(n)) == len(bits.none_of(n))


@given(numbers, st.integers(0, SIZE - 1), st.data())
def test_skipping(values: set[int], least: int, data: st.DataObject):
    large_enough = sorted(value for value in values if value >= least)
    if large_enough:
        n = data.draw(st.integers(0, len(large_enough) - 1))
        assert after_skipping(set_of(values), least, n) == large_enough[n]


@given(numbers, st.integers(0, SIZE - 1), st.integers(1, bits.WORD))
def test_cutting_a_word_out(values: set[int], first: int, n: int):
    expected = sum(1 << (value - first) for value in values if first <= value < min(first + n, SIZE))
    assert int(cut(set_of(values), first, n)) == expected


@given(numbers, st.integers(0, SIZE - bits.WORD), st.integers(0, 2**bits.WORD - 1))
def test_putting_a_word_in(values: set[int], first: int, word: int):
    words = set_of(values)
    put_word(words, first, np.uint64(word))
    expected = values | {first + bit for bit in range(bits.WORD) if word >> bit & 1}
    assert list(members(words)) == sorted(expected)


@given(st.lists(st.integers(0, SIZE - 1), unique=True), st.integers(0, 3), st.integers(0, 3))
def test_sorting_cores(cores: list[int], before: int, after: int):
    pool = Pool(np.array([7] * before + cores + [3] * after, dtype=np.int32), bits.none_of(SIZE))
    sort(pool, before, len(cores))
    assert pool.pool.tolist() == [7] * before + sorted(cores) + [3] * after
    assert not pool.chosen.any(), "ready for the next time"
