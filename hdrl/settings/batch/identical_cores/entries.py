"""The face of the simulator: the functions that Python calls. Each works on the chosen environments of a batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from hdrl.compiled.borrowed import Borrowed
from hdrl.compiled.cache import compile_once
from hdrl.compiled.codes import CodeTable
from hdrl.compiled.jit import jit
from hdrl.compiled.serving import NO_NUMBERS, RESET, STEP, serving
from hdrl.compiled.team import new_team
from hdrl.settings.batch.identical_cores import engine
from hdrl.settings.batch.identical_cores.codes import N_OBJECTIVES, NO_KEY, OVER, OWN
from hdrl.settings.batch.identical_cores.events import objective_value, reward_for
from hdrl.settings.batch.identical_cores.guide import guided
from hdrl.settings.batch.identical_cores.jit import CACHE_FOLDER, entry
from hdrl.settings.batch.identical_cores.observe import observe, observe_anew
from hdrl.settings.batch.identical_cores.queue import hold
from hdrl.settings.batch.identical_cores.state import OrderState, smallest_state
from hdrl.settings.batch.kernel.codes import ORDER_JOB_KEYS

REQUESTS = CodeTable("request", range(6))
"""Requests to `SERVED`: what the functions below do."""

_RUN, _REPORT, _GUIDE, _FOLLOW = REQUESTS[2:]


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
    gain = value - s.rewarded
    s.rewarded = value
    return reward_for(settings.objective, gain)


@jit
def _follow(state):
    """Run the whole episode under the policy to imitate."""
    _reset(state)
    while state.scalars[0].stage != OVER:
        _step(state, guided(state))


@jit
def _write_results(state, row, results):
    for objective in range(N_OBJECTIVES):
        results[objective, row] = objective_value(state, objective)


@jit
def _serve_row(state, counts, request, row, numbers, results):
    """Carry out one request in one environment, which is a row of its batch."""
    if request == STEP:
        counts.rewards[row] = _step(state, counts.actions[row])
        counts.terminations[row] = state.scalars[0].stage == OVER
    elif request == RESET:
        _reset(state)
    elif request == _RUN:
        engine.run_key(state, numbers[row])
        _write_results(state, row, results)
    elif request == _GUIDE:
        results[0, row] = guided(state)
    elif request == _FOLLOW:
        _follow(state)
        _write_results(state, row, results)
    else:
        _write_results(state, row, results)


@jit
def _is_valid_request(batch, request, numbers):  # noqa: ARG001 - settings are looked at where the state is made
    """Return whether a request is known; settings and keys have been looked at before."""
    return request in REQUESTS


SERVED = serving(
    entry,
    OrderState,
    smallest_state,
    serve_row=_serve_row,
    is_valid=_is_valid_request,
    requests=REQUESTS,
    module=__name__,
    n_results=N_OBJECTIVES,
)
"""Batches of environments; `identical_cores.state.set_episode` says which jobs their episodes consist of."""


def _call_all(
    batch: Borrowed[OrderState], request: int, numbers: NDArray[np.int64] = NO_NUMBERS
) -> NDArray[np.float64]:
    return SERVED.call(batch, request, np.ones(len(batch.arrays.scalars), dtype=np.bool_), numbers)


def run_keys(batch: Borrowed[OrderState], keys: Sequence[int]) -> NDArray[np.float64]:
    """Run one whole episode of each environment under a job key, in one compiled call.

    Parameters
    ----------
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
    return _call_all(batch, _RUN, np.array(keys, dtype=np.int64))


def guide_rows(batch: Borrowed[OrderState]) -> NDArray[np.int64]:
    """Return the action that the policy of the settings would take in each environment, shape ``(n_envs,)``."""
    return _call_all(batch, _GUIDE)[0].astype(np.int64)


def follow_rows(batch: Borrowed[OrderState]) -> NDArray[np.float64]:
    """Run one whole episode of each environment under the policy of the settings, choice by choice.

    Returns all objectives by their numbers, shape ``(n_objectives, n_envs)``.
    """
    return _call_all(batch, _FOLLOW)


def objectives(batch: Borrowed[OrderState], chosen: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return all objectives of environments over the jobs that they have started.

    Returns by their numbers, shape ``(n_objectives, n_envs)``; 0 for environments that are not chosen.
    """
    return SERVED.call(batch, _REPORT, chosen)


def warm_up(message: Callable[[str], None]) -> None:
    """Compile the simulator if it has never been compiled here; later processes load it from the cache."""
    text = "compiling the simulator of identical processors (the first time only, about ten seconds)"
    compile_once(CACHE_FOLDER, "compiled", text, _step_once, message)


def _step_once() -> None:
    """Run one job on one processor: the entries are one compiled function, so that this compiles them."""
    batch, chosen = smallest_state(), np.ones(1, dtype=np.bool_)
    SERVED.reset(Borrowed(batch), new_team(1), chosen)
