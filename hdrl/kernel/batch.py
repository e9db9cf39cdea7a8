"""Many environments at once: the arrays of `State` with a leading axis, and one call for all of them.

The environments of a batch have the same sizes (jobs, cores) and know nothing of each other; each advances exactly as
it would alone. The functions that work on one environment work on a batch too: here it is only cut into views.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from hdrl.kernel import codes, decide, engine
from hdrl.kernel.borrow import borrow
from hdrl.kernel.jit import entry, jit
from hdrl.kernel.state import State

SHARED = ("steps", "rungs", "contention", "by_speed", "by_power")
"""Arrays that never change: the environments of a batch may share them, with a leading axis of length 1."""


def stack(states: Sequence[State]) -> State:
    """Return the arrays of several environments with a leading environment axis; they are copied.

    Parameters
    ----------
    states
        States of equal sizes, for instance of the same platform and workload under several seeds.

    Raises
    ------
    ValueError
        If their sizes differ.
    """
    return State(*(np.stack(arrays) for arrays in zip(*states, strict=True)))


def cut(batch: State, index: int) -> State:
    """Return the arrays of one environment of a batch; they are views.

    Parameters
    ----------
    batch
        Arrays with a leading environment axis.
    index
        Which environment.
    """
    return State(*(array[index] for array in batch))


@jit
def lend(batch, index):
    """Return the arrays of one environment of a borrowed batch.

    What all environments share has a leading axis of length 1. No references are counted here: that would take longer
    than all else.
    """
    shared = min(index, len(batch.steps) - 1)
    return State(
        batch.scalars[index],
        batch.jobs[index],
        batch.steps[shared],
        batch.order[index],
        batch.submitters[index],
        batch.cores[index],
        batch.hosts[index],
        batch.rungs[shared],
        batch.processors[index],
        batch.nodes[index],
        batch.forecasts[index],
        batch.overcommitments[index],
        batch.contention[shared],
        batch.by_speed[shared],
        batch.by_power[shared],
        batch.sleeps[index],
        batch.tasks[index],
        batch.box[index],
        batch.late[index],
        batch.events[index],
        batch.ops[index],
        batch.pool[index],
        batch.scratch[index],
        batch.finished[index],
        batch.queue[index],
        batch.expected[index],
        batch.candidates[index],
        batch.plan_s[index],
        batch.plan[index],
        batch.plan_change[index],
        batch.planned_nodes[index],
        batch.planned_cores[index],
        batch.groups[index],
        batch.group_keys[index],
        batch.dirty[index],
        batch.unseen[index],
        batch.twister[index],
        batch.completed[index],
        batch.allocated[index],
        batch.machine_log[index],
        batch.pstate_log[index],
        batch.pstate_cores[index],
        batch.energy_log[index],
        batch.core_fails[index],
        batch.memory_fails[index],
        batch.spans[index],
    )


@jit
def _run_pair(batch, index, job_key, core_key):
    state = borrow(lend(batch, index))
    engine.begin(state)
    status = codes.PAUSED
    while status == codes.PAUSED:
        status = decide.run_pair(state, job_key, core_key, codes.NO_BACKFILLING, 1 << 30)
    return status


@entry
def _run_pairs(batch, job_keys, core_keys, statuses):
    lent = borrow(batch)
    for i in range(len(statuses)):
        statuses[i] = _run_pair(lent, i, job_keys[i], core_keys[i])


def run_pairs(batch: State, job_keys: Sequence[int], core_keys: Sequence[int]) -> NDArray[np.int64]:
    """Simulate every environment of a batch from date 0 under a policy pair of its own, in one compiled call.

    Parameters
    ----------
    batch
        Arrays with a leading environment axis, all at date 0 and made with ``logging=False`` (logs cannot grow here).
    job_keys, core_keys
        Numbers of the keys of each environment.

    Returns
    -------
    numpy.ndarray
        The status of each environment: ``ENDED`` or ``STUCK``, shape ``(n_envs,)``.
    """
    statuses = np.zeros(len(batch.scalars), dtype=np.int64)
    _run_pairs(batch, np.array(job_keys, dtype=np.int64), np.array(core_keys, dtype=np.int64), statuses)
    return statuses
