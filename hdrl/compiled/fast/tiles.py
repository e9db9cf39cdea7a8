"""Products of weights and units in the processor's vectors, whose sums stay in registers from the first to the last."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from hdrl.compiled.plain import TILE_ROWS

_ROWS = ir.VectorType(ir.FloatType(), TILE_ROWS)
_FLAGS = ("contract",)  # a product and a sum are one operation, as in the other ways


def _spread(builder: Any, number: Any) -> Any:
    """Return a vector with a number in each place."""
    nothing, int32 = ir.Constant(_ROWS, ir.Undefined), ir.IntType(32)
    first = builder.insert_element(nothing, number, ir.Constant(int32, 0))
    return builder.shuffle_vector(first, nothing, ir.Constant(ir.VectorType(int32, TILE_ROWS), [0] * TILE_ROWS))


def _rows_of(builder: Any, array: Any, unit: Any, first: Any) -> Any:
    """Return a pointer to a unit of the rows of a tile."""
    place = builder.add(builder.mul(unit, builder.extract_value(array.shape, 1)), first)
    return builder.bitcast(cgutils.gep_inbounds(builder, array.data, place), _ROWS.as_pointer())


@intrinsic
def multiply_tile(
    typing_context: Any,
    padded: Any,
    at: Any,
    per_output: Any,
    per_input: Any,
    biases: Any,
    least: Any,
    xs: Any,
    at_x: Any,
    n_in: Any,
    ys: Any,
    at_y: Any,
    first: Any,
) -> Any:
    """Multiply the units of a tile of rows by weights, to four units."""
    del typing_context, at, per_output, per_input, least, at_x, n_in, at_y, first

    def lower(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        whole, low = signature.args, arguments[5]
        weights, source, target = (context.make_array(whole[i])(context, builder, arguments[i]) for i in (0, 6, 9))
        at, per_output, per_input = arguments[1:4]
        at_x, n_in, at_y, first = arguments[7], arguments[8], arguments[10], arguments[11]
        sums = [cgutils.alloca_once(builder, _ROWS) for _ in range(biases.count)]
        for k, place in enumerate(sums):
            builder.store(_spread(builder, builder.extract_value(arguments[4], k)), place)
        with cgutils.for_range(builder, n_in) as loop:
            inputs = builder.load(_rows_of(builder, source, builder.add(at_x, loop.index), first), align=4)
            of_input = builder.add(at, builder.mul(loop.index, per_input))
            for k, place in enumerate(sums):
                at_weight = builder.add(of_input, builder.mul(per_output, context.get_constant(types.intp, k)))
                weight = _spread(builder, builder.load(cgutils.gep_inbounds(builder, weights.data, at_weight)))
                product = builder.fmul(weight, inputs, flags=_FLAGS)
                builder.store(builder.fadd(builder.load(place), product, flags=_FLAGS), place)
        lowest = _spread(builder, low)
        for k, place in enumerate(sums):
            total = builder.load(place)
            to = _rows_of(builder, target, builder.add(at_y, context.get_constant(types.intp, k)), first)
            builder.store(builder.select(builder.fcmp_ordered("<", total, lowest), lowest, total), to, align=4)
        return context.get_dummy_value()

    places = types.intp, types.intp, types.intp
    return types.void(padded, *places, biases, types.float32, xs, *places[:2], ys, *places[:2]), lower
