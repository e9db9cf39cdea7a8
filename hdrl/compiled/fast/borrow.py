"""Passing a tuple of arrays to compiled functions as one pointer.

A named tuple of arrays is passed to a compiled function by value: two hundred machine words at every call that is not
inlined, and as much to compile in every function. `borrow` puts the tuple on the stack of the entry function and gives
a pointer to it, whose attributes read like those of the tuple; an attribute that is such a tuple again is a pointer to
that. The pointer is good as long as that function runs.

Two things make the compiled code about half as long. The compiler knows that what such a pointer points to never
changes, so that no loop reads it twice: code that writes another tuple to the same address takes a `new_pointer` to it.
And indices into arrays of one dimension are not negative: code that may count from an array's end looks at its length
in every access.
"""

from __future__ import annotations

import hashlib
import operator
from collections.abc import Callable
from typing import Any

import numba
from llvmlite import ir
from numba.core import cgutils, types
from numba.core.datamodel.models import ArrayModel, PointerModel
from numba.core.imputils import impl_ret_borrowed, lower_builtin, lower_getattr_generic
from numba.core.types.containers import NamedTuple
from numba.core.typing.templates import AttributeTemplate
from numba.extending import infer_getattr, intrinsic, register_model
from numba.np.arrayobj import load_item, make_array, store_item


class BorrowedType(types.Type):  # type: ignore[misc]
    """The type of a pointer to a named tuple."""

    def __init__(self, tuple_type: Any) -> None:
        self.tuple_type = self.dtype = tuple_type
        # The name becomes part of the symbol of every function that takes one: the tuple's own has thousands of
        # characters, and compiling is much faster without them.
        digest = hashlib.sha256(tuple_type.name.encode()).hexdigest()[:16]
        super().__init__(name=f"Borrowed({digest})")


@register_model(BorrowedType)
class _BorrowedModel(PointerModel):  # type: ignore[misc]
    """In memory it is a pointer to the type's ``dtype``, the tuple."""


class BorrowedArrayType(types.Array):  # type: ignore[misc]
    """The type of a contiguous array of one dimension in a borrowed tuple: its indices are not negative."""

    def __init__(self, array: Any) -> None:
        super().__init__(
            array.dtype, 1, "C", readonly=not array.mutable, name=f"BorrowedArray({array.name})", aligned=array.aligned
        )


register_model(BorrowedArrayType)(ArrayModel)


def _item_pointer(context: Any, builder: Any, array_type: Any, array: Any, index_type: Any, index: Any) -> Any:
    position = context.cast(builder, index, index_type, types.intp)
    found = make_array(array_type)(context, builder, array)
    if context.enable_boundscheck:  # NUMBA_BOUNDSCHECK=1; negative indices are out of bounds here
        cgutils.do_boundscheck(context, builder, position, builder.extract_value(found.shape, 0))
    return builder.gep(found.data, [position], inbounds=True)


@lower_builtin(operator.getitem, BorrowedArrayType, types.Integer)
def _get_item(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    array_type, index_type = signature.args
    pointer = _item_pointer(context, builder, array_type, arguments[0], index_type, arguments[1])
    return impl_ret_borrowed(context, builder, signature.return_type, load_item(context, builder, array_type, pointer))


@lower_builtin(operator.setitem, BorrowedArrayType, types.Integer, types.Any)
def _set_item(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    array_type, index_type, value_type = signature.args
    pointer = _item_pointer(context, builder, array_type, arguments[0], index_type, arguments[1])
    store_item(context, builder, array_type, context.cast(builder, arguments[2], value_type, array_type.dtype), pointer)
    return context.get_dummy_value()


def _type_when_borrowed(attribute: Any) -> Any:
    if isinstance(attribute, NamedTuple):
        return BorrowedType(attribute)
    is_flat = isinstance(attribute, types.Array) and attribute.ndim == 1 and attribute.layout == "C"
    return BorrowedArrayType(attribute) if is_flat else attribute


@infer_getattr
class _BorrowedAttributes(AttributeTemplate):  # type: ignore[misc]
    key = BorrowedType

    def generic_resolve(self, borrowed: BorrowedType, attribute: str) -> Any:
        """Return the type of an attribute: the type of the tuple's field."""
        fields = borrowed.tuple_type.fields
        return _type_when_borrowed(borrowed.tuple_type.types[fields.index(attribute)]) if attribute in fields else None


@lower_getattr_generic(BorrowedType)
def _read_attribute(context: Any, builder: Any, borrowed: BorrowedType, pointer: Any, attribute: str) -> Any:
    index = borrowed.tuple_type.fields.index(attribute)
    if isinstance(borrowed.tuple_type.types[index], NamedTuple):  # a tuple in the tuple is where that is
        return cgutils.gep_inbounds(builder, pointer, 0, index)
    value = read_field(builder, pointer, index)
    # Where references are counted, that to an attribute is given back after its use: it has to be taken before.
    return impl_ret_borrowed(context, builder, _type_when_borrowed(borrowed.tuple_type.types[index]), value)


def read_field(builder: Any, pointer: Any, index: int) -> Any:
    """Return a field of a borrowed tuple, which never changes."""
    value = builder.load(cgutils.gep_inbounds(builder, pointer, 0, index))
    value.set_metadata("invariant.load", builder.module.add_metadata([]))
    return value


def new_pointer(builder: Any, pointer: Any) -> Any:
    """Return a pointer to a borrowed tuple that has just been written; nothing has been read by it before."""
    kind = ir.FunctionType(pointer.type, [pointer.type])
    return builder.asm(kind, "", "=r,0,~{memory}", [pointer], side_effect=True)


@intrinsic
def borrow(typing_context: Any, arrays: Any) -> Any:
    """Return a pointer to a named tuple of arrays."""
    del typing_context

    def lower(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        del context, signature
        return new_pointer(builder, cgutils.alloca_once_value(builder, arguments[0]))

    return BorrowedType(arrays)(arrays), lower


def take_as(example: Callable[[], tuple[Any, ...]]) -> Any:
    """Return the compiled function that turns the addresses of a `Borrowed` into a borrowed tuple."""

    @intrinsic
    def take(typing_context: Any, addresses: Any) -> Any:
        del typing_context
        borrowed = BorrowedType(numba.typeof(example()))

        def lower(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
            return builder.bitcast(data, context.get_value_type(borrowed))

        return borrowed(types.Array(types.int64, 1, "C", readonly=not addresses.mutable)), lower

    return take
