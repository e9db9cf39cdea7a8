"""Weights of the index of GPU clusters: what each weighs, and those by hand.

The features are worked out in `hdrl.settings.gpu.kernel.index`; here they have their names.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hdrl.base.weights import bounded_weights, sparse_weights
from hdrl.settings.gpu.kernel import index

Floats = NDArray[np.float64]

NAMES: Mapping[str, str] = MappingProxyType(
    {
        "gittins": "minus the logarithm of Gittins' index of the time that is left, less 6",
        "mean": "logarithm of the mean time that is left, less 8",
        "mean_log": "mean logarithm of the time that is left, less 6",
        "gpus": "logarithm of its GPUs",
        "served": "logarithm of the minutes that it has run, plus 1, less 3",
        "gpu_served": "the same of GPU minutes",
        "overdue": "logarithm of its age as a share of the time that was predicted at first, plus 1",
        "age": "logarithm of its age in minutes, plus 1, less 4",
        "runs": "1 if it runs",
        "stay": "if it runs, logarithm of the minutes that it has for this time, plus 1, less 3",
        "last_two": "mean logarithm of the last two times in its smallest group, less 6",
        "user_gpus": "logarithm of the GPUs that its user has, plus 1",
        "seen": "n / (n + 3) of the n jobs that its smallest group remembers",
        "fits": "1 if it waits and enough GPUs of a type are idle",
        "preempted": "logarithm of the number of preemptions plus 1",
        "wait": "logarithm of its wait in units of 10 minutes, plus 1",
        "wide_and_queue": "logarithm of its GPUs times that of all that is waited for, as a share of all GPUs, plus 1",
        "slower": "of a type: how much longer the job takes there than on its fastest, as a share",
        "slower_and_long": "of a type: the same times the mean logarithm of the time that is left, less 6",
        "type_idle": "of a type: the idle share of its GPUs",
    }
)
"""The weights by name, in their order, and what each weighs; the last three order types, the others jobs."""

SIGMA = 0.25
"""Standard deviation of the first candidates of an evolution."""

LARGEST_WEIGHT = 50.0
"""Weights beyond it say nothing more."""

_BY_HAND = {index.GITTINS: 1.0, index.GPUS: 1.0, index.RUNS: -0.5, index.SLOWER: 1.0}


def start_weights() -> Floats:
    """Return the weights by hand: Gittins' index times GPUs, a lead for running jobs, fast types first."""
    return sparse_weights(len(NAMES), _BY_HAND)


def weights_of(offsets: ArrayLike) -> Floats:
    """Return the weights that differ by offsets from those by hand, of one candidate or several."""
    return checked_weights(start_weights() + np.asarray(offsets, dtype=np.float64))


def checked_weights(weights: ArrayLike) -> Floats:
    """Return weights clipped to `LARGEST_WEIGHT`; raise OptionsError for another shape, or numbers not finite."""
    return bounded_weights(weights, len(NAMES), LARGEST_WEIGHT)
