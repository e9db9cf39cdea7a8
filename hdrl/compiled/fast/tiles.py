"""Products of weights and units in the processor's vectors, whose sums stay in registers from the first to the last."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from hdrl.compiled.backends import TILE_ROWS

_ROWS = ir.VectorType(ir.FloatType(), TILE_ROWS)
_N_OUTPUTS, _N_INPUTS = 4, 4


def _spread(builder: Any, number: Any) -> Any:
    """Return a vector with a number in each position."""
    nothing, int32 = ir.Constant(_ROWS, ir.Undefined), ir.IntType(32)
    first = builder.insert_element(nothing, number, ir.Constant(int32, 0))
    return builder.shuffle_vector(first, nothing, ir.Constant(ir.VectorType(int32, TILE_ROWS), [0] * TILE_ROWS))


def _fma(builder: Any, a: Any, b: Any, c: Any) -> Any:
    """Return the product of two vectors, and a third added to it, rounded once."""
    kind = ir.FunctionType(_ROWS, [_ROWS] * 3)
    return builder.call(cgutils.get_or_insert_function(builder.module, kind, f"llvm.fma.v{TILE_ROWS}f32"), (a, b, c))


def _rows_of(builder: Any, array: Any, unit: Any, first: Any) -> Any:
    """Return a pointer to a unit of the rows of a tile."""
    position = builder.add(builder.mul(unit, builder.extract_value(array.shape, 1)), first)
    return builder.bitcast(cgutils.gep_inbounds(builder, array.data, position), _ROWS.as_pointer())


def _has_long_vectors(context: Any) -> bool:
    """Tell whether a vector fills one of 32 registers; else it fills two of 16."""
    return "+avx512f" in context.codegen().magic_tuple()[2]


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
        _multiply(context, builder, signature, arguments, 1)
        return context.get_dummy_value()

    positions = types.intp, types.intp, types.intp
    return types.void(padded, *positions, biases, types.float32, xs, *positions[:2], ys, *positions[:2]), lower


@intrinsic
def multiply_two_tiles(
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
    """Multiply the units of two tiles of rows, which lie side by side, as `multiply_tile`."""
    del typing_context, at, per_output, per_input, least, at_x, n_in, at_y, first

    def lower(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        if _has_long_vectors(context):  # both at once: four sums alone wait for each other
            _multiply(context, builder, signature, arguments, 2)
        else:
            following = builder.add(arguments[11], context.get_constant(types.intp, TILE_ROWS))
            for position in (arguments[11], following):
                _multiply(context, builder, signature, (*arguments[:11], position), 1)
        return context.get_dummy_value()

    positions = types.intp, types.intp, types.intp
    return types.void(padded, *positions, biases, types.float32, xs, *positions[:2], ys, *positions[:2]), lower


def _multiply(context: Any, builder: Any, signature: Any, arguments: Any, n_tiles: int) -> None:
    """Write the code of `multiply_tile` for tiles that lie side by side."""
    whole, low = signature.args, arguments[5]
    weights, source, target = (context.make_array(whole[i])(context, builder, arguments[i]) for i in (0, 6, 9))
    at, per_output, per_input = arguments[1:4]
    at_x, n_in, at_y = arguments[7], arguments[8], arguments[10]
    tiles = [builder.add(arguments[11], context.get_constant(types.intp, tile * TILE_ROWS)) for tile in range(n_tiles)]
    sums = [[cgutils.alloca_once(builder, _ROWS) for _ in tiles] for _ in range(signature.args[4].count)]
    for k, row in enumerate(sums):
        bias = _spread(builder, builder.extract_value(arguments[4], k))
        for position in row:
            builder.store(bias, position)
    with cgutils.for_range(builder, n_in) as loop:
        unit = builder.add(at_x, loop.index)
        inputs = [builder.load(_rows_of(builder, source, unit, tile), align=4) for tile in tiles]
        of_input = builder.add(at, builder.mul(loop.index, per_input))
        for k, row in enumerate(sums):
            at_weight = builder.add(of_input, builder.mul(per_output, context.get_constant(types.intp, k)))
            weight = _spread(builder, builder.load(cgutils.gep_inbounds(builder, weights.data, at_weight)))
            for position, numbers in zip(row, inputs, strict=True):
                builder.store(_fma(builder, weight, numbers, builder.load(position)), position)
    lowest = _spread(builder, low)
    for k, row in enumerate(sums):
        unit = builder.add(at_y, context.get_constant(types.intp, k))
        for position, tile in zip(row, tiles, strict=True):
            total = builder.load(position)
            to = _rows_of(builder, target, unit, tile)
            builder.store(builder.select(builder.fcmp_ordered("<", total, lowest), lowest, total), to, align=4)


def _sum_of(builder: Any, numbers: Any) -> Any:
    """Return the sum of a vector: its halves are added until one number is left."""
    n = TILE_ROWS
    while n > 1:
        n //= 2
        positions = [ir.Constant(ir.VectorType(ir.IntType(32), n), [*range(i * n, (i + 1) * n)]) for i in range(2)]
        nothing = ir.Constant(numbers.type, ir.Undefined)
        numbers = builder.fadd(*(builder.shuffle_vector(numbers, nothing, position) for position in positions))
    return builder.extract_element(numbers, ir.Constant(ir.IntType(32), 0))


@intrinsic
def collect_tile(  # noqa: C901 - code is written for each of the loops
    typing_context: Any, gradients: Any, at: Any, per_output: Any, xs: Any, at_x: Any, ys: Any, at_y: Any, n_rows: Any
) -> Any:
    """Add to the gradients by four times four weights what rows give."""
    del typing_context, at, per_output, at_x, at_y, n_rows

    def lower(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        whole = signature.args
        to, xs, ys = (context.make_array(whole[i])(context, builder, arguments[i]) for i in (0, 3, 5))
        at, per_output, at_x, at_y, n_rows = (arguments[i] for i in (1, 2, 4, 6, 7))
        constants = [context.get_constant(types.intp, k) for k in range(max(_N_INPUTS, _N_OUTPUTS))]
        step = context.get_constant(types.intp, TILE_ROWS)

        def collect(outputs: range) -> None:
            sums = [[cgutils.alloca_once(builder, _ROWS) for _ in range(_N_INPUTS)] for _ in outputs]
            for row in sums:
                for position in row:
                    builder.store(ir.Constant(_ROWS, [0.0] * TILE_ROWS), position)
            with cgutils.for_range_slice(builder, constants[0], n_rows, step) as (first, _):

                def loaded(array: Any, unit: Any, which: range) -> list[Any]:
                    positions = [_rows_of(builder, array, builder.add(unit, constants[k]), first) for k in which]
                    return [builder.load(position, align=4) for position in positions]

                inputs, slopes = loaded(xs, at_x, range(_N_INPUTS)), loaded(ys, at_y, outputs)
                for row, slope in zip(sums, slopes, strict=True):
                    for position, one in zip(row, inputs, strict=True):
                        builder.store(_fma(builder, slope, one, builder.load(position)), position)
            for o, row in zip(outputs, sums, strict=True):
                of_output = builder.add(at, builder.mul(per_output, constants[o]))
                for i, position in enumerate(row):
                    target = cgutils.gep_inbounds(builder, to.data, builder.add(of_output, constants[i]))
                    total = _sum_of(builder, builder.load(position))
                    builder.store(builder.fadd(builder.load(target), total), target)

        at_once = _N_OUTPUTS if _has_long_vectors(context) else 1  # as many sums as there are registers for
        for first_output in range(0, _N_OUTPUTS, at_once):
            collect(range(first_output, first_output + at_once))
        return context.get_dummy_value()

    intp = types.intp
    return types.void(gradients, intp, intp, xs, intp, ys, intp, intp), lower


@intrinsic
def sum_rows(typing_context: Any, ys: Any, at_y: Any, n_rows: Any) -> Any:
    """Return the sum of a unit over rows."""
    del typing_context, at_y, n_rows

    def lower(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        position = cgutils.alloca_once(builder, _ROWS)
        builder.store(ir.Constant(_ROWS, [0.0] * TILE_ROWS), position)
        zero, step = context.get_constant(types.intp, 0), context.get_constant(types.intp, TILE_ROWS)
        with cgutils.for_range_slice(builder, zero, arguments[2], step) as (first, _):
            some = builder.load(_rows_of(builder, array, arguments[1], first), align=4)
            builder.store(builder.fadd(builder.load(position), some), position)
        return _sum_of(builder, builder.load(position))

    return types.float32(ys, types.intp, types.intp), lower
