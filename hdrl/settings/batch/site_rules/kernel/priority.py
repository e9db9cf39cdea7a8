"""The order of waiting jobs: partition tier, then priority, then submission; and the multifactor priority."""

from __future__ import annotations

import math

import numpy as np

from hdrl.compiled.jit import jit
from hdrl.settings.batch.kernel import codes
from hdrl.settings.batch.kernel.keys import changes_with_time, job_key
from hdrl.settings.batch.kernel.waiting import order_length_s
from hdrl.settings.batch.site_rules.codes import MULTIFACTOR
from hdrl.settings.batch.site_rules.kernel.fairshare import compute_factors
from hdrl.settings.batch.site_rules.kernel.predictions import note_queued, note_room_for, number_new, weigh_queue

_MINUTE_S = 60.0


@jit
def _size_factor(state, job):
    """Return the factor of the size of a job, 0 to 1."""
    s, row = state.settings[0], state.jobs[job]
    n_nodes = np.float64(max(row.nodes, 1))
    share = np.float64(row.n_requested) / s.n_cores
    if s.is_relative_to_time != 0:
        of_nodes = n_nodes / s.n_nodes  # as many cores as its nodes have on average
        # SMALL_RELATIVE_TO_TIME: Slurm divides by the limit in whole minutes.
        factor = max(share, of_nodes) / max(math.ceil(row.limit_s / _MINUTE_S), 1.0)
        factor = 1.0 - factor if s.favor_small != 0 else factor
    elif s.favor_small != 0:
        factor = ((s.n_nodes - n_nodes) / s.n_nodes + 1.0 - share) / 2.0
    else:
        factor = (n_nodes / s.n_nodes + share) / 2.0
    return min(max(factor, 0.0), 1.0)


@jit
def multifactor(state, entry):
    """Return the multifactor priority of a job in a partition: a whole number, at least 1."""
    s, job = state.settings[0], state.entries[entry].job
    row = state.jobs[job]
    total = 0.0
    if s.age > 0:
        waited_s = max(state.scalars[0].message_s - row.eligible_s, 0.0)
        total += s.age * min(waited_s / s.max_age_s, 1.0)
    if s.job_size > 0:
        total += s.job_size * _size_factor(state, job)
    if s.partition > 0:
        total += s.partition * state.partitions[state.entries[entry].partition].factor
    if s.qos > 0 and row.qos >= 0:
        total += s.qos * state.qos[row.qos].factor
    if s.fairshare > 0 and row.account >= 0:
        total += s.fairshare * state.account_users[row.account_user].factor
    # In Slurm, priority 0 means that a job is held.
    return math.floor(max(total + row.site_factor - row.nice, 1.0))


@jit
def priority_of(state, entry):
    """Return the priority of a job in a partition; the highest is served first."""
    if state.settings[0].key == MULTIFACTOR:
        return multifactor(state, entry)
    if state.settings[0].key == codes.JOB_GIVEN:
        return state.entries[entry].priority
    job = state.entries[entry].job
    return -job_key(state, job, state.settings[0].key, order_length_s(state, job))


@jit
def comes_before(state, one, other):
    """Tell whether an entry of the queue is served before another one."""
    a, b = state.entries[one], state.entries[other]
    tier, other_tier = state.partitions[a.partition].tier, state.partitions[b.partition].tier
    if tier != other_tier:
        return tier > other_tier
    if a.priority != b.priority:
        return a.priority > b.priority
    rank, other_rank = state.jobs[a.job].rank, state.jobs[b.job].rank
    return rank < other_rank or (rank == other_rank and one < other)


@jit
def enqueue(state, job):
    """Put a job into the queue, once for each of its partitions."""
    s, row = state.scalars[0], state.jobs[job]
    note_queued(state, job)
    number_new(state, job)
    for entry in range(row.first_entry, row.first_entry + row.n_entries):
        # A new job has a priority at once, with the fair-share factors of the last PriorityCalcPeriod.
        state.entries[entry].priority = priority_of(state, entry)
        low, high = np.int64(0), s.n_queue
        while low < high:
            middle = (low + high) >> 1
            if comes_before(state, entry, state.queue[middle]):
                high = middle
            else:
                low = middle + 1
        for i in range(s.n_queue, low, -1):
            state.queue[i] = state.queue[i - 1]
        state.queue[low] = entry
        s.n_queue += 1
    note_room_for(state, job)


@jit
def dequeue(state, job, position):
    """Take a job out of the queue; return how many of its entries stood before a position."""
    s = state.scalars[0]
    state.jobs[job].is_queued = 0
    kept, n_before = np.int64(0), np.int64(0)
    for i in range(s.n_queue):
        entry = state.queue[i]
        if state.entries[entry].job == job:
            n_before += i < position
        else:
            state.queue[kept] = entry
            kept += 1
    s.n_queue = kept
    return n_before


@jit
def sort_entries(state, entries, n):
    """Sort the first entries of an array into the order of service; those nearly sorted take little time."""
    for i in range(1, n):
        entry, position = entries[i], i
        while position > 0 and comes_before(state, entry, entries[position - 1]):
            entries[position] = entries[position - 1]
            position -= 1
        entries[position] = entry


@jit
def refresh(state):
    """Compute the priorities of waiting jobs anew if they may have changed, and sort the queue."""
    s, settings = state.scalars[0], state.settings[0]
    if settings.key == MULTIFACTOR:
        # As in Slurm, age and fair share stand still between two dates of PriorityCalcPeriod.
        if s.message_s < s.priority_date:
            return
        n_periods = math.floor(s.message_s / settings.calc_period_s) + 1.0
        s.priority_date = n_periods * settings.calc_period_s
        if settings.fairshare > 0:
            compute_factors(state)
    elif s.predictor == codes.PREDICT_NOTHING and not changes_with_time(settings.key):
        return
    if settings.key == codes.JOB_INDEX:
        weigh_queue(state)
    else:
        for i in range(s.n_queue):
            state.entries[state.queue[i]].priority = priority_of(state, state.queue[i])
    sort_entries(state, state.queue, s.n_queue)
