"""Reading the addresses of arrays as a borrowed tuple, in the layout of Numba's own tuples."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
from numba.core import types
from numba.extending import intrinsic

from hdrl.compiled.fast.borrow import BorrowedType


def take_as(example: Callable[[], tuple[Any, ...]]) -> Any:
    """Return the compiled function that turns the places of a `Lent` into a borrowed tuple."""

    @intrinsic
    def take(typing_context: Any, places: Any) -> Any:
        del typing_context
        lent = BorrowedType(numba.typeof(example()))

        def lower(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
            return builder.bitcast(data, context.get_value_type(lent))

        return lent(types.Array(types.int64, 1, "C", readonly=not places.mutable)), lower

    return take
