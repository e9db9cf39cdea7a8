"""Metrics of adaptation: accuracy, how far from the best sequence, and what finding it cost."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from hdrl.metrics.catalogue import MetricInfo, less, more, neutral
from hdrl.metrics.tasks import COUNTS, MACHINE, OWN, count_states
from hdrl.trace.model import OutcomeTrace

_OF = "mean over jobs of "


METRICS: Mapping[str, MetricInfo] = MappingProxyType(
    {
        **COUNTS,
        "makespan_s": MACHINE["makespan_s"],
        "mean_accuracy": more("1", _OF + "the test accuracy at the end", OWN, varies_little=True),
        "mean_validation_accuracy": more("1", _OF + "the validation accuracy at the end", OWN, varies_little=True),
        "mean_expected_accuracy": more(
            "1", _OF + "the mean test accuracy of the chosen sequence", OWN, varies_little=True
        ),
        "mean_regret": less(
            "1",
            _OF + "(mean test accuracy of the best sequence - that of the chosen one)",
            "Lattimore and Szepesvari, Bandit Algorithms, 2020",
        ),
        "last_regret": less("1", "the same over the last tenth of the jobs: after bandits have learned", OWN),
        "mean_rank": less("1", _OF + "1 + sequences with a higher mean test accuracy", OWN),
        "share_best": more("1", "share of jobs with rank 1", OWN),
        "mean_search_s": less("s", _OF + "device time spent on training other sequences than the chosen one", OWN),
        "relative_cost": less("1", "device time of all jobs / their budgets", OWN),
        "mean_n_deepened": neutral("1", _OF + "the number of deepenings", OWN),
        "n_tied": neutral("1", "jobs with other sequences of the same mean test accuracy", OWN, hides_zero=True),
    }
)
"""Every metric that `compute_metrics` gives, in its order."""


def compute_metrics(trace: OutcomeTrace) -> dict[str, float]:
    """Return every metric of `METRICS`."""
    tasks, outcomes = trace.tasks, trace.outcomes
    regret = outcomes["best"] - outcomes["expected"]
    budget_s = trace.tasks["requested_s"].mean()
    n_last = max(1, len(outcomes) // 10)
    result = count_states(tasks["state"])
    result |= {
        "makespan_s": float(tasks["end_s"].max() - tasks["release_s"].min()),
        "mean_accuracy": outcomes["test"].mean(),
        "mean_validation_accuracy": outcomes["validation"].mean(),
        "mean_expected_accuracy": outcomes["expected"].mean(),
        "mean_regret": regret.mean(),
        "last_regret": regret[-n_last:].mean(),
        "mean_rank": outcomes["rank"].mean(),
        "share_best": np.mean(outcomes["rank"] == 1),
        "mean_search_s": outcomes["search_s"].mean(),
        "relative_cost": 1.0 + outcomes["search_s"].mean() / budget_s,
        "mean_n_deepened": outcomes["n_deepened"].mean(),
        "n_tied": float(np.count_nonzero(outcomes["n_ties"])),
    }
    return {name: float(result[name]) for name in METRICS}


def regret_so_far(end_s: NDArray[np.float64], regret: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the mean regret of all jobs that have ended by each end of one: the anytime curve."""
    return np.asarray(np.cumsum(regret) / np.arange(1, len(end_s) + 1))
