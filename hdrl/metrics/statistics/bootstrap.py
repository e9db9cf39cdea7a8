"""Intervals by a bootstrap over windows and seeds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hdrl.base.seeding import stream
from hdrl.metrics.statistics.student import student_quantile
from hdrl.metrics.tables import FloatArray, as_table, complete, logarithms, usable_logarithms

N_RESAMPLES = 5_000
"""Bootstrap resamples by default: the ends of an interval then move by a few hundredths of its width."""

CONFIDENCE = 0.95
"""Share of intervals that would hold the true value."""

_NORMAL = NormalDist()

_TIE = 1e-9
"""Share of the standard error up to which two estimates are equal: sums of the same numbers in another order."""


_FEW = 5
"""Number of values with few different resamples."""


class Interval(NamedTuple):
    """A number with the ends of its interval, NaN where it has none (fewer than two windows)."""

    value: float
    low: float
    high: float


_NOTHING = Interval(math.nan, math.nan, math.nan)


class Bootstrap:
    """Intervals by a hierarchical bootstrap over windows and seeds.

    Each resample draws windows with replacement (within their stratum, if every stratum has two or more) and, apart
    from it, the seeds of each side: windows and seeds are crossed, so this is the "pigeonhole" bootstrap, which errs
    on the wide side. The ends are those of the bias-corrected and accelerated interval (BCa), which is too narrow for
    few windows or few trainings: their distances from the centre are therefore stretched as Student's distribution is
    wider than the normal one, with the degrees of freedom of Satterthwaite. All that are compared see the same
    resamples of the windows, which keeps comparisons paired.

    Parameters
    ----------
    strata
        The stratum of each window (the number of its workload), shape ``(n_windows,)``.
    confidence
        Share of intervals that shall hold the true value, between 0 and 1.

    Raises
    ------
    ValueError
        If a number is out of range.

    References
    ----------
    Efron, "Better Bootstrap Confidence Intervals", JASA 82, 1987; Owen, "The Pigeonhole Bootstrap", Annals of
    Applied Statistics 1(2), 2007; Hesterberg, "What Teachers Should Know About the Bootstrap", The American
    Statistician 69(4), 2015 (why to stretch); Satterthwaite, "An Approximate Distribution of Estimates of Variance
    Components", Biometrics Bulletin 2(6), 1946.
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
        self._tail = (1 - confidence) / 2
        self._windows = self._draw_windows()

    def mean(self, values: ArrayLike, *, trainings: ArrayLike | None = None) -> Interval:
        """Return the mean over windows and seeds.

        ``trainings`` are those whose average model gave ``values``: the interval then shows what others would change,
        too.
        """
        table, is_there = self._checked(values)
        if not np.any(is_there):
            return _NOTHING
        centre = float(table[is_there].mean())
        if np.count_nonzero(is_there) < 2:
            return Interval(centre, math.nan, math.nan)
        estimates = self._estimates(table, is_there, "values")
        moves = [*self._window_moves(table.mean(axis=1), is_there), *_seed_moves(table[is_there])]
        if trainings is not None:
            estimates += self._of_trainings(as_table(trainings), is_there)
            moves += _seed_moves(as_table(trainings)[is_there])
        stretch = Stretch.of(moves, [table[is_there]])
        low, high = self._ends(centre, estimates, moves, stretch, (self._tail, 1 - self._tail))
        # The mean of what is never negative is not, either.
        return Interval(centre, low if table[is_there].min() < 0 else max(0.0, low), high)

    def ratio(self, values: ArrayLike, reference: ArrayLike, *, trainings: ArrayLike | None = None) -> Interval:
        """Return the geometric mean over windows of the ratio to the reference."""
        value, ends = self._ratio(values, reference, trainings, (self._tail, 1 - self._tail))
        return Interval(value, *ends)

    def ratio_bound(
        self, values: ArrayLike, reference: ArrayLike, *, is_upper: bool, trainings: ArrayLike | None = None
    ) -> float:
        """Return the one-sided bound of `ratio`, with the same confidence; NaN where there is no interval."""
        share = 1 - 2 * self._tail if is_upper else 2 * self._tail
        return self._ratio(values, reference, trainings, (share,))[1][0]

    def _ratio(
        self, values: ArrayLike, reference: ArrayLike, trainings: ArrayLike | None, shares: Sequence[float]
    ) -> tuple[float, list[float]]:
        """Return the ratio, and the positions below which shares of its distribution lie."""
        candidate_values, reference_values = logarithms(values, reference)
        self._checked(candidate_values)
        if usable_logarithms(values, reference) is None:
            return math.nan, [math.nan] * len(shares)
        is_there = complete(candidate_values, reference_values)
        difference = candidate_values.mean(axis=1) - reference_values.mean(axis=1)
        centre = float(difference[is_there].mean())
        if np.count_nonzero(is_there) < 2:
            return math.exp(centre), [math.nan] * len(shares)
        estimates = self._estimates(candidate_values, is_there, "values") - self._estimates(
            reference_values, is_there, "reference"
        )
        moves = [
            *self._window_moves(difference, is_there),
            *_seed_moves(candidate_values[is_there]),
            *_seed_moves(-reference_values[is_there]),
        ]
        logs = None if trainings is None else logarithms(trainings, reference)[0]
        if logs is not None and not np.isnan(logs[is_there]).any():
            estimates += self._of_trainings(logs, is_there)
            moves += _seed_moves(logs[is_there])
        stretch = Stretch.of(moves, [candidate_values[is_there], reference_values[is_there]])
        return math.exp(centre), [math.exp(end) for end in self._ends(centre, estimates, moves, stretch, shares)]

    def _checked(self, values: ArrayLike) -> tuple[FloatArray, NDArray[np.bool_]]:
        table = as_table(values)
        if len(table) != len(self._strata):
            raise ValueError(f"values of {len(table)} windows, expected {len(self._strata)}")
        return table, complete(table)

    def _draw_windows(self) -> FloatArray:
        """Return the count of each window in each resample, shape ``(n_windows, n_resamples)``."""
        rng = stream(self._seed, "statistics/windows")
        counts = np.zeros((len(self._strata), self._n_resamples))
        for stratum in np.unique(self._strata):
            where = np.flatnonzero(self._strata == stratum)
            counts[where] = rng.multinomial(len(where), np.full(len(where), 1 / len(where)), size=self._n_resamples).T
        return counts

    def _draw_seeds(self, n_seeds: int, side: str) -> FloatArray:
        """Return the weight of each seed in each resample, shape ``(n_seeds, n_resamples)``."""
        rng = stream(self._seed, f"statistics/seeds/{side}")
        # One seed has no variation to draw: its weight is 1 in every resample.
        draws = rng.multinomial(n_seeds, np.full(n_seeds, 1 / n_seeds), size=self._n_resamples)
        weights: FloatArray = draws.T / n_seeds
        return weights

    def _estimates(self, table: FloatArray, is_there: NDArray[np.bool_], side: str) -> FloatArray:
        """Return the mean in each resample; NaN in one that drew none of the windows that are there."""
        return self._weighted(table, is_there, self._draw_seeds(table.shape[1], side))

    def _of_trainings(self, table: FloatArray, is_there: NDArray[np.bool_]) -> FloatArray:
        """Return the difference of the mean of resampled trainings from the mean of all, in each resample."""
        weights = self._draw_seeds(table.shape[1], "values")
        return self._weighted(table, is_there, weights - 1 / table.shape[1])

    def _weighted(self, table: FloatArray, is_there: NDArray[np.bool_], weights: FloatArray) -> FloatArray:
        """Return the mean over windows of the weighted sum over seeds; products and sums have a fixed order."""
        windows = np.flatnonzero(is_there)
        total = np.zeros(self._n_resamples)
        for seed, weight in enumerate(weights):
            of_seed = np.zeros(self._n_resamples)
            for window in windows:
                of_seed += self._windows[window] * table[window, seed]
            total += of_seed * weight
        drawn = np.zeros(self._n_resamples)
        for window in windows:
            drawn += self._windows[window]
        with np.errstate(invalid="ignore"):
            result: FloatArray = total / drawn
        return result

    def _window_moves(self, means: FloatArray, is_there: NDArray[np.bool_]) -> list[FloatArray]:
        """Return the influence of each window on the estimate (a jackknife), stratum by stratum."""
        n_there = np.count_nonzero(is_there)
        parts = [means[is_there & (self._strata == stratum)] for stratum in np.unique(self._strata)]
        return [(part - part.mean()) / n_there for part in parts if len(part)]

    def _ends(
        self,
        centre: float,
        estimates: FloatArray,
        moves: Sequence[FloatArray],
        stretch: Stretch,
        shares: Sequence[float],
    ) -> list[float]:
        """Return the stretched ends of the BCa interval at shares of its distribution."""
        estimates = np.sort(estimates[~np.isnan(estimates)])
        each = np.concatenate(moves)
        spread = float(np.sum(each**2))
        # What does not vary but for rounding has an interval of no width.
        if spread <= (1e-12 * max(1e-300, abs(centre))) ** 2:
            return [centre] * len(shares)
        acceleration = float(np.sum(each**3)) / (6 * spread**1.5)
        tie = _TIE * math.sqrt(spread)
        below = (np.count_nonzero(estimates < centre - tie) + np.count_nonzero(estimates <= centre + tie)) / 2
        share_below = min(max(below, 0.5), len(estimates) - 0.5) / len(estimates)
        bias = _NORMAL.inv_cdf(share_below)
        ends = []
        for share in shares:
            z = _NORMAL.inv_cdf(share)
            shifted = bias + (bias + z) / (1 - acceleration * (bias + z))
            apart = float(np.quantile(estimates, _NORMAL.cdf(shifted))) - centre
            if abs(apart) < abs(z) * stretch.least:
                apart = z * stretch.least
            ends.append(centre + apart * stretch.factor(share))
        return ends


