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

SHARED = (
    "steps",
    "processor_of",
    "first_rung_of",
    "message_s",
    "rungs",
    "processors",
    "nodes",
    "contention",
    "by_speed",
    "by_power",
)
"""Arrays that never change: the environments of a batch share them, and they have no leading axis."""


SCRATCH = (
    "events",
    "chosen",
    "finished",
    "candidates",
    "forecasts",
    "counts",
    "group_keys",
    "block_keys",
    "switching",
    "n_switching",
)
"""Arrays that hold nothing from one decision to the next: the environments of a batch share them, but threads do not.

They stay in the cache that way, however many environments there are.
"""


def repeated(state: State, n_rows: int) -> State:
    """Return a batch of equal environments, each with arrays of its own, for one thread.

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
    of_all = {*SHARED, *SCRATCH}
    return State(*(array if name in of_all else add_axis(array) for name, array in state._asdict().items()))


def for_another_thread(batch: State) -> State:
    """Return the same environments with scratch of their own.

    Parameters
    ----------
    batch
        The arrays of the batch.
    """
    return batch._replace(**{name: getattr(batch, name).copy() for name in SCRATCH})


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
        batch.pstates[0],
        batch.idle[0],
        batch.processor_of,
        batch.first_rung_of,
        batch.message_s,
        batch.rungs,
        batch.free[0],
        batch.was_free[0],
        batch.changed[0],
        batch.processors,
        batch.n_free[0],
        batch.free_bandwidth_gbps[0],
        batch.due_pstates[0],
        batch.nodes,
        batch.n_free_on[0],
        batch.free_memory_mib[0],
        batch.forecasts,
        batch.overcommitments[0],
        batch.contention,
        batch.by_speed,
        batch.by_power,
        batch.sleeps[0],
        batch.tasks[0],
        batch.box[0],
        batch.late[0],
        batch.events,
        batch.ops[0],
        batch.pool[0],
        batch.chosen,
        batch.finished,
        batch.queue[0],
        batch.expected[0],
        batch.candidates,
        batch.plan_s[0],
        batch.plan[0],
        batch.plan_change[0],
        batch.planned_nodes[0],
        batch.planned_cores[0],
        batch.counts,
        batch.group_keys,
        batch.block_keys,
        batch.switching,
        batch.n_switching,
        batch.touched[0],
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
