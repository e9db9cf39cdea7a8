"""An index over where a network may be deepened: what it weighs, weights by hand, and what it does with jobs.

It knows what a scheduler knows before a decision: the network, the clock, and how far the decisions are. Of the data it
sees what the network says of them: its inputs and outputs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hdrl.base import elementary
from hdrl.base.weights import bounded_weights
from hdrl.settings.adaptation.load import Jobs
from hdrl.settings.adaptation.models import BLOCK_KINDS, DnnModel, Layer, split_block
from hdrl.settings.adaptation.table import Table

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

NAMES: Mapping[str, str] = MappingProxyType(
    {
        "deepens": "1: what speaks for deepening any block",
        "place": "position of the block, from 0 (the first) to 1 (the last)",
        "is_last": "1 if it is the last block",
        "time_left": "share of the budget that is left, less one half",
        "place_and_time": "the position times that",
        "step": "share of the decisions that have been made",
        "place_and_step": "the position times that",
        "is_convolution": "1 if what is inserted is a convolution",
        "place_and_convolutions": "the position, if the network has convolutions",
        "width": "logarithm of the units or channels of what is inserted, less 3",
        "growth": "logarithm of how many times as many weights the network has then",
        "size": "logarithm of the weights that it has now, less 7",
        "classes": "logarithm of its outputs, less 2",
        "again": "how often this block was deepened before",
        "deepened": "how often any block was deepened before",
    }
)
"""The weights by name, in their order, and what each weighs of a block that may be deepened."""

SIGMA = 0.5
"""Standard deviation of the first candidates of an evolution."""

LARGEST_WEIGHT = 50.0
"""Weights beyond it say nothing more."""

BY_HAND = "last-while-half"
"""The policy that follows the index with its weights by hand: where evolution begins."""

_BY_HAND = {"deepens": -1.0, "is_last": 1.0, "time_left": 4.0}


def start_weights() -> Floats:
    """Return the weights by hand: the last block is deepened as long as half of the budget is left."""
    return np.array([_BY_HAND.get(name, 0.0) for name in NAMES])


def weights_of(offsets: ArrayLike) -> Floats:
    """Return the weights that differ by offsets from those by hand, of one candidate or several."""
    return checked_weights(start_weights() + np.asarray(offsets, dtype=np.float64))


def checked_weights(weights: ArrayLike) -> Floats:
    """Return weights clipped to `LARGEST_WEIGHT`; raise OptionsError for another shape, or numbers not finite."""
    return bounded_weights(weights, len(NAMES), LARGEST_WEIGHT)


def features(model: DnnModel, time_left: float, decided: float) -> Floats:
    """Return the features of each original block for the index, shape ``(n_blocks, n_weights)``.

    Parameters
    ----------
    model
        The network as it is now.
    time_left
        The time left, as a share of the budget.
    decided
        Share of the decisions that have been made.
    """
    n_blocks, n_now = len(model.targets), _n_weights(model.layers)
    ends = (*model.targets[1:], len(model.blocks))
    has_convolutions = any(layer.kind.startswith("conv") for layer in model.layers)
    time = time_left - 0.5
    found = np.zeros((n_blocks, len(NAMES)))
    for block, (at, end) in enumerate(zip(model.targets, ends, strict=True)):
        _, inserted, _ = split_block(model.blocks[at])
        place = block / (n_blocks - 1) if n_blocks > 1 else 1.0
        growth = (n_now + _n_weights(inserted)) / n_now
        width, ratio, size, classes = elementary.log(
            np.array([inserted[0].sizes[1], growth, n_now, model.n_outputs])
        ).tolist()
        values = {
            "deepens": 1.0,
            "place": place,
            "is_last": float(block == n_blocks - 1),
            "time_left": time,
            "place_and_time": place * time,
            "step": decided,
            "place_and_step": place * decided,
            "is_convolution": float(inserted[0].kind != "linear"),
            "place_and_convolutions": place * has_convolutions,
            "width": width - 3.0,
            "growth": ratio,
            "size": size - 7.0,
            "classes": classes - 2.0,
            "again": end - at - 1,
            "deepened": len(model.blocks) - n_blocks,
        }
        found[block] = [values[name] for name in NAMES]
    return found


def best_actions(seen: Floats, weights: Floats) -> Ints:
    """Return the action of each candidate: the block with the largest index, nothing if no index is 0 or more.

    Of equal indices the first counts.

    Parameters
    ----------
    seen
        Features, shape ``(..., n_blocks, n_weights)``.
    weights
        Shape ``(n_candidates, n_weights)``.

    Returns
    -------
    array
        Shape ``(n_candidates, ...)``.
    """
    index = np.zeros((len(weights), *seen.shape[:-1]))
    for number, column in enumerate(weights.T):  # one after the other: the same sums on every processor
        index += column.reshape(-1, *(1,) * (seen.ndim - 1)) * seen[..., number]
    found: Ints = np.where(index.max(axis=-1) >= 0.0, index.argmax(axis=-1), seen.shape[-2])
    return found


class IndexedTables:
    """Tables whose jobs are decided about by candidates of an index, all at once.

    Parameters
    ----------
    tables
        At least one; they agree in actions and decisions.
    """

    def __init__(self, tables: Sequence[Table]) -> None:
        first = tables[0]
        self.n_actions, self.n_steps = first.n_actions, first.n_steps
        decided = np.repeat(np.arange(self.n_steps), self.n_actions ** np.arange(self.n_steps)) / self.n_steps
        self._seen = np.array(
            [
                [
                    features(model, left_s / table.budget_s, done)
                    for model, left_s, done in zip(table.models, table.time_left_s.tolist(), decided, strict=True)
                ]
                for table in tables
            ]
        )

    def sequences(self, weights: Floats) -> Ints:
        """Return the sequence that each candidate chooses for jobs of each table, ``(n_candidates, n_tables)``."""
        actions = best_actions(self._seen, weights)
        state = np.zeros(actions.shape[:2], dtype=np.int64)
        sequence = state.copy()
        for _ in range(self.n_steps):
            taken = np.take_along_axis(actions, state[..., np.newaxis], axis=2)[..., 0]
            state, sequence = state * self.n_actions + 1 + taken, sequence * self.n_actions + taken
        return sequence


def sequence_of(table: Table, weights: Floats) -> int:
    """Return the sequence that an index chooses for jobs of a table."""
    return int(IndexedTables([table]).sequences(weights[np.newaxis])[0, 0])


def run_index(loads: Sequence[Jobs], weights: ArrayLike) -> Floats:
    """Return the mean validation accuracy of whole loads under candidates, shape ``(n_candidates, n_loads)``."""
    candidates = np.atleast_2d(checked_weights(weights))
    found = np.zeros((len(candidates), len(loads)))
    for place, load in enumerate(loads):
        chosen = IndexedTables(load.tables).sequences(candidates)
        for number, sequences in enumerate(chosen):
            values = [
                load.tables[table].validation[sequences[table], draw]
                for table, draw in zip(load.table.tolist(), load.draw.tolist(), strict=True)
            ]
            found[number, place] = np.mean(values)
    return found


def _n_weights(layers: Sequence[Layer]) -> int:
    """Return the weights of convolutions and linear layers; biases and normalisations are few."""
    total = 0
    for layer in layers:
        if layer.kind in BLOCK_KINDS:
            kernel = 1 if layer.kind == "linear" else layer.sizes[2] ** (2 if layer.kind == "conv" else 1)
            total += layer.sizes[0] * layer.sizes[1] * kernel
    return total
