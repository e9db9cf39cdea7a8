"""Handing the same arrays to compiled code again and again, as one array of addresses.

A compiled function that Python calls looks at each of its arrays anew in every call, a tenth of a microsecond for each,
and more if they have left the cache meanwhile. `Lent` writes down once where the arrays of a named tuple lie, in the
layout of numba's own tuples; `take_as` reads that as a tuple.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

import numba
import numpy as np
from numba.core import types
from numba.extending import intrinsic

from hdrl.kernel.borrow import BorrowedType
from hdrl.kernel.jit import JIT_DISABLED

T = TypeVar("T", bound=tuple[Any, ...])


class Lent(Generic[T]):
    """A named tuple of arrays for compiled code; it keeps them alive, and they must stay where they are.

    Parameters
    ----------
    arrays
        The tuple; the arrays are contiguous.

    Attributes
    ----------
    arrays
        It.
    places
        What compiled functions are given, and turn into the tuple by `take_as`.
    """

    def __init__(self, arrays: T) -> None:
        self.arrays = arrays
        self.places: Any = arrays
        if not JIT_DISABLED:
            # Of each array: two owners (none), number of elements, size of one, address, shape, strides.
            numbers = [(0, 0, a.size, a.itemsize, a.ctypes.data, *a.shape, *a.strides) for a in arrays]
            self.places = np.array([number for one in numbers for number in one], dtype=np.int64)

    def __reduce__(self) -> tuple[type[Lent[T]], tuple[T]]:
        return Lent, (self.arrays,)  # a copy's arrays lie elsewhere


def take_as(example: Callable[[], tuple[Any, ...]]) -> Any:
    """Return the compiled function that turns `Lent.places` into a borrowed tuple.

    Parameters
    ----------
    example
        Returns a tuple of the same types; it is called when something is compiled.
    """
    if JIT_DISABLED:
        return lambda places: places

    @intrinsic
    def take(typing_context: Any, places: Any) -> Any:
        del typing_context
        lent = BorrowedType(numba.typeof(example()))

        def lower(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
            return builder.bitcast(data, context.get_value_type(lent))

        return lent(types.Array(types.int64, 1, "C", readonly=not places.mutable)), lower

    return take
