"""Small layers over very many rows, in compiled code.

Where hundreds of thousands of rows pass layers of 8 to 32 units, torch spends most of the time in passes over memory
and in products of shapes that libraries are slow at. Here a block of rows passes all layers while it is in the nearest
cache (`hdrl.compiled.dense`), straight from the table that it is part of to the places that its numbers belong to. On
the way back it passes them again, which takes less time than to keep what was in between. Elsewhere than on the CPU,
and in double precision, torch's own layers do the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from hdrl.compiled.dense import n_weights, new_units
from hdrl.compiled.ways import JIT_DISABLED
from hdrl.learn.networks.layers import mlp
from hdrl.learn.networks.passes import BLOCK, send, send_back
from hdrl.learn.networks.rows import Rows
from hdrl.learn.threads import share

Widths: TypeAlias = NDArray[np.int64]

_PART = 16 * BLOCK
"""Rows whose gradients are summed up by themselves; the sums are then added in order, whoever made them."""


class RowLayers(nn.Sequential):
    """Fully connected layers with ReLU in between, applied to each row alike.

    Parameters
    ----------
    sizes
        Width of the input and of each layer.
    generator
        Source of the first weights.
    last_gain
        Gain of the last layer's first weights; ``None``: that of the others.
    is_open
        Whether a ReLU follows the last layer too.
    """

    def __init__(
        self,
        sizes: Sequence[int],
        generator: torch.Generator,
        *,
        last_gain: float | None = None,
        is_open: bool = False,
    ) -> None:
        super().__init__(*mlp(sizes, generator, "relu", last_gain=last_gain, is_open=is_open))
        self.widths = tuple(sizes)
        self.is_open = is_open

    def through(self, rows: Rows, fill: float, head: RowLayers | None = None) -> Tensor:
        """Return what comes out of the last layer at the places of the rows, shape ``(*rows.shape, width)``.

        Parameters
        ----------
        rows
            The rows.
        fill
            What stands in all other places.
        head
            Layers that follow these, which are open then; ``None``: none.
        """
        assert head is None or self.is_open  # noqa: S101 - nothing else is ever followed
        stacks = (self,) if head is None else (self, head)
        modules: list[Any] = [one for stack in stacks for one in stack if not isinstance(one, nn.ReLU)]
        weights: list[Tensor] = [weight for one in modules for weight in (one.weight, one.bias)]
        if JIT_DISABLED or not all(_can_be_compiled(one) for one in (rows.table, *weights)):
            numbers = self(rows.features)
            return rows.spread(numbers if head is None else head(numbers), fill)
        widths = np.array(self.widths if head is None else self.widths + head.widths[1:], dtype=np.int64)
        given = rows, rows.table, widths, stacks[-1].is_open, fill
        # Where nobody asks for gradients, a step of the graph would take half as long as the layers of few rows.
        out: Tensor = (
            _Layers.apply(*given, *weights) if torch.is_grad_enabled() else _sent(*given, _flat(weights))  # type: ignore[no-untyped-call]
        )
        return out.view(*rows.shape, out.shape[1])


def _can_be_compiled(tensor: Tensor) -> bool:
    return tensor.device.type == "cpu" and tensor.dtype == torch.float32


def _flat(weights: Sequence[Tensor]) -> Tensor:
    return torch.cat([one.reshape(-1) for one in weights])


def _sent(rows: Rows, table: Tensor, widths: Widths, is_open: bool, fill: float, flat: Tensor) -> Tensor:  # noqa: FBT001
    """Return what comes out of all layers, with ``fill`` in other places, shape ``(n * n_rows, width)``."""
    out = table.new_full((rows.shape[0] * rows.shape[1], int(widths[-1])), fill)
    given = _array(table.contiguous()), _array(rows.sources), _array(rows.places), _array(flat), widths, is_open
    found, n_rows = _array(out), rows.places.numel()

    def work(parts: Iterator[int]) -> None:
        room = np.zeros(n_weights(widths), np.float32), new_units(widths, BLOCK)
        for part in parts:
            send(*given, *_bounds(part, n_rows), *room, found)

    share(_n_parts(n_rows), work)
    return out


class _Layers(torch.autograd.Function):
    """All layers as one step of the graph: weights and biases of each layer in turn."""

    @staticmethod
    def forward(
        ctx: Any,
        rows: Rows,
        table: Tensor,
        widths: Widths,
        is_open: bool,  # noqa: FBT001 - called by torch
        fill: float,
        *weights: Tensor,
    ) -> Tensor:
        table, flat = table.contiguous(), _flat(weights)
        ctx.save_for_backward(table, rows.sources, rows.places, flat)
        ctx.widths, ctx.is_open, ctx.shapes = widths, is_open, [one.shape for one in weights]
        return _sent(rows, table, widths, is_open, fill, flat)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slopes: Tensor) -> tuple[Tensor | None, ...]:
        table, sources, places, flat = ctx.saved_tensors
        widths, has_inputs, n_rows = ctx.widths, ctx.needs_input_grad[1], places.numel()
        n_parts = _n_parts(n_rows)
        by_table = torch.zeros_like(table) if has_inputs else table.new_empty((0, 0))
        by_weights = np.zeros((n_parts, flat.numel()), np.float32)
        given = _array(table), _array(sources), _array(places), _array(flat), widths, ctx.is_open
        slopes_out, slopes_in = _array(slopes.contiguous()), _array(by_table)

        def work(parts: Iterator[int]) -> None:
            room = np.zeros((2, n_weights(widths)), np.float32), new_units(widths, BLOCK), new_units(widths, BLOCK)
            for part in parts:
                bounds = _bounds(part, n_rows)
                send_back(*given, *bounds, *room, slopes_out, has_inputs, slopes_in, by_weights[part])

        share(n_parts, work)
        found = torch.from_numpy(np.add.reduce(by_weights, axis=0))
        parts = torch.split(found, [shape.numel() for shape in ctx.shapes])
        of_weights = [part.view(shape) for part, shape in zip(parts, ctx.shapes, strict=True)]
        return (None, by_table if has_inputs else None, None, None, None, *of_weights)


def _n_parts(n_rows: int) -> int:
    return -(-n_rows // _PART)


def _bounds(part: int, n_rows: int) -> tuple[int, int]:
    return part * _PART, min((part + 1) * _PART, n_rows)


def _array(tensor: Tensor) -> NDArray[Any]:
    return tensor.detach().numpy()
