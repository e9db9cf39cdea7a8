"""Telling the processor which memory will be needed soon."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

_READ, _KEEP, _DATA = 0, 3, 1


@intrinsic
def fetch_line(typing_context: Any, array: Any, offset: Any) -> Any:
    """Begin to fetch the line of memory that is some bytes after the beginning of an array."""
    del typing_context, offset

    def lower(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        place = cgutils.pointer_add(builder, data, arguments[1], cgutils.voidptr_t)
        numbers = [ir.IntType(32)(number) for number in (_READ, _KEEP, _DATA)]
        kind = ir.FunctionType(ir.VoidType(), [cgutils.voidptr_t, *(number.type for number in numbers)])
        builder.call(builder.module.declare_intrinsic("llvm.prefetch", [cgutils.voidptr_t], kind), [place, *numbers])
        return context.get_dummy_value()

    return types.void(array, types.int64), lower
