"""Predictions for the jobs of a log at its own dates, without a simulation."""

from __future__ import annotations

from hdrl.compiled.jit import jit
from hdrl.settings.batch.kernel import codes
from hdrl.settings.batch.kernel.groups import end_in, look, of_user, shrunk
from hdrl.settings.batch.kernel.jit import entry
from hdrl.settings.batch.workload.history import USER_LEVEL

REPLAYED = ("last2", "user_mean", "geo", "harm")
"""Predictors whose results are returned for each job, in this order."""


@jit
def _predict(sums, groups, requested_s, results):
    user = sums[groups[USER_LEVEL]]
    results[0] = of_user(user, codes.PREDICT_LAST_TWO, requested_s)
    results[1] = of_user(user, codes.PREDICT_USER_MEAN, requested_s)
    results[2], results[3] = shrunk(sums, groups, requested_s)


@jit
def _replay(arrivals, ends, requested_s, run_s, submit_s, ended_s, groups, sums, results, seen):
    n_learned = 0
    for i in range(len(arrivals)):
        job = arrivals[i]
        while n_learned < len(ends) and ended_s[ends[n_learned]] < submit_s[job]:
            ended = ends[n_learned]
            sums[groups[ended, USER_LEVEL]].n_here -= 1
            end_in(sums, groups[ended], run_s[ended], requested_s[ended])
            n_learned += 1
        sums[groups[job, USER_LEVEL]].n_here += 1
        _predict(sums, groups[job], requested_s[job], results[job])
        look(sums, groups[job], requested_s[job], seen[job])


@entry
def replay(arrivals, ends, requested_s, run_s, submit_s, ended_s, groups, sums, results, seen):
    """Go through a log by its dates; what ended before a submission has been learned from.

    Parameters
    ----------
    arrivals, ends
        Jobs in the order of submission, and those whose ends are known in the order of these, int64.
    groups
        Of each job at each level, numbered over all levels, int32.
    sums
        Zeros of `kernel.history.SUMS_DTYPE`, a row for each group.
    results
        Is filled in, shape ``(n_jobs, len(REPLAYED))``: seconds.
    seen
        Is filled in, shape ``(n_jobs, kernel.groups.LAYERS[0])``: what the network sees.
    """
    _replay(arrivals, ends, requested_s, run_s, submit_s, ended_s, groups, sums, results, seen)
