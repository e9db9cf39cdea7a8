"""How an episode of a batch begins: with the machine of date 0 and the jobs of a window.

Episodes begin often, in many environments at once. What they begin with is kept once, in an *origin*, and copied by
compiled code, by the threads that share the environments.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numba.core import cgutils, types
from numba.extending import intrinsic
from numpy.typing import NDArray

from hdrl.kernel.jit import JIT_DISABLED, jit
from hdrl.kernel.records import record_dtype
from hdrl.kernel.state import State

WINDOW_DTYPE = record_dtype([("section", np.int64), ("start", np.int64), ("n_jobs", np.int64), ("is_shifted", np.int8)])
"""Which jobs an environment begins with.

They are ``n_jobs`` rows of `Origin` from ``start`` on, counted from where their ``section`` begins; ``is_shifted``:
the first one is to be submitted at date 0.
"""


class Origin(NamedTuple):
    """What environments begin with; none of it changes but for ``windows``.

    The arrays up to ``unseen`` are those of `hdrl.kernel.state.State` at date 0, of one environment. A section holds
    the jobs of a workload; ranks, and jobs by rank, are counted from where it begins.
    """

    scalars: NDArray[np.void]
    cores: NDArray[np.void]
    pstates: NDArray[np.int16]
    idle: NDArray[np.uint64]
    free: NDArray[np.uint64]
    was_free: NDArray[np.uint64]
    changed: NDArray[np.uint64]
    n_free: NDArray[np.int32]
    free_bandwidth_gbps: NDArray[np.float64]
    due_pstates: NDArray[np.void]
    n_free_on: NDArray[np.int32]
    free_memory_mib: NDArray[np.float64]
    touched: NDArray[np.uint64]
    unseen: NDArray[np.uint64]
    jobs: NDArray[np.void]  # (n,) JOB_STATE_DTYPE, at date 0
    sources: NDArray[np.int64]  # (n,) the source of each job
    ranks: NDArray[np.int64]  # (n,) its place in Batsim's order of submission
    by_rank: NDArray[np.int64]  # (n,) the jobs in that order
    windows: NDArray[np.void]  # (n_environments,) WINDOW_DTYPE


class Section(NamedTuple):
    """The jobs of a workload, in an order in which windows are cut out of it.

    Attributes
    ----------
    jobs
        Rows of `hdrl.kernel.state.JOB_STATE_DTYPE` at date 0.
    sources
        The source of each.
    by_rank
        The jobs in Batsim's order of submission.
    """

    jobs: NDArray[np.void]
    sources: NDArray[np.int64]
    by_rank: NDArray[np.int64]


def new_origin(state: State, sections: Sequence[Section], n_environments: int) -> Origin:
    """Return what environments begin with; the windows are still to be chosen.

    Parameters
    ----------
    state
        One of them at date 0, of which the machine is copied.
    sections
        The jobs, one section after the other.
    n_environments
        How many environments there are.
    """
    machine = {name: getattr(state, name).copy() for name in Origin._fields[: Origin._fields.index("jobs")]}
    return Origin(
        **machine,
        jobs=np.concatenate([one.jobs for one in sections]),
        sources=np.concatenate([one.sources for one in sections]).astype(np.int64),
        ranks=np.concatenate([np.argsort(one.by_rank) for one in sections]),
        by_rank=np.concatenate([one.by_rank for one in sections]).astype(np.int64),
        windows=np.zeros(n_environments, dtype=WINDOW_DTYPE),
    )


def _copy_plainly(target: NDArray[Any], source: NDArray[Any], first: int, n: int) -> None:
    target[:n] = source[first : first + n]


@intrinsic
def _copy_as_bytes(typing_context: Any, target: Any, source: Any, first: Any, n: Any) -> Any:
    del typing_context, first, n

    def lower(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        to, of = (context.make_array(signature.args[i])(context, builder, arguments[i]) for i in range(2))
        place = cgutils.gep_inbounds(builder, of.data, arguments[2])
        cgutils.raw_memcpy(builder, to.data, place, arguments[3], of.itemsize)
        return context.get_dummy_value()

    return types.void(target, source, types.intp, types.intp), lower


copy_rows = _copy_plainly if JIT_DISABLED else _copy_as_bytes
"""Copy rows of a flat array to the beginning of another: ``copy_rows(target, source, first, n)``."""


@jit
def _bring_machine_back(state, origin):
    """Bring the machine back to date 0."""
    copy_rows(state.scalars, origin.scalars, 0, 1)
    copy_rows(state.cores, origin.cores, 0, len(origin.cores))
    copy_rows(state.pstates, origin.pstates, 0, len(origin.pstates))
    copy_rows(state.idle, origin.idle, 0, len(origin.idle))
    copy_rows(state.free, origin.free, 0, len(origin.free))
    copy_rows(state.was_free, origin.was_free, 0, len(origin.was_free))
    copy_rows(state.changed, origin.changed, 0, len(origin.changed))
    copy_rows(state.n_free, origin.n_free, 0, len(origin.n_free))
    copy_rows(state.free_bandwidth_gbps, origin.free_bandwidth_gbps, 0, len(origin.free_bandwidth_gbps))
    copy_rows(state.due_pstates, origin.due_pstates, 0, len(origin.due_pstates))
    copy_rows(state.n_free_on, origin.n_free_on, 0, len(origin.n_free_on))
    copy_rows(state.free_memory_mib, origin.free_memory_mib, 0, len(origin.free_memory_mib))
    copy_rows(state.touched, origin.touched, 0, len(origin.touched))
    copy_rows(state.unseen, origin.unseen, 0, len(origin.unseen))
    for slot in range(len(state.sleeps)):
        state.sleeps[slot].position = -1
    for job in range(len(state.tasks)):
        state.tasks[job].position = -1


@jit
def _take_jobs(state, origin, window):
    """Take the jobs of a window."""
    copy_rows(state.jobs, origin.jobs, window.section + window.start, window.n_jobs)
    first_submit_s = np.inf
    for job in range(window.n_jobs):
        first_submit_s = min(first_submit_s, state.jobs[job].submit_s)
    shift_s = first_submit_s if window.is_shifted == 1 else 0.0
    for job in range(window.n_jobs):
        state.jobs[job].submit_s -= shift_s
    state.scalars[0].first_submit_s = first_submit_s - shift_s


@jit
def _assign_to_submitters(state, origin, window):
    """Let each submitter submit the jobs of its source, in Batsim's order."""
    first, n_jobs = window.section + window.start, window.n_jobs
    for submitter in range(len(state.submitters)):
        state.submitters[submitter].end = 0
    lowest, highest = origin.ranks[first], origin.ranks[first]
    for job in range(n_jobs):
        state.submitters[origin.sources[first + job]].end += 1
        lowest, highest = min(lowest, origin.ranks[first + job]), max(highest, origin.ranks[first + job])
    n_before = 0
    for submitter in range(len(state.submitters)):
        row = state.submitters[submitter]
        row.next = row.batch = n_before
        n_before += row.end
        row.end = n_before
        row.woke_s = 0.0
        row.phase = 0
    for rank in range(lowest, highest + 1):
        job = origin.by_rank[window.section + rank] - window.start
        if 0 <= job < n_jobs:  # others share a date with the first or the last job of the window
            row = state.submitters[origin.sources[first + job]]
            state.order[row.batch] = job
            row.batch += 1
    for submitter in range(len(state.submitters)):
        state.submitters[submitter].batch = state.submitters[submitter].next


@jit
def bring_back(state, origin, environment):
    """Bring one environment of a batch back to date 0, with the jobs of its window."""
    window = origin.windows[environment]
    _bring_machine_back(state, origin)
    _take_jobs(state, origin, window)
    _assign_to_submitters(state, origin, window)
