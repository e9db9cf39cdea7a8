"""Calls from Python of compiled code that is loaded without Numba: a function of its C interface.

It reads arrays, and tuples of arrays, from where these objects lie in memory. What is read is what every compiled
extension of NumPy reads (``PyArray_DATA`` and its like are inlined into it), so that it changes only with the binary
interface. An array is only read if it has as many dimensions, and elements of such a type, as the code was made for.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.pythonapi import PythonAPI
from numba.core.types.containers import BaseTuple
from numba.core.types.misc import unliteral
from numba.np.arrayobj import make_array, populate_array
from numba.np.numpy_support import as_dtype

_HEAD = object.__basicsize__
"""Bytes that every object begins with."""

# Of an array, after these: its elements, number of dimensions (and padding), shape, strides, base, type of elements.
_DATA, _N_DIMENSIONS, _SHAPE, _STRIDES, _DTYPE = (_HEAD + 8 * place for place in (0, 1, 2, 3, 5))

_NUMBER = _HEAD + 12
"""Offset of the number of a type of elements: after its class, and four characters."""

_ITEMS = tuple.__basicsize__
"""Offset of the items of a tuple."""

_BYTES = ir.IntType(8).as_pointer()
_INT32, _INT64 = ir.IntType(32), ir.IntType(64)

RETURNED = {types.boolean: "bool_from_bool", types.int64: "long_from_longlong", types.float64: "float_from_double"}
"""Conversions of returned numbers, by their type: names of functions of Numba's Python interface."""


class BareCall:
    """Builds the function that Python calls."""

    def __init__(self, context: Any, module: Any, name: str, compiled: Any) -> None:
        objects = _BYTES.as_pointer()
        function = ir.Function(module, ir.FunctionType(_BYTES, [_BYTES, objects, _INT64]), name)
        self._context = context
        self._compiled = compiled
        self._given, self._n_given = function.args[1:]
        self._builder = ir.IRBuilder(function.append_basic_block())
        self._python = PythonAPI(context, self._builder)

    def build(self) -> None:
        """Build it: take the arguments, call without the lock of Python, return the numbers."""
        context, builder, python = self._context, self._builder, self._python
        takes, returns = self._compiled.signature.args, self._compiled.signature.return_type
        is_wrong = builder.icmp_signed("!=", self._n_given, _INT64(len(takes)))
        self._refuse_if(is_wrong, f"expected {len(takes)} arguments")
        values = [self._argument(position, kind) for position, kind in enumerate(takes)]
        thread = python.save_thread()
        called = context.declare_function(builder.module, self._compiled.fndesc)
        status, result = context.call_conv.call_function(builder, called, returns, takes, values)
        python.restore_thread(thread)
        self._refuse_if(status.is_error, "compiled code stopped with an error", "PyExc_RuntimeError")
        if returns == types.none:
            builder.ret(builder.bitcast(python.make_none(), _BYTES))
        elif isinstance(returns, BaseTuple):
            items = [
                self._number(kind, builder.extract_value(result, position)) for position, kind in enumerate(returns)
            ]
            packed = python.tuple_pack(items)
            for item in items:
                python.decref(item)
            builder.ret(builder.bitcast(packed, _BYTES))
        else:
            builder.ret(builder.bitcast(self._number(returns, result), _BYTES))

    def _refuse_if(self, is_wrong: Any, text: str, error: str = "PyExc_TypeError") -> None:
        builder, python = self._builder, self._python
        with cgutils.if_unlikely(builder, is_wrong):
            # To the linker, the name is that of a pointer to the object; Numba gives it another meaning.
            kind = builder.load(builder.bitcast(python.get_c_object(error), python.pyobj.as_pointer()))
            python.err_set_string(kind, text)
            builder.ret(_BYTES(None))

    def _read(self, pointer: Any, offset: int, kind: Any) -> Any:
        position = cgutils.gep(self._builder, pointer, offset)
        return self._builder.load(self._builder.bitcast(position, kind.as_pointer()))

    def _number(self, kind: Any, value: Any) -> Any:
        return getattr(self._python, RETURNED[unliteral(kind)])(value)

    def _argument(self, position: int, kind: Any) -> Any:
        """Return an argument as compiled functions take it."""
        python, builder = self._python, self._builder
        given = builder.load(cgutils.gep(builder, self._given, position))
        if not isinstance(kind, types.Number | types.Boolean):
            return self._object(given, kind, f"argument {position + 1}: ")
        an_object = builder.bitcast(given, python.pyobj)
        if kind == types.boolean:
            return builder.icmp_signed("!=", python.object_istrue(an_object), _INT32(0))
        value = python.float_as_double(an_object) if kind == types.float64 else python.long_as_longlong(an_object)
        with cgutils.if_unlikely(builder, cgutils.is_not_null(builder, python.err_occurred())):
            builder.ret(_BYTES(None))
        return value

    def _object(self, given: Any, kind: Any, where: str) -> Any:
        if isinstance(kind, types.Array):
            return self._array(given, kind, where)
        items = [self._read(given, _ITEMS + 8 * position, _BYTES) for position in range(len(kind))]
        values = [
            self._object(item, one, f"{where}item {position + 1}: ")
            for position, (one, item) in enumerate(zip(kind, items, strict=True))
        ]
        return self._context.make_tuple(self._builder, kind, values)

    def _array(self, given: Any, kind: Any, where: str) -> Any:
        builder, dtype = self._builder, as_dtype(kind.dtype)
        number = self._read(self._read(given, _DTYPE, _BYTES), _NUMBER, _INT32)
        is_other = builder.or_(
            builder.icmp_signed("!=", self._read(given, _N_DIMENSIONS, _INT32), _INT32(kind.ndim)),
            builder.icmp_signed("!=", number, _INT32(dtype.num)),
        )
        element = dtype.name if dtype.names is None else "rows"
        self._refuse_if(is_other, f"{where}expected a {kind.ndim}-dimensional array of {element}")
        array = make_array(kind)(self._context, builder)
        lengths = [self._read(given, position, _BYTES) for position in (_SHAPE, _STRIDES)]
        shape, strides = ([self._read(one, 8 * axis, _INT64) for axis in range(kind.ndim)] for one in lengths)
        populate_array(
            array,
            data=builder.bitcast(self._read(given, _DATA, _BYTES), array.data.type),
            shape=shape,
            strides=strides,
            itemsize=self._context.get_constant(types.intp, dtype.itemsize),
            meminfo=None,
        )
        return array._getvalue()  # noqa: SLF001 - as everywhere in Numba
