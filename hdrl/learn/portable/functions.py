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
    return _each(x, torch.exp, _Exp, kernels.exp_each)


def expm1(x: Tensor) -> Tensor:
    """Return ``e**x - 1``."""
    return _each(x, torch.expm1, _Expm1, kernels.expm1_each)


def log(x: Tensor) -> Tensor:
    """Return the natural logarithm."""
    return _each(x, torch.log, _Log, kernels.log_each)


def log1p(x: Tensor) -> Tensor:
    """Return ``log(1 + x)``."""
    return _each(x, torch.log1p, _Log1p, kernels.log1p_each)


def tanh(x: Tensor) -> Tensor:
    """Return the hyperbolic tangent."""
    return _each(x, torch.tanh, _Tanh, kernels.tanh_each)


def sigmoid(x: Tensor) -> Tensor:
    """Return ``1 / (1 + e**-x)``."""
    return _each(x, torch.sigmoid, _Sigmoid, kernels.sigmoid_each)


def softplus(x: Tensor) -> Tensor:
    """Return ``log(1 + e**x)``."""
    return _each(x, functional.softplus, _Softplus, kernels.softplus_each)


def logsigmoid(x: Tensor) -> Tensor:
    """Return ``-log(1 + e**-x)``."""
    return -softplus(-x)


def sqrt(x: Tensor) -> Tensor:
    """Return the square root."""
    return _each(x, torch.sqrt, _Sqrt, kernels.sqrt_each)


def sin(x: Tensor) -> Tensor:
    """Return the sine of numbers below a million, without a gradient."""
    return _each(x, torch.sin, None, kernels.sin_each)


def _each(x: Tensor, usual: Callable[[Tensor], Tensor], node: Any, kernel: Callable[..., None]) -> Tensor:
    if not is_own(x):
        return usual(x)
    if node is None or not (x.requires_grad and torch.is_grad_enabled()):
        return _filled(kernel, x)
    found: Tensor = node.apply(x)
    return found


def _filled(kernel: Callable[..., None], x: Tensor) -> Tensor:
    x = x.detach().contiguous()
    out = torch.empty_like(x)
    kernel(x.numpy().reshape(-1), out.numpy().reshape(-1))
    return out


class _Each(torch.autograd.Function):
    """A function of each number, and its slope from what went in or came out."""

    kernel: Callable[..., None]
    keeps_result = True

    @classmethod
    def slope(cls, kept: Tensor) -> Tensor:
        """Return the slope."""
        raise NotImplementedError

    @classmethod
    def forward(cls, ctx: Any, x: Tensor) -> Tensor:
        out = _filled(cls.kernel, x)
        ctx.save_for_backward(out if cls.keeps_result else x)
        ctx.kind = cls
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slopes: Tensor) -> Tensor:
        found: Tensor = slopes * ctx.kind.slope(ctx.saved_tensors[0])
        return found


class _Exp(_Each):
    kernel = kernels.exp_each

    @classmethod
    def slope(cls, kept: Tensor) -> Tensor:
        return kept


class _Expm1(_Each):
    kernel = kernels.expm1_each

    @classmethod
    def slope(cls, kept: Tensor) -> Tensor:
        return kept + 1.0


class _Log(_Each):
    kernel, keeps_result = kernels.log_each, False

    @classmethod
    def slope(cls, kept: Tensor) -> Tensor:
        return 1.0 / kept


class _Log1p(_Each):
    kernel, keeps_result = kernels.log1p_each, False

    @classmethod
    def slope(cls, kept: Tensor) -> Tensor:
        return 1.0 / (1.0 + kept)


class _Tanh(_Each):
    kernel = kernels.tanh_each

    @classmethod
    def slope(cls, kept: Tensor) -> Tensor:
        return 1.0 - kept * kept


class _Sigmoid(_Each):
    kernel = kernels.sigmoid_each

    @classmethod
    def slope(cls, kept: Tensor) -> Tensor:
        return kept * (1.0 - kept)


class _Softplus(_Each):
    kernel, keeps_result = kernels.softplus_each, False

    @classmethod
    def slope(cls, kept: Tensor) -> Tensor:
        return _filled(kernels.sigmoid_each, kept)


class _Sqrt(_Each):
    kernel = kernels.sqrt_each

    @classmethod
    def slope(cls, kept: Tensor) -> Tensor:
        return 0.5 / kept
