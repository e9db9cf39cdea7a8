"""Sequences of ids through recurrent layers, as one step of torch's graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.autograd.function import once_differentiable

from hdrl.learn.portable.recurrent import (
    EMBEDDED,
    ENCODED,
    N_ENCODER_GATES,
    N_GATES,
    N_IDS,
    N_TURNED,
    N_WAVES,
    READ,
    WAVE,
    find_sequences,
    read,
    read_back,
)

__all__ = ["EMBEDDED", "ENCODED", "N_IDS", "N_WAVES", "READ", "WAVE", "read_sequences"]


def read_sequences(
    observations: Tensor, embedding: Tensor, waves: Tensor, weights: Sequence[Tensor]
) -> tuple[Tensor, Tensor]:
    """Return the codes of the different observations, and the index of each observation among them.

    Codes have shape ``(n_different, ENCODED + N_WAVES)``, in the order in which they come first. An observation is a
    share of time, then ids, 0 behind the last one.

    Parameters
    ----------
    embedding
        Of each id, shape ``(N_IDS, EMBEDDED)``; it does not learn.
    waves
        By what the share of time is multiplied before the sine is taken, shape ``(N_WAVES,)``.
    weights
        Weights of an LSTM that reads both ways and of one that encodes, as ``torch.nn.LSTM`` has them.
    """
    seen = np.ascontiguousarray(observations.detach().numpy())
    n = len(seen)
    slots = np.full(2 << n.bit_length(), -1)
    position, first, starts = np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n + 1, np.int64)
    ids = np.empty(n * (seen.shape[1] - 1), np.int64)
    n_found = find_sequences(seen, slots, position, first, starts, ids)
    given = _Given(seen, first[:n_found], starts[: n_found + 1], ids[: starts[n_found]], embedding, waves)
    if torch.is_grad_enabled():
        known: Tensor = _Reading.apply(given, *weights)  # type: ignore[no-untyped-call]
    else:
        known = torch.from_numpy(given.read(_flat(weights))[-1])
    return known, torch.from_numpy(position)


class _Given:
    """Input: the different sequences of a batch."""

    def __init__(
        self,
        seen: NDArray[np.float32],
        first: NDArray[np.int64],
        starts: NDArray[np.int64],
        ids: NDArray[np.int64],
        embedding: Tensor,
        waves: Tensor,
    ) -> None:
        self.seen, self.first, self.starts, self.ids = seen, first, starts, ids
        self.embedding, self.waves = embedding.numpy(), waves.numpy()

    def read(self, weights: NDArray[np.float32]) -> tuple[NDArray[np.float32], ...]:
        """Return the intermediate results for the backward pass, and the encoding of each sequence."""
        n = len(self.ids)
        kept = (
            np.empty((2, n, N_GATES), np.float32),
            np.zeros((2, n + 1, READ), np.float32),
            np.empty((2, n, READ), np.float32),
            np.empty((n, 2 * READ), np.float32),
            np.empty((n, N_ENCODER_GATES), np.float32),
            np.zeros((n + 1, ENCODED), np.float32),
            np.empty((n, ENCODED), np.float32),
            np.empty((n, ENCODED), np.float32),
        )
        known = np.empty((len(self.first), ENCODED + N_WAVES), np.float32)
        room = np.empty((2, N_IDS, N_GATES), np.float32), np.empty(N_TURNED, np.float32)
        given = self.seen, self.first, self.starts, self.ids, self.embedding, self.waves, weights
        read(*given, *room, *kept, known)
        return (*kept, known)

    def read_back(
        self, weights: NDArray[np.float32], kept: Sequence[NDArray[np.float32]], slopes: NDArray[np.float32]
    ) -> NDArray[np.float32]:
        """Return the gradients by the weights."""
        n = len(self.ids)
        room = (
            np.empty((2, n, N_GATES), np.float32),
            np.empty((n, N_ENCODER_GATES), np.float32),
            np.empty((n, 2 * READ), np.float32),
            np.empty(READ, np.float32),
            np.empty(READ, np.float32),
            np.empty((2, N_IDS, N_GATES), np.float32),
            np.empty(n, np.int64),
        )
        gradients = np.empty_like(weights)
        given: tuple[Any, ...] = (self.starts, self.ids, self.embedding, weights, *kept, slopes, *room, gradients)
        read_back(*given)
        return gradients


class _Reading(torch.autograd.Function):
    """Both layers as one step of the graph."""

    @staticmethod
    def forward(ctx: Any, given: _Given, *weights: Tensor) -> Tensor:
        flat = _flat(weights)
        *kept, known = given.read(flat)
        ctx.given, ctx.flat, ctx.kept, ctx.shapes = given, flat, kept, [one.shape for one in weights]
        return torch.from_numpy(known)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slopes: Tensor) -> tuple[Tensor | None, ...]:
        found = torch.from_numpy(ctx.given.read_back(ctx.flat, ctx.kept, slopes.contiguous().numpy()))
        parts = torch.split(found, [shape.numel() for shape in ctx.shapes])
        return (None, *(part.view(shape) for part, shape in zip(parts, ctx.shapes, strict=True)))


def _flat(weights: Sequence[Tensor]) -> NDArray[np.float32]:
    return torch.cat([one.detach().reshape(-1) for one in weights]).numpy()
