"""The simulator's face: the functions that Python calls. Each works on the chosen environments of a batch."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from hdrl.compiled.borrowed import Borrowed
from hdrl.compiled.codes import CodeTable
from hdrl.compiled.jit import jit
from hdrl.compiled.serving import RESET, STEP, serving
from hdrl.settings.pipelines.kernel import engine
from hdrl.settings.pipelines.kernel.codes import (
    FUSIONS,
    N_OBJECTIVES,
    OBJECTIVES,
    ORDERS,
    OVER,
    PLACEMENTS,
    R_METRIC,
    RELEASES,
    REWARDS,
)
from hdrl.settings.pipelines.kernel.decide import is_valid_policy, run
from hdrl.settings.pipelines.kernel.jit import entry
from hdrl.settings.pipelines.kernel.observe import act, observe
from hdrl.settings.pipelines.kernel.state import PipelinesState, smallest_state

REQUESTS = CodeTable("request", range(6))
"""Requests to `SERVED`: what the functions below do."""

_RUN, _REPORT, _BEGIN, _DISPATCH = REQUESTS[2:]


@jit
def _is_valid_request(batch, request, numbers):
    """Return whether all numbers that a request depends on are in their tables."""
    settings = batch.settings[0]
    is_known = settings.reward in REWARDS and settings.objective in OBJECTIVES and settings.compatibility in RELEASES
    if request == _RUN:
        is_known = is_known and is_valid_policy(numbers[0], numbers[1], numbers[2])
    return is_known and request in REQUESTS


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
        gain = s.rewarded - value
        s.rewarded = value
        return gain
    gain = s.earned
    s.earned = 0.0
    return gain


@jit
def _serve_row(state, counts, request, row, numbers, results):
    """Carry out one request in one environment, which is a row of its batch."""
    if request == STEP:
        counts.rewards[row] = _step(state, counts.actions[row])
        counts.terminations[row] = state.scalars[0].stage == OVER
    elif request == RESET:
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
    if request in (_RUN, _REPORT):
        for objective in range(N_OBJECTIVES):
            results[objective, row] = engine.objective_value(state, objective)


def _used_codes(batch: PipelinesState, request: int, numbers: Sequence[int]) -> list[tuple[CodeTable, int]]:
    """Return the tables and numbers that a request depends on."""
    settings = batch.settings[0]
    tables = (REWARDS, "reward"), (OBJECTIVES, "objective"), (RELEASES, "compatibility")
    used_codes = [(table, int(settings[name])) for table, name in tables]
    return used_codes + (list(zip((ORDERS, PLACEMENTS, FUSIONS), numbers, strict=True)) if request == _RUN else [])


SERVED = serving(
    entry,
    PipelinesState,
    smallest_state,
    serve_row=_serve_row,
    is_valid=_is_valid_request,
    requests=REQUESTS,
    module=__name__,
    used_codes=_used_codes,
    n_results=N_OBJECTIVES,
)
"""Batches of environments; `hdrl.settings.pipelines.kernel.state.set_episode` says what their episodes consist of."""

_ONE = np.ones(1, dtype=np.bool_)


def run_policy(
    batch: Borrowed[PipelinesState], policy: tuple[int, int, int], chosen: NDArray[np.bool_] | None = None
) -> NDArray[np.float64]:
    """Run one episode of each chosen environment under a policy, in one compiled call.

    ``policy`` holds the numbers of order, position and fusion in `hdrl.settings.pipelines.kernel.codes`. Return all
    objectives by number, shape ``(n_objectives, n_envs)``, 0 for other environments.

    Raises
    ------
    SimulationError
        If a number is in no table, or they do not go together.
    """
    n_envs = len(batch.arrays.scalars)
    rows = np.ones(n_envs, dtype=np.bool_) if chosen is None else chosen
    return SERVED.call(batch, _RUN, rows, np.array(policy, dtype=np.int64))


def objectives(batch: Borrowed[PipelinesState], chosen: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return objectives over ended instances, by number, shape ``(n_objectives, n_envs)``; 0 if not chosen."""
    return SERVED.call(batch, _REPORT, chosen)


def begin_one(batch: Borrowed[PipelinesState]) -> None:
    """Begin the episode of the only environment of a batch, up to its first decision, without observing."""
    SERVED.call(batch, _BEGIN, _ONE)


def dispatch_one(batch: Borrowed[PipelinesState], position: int, choice: int, unit: int) -> None:
    """Start or queue a kernel in the only environment of a batch, and go on to its next decision.

    ``position`` is the number of the ready kernel, -1 to wait for the next event; ``choice`` and ``unit``, numbers in
    their tables, must be possible.
    """
    SERVED.call(batch, _DISPATCH, _ONE, np.array([position, choice, unit], dtype=np.int64))
