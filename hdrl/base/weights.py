"""Weights of an index: those by hand, and the bounds within which a simulator takes any."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hdrl.base.errors import OptionsError

Floats = NDArray[np.float64]


def sparse_weights(n_weights: int, by_place: Mapping[int, float]) -> Floats:
    """Return weights that are 0 except at some positions."""
    weights = np.zeros(n_weights)
    for position, value in by_place.items():
        weights[position] = value
    return weights


def bounded_weights(weights: ArrayLike, n_weights: int, largest: float) -> Floats:
    """Return weights, shape ``(n_weights,)`` or ``(n_candidates, n_weights)``, cut to ``-largest`` to ``largest``."""
    found = np.asarray(weights, dtype=np.float64)
    if found.ndim not in (1, 2) or found.shape[-1] != n_weights or not np.isfinite(found).all():
        raise OptionsError(f"weights have shape {found.shape}, expected {n_weights} finite numbers for each index")
    return np.clip(found, -largest, largest)
