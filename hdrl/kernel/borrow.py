"""Passing a tuple of arrays to compiled functions as one pointer.

A named tuple of arrays is passed to a compiled function by value: two hundred machine words at every call that is not
inlined, and as much to compile in every function. `borrow` puts the tuple on the stack of the entry function and gives
a pointer to it, whose attributes read like those of the tuple. The pointer is good as long as that function runs.
"""

from __future__ import annotations

import hashlib
from typing import Any

from numba.core import cgutils, types
from numba.core.datamodel.models import PointerModel
from numba.core.imputils import impl_ret_borrowed, lower_getattr_generic
from numba.core.typing.templates import AttributeTemplate
from numba.extending import infer_getattr, intrinsic, register_model

from hdrl.kernel.jit import JIT_DISABLED


class BorrowedType(types.Type):  # type: ignore[misc]
    """The type of a pointer to a named tuple."""

    def __init__(self, lent: Any) -> None:
        self.lent = self.dtype = lent
        # The name becomes part of the symbol of every function that takes one: the tuple's own has thousands of
        # characters, and compiling is much faster without them.
        digest = hashlib.sha256(lent.name.encode()).hexdigest()[:16]
        super().__init__(name=f"Borrowed({digest})")


@register_model(BorrowedType)
class _BorrowedModel(PointerModel):  # type: ignore[misc]
    """In memory it is a pointer to the type's ``dtype``, the tuple."""


@infer_getattr
class _BorrowedAttributes(AttributeTemplate):  # type: ignore[misc]
    key = BorrowedType

    def generic_resolve(self, borrowed: BorrowedType, attribute: str) -> Any:
        """Return the type of an attribute: that of the tuple's field."""
        fields = borrowed.lent.fields
        return borrowed.lent.types[fields.index(attribute)] if attribute in fields else None


@lower_getattr_generic(BorrowedType)
def _read_attribute(context: Any, builder: Any, borrowed: BorrowedType, pointer: Any, attribute: str) -> Any:
    index = borrowed.lent.fields.index(attribute)
    value = builder.load(cgutils.gep_inbounds(builder, pointer, 0, index))
    # Where references are counted, that to an attribute is given back after its use: it has to be taken before.
    return impl_ret_borrowed(context, builder, borrowed.lent.types[index], value)


@intrinsic
def _borrow(typing_context: Any, lent: Any) -> Any:
    del typing_context

    def lower(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        del context, signature
        return cgutils.alloca_once_value(builder, arguments[0])

    return BorrowedType(lent)(lent), lower


def _itself(lent: Any) -> Any:
    return lent


borrow = _itself if JIT_DISABLED else _borrow
