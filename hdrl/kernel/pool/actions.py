"""What every step of any batch begins and ends with: telling legal actions from illegal ones, and keeping count."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hdrl.kernel.lend import Lent, take_as
from hdrl.kernel.pool.jit import entry


class Counts(NamedTuple):
    """What a batch keeps for each row: arrays of shape ``(n_rows,)``, but for the masks.

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
    """Return the arrays of a batch in which no episode has begun.

    Parameters
    ----------
    n_rows, n_actions
        Their sizes.
    """
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


_taken = take_as(lambda: new_counts(1, 1))


@entry
def _take(places, given):
    counts = _taken(places)
    actions, masks, has_ended = counts.actions, counts.masks, counts.has_ended
    n_actions = masks.shape[1]
    illegal = -1
    for row in range(len(given)):
        action = given[row]
        actions[row] = action
        if has_ended[row] or illegal >= 0:
            continue
        if action < 0 or action >= n_actions or masks[row, action] == 0:
            illegal = row
    return illegal


def take(counts: Lent[Counts], given: NDArray[np.int64]) -> int:
    """Copy actions, and return the first row whose action is illegal, -1 if all are legal.

    Parameters
    ----------
    counts
        The arrays of the batch; actions of rows whose episodes have ended do not matter.
    given
        The actions, contiguous.
    """
    illegal: int = _take(counts.places, given)
    return illegal


@entry
def _count(places, stepped):
    counts = _taken(places)
    rewards, terminations, truncations = counts.rewards, counts.terminations, counts.truncations
    returns, lengths, has_ended = counts.returns, counts.lengths, counts.has_ended
    n_ended = 0
    for row in range(len(stepped)):
        lengths[row] += stepped[row]
        returns[row] += rewards[row]
        ends = terminations[row] or truncations[row]
        has_ended[row] = ends
        n_ended += ends
    return n_ended


def count(counts: Lent[Counts], stepped: NDArray[np.bool_]) -> int:
    """Keep count of the episodes after a step, and return how many have ended.

    Parameters
    ----------
    counts
        The arrays of the batch.
    stepped
        Which rows have carried out an action.
    """
    n_ended: int = _count(counts.places, stepped)
    return n_ended
