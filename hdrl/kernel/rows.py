"""Looking at one environment of a batch: its arrays are rows of the batch's, but for what all environments share.

A new tuple of views for each environment would be some hundred machine words to write; here the tuple is made once in a
call, and only the pointers in it are moved on from one environment to the next.
"""

from __future__ import annotations

from typing import Any

from numba.core import cgutils, types
from numba.extending import intrinsic

from hdrl.kernel.borrow import new_pointer, read_field
from hdrl.kernel.jit import JIT_DISABLED


@intrinsic
def _moved_to(typing_context: Any, state: Any, batch: Any, row: Any) -> Any:
    """Let the arrays of a borrowed tuple begin where the row of the batch's arrays begins; return the tuple."""
    del typing_context, row

    def lower(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        del signature
        to, of, row = arguments
        for index, (own, whole) in enumerate(zip(state.lent.types, batch.lent.types, strict=True)):
            if own.ndim == whole.ndim:
                continue  # shared by all
            source = context.make_array(whole)(context, builder, read_field(builder, of, index))
            stride = builder.extract_value(source.strides, 0)
            place = cgutils.gep_inbounds(builder, to, 0, index)
            target = context.make_array(own)(context, builder, ref=place)
            target.data = cgutils.pointer_add(builder, source.data, builder.mul(stride, row), target.data.type)
        return new_pointer(builder, to)

    return state(state, batch, types.int64), lower


def _row_of(state: Any, batch: Any, row: int) -> Any:
    """Return the arrays of an environment: the plain twin of `_moved_to`."""
    pairs = zip(state, batch, strict=True)
    return type(state)._make(whole if own.ndim == whole.ndim else whole[row] for own, whole in pairs)


moved_to = _row_of if JIT_DISABLED else _moved_to
"""Let a borrowed tuple look at another row of a batch: ``moved_to(state, batch, row)`` returns the tuple from then on.

The tuple must have been made of some row of the same batch. Arrays that have as many dimensions in both are shared.
"""
