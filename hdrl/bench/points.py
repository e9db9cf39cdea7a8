"""The numbers of a task: what each candidate has in each window."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hdrl.base.csvfiles import read_records
from hdrl.base.errors import ReadError
from hdrl.base.textnumbers import float_of
from hdrl.experiment.compare.files import RESULTS_FILE

Values = dict[str, dict[str, NDArray[np.float64]]]
"""Means over seeds of each window: by candidate, then by metric."""


def read_points(folder: Path, metrics: Sequence[str]) -> Values:
    """Return the numbers of a finished comparison, windows in the order of its table.

    Raises
    ------
    ReadError
        If its table is damaged.
    """
    path = folder / RESULTS_FILE
    found: dict[str, dict[str, dict[tuple[str, str], list[float]]]] = {}
    try:
        for row in read_records(path):
            of = found.setdefault(row["candidate"], {name: {} for name in metrics})
            for name in metrics:
                value = math.nan if row["problem"] or not row[name] else float_of(row[name])
                of[name].setdefault((row["workload"], row["window"]), []).append(value)
    except (KeyError, ValueError, TypeError):
        raise ReadError(path, "is not a table of results of a comparison") from None
    return {
        candidate: {name: np.array([float(np.mean(values)) for values in one.values()]) for name, one in of.items()}
        for candidate, of in found.items()
    }


def best_of(values: Mapping[str, NDArray[np.float64]], *, less: bool) -> tuple[str, NDArray[np.float64]]:
    """Return the name with the best mean rank over windows, and its numbers.

    Parameters
    ----------
    less
        True if less is better.
    """
    from hdrl.metrics.statistics import mean_ranks

    names = [name for name, one in values.items() if not np.isnan(one).any()]
    ranks = mean_ranks(np.stack([values[name] for name in names], axis=1), lower_is_better=less)
    best = names[int(np.argmin(ranks))]
    return best, values[best]
