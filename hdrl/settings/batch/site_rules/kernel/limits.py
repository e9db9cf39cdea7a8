"""Limits of QOS, accounts and users: the jobs of the queue that may start at all.

A job belongs to several groups, each with limits and with what its jobs use: the QOS of its partition and its own QOS,
the user in each of them, the user in the account, the account, and the accounts above it. As in Slurm, a limit of the
first QOS that has one of its kind replaces those of the other QOS and of accounts.

References
----------
Slurm's guide "Resource Limits" (slurm.schedmd.com), and acct_policy.c for the limits that replace others.
"""

from __future__ import annotations

import numpy as np

from hdrl.compiled.jit import jit

_NONE = np.int64(-1)

_CORES, _GPUS, _JOBS, _SUBMITTED = 1, 2, 4, 8
"""Kinds of limits, a bit each."""

_TO_START = _CORES | _GPUS | _JOBS
"""Limits on what runs."""


@jit
def _is_over(limit, used, more):
    return limit >= 0 and used + more > limit


@jit
def _kinds(group):
    """Return the kinds of limits that a group has."""
    kinds = _CORES if group.most_cores >= 0 else 0
    kinds |= _GPUS if group.most_gpus >= 0 else 0
    kinds |= _JOBS if group.most_jobs >= 0 else 0
    return kinds | (_SUBMITTED if group.most_submitted >= 0 else 0)


@jit
def _exceeds(group, job, kinds):
    """Return whether a job would exceed a limit of some kinds of a group."""
    if kinds & _CORES != 0 and _is_over(group.most_cores, group.cores, job.n_requested):
        return True
    if kinds & _GPUS != 0 and _is_over(group.most_gpus, group.gpus, job.n_gpus):
        return True
    if kinds & _JOBS != 0 and _is_over(group.most_jobs, group.jobs, 1):
        return True
    return kinds & _SUBMITTED != 0 and _is_over(group.most_submitted, group.submitted, 1)


@jit
def _qos_of(state, entry, position):
    """Return a QOS of a job in a partition and its user there (-1: none).

    In place 0 is the one whose limits replace those of the other, in place 1 the other.
    """
    one = state.entries[entry]
    row, qos = state.jobs[one.job], state.partitions[one.partition].qos
    if position == 1 and qos == row.qos:
        return _NONE, _NONE
    is_own_first = qos < 0 or (row.qos >= 0 and state.qos[row.qos].is_over_partition != 0)
    if is_own_first == (position == 0):
        return np.int64(row.qos), np.int64(row.qos_user)
    return np.int64(qos), np.int64(one.qos_user)


@jit
def _accounts_admit(state, row, of_group, of_user):
    """Tell whether the limits of some kinds of accounts and of users in accounts admit a job."""
    use = state.account_users[row.account_user]
    if of_user & _JOBS != 0 and _is_over(use.own_jobs, use.jobs, 1):
        return False
    if of_user & _SUBMITTED != 0 and _is_over(use.own_submitted, use.submitted, 1):
        return False
    if _exceeds(use, row, of_group):
        return False
    # Limits of an account such as GrpTRES also bind the accounts below it.
    account = row.account
    while account >= 0:
        if _exceeds(state.accounts[account], row, of_group):
            return False
        account = state.accounts[account].parent
    return True


@jit
def _admit(state, entry, kinds):
    """Tell whether limits of some kinds admit a job in a partition."""
    row = state.jobs[state.entries[entry].job]
    of_group, of_user = kinds, kinds
    if len(state.qos) > 0:
        for position in range(2):
            qos, user = _qos_of(state, entry, position)
            if qos >= 0:
                group, use = state.qos[qos], state.qos_users[user]
                if _exceeds(group, row, of_group) or _exceeds(use, row, of_user):
                    return False
                of_group &= ~_kinds(group)
                of_user &= ~_kinds(use)
    return row.account < 0 or _accounts_admit(state, row, of_group, of_user)


@jit
def may_run(state, entry):
    """Tell whether no limit keeps a job from starting in a partition."""
    return state.entries[entry].is_refused == 0 and _admit(state, entry, _TO_START)


@jit
def _note(group, n_cores, n_gpus, n_jobs, n_submitted):
    group.cores += n_cores
    group.gpus += n_gpus
    group.jobs += n_jobs
    group.submitted += n_submitted


@jit
def _count(state, entry, n_cores, n_gpus, n_jobs, n_submitted):
    """Add to what the groups of a job have."""
    row = state.jobs[state.entries[entry].job]
    if len(state.qos) > 0:
        for position in range(2):
            qos, user = _qos_of(state, entry, position)
            if qos >= 0:
                _note(state.qos[qos], n_cores, n_gpus, n_jobs, n_submitted)
                _note(state.qos_users[user], n_cores, n_gpus, n_jobs, n_submitted)
    account = row.account
    if account >= 0:
        _note(state.account_users[row.account_user], n_cores, n_gpus, n_jobs, n_submitted)
    while account >= 0:
        _note(state.accounts[account], n_cores, n_gpus, n_jobs, n_submitted)
        account = state.accounts[account].parent


@jit
def count_running(state, entry, sign):
    """Note that a job starts in a partition (1), or ends (-1)."""
    row = state.jobs[state.entries[entry].job]
    _count(state, entry, sign * row.n_cores, sign * row.n_gpus, sign, 0)


@jit
def may_submit(state, job):
    """Tell whether limits let the user of a job submit it, and count it if so.

    As in Slurm, a job that names several partitions counts for the QOS of the first one.
    """
    row = state.jobs[job]
    # A job that limits never let start is rejected, as with DenyOnLimit, and does not count for MaxSubmitJobs.
    if row.is_refused != 0 or not _admit(state, row.first_entry, _SUBMITTED):
        return False
    _count(state, row.first_entry, 0, 0, 0, 1)
    return True


@jit
def count_leaving(state, job):
    """Note that a job has left the system."""
    _count(state, state.jobs[job].first_entry, 0, 0, 0, -1)
