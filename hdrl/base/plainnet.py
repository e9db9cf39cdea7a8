"""Networks in plain numbers: what an agent has learned, for compiled code that plays it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class PlainLayers:
    """Fully connected layers with ReLU in between, none after the last."""

    widths: NDArray[np.int64]  # of the input and of each layer, int64
    # of each layer its weight, output by output, then its bias, float32: what `hdrl.compiled.dense` computes with
    weights: NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class PlainActor:
    """Actor that gives each action a number; the largest is the best action, the first of equal ones."""

    # layers that each row of an observation passes alone, to a number for each of its actions; or all numbers of an
    # observation together, to one for every action
    layers: PlainLayers
    by_rows: bool = False  # True if rows pass alone
    # one layer, from the mean of the rows' last hidden units to a number for each action that belongs to no row
    extra: PlainLayers | None = None
    sees_all_rows: bool = False  # True if rows pass, too, whose actions are illegal

    @property
    def is_finite(self) -> bool:
        """True if all weights are finite numbers."""
        parts = (self.layers, self.extra) if self.extra is not None else (self.layers,)
        return all(bool(np.isfinite(part.weights).all()) for part in parts)
