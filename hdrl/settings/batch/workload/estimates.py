"""User estimates of run times: few, round, popular values, far above what jobs need.

Model and constants: Tsafrir, Etsion, Feitelson, "Modeling User Runtime Estimates", JSSPP 2005. Which round
times are the popular ones, and the pairing of estimates with jobs below, are choices of this module.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from hdrl.base import elementary
from hdrl.base.errors import WorkloadError

FloatArray = NDArray[np.float64]

N_POPULAR = 20
POPULAR_SHARE = 0.89
"""Share of the jobs that the 20 most popular values have together."""

MINUTE_S = 60.0
POPULAR_MINUTES = (60, 120, 240, 30, 15, 720, 480, 5, 10, 20, 180, 360, 1080, 300, 600, 1440, 2160, 45, 2880, 1)
"""Round times that users like, the most popular first; the longest estimate comes before all of them."""

_LIMITS_MINUTES = (5, 15, 30, 60, 120, 240, 480, 720, 1080, 1440, 2160, 2880)
_DAY_MINUTES = 1440


def number_of_values(n_jobs: int) -> int:
    """Return the number of different estimates of that many jobs, at least 1."""
    return max(1, round(0.653566 * math.pow(n_jobs, 0.547761)))


def value_sizes(n_values: int) -> FloatArray:
    """Return the share of the jobs that each value has, the most popular first; the sum is 1."""
    rank = np.arange(1.0, n_values + 1)
    popular = 14.0491 * elementary.exp(-0.177531 * rank[:N_POPULAR]) + 0.462513
    tail = 795.6 * elementary.power(rank[N_POPULAR:], -2.267)
    popular /= popular.sum()
    if len(tail) == 0:
        return popular
    return np.concatenate([POPULAR_SHARE * popular, (1.0 - POPULAR_SHARE) * tail / tail.sum()])


def value_times(n_values: int, longest_s: float) -> FloatArray:
    """Return the estimates of the model in whole minutes, ascending; the last one is the longest.

    ``n_values``: number of values, at least 1; fewer are returned where some fall into the same minute.
    """
    a = 1.0 + 12.1039 * n_values**-0.6026
    x = np.arange(1.0, n_values + 1) / n_values
    times_s = np.ceil((a - 1.0) * x / (a - x) * longest_s / MINUTE_S) * MINUTE_S
    return np.unique(np.minimum(times_s, longest_s))


def queue_limit(longest_run_s: float) -> float:
    """Return the smallest usual limit of a queue, in seconds, that lets a job of that length finish."""
    for minutes in _LIMITS_MINUTES:
        if longest_run_s <= minutes * MINUTE_S:
            return minutes * MINUTE_S
    return float(np.ceil(longest_run_s / (_DAY_MINUTES * MINUTE_S)) * _DAY_MINUTES * MINUTE_S)


def tsafrir_estimates(run_s: FloatArray, rng: np.random.Generator, *, longest_s: float | None = None) -> FloatArray:
    """Draw an estimate for each job, none below its run time.

    Estimates are drawn from the model's distribution and dealt out from the longest job to the
    shortest, each job taking at random one of those left that cover it. A job that none covers takes the
    smallest value of the model that does.

    Parameters
    ----------
    run_s
        Run times in seconds, shape ``(n_jobs,)``, positive.
    longest_s
        The longest estimate in seconds; ``None`` for the `queue_limit` of the longest job.

    Returns
    -------
    FloatArray
        Estimates in seconds, shape ``(n_jobs,)``.

    Raises
    ------
    WorkloadError
        If a job runs longer than ``longest_s``, or a run time is not positive.
    """
    run_s = np.asarray(run_s, dtype=np.float64)
    n_jobs = len(run_s)
    if n_jobs == 0:
        return np.empty(0)
    if not np.all(run_s > 0):
        raise WorkloadError(f"a run time is {run_s.min()}, expected positive ones")
    longest_s = queue_limit(float(run_s.max())) if longest_s is None else longest_s
    if run_s.max() > longest_s:
        raise WorkloadError(f"a job runs {run_s.max()} s, longer than the longest estimate of {longest_s} s")
    values = _ranked_values(number_of_values(n_jobs), longest_s)
    sizes = value_sizes(len(values))
    drawn = np.sort(values[np.searchsorted(np.cumsum(sizes)[:-1], rng.random(n_jobs), side="right")])
    return _deal(run_s, drawn, np.sort(values), rng)


def _ranked_values(n_values: int, longest_s: float) -> FloatArray:
    """Return the different estimates, the most popular first."""
    ordinary = value_times(n_values, longest_s)
    popular = [longest_s, *(m * MINUTE_S for m in POPULAR_MINUTES if m * MINUTE_S < longest_s)]
    popular = popular[: min(N_POPULAR, n_values)]
    others = np.setdiff1d(ordinary, popular)
    # Ranks of the tail say nothing about times: spread them evenly over the ordinary values.
    spread = others[np.argsort((np.arange(len(others)) * 0.618034) % 1.0, kind="stable")]
    return np.array([*popular, *spread[: max(0, n_values - len(popular))].tolist()])


def _deal(run_s: FloatArray, drawn: FloatArray, values: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Pair jobs with drawn estimates (ascending) that cover them."""
    longest_first = np.argsort(-run_s, kind="stable")
    n_covering = (len(drawn) - np.searchsorted(drawn, run_s[longest_first], side="left")).tolist()
    uniform = rng.random(len(run_s)).tolist()
    descending = drawn[::-1].tolist()
    smallest = values[np.searchsorted(values, run_s[longest_first], side="left")].tolist()
    pool: list[float] = []
    added = 0
    dealt = []
    for i, covering in enumerate(n_covering):
        if covering > added:
            pool.extend(descending[added:covering])
            added = covering
        if not pool:
            dealt.append(smallest[i])
            continue
        pick = int(uniform[i] * len(pool))
        pool[pick], pool[-1] = pool[-1], pool[pick]
        dealt.append(pool.pop())
    estimates = np.empty(len(run_s))
    estimates[longest_first] = dealt
    return estimates
