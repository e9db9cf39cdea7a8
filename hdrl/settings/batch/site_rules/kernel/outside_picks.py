"""Decisions from outside the kernel, under the same rules: what may start now, starts on given nodes, and picks.

Picks are a pass of the main scheduler in which the order comes from outside, entry by entry: as there, jobs of a higher
partition tier come first, an entry that fits starts, and one that does not stops its partition. The backfill cycle
follows, to which the picked entries are the first of the queue.
"""

from __future__ import annotations

import numpy as np

from hdrl.compiled.jit import jit
from hdrl.settings.batch.site_rules import codes
from hdrl.settings.batch.site_rules.kernel.allocation import choose_now
from hdrl.settings.batch.site_rules.kernel.limits import may_run
from hdrl.settings.batch.site_rules.kernel.main_scheduler import (
    FITS,
    WAITS,
    leave_out_reserved,
    limit_in,
    open_partitions,
    put_nodes_of,
    stop_partition,
    try_now,
)
from hdrl.settings.batch.site_rules.kernel.running import begin_pass, start_job

_UNPICKED = -1e18
"""The priority of entries that have not been picked; the k-th pick has -k."""


@jit
def look(state, entry):
    """Choose nodes for an entry among the open ones that no reservation keeps from it, which are the usable ones then.

    Returns
    -------
    int
        ``FITS``, ``IS_LIMITED`` or ``HAS_NO_NODES`` of `site_rules.codes`.
    """
    now, job, partition = state.scalars[0].message_s, state.entries[entry].job, state.entries[entry].partition
    put_nodes_of(state, state.usable, job, partition)
    leave_out_reserved(state, state.usable, now, now + limit_in(state, job, partition))
    if not may_run(state, entry):
        return codes.IS_LIMITED
    fits = choose_now(state, job, partition, state.usable)
    return codes.FITS if fits else codes.HAS_NO_NODES


@jit
def begin_picks(state):
    """Begin to go down the queue in an order from outside."""
    s = state.scalars[0]
    s.has_new, s.n_picked = 0, 0
    open_partitions(state)
    for i in range(s.n_queue):
        one = state.entries[state.queue[i]]
        one.is_passed, one.priority = 0, _UNPICKED
    begin_pass(state)


@jit
def _is_candidate(state, entry):
    one = state.entries[entry]
    return one.is_passed == 0 and state.partitions[one.partition].is_failed == 0 and may_run(state, entry)


@jit
def mark_picks(state):
    """Mark the entries that may be picked, which are those of the highest tier, and the ones that fit now.

    Returns
    -------
    int
        Number of entries that may be able to start: without one, nothing starts at this date.
    """
    s, n, tier = state.scalars[0], np.int64(0), np.int64(-1)
    preempts = state.settings[0].preempt_by != 0
    for i in range(s.n_queue):
        entry = state.queue[i]
        one = state.entries[entry]
        one.fits = look(state, entry) == codes.FITS
        limits = state.partitions[one.partition]
        # Where a job may have few nodes, it may find none among all of them but some when others are stopped.
        is_open = limits.max_nodes >= 0 and limits.free_cores >= state.jobs[one.job].n_requested
        n += one.fits != 0 or preempts or is_open
        one.may_be_picked = _is_candidate(state, entry)
        if one.may_be_picked != 0:
            tier = max(tier, np.int64(state.partitions[one.partition].tier))
    for i in range(s.n_queue):
        one = state.entries[state.queue[i]]
        # The main scheduler serves PriorityTier before priority, so no pick may serve a lower tier first.
        if state.partitions[one.partition].tier < tier:
            one.may_be_picked = 0
    return n


@jit
def pick(state, entry):
    """Start an entry if it fits now; else stop its partition, unless stopped ones leave it too few nodes."""
    s, one = state.scalars[0], state.entries[entry]
    s.n_picked += 1
    one.is_passed, one.priority = 1, -np.float64(s.n_picked)
    result = try_now(state, entry)
    if result == FITS:
        start_job(state, entry, 0)
    elif result == WAITS:
        stop_partition(state, one.partition)
