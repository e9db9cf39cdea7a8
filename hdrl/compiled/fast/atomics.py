"""Reading and writing integers that several threads share."""

from __future__ import annotations

from typing import Any

from numba.core import cgutils, types
from numba.extending import intrinsic


def _item(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    team = context.make_array(signature.args[0])(context, builder, arguments[0])
    return cgutils.gep(builder, team.data, arguments[1])


@intrinsic
def load(typing_context: Any, team: Any, position: Any) -> Any:
    """Return an integer of an array."""
    del typing_context, position

    def lower(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.load_atomic(_item(context, builder, signature, arguments), "seq_cst", 8)

    return types.int64(team, types.intp), lower


@intrinsic
def add(typing_context: Any, team: Any, position: Any, value: Any) -> Any:
    """Add to an integer of an array; return what it was."""
    del typing_context, position, value

    def lower(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.atomic_rmw("add", _item(context, builder, signature, arguments), arguments[2], "seq_cst")

    return types.int64(team, types.intp, types.int64), lower
