"""The face of the world: the functions that Python calls."""

from __future__ import annotations

import math
from collections.abc import Sequence

from hdrl.compat.dissertation.jit import entry
from hdrl.compat.dissertation.view import look, mark_legal, show
from hdrl.compat.dissertation.world import (
    CORRECTED,
    EPISODIC,
    IS_OVER,
    N_ROWS,
    N_SEEN,
    N_WAITING,
    NO_JOB,
    ORDERS,
    REWARD,
    REWARDS,
    RUNNING,
    SCORE,
    SCORES,
    SCORES_OF_ROWS,
    SKIP_IS_REWARDED,
    SKIP_ROW_FIRST,
    NodeWorld,
    choose,
    clear,
    mean_score,
    skip,
    smallest_world,
)
from hdrl.compiled.codes import CodeTable
from hdrl.compiled.jit import jit
from hdrl.compiled.serving import RESET, serving

REQUESTS = CodeTable("request", range(4))
"""Requests to `SERVED`.

`GUIDE` tells the row of the job of those seen that comes first by an order, 0 where none is seen; `PLAY` runs an
episode under a baseline. Both are given the order of each environment, one of `ORDERS`.
"""

GUIDE, PLAY = REQUESTS[2:]

NO_REWARD = -1e-6
"""Reward of doing nothing, and of the last step."""


@jit
def _sigmoid(w):
    """Return e^(-x/k) / (1 + e^(-x/k)) of the score x so far: below 1/2 wherever x is positive."""
    share = math.exp(-mean_score(w) / w.scale[0])
    return share / (1.0 + share) if share < math.inf else 1.0


@jit
def _reward(w, is_job):
    kind, is_over = w.settings[REWARD], w.counts[IS_OVER] != 0
    if kind == EPISODIC:
        return -mean_score(w) if is_over else 0.0
    if kind == RUNNING:
        return 0.0 if is_over else -mean_score(w)
    if kind == CORRECTED:
        before, w.rewarded[0] = w.rewarded[0], 2.0 * _sigmoid(w)
        return w.rewarded[0] - before
    is_rewarded = is_job or w.flags[SKIP_IS_REWARDED] != 0
    return _sigmoid(w) if is_rewarded and not is_over else NO_REWARD


@jit
def _best_row(w, order):
    """Return the job of the first row whose score is smallest."""
    best, best_score = NO_JOB, math.inf
    for row in range(w.counts[N_SEEN]):
        j = w.seen[row]
        score = w.scores[order, w.first[0] + j]
        if best == NO_JOB or score < best_score:
            best, best_score = j, score
    return best


@jit
def _best_job(w, order):
    """Return the first of all waiting jobs by an order, the earlier one of equals."""
    best, first = w.queue[0], w.first[0]
    for i in range(1, w.counts[N_WAITING]):
        j = w.queue[i]
        rank, least = w.ranks[order, first + j], w.ranks[order, first + best]
        if rank < least or (rank == least and j < best):
            best = j
    return best


@jit
def _guided(w, order):
    """Return the row of the job of those seen that comes first by an order; 0 where none is seen."""
    best, least = 0, math.inf
    for row in range(w.counts[N_SEEN]):
        rank = w.ranks[order, w.first[0] + w.seen[row]]
        if rank < least:
            best, least = row, rank
    return best


@jit
def _play_row(w, order):
    clear(w)
    while w.counts[IS_OVER] == 0:
        if w.flags[SCORES_OF_ROWS] != 0:
            look(w)
            j = _best_row(w, order)
        else:
            j = _best_job(w, order)
        has_skip = w.flags[SKIP_ROW_FIRST] != 0 and w.counts[N_WAITING] < N_ROWS
        if has_skip and w.skip_scores[order] < w.scores[order, w.first[0] + j]:
            skip(w)
        else:
            choose(w, j)


@jit
def _step(w, action):
    """Carry out an action; return what it is rewarded with."""
    is_job = action < w.counts[N_SEEN]
    if is_job:
        choose(w, w.seen[action])
    else:
        skip(w)
    return _reward(w, is_job)


@jit
def _serve_row(w, counts, request, row, numbers, results):
    """Carry out a request in one environment, which is a row of its batch."""
    if request == GUIDE:
        results[0, row] = _guided(w, numbers[row])
        return
    if request == PLAY:
        _play_row(w, numbers[row])
        return
    if request == RESET:
        clear(w)
    else:
        counts.rewards[row] = _step(w, counts.actions[row])
        counts.terminations[row] = w.counts[IS_OVER] != 0
    look(w)
    show(w)
    mark_legal(w, counts.masks[row])
    if w.counts[IS_OVER] != 0:
        for action in range(N_ROWS):
            counts.masks[row, action] = action == 0


@jit
def _is_valid_request(batch, request, numbers):
    """Return whether all numbers that a request depends on are in their tables."""
    if request in (GUIDE, PLAY):
        for i in range(len(numbers)):
            if numbers[i] not in ORDERS:
                return False
    return request in REQUESTS and batch.settings[SCORE] in SCORES and batch.settings[REWARD] in REWARDS


def _used_codes(batch: NodeWorld, request: int, numbers: Sequence[int]) -> list[tuple[CodeTable, int]]:
    """Return the tables and numbers that a request depends on."""
    settings = [(SCORES, int(batch.settings[SCORE])), (REWARDS, int(batch.settings[REWARD]))]
    return settings + ([(ORDERS, one) for one in numbers] if request in (GUIDE, PLAY) else [])


SERVED = serving(
    entry,
    NodeWorld,
    smallest_world,
    serve_row=_serve_row,
    is_valid=_is_valid_request,
    requests=REQUESTS,
    module=__name__,
    used_codes=_used_codes,
)
"""Batches of environments: of agents, and of baselines."""
