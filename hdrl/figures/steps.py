"""Functions of time that are constant between some dates, and distributions: arrays, without anything that draws."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]

DATE_DECIMALS = 6
"""Dates are rounded to what the files hold: what starts 1e-10 s after its submission has not waited."""


@dataclass(frozen=True, slots=True)
class Bins:
    """A step function seen through bins of equal width."""

    edges: FloatArray  # their borders, shape ``(n_bins + 1,)``, ascending
    # mean by time, smallest and largest value in each bin, shape ``(n_bins,)``
    mean: FloatArray
    low: FloatArray
    high: FloatArray


@dataclass(frozen=True, slots=True)
class StepFunction:
    """A function of time that is constant between some dates."""

    edges_s: FloatArray  # the dates, ascending, shape ``(n + 1,)``; one or none for a function that is defined nowhere
    values: FloatArray  # the value from each date to the next, shape ``(n,)``

    @property
    def mean(self) -> float:
        """Mean by time; NaN if it is defined nowhere."""
        if not len(self.values):
            return float("nan")
        span_s = float(self.edges_s[-1] - self.edges_s[0])
        return float(np.sum(self.values * np.diff(self.edges_s))) / span_s

    def binned(self, n_bins: int, span_s: tuple[float, float] | None = None) -> Bins:
        """Return its values for a picture of some width; peaks and means are kept exactly.

        Outside of its dates the function is 0. ``span_s`` is all of it by default.
        """
        low_s, high_s = span_s if span_s is not None else (float(self.edges_s[0]), float(self.edges_s[-1]))
        edges = np.linspace(low_s, high_s, n_bins + 1)
        if not len(self.values) or not high_s > low_s:
            nothing = np.zeros(n_bins)
            return Bins(edges, nothing, nothing, nothing)
        total = np.concatenate(([0.0], np.cumsum(self.values * np.diff(self.edges_s))))
        mean = np.diff(np.interp(edges, self.edges_s, total)) / np.diff(edges)
        dates = np.concatenate(([-np.inf], self.edges_s))
        values = np.concatenate(([0.0], self.values, [0.0]))
        first = np.searchsorted(dates, edges[:-1], side="right") - 1  # the step that each bin begins in
        last = np.maximum(np.searchsorted(dates, edges[1:], side="left"), first + 1)  # first step beyond its end
        # Pairs of (first, last): reduceat works on every second slice.
        slices = np.column_stack((first, last)).ravel()
        padded = np.append(values, 0.0)
        return Bins(edges, mean, np.minimum.reduceat(padded, slices)[::2], np.maximum.reduceat(padded, slices)[::2])


def steps_of_changes(dates_s: FloatArray, changes: FloatArray, until_s: float | None = None) -> StepFunction:
    """Return the step function that begins at 0 and changes at some dates.

    Dates come in any order; changes at one date are added up. The last date is the end, unless ``until_s`` is later.
    """
    if not len(dates_s):
        return StepFunction(np.zeros(0), np.zeros(0))
    dates, position = np.unique(np.round(dates_s, DATE_DECIMALS), return_inverse=True)
    values = np.cumsum(np.bincount(position, weights=changes, minlength=len(dates)))
    if until_s is not None and until_s > dates[-1]:
        dates, values = np.append(dates, until_s), np.append(values, 0.0)
    return StepFunction(dates, np.round(values[:-1], 9))


def cumulative_distribution(values: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the distinct values, ascending, and the share of all that is not above each."""
    distinct, counts = np.unique(values[np.isfinite(values)], return_counts=True)
    return distinct, np.cumsum(counts) / max(1, counts.sum())
