"""Ratios of two tables, window by window."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from hdrl.metrics.tables import FloatArray, logarithms, usable_logarithms


def log_ratios(values: ArrayLike, reference: ArrayLike) -> FloatArray:
    """Return the logarithm of the ratio in each window, the seeds of both sides averaged, shape ``(n_windows,)``.

    Two zeros have the ratio 1. NaN where one side alone is zero, where a value is negative, and where one is missing.

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
