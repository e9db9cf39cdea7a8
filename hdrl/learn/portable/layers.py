"""Fully connected layers over the rows of a table, as one step of torch's graph.

Where hundreds of thousands of rows pass layers of 8 to 32 units, torch spends most of the time in passes over memory
and in products of shapes that libraries are slow at. Here a block of rows passes all layers while it is in the nearest
cache (`hdrl.compiled.dense`), straight from the table that it is part of to the positions of its numbers. On
the way back it passes them again, which takes less time than to keep what was in between.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, TypeAlias, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional

from hdrl.compiled.dense import LEAKY_RELU, RELU, TANH, n_units, n_weights, new_units
from hdrl.learn.portable.own import array_of, is_own
from hdrl.learn.portable.passes import BLOCK, SPARE, pass_back, pass_rows
from hdrl.learn.threads import Parts, share

Kind: TypeAlias = Literal["relu", "tanh", "leaky_relu"]
Widths: TypeAlias = NDArray[np.int64]

_KINDS: dict[Kind, int] = {"relu": RELU, "tanh": TANH, "leaky_relu": LEAKY_RELU}

_PART = 16 * BLOCK
"""Rows whose gradients are summed up by themselves; the sums are then added in order, whichever thread made them."""

_WIDE, _SMALL_BLOCK = 1024, 64
"""From 1024 units on, 64 rows are computed together: else their units would not fit into the second cache."""


class Stack(NamedTuple):
    """Shape of a stack of layers."""

    widths: Widths  # of the inputs and of each layer, int64
    kind: Kind = "relu"  # activation after each layer
    is_open: bool = False  # True if it follows the last one, too


class Among(NamedTuple):
    """Rows of a table that pass, and the positions of their results."""

    # rows of the table, and of what comes out, each at most once; of the same shape ``(k,)``, int64
    sources: Tensor
    positions: Tensor
    n_positions: int  # number of rows of the result
    fill: float  # value of the other rows


def pass_layers(table: Tensor, weights: Sequence[Tensor], stack: Stack, among: Among | None = None) -> Tensor:
    """Return the outputs of the last layer, shape ``(among.n_positions, n_out)``; `is_own` is true of all tensors.

    ``weights`` holds the weight ``(n_out, n_in)`` and the bias of each layer in turn. Without ``among`` every row of
    the table ``(n, n_in)`` passes, to its own position.
    """
    if among is None:
        every = torch.arange(len(table))
        among = Among(every, every, len(table), 0.0)
    # Where no gradients are needed, a step of the graph would take half as long as the layers of few rows.
    if torch.is_grad_enabled():
        return _Layers.apply(table, stack, among, *weights)  # type: ignore[no-untyped-call, no-any-return]
    return _sent(table.contiguous(), stack, among, _flat(weights))


def linear(inputs: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return ``inputs @ weight.T + bias``, with a weight of shape ``(n_out, n_in)``."""
    if not is_own(inputs, weight):
        return functional.linear(inputs, weight, bias)
    n_out, n_in = weight.shape
    added = weight.new_zeros(n_out) if bias is None else bias
    out = pass_layers(inputs.reshape(-1, n_in), (weight, added), Stack(np.array([n_in, n_out], dtype=np.int64)))
    return out.view(*inputs.shape[:-1], n_out)


def _flat(weights: Sequence[Tensor]) -> Tensor:
    return torch.cat([one.reshape(-1) for one in weights])


def _block_of(widths: Widths, n_rows: int) -> int:
    block = BLOCK if n_units(widths) < _WIDE else _SMALL_BLOCK
    return min(block, max(1, -(-n_rows // 16)) * 16)  # where all rows fit into a smaller one, it gives the same sums


def _sent(table: Tensor, stack: Stack, among: Among, flat: Tensor) -> Tensor:
    widths, n_rows = stack.widths, among.positions.numel()
    shape = among.n_positions, int(widths[-1])
    out = table.new_empty(shape) if n_rows == among.n_positions else table.new_full(shape, among.fill)
    given = array_of(table), array_of(among.sources), array_of(among.positions), array_of(flat), widths
    kind, found, block = _KINDS[stack.kind], array_of(out), _block_of(widths, n_rows)

    def work(todo: Parts) -> None:
        room = _room(widths, block)
        for part in todo:
            pass_rows(*given, stack.is_open, kind, *part, room.padded[0], room.units, found)

    share(n_rows, _PART, work)
    return out


class _Layers(torch.autograd.Function):
    """All layers as one step of the graph: weights and biases of each layer in turn."""

    @staticmethod
    def forward(ctx: Any, table: Tensor, stack: Stack, among: Among, *weights: Tensor) -> Tensor:
        table, flat = table.contiguous(), _flat(weights)
        ctx.save_for_backward(table, among.sources, among.positions, flat)
        ctx.stack, ctx.shapes = stack, [one.shape for one in weights]
        return _sent(table, stack, among, flat)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slopes: Tensor) -> tuple[Tensor | None, ...]:
        table, sources, positions, flat = ctx.saved_tensors
        stack, has_inputs, n_rows = ctx.stack, ctx.needs_input_grad[0], positions.numel()
        widths, kind, n_parts = stack.widths, _KINDS[stack.kind], -(-n_rows // _PART)
        block = _block_of(widths, n_rows)
        new = torch.empty_like if len(table) == n_rows else torch.zeros_like
        by_table = new(table) if has_inputs else table.new_empty((0, 0))
        by_weights = np.zeros((n_parts, flat.numel()), np.float32)
        given = array_of(table), array_of(sources), array_of(positions), array_of(flat), widths, stack.is_open, kind
        slopes_out, slopes_in = array_of(slopes.contiguous()), array_of(by_table)

        def work(todo: Parts) -> None:
            room = _room(widths, block)
            for first, last in todo:
                mine = by_weights[first // _PART]
                pass_back(*given, first, last, *room, slopes_out, has_inputs, slopes_in, mine)

        share(n_rows, _PART, work)
        total = by_weights[0] if n_parts else np.zeros(flat.numel(), np.float32)
        for part in by_weights[1:]:
            total = total + part
        parts = torch.split(torch.from_numpy(total), [shape.numel() for shape in ctx.shapes])
        of_weights = [part.view(shape) for part, shape in zip(parts, ctx.shapes, strict=True)]
        return (by_table if has_inputs else None, None, None, *of_weights)


class _Room(NamedTuple):
    """Work space of a thread: weights and gradients, laid out for layers; units and slopes of a block."""

    padded: NDArray[np.float32]
    units: NDArray[np.float32]
    slopes: NDArray[np.float32]


_rooms = threading.local()
_MOST_ROOMS = 32


def _room(widths: Widths, block: int) -> _Room:
    """Return the room of this thread: new memory in every call would take a third of the time of small networks."""
    rooms = cast("dict[tuple[bytes, int], _Room]", _rooms.__dict__)
    key = widths.tobytes(), block
    if key not in rooms:
        if len(rooms) >= _MOST_ROOMS:
            rooms.clear()
        units, slopes = new_units(widths, block + SPARE), new_units(widths, block + SPARE)
        rooms[key] = _Room(np.zeros((2, n_weights(widths)), np.float32), units, slopes)
    return rooms[key]
