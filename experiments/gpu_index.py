"""Evolved indices of GPU jobs on later parts of the trace on whose first part they were evolved.

Windows, offered loads, and what is compared are those of ``gpu-history``. The best classic policy that neither knows
nor predicts how long jobs take is chosen on the first part.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hdrl.base import elementary
from hdrl.base.seeding import stream
from hdrl.experiments import PROTOCOLS
from hdrl.experiments.findings import Finding, Place, Playable, evolved_weights
from hdrl.experiments.gpu_history import (
    BASELINE,
    LAST,
    LOOKED_AT,
    METRICS,
    REFERENCE,
    TRACE,
    log_metrics,
    windows_of,
)
from hdrl.settings.gpu.cluster.machine import read_cluster
from hdrl.settings.gpu.loads.load import without_unrunnable
from hdrl.settings.gpu.loads.readers import read_trace
from hdrl.settings.gpu.policies.names import BY_HAND
from hdrl.settings.gpu.policies.weights import start_weights, weights_of

Floats = NDArray[np.float64]

LEARNED = (0.0, 0.6)
"""The share of the trace that is learned from."""

BLIND = ("fifo+skip", "smallest+skip", "las", "las-2d", "gittins", "drf")
"""Classic policies that neither know nor predict how long jobs take."""

N_RESAMPLES = 10_000


@PROTOCOLS.register("gpu-index")
def gpu_index(traces: Mapping[str, Path], models: Sequence[Playable]) -> dict[Place, Finding]:
    """Return the comparison of evolved indices on the looked-at and on the last part.

    They are held against the best classic policy that knows no durations, SRSF by the same predictions, and the same
    structure untrained.

    Parameters
    ----------
    traces
        Philly's trace as Sia's artifact has it.
    models
        Models of GpuIndex, one for each seed; their mean is judged, and each of them for the spread.
    """
    cluster = read_cluster("sia")
    load = without_unrunnable(read_trace(traces[TRACE]), cluster)
    candidates = np.array([start_weights(), *(weights_of(one) for one in evolved_weights(models))])
    learned = windows_of(load, cluster, LEARNED, 24)
    classic = min(BLIND, key=lambda name: float(log_metrics(cluster, learned, name)[0].mean()))
    found: dict[Place, Finding] = {}
    for part, shares, n_windows in (("looked-at part", LOOKED_AT, 24), ("last part", LAST, 12)):
        windows = windows_of(load, cluster, shares, n_windows)
        references = {
            name: log_metrics(cluster, windows, name)[:, 0] for name in dict.fromkeys((BASELINE, classic, REFERENCE))
        }
        indices = log_metrics(cluster, windows, BY_HAND, candidates)
        references[BY_HAND] = indices[:, 0]
        for name, reference_values in references.items():
            for position, metric in enumerate(METRICS):
                column = f"{metric}, to {name}"
                found[part, column] = _ratio_of(indices[position, 1:], reference_values[position], f"{part}, {column}")
    return found


def _ratio_of(candidate_values: Floats, reference_values: Floats, what: str) -> Finding:
    """Return the geometric mean of ratios, with an interval (95 %) over windows and trainings drawn again.

    Parameters
    ----------
    candidate_values
        Logarithms, shape ``(n, n_windows, n_offered)``; the first counts, the others are the trainings behind it. What
        other trainings would change is the difference between trainings that are drawn again and all of them.
    reference_values
        The same of the rival, shape ``(n_windows, n_offered)``.
    what
        Its name.
    """
    first, *each = (candidate_values - reference_values).mean(axis=2)
    random, of_trainings = (stream(0, f"{draws} of {what}") for draws in ("bootstrap", "trainings"))
    positions = random.integers(0, len(first), (N_RESAMPLES, len(first)))
    drawn = np.column_stack([one[positions].mean(axis=1) for one in each])
    chosen = of_trainings.integers(0, len(each), drawn.shape)
    other = np.take_along_axis(drawn, chosen, axis=1).mean(axis=1) - drawn.mean(axis=1)
    low, high = elementary.exp(np.percentile(first[positions].mean(axis=1) + other, (2.5, 97.5))).tolist()
    value, *trainings = elementary.exp(np.array([first, *each]).mean(axis=1)).tolist()
    return Finding(value, low, high, trainings=tuple(trainings), null=1.0)
