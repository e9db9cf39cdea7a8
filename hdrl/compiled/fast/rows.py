"""Moving the pointers of a borrowed tuple on from one environment of a batch to the next, and copying rows as bytes."""

from __future__ import annotations

from typing import Any

from numba.core import cgutils, types
from numba.core.types.containers import NamedTuple
from numba.extending import intrinsic

from hdrl.compiled.fast.borrow import BorrowedType, new_pointer, read_field


def _move(context: Any, builder: Any, one: Any, batch: Any, to: Any, of: Any, row: Any) -> None:
    """Let the arrays of a tuple begin where a row of a batch's does, those of the tuples in it, too."""
    for index, (own, whole) in enumerate(zip(one.types, batch.types, strict=True)):
        if isinstance(own, BorrowedType):
            continue  # shared by all
        position = cgutils.gep_inbounds(builder, to, 0, index)
        if isinstance(own, NamedTuple):
            _move(context, builder, own, whole, position, cgutils.gep_inbounds(builder, of, 0, index), row)
        elif own.ndim != whole.ndim:
            source = context.make_array(whole)(context, builder, read_field(builder, of, index))
            stride = builder.extract_value(source.strides, 0)
            target = context.make_array(own)(context, builder, ref=position)
            target.data = cgutils.pointer_add(builder, source.data, builder.mul(stride, row), target.data.type)


@intrinsic
def moved_to(typing_context: Any, state: Any, batch: Any, row: Any) -> Any:
    """Let the arrays of a borrowed tuple begin where the row of the batch's arrays begins; return the tuple."""
    del typing_context, row

    def lower(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        del signature
        to, of, row = arguments
        _move(context, builder, state.tuple_type, batch.tuple_type, to, of, row)
        return new_pointer(builder, to)

    return state(state, batch, types.int64), lower


@intrinsic
def copy_rows(typing_context: Any, target: Any, source: Any, first: Any, n: Any) -> Any:
    """Copy rows of a flat array to the beginning of another."""
    del typing_context, first, n

    def lower(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        to, of = (context.make_array(signature.args[i])(context, builder, arguments[i]) for i in range(2))
        position = cgutils.gep_inbounds(builder, of.data, arguments[2])
        cgutils.raw_memcpy(builder, to.data, position, arguments[3], of.itemsize)
        return context.get_dummy_value()

    return types.void(target, source, types.intp, types.intp), lower
