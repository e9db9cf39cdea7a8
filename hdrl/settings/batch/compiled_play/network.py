"""The network of a model in compiled code, and the action that it finds best.

What comes out for a row depends neither on its position nor on the other rows (`hdrl.compiled.dense`), so that two jobs
that look alike are worth the same to the last bit; of equal ones the first is picked.
"""

from __future__ import annotations

import numpy as np

from hdrl.compiled.dense import forward_of, full, pad
from hdrl.compiled.jit import jit
from hdrl.compiled.onerow import forward_one, turn

BLOCK = 16
"""Rows that pass together."""

_ZERO = np.float32(0.0)
_IS_OPEN = False  # no ReLU follows the last layer
_forward = forward_of(BLOCK)


@jit
def lay_out(pick):
    """Lay out the weights, once."""
    if pick.scalars[0].by_rows == 1:
        pad(pick.weights, pick.widths, pick.padded)
    else:
        turn(pick.weights, pick.widths, pick.padded)


@jit
def _pass_block(pick, n):
    """Let the rows of a block pass, and write what the actions of each are worth; add up their last hidden units."""
    units, widths = pick.units, pick.widths
    at = _forward(pick.padded, widths, _IS_OPEN, units)
    n_out, n_hidden = widths[len(widths) - 1], widths[len(widths) - 2]
    n_rows = pick.scalars[0].n_rows
    for k in range(n_out):
        for r in range(n):
            pick.worths[k * n_rows + pick.rows[r]] = units[at + k, r]
    if len(pick.extra) == 0:
        return
    first = at - full(n_hidden)
    for u in range(n_hidden):
        for r in range(n):
            pick.mean[u] += units[first + u, r]


@jit
def _judge_rows(play):
    """Find out what each action is worth where rows pass alone."""
    pick, observations = play.pick, play.pool.observations
    s, n_columns = pick.scalars[0], play.pool.settings[0].n_features
    pick.mean[:] = _ZERO
    n_all, n = 0, 0
    for row in range(s.n_rows):
        if pick.legal[row] == 0 and s.sees_all_rows == 0:
            continue
        for i in range(n_columns):
            pick.units[i, n] = observations[row * n_columns + i]
        pick.rows[n] = row
        n, n_all = n + 1, n_all + 1
        if n == BLOCK:
            _pass_block(pick, n)
            n = 0
    if n > 0:
        _pass_block(pick, n)
    if len(pick.extra) > 0:
        _judge_extra(pick, n_all)


@jit
def _judge_extra(pick, n_all):
    """Find out what the actions are worth that belong to no row, from the mean of the rows."""
    n_hidden = len(pick.mean)
    n_extra = len(pick.extra) // (n_hidden + 1)
    first = len(pick.worths) - n_extra
    for k in range(n_extra):
        worth = pick.extra[n_extra * n_hidden + k]
        for u in range(n_hidden):
            worth += pick.extra[k * n_hidden + u] * (pick.mean[u] / np.float32(n_all))
        pick.worths[first + k] = worth


@jit
def _judge_all(play):
    """Find out what each action is worth where all numbers pass together."""
    pick, observations = play.pick, play.pool.observations
    for i in range(len(observations)):
        pick.line[i] = observations[i]
    at = forward_one(pick.padded, pick.widths, _IS_OPEN, pick.line, pick.active)
    for k in range(len(pick.worths)):
        pick.worths[k] = pick.line[at + k]


@jit
def _judge(play):
    """Find out what each action is worth."""
    pick = play.pick
    if pick.scalars[0].by_rows == 1:
        _judge_rows(play)
    else:
        _judge_all(play)


@jit
def note_hold(pick):
    """Note that a job is held: to rows that pass alone, nothing has changed if theirs is another one."""
    pick.scalars[0].is_judged = 1 if pick.scalars[0].by_rows == 1 and len(pick.extra) == 0 else 0


@jit
def best_action(play):
    """Return the legal action that is worth most; the first of equal ones."""
    pick, best = play.pick, -1
    if pick.scalars[0].is_judged == 0:
        _judge(play)
    for action in range(len(pick.legal)):
        if pick.legal[action] == 1 and (best < 0 or pick.worths[action] > pick.worths[best]):
            best = action
    return best
