"""The simulator's face: the functions that Python calls. Each works on the chosen environments of a batch."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hdrl.base.errors import SimulationError
from hdrl.compiled.borrow import borrow
from hdrl.compiled.codes import UNKNOWN_CODE, CodeTable, check_status
from hdrl.compiled.counts import ALL_LEGAL, NO_ACTION, Counts, counts_at, keep_count, new_counts, take_actions
from hdrl.compiled.jit import jit
from hdrl.compiled.lend import Lent, take_as
from hdrl.compiled.rows import moved_to
from hdrl.compiled.team import LEADER, Team, enter_round, leave_round, new_team, request_of, take_row
from hdrl.settings.pipelines.kernel import engine
from hdrl.settings.pipelines.kernel.codes import (
    FUSIONS,
    N_OBJECTIVES,
    OBJECTIVES,
    ORDERS,
    OVER,
    PLACES,
    R_METRIC,
    RELEASES,
    REWARDS,
)
from hdrl.settings.pipelines.kernel.decide import knows_policy, run
from hdrl.settings.pipelines.kernel.jit import entry
from hdrl.settings.pipelines.kernel.observe import act, observe
from hdrl.settings.pipelines.kernel.state import State, first_row, smallest_state

_RESET, _STEP, _RUN, _TELL, _BEGIN, _DISPATCH = REQUESTS = CodeTable("request", range(6))
"""What `_call` does."""


@jit
def _knows(batch, request, numbers):
    """Return whether all numbers that a request depends on are in their tables."""
    settings = batch.settings[0]
    knows = settings.reward in REWARDS and settings.objective in OBJECTIVES and settings.compatibility in RELEASES
    if request == _RUN:
        knows = knows and knows_policy(numbers[0], numbers[1], numbers[2])
    return knows and request in REQUESTS


@jit
def _reset(state):
    engine.begin(state)
    engine.advance(state)
    observe(state)


@jit
def _step(state, action):
    """Carry out an action; return the reward."""
    s = state.scalars[0]
    act(state, action)
    engine.advance(state)
    observe(state)
    if state.settings[0].reward == R_METRIC:
        value = engine.objective_value(state, state.settings[0].objective)
        gain = s.told - value
        s.told = value
        return gain
    gain = s.earned
    s.earned = 0.0
    return gain


@jit
def _serve(state, request, row, numbers, results):
    """Carry out one request in one environment, which is a row of its batch."""
    if request == _STEP:
        state.is_over[row] = state.scalars[0].stage == OVER
    elif request == _RESET:
        _reset(state)
    elif request == _RUN:
        run(state, numbers[0], numbers[1], numbers[2])
    elif request == _BEGIN:
        engine.begin(state)
        engine.advance(state)
    elif request == _DISPATCH:
        if numbers[0] < 0:
            engine.wait(state)
        else:
            engine.dispatch(state, numbers[0], numbers[1], numbers[2])
        engine.advance(state)
    if request in (_RUN, _TELL):
        for objective in range(N_OBJECTIVES):
            results[objective, row] = engine.objective_value(state, objective)


@jit
def _serve_rows(batch, counts, team, member, chosen, numbers, results):
    """Carry out a request in chosen environments, as long as there are any to take."""
    request = request_of(team)
    state = borrow(first_row(batch))
    row = take_row(team, member)
    while row >= 0:
        if chosen[row]:
            state = moved_to(state, batch, row)
            if request == _STEP:
                state.rewards[row] = _step(state, counts.actions[row])
            _serve(state, request, row, numbers, results)
        row = take_row(team, member)


_taken = take_as(smallest_state)


@entry
def _call(places, counts, team, request, member, chosen, numbers, results):
    batch, lent_counts = _taken(places), counts_at(counts)
    if not _knows(batch, request, numbers):
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


_NO_NUMBERS = np.zeros(3, dtype=np.int64)
_NO_RESULTS = np.zeros((N_OBJECTIVES, 0))
_NO_COUNTS = Lent(new_counts(0, 0))


def _ask(
    batch: Lent[State],
    team: Team,
    request: int,
    chosen: NDArray[np.bool_],
    *,
    counts: Lent[Counts] = _NO_COUNTS,
    member: int = LEADER,
    numbers: NDArray[np.int64] = _NO_NUMBERS,
    results: NDArray[np.float64] = _NO_RESULTS,
) -> tuple[int, int]:
    """Carry out a request; return the first illegal action and how many episodes have ended.

    Raises
    ------
    SimulationError
        If a number that it depends on is in no table.
    """
    illegal, n_ended = _call(batch.places, counts.places, team, request, member, chosen, numbers, results)
    if illegal == UNKNOWN_CODE:
        settings = batch.arrays.settings[0]
        policy = zip((ORDERS, PLACES, FUSIONS), numbers.tolist(), strict=True) if request == _RUN else ()
        asked = (
            (REWARDS, settings["reward"]),
            (OBJECTIVES, settings["objective"]),
            (RELEASES, settings["compatibility"]),
        )
        check_status(illegal, (REQUESTS, request), *asked, *policy)
        raise SimulationError(f"order, place and fusion do not go together: {numbers.tolist()}")
    return illegal, n_ended


def reset_rows(batch: Lent[State], team: Team, chosen: NDArray[np.bool_]) -> None:
    """Begin the episodes of the chosen environments, up to their first decisions.

    Parameters
    ----------
    batch
        The arrays; `hdrl.settings.pipelines.kernel.state.set_episode` has said what the episodes consist of.
    team
        Who shares the rows.
    chosen
        Which of all environments.
    """
    _ask(batch, team, _RESET, chosen)


def step_rows(
    batch: Lent[State], counts: Lent[Counts], team: Team, chosen: NDArray[np.bool_], actions: NDArray[np.int64]
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
    return _ask(batch, team, _STEP, chosen, counts=counts, numbers=actions)


def help_rows(batch: Lent[State], counts: Lent[Counts], team: Team, member: int, chosen: NDArray[np.bool_]) -> None:
    """Help with `reset_rows` and `step_rows` of another thread, until nothing has been to do for a while.

    Parameters
    ----------
    batch, counts, team, chosen
        Those of the other thread.
    member
        The number of who helps.
    """
    _ask(batch, team, _STEP, chosen, counts=counts, member=member)


def run_policy(
    batch: Lent[State], policy: tuple[int, int, int], chosen: NDArray[np.bool_] | None = None
) -> NDArray[np.float64]:
    """Run one whole episode of each environment under a policy, in one compiled call.

    Parameters
    ----------
    batch
        The arrays; ``weights`` of each environment if the policy is an index.
    policy
        Order, place and fusion: numbers of `hdrl.settings.pipelines.kernel.codes`.
    chosen
        Which of all environments; ``None``: all.

    Returns
    -------
    numpy.ndarray
        All objectives by their numbers, shape ``(n_objectives, n_envs)``; 0 for environments that are not chosen.

    Raises
    ------
    SimulationError
        If a number is in no table, or they do not go together.
    """
    n_envs = len(batch.arrays.scalars)
    results = np.zeros((N_OBJECTIVES, n_envs))
    numbers = np.array(policy, dtype=np.int64)
    rows = np.ones(n_envs, dtype=np.bool_) if chosen is None else chosen
    _ask(batch, new_team(n_envs), _RUN, rows, numbers=numbers, results=results)
    return results


def objectives(batch: Lent[State], chosen: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return all objectives of environments over the instances that have ended.

    Parameters
    ----------
    batch
        The arrays.
    chosen
        Which of all environments.

    Returns
    -------
    numpy.ndarray
        By their numbers, shape ``(n_objectives, n_envs)``; 0 for environments that are not chosen.
    """
    results = np.zeros((N_OBJECTIVES, len(chosen)))
    _ask(batch, new_team(len(chosen)), _TELL, chosen, results=results)
    return results


_ONE = np.ones(1, dtype=np.bool_)


def begin_one(batch: Lent[State]) -> None:
    """Begin the episode of the only environment of a batch, up to its first decision, without observing.

    Parameters
    ----------
    batch
        The arrays.
    """
    _ask(batch, new_team(1), _BEGIN, _ONE)


def dispatch_one(batch: Lent[State], place: int, choice: int, unit: int) -> None:
    """Start or queue something in the only environment of a batch, and go on to its next decision.

    Parameters
    ----------
    batch
        The arrays.
    place
        Which of the ready kernels; -1: wait for the next event.
    choice, unit
        Numbers in the tables of choices and of units; they have been found to be possible.
    """
    numbers = np.array([place, choice, unit], dtype=np.int64)
    _ask(batch, new_team(1), _DISPATCH, _ONE, numbers=numbers)
