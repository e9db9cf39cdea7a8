"""Jobs of a log that ended before a workload begins, and groups of similar jobs.

Predictions of run times learn from ended jobs. In a window of a log, jobs before the window count as ended at their
logged ends if these lie before the first submission in the window: a scheduler would have seen them end. Of later ends,
and of logs that do not tell when jobs started, nothing is known.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]

LEVELS = ("all", "request", "user", "user and request", "user, request and cores")
"""Common attributes of the jobs of one group, coarse to fine. *By name*, a job's name stands in place of its request
beside the user, and in the finest level besides; a job without a name is grouped by its request."""

ALL_LEVEL = LEVELS.index("all")
USER_LEVEL = LEVELS.index("user")


@dataclass(frozen=True, eq=False)
class LogHistory:
    """The jobs of a whole log, of which a workload may hold a part."""

    # dates of the log in seconds; the end is ``inf`` where the log does not tell when a job started
    submit_s: Floats
    ended_s: Floats
    # run times, and requested times, in seconds
    run_s: Floats
    requested_time_s: Floats
    # numbers of the log; a user is negative if unknown
    user: Ints
    cores: Ints
    name: Ints | None = None  # of the job, or of what it executes; negative if unknown. ``None``: of none

    @cached_property
    def by_end(self) -> NDArray[np.int64]:
        """The jobs in the order of their ends."""
        return np.lexsort((self.submit_s, self.ended_s)).astype(np.int64)

    @cached_property
    def groups(self) -> Ints:
        """The group of each job at each level, shape ``(n_jobs, len(LEVELS))``."""
        return groups_of(self.user, self.requested_time_s, self.cores)

    @cached_property
    def groups_by_name(self) -> Ints:
        """The same by name."""
        return groups_of(self.user, self.requested_time_s, self.cores, self.name)

    @cached_property
    def _ends_s(self) -> Floats:
        """The dates of `by_end`."""
        return self.ended_s[self.by_end]

    def ended_before(self, date_s: float) -> NDArray[np.int64]:
        """Return the jobs that ended before a date of the log, in the order of their ends."""
        return self.by_end[: np.searchsorted(self._ends_s, date_s, side="left")]


def groups_of(user: Ints, requested_time_s: Floats, cores: Ints, name: Ints | None = None) -> Ints:
    """Return the group of each job at each level: numbers from 0 within a level, shape ``(n_jobs, len(LEVELS))``.

    ``user``, ``requested_time_s``, ``cores``: columns of the jobs; jobs of unknown users are taken to be of one user.
    ``name``: what jobs are called, for groups by name.
    """
    known = np.maximum(np.asarray(user, dtype=np.int64), -1)
    requests = np.unique(requested_time_s, return_inverse=True)[1]
    users = np.unique(known, return_inverse=True)[1]
    pairs = _joint(users, requests)
    sizes = np.unique(cores, return_inverse=True)[1]
    triples = _joint(pairs, sizes)
    if name is not None:
        # Names count from beyond the requests, which stand for those that are unknown.
        called = np.where(name >= 0, requests.max(initial=0) + 1 + name.astype(np.int64), requests)
        triples, pairs = _joint(triples, called), _joint(users, called)
    columns = (np.zeros(len(known), dtype=np.int64), requests, users, pairs, triples)
    return np.stack(columns, axis=1).astype(np.int32)


def _joint(left: NDArray[np.int64], right: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return numbers from 0 that are equal where both of two columns, not negative, are."""
    right = np.unique(right, return_inverse=True)[1]
    joint: NDArray[np.int64] = np.unique(left * (right.max(initial=0) + 1) + right, return_inverse=True)[1]
    return joint


@dataclass(frozen=True, eq=False)
class Past:
    """The groups of a workload's jobs, and the ended jobs that belong to one of them."""

    # the group of each job of the workload at each level, numbered from 0 over all levels: shape ``(n_jobs,
    # len(LEVELS))``, int32
    groups: Ints
    n_groups: int  # number of groups
    ended_groups: Ints  # the same of the jobs that ended before, in the order of their ends; -1: none of the workload's
    # run times of these, and their requested times, in seconds
    run_s: Floats
    requested_time_s: Floats


def past_of(
    jobs: NDArray[np.void], history: LogHistory | None, positions: NDArray[np.int64] | None, *, by_name: bool = False
) -> Past:
    """Return the history of ended jobs when the first of some jobs is submitted.

    - ``jobs``: rows of `Workload.jobs`; not empty.
    - ``history``: the log that they are of; ``None``: of none.
    - ``positions``: which of its jobs they are.
    - ``by_name``: whether jobs are grouped by name.
    """
    if history is None or positions is None:
        name = jobs["executable"] if by_name else None
        return _past(groups_of(jobs["user"], jobs["requested_time_s"], jobs["cores"], name), None, None, _NONE)
    ended = history.ended_before(float(history.submit_s[positions].min()))
    known = history.groups_by_name if by_name else history.groups
    return _past(known[positions], history, known, ended)


_NONE = np.zeros(0, dtype=np.int64)


def _past(groups: Ints, history: LogHistory | None, known: Ints | None, ended: NDArray[np.int64]) -> Past:
    """Return the past of jobs of some groups; ``known``: the groups of all jobs of the log."""
    own = np.empty_like(groups)
    of_ended = np.full((len(ended), len(LEVELS)), -1, dtype=np.int32)
    n_groups = 0
    for level in range(len(LEVELS)):
        found, own[:, level] = np.unique(groups[:, level], return_inverse=True)
        if known is not None:
            number = np.full(int(known[:, level].max(initial=0)) + 1, -1, dtype=np.int32)
            number[found] = n_groups + np.arange(len(found))
            of_ended[:, level] = number[known[ended, level]]
        own[:, level] += n_groups
        n_groups += len(found)
    if history is None:
        return Past(own, n_groups, of_ended, np.zeros(0), np.zeros(0))
    return Past(own, n_groups, of_ended, history.run_s[ended], history.requested_time_s[ended])
