"""Borrowing the same arrays again and again, as one array of addresses.

A compiled function that Python calls looks at each of its arrays anew in every call, a tenth of a microsecond for each,
and more if they have left the cache meanwhile. `Borrowed` writes down once where the arrays of a named tuple lie; what
`hdrl.compiled.borrow.take_as` returns reads that as a tuple.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Generic, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from hdrl.compiled.backends import IS_FAST

Addresses: TypeAlias = Any
"""Argument of compiled functions that stands for a `Borrowed`; the result of `take_as` turns it into the tuple."""

T = TypeVar("T", bound=tuple[Any, ...])


class Borrowed(Generic[T]):
    """A named tuple of arrays for compiled code; it keeps them alive, and they must stay where they are.

    Attributes
    ----------
    arrays
        The tuple; the arrays are contiguous. What it holds may be such tuples again.
    addresses
        Argument of compiled functions; the result of `take_as` turns it into the tuple.
    """

    def __init__(self, arrays: T) -> None:
        self.arrays = arrays
        self.addresses: Addresses = arrays
        if IS_FAST:
            self.addresses = _addresses_of(arrays)

    def __reduce__(self) -> tuple[type[Borrowed[T]], tuple[T]]:
        return Borrowed, (self.arrays,)  # a copy's arrays lie elsewhere


def _addresses_of(arrays: tuple[Any, ...]) -> NDArray[np.int64]:
    """Return the addresses of the arrays of a tuple, in the layout of Numba's own tuples."""
    # Of each array: two owners (none), number of elements, size of one, address, shape, strides.
    numbers = [(0, 0, a.size, a.itemsize, a.ctypes.data, *a.shape, *a.strides) for a in _flat(arrays)]
    return np.array([number for one in numbers for number in one], dtype=np.int64)


def _flat(arrays: tuple[Any, ...]) -> Iterator[NDArray[Any]]:
    """Yield the arrays of a tuple, and of the tuples in it, as they follow each other."""
    for one in arrays:
        if isinstance(one, tuple):
            yield from _flat(one)
        else:
            yield one
