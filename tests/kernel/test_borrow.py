"""Passing a tuple of arrays as one pointer: references to them are counted as if it were the tuple itself."""

from __future__ import annotations

import sys
from typing import Any, NamedTuple

import numba
import numpy as np

from hdrl.kernel.borrow import borrow


class Pair(NamedTuple):
    left: Any
    right: Any


@numba.njit
def total(pair):
    """Read attributes where references are counted: a function without the kernel's `jit`."""
    lent = borrow(pair)
    return lent.left[0] + lent.right[:2].sum()


def test_references_are_given_back_as_often_as_they_are_taken():
    pair = Pair(np.arange(4.0), np.ones(4))
    assert total(pair) == 2.0
    before = [sys.getrefcount(array) for array in pair]
    for _ in range(100):
        assert total(pair) == 2.0
    assert [sys.getrefcount(array) for array in pair] == before
