"""Predictions of run times in a pool, by the rules of the kernel (`kernel.history`) and from the same sums.

Jobs are counted from the first one of the episode here. What has ended before it is in the sums when an episode begins
(`identical_cores.table`); what ends in it is added when it does, so that no prediction knows what no scheduler knows.
"""

from __future__ import annotations

import math

from hdrl.compiled.jit import jit
from hdrl.settings.batch.kernel import codes
from hdrl.settings.batch.kernel.groups import end_in, note_room
from hdrl.settings.batch.kernel.history import predict_into
from hdrl.settings.batch.kernel.keys import backlog_of, describe, describe_after_start
from hdrl.settings.batch.workload.history import ALL_LEVEL, USER_LEVEL


@jit
def _predict(state, position):
    """Predict the run time of a job from the jobs that have ended until now."""
    requested_s = state.jobs[state.scalars[0].first_job + position].requested_time_s
    predictor = state.settings[0].predictor
    predict_into(state, state.predictions[position], state.groups[position], requested_s, predictor)


@jit
def note_submission(state, job):
    """Note that a job has been submitted, and predict its run time."""
    if state.settings[0].predictor == codes.PREDICT_NOTHING:
        return
    s, row = state.scalars[0], state.jobs[job]
    position = job - s.first_job
    prediction = state.predictions[position]
    prediction.log_request = math.log(max(row.requested_time_s, 1.0))
    prediction.log_share = math.log(row.n_requested / s.n_procs)
    user = state.sums[state.groups[position, USER_LEVEL]]
    user.n_here += 1
    user.n_waiting += 1
    _predict(state, position)
    n_wanted = 0  # a policy to imitate may have a guarded gate
    for i in range(s.n_waiting):
        n_wanted += state.jobs[state.waiting[i]].n_requested
    note_room(state.sums[state.groups[position, ALL_LEVEL]], n_wanted <= s.n_free)


@jit
def note_start(state, job):
    """Note that a job is being started."""
    if state.settings[0].predictor == codes.PREDICT_NOTHING:
        return
    s = state.scalars[0]
    position = job - s.first_job
    state.predictions[position].started_s = s.message_s
    state.sums[state.groups[position, USER_LEVEL]].n_waiting -= 1


@jit
def note_end(state, job):
    """Note that a job has ended, and predict anew how long its user's waiting jobs will run."""
    if state.settings[0].predictor == codes.PREDICT_NOTHING:
        return
    s = state.scalars[0]
    position = job - s.first_job
    groups = state.groups[position]
    user = groups[USER_LEVEL]
    state.sums[user].n_here -= 1
    run_s = s.message_s - state.predictions[position].started_s
    end_in(state.sums, groups, run_s, state.jobs[job].requested_time_s)
    for i in range(s.n_waiting):
        other = state.waiting[i] - s.first_job
        if state.groups[other, USER_LEVEL] == user:
            _predict(state, other)


@jit
def describe_waiting(state, position):
    """Write the features of the waiting job at a position to ``state.features``; return how long it waits."""
    s, job = state.scalars[0], state.waiting[position]
    own = job - s.first_job
    user = state.sums[state.groups[own, USER_LEVEL]]
    waited_s = max(0.0, s.message_s - state.jobs[job].submit_s)
    fits = state.waiting_sizes[position] <= s.n_free
    describe(state.features, state.jobs[job], state.predictions[own], user, waited_s, fits)
    return waited_s


@jit
def describe_again(state, position):
    """Write those of these features that starts change, where nothing else has happened."""
    s, job = state.scalars[0], state.waiting[position]
    user = state.sums[state.groups[job - s.first_job, USER_LEVEL]]
    describe_after_start(state.features, user, state.waiting_sizes[position] <= s.n_free)


@jit
def backlog(state):
    """Return the feature of the work that waits, as the gate of `kernel.keys` sees it."""
    s, work_s = state.scalars[0], 0.0
    for i in range(s.n_waiting):
        job = state.waiting[i]
        work_s += state.predictions[job - s.first_job].length_s * state.jobs[job].n_requested
    return backlog_of(work_s, s.n_procs)
