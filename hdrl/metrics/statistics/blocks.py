"""Values that follow one another in time: the block bootstrap, and whether neighbours are alike."""

from __future__ import annotations

import math
from collections.abc import Callable
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hdrl.base import elementary
from hdrl.base.seeding import stream
from hdrl.metrics.statistics.bootstrap import CONFIDENCE, N_RESAMPLES, Interval, Stretch
from hdrl.metrics.tables import EQUAL, FloatArray, as_table

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

    Blocks of neighbouring periods are drawn, as long as the square root of their number: what one period leaves to
    the next (a queue) stays together. The interval is stretched as in `Bootstrap`, as if blocks were what varies; the
    p-value is the smallest level at which it does not hold 1.

    Parameters
    ----------
    values, reference
        Tables of the means of each period; the seeds of both sides are drawn, too.
    weights
        Number of values of each mean, shape ``(n_periods,)``.

    References
    ----------
    Politis and Romano, "A Circular Block-Resampling Procedure for Stationary Data", 1992; Künsch, "The Jackknife and
    the Bootstrap for General Stationary Observations", Annals of Statistics 17(3), 1989.
    """
    count = np.asarray(weights, dtype=np.float64)[:, np.newaxis]
    sides = [as_table(values) * count, as_table(reference) * count]
    totals = [side.sum(axis=0) for side in sides]
    n = len(count)
    if n == 0 or not all(np.all(np.isfinite(total)) and np.all(total > 0) for total in totals):
        return Interval(math.nan, math.nan, math.nan), math.nan
    centre = float(elementary.log(totals[0]).mean() - elementary.log(totals[1]).mean())
    if n < FEWEST_BLOCKS:
        return Interval(math.exp(centre), math.nan, math.nan), math.nan
    length = round(math.sqrt(n))
    n_blocks = -(-n // length)
    firsts = stream(seed, "statistics/blocks").integers(0, n, (n_blocks, n_resamples))
    estimates = np.zeros(n_resamples)
    for sums, sign, name in ((sides[0], 1, "values"), (sides[1], -1, "reference")):
        n_seeds = sums.shape[1]
        draws = stream(seed, f"statistics/seeds/{name}").multinomial(
            n_seeds, np.full(n_seeds, 1 / n_seeds), size=n_resamples
        )
        for of_seed in range(n_seeds):
            total = np.zeros(n_resamples)
            for position in range(n):  # a fixed order of sums
                total += sums[(firsts[position // length] + position % length) % n, of_seed]
            estimates += sign * elementary.log(total) * draws[:, of_seed] / n_seeds
    estimates = np.sort(estimates[np.isfinite(estimates)])
    if len(estimates) == 0 or estimates[-1] - estimates[0] <= EQUAL:
        return Interval(math.exp(centre), math.exp(centre), math.exp(centre)), 1.0
    # As many independent values as there are blocks; what reaches beyond a block is left out of their variance.
    stretch = Stretch(n_blocks / (n_blocks - 1) * (1 + length / n), n_blocks - 1)

    def end(share: float) -> float:
        return centre + (float(np.quantile(estimates, share)) - centre) * stretch.factor(share)

    tail = (1 - confidence) / 2
    return Interval(math.exp(centre), math.exp(end(tail)), math.exp(end(1 - tail))), _p(end, centre)


def block_counts(n_values: int, random: np.random.Generator, n_resamples: int) -> NDArray[np.int64]:
    """Return the count of each value in each resample of a circular block bootstrap, the values themselves first.

    Blocks are as long as the square root of ``n_values``. The shape is ``(n_values, 1 + n_resamples)``.
    """
    length = round(math.sqrt(n_values))
    firsts = random.integers(0, n_values, (-(-n_values // length), n_resamples))
    counts = np.ones((n_values, 1 + n_resamples), dtype=np.int64)
    counts[:, 1:] = 0
    resamples = np.arange(1, 1 + n_resamples)
    for position in range(n_values):
        counts[(firsts[position // length] + position % length) % n_values, resamples] += 1
    return counts


def _p(end: Callable[[float], float], centre: float) -> float:
    """Return the smallest level whose interval does not hold 1, by halving."""
    low, high = _LEAST_P, 1.0
    for _ in range(40):
        middle = math.sqrt(low * high)
        is_outside = end(1 - middle / 2) < 0 if centre < 0 else end(middle / 2) > 0
        low, high = (low, middle) if is_outside else (middle, high)
    return high


_LEAST_P = 1e-6


def lag_one(series: ArrayLike) -> float:
    """Return the correlation of neighbours in a series; NaN where it does not vary or has fewer than three values."""
    values: FloatArray = np.asarray(series, dtype=np.float64)
    if len(values) < 3 or np.isnan(values).any():
        return math.nan
    apart = values - values.mean()
    spread = float(np.sum(apart**2))
    if spread <= 1e-24 * max(1e-300, float(np.max(np.abs(values)))) ** 2 * len(values):
        return math.nan
    return float(np.sum(apart[1:] * apart[:-1])) / spread


def suspicious_lag(series: ArrayLike, n_tests: int = 1) -> float | None:
    """Return the correlation of neighbours if it is larger than chance explains (one-sided, 1 %), else ``None``."""
    values = np.asarray(series, dtype=np.float64)
    found, n = lag_one(values), len(values)
    # Of independent values it is about normal, with mean -1/n and variance 1/n.
    is_large = (
        n >= FEWEST_BLOCKS
        and not math.isnan(found)
        and found > NormalDist().inv_cdf(1 - 0.01 / n_tests) / math.sqrt(n) - 1 / n
    )
    return found if is_large else None