class Stretch(NamedTuple):
    """Factor by which an interval must be wider since its variance is itself estimated from few values."""

    growth: float
    """The estimated variance over the one that resamples have."""

    freedom: float
    """Degrees of freedom of the estimate."""

    least: float = 0.0
    """Standard error below which no end is taken, where resamples of a few trainings are too few to reach it."""

    @classmethod
    def of(cls, moves: Sequence[FloatArray], tables: Sequence[FloatArray] = ()) -> Stretch:
        """Return it for factors of which each has as many values as it has moves.

        Resampling windows and seeds apart counts what is of a window *and* a seed, in the tables, three times.
        """
        biased = unbiased = squares = largest = of_few = 0.0
        for part in moves:
            if len(part) < 2:
                continue
            variance = float(np.sum(part**2))
            corrected = variance * len(part) / (len(part) - 1)
            biased += variance
            unbiased += corrected
            squares += corrected**2 / (len(part) - 1)
            largest = max(largest, corrected)
            of_few += variance if len(part) < _FEW else 0.0
        if not biased:
            return cls(1.0, math.inf)
        freedom = unbiased**2 / squares
        for table in tables:
            n, k = table.shape
            if n > 1 and k > 1:
                rest = table - table.mean(axis=1, keepdims=True) - table.mean(axis=0) + table.mean()
                square = float(np.sum(rest**2))
                biased += square / (n * k) ** 2
                unbiased -= square / ((n - 1) * (k - 1) * n * k)
        least = math.sqrt(biased) if of_few > biased / 4 else 0.0
        return cls(max(unbiased, largest) / biased, freedom, least)

    def factor(self, share: float) -> float:
        """Return the factor for the position below which a share of the distribution lies."""
        z = _NORMAL.inv_cdf(share)
        return math.sqrt(self.growth) * (student_quantile(share, self.freedom) / z if z else 1.0)


def _seed_moves(table: FloatArray) -> list[FloatArray]:
    """Return the influence of each seed on the estimate; nothing where there is one."""
    n_seeds = table.shape[1]
    if n_seeds < 2:
        return []
    return [(table.mean(axis=0) - table.mean()) / n_seeds]
