"""Float32 numbers by the address of the first of them: for entries that are given many arrays of different lengths.

``read(address, i)`` returns the number at a position, ``write(address, i, number)`` puts one there. Compiled code alone
can do so.
"""

from __future__ import annotations

from typing import Any

from hdrl.compiled.jit import Later


def _place(context: Any, builder: Any, address: Any, index: Any) -> Any:
    from numba import types

    pointer = context.get_value_type(types.CPointer(types.float32))
    return builder.gep(builder.inttoptr(address, pointer), [index])


def _read() -> Any:
    from numba import types
    from numba.extending import intrinsic

    @intrinsic
    def read(typing_context: Any, address: Any, index: Any) -> Any:
        """Return a number."""
        del typing_context, address, index

        def lower(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            del signature
            return builder.load(_place(context, builder, *arguments))

        return types.float32(types.int64, types.int64), lower

    return read


def _write() -> Any:
    from numba import types
    from numba.extending import intrinsic

    @intrinsic
    def write(typing_context: Any, address: Any, index: Any, number: Any) -> Any:
        """Put a number to its position."""
        del typing_context, address, index, number

        def lower(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            del signature
            builder.store(arguments[2], _place(context, builder, *arguments[:2]))
            return context.get_dummy_value()

        return types.void(types.int64, types.int64, types.float32), lower

    return write


read, write = Later(_read), Later(_write)
