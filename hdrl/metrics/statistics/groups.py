"""Logs as a random effect: what an interval says of a log that was not there."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hdrl.metrics.statistics.bootstrap import CONFIDENCE
from hdrl.metrics.statistics.ratios import log_ratios
from hdrl.metrics.statistics.student import student_quantile
from hdrl.metrics.tables import FloatArray


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
