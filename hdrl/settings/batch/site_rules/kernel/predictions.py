"""Information of policies about jobs beyond their requests: predictions of run times, an index, a gate.

`batch.kernel.history` and `batch.kernel.keys` compute all three, as on machines without rules. Under rules, a job
counts for its user from its first eligible date until it ends, requeued or not. The index uses the time since the job
became eligible, and the free cores of its partition. The gate keeps a share of each partition free.
"""

from __future__ import annotations

import numpy as np

from hdrl.compiled.jit import jit
from hdrl.settings.batch.kernel import codes
from hdrl.settings.batch.kernel.groups import end_in, note_room, share_without_room
from hdrl.settings.batch.kernel.history import note_arrival, predict
from hdrl.settings.batch.kernel.keys import backlog_of, holds, job_key, weigh_waiting
from hdrl.settings.batch.kernel.waiting import order_length_s
from hdrl.settings.batch.site_rules.kernel.site_factor import site_factor
from hdrl.settings.batch.workload.history import ALL_LEVEL, USER_LEVEL


@jit
def note_queued(state, job):
    """Note that a job is about to be queued, and predict its run time."""
    if state.scalars[0].predictor == codes.PREDICT_NOTHING:
        return
    if state.jobs[job].n_restarts == 0:
        note_arrival(state, job, state.settings[0].n_cores)
    state.sums[state.job_groups[job, USER_LEVEL]].n_waiting += 1
    predict(state, job)


@jit
def note_room_for(state, job):
    """Note for a guarded index, after a job is queued first, whether all that wait in its partition could start."""
    if state.scalars[0].index_form not in codes.GUARDED_FORMS or state.jobs[job].n_restarts > 0:
        return
    partition, n_wanted = state.entries[state.jobs[job].first_entry].partition, np.int64(0)
    for i in range(state.scalars[0].n_queue):
        entry = state.entries[state.queue[i]]
        if entry.partition == partition:
            n_wanted += state.jobs[entry.job].n_requested
    note_room(state.sums[state.job_groups[job, ALL_LEVEL]], n_wanted <= state.partitions[partition].free_cores)


@jit
def note_cancelled(state, job, was_queued):
    """Note that a waiting job is gone."""
    if state.scalars[0].predictor == codes.PREDICT_NOTHING:
        return
    user = state.sums[state.job_groups[job, USER_LEVEL]]
    user.n_waiting -= was_queued
    user.n_here -= was_queued or state.jobs[job].n_restarts > 0


@jit
def note_ended(state, job):
    """Record the run time of a job, and renew the predictions for its user's queued jobs."""
    s, row = state.scalars[0], state.jobs[job]
    if s.predictor == codes.PREDICT_NOTHING:
        return
    groups = state.job_groups[job]
    user = groups[USER_LEVEL]
    state.sums[user].n_here -= 1
    end_in(state.sums, groups, s.message_s - row.start_s - row.suspended_s, row.requested_time_s)
    for i in range(s.n_queue):
        other = state.entries[state.queue[i]].job
        if state.queue[i] == state.jobs[other].first_entry and state.job_groups[other, USER_LEVEL] == user:
            predict(state, other)


@jit
def index_of(state, job, waited_s, n_free, backlog, without_room):
    """Return by what a daemon orders a waiting job; what waiting alone takes from all indices alike is added again."""
    s, settings, row = state.scalars[0], state.settings[0], state.jobs[job]
    if settings.look_key == codes.JOB_INDEX:
        weigh_waiting(state, job, waited_s, row.n_requested <= n_free, backlog, without_room)
        return state.predictions[job].index + settings.aging_per_s * s.message_s
    return job_key(state, job, settings.look_key, order_length_s(state, job))


@jit
def number_new(state, job):
    """Give a new job the SiteFactor of the daemon's Lua, which takes it for one that has not waited."""
    s, settings, row = state.scalars[0], state.settings[0], state.jobs[job]
    if settings.has_lua != 0 and row.n_restarts == 0:
        key = index_of(state, job, 0.0, settings.n_cores - s.n_busy_cores, 0.0, 0.0)
        row.site_factor = site_factor(key, s.message_s, s.message_s, settings.look_bound_s)


@jit
def weigh_queue(state):
    """Give the entries of the queue the priorities of the index, and note what the gate keeps free for each job."""
    s, work_s = state.scalars[0], 0.0
    if s.n_queue == 0:
        return
    for i in range(s.n_queue):
        job = state.entries[state.queue[i]].job
        if state.queue[i] == state.jobs[job].first_entry:
            work_s += state.predictions[job].length_s * state.jobs[job].n_requested
    backlog = backlog_of(work_s, state.settings[0].n_cores)
    without_room = share_without_room(state.sums[state.job_groups[state.entries[state.queue[0]].job, ALL_LEVEL]])
    for i in range(s.n_queue):
        entry = state.entries[state.queue[i]]
        row = state.jobs[entry.job]
        waited_s = max(0.0, s.message_s - row.eligible_s)
        fits = row.n_requested <= state.partitions[entry.partition].free_cores
        weigh_waiting(state, entry.job, waited_s, fits, backlog, without_room)
        entry.priority = -state.predictions[entry.job].index


@jit
def is_held(state, entry):
    """Tell whether a gate holds a job in a partition now, or the lease of a daemon."""
    if state.scalars[0].has_gate == 0:
        return False
    one = state.entries[entry]
    if state.settings[0].look_interval_s > 0:
        return state.jobs[one.job].lease_until_s > state.scalars[0].message_s
    partition = state.partitions[one.partition]
    n = state.jobs[one.job].n_requested
    return holds(state.predictions[one.job].reserve, n, partition.free_cores, partition.n_cores)
