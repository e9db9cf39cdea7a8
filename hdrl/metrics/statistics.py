"""Statistics of paired comparisons: intervals, ratios, tests. Pure functions of arrays, deterministic from a seed.

What they take are tables, see `hdrl.metrics.tables`. A window in which a value is missing (NaN) does not count.
"""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hdrl.errors import MissingExtra
from hdrl.metrics.tables import FloatArray, as_table, complete, logarithms, paired, usable_logarithms
from hdrl.seeding import stream

N_RESAMPLES = 5_000
"""Bootstrap resamples by default: the ends of an interval then move by a few hundredths of its width."""

CONFIDENCE = 0.95
"""Share of intervals that would hold the true value."""

_CHUNK = 4_000_000


class Interval(NamedTuple):
    """A number with the ends of its interval, NaN where it has none (fewer than two windows)."""

    value: float
    low: float
    high: float


def log_ratios(values: ArrayLike, reference: ArrayLike) -> FloatArray:
    """Return the logarithm of the ratio in each window, the seeds of both sides averaged, shape ``(n_windows,)``.

    Two zeros have the ratio 1. NaN where one side alone is zero, where a value is negative, and where one is missing.

    Parameters
    ----------
    values, reference
        One table each, with the same windows; their seeds may differ in number.

    Raises
    ------
    ValueError
        If they have different windows.
    """
    ours, theirs = logarithms(values, reference)
    difference: FloatArray = ours.mean(axis=1) - theirs.mean(axis=1)
    return difference


def geometric_mean_ratio(values: ArrayLike, reference: ArrayLike) -> float:
    """Return the geometric mean over windows of the ratio to the reference; NaN if no window has a ratio.

    It is NaN as well if a window has values but no ratio (one side is zero or negative): leaving those windows out
    would flatter one side.

    Parameters
    ----------
    values, reference
        One table each, with the same windows.
    """
    logs = usable_logarithms(values, reference)
    if logs is None:
        return math.nan
    return math.exp(float(np.mean(logs[0].mean(axis=1) - logs[1].mean(axis=1))))


def wilcoxon_p(values: ArrayLike, reference: ArrayLike) -> float:
    """Return the two-sided p-value of the paired Wilcoxon signed-rank test over windows.

    The pairs are the means over the seeds of each window: as logarithms if all values are positive (so that it asks
    about the same effect as the geometric-mean ratio), else as they are. Windows with no difference are left out, as
    Wilcoxon did; without any difference p is 1, without any pair NaN. All ways to choose the signs are counted for up
    to 50 windows, 13 if differences are equal; SciPy approximates p of more by the normal distribution.

    Parameters
    ----------
    values, reference
        One table each, with the same windows.

    Raises
    ------
    ValueError
        If they have different windows.
    MissingExtra
        If scipy is not installed.

    References
    ----------
    Wilcoxon, "Individual Comparisons by Ranking Methods", Biometrics Bulletin 1(6), 1945.
    """
    differences = _differences(values, reference)
    if differences is None:
        return math.nan
    if len(differences) == 0:
        return 1.0
    exact = _exact_p(differences)
    if exact is not None:
        return exact
    try:
        from scipy import stats
    except ImportError:
        raise MissingExtra("scipy", "report") from None
    return float(stats.wilcoxon(differences).pvalue)


def rank_direction(values: ArrayLike, reference: ArrayLike) -> int:
    """Return which side the signed ranks of `wilcoxon_p` favour: -1 if values are the lower ones, 1 the higher, else 0.

    A mean may say the opposite, where a few windows differ much and many a little.

    Parameters
    ----------
    values, reference
        One table each, with the same windows.

    Raises
    ------
    ValueError
        If they have different windows.
    """
    differences = _differences(values, reference)
    if differences is None or len(differences) == 0:
        return 0
    ranks, _ = _ranks(differences)
    return int(np.sign(np.sum(np.sign(differences) * ranks)))


def _ranks(differences: FloatArray) -> tuple[NDArray[np.int64], int]:
    """Return twice the rank of the size of each difference (halves where some are equal), and how many are equal."""
    _, place, n_equal = np.unique(np.abs(differences), return_inverse=True, return_counts=True)
    return (2 * np.cumsum(n_equal) - n_equal + 1)[place], int(n_equal.max())


def _differences(values: ArrayLike, reference: ArrayLike) -> FloatArray | None:
    """Return the differences that Wilcoxon's test ranks, those of zero left out; ``None`` without any pair."""
    ours, theirs = paired(values, reference)
    if len(ours) == 0:
        return None
    if np.all(ours > 0) and np.all(theirs > 0):
        ours, theirs = np.log(ours), np.log(theirs)
    differences = ours.mean(axis=1) - theirs.mean(axis=1)
    return np.asarray(differences[differences != 0])


