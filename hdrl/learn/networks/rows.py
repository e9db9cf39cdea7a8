"""Observations that are tables, a row for each job: which rows are there, and how numbers get back to them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from hdrl.base.errors import LearningError
from hdrl.compiled.backends import JIT_DISABLED
from hdrl.learn import portable
from hdrl.learn.portable.passes import find_rows


class Rows(NamedTuple):
    """The rows of a batch that hold something, among empty ones."""

    table: Tensor  # all rows, and perhaps those of other observations, shape ``(at least n * n_rows, n_features)``
    sources: Tensor  # indices of the filled rows of the table, each at most once, shape ``(k,)``, int64
    positions: (
        Tensor  # their indices among the ``n * n_rows`` rows of the batch, in ascending order, shape ``(k,)``, int64
    )
    shape: tuple[int, int]  # ``(n, n_rows)``

    @property
    def features(self) -> Tensor:
        """The rows that hold something alone, shape ``(k, n_features)``."""
        return self.table.index_select(0, self.sources)

    def of(self, numbers: Tensor) -> Rows:
        """Return other numbers, shape ``(n, n_rows, n_numbers)``, at the same positions."""
        return Rows(numbers.flatten(0, 1), self.positions, self.positions, self.shape)

    def mean(self, numbers: Tensor) -> Tensor:
        """Return the mean over the rows that hold something of numbers that are 0 in all others; 0 without any."""
        n, n_rows = self.shape
        counts = torch.bincount(self.positions.div(n_rows, rounding_mode="floor"), minlength=n)
        return portable.sum(numbers, 1) / counts.clamp_(min=1).unsqueeze(-1)

    def spread(self, numbers: Tensor, fill: float) -> Tensor:
        """Put numbers of shape ``(k, ...)`` at their rows, shape ``(n, n_rows, ...)``; others get ``fill``."""
        flat = numbers.new_full((self.shape[0] * self.shape[1], *numbers.shape[1:]), fill)
        return flat.index_copy(0, self.positions, numbers).view(*self.shape, *numbers.shape[1:])


def rows_of(observations: Tensor, mask: Tensor | None) -> Rows:
    """Collect the rows in the mask, all without one; columns of the mask beyond the rows do not count."""
    n, n_rows, n_features = observations.shape
    positions = _valid_positions(mask, n, n_rows, observations.device)
    return Rows(observations.reshape(n * n_rows, n_features), positions, positions, (n, n_rows))


def _valid_positions(mask: Tensor | None, n: int, n_rows: int, device: torch.device) -> Tensor:
    if mask is None:
        return torch.arange(n * n_rows, device=device)
    return mask[:, :n_rows].reshape(-1).nonzero().squeeze(-1)


def rows_at(observations: Tensor, mask: Tensor | None, index: Tensor) -> Rows:
    """Collect the rows of the observations at ``index``, which are not copied.

    To copy observations takes longer than to pass them; each index (int64) comes at most once.
    """
    n, n_rows = len(index), observations.shape[1]
    if mask is None or JIT_DISABLED or index.device.type != "cpu":
        positions = _valid_positions(None if mask is None else mask.index_select(0, index), n, n_rows, index.device)
        sources = index.index_select(0, positions // n_rows) * n_rows + positions % n_rows
    else:
        found = np.empty((2, n * n_rows), np.int64)
        n_found = find_rows(mask.numpy().view(np.int8), index.numpy(), n_rows, found)
        sources, positions = torch.from_numpy(found[:, :n_found])
    return Rows(observations.flatten(0, 1), sources, positions, (n, n_rows))


def table_shape(
    observation_shape: tuple[int, ...], n_actions: int, network: str, n_per_row: int = 1
) -> tuple[int, int, int]:
    """Return the numbers of rows, of features, and of actions beyond the rows.

    Raise LearningError if observations are no tables with at most as many rows as there are actions.
    """
    if len(observation_shape) != 2 or observation_shape[0] * n_per_row > n_actions:
        raise LearningError(
            f"network {network!r} needs observations of shape (rows, features) and an action for each row,"
            f" found shape {observation_shape} and {n_actions} actions"
        )
    return observation_shape[0], observation_shape[1], n_actions - observation_shape[0] * n_per_row
