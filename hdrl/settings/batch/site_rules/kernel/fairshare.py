"""Fair share: what users and accounts have used, with decay, and the factor that follows, by Fair Tree or classic.

Usage is core seconds. At the end of each calculation period all of it decays, and what running jobs have used in the
period is added.

References
----------
Slurm's guides "Fair Tree Fairshare Algorithm" and "Classic Fairshare Algorithm" (slurm.schedmd.com).
"""

from __future__ import annotations

import math

import numpy as np

from hdrl.compiled.jit import jit


@jit
def _charge(state, job, until_s):
    """Add the usage of a running job since it was charged last."""
    row = state.jobs[job]  # a suspended one is charged, too, as it keeps its nodes
    # `charged_s` may date from a run before a requeue, hence the start.
    used = row.n_cores * max(until_s - max(row.charged_s, row.start_s), 0.0)
    row.charged_s = until_s
    account = row.account
    if account < 0:
        return
    state.account_users[row.account_user].usage += used
    # Usage of an account includes that of all below it: both algorithms need it at each level.
    while account >= 0:
        state.accounts[account].usage += used
        account = state.accounts[account].parent


@jit
def _decay(state):
    factor = state.settings[0].decay
    for account in range(len(state.accounts)):
        state.accounts[account].usage *= factor
    for user in range(len(state.account_users)):
        state.account_users[user].usage *= factor


@jit
def _of_siblings(state, parent):
    """Return the shares and the usage of all that belong to an account (-1: to the root)."""
    shares, usage = 0.0, 0.0
    for account in range(len(state.accounts)):
        if state.accounts[account].parent == parent:
            shares += state.accounts[account].shares
            usage += state.accounts[account].usage
    for user in range(len(state.account_users)):
        if state.account_users[user].account == parent:
            shares += state.account_users[user].shares
            usage += state.account_users[user].usage
    return shares, usage


@jit
def _level_share(share, of_shares, usage, of_usage):
    """Return the share of an account among its siblings over the share of their usage that it has."""
    if usage <= 0 or of_usage <= 0:
        # Fair Tree: infinite without usage, so all such accounts tie for the first position; 0 without shares.
        return np.inf if share > 0 else 0.0
    return (share / of_shares) / (usage / of_usage) if of_shares > 0 else 0.0


@jit
def _share_of(state, one):
    """Return the level fair share of an account, or of a user: their numbers follow those of the accounts."""
    n_accounts = len(state.accounts)
    return state.accounts[one].level_share if one < n_accounts else state.account_users[one - n_accounts].level_share


@jit
def _compare(state, one, other):
    """Return above 0 if a user is ranked before another one, below 0 if after it, 0 if they tie.

    Where two accounts tie, their children are compared as if they had one parent. A user who ties with an account comes
    before the users below it.
    """
    for level in range(state.paths.shape[1]):
        a, b = state.paths[one, level], state.paths[other, level]
        if a < 0 or b < 0:
            return int(b >= 0) - int(a >= 0) if a != b else 0
        if a != b:
            share, other_share = _share_of(state, a), _share_of(state, b)
            if share != other_share:
                return 1 if share > other_share else -1
    return 0


@jit
def _ties(state, one, other):
    """Tell whether a user has the rank of the one before it, who ties with it or with an account above it."""
    for level in range(state.paths.shape[1]):
        a, b = state.paths[one, level], state.paths[other, level]
        if a < 0 or b < 0:
            return True
        if a != b and _share_of(state, a) != _share_of(state, b):
            return False
    return True


@jit
def _rank(state):
    """Give each user the factor of Fair Tree: the rank, the last of all users being 1, over their number."""
    n, order = len(state.account_users), state.ranking
    for i in range(n):
        order[i] = i
        position = i
        while position > 0 and _compare(state, i, order[position - 1]) > 0:
            order[position] = order[position - 1]
            position -= 1
        order[position] = i
    for i in range(n):
        user = state.account_users[order[i]]
        if i > 0 and _ties(state, order[i], order[i - 1]):
            user.factor = state.account_users[order[i - 1]].factor
        else:
            user.factor = (n - i) / n


@jit
def _effective(share, of_shares, usage, total, of_parent):
    """Return the effective usage of the classic algorithm: a child shares in what its siblings have used."""
    own = usage / total
    return own + (of_parent - own) * (share / of_shares if of_shares > 0 else 0.0)


@jit
def _classic(state):
    """Give each user the factor 2^(-U/S) of effective usage and normalised shares."""
    _, total = _of_siblings(state, -1)
    total = max(total, 1.0)
    for i in range(len(state.account_order)):  # parents first
        account = state.accounts[state.account_order[i]]
        of_shares, _ = _of_siblings(state, account.parent)
        if account.parent < 0:
            account.share = account.shares / max(of_shares, 1.0)
            # As in Slurm's guide, accounts just below the root have their actual usage as effective usage.
            account.effective = account.usage / total
        else:
            above = state.accounts[account.parent]
            account.share = above.share * account.shares / max(of_shares, 1.0)
            account.effective = _effective(account.shares, of_shares, account.usage, total, above.effective)
    for i in range(len(state.account_users)):
        user = state.account_users[i]
        user.factor = 0.0
        if user.account >= 0:
            above = state.accounts[user.account]
            of_shares, _ = _of_siblings(state, user.account)
            share = above.share * user.shares / max(of_shares, 1.0)
            if share > 0:
                effective = _effective(user.shares, of_shares, user.usage, total, above.effective)
                user.factor = math.pow(2.0, -effective / share)


@jit
def _share_levels(state):
    for account in range(len(state.accounts)):
        row = state.accounts[account]
        of_shares, of_usage = _of_siblings(state, row.parent)
        row.level_share = _level_share(np.float64(row.shares), of_shares, row.usage, of_usage)
    for i in range(len(state.account_users)):
        user = state.account_users[i]
        of_shares, of_usage = _of_siblings(state, user.account)
        user.level_share = _level_share(user.shares, of_shares, user.usage, of_usage)


@jit
def _pass_periods(state, until_s):
    """Let usage decay and charge running jobs, at the end of each calculation period until a date."""
    s, period_s = state.scalars[0], state.settings[0].calc_period_s
    while s.decayed_s + period_s <= until_s:
        s.decayed_s += period_s
        # First the decay, then the charge: in Slurm's formula, usage of the current period has no decay factor.
        _decay(state)
        for i in range(s.n_running):
            _charge(state, state.running[i].job, s.decayed_s)


@jit
def charge_at_end(state, job):
    """Add the usage of a job that ends now since it was charged last."""
    if state.settings[0].fairshare > 0:
        # Periods need no events: this catches up on them. The job must still be running, as they charge it.
        _pass_periods(state, state.scalars[0].message_s)
        _charge(state, job, state.scalars[0].message_s)


@jit
def compute_factors(state):
    """Bring usage up to date and compute the factors of all users."""
    _pass_periods(state, state.scalars[0].message_s)
    if state.settings[0].is_fair_tree != 0:
        _share_levels(state)
        _rank(state)
    else:
        _classic(state)
