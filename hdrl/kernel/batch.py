"""Many environments at once: the arrays of `State` with a leading axis, and one call for all of them.

The environments of a batch have the same sizes (jobs, cores) and know nothing of each other; each advances exactly as
it would alone. The functions that work on one environment work on a batch too: they are lent one row after the other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hdrl.kernel.jit import jit
from hdrl.kernel.state import State

SHARED = ("steps", "rungs", "contention", "by_speed", "by_power")
"""Arrays that never change: the environments of a batch share them, and they have no leading axis."""


def repeated(state: State, n_rows: int) -> State:
    """Return a batch of equal environments, each with arrays of its own.

    Parameters
    ----------
    state
        The arrays of one.
    n_rows
        How many there are to be.
    """
    return _with_axis(state, lambda array: np.stack([array] * n_rows))


def alone(state: State) -> State:
    """Return an environment as a batch of one; its arrays are views.

    Parameters
    ----------
    state
        The arrays of the environment.
    """
    return _with_axis(state, lambda array: array[None])


def _with_axis(state: State, add_axis: Callable[[NDArray[Any]], NDArray[Any]]) -> State:
    """Return a state whose arrays, but for those that environments share, have been given an axis in front."""
    return State(*(array if name in SHARED else add_axis(array) for name, array in state._asdict().items()))


@jit
def first_row(batch):
    """Return the arrays of the first environment of a batch; `hdrl.kernel.rows.moved_to` goes on to the others."""
    return State(
        batch.scalars[0],
        batch.jobs[0],
        batch.steps,
        batch.order[0],
        batch.submitters[0],
        batch.cores[0],
        batch.hosts[0],
        batch.rungs,
        batch.processors[0],
        batch.nodes[0],
        batch.forecasts[0],
        batch.overcommitments[0],
        batch.contention,
        batch.by_speed,
        batch.by_power,
        batch.sleeps[0],
        batch.tasks[0],
        batch.box[0],
        batch.late[0],
        batch.events[0],
        batch.ops[0],
        batch.pool[0],
        batch.scratch[0],
        batch.finished[0],
        batch.queue[0],
        batch.expected[0],
        batch.candidates[0],
        batch.plan_s[0],
        batch.plan[0],
        batch.plan_change[0],
        batch.planned_nodes[0],
        batch.planned_cores[0],
        batch.counts[0],
        batch.group_keys[0],
        batch.block_keys[0],
        batch.dirty[0],
        batch.unseen[0],
        batch.twister[0],
        batch.completed[0],
        batch.allocated[0],
        batch.machine_log[0],
        batch.pstate_log[0],
        batch.pstate_cores[0],
        batch.energy_log[0],
        batch.core_fails[0],
        batch.memory_fails[0],
        batch.spans[0],
    )
