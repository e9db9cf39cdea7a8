"""The face of the world: the functions that Python calls."""

from __future__ import annotations

import math

from hdrl.compiled.borrow import borrow
from hdrl.compiled.codes import UNKNOWN_CODE, CodeTable
from hdrl.compiled.counts import ALL_LEGAL, NO_ACTION, counts_at, keep_count, take_actions
from hdrl.compiled.jit import jit
from hdrl.compiled.team import LEADER, enter_round, leave_round, request_of, take_row
from hdrl.settings.batch.dissertation.jit import entry
from hdrl.settings.batch.dissertation.view import look, mark_legal, show
from hdrl.settings.batch.dissertation.world import (
    CORRECTED,
    EPISODIC,
    IS_OVER,
    N_ROWS,
    N_SEEN,
    N_WAITING,
    NOBODY,
    ORDERS,
    REWARD,
    REWARDS,
    RUNNING,
    SCORE,
    SCORES,
    SCORES_OF_ROWS,
    SKIP_IS_PAID,
    SKIP_ROW_FIRST,
    choose,
    clear,
    mean_score,
    skip,
)

RESET, STEP = REQUESTS = CodeTable("request", range(2))
"""Requests to `serve`."""

NO_REWARD = -1e-6
"""What doing nothing is rewarded with, and the last step."""


@jit
def _sigmoid(w, e):
    """Return e^(-x/k) / (1 + e^(-x/k)) of the score x so far: below 1/2 wherever x is positive."""
    share = math.exp(-mean_score(w, e) / w.scale[0])
    return share / (1.0 + share) if share < math.inf else 1.0


@jit
def _reward(w, e, is_job):
    kind, is_over = w.settings[REWARD], w.counts[e, IS_OVER] != 0
    if kind == EPISODIC:
        return -mean_score(w, e) if is_over else 0.0
    if kind == RUNNING:
        return 0.0 if is_over else -mean_score(w, e)
    if kind == CORRECTED:
        before, w.told[e] = w.told[e], 2.0 * _sigmoid(w, e)
        return w.told[e] - before
    is_paid = is_job or w.flags[SKIP_IS_PAID] != 0
    return _sigmoid(w, e) if is_paid and not is_over else NO_REWARD


@jit
def _knows_settings(w):
    """Return whether the numbers of what is scored and rewarded are known."""
    return w.settings[SCORE] in SCORES and w.settings[REWARD] in REWARDS


@jit
def _serve_row(w, counts, request, e, shown):
    if request == RESET:
        clear(w, e)
    else:
        row = counts.actions[e]
        is_job = row < w.counts[e, N_SEEN]
        if is_job:
            choose(w, e, w.seen[e, row])
        else:
            skip(w, e)
        counts.rewards[e] = _reward(w, e, is_job)
        counts.terminations[e] = w.counts[e, IS_OVER] != 0
    look(w, e)
    show(w, e, shown)
    mark_legal(w, e, counts.masks[e])
    if w.counts[e, IS_OVER] != 0:
        for row in range(N_ROWS):
            counts.masks[e, row] = row == 0


@entry
def serve(world, places, team, shown, request, member, chosen, given):
    """Carry out a request in chosen environments.

    Parameters
    ----------
    world, places, team
        The arrays of the batch, the places of its counts, and who shares the rows.
    shown
        Where observations are written, shape ``(n_envs, n_values)``.
    request
        `RESET` or `STEP`.
    member
        The number of the thread.
    chosen
        Which of all environments.
    given
        An action for each of all environments.

    Returns
    -------
    tuple
        The first environment whose action is illegal, `ALL_LEGAL` if there is none, and how many episodes have ended;
        or `UNKNOWN_CODE`, and nothing has happened.
    """
    w, counts = borrow(world), counts_at(places)
    if request not in REQUESTS or not _knows_settings(w):
        return UNKNOWN_CODE, 0
    leads_step = member == LEADER and request == STEP
    if leads_step:
        illegal = take_actions(counts, chosen, given, NO_ACTION)
        if illegal != ALL_LEGAL:
            return illegal, 0
    is_on = enter_round(team, request, member)
    while is_on:
        asked = request_of(team)
        e = take_row(team, member)
        while e >= 0:
            if chosen[e]:
                _serve_row(w, counts, asked, e, shown[e])
            e = take_row(team, member)
        is_on = leave_round(team, member)
    return ALL_LEGAL, keep_count(counts, chosen) if leads_step else 0


@jit
def _best_row(w, e, order):
    """Return the job of the first row whose score is smallest."""
    best, best_score = NOBODY, math.inf
    for row in range(w.counts[e, N_SEEN]):
        j = w.seen[e, row]
        score = w.scores[order, w.first[e] + j]
        if best == NOBODY or score < best_score:
            best, best_score = j, score
    return best


@jit
def _best_job(w, e, order):
    """Return the first of all waiting jobs by an order, the earlier one of equals."""
    best, first = w.queue[e, 0], w.first[e]
    for i in range(1, w.counts[e, N_WAITING]):
        j = w.queue[e, i]
        rank, least = w.ranks[order, first + j], w.ranks[order, first + best]
        if rank < least or (rank == least and j < best):
            best = j
    return best


@entry
def guide(world, order, rows):
    """Tell the row of the job of those seen that comes first by an order, in every environment; 0 where none is seen.

    Parameters
    ----------
    world
        The arrays.
    order
        One of the orders of jobs.
    rows
        Where the rows are written, shape ``(n_envs,)``.
    """
    w = borrow(world)
    if order not in ORDERS:
        return UNKNOWN_CODE
    for e in range(len(w.n_jobs)):
        best, least = 0, math.inf
        for row in range(w.counts[e, N_SEEN]):
            rank = w.ranks[order, w.first[e] + w.seen[e, row]]
            if rank < least:
                best, least = row, rank
        rows[e] = best
    return 0


@jit
def _play_row(w, e, order):
    clear(w, e)
    while w.counts[e, IS_OVER] == 0:
        if w.flags[SCORES_OF_ROWS] != 0:
            look(w, e)
            j = _best_row(w, e, order)
        else:
            j = _best_job(w, e, order)
        has_skip = w.flags[SKIP_ROW_FIRST] != 0 and w.counts[e, N_WAITING] < N_ROWS
        if has_skip and w.skip_scores[order] < w.scores[order, w.first[e] + j]:
            skip(w, e)
        else:
            choose(w, e, j)


@entry
def play(world, order):
    """Run an episode of every environment under a baseline.

    Parameters
    ----------
    world
        The arrays; ``first``, ``n_jobs`` and ``random`` say what the episodes consist of.
    order
        By what it chooses: ``BY_SUBMISSION``, ``BY_SHORTEST``, ``BY_SMALLEST`` or ``BY_F1``.
    """
    w = borrow(world)
    if order not in ORDERS or not _knows_settings(w):
        return UNKNOWN_CODE
    for e in range(len(w.n_jobs)):
        _play_row(w, e, order)
    return 0
