"""Wilcoxon's test over windows, and Holm's adjustment for several tests."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hdrl.base import elementary
from hdrl.base.errors import MissingExtra
from hdrl.metrics.tables import FloatArray, paired


def wilcoxon_p(values: ArrayLike, reference: ArrayLike) -> float:
    """Return the two-sided p-value of the paired Wilcoxon signed-rank test over windows.

    The pairs are the means over the seeds of each window: as logarithms if all values are positive (so that it asks
    about the same effect as the geometric-mean ratio), else as they are. Windows with no difference are left out, as
    Wilcoxon did; without any difference p is 1, without any pair NaN. All ways to choose the signs are counted for up
    to 50 windows, 13 if differences are equal; SciPy approximates p of more by the normal distribution.

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
    """Return the side that the signed ranks of `wilcoxon_p` favour: -1 if values are lower, 1 if higher, else 0.

    A mean may say the opposite, where a few windows differ much and many a little.
    """
    differences = _differences(values, reference)
    if differences is None or len(differences) == 0:
        return 0
    ranks, _ = _ranks(differences)
    return int(np.sign(np.sum(np.sign(differences) * ranks)))


def _ranks(differences: FloatArray) -> tuple[NDArray[np.int64], int]:
    """Return twice the rank of the size of each difference (halves where some are equal), and how many are equal."""
    _, position, n_equal = np.unique(np.abs(differences), return_inverse=True, return_counts=True)
    return (2 * np.cumsum(n_equal) - n_equal + 1)[position], int(n_equal.max())


def _differences(values: ArrayLike, reference: ArrayLike) -> FloatArray | None:
    """Return the differences that Wilcoxon's test ranks, those of zero left out; ``None`` without any pair."""
    candidate_values, reference_values = paired(values, reference)
    if len(candidate_values) == 0:
        return None
    if np.all(candidate_values > 0) and np.all(reference_values > 0):
        candidate_values, reference_values = elementary.log(candidate_values), elementary.log(reference_values)
    differences = candidate_values.mean(axis=1) - reference_values.mean(axis=1)
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
