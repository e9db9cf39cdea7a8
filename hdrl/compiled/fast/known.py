"""Check of Numba's internals, on which the fast way depends: a small batch is read, moved along and written to.

The check covers all that depends on parts of Numba which may change: the layout of its tuples in memory, tuples in
tuples, pointers that are moved from row to row, unchecked indices, and the instructions of `bits`.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numba
import numpy as np

from hdrl.base.errors import SimulationError
from hdrl.compiled.borrowed import Borrowed
from hdrl.compiled.fast.bits import lowest, n_of
from hdrl.compiled.fast.borrow import borrow, take_as
from hdrl.compiled.fast.parts import WHOLE
from hdrl.compiled.fast.rows import moved_to


class _Inner(NamedTuple):
    marks: Any
    seen: Any


class _Outer(NamedTuple):
    numbers: Any
    inner: _Inner
    shared: Any


def _batch() -> _Outer:
    marks = np.arange(4, dtype=np.int64).reshape(2, 2)
    return _Outer(np.arange(6.0).reshape(2, 3), _Inner(marks, np.full((2, 1), 24, dtype=np.uint64)), np.full(1, 0.5))


@cache
def check() -> None:
    """Check that what is compiled the fast way does what it should: a third of a second, once a process that compiles.

    Raises
    ------
    SimulationError
        If it does not.
    """
    batch_at = take_as(_batch)

    @numba.njit(nogil=True, error_model="numpy", **WHOLE)
    def look(positions):  # type: ignore[no-untyped-def]
        batch = batch_at(positions)
        inner = _Inner(batch.inner.marks[0], batch.inner.seen[0])
        one = borrow(_Outer(batch.numbers[0], inner, batch.shared))
        one = moved_to(one, batch, 1)
        one.inner.marks[1] += np.int64(one.numbers[2])
        word = one.inner.seen[0]
        return one.numbers[1] + one.shared[0], n_of(word) + 8 * lowest(word)

    borrowed = Borrowed(_batch())
    try:
        found = look(borrowed.addresses)
    except Exception as error:
        raise SimulationError(_text(f"it does not compile: {str(error).splitlines()[0]}")) from error
    written = borrowed.arrays.inner.marks.tolist()
    if (*found, written) != (4.5, 2 + 8 * 3, [[0, 1], [2, 8]]):
        raise SimulationError(_text(f"a small batch became {(*found, written)}"))


def _text(what: str) -> str:
    return f"Numba {numba.__version__} is not as compiled code needs it, {what}; set HDRL_PLAIN_NUMBA=1"
