"""Predictions of the run times of jobs during a simulation, in compiled code.

Ended jobs tell of it (`kernel.groups`), and nothing else is learned from, so that no prediction knows what no scheduler
knows.
"""

from __future__ import annotations

import math

import numpy as np

from hdrl.compiled.jit import jit
from hdrl.compiled.records import of, record_dtype
from hdrl.settings.batch.kernel import codes
from hdrl.settings.batch.kernel.groups import SHORT_S, end_in, last_two_s, learned, note_room, of_user, shrunk
from hdrl.settings.batch.workload.history import ALL_LEVEL, USER_LEVEL

PREDICTION_DTYPE = record_dtype(
    [
        *of(np.float64, "length_s", "harmonic_s", "given_s", "started_s", "log_length", "log_harmonic", "log_last_two"),
        *of(np.float64, "log_request", "log_share", "index", "reserve"),
    ]
)
"""Prediction for a job: how long it will run, in seconds (``length_s``, by which jobs are ordered), and the harmonic
mean of max(run, 10); ``given_s`` is a prediction from outside the kernel. The other fields are values that do not
change while it waits, and the results of `kernel.keys`."""


@jit
def predict_into(state, prediction, groups, requested_s, predictor):
    """Predict the run time of a job of some groups from ended jobs; a pool has other positions for jobs."""
    user = state.sums[groups[USER_LEVEL]]
    if predictor == codes.PREDICT_LEARNED:
        length_s, harmonic_s = learned(state.network, state.neurons, state.sums, groups, requested_s)
    elif predictor in (codes.PREDICT_GEOMETRIC, codes.PREDICT_HARMONIC):
        length_s, harmonic_s = shrunk(state.sums, groups, requested_s)
        if predictor == codes.PREDICT_HARMONIC:
            length_s = harmonic_s
    else:
        if predictor == codes.PREDICT_REQUESTED:
            length_s = requested_s
        elif predictor == codes.PREDICT_GIVEN:
            length_s = prediction.given_s
        else:
            length_s = of_user(user, predictor, requested_s)
        harmonic_s = max(length_s, SHORT_S)
    prediction.length_s, prediction.harmonic_s = length_s, harmonic_s
    prediction.log_length = math.log(max(length_s, 1.0))
    prediction.log_harmonic = math.log(max(harmonic_s, SHORT_S))
    prediction.log_last_two = math.log(max(last_two_s(user, length_s), 1.0))


@jit
def predict(state, job):
    """Predict the run time of a job from the jobs that have ended until now."""
    requested_s, predictor = state.jobs[job].requested_time_s, state.scalars[0].predictor
    predict_into(state, state.predictions[job], state.job_groups[job], requested_s, predictor)


@jit
def note_arrival(state, job, n_cores):
    """Count a new job for its user, and describe its request on a machine of ``n_cores`` cores."""
    row, prediction = state.jobs[job], state.predictions[job]
    prediction.log_request = math.log(max(row.requested_time_s, 1.0))
    prediction.log_share = math.log(row.n_requested / n_cores)
    state.sums[state.job_groups[job, USER_LEVEL]].n_here += 1


@jit
def note_submission(state, job):
    """Note that a job has been submitted, and predict its run time."""
    if state.scalars[0].predictor == codes.PREDICT_NOTHING:
        return
    note_arrival(state, job, len(state.cores))
    state.sums[state.job_groups[job, USER_LEVEL]].n_waiting += 1
    predict(state, job)
    if state.scalars[0].index_form in codes.GUARDED_FORMS:
        _note_room(state, job)


@jit
def _note_room(state, job):
    s, n_wanted = state.scalars[0], 0
    for i in range(s.n_queue):
        n_wanted += state.jobs[state.queue[i]].n_requested
    note_room(state.sums[state.job_groups[job, ALL_LEVEL]], n_wanted <= s.n_free_cores)


@jit
def note_start(state, job):
    """Note that a job is being started."""
    s = state.scalars[0]
    if s.predictor == codes.PREDICT_NOTHING:
        return
    state.predictions[job].started_s = s.message_s
    state.sums[state.job_groups[job, USER_LEVEL]].n_waiting -= 1


@jit
def note_end(state, job):
    """Note that a job has ended, and predict anew how long its user's waiting jobs will run."""
    s = state.scalars[0]
    if s.predictor == codes.PREDICT_NOTHING:
        return
    groups = state.job_groups[job]
    user = groups[USER_LEVEL]
    state.sums[user].n_here -= 1
    run_s = s.message_s - state.predictions[job].started_s
    end_in(state.sums, groups, run_s, state.jobs[job].requested_time_s)
    for i in range(s.n_queue):
        other = state.queue[i]
        if state.job_groups[other, USER_LEVEL] == user:
            predict(state, other)
