"""An index with weights: which job is next, whether a running one gives way, and which type of GPUs it tries first.

The index of a job is the weighted sum of the first features, the lowest is first. As with any order that preempts,
running jobs give way to waiting ones with a lower index; features that are 0 of waiting jobs make running ones harder
to replace (hysteresis). A job tries types of GPUs by the weighted sum of the last features, the lowest first.

All sums have a fixed order, and logarithms are those of `hdrl.compiled.elementary32`: the same bytes everywhere.
"""

from __future__ import annotations

import math

import numpy as np

from hdrl.compiled.elementary32 import exp, log
from hdrl.compiled.jit import jit
from hdrl.settings.gpu.kernel import codes, state

(
    GITTINS,
    MEAN,
    MEAN_LOG,
    GPUS,
    SERVED,
    GPU_SERVED,
    OVERDUE,
    AGE,
    RUNS,
    STAY,
    LAST_TWO,
    USER_GPUS,
    SEEN,
    FITS,
    PREEMPTED,
    WAIT,
    WIDE_AND_QUEUE,
    SLOWER,
    SLOWER_AND_LONG,
    TYPE_IDLE,
    N_WEIGHTS,
) = range(21)
"""The features; `hdrl.settings.gpu.simulation.index.NAMES` says what each is."""


@jit
def _log(value):
    return np.float64(log(np.float32(value)))


@jit
def _might_fit(w, j):
    """Return whether enough GPUs of a type are idle."""
    might = False
    for t in range(len(w.machine.type_gpus)):
        might |= (w.jobs.allowed[j] >> t) & 1 == 1 and w.free.type_idle[t] >= w.jobs.n_gpus[j]
    return might


@jit
def index_of(w, j, width, served_s):
    """Return the index of a job that `hdrl.settings.gpu.kernel.history.look_at` has seen.

    ``width`` is its number of GPUs, a share counting as one; ``served_s`` is how long it has run.
    """
    predictions, weights = w.past.predicted[j], w.past.weights
    age_s = w.now_s[0] - w.jobs.arrival_s[j]
    log_width = _log(max(width, 0.01))
    # The constants move usual values towards 0, so that weights are of one size.
    total = weights[GITTINS] * (-predictions[state.LOG_GITTINS] - 6.0)
    total += weights[MEAN] * (predictions[state.LOG_MEAN] - 8.0)
    total += weights[MEAN_LOG] * (predictions[state.MEAN_LOG] - 6.0)
    total += weights[GPUS] * log_width
    total += weights[SERVED] * (_log(1.0 + served_s / 60.0) - 3.0)
    total += weights[GPU_SERVED] * (_log(1.0 + served_s * width / 60.0) - 3.0)
    total += weights[OVERDUE] * _log(1.0 + age_s / max(np.float64(exp(np.float32(predictions[state.LOG_WHOLE]))), 30.0))
    total += weights[AGE] * (_log(1.0 + age_s / 60.0) - 4.0)
    if w.jobs.status[j] == codes.RUNNING:
        total += weights[RUNS] + weights[STAY] * (_log(1.0 + (w.now_s[0] - w.jobs.since_s[j]) / 60.0) - 3.0)
    elif _might_fit(w, j):
        total += weights[FITS]
    total += weights[LAST_TWO] * (predictions[state.LAST_TWO] - 6.0)
    total += weights[USER_GPUS] * _log(1.0 + w.free.user_use[w.jobs.user[j], 0])
    total += weights[SEEN] * predictions[state.N_SEEN] / (predictions[state.N_SEEN] + 3.0)
    # Every start but the present one has ended in a preemption.
    n_preempted = w.jobs.n_starts[j] - (1 if w.jobs.status[j] == codes.RUNNING else 0)
    total += weights[PREEMPTED] * _log(1.0 + n_preempted)
    total += weights[WAIT] * _log(1.0 + max(0.0, age_s - served_s) / 600.0)
    queued = w.sums[state.QUEUED_GPUS] / len(w.machine.gpu_node)
    total += weights[WIDE_AND_QUEUE] * log_width * _log(1.0 + queued)
    return total


@jit
def order_types(w, j):
    """Write at which position a waiting job tries each type of GPUs into ``type_order``; equal types share one."""
    mean_log = w.past.predicted[j, state.MEAN_LOG] - 6.0
    for t in range(len(w.machine.type_gpus)):
        w.past.type_score[t] = math.inf
        rate = w.machine.rates[w.jobs.profile[j], t, 0]
        if rate > 0.0:
            slower = w.jobs.best_rate[j] / rate - 1.0
            w.past.type_score[t] = slower * (w.past.weights[SLOWER] + w.past.weights[SLOWER_AND_LONG] * mean_log)
            w.past.type_score[t] += w.past.weights[TYPE_IDLE] * w.free.type_idle[t] / max(1, w.machine.type_gpus[t])
    for t in range(len(w.machine.type_gpus)):
        w.past.type_order[t] = 0
        # Ranks by counting: few types, and equal scores share a rank, so the placement decides between them.
        for other in range(len(w.machine.type_gpus)):
            w.past.type_order[t] += w.past.type_score[other] < w.past.type_score[t]
