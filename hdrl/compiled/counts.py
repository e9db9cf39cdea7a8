"""Bookkeeping of each step of a batch: checks of actions against masks, and counts of episodes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hdrl.compiled.borrow import take_as
from hdrl.compiled.jit import jit

ALL_LEGAL = -1
"""Result of `take_actions` if no action is illegal."""

NO_ACTION = -1
"""The argument of `take_actions` if no action is excused."""


class Counts(NamedTuple):
    """Data of each row of a batch: arrays of shape ``(n_rows,)``, except the masks.

    ``actions`` (int64) are those to be carried out, ``masks`` (int8, shape ``(n_rows, n_actions)``) which are legal;
    ``rewards``, ``terminations`` and ``truncations`` what the last step gave; ``returns`` (float64), ``lengths``
    (int64) and ``has_ended`` are about the episode.
    """

    actions: NDArray[np.int64]
    masks: NDArray[np.int8]
    rewards: NDArray[np.float64]
    terminations: NDArray[np.bool_]
    truncations: NDArray[np.bool_]
    returns: NDArray[np.float64]
    lengths: NDArray[np.int64]
    has_ended: NDArray[np.bool_]


def new_counts(n_rows: int, n_actions: int) -> Counts:
    """Return the arrays of a batch in which no episode has begun."""
    return Counts(
        actions=np.zeros(n_rows, dtype=np.int64),
        masks=np.zeros((n_rows, n_actions), dtype=np.int8),
        rewards=np.zeros(n_rows),
        terminations=np.zeros(n_rows, dtype=np.bool_),
        truncations=np.zeros(n_rows, dtype=np.bool_),
        returns=np.zeros(n_rows),
        lengths=np.zeros(n_rows, dtype=np.int64),
        has_ended=np.ones(n_rows, dtype=np.bool_),
    )


counts_at = take_as(lambda: new_counts(1, 1))
"""Turn the positions of `Counts` into them, in compiled code."""


@jit
def take_actions(counts, chosen, given, tolerated):
    """Copy the actions of the chosen rows; return the first row whose action is illegal, or `ALL_LEGAL`.

    The action ``tolerated`` is legal whatever the mask says.
    """
    actions, masks = counts.actions, counts.masks
    n_actions = masks.shape[1]
    illegal = ALL_LEGAL
    for row in range(len(chosen)):
        action = given[row]
        actions[row] = action
        is_legal = 0 <= action < n_actions and (masks[row, action] != 0 or action == tolerated)
        if chosen[row] and illegal == ALL_LEGAL and not is_legal:
            illegal = row
    return illegal


@jit
def keep_count(counts, chosen):
    """Keep count of the episodes of the chosen rows after a step; return how many have ended."""
    n_ended = 0
    for row in range(len(chosen)):
        if chosen[row]:
            counts.lengths[row] += 1
            counts.returns[row] += counts.rewards[row]
            ends = counts.terminations[row] or counts.truncations[row]
            counts.has_ended[row] = ends
            n_ended += ends
    return n_ended