_MOST_COUNTED, _MOST_COUNTED_IF_EQUAL = 50, 13
"""Up to how many differences all signs are counted, as SciPy does; to load its statistics takes 0.6 s."""


def _exact_p(differences: FloatArray) -> float | None:
    """Return the exact two-sided p of differences, none of which is zero; ``None`` if these are too many.

    All probabilities are whole multiples of two to the power of minus their number, and the sums exact.
    """
    ranks, most_equal = _ranks(differences)
    if len(differences) > (_MOST_COUNTED_IF_EQUAL if most_equal > 1 else _MOST_COUNTED):
        return None
    shares = np.ones(1)  # of all signs, by the sum of the ranks of positive differences
    for rank in ranks.tolist():
        before, shares = shares, np.zeros(len(shares) + rank)
        shares[: len(before)] = 0.5 * before
        shares[rank:] += 0.5 * before
    positive = int(ranks[differences > 0].sum())
    return min(1.0, 2.0 * min(float(shares[: positive + 1].sum()), float(shares[positive:].sum())))


def holm(p_values: ArrayLike) -> FloatArray:
    """Return p-values adjusted for the number of tests by Holm's step-down method; NaN stays NaN and counts not.

    Parameters
    ----------
    p_values
        P-values of one family of tests.

    References
    ----------
    Holm, "A Simple Sequentially Rejective Multiple Test Procedure", Scandinavian Journal of Statistics 6(2), 1979.
    """
    p = np.asarray(p_values, dtype=np.float64)
    adjusted = np.full(p.shape, np.nan)
    known = np.flatnonzero(~np.isnan(p))
    order = known[np.argsort(p[known], kind="stable")]
    steps = p[order] * np.arange(len(order), 0, -1)
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(steps))
    return adjusted


def log_sd(values: ArrayLike, reference: ArrayLike) -> float:
    """Return the standard deviation over windows of the paired log ratio; NaN with fewer than two ratios.

    Parameters
    ----------
    values, reference
        One table each, with the same windows.
    """
    logs = log_ratios(values, reference)
    logs = logs[~np.isnan(logs)]
    return float(np.std(logs, ddof=1)) if len(logs) > 1 else math.nan


_NORMAL = NormalDist()


