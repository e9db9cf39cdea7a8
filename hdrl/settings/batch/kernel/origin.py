"""How an episode of a batch begins: with the machine of date 0 and the jobs of a window.

Episodes begin often, in many environments at once. What they begin with is kept once, the machine in a state at date 0
and the jobs in an *origin*, and copied by compiled code, by the threads that share the environments.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hdrl.compiled.fields import restoring
from hdrl.compiled.jit import jit
from hdrl.compiled.records import record_dtype
from hdrl.compiled.rows import copy_rows
from hdrl.settings.batch.kernel.state import State

WINDOW_DTYPE = record_dtype([("section", np.int64), ("start", np.int64), ("n_jobs", np.int64), ("is_shifted", np.int8)])
"""Which jobs an environment begins with.

They are ``n_jobs`` rows of `Origin` from ``start`` on, counted from where their ``section`` begins; ``is_shifted``:
the first one is to be submitted at date 0.
"""


class Origin(NamedTuple):
    """The jobs that environments begin with; none of it changes but for ``windows``.

    A section holds the jobs of a workload; ranks, and jobs by rank, are counted from where it begins.
    """

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
        Rows of `kernel.state.JOB_STATE_DTYPE` at date 0.
    sources
        The source of each.
    by_rank
        The jobs in Batsim's order of submission.
    """

    jobs: NDArray[np.void]
    sources: NDArray[np.int64]
    by_rank: NDArray[np.int64]


def new_origin(sections: Sequence[Section], n_environments: int) -> Origin:
    """Return the jobs that environments begin with; the windows are still to be chosen."""
    return Origin(
        jobs=np.concatenate([one.jobs for one in sections]),
        sources=np.concatenate([one.sources for one in sections]).astype(np.int64),
        ranks=np.concatenate([np.argsort(one.by_rank) for one in sections]),
        by_rank=np.concatenate([one.by_rank for one in sections]).astype(np.int64),
        windows=np.zeros(n_environments, dtype=WINDOW_DTYPE),
    )


_restore = restoring(State)
"""Bring the machine back to date 0: ``_restore(state, beginning)``."""


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
def bring_back(state, beginning, origin, environment):
    """Bring one environment of a batch back to date 0: the machine of a state, and the jobs of its window."""
    window = origin.windows[environment]
    _restore(state, beginning)
    _take_jobs(state, origin, window)
    _assign_to_submitters(state, origin, window)
