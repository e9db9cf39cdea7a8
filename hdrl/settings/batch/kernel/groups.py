"""Groups of jobs that are alike, and what their ended jobs tell of run times, in compiled code.

Jobs belong to five groups, coarse to fine: all; those of the same request; of the same user; of that user and request;
of that user, request and number of cores (`workload.history`). Each group keeps sums that fade with every job of it
that ends, and what a fine group says shrinks towards what the next coarser one does: as ``m`` ended jobs of which it
knows nothing would.

A small network predicts run times from the same. It sees what the groups say of a job at each level, before and after
shrinking, its request, and its user: 20 numbers through two layers of 32 neurons (tanh) to two, the logarithm of run /
request and that of the mean of 10 / max(run, 10). `predict.training` trains it, on logs and not on the machine that it
is used on: all that it sees has no unit but the request.

References
----------
D. Tsafrir, Y. Etsion, D. Feitelson, "Backfilling Using System-Generated Predictions Rather than User Runtime
Estimates", IEEE TPDS 18(6), 2007 (the mean of the last two).
"""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np

from hdrl.compiled.jit import jit
from hdrl.compiled.records import of, record_dtype
from hdrl.settings.batch.kernel import codes
from hdrl.settings.batch.workload.history import LEVELS, USER_LEVEL

SUMS_DTYPE = record_dtype(
    [
        *of(np.float64, "n", "log_ratio", "inverse", "run_s", "log_run", "log_run_squared", "last_s", "before_last_s"),
        *of(np.int64, "n_ended", "n_here", "n_waiting"),
        *of(np.float64, "n_came", "n_without_room"),
    ]
)
"""A group of jobs. Faded sums over its ended jobs: their number, log(run / request), 10 / max(run, 10), the run time,
its logarithm and the square of that. Then the last two run times, how many have ended, are here, and wait. Of the
group of all jobs, where `note_room` is called: faded, how many came, and how many of these found no room."""

N_LEVELS = len(LEVELS)
DECAYS = (0.999, 0.99, 0.95, 0.85, 0.8)
"""Factor on the earlier sums when a job ends, per level."""

SHRINKAGES = (1.0, 3.0, 3.0, 1.0, 1.0)
"""As how many ended jobs the coarser level counts, per level."""

FIRST_LOG_RATIO = -0.9
FIRST_INVERSE = 0.05
SHORT_S = 10.0

ROOM_DECAY = 0.99
"""Factor on the earlier count of jobs that found no room when a job arrives: about a hundred jobs count."""


@jit
def end_in(sums, groups, run_s, requested_s):
    """Add a job that has ended to its groups, ``sums[groups[level]]``; -1 is a group without waiting jobs."""
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
def note_room(all_jobs, has_room):
    """Note that a job has come, in the group of all jobs, and whether all jobs that wait could start at once then.

    Jobs that a gate holds wait, too, so that what is noted does not depend on whether it had to hold them.
    """
    all_jobs.n_came = all_jobs.n_came * ROOM_DECAY + 1.0
    all_jobs.n_without_room = all_jobs.n_without_room * ROOM_DECAY + (0.0 if has_room else 1.0)


@jit
def share_without_room(all_jobs):
    """Return the share of recent jobs that found no room; 0 before the first one."""
    return 0.0 if all_jobs.n_came == 0.0 else all_jobs.n_without_room / all_jobs.n_came


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
    """Return the prediction of predictors that use the user's run times alone; at most the request."""
    if predictor == codes.PREDICT_LAST_TWO:
        # Tsafrir's: with fewer than two jobs, nothing is known.
        return requested_s if user.n_ended < 2 else min(requested_s, last_two_s(user, requested_s))
    if predictor == codes.PREDICT_USER_MEAN:
        return requested_s if user.n_ended == 0 else min(requested_s, user.run_s / user.n)
    return np.nan


LAYERS = (3 * N_LEVELS + 5, 32, 32, 2)
"""Numbers of inputs, of neurons of the layers, and of outputs."""

N_NUMBERS = sum((n_in + 1) * n_out for n_in, n_out in pairwise(LAYERS))
"""Number of weights and biases: layer by layer, and there neuron by neuron: its weights, then its bias."""

N_NEURONS = sum(LAYERS)


@jit
def look(sums, groups, requested_s, seen):
    """Write the network's inputs for a job to the first positions of ``seen``."""
    log_request = math.log(max(requested_s, 1.0))
    log_ratio, inverse = FIRST_LOG_RATIO, FIRST_INVERSE
    for level in range(N_LEVELS):
        group, m = sums[groups[level]], SHRINKAGES[level]
        log_ratio = (group.log_ratio + m * log_ratio) / (group.n + m)
        inverse = (group.inverse + m * inverse) / (group.n + m)
        seen[3 * level] = log_ratio / 2.0
        seen[3 * level + 1] = math.log(inverse) / 2.0 + 1.0
        seen[3 * level + 2] = group.n / (group.n + 2.0)
    user, first = sums[groups[USER_LEVEL]], 3 * N_LEVELS
    last = math.log(max(user.last_s, 1.0)) if user.n_ended > 0 else log_request
    seen[first] = (log_request - 8.0) / 2.0
    seen[first + 1] = (last - log_request) / 2.0
    seen[first + 2] = (math.log(max(user.before_last_s, 1.0)) - log_request) / 2.0 if user.n_ended > 1 else 0.0
    seen[first + 3] = spread(user) - 1.0
    seen[first + 4] = math.log(1.0 + user.n_here) / 2.0


@jit
def answer(network, neurons):
    """Let the network answer to what stands in the first positions of ``neurons``; return its two numbers."""
    position, first = 0, 0
    for layer in range(1, len(LAYERS)):
        n_in, n_out = LAYERS[layer - 1], LAYERS[layer]
        for neuron in range(n_out):
            total = network[position + n_in]
            for i in range(n_in):
                total += network[position + i] * neurons[first + i]
            position += n_in + 1
            neurons[first + n_in + neuron] = math.tanh(total) if layer < len(LAYERS) - 1 else total
        first += n_in
    return neurons[first], neurons[first + 1]


@jit
def learned(network, neurons, sums, groups, requested_s):
    """Return the geometric and the harmonic mean that the network predicts of a run time, in seconds."""
    look(sums, groups, requested_s, neurons)
    log_ratio, log_inverse = answer(network, neurons)
    inverse = min(1.0, max(math.exp(min(log_inverse, 0.0)), SHORT_S / max(requested_s, SHORT_S)))
    return requested_s * math.exp(min(log_ratio, 0.0)), SHORT_S / inverse
