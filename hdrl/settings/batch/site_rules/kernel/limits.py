"""Limits of QOS and of accounts: the jobs of the queue that may start at all."""

from __future__ import annotations

from hdrl.compiled.jit import jit


@jit
def _is_over(limit, used, more):
    return limit >= 0 and used + more > limit


@jit
def _exceeds(row, use, cores):
    """Return whether a job of ``cores`` cores would exceed the limits of a QOS or an account."""
    if _is_over(row.group_cores, row.cores, cores) or _is_over(row.group_jobs, row.jobs, 1):
        return True
    return _is_over(row.user_cores, use.cores, cores) or _is_over(row.user_jobs, use.jobs, 1)


@jit
def may_run(state, job):
    """Tell whether no limit keeps a job from starting."""
    row = state.jobs[job]
    if row.qos >= 0 and _exceeds(state.qos[row.qos], state.qos_users[row.qos_user], row.n_requested):
        return False
    account = row.account
    if account >= 0 and _exceeds(state.accounts[account], state.account_users[row.account_user], row.n_requested):
        return False
    # GrpTRES and GrpJobs of an account also bind the accounts below it; the limits of its users do not.
    while account >= 0:
        one = state.accounts[account]
        if _is_over(one.group_cores, one.cores, row.n_requested) or _is_over(one.group_jobs, one.jobs, 1):
            return False
        account = one.parent
    return True


@jit
def count_running(state, job, sign):
    """Note that a job starts (1) or ends (-1)."""
    row = state.jobs[job]
    n = sign * row.n_cores
    if row.qos >= 0:
        state.qos[row.qos].cores += n
        state.qos[row.qos].jobs += sign
        state.qos_users[row.qos_user].cores += n
        state.qos_users[row.qos_user].jobs += sign
    account = row.account
    if account >= 0:
        state.account_users[row.account_user].cores += n
        state.account_users[row.account_user].jobs += sign
    while account >= 0:
        state.accounts[account].cores += n
        state.accounts[account].jobs += sign
        account = state.accounts[account].parent


@jit
def may_submit(state, job):
    """Tell whether the QOS of a job lets its user submit it, and count it if so."""
    row = state.jobs[job]
    # A request beyond MaxWall or MaxTRES is rejected, as with DenyOnLimit, and does not count for MaxSubmitJobs.
    if row.is_refused != 0:
        return False
    if row.qos < 0:
        return True
    use = state.qos_users[row.qos_user]
    if _is_over(state.qos[row.qos].user_submitted, use.submitted, 1):
        return False
    use.submitted += 1
    return True


@jit
def count_leaving(state, job):
    """Note that a job has left the system."""
    row = state.jobs[job]
    if row.qos >= 0:
        state.qos_users[row.qos_user].submitted -= 1
