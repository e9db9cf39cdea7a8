"""What policies know of jobs beyond their requests: predictions of run times, an index, a gate.

What they compute is that of `batch.kernel.history` and `batch.kernel.keys`, as for `es-generalist` and `sjf@geo` with
machines without rules. What a site adds: a job counts for its user from the date at which it is eligible first
until it ends, requeued or not; the index sees how long it has been eligible, and whether its partition has enough free
cores; the gate keeps a share of each partition free.
"""

from __future__ import annotations

import math

import numpy as np

from hdrl.compiled.jit import jit
from hdrl.settings.batch.kernel import codes
from hdrl.settings.batch.kernel.groups import end_in, note_room, share_without_room
from hdrl.settings.batch.kernel.history import predict
from hdrl.settings.batch.kernel.keys import backlog_of, describe, holds, weigh_described
from hdrl.settings.batch.workload.history import ALL_LEVEL, USER_LEVEL


@jit
def note_queued(state, job):
    """Note that a job is about to be queued, and predict its run time."""
    if state.scalars[0].predictor == codes.PREDICT_NOTHING:
        return
    row, prediction = state.jobs[job], state.predictions[job]
    user = state.sums[state.job_groups[job, USER_LEVEL]]
    user.n_waiting += 1
    if row.n_restarts == 0:
        user.n_here += 1
        prediction.log_request = math.log(max(row.requested_time_s, 1.0))
        prediction.log_share = math.log(row.n_requested / state.settings[0].n_cores)
    predict(state, job)


@jit
def note_room_for(state, job):
    """Note for the guarded index, after a job is queued first, whether all that wait in its partition could start."""
    if state.scalars[0].index_form != codes.INDEX_GUARDED or state.jobs[job].n_restarts > 0:
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
    """Note how long a job ran, and predict anew how long its user's queued jobs will run."""
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
def weigh_queue(state):
    """Give the entries of the queue the priorities of the index, and note what the gate keeps free for each job."""
    s, settings, work_s = state.scalars[0], state.settings[0], 0.0
    for i in range(s.n_queue):
        job = state.entries[state.queue[i]].job
        if state.queue[i] == state.jobs[job].first_entry:
            work_s += state.predictions[job].length_s * state.jobs[job].n_requested
    backlog, described = backlog_of(work_s, settings.n_cores), state.described
    for i in range(s.n_queue):
        entry = state.entries[state.queue[i]]
        job, groups = entry.job, state.job_groups[entry.job]
        row, prediction, user = state.jobs[job], state.predictions[job], state.sums[groups[USER_LEVEL]]
        waited_s = max(0.0, s.message_s - row.eligible_s)
        fits = row.n_requested <= state.partitions[entry.partition].free_cores
        describe(described, row, prediction, user, waited_s, fits)
        without_room = share_without_room(state.sums[groups[ALL_LEVEL]])
        form, gate = s.index_form, s.has_gate
        weigh_described(state.weights, described, form, gate, prediction, user.n, waited_s, backlog, without_room)
        entry.priority = -prediction.index


@jit
def is_held(state, entry):
    """Tell whether a gate holds a job in a partition now."""
    if state.scalars[0].has_gate == 0:
        return False
    one = state.entries[entry]
    partition = state.partitions[one.partition]
    n = state.jobs[one.job].n_requested
    return holds(state.predictions[one.job].reserve, n, partition.free_cores, partition.n_cores)
