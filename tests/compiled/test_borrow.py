"""Passing a tuple of arrays as one pointer: references to them are counted as if it were the tuple itself."""

from __future__ import annotations

import sys
from typing import Any, NamedTuple

import numba
import numpy as np

from hdrl.compiled.borrow import borrow
from hdrl.compiled.borrowed import Borrowed


class Pair(NamedTuple):
    left: Any
    right: Any


@numba.njit
def total(pair):
    """Read attributes where references are counted: a function without the kernel's `jit`."""
    borrowed = borrow(pair)
    return borrowed.left[0] + borrowed.right[:2].sum()


def test_references_are_given_back_as_often_as_they_are_taken():
    pair = Pair(np.arange(4.0), np.ones(4))
    assert total(pair) == 2.0
    before = [sys.getrefcount(array) for array in pair]
    for _ in range(100):
        assert total(pair) == 2.0
    assert [sys.getrefcount(array) for array in pair] == before


@numba.njit
def totals(pair, out):
    """Borrow one row after the other in a loop: what was read of one must not be taken for the next."""
    for row in range(len(out)):
        borrowed = borrow(Pair(pair.left[row], pair.right[row]))
        for i in range(len(borrowed.left)):
            borrowed.left[i] += borrowed.right[i]
            out[row] += borrowed.left[i]


def test_every_loan_is_looked_at_anew():
    left, right = np.arange(12.0).reshape(4, 3), np.ones((4, 3))
    out = np.zeros(4)
    totals(Pair(left, right), out)
    assert left.tolist() == (np.arange(12.0).reshape(4, 3) + 1).tolist()
    assert out.tolist() == left.sum(axis=1).tolist()


@numba.njit
def shift(pair, position):
    borrowed = borrow(pair)
    borrowed.left[position] = borrowed.right[position + np.int8(1)]
    return borrowed.left[np.uint8(1)], len(borrowed.right)


def test_items_are_read_and_written_by_indices_of_any_whole_type():
    pair = Pair(np.zeros(3), np.array([1, 2, 3], dtype=np.int32))
    assert shift(pair, np.int32(1)) == (3.0, 3)
    assert shift(pair, 0) == (3.0, 3)
    assert pair.left.tolist() == [2.0, 3.0, 0.0]


class Nest(NamedTuple):
    pair: Pair
    own: Any


@numba.njit
def move(nest):
    """Borrow a tuple in a tuple: what is written is written to its arrays."""
    borrowed = borrow(nest)
    borrowed.pair.left[0] = borrowed.own[1]
    return borrowed.pair.left[0] + borrowed.pair.right[2]


def test_a_tuple_in_a_tuple_is_borrowed_with_it():
    nest = Nest(Pair(np.zeros(2), np.arange(3.0)), np.array([5.0, 7.0]))
    assert move(nest) == 9.0
    assert nest.pair.left.tolist() == [7.0, 0.0]


def test_the_places_of_a_tuple_in_a_tuple_follow_each_other():
    pair = Pair(np.zeros(2), np.arange(3.0))
    own = np.ones((2, 2))
    alone = [Borrowed(pair).addresses.tolist(), Borrowed(Pair(own, own)).addresses.tolist()]
    assert Borrowed(Nest(pair, own)).addresses.tolist() == alone[0] + alone[1][: len(alone[1]) // 2]
