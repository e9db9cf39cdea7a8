"""Functions of each number of a tensor, with torch's names and gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional

from hdrl.learn.portable import kernels
from hdrl.learn.portable.own import is_own


def exp(x: Tensor) -> Tensor:
    """Return ``e**x``."""
    return _each(x, torch.exp, kernels.exp_each, lambda y: y)


def expm1(x: Tensor) -> Tensor:
    """Return ``e**x - 1``."""
    return _each(x, torch.expm1, kernels.expm1_each, lambda y: y + 1.0)


def log(x: Tensor) -> Tensor:
    """Return the natural logarithm."""
    return _each(x, torch.log, kernels.log_each, lambda given: 1.0 / given, of_result=False)


def log1p(x: Tensor) -> Tensor:
    """Return ``log(1 + x)``."""
    return _each(x, torch.log1p, kernels.log1p_each, lambda given: 1.0 / (1.0 + given), of_result=False)


def tanh(x: Tensor) -> Tensor:
    """Return the hyperbolic tangent."""
    return _each(x, torch.tanh, kernels.tanh_each, lambda y: 1.0 - y * y)


def sigmoid(x: Tensor) -> Tensor:
    """Return ``1 / (1 + e**-x)``."""
    return _each(x, torch.sigmoid, kernels.sigmoid_each, lambda y: y * (1.0 - y))


def softplus(x: Tensor) -> Tensor:
    """Return ``log(1 + e**x)``."""
    return _each(
        x,
        functional.softplus,
        kernels.softplus_each,
        lambda given: _filled(kernels.sigmoid_each, given),
        of_result=False,
    )


def logsigmoid(x: Tensor) -> Tensor:
    """Return ``-log(1 + e**-x)``."""
    return -softplus(-x)


def sqrt(x: Tensor) -> Tensor:
    """Return the square root."""
    return _each(x, torch.sqrt, kernels.sqrt_each, lambda y: 0.5 / y)


def sin(x: Tensor) -> Tensor:
    """Return the sine of numbers below a million, without a gradient."""
    return _each(x, torch.sin, kernels.sin_each, None)


def _each(
    x: Tensor,
    usual: Callable[[Tensor], Tensor],
    kernel: Callable[..., None],
    slope: Callable[[Tensor], Tensor] | None,
    *,
    of_result: bool = True,
) -> Tensor:
    """Return a function of each number; ``slope`` computes its slope from the result, or from what was given."""
    if not is_own(x):
        return usual(x)
    if slope is None or not (x.requires_grad and torch.is_grad_enabled()):
        return _filled(kernel, x)
    found: Tensor = _Each.apply(x, kernel, slope, of_result)  # type: ignore[no-untyped-call]
    return found


def _filled(kernel: Callable[..., None], x: Tensor) -> Tensor:
    x = x.detach().contiguous()
    out = torch.empty_like(x)
    kernel(x.numpy().reshape(-1), out.numpy().reshape(-1))
    return out


class _Each(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, kernel: Any, slope: Any, of_result: bool) -> Tensor:  # noqa: FBT001 - torch's way
        out = _filled(kernel, x)
        ctx.save_for_backward(out if of_result else x)
        ctx.slope = slope
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slopes: Tensor) -> tuple[Tensor | None, ...]:
        return slopes * ctx.slope(ctx.saved_tensors[0]), None, None, None