class Bootstrap:
    """Intervals by a hierarchical bootstrap over windows and seeds.

    Each resample draws windows with replacement (within their stratum, if every stratum has two or more) and, apart
    from it, the seeds of each side: windows and seeds are crossed, so this is the "pigeonhole" bootstrap, which errs
    on the wide side. The ends are those of the bias-corrected and accelerated interval (BCa). All that are compared
    see the same resamples of the windows, which keeps comparisons paired.

    Parameters
    ----------
    strata
        The stratum of each window (the number of its workload), shape ``(n_windows,)``.
    seed
        Seed of the resamples.
    n_resamples
        How many.
    confidence
        Share of intervals that shall hold the true value, between 0 and 1.

    Raises
    ------
    ValueError
        If a number is out of range.

    References
    ----------
    Efron, "Better Bootstrap Confidence Intervals", JASA 82, 1987; Owen, "The Pigeonhole Bootstrap", Annals of
    Applied Statistics 1(2), 2007.
    """

    def __init__(
        self, strata: ArrayLike, *, seed: int = 0, n_resamples: int = N_RESAMPLES, confidence: float = CONFIDENCE
    ) -> None:
        if n_resamples < 1 or not 0 < confidence < 1:
            raise ValueError(f"n_resamples is {n_resamples} and confidence {confidence}: expected >= 1 and 0 to 1")
        strata = np.asarray(strata, dtype=np.int64)
        _, members = np.unique(strata, return_inverse=True)
        if len(members) and np.bincount(members).min() < 2:
            members = np.zeros(len(members), dtype=np.int64)
        self._strata = members
        self._seed = seed
        self._n_resamples = n_resamples
        self._confidence = confidence
        self._windows = self._draw_windows()

    def mean(self, values: ArrayLike) -> Interval:
        """Return the mean over windows and seeds.

        Parameters
        ----------
        values
            A table with the windows of the strata.
        """
        table, is_there = self._checked(values)
        if not np.any(is_there):
            return Interval(math.nan, math.nan, math.nan)
        centre = float(table[is_there].mean())
        if np.count_nonzero(is_there) < 2:
            return Interval(centre, math.nan, math.nan)
        estimates = self._estimates(table, is_there, "values")
        factors = [self._window_factor(table.mean(axis=1), is_there), *_seed_factors(table[is_there], 1.0)]
        return Interval(centre, *self._ends(centre, estimates, factors))

    def ratio(self, values: ArrayLike, reference: ArrayLike) -> Interval:
        """Return the geometric mean over windows of the ratio to the reference.

        Parameters
        ----------
        values, reference
            Tables with the windows of the strata.
        """
        ours, theirs = logarithms(values, reference)
        self._checked(ours)
        if usable_logarithms(values, reference) is None:
            return Interval(math.nan, math.nan, math.nan)
        is_there = complete(ours, theirs)
        difference = ours.mean(axis=1) - theirs.mean(axis=1)
        centre = float(difference[is_there].mean())
        if np.count_nonzero(is_there) < 2:
            return Interval(math.exp(centre), math.nan, math.nan)
        estimates = self._estimates(ours, is_there, "values") - self._estimates(theirs, is_there, "reference")
        factors = [
            self._window_factor(difference, is_there),
            *_seed_factors(ours[is_there], 1.0),
            *_seed_factors(theirs[is_there], -1.0),
        ]
        low, high = self._ends(centre, estimates, factors)
        return Interval(math.exp(centre), math.exp(low), math.exp(high))

    def _checked(self, values: ArrayLike) -> tuple[FloatArray, NDArray[np.bool_]]:
        table = as_table(values)
        if len(table) != len(self._strata):
            raise ValueError(f"values of {len(table)} windows, expected {len(self._strata)}")
        return table, complete(table)

    def _draw_windows(self) -> FloatArray:
        """Return how often each resample holds each window, shape ``(n_resamples, n_windows)``."""
        rng = stream(self._seed, "statistics/windows")
        counts = np.zeros((self._n_resamples, len(self._strata)))
        for stratum in np.unique(self._strata):
            where = np.flatnonzero(self._strata == stratum)
            counts[:, where] = rng.multinomial(len(where), np.full(len(where), 1 / len(where)), size=self._n_resamples)
        return counts

    def _estimates(self, table: FloatArray, is_there: NDArray[np.bool_], side: str) -> FloatArray:
        """Return the mean in each resample; NaN in one that drew none of the windows that are there."""
        table = table[is_there]
        n_seeds = table.shape[1]
        rng = stream(self._seed, f"statistics/seeds/{side}")
        # One seed has no variation to draw: its weight is 1 in every resample.
        draws = rng.multinomial(n_seeds, np.full(n_seeds, 1 / n_seeds), size=self._n_resamples) / n_seeds
        result = np.empty(self._n_resamples)
        step = max(1, _CHUNK // max(1, len(table)))
        with np.errstate(invalid="ignore"):
            for first in range(0, self._n_resamples, step):
                some = slice(first, first + step)
                windows = self._windows[some][:, is_there]
                result[some] = ((windows @ table) * draws[some]).sum(axis=1) / windows.sum(axis=1)
        return result

    def _window_factor(self, means: FloatArray, is_there: NDArray[np.bool_]) -> FloatArray:
        """Return how much each window moves the estimate (a jackknife)."""
        means, strata = means[is_there], self._strata[is_there]
        centres = np.bincount(strata, weights=means) / np.maximum(1, np.bincount(strata))
        return (means - centres[strata]) / len(means)

    def _ends(self, centre: float, estimates: FloatArray, factors: list[FloatArray]) -> tuple[float, float]:
        """Return the ends of the BCa interval."""
        estimates = np.sort(estimates[~np.isnan(estimates)])
        moves = np.concatenate(factors)
        spread = float(np.sum(moves**2))
        # What does not vary but for rounding has an interval of no width.
        if spread <= (1e-12 * max(1e-300, abs(centre))) ** 2:
            return centre, centre
        acceleration = float(np.sum(moves**3)) / (6 * spread**1.5)
        below = (np.count_nonzero(estimates < centre) + np.count_nonzero(estimates <= centre)) / 2
        share = min(max(below, 0.5), len(estimates) - 0.5) / len(estimates)
        bias = _NORMAL.inv_cdf(share)
        tail = (1 - self._confidence) / 2
        ends = []
        for z in (_NORMAL.inv_cdf(tail), _NORMAL.inv_cdf(1 - tail)):
            shifted = bias + (bias + z) / (1 - acceleration * (bias + z))
            ends.append(float(np.quantile(estimates, _NORMAL.cdf(shifted))))
        return ends[0], ends[1]


def _seed_factors(table: FloatArray, sign: float) -> list[FloatArray]:
    """Return how much each seed moves the estimate; nothing where there is one."""
    n_seeds = table.shape[1]
    if n_seeds < 2:
        return []
    return [sign * (table.mean(axis=0) - table.mean()) / n_seeds]
