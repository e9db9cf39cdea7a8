"""Sums of tensors in a fixed order, in double precision within: what torch's mean by the same names."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from hdrl.learn.portable import kernels
from hdrl.learn.portable.own import array_of, is_own


def sum(x: Tensor, dim: int | None = None, *, keepdim: bool = False) -> Tensor:  # noqa: A001 - torch's name
    """Return the sum of all numbers, or over an axis."""
    if not is_own(x):
        return x.sum() if dim is None else x.sum(dim, keepdim=keepdim)
    if x.requires_grad and torch.is_grad_enabled():
        found: Tensor = _Sum.apply(x, dim)  # type: ignore[no-untyped-call]
    else:
        found = _summed(x, dim)
    return found if dim is None or not keepdim else found.unsqueeze(dim)


def mean(x: Tensor, dim: int | None = None, *, keepdim: bool = False) -> Tensor:
    """Return the mean of all numbers, or over an axis; NaN of none; integers become floating-point numbers."""
    x = x if x.is_floating_point() else x.float()
    return sum(x, dim, keepdim=keepdim) / (x.numel() if dim is None else x.shape[dim])


def var(x: Tensor) -> Tensor:
    """Return the variance of all numbers, which divides by one less than how many there are; without a gradient."""
    deviation = std_mean(x)[0]
    return deviation * deviation


def std_mean(x: Tensor) -> tuple[Tensor, Tensor]:
    """Return the standard deviation and the mean of all numbers, without a gradient.

    The deviation divides by one less than how many there are.
    """
    if not is_own(x):
        return torch.std_mean(x.detach())
    numbers = array_of(x.contiguous()).reshape(-1)
    n = len(numbers)
    centre = kernels.total(numbers) / n if n else math.nan
    deviation = math.sqrt(kernels.squares(numbers, centre) / (n - 1)) if n > 1 else math.nan
    return torch.tensor(deviation, dtype=torch.float32), torch.tensor(centre, dtype=torch.float32)


def sum_of_squares(x: Tensor) -> float:
    """Return the sum of the squares of all numbers, in double precision."""
    if not is_own(x):
        return float(x.detach().double().square().sum())
    return float(kernels.squares(array_of(x.contiguous()).reshape(-1), 0.0))


def expand(x: Tensor, *shape: int) -> Tensor:
    """Return a tensor that is repeated along axes, as ``x.expand(*shape)``; its gradient is summed by `sum`.

    What torch repeats by itself in a sum, difference or product, it sums up by itself on the way back.
    """
    if not (is_own(x) and x.requires_grad and torch.is_grad_enabled()):
        return x.expand(*shape)
    found: Tensor = _Expand.apply(x, shape)  # type: ignore[no-untyped-call]
    return found


def _summed(x: Tensor, dim: int | None) -> Tensor:
    numbers = array_of(x.contiguous())
    if dim is None:
        return torch.tensor(kernels.total(numbers.reshape(-1)), dtype=torch.float32)
    dim %= x.ndim
    shape = math.prod(x.shape[:dim]), x.shape[dim], math.prod(x.shape[dim + 1 :])
    out = np.empty((shape[0], shape[2]), np.float32)
    kernels.sum_axis(numbers.reshape(shape), np.empty(shape[2]), out)
    return torch.from_numpy(out).view(*x.shape[:dim], *x.shape[dim + 1 :])


class _Sum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, dim: int | None) -> Tensor:
        ctx.shape, ctx.dim = x.shape, dim
        return _summed(x, dim)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor, None]:
        return (slope if ctx.dim is None else slope.unsqueeze(ctx.dim)).expand(ctx.shape), None


class _Expand(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, shape: tuple[int, ...]) -> Tensor:
        ctx.shape = x.shape
        return x.expand(*shape).clone()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slopes: Tensor) -> tuple[Tensor, None]:
        for _ in range(slopes.ndim - len(ctx.shape)):
            slopes = _summed(slopes, 0)
        for axis, n in enumerate(ctx.shape):
            if n == 1 and slopes.shape[axis] != 1:
                slopes = _summed(slopes, axis).unsqueeze(axis)
        return slopes, None
