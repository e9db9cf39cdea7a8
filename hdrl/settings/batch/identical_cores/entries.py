"""The face of the simulator: the functions that Python calls. Each works on the chosen environments of a batch."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from hdrl.compiled.borrow import borrow
from hdrl.compiled.codes import UNKNOWN_CODE, CodeTable, check_status
from hdrl.compiled.counts import ALL_LEGAL, NO_ACTION, Counts, counts_at, keep_count, new_counts, take_actions
from hdrl.compiled.fields import first_row_of
from hdrl.compiled.jit import jit
from hdrl.compiled.lend import Lent, take_as
from hdrl.compiled.rows import moved_to
from hdrl.compiled.team import LEADER, Team, enter_round, leave_round, new_team, request_of, take_row
from hdrl.settings.batch.identical_cores import engine
from hdrl.settings.batch.identical_cores.codes import N_OBJECTIVES, NO_KEY, OVER, OWN
from hdrl.settings.batch.identical_cores.events import objective_value, reward_for
from hdrl.settings.batch.identical_cores.guide import guided
from hdrl.settings.batch.identical_cores.history import note_end, note_start, note_submission
from hdrl.settings.batch.identical_cores.jit import entry
from hdrl.settings.batch.identical_cores.observe import observe, observe_anew
from hdrl.settings.batch.identical_cores.queue import arrange_queue, hold
from hdrl.settings.batch.identical_cores.state import OrderState, smallest_state
from hdrl.settings.batch.kernel.codes import ORDER_JOB_KEYS

_first_state = first_row_of(OrderState)

REQUESTS = CodeTable("request", range(10))
"""What `_call` does."""

_RESET, _STEP, _RUN, _TELL, _SHOW, _NOTE_SUBMISSION, _NOTE_START, _NOTE_END, _GUIDE, _FOLLOW = REQUESTS


@jit
def _reset(state):
    engine.begin(state)
    engine.advance(state, NO_KEY)
    observe_anew(state)


@jit
def _step(state, action):
    """Carry out an action; return the reward."""
    s = state.scalars[0]
    settings = state.settings[0]
    if action == settings.max_jobs * (1 + settings.may_hold):
        engine.leave(state)
    elif action >= settings.max_jobs:
        hold(state, action - settings.max_jobs)
    else:
        engine.choose(state, action)
    stage = engine.advance(state, NO_KEY)
    observe(state)
    if settings.objective == OWN or (settings.is_shaped == 0 and stage != OVER):
        return 0.0
    value = objective_value(state, settings.objective)
    gain = value - s.told
    s.told = value
    return reward_for(settings.objective, gain)


@jit
def _follow(state):
    """Run the whole episode under the policy whose choices are told."""
    _reset(state)
    while state.scalars[0].stage != OVER:
        _step(state, guided(state))


@jit
def _take_note(state, request, job):
    """Tell who predicts what became of a job."""
    if request == _NOTE_SUBMISSION:
        note_submission(state, job)
    elif request == _NOTE_START:
        note_start(state, job)
    elif request == _NOTE_END:
        note_end(state, job)


@jit
def _serve(state, request, row, number, results):
    """Carry out one request in one environment, which is a row of its batch."""
    if request == _STEP:
        state.rewards[row] = _step(state, number)
        state.is_over[row] = state.scalars[0].stage == OVER
    elif request == _RESET:
        _reset(state)
    elif request == _SHOW:
        arrange_queue(state)
        observe_anew(state)
    elif request == _RUN:
        engine.run_key(state, number)
        _tell(state, row, results)
    elif request == _GUIDE:
        results[0, row] = guided(state)
    elif request == _FOLLOW:
        _follow(state)
        _tell(state, row, results)
    elif request == _TELL:
        _tell(state, row, results)
    else:
        _take_note(state, request, number)


@jit
def _tell(state, row, results):
    for objective in range(N_OBJECTIVES):
        results[objective, row] = objective_value(state, objective)


@jit
def _serve_rows(batch, counts, team, member, chosen, numbers, results):
    """Carry out a request in chosen environments, as long as there are any to take."""
    request = request_of(team)
    state = borrow(_first_state(batch))
    row = take_row(team, member)
    while row >= 0:
        if chosen[row]:
            state = moved_to(state, batch, row)
            number = numbers[row] if len(numbers) > 0 else counts.actions[row] if request == _STEP else 0
            _serve(state, request, row, number, results)
        row = take_row(team, member)


_taken = take_as(smallest_state)


@entry
def _call(places, counts, team, request, member, chosen, numbers, results):
    batch, lent_counts = _taken(places), counts_at(counts)
    if request not in REQUESTS:
        return UNKNOWN_CODE, 0
    leads_step = member == LEADER and request == _STEP
    if leads_step:
        illegal = take_actions(lent_counts, chosen, numbers, NO_ACTION)
        if illegal != ALL_LEGAL:
            return illegal, 0
    is_on = enter_round(team, request, member)
    while is_on:
        _serve_rows(batch, lent_counts, team, member, chosen, numbers, results)
        is_on = leave_round(team, member)
    return ALL_LEGAL, keep_count(lent_counts, chosen) if leads_step else 0


_NO_NUMBERS = np.zeros(0, dtype=np.int64)
_NO_RESULTS = np.zeros((N_OBJECTIVES, 0))
_NO_COUNTS = Lent(new_counts(0, 0))


def _ask(
    batch: Lent[OrderState],
    request: int,
    chosen: NDArray[np.bool_] | None = None,
    numbers: NDArray[np.int64] = _NO_NUMBERS,
) -> NDArray[np.float64]:
    """Carry out a request in chosen environments, ``None``: all, on one thread; return the results."""
    n_envs = len(batch.arrays.scalars)
    results = np.zeros((N_OBJECTIVES, n_envs))
    chosen = np.ones(n_envs, dtype=np.bool_) if chosen is None else chosen
    status, _ = _call(batch.places, _NO_COUNTS.places, new_team(n_envs), request, LEADER, chosen, numbers, results)
    check_status(status, (REQUESTS, request))
    return results


def reset_rows(batch: Lent[OrderState], team: Team, chosen: NDArray[np.bool_]) -> None:
    """Begin the episodes of the chosen environments, up to their first decisions.

    Parameters
    ----------
    batch
        The arrays; `order.state.set_episode` has said which jobs the episodes consist of.
    team
        Who shares the rows, see `hdrl.compiled.team`.
    chosen
        Which of all environments.
    """
    _call(batch.places, _NO_COUNTS.places, team, _RESET, LEADER, chosen, _NO_NUMBERS, _NO_RESULTS)


def step_rows(
    batch: Lent[OrderState], counts: Lent[Counts], team: Team, chosen: NDArray[np.bool_], actions: NDArray[np.int64]
) -> tuple[int, int]:
    """Carry out actions up to the next decisions; rewards, observations, masks and ``is_over`` are written.

    Parameters
    ----------
    batch, team, chosen
        See `reset_rows`.
    counts
        What is kept of the steps; its masks, rewards and terminations are those of the batch.
    actions
        An action for each of all environments.

    Returns
    -------
    tuple
        The first of the environments whose action is illegal, -1 if there is none: nothing has happened otherwise; and
        how many episodes have ended.
    """
    illegal, n_ended = _call(batch.places, counts.places, team, _STEP, LEADER, chosen, actions, _NO_RESULTS)
    return illegal, n_ended


def help_rows(
    batch: Lent[OrderState], counts: Lent[Counts], team: Team, member: int, chosen: NDArray[np.bool_]
) -> None:
    """Help with `reset_rows` and `step_rows` of another thread, until nothing has been to do for a while."""
    _call(batch.places, counts.places, team, _STEP, member, chosen, _NO_NUMBERS, _NO_RESULTS)


def show_rows(batch: Lent[OrderState], chosen: NDArray[np.bool_]) -> None:
    """Bring the queues of environments into their order and write their observations, without simulating anything."""
    _ask(batch, _SHOW, chosen)


def note_submission_of(batch: Lent[OrderState], job: int) -> None:
    """Tell who predicts, in a batch of one environment that somebody else simulates, that a job has been submitted.

    Parameters
    ----------
    batch
        The arrays; ``message_s`` is the date.
    job
        Its place in the table.
    """
    _ask(batch, _NOTE_SUBMISSION, numbers=np.array([job], dtype=np.int64))


def note_start_of(batch: Lent[OrderState], job: int) -> None:
    """Tell who predicts that a job is being started: see `note_submission_of`."""
    _ask(batch, _NOTE_START, numbers=np.array([job], dtype=np.int64))


def note_end_of(batch: Lent[OrderState], job: int) -> None:
    """Tell who predicts that a job has ended: see `note_submission_of`; the queue holds the jobs that wait."""
    _ask(batch, _NOTE_END, numbers=np.array([job], dtype=np.int64))


def run_keys(batch: Lent[OrderState], keys: Sequence[int]) -> NDArray[np.float64]:
    """Run one whole episode of each environment under a job key, in one compiled call.

    Parameters
    ----------
    batch
        The arrays; `order.state.set_episode` has said which jobs the episodes consist of.
    keys
        Job key of each environment, one of `kernel.codes.ORDER_JOB_KEYS`.

    Returns
    -------
    numpy.ndarray
        All objectives by their numbers, shape ``(n_objectives, n_envs)``.

    Raises
    ------
    SimulationError
        If a key is none of them.
    """
    for key in keys:
        ORDER_JOB_KEYS.check(key)
    return _ask(batch, _RUN, numbers=np.array(keys, dtype=np.int64))


def guide_rows(batch: Lent[OrderState]) -> NDArray[np.int64]:
    """Return the action that the policy of the settings would take in each environment, shape ``(n_envs,)``."""
    return _ask(batch, _GUIDE)[0].astype(np.int64)


def follow_rows(batch: Lent[OrderState]) -> NDArray[np.float64]:
    """Run one whole episode of each environment under the policy of the settings, choice by choice.

    Returns
    -------
    numpy.ndarray
        All objectives by their numbers, shape ``(n_objectives, n_envs)``.
    """
    return _ask(batch, _FOLLOW)


def objectives(batch: Lent[OrderState], chosen: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return all objectives of environments over the jobs that they have started.

    Returns
    -------
    numpy.ndarray
        By their numbers, shape ``(n_objectives, n_envs)``; 0 for environments that are not chosen.
    """
    return _ask(batch, _TELL, chosen)
