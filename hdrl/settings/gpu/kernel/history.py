"""Predictions from ended jobs: distributions of run times by groups of jobs.

A job belongs to a group at each level, from all jobs to those of the same user and name. Each group has a histogram of
how long its jobs took alone on the fastest type, which forgets by each job that ends. A group with few of them leans on
the next coarser one, in which it is. What a job that has run for a while has left follows from the part of its
histogram that lies beyond.

Only jobs that have ended count. All sums have a fixed order, and logarithms and powers are those of
`hdrl.compiled.elementary32`: the same bytes everywhere.
"""

from __future__ import annotations

import math

import numpy as np

from hdrl.compiled.elementary32 import exp, log
from hdrl.compiled.jit import jit
from hdrl.settings.gpu.kernel import codes, state
from hdrl.settings.gpu.kernel.state import (
    DONE_S,
    LAST_LOG,
    LAST_TWO,
    LOG_BEFORE,
    LOG_GITTINS,
    LOG_MEAN,
    LOG_WHOLE,
    MEAN_LOG,
    N_BUCKETS,
    N_SEEN,
    SEEN,
    SUM_OF_LOGS,
)

STALE, MORE = 8, 1.1
"""A job is predicted anew after 8 ends, or when it has done 1.1 times as much."""

LEAST_SHARE, LEAST_LEFT_S = 0.02, 1.0
"""Of the bucket in which a job is so much counts at least, and so long it has left."""

MIDDLE = math.sqrt(math.sqrt(0.5))
"""The middle of a bucket, as a share of its end."""

_FIRST_LOG = 6.5
"""The mean logarithm of times before anything has been seen."""


@jit
def add_end(history, groups, memory, ends_s, time_s):
    """Count a job that has ended in all of its groups.

    Parameters
    ----------
    history
        All groups, shape ``(n_groups, N_OF_GROUP)``.
    groups
        Its group at each level, -1 where it has none.
    memory
        Of each level what is kept at an end, and the weight of the coarser level, shape ``(n_levels, 2)``.
    ends_s
        Upper edges of the buckets, in seconds.
    time_s
        Its time alone on the fastest type, in seconds.
    """
    bucket = 0
    while bucket < N_BUCKETS - 1 and ends_s[bucket] <= time_s:
        bucket += 1
    log_s = np.float64(log(np.float32(max(time_s, LEAST_LEFT_S))))
    for level in range(len(groups)):
        g = groups[level]
        if g < 0:
            continue
        # Forgetting by ends, not by time: a group that is quiet for weeks loses nothing.
        for k in range(LAST_LOG):
            history[g, k] *= memory[level, 0]
        history[g, bucket] += 1.0
        history[g, SEEN] += 1.0
        history[g, SUM_OF_LOGS] += log_s
        history[g, LOG_BEFORE] = history[g, LAST_LOG]
        history[g, LAST_LOG] = log_s


@jit
def count_ended_job(w, j):
    """Count a job that has ended."""
    if len(w.past.history) > 0:
        add_end(
            w.past.history,
            w.past.groups[j],
            w.past.level_memory,
            w.past.bucket_end_s,
            w.jobs.work[j] / w.jobs.best_rate[j],
        )


@jit
def _expect(w, j):
    """Write the share of jobs like one in each bucket into ``shares``, and what is said of its whole time."""
    for k in range(N_BUCKETS):
        w.past.shares[k] = 1.0 / N_BUCKETS
    predictions = w.past.predicted[j]
    predictions[LOG_WHOLE] = predictions[LAST_TWO] = _FIRST_LOG
    predictions[N_SEEN] = 0.0
    for level in range(w.past.groups.shape[1]):
        g = w.past.groups[j, level]
        if g < 0:
            continue
        weight, seen = w.past.level_memory[level, 1], w.past.history[g, SEEN]
        # The coarser level counts as ``weight`` jobs of this group: it hardly matters once the group has many.
        scale = 1.0 / (seen + weight)
        for k in range(N_BUCKETS):
            w.past.shares[k] = (w.past.history[g, k] + weight * w.past.shares[k]) * scale
        predictions[LOG_WHOLE] = (w.past.history[g, SUM_OF_LOGS] + weight * predictions[LOG_WHOLE]) * scale
        predictions[N_SEEN] = seen
        if seen > 0.0:
            last, before = w.past.history[g, LAST_LOG], w.past.history[g, LOG_BEFORE]
            predictions[LAST_TWO] = 0.5 * (last + before) if before > 0.0 else last


