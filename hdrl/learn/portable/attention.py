"""Attention among the rows of each observation, as one step of torch's graph."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.autograd.function import once_differentiable

from hdrl.learn.portable.heads import LANES, attend, attend_back
from hdrl.learn.portable.own import array_of
from hdrl.learn.threads import Parts, share

_AT_ONCE = 16
"""Observations that one thread does before it asks what is left."""


def attend_rows(parts: Tensor, positions: Tensor, shape: tuple[int, int], n_heads: int) -> Tensor:
    """Return the attention of each row to the others, shape ``(n * n_rows, width)``, 0 in all other rows.

    ``parts`` holds queries, keys and values side by side, each head's in a piece: ``(n * n_rows, 3 * width)``.
    ``positions`` names the rows that attend, ascending, int64; ``shape`` is ``(n, n_rows)``. `is_own` is true of all
    tensors.
    """
    bounds = torch.arange(shape[0] + 1) * shape[1]
    starts = array_of(torch.searchsorted(positions, bounds))
    if parts.requires_grad and torch.is_grad_enabled():
        found: Tensor = _Attention.apply(parts, positions, starts, n_heads)  # type: ignore[no-untyped-call]
        return found
    return _attended(parts.contiguous(), positions, starts, n_heads)


def _attended(parts: Tensor, positions: Tensor, starts: NDArray[np.int64], n_heads: int) -> Tensor:
    width = parts.shape[1] // 3
    out = parts.new_zeros((len(parts), width))
    given, found = (array_of(parts), array_of(positions), starts, n_heads, _scale(width, n_heads)), array_of(out)
    most = int(np.max(np.diff(starts), initial=1))

    def work(todo: Parts) -> None:
        lanes = np.empty((2, width // n_heads, LANES), np.float32)
        shares = np.empty((most, LANES), np.float32)
        for part in todo:
            attend(*given, *part, lanes, shares, found)

    share(len(starts) - 1, _AT_ONCE, work)
    return out


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, parts: Tensor, positions: Tensor, starts: NDArray[np.int64], n_heads: int) -> Tensor:
        parts = parts.contiguous()
        ctx.save_for_backward(parts, positions)
        ctx.starts, ctx.n_heads = starts, n_heads
        return _attended(parts, positions, starts, n_heads)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slopes: Tensor) -> tuple[Tensor | None, ...]:
        parts, positions = ctx.saved_tensors
        starts, n_heads, width = ctx.starts, ctx.n_heads, slopes.shape[1]
        out = torch.zeros_like(parts)
        given = array_of(parts), array_of(positions), starts, n_heads, _scale(width, n_heads)
        by_out, by_parts = array_of(slopes.contiguous()), array_of(out)
        most, depth = int(np.max(np.diff(starts), initial=1)), width // n_heads

        def work(todo: Parts) -> None:
            lanes = np.empty((3, depth, LANES), np.float32)
            shares = np.empty((2, most, LANES), np.float32)
            turned = np.empty((LANES, most), np.float32)
            by_others = np.empty((2 * depth, most), np.float32)
            for part in todo:
                attend_back(*given, *part, lanes, shares, turned, by_others, by_out, by_parts)

        share(len(starts) - 1, _AT_ONCE, work)
        return out, None, None, None


def _scale(width: int, n_heads: int) -> np.float32:
    return np.float32(1.0 / math.sqrt(width // n_heads))
