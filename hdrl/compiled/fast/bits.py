"""Instructions of the processor that look at all bits of a word at once."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic


@intrinsic
def n_of(typing_context: Any, word: Any) -> Any:
    """Return the number of set bits of a word."""
    del typing_context

    def lower(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        del context, signature
        return builder.ctpop(arguments[0])

    return types.int64(types.uint64), lower if word == types.uint64 else None


@intrinsic
def lowest(typing_context: Any, word: Any) -> Any:
    """Return the number of the lowest bit of a word that is set."""
    del typing_context

    def lower(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        del context, signature
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.uint64), lower if word == types.uint64 else None
