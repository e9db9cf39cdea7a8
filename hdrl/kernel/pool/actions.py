"""What every step of any batch begins and ends with: telling legal actions from illegal ones, and keeping count."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from hdrl.kernel.pool.jit import entry


@entry
def _take(given, actions, masks, is_exempt):
    n_actions = masks.shape[1]
    illegal = -1
    for row in range(len(given)):
        action = given[row]
        actions[row] = action
        if is_exempt[row] or illegal >= 0:
            continue
        if action < 0 or action >= n_actions or masks[row, action] == 0:
            illegal = row
    return illegal


def take(given: NDArray[Any], actions: NDArray[Any], masks: NDArray[Any], is_exempt: NDArray[Any]) -> int:
    """Copy actions, and return the first row whose action is illegal, -1 if all are legal.

    Parameters
    ----------
    given
        The actions, int64 of shape ``(n_rows,)``.
    actions
        Where to copy them to.
    masks
        Which actions are legal, int8 of shape ``(n_rows, n_actions)``.
    is_exempt
        Rows whose actions do not matter, shape ``(n_rows,)``.
    """
    found: int = _take(given, actions, masks, is_exempt)
    return found


@entry
def _count(stepped, rewards, terminations, truncations, returns, lengths, has_ended, shown):
    n_ended = 0
    shown_rewards, shown_terminations, shown_truncations = shown
    for row in range(len(stepped)):
        lengths[row] += stepped[row]
        returns[row] += rewards[row]
        ends = terminations[row] or truncations[row]
        has_ended[row] = ends
        n_ended += ends
        shown_rewards[row] = rewards[row]
        shown_terminations[row] = terminations[row]
        shown_truncations[row] = truncations[row]
    return n_ended


def count(
    stepped: NDArray[Any],
    rewards: NDArray[Any],
    terminations: NDArray[Any],
    truncations: NDArray[Any],
    returns: NDArray[Any],
    lengths: NDArray[Any],
    has_ended: NDArray[Any],
    shown: tuple[NDArray[Any], NDArray[Any], NDArray[Any]],
) -> int:
    """Keep count of episodes after a step, and return how many have ended.

    Parameters
    ----------
    stepped
        Which rows have carried out an action; it adds to ``lengths``.
    rewards, terminations, truncations
        What the step gave each row.
    returns, lengths, has_ended
        What is counted.
    shown
        Where to copy rewards, terminations and truncations to.
    """
    n_ended: int = _count(stepped, rewards, terminations, truncations, returns, lengths, has_ended, shown)
    return n_ended