@jit
def _predict(w, j, done_s):
    """Write the predictions for a job that has done so much."""
    _expect(w, j)
    total, begin_s = 0.0, 0.0
    for k in range(N_BUCKETS):
        end_s = w.past.bucket_end_s[k]
        if k < N_BUCKETS - 1:
            # The job has outlived the bucket.
            if end_s <= done_s:
                w.past.shares[k] = 0.0
            elif begin_s < done_s:
                # Times are taken as even within a bucket; the least share keeps the total above 0.
                w.past.shares[k] *= max(LEAST_SHARE, (end_s - done_s) / (end_s - begin_s))
        total += w.past.shares[k]
        begin_s = end_s
    mean_s, mean_log, passed, spent_s, gittins = 0.0, 0.0, 0.0, 0.0, 0.0
    for k in range(N_BUCKETS):
        end_s = w.past.bucket_end_s[k]
        share = w.past.shares[k] / total
        if share > 0.0:
            middle_s = MIDDLE * end_s
            if k == N_BUCKETS - 1:
                # The last bucket has no end: the longer a job has run, the longer it still takes.
                middle_s = max(middle_s, 1.5 * done_s)
            left_s = max(middle_s - done_s, LEAST_LEFT_S)
            mean_s += share * left_s
            mean_log += share * np.float64(log(np.float32(left_s)))
            passed += share
            spent_s += share * left_s
            until_s = max(end_s - done_s, left_s)
            # Gittins' index: the best ratio, over stopping times at ends of buckets, of the chance to be done by then
            # to the time that is spent until then.
            gittins = max(gittins, passed / (spent_s + max(0.0, 1.0 - passed) * until_s))
    predictions = w.past.predicted[j]
    predictions[LOG_GITTINS] = np.float64(log(np.float32(gittins)))
    predictions[LOG_MEAN] = np.float64(log(np.float32(mean_s)))
    predictions[MEAN_LOG] = mean_log


@jit
def look_at(w, j, done_s):
    """Predict a job anew if many jobs have ended since its prediction, or it has worked more than a little.

    ``done_s`` is its work in seconds alone on the fastest type.
    """
    n_done, before_s = w.counts[state.N_DONE], w.past.predicted[j, DONE_S]
    # A prediction costs a loop over levels and buckets, so it is kept while hardly anything has changed.
    is_known = w.past.predicted_at[j] >= 0 and n_done - w.past.predicted_at[j] < STALE
    if is_known and done_s >= before_s and done_s <= MORE * before_s + LEAST_LEFT_S:
        return
    _predict(w, j, done_s)
    w.past.predicted[j, DONE_S] = done_s
    w.past.predicted_at[j] = n_done


@jit
def predicted_key(w, j, order, width):
    """Return the key of a job that has been looked at; smaller is earlier."""
    predictions = w.past.predicted[j]
    if order == codes.SJF_HISTORY:
        return predictions[LOG_WHOLE]
    if order == codes.QSSF:
        return _raised(predictions[LOG_WHOLE]) * width
    if order == codes.SRTF_HISTORY:
        return predictions[MEAN_LOG]
    if order == codes.SRSF_HISTORY:
        return _raised(predictions[MEAN_LOG]) * width
    return _raised(-predictions[LOG_GITTINS]) * width


@jit
def _raised(value):
    return np.float64(exp(np.float32(value)))
