"""The tables that statistics are made of, in pairs: values of two policies on the same windows.

The values of one policy are an array of shape ``(n_windows, n_seeds)``: the same seeds (of a policy that draws, or
of the trainings that made a model) were run on the same windows. Shape ``(n_windows,)`` means one seed.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hdrl.base import elementary

FloatArray = NDArray[np.float64]

EQUAL = 1e-6
"""Relative difference up to which two values of a window count as equal: simulators round dates."""


def as_table(values: ArrayLike) -> FloatArray:
    """Return values as an array of shape ``(n_windows, n_seeds)``."""
    table = np.asarray(values, dtype=np.float64)
    if table.ndim == 1:
        return table[:, np.newaxis]
    if table.ndim != 2:
        raise ValueError(f"values have {table.ndim} axes, expected windows and seeds")
    return table


def _same_windows(values: ArrayLike, reference: ArrayLike) -> tuple[FloatArray, FloatArray]:
    """Return copies in which windows whose values differ by rounding alone hold the same value throughout."""
    candidate_values, reference_values = as_table(values).copy(), as_table(reference).copy()
    if len(candidate_values) != len(reference_values):
        raise ValueError(f"{len(candidate_values)} windows against {len(reference_values)}: pairs need the same ones")
    if candidate_values.size and reference_values.size:
        both = np.concatenate([candidate_values, reference_values], axis=1)
        least, most = both.min(axis=1), both.max(axis=1)
        same = most - least <= EQUAL * np.abs(most)
        candidate_values[same], reference_values[same] = most[same, np.newaxis], most[same, np.newaxis]
    return candidate_values, reference_values


def complete(*tables: FloatArray) -> NDArray[np.bool_]:
    """Return for each window whether no value is missing."""
    return np.asarray(~np.any([np.isnan(table).any(axis=1) for table in tables], axis=0), dtype=np.bool_)


def paired(values: ArrayLike, reference: ArrayLike) -> tuple[FloatArray, FloatArray]:
    """Return both tables without the windows in which a value is missing."""
    candidate_values, reference_values = _same_windows(values, reference)
    is_there = complete(candidate_values, reference_values)
    return candidate_values[is_there], reference_values[is_there]


def logarithms(values: ArrayLike, reference: ArrayLike) -> tuple[FloatArray, FloatArray]:
    """Return the logarithms of both tables; 0 on both sides where a window is zero throughout."""
    candidate_values, reference_values = _same_windows(values, reference)
    both_zero = np.all(candidate_values == 0, axis=1) & np.all(reference_values == 0, axis=1)
    candidate_values[both_zero], reference_values[both_zero] = 1.0, 1.0
    logs = [np.where(table > 0, elementary.log(table), np.nan) for table in (candidate_values, reference_values)]
    return logs[0], logs[1]


def usable_logarithms(values: ArrayLike, reference: ArrayLike) -> tuple[FloatArray, FloatArray] | None:
    """Return the logarithms of the complete windows; ``None`` if there are none, or one of them has no logarithm."""
    candidate_values, reference_values = paired(values, reference)
    if len(candidate_values) == 0:
        return None
    logs = logarithms(candidate_values, reference_values)
    return None if np.isnan(logs[0]).any() or np.isnan(logs[1]).any() else logs
