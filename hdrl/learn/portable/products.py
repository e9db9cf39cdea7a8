"""Products of matrices in a fixed order."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from hdrl.learn.portable import kernels
from hdrl.learn.portable.own import array_of, is_own
from hdrl.learn.threads import Parts, share

_AT_ONCE = 1 << 18
"""Products of numbers that one thread does before it asks what is left."""


def matmul(a: Tensor, b: Tensor) -> Tensor:
    """Return the product of two matrices, or of each pair of two batches, shape ``(..., n, m)``."""
    if not is_own(a, b):
        return a @ b
    batch = a.shape[:-2]
    first, second = a.reshape(-1, *a.shape[-2:]), b.reshape(-1, *b.shape[-2:])
    if torch.is_grad_enabled() and (a.requires_grad or b.requires_grad):
        found: Tensor = _Product.apply(first, second)  # type: ignore[no-untyped-call]
    else:
        found = _product(first, second)
    return found.view(*batch, a.shape[-2], b.shape[-1])


def _product(a: Tensor, b: Tensor, *, turns_a: bool = False, turns_b: bool = False) -> Tensor:
    n_batch = len(a)
    n, n_inner = (a.shape[2], a.shape[1]) if turns_a else (a.shape[1], a.shape[2])
    m = b.shape[1] if turns_b else b.shape[2]
    out = torch.empty((n_batch, n, m))
    given, found = (array_of(a.contiguous()), array_of(b.contiguous()), turns_a, turns_b), array_of(out)
    n_full, m_full = -(-n // 4) * 4, -(-m // 16) * 16
    size = max(1, _AT_ONCE // max(1, n * m * n_inner))

    def work(todo: Parts) -> None:
        packed_b, packed_c = np.zeros((n_inner, m_full), np.float32), np.empty((n_full, m_full), np.float32)
        room = np.zeros(n_full * n_inner, np.float32), packed_b, packed_c
        for part in todo:
            kernels.multiply(*given, *room, *part, found)

    share(n_batch, size, work)
    return out


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor) -> Tensor:
        ctx.save_for_backward(a, b)
        return _product(a, b)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slopes: Tensor) -> tuple[Tensor | None, Tensor | None]:
        a, b = ctx.saved_tensors
        of_a = _product(slopes, b, turns_b=True) if ctx.needs_input_grad[0] else None
        return of_a, _product(a, slopes, turns_a=True) if ctx.needs_input_grad[1] else None
