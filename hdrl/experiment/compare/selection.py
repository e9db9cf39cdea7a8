"""Choosing the opponent: the best of many heuristics, by jobs that do not judge it afterwards."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hdrl.base import elementary
from hdrl.base.errors import OptionsError
from hdrl.base.textnumbers import float_of
from hdrl.metrics.catalogue import MetricInfo
from hdrl.options.sweep import Sweep

BEST = "best"


@dataclass(frozen=True, slots=True)
class Selection:
    """Choice of the baseline."""

    chosen: str  # its name
    metric: str  # by which metric
    # mean of the metric over the training windows and seeds by candidate; NaN for one that failed
    means: Mapping[str, float]
    # windows and jobs of the training part
    n_windows: int
    n_jobs: int
    is_geometric: bool = True  # True if the means are geometric; they are arithmetic where a value is not positive

    def rows(self) -> list[dict[str, Any]]:
        """Return a row per candidate, for a file."""
        kind = "geometric" if self.is_geometric else "arithmetic"
        return [
            {"candidate": name, f"{kind}_mean_of_{self.metric}": mean, "is_chosen": name == self.chosen}
            for name, mean in self.means.items()
        ]

    def words(self) -> str:
        """Describe the choice in words."""
        by = self.metric if self.is_geometric else f"the arithmetic mean of {self.metric}"
        return f"best of {len(self.means)} by {by} over {self.n_windows} training windows ({self.n_jobs:,} jobs)"


def training_shares(sweep: Sweep, metrics: Mapping[str, MetricInfo]) -> tuple[float, float] | None:
    """Return the part of the workloads by which the baseline is chosen; ``None`` if it is named.

    ``best`` means all before ``range``; ``best:0.1:0.6`` names the part.
    """
    word, *ends = (sweep.baseline or "").split(":")
    if word != BEST:
        return None
    name = (sweep.metrics or [""])[0]
    if name in metrics and metrics[name].lower_is_better is None:
        known = ", ".join([one for one, info in metrics.items() if info.lower_is_better is not None][:4])
        raise OptionsError(
            f"{sweep.where}: baseline {sweep.baseline!r} needs a metric with a better side, and {name} has "
            f"none; name the baseline, or put another metric first, for instance one of {known}"
        )
    if not ends:
        # Generated sequences have no range: the training ones are of other seeds.
        if sweep.range[0] == 0 and sweep.workloads:
            raise OptionsError(
                f"{sweep.where}: baseline 'best' is chosen by the jobs before range, and range starts with the first "
                "job; take --range 0.7:1, or name the part: best:0:0.7"
            )
        return 0.0, sweep.range[0]
    try:
        begin, end = (float_of(text) for text in ends)
    except ValueError:
        begin, end = 1.0, 0.0
    if not 0 <= begin < end <= 1:
        raise OptionsError(f"{sweep.where}: baseline is {sweep.baseline!r}, expected best or best:FROM:TO, 0 to 1")
    return begin, end


def choose_baseline(
    values: Mapping[str, Sequence[float]], metric: str, info: MetricInfo, *, n_windows: int, n_jobs: int
) -> Selection:
    """Choose the candidate with the best geometric mean; the first of equal ones.

    ``values`` has the metric in each training window with each seed; at least one candidate needs a value everywhere.
    """
    is_positive = all(value > 0 for row in values.values() for value in row if not math.isnan(value))
    means = {}
    for name, row in values.items():
        table = np.asarray(row, dtype=np.float64)
        means[name] = math.exp(float(np.mean(elementary.log(table)))) if is_positive else float(np.mean(table))
    usable = {name: info.sign * mean for name, mean in means.items() if not math.isnan(mean)}
    if not usable:
        raise OptionsError(f"baseline 'best': none of {len(means)} candidates has a {metric} on the training part")
    chosen = min(usable, key=lambda name: usable[name])
    return Selection(chosen, metric, means, n_windows, n_jobs, is_geometric=is_positive)
