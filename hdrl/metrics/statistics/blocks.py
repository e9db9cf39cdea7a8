"""Values that follow one another in time: the block bootstrap, and whether neighbours are alike."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from hdrl.metrics.statistics.bootstrap import CONFIDENCE, N_RESAMPLES, Interval, _Stretch
from hdrl.metrics.tables import FloatArray
from hdrl.seeding import stream

FEWEST_BLOCKS = 8
"""Blocks below which no interval is given."""


def block_ratio(
    values: ArrayLike,
    reference: ArrayLike,
    weights: ArrayLike,
    *,
    seed: int = 0,
    n_resamples: int = N_RESAMPLES,
    confidence: float = CONFIDENCE,
) -> tuple[Interval, float]:
    """Return the ratio of two weighted means over time, with the interval of a circular block bootstrap, and its p.

    Blocks of neighbouring periods are drawn, as long as the cube root of their number: what one period leaves to
    the next (a queue) stays together. The p-value is twice the share of resamples on the other side of 1.

    Parameters
    ----------
    values, reference
        Means of each period on both sides, shape ``(n_periods,)``.
    weights
        How many values each mean is made of, same shape.
    seed, n_resamples, confidence
        See `Bootstrap`.

    References
    ----------
    Politis and Romano, "A Circular Block-Resampling Procedure for Stationary Data", 1992; Künsch, "The Jackknife and
    the Bootstrap for General Stationary Observations", Annals of Statistics 17(3), 1989.
    """
    ours, theirs, count = (np.asarray(each, dtype=np.float64) for each in (values, reference, weights))
    n = len(ours)
    sums = np.stack([ours * count, theirs * count])
    total = sums.sum(axis=1)
    if n == 0 or not np.all(np.isfinite(total)) or not np.all(total > 0):
        return Interval(math.nan, math.nan, math.nan), math.nan
    centre = math.log(total[0] / total[1])
    if n < FEWEST_BLOCKS:
        return Interval(math.exp(centre), math.nan, math.nan), math.nan
    if np.array_equal(ours, theirs):
        return Interval(1.0, 1.0, 1.0), 1.0
    length = max(1, round(n ** (1 / 3)))
    n_blocks = -(-n // length)
    firsts = stream(seed, "statistics/blocks").integers(0, n, (n_blocks, n_resamples))
    resampled = np.zeros((2, n_resamples))
    for place in range(n):  # a fixed order of sums
        resampled += sums[:, (firsts[place // length] + place % length) % n]
    estimates = np.array([_log_ratio(ours, theirs) for ours, theirs in resampled.T.tolist()])
    estimates = np.sort(estimates[np.isfinite(estimates)])
    tail = (1 - confidence) / 2
    # As many independent values as there are blocks.
    stretch = _Stretch(n_blocks / (n_blocks - 1), n_blocks - 1)
    ends = [
        math.exp(centre + (float(np.quantile(estimates, share)) - centre) * stretch.factor(share))
        for share in (tail, 1 - tail)
    ]
    few = min(np.count_nonzero(estimates <= 0), np.count_nonzero(estimates >= 0))
    return Interval(math.exp(centre), *ends), min(1.0, 2 * (float(few) + 1) / (len(estimates) + 1))


def _log_ratio(value: float, reference: float) -> float:
    return math.log(value / reference) if value > 0 and reference > 0 else math.nan


def lag_one(series: ArrayLike) -> float:
    """Return the correlation of neighbours in a series; NaN where it does not vary or has fewer than three values.

    Parameters
    ----------
    series
        Values in the order of time.
    """
    values: FloatArray = np.asarray(series, dtype=np.float64)
    if len(values) < 3 or np.isnan(values).any():
        return math.nan
    apart = values - values.mean()
    spread = float(np.sum(apart**2))
    if spread <= 1e-24 * max(1e-300, float(np.max(np.abs(values)))) ** 2 * len(values):
        return math.nan
    return float(np.sum(apart[1:] * apart[:-1])) / spread


def suspicious_lag(series: ArrayLike) -> float | None:
    """Return the correlation of neighbours if it is larger than chance explains (one-sided, 1 %), else ``None``.

    Parameters
    ----------
    series
        Values in the order of time, eight or more.
    """
    values = np.asarray(series, dtype=np.float64)
    found, n = lag_one(values), len(values)
    # Of independent values it is about normal, with mean -1/n and variance 1/n.
    is_large = n >= FEWEST_BLOCKS and not math.isnan(found) and found > 2.326 / math.sqrt(n) - 1 / n
    return found if is_large else None


