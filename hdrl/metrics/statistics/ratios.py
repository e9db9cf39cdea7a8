"""Ratios of two tables, window by window, and of logs as a random effect: what to expect on a log not yet seen."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hdrl.metrics.statistics.bootstrap import CONFIDENCE
from hdrl.metrics.statistics.student import student_quantile
from hdrl.metrics.tables import FloatArray, logarithms, usable_logarithms


def log_ratios(values: ArrayLike, reference: ArrayLike) -> FloatArray:
    """Return the logarithm of the ratio in each window, the seeds of both sides averaged, shape ``(n_windows,)``.

    Two zeros have the ratio 1. NaN where one side alone is zero, where a value is negative, and where one is missing.

    Raises
    ------
    ValueError
        If they have different windows.
    """
    candidate_values, reference_values = logarithms(values, reference)
    difference: FloatArray = candidate_values.mean(axis=1) - reference_values.mean(axis=1)
    return difference


def geometric_mean_ratio(values: ArrayLike, reference: ArrayLike) -> float:
    """Return the geometric mean over windows of the ratio to the reference; NaN if no window has a ratio.

    It is NaN as well if a window has values but no ratio (one side is zero or negative): leaving those windows out
    would flatter one side.
    """
    logs = usable_logarithms(values, reference)
    if logs is None:
        return math.nan
    return math.exp(float(np.mean(logs[0].mean(axis=1) - logs[1].mean(axis=1))))


def log_sd(values: ArrayLike, reference: ArrayLike) -> float:
    """Return the standard deviation over windows of the paired log ratio; NaN with fewer than two ratios."""
    logs = log_ratios(values, reference)
    logs = logs[~np.isnan(logs)]
    return float(np.std(logs, ddof=1)) if len(logs) > 1 else math.nan


class GroupInterval(NamedTuple):
    """The geometric-mean ratio over groups of windows, with an interval that counts groups; NaN with fewer than two."""

    value: float
    low: float
    high: float
    n_groups: int


def across_groups(
    values: ArrayLike, reference: ArrayLike, groups: ArrayLike, *, confidence: float = CONFIDENCE
) -> GroupInterval:
    """Return the mean ratio over groups, each of which counts once, as if they were drawn from many groups.

    The interval is Student's on the groups' mean logarithms: a bootstrap of three or five groups is far too narrow.

    ``groups`` has the group (the log) of each window, shape ``(n_windows,)``.
    """
    means = _means(log_ratios(values, reference), np.asarray(groups))
    n = len(means)
    if n == 0 or np.isnan(means).any():
        return GroupInterval(math.nan, math.nan, math.nan, n)
    centre = float(means.mean())
    if n < 2:
        return GroupInterval(math.exp(centre), math.nan, math.nan, n)
    error = math.sqrt(float(np.sum((means - centre) ** 2)) / (n - 1) / n)
    half = student_quantile(1 - (1 - confidence) / 2, n - 1) * error
    return GroupInterval(math.exp(centre), math.exp(centre - half), math.exp(centre + half), n)


def without_each_group(values: ArrayLike, reference: ArrayLike, groups: ArrayLike) -> dict[int, float]:
    """Return the geometric-mean ratio over the windows of all groups but one, by the group that is left out."""
    logs, of = log_ratios(values, reference), np.asarray(groups)
    found = {}
    for group in np.unique(of).tolist():
        rest = logs[of != group]
        if len(rest):
            found[group] = math.exp(float(rest.mean()))
    return found


def _means(logs: FloatArray, groups: NDArray[np.int64]) -> FloatArray:
    return np.array([logs[groups == group].mean() for group in np.unique(groups)])
