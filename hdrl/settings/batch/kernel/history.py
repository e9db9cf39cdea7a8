"""What ended jobs tell of the run times of those to come, in compiled code.

Jobs belong to five groups, coarse to fine: all; those of the same request; of the same user; of that user and request;
of that user, request and number of cores (`workload.history`). Each group keeps sums that fade with every job of it
that ends, and what a fine group says shrinks towards what the next coarser one does: as ``m`` ended jobs of which it
knows nothing would. Nothing else is learned from, so that no prediction knows what no scheduler knows.

References
----------
D. Tsafrir, Y. Etsion, D. Feitelson, "Backfilling Using System-Generated Predictions Rather than User Runtime
Estimates", IEEE TPDS 18(6), 2007 (the mean of the last two).
"""

from __future__ import annotations

import math

import numpy as np

from hdrl.compiled.jit import jit
from hdrl.compiled.records import record_dtype
from hdrl.settings.batch.kernel import codes
from hdrl.settings.batch.workload.history import LEVELS, USER_LEVEL

SUMS_DTYPE = record_dtype(
    [
        ("n", np.float64),
        ("log_ratio", np.float64),
        ("inverse", np.float64),
        ("run_s", np.float64),
        ("log_run", np.float64),
        ("log_run_squared", np.float64),
        ("last_s", np.float64),
        ("before_last_s", np.float64),
        ("n_ended", np.int64),
        ("n_here", np.int64),
        ("n_waiting", np.int64),
    ]
)
"""A group of jobs. Faded sums over its ended jobs: their number, log(run / request), 10 / max(run, 10), the run time,
its logarithm and the square of that. Then the last two run times, how many have ended, are here, and wait."""

PREDICTION_DTYPE = record_dtype(
    [
        ("length_s", np.float64),
        ("harmonic_s", np.float64),
        ("given_s", np.float64),
        ("started_s", np.float64),
        ("log_length", np.float64),
        ("log_harmonic", np.float64),
        ("log_last_two", np.float64),
        ("log_request", np.float64),
        ("log_share", np.float64),
        ("index", np.float64),
        ("reserve", np.float64),
    ]
)
"""What is predicted of a job: how long it will run, in seconds (``length_s``, which the order of jobs goes by), and
the harmonic mean of max(run, 10); ``given_s`` is what somebody outside has said. Then what does not change while
it waits, and what `kernel.index` makes of it."""

N_LEVELS = len(LEVELS)
DECAYS = (0.999, 0.99, 0.95, 0.85, 0.8)
"""What a job that ends leaves of the sums before it, per level."""

SHRINKAGES = (1.0, 3.0, 3.0, 1.0, 1.0)
"""As how many ended jobs the coarser level counts, per level."""

FIRST_LOG_RATIO = -0.9
FIRST_INVERSE = 0.05
SHORT_S = 10.0
_USER_DECAY = DECAYS[USER_LEVEL]


@jit
def end_in(sums, groups, run_s, requested_s):
    """Add a job that has ended to its groups, ``sums[groups[level]]``; -1 is a group that nobody asks about."""
    log_run = math.log(max(run_s, 1.0))
    log_ratio = log_run - math.log(max(requested_s, 1.0))
    inverse = SHORT_S / max(run_s, SHORT_S)
    for level in range(N_LEVELS):
        if groups[level] < 0:
            continue
        group, decay = sums[groups[level]], DECAYS[level]
        group.n = group.n * decay + 1.0
        group.log_ratio = group.log_ratio * decay + log_ratio
        group.inverse = group.inverse * decay + inverse
        group.run_s = group.run_s * decay + run_s
        group.log_run = group.log_run * decay + log_run
        group.log_run_squared = group.log_run_squared * decay + log_run * log_run
        group.before_last_s = group.last_s
        group.last_s = run_s
        group.n_ended += 1


@jit
def last_two_s(user, otherwise_s):
    """Return the mean of a user's last two run times; of one if there is no other, and without any what is said."""
    if user.n_ended == 0:
        return otherwise_s
    return user.last_s if user.n_ended == 1 else 0.5 * (user.last_s + user.before_last_s)


@jit
def spread(user):
    """Return the standard deviation of the logarithms of a user's run times; 1 where there are none."""
    if user.n_ended == 0:
        return 1.0
    mean = user.log_run / user.n
    return math.sqrt(max(0.0, user.log_run_squared / user.n - mean * mean))


@jit
def shrunk(sums, groups, requested_s):
    """Return the geometric and the harmonic mean that the groups of a job predict of its run time, in seconds."""
    log_ratio, inverse = FIRST_LOG_RATIO, FIRST_INVERSE
    for level in range(N_LEVELS):
        group, m = sums[groups[level]], SHRINKAGES[level]
        log_ratio = (group.log_ratio + m * log_ratio) / (group.n + m)
        inverse = (group.inverse + m * inverse) / (group.n + m)
    inverse = max(inverse, SHORT_S / max(requested_s, SHORT_S))
    return min(requested_s, requested_s * math.exp(log_ratio)), SHORT_S / inverse


@jit
def of_user(user, predictor, requested_s):
    """Return what predictors say that look at the user's run times alone; at most what is requested."""
    if predictor == codes.PREDICT_LAST_TWO:
        # Tsafrir's: with fewer than two jobs, nothing is known.
        return requested_s if user.n_ended < 2 else min(requested_s, last_two_s(user, requested_s))
    if predictor == codes.PREDICT_USER_MEAN:
        return requested_s if user.n_ended == 0 else min(requested_s, user.run_s / user.n)
    return np.nan


@jit
def predict(state, job):
    """Predict how long a job will run, by what has ended until now."""
    groups, prediction = state.job_groups[job], state.predictions[job]
    user = state.sums[groups[USER_LEVEL]]
    requested_s, predictor = state.jobs[job].requested_time_s, state.scalars[0].predictor
    if predictor in (codes.PREDICT_GEOMETRIC, codes.PREDICT_HARMONIC):
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
def note_submission(state, job):
    """Note that a job has been submitted, and predict its run time."""
    if state.scalars[0].predictor == codes.PREDICT_NOTHING:
        return
    row, prediction = state.jobs[job], state.predictions[job]
    prediction.log_request = math.log(max(row.requested_time_s, 1.0))
    prediction.log_share = math.log(row.n_requested / len(state.cores))
    user = state.sums[state.job_groups[job, USER_LEVEL]]
    user.n_here += 1
    user.n_waiting += 1
    predict(state, job)


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
