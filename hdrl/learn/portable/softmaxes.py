"""Softmax and what belongs to it, over the last axis."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from hdrl.learn.portable import kernels
from hdrl.learn.portable.own import array_of, is_own


def softmax(x: Tensor) -> Tensor:
    """Return the softmax over the last axis."""
    return _rows(x, torch.softmax, kernels.softmax_rows, kernels.softmax_back)


def log_softmax(x: Tensor) -> Tensor:
    """Return the logarithms of the softmax over the last axis."""
    return _rows(x, torch.log_softmax, kernels.log_softmax_rows, kernels.log_softmax_back)


def logsumexp(x: Tensor) -> Tensor:
    """Return the logarithm of the sum of the exponentials over the last axis."""
    if not is_own(x):
        return torch.logsumexp(x, -1)
    if x.requires_grad and torch.is_grad_enabled():
        found: Tensor = _LogSumExp.apply(x)  # type: ignore[no-untyped-call]
        return found
    return _logsumexp(x)


class Chosen(NamedTuple):
    """Statistics of actions that were chosen by the softmax of logits."""

    log_probs: Tensor  # logarithm of the probability of each, shape ``(n,)``
    entropies: Tensor  # of the distributions that they come from, in nats, shape ``(n,)``


def choose(logits: Tensor, actions: Tensor) -> Chosen:
    """Return log-probabilities and entropies of actions, in one step of the graph.

    Logits of impossible actions are finite, but so low that they have no probability.
    """
    if not is_own(logits):
        logs = torch.log_softmax(logits, -1)
        entropies = -(torch.softmax(logs, -1) * logs).sum(-1)
        return Chosen(logs.gather(-1, actions.unsqueeze(-1)).squeeze(-1), entropies)
    if logits.requires_grad and torch.is_grad_enabled():
        return Chosen(*_Choose.apply(logits, actions))  # type: ignore[no-untyped-call]
    return Chosen(*_chosen(logits, actions)[:2])


def _rows(x: Tensor, usual: Callable[..., Tensor], kernel: Callable[..., None], back: Callable[..., None]) -> Tensor:
    if not is_own(x):
        return usual(x, -1)
    if not (x.requires_grad and torch.is_grad_enabled()):
        return _filled(kernel, x)
    found: Tensor = _Rows.apply(x, kernel, back)  # type: ignore[no-untyped-call]
    return found


def _filled(kernel: Callable[..., None], *tensors: Tensor) -> Tensor:
    """Return the results of a kernel for the rows of tensors of one shape."""
    given = [one.detach().contiguous() for one in tensors]
    out = torch.empty_like(given[0])
    n = out.shape[-1]
    kernel(*(one.numpy().reshape(-1, n) for one in (*given, out)))
    return out


def _logsumexp(x: Tensor) -> Tensor:
    numbers = array_of(x.contiguous()).reshape(-1, x.shape[-1])
    out = np.empty(len(numbers), np.float32)
    kernels.logsumexp_rows(numbers, np.empty(x.shape[-1], np.float32), out)
    return torch.from_numpy(out).view(x.shape[:-1])


class _Rows(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, kernel: Callable[..., None], back: Callable[..., None]) -> Tensor:
        out = _filled(kernel, x)
        ctx.save_for_backward(out)
        ctx.back = back
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slopes: Tensor) -> tuple[Tensor | None, ...]:
        return _filled(ctx.back, ctx.saved_tensors[0], slopes), None, None


class _LogSumExp(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return _logsumexp(x)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slopes: Tensor) -> Tensor:
        return _filled(kernels.softmax_rows, ctx.saved_tensors[0]) * slopes.unsqueeze(-1)


def _chosen(logits: Tensor, actions: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return log-probabilities, entropies, log-softmax and softmax."""
    numbers = array_of(logits.contiguous())
    logs, shares = np.empty_like(numbers), np.empty_like(numbers)
    log_probs, entropies = np.empty(len(numbers), np.float32), np.empty(len(numbers), np.float32)
    kernels.choose(numbers, array_of(actions.contiguous()), logs, shares, log_probs, entropies)
    return tuple(map(torch.from_numpy, (log_probs, entropies, logs, shares)))  # type: ignore[return-value]


class _Choose(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, logits: Tensor, actions: Tensor) -> tuple[Tensor, Tensor]:
        log_probs, entropies, logs, shares = _chosen(logits, actions)
        ctx.save_for_backward(logs, shares, actions, entropies)
        ctx.set_materialize_grads(False)
        return log_probs, entropies

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, by_log_prob: Tensor | None, by_entropy: Tensor | None) -> tuple[Tensor | None, None]:
        logs, shares, actions, entropies = ctx.saved_tensors
        if by_log_prob is None and by_entropy is None:
            return None, None
        nothing = torch.zeros_like(entropies)
        of_log_prob, of_entropy = (nothing if one is None else one.contiguous() for one in (by_log_prob, by_entropy))
        slopes = array_of(of_log_prob), array_of(of_entropy)
        out = torch.empty_like(logs)
        given = (array_of(logs), array_of(shares), array_of(actions.contiguous()), array_of(entropies))
        kernels.choose_back(*given, *slopes, by_entropy is not None, array_of(out))
        return out, None
