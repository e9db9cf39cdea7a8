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
from hdrl.kernel.jit import entry
from hdrl.kernel.state import State


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


@entry
def _run_pairs(batch, job_keys, core_keys, statuses):
    for i in range(len(statuses)):
        lent = State(
            batch.scalars[i],
            batch.jobs[i],
            batch.steps[i],
            batch.order[i],
            batch.submitters[i],
            batch.cores[i],
            batch.ladders[i],
            batch.processors[i],
            batch.nodes[i],
            batch.contention[i],
            batch.by_speed[i],
            batch.by_power[i],
            batch.sleeps[i],
            batch.tasks[i],
            batch.box[i],
            batch.late[i],
            batch.events[i],
            batch.ops[i],
            batch.pool[i],
            batch.scratch[i],
            batch.finished[i],
            batch.queue[i],
            batch.expected[i],
            batch.candidates[i],
            batch.groups[i],
            batch.group_keys[i],
            batch.dirty[i],
            batch.twister[i],
            batch.completed[i],
            batch.allocated[i],
            batch.machine_log[i],
            batch.pstate_log[i],
            batch.pstate_cores[i],
            batch.energy_log[i],
            batch.core_fails[i],
            batch.memory_fails[i],
            batch.spans[i],
        )
        state = borrow(lent)
        engine.begin(state)
        statuses[i] = codes.PAUSED
        while statuses[i] == codes.PAUSED:
            statuses[i] = decide.run_pair(state, job_keys[i], core_keys[i], codes.NO_BACKFILLING, 1 << 30)


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
