"""Metrics of adaptation: accuracy, how far from the best sequence, and what finding it cost."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from hdrl.metrics.catalogue import MetricInfo
from hdrl.metrics.tasks import COUNTS, MACHINE, OWN, count_states
from hdrl.trace.model import OutcomeTrace

_OF = "mean over jobs of "


def _number(formula: str, *, lower: bool | None, unit: str = "1", source: str = OWN) -> MetricInfo:
    return MetricInfo(unit, formula, source, lower_is_better=lower)


METRICS: Mapping[str, MetricInfo] = MappingProxyType(
    {
        **COUNTS,
        "makespan_s": MACHINE["makespan_s"],
        "mean_accuracy": _number(_OF + "the test accuracy at the end", lower=False),
        "mean_validation_accuracy": _number(_OF + "the validation accuracy at the end", lower=False),
        "mean_expected_accuracy": _number(_OF + "the mean test accuracy of the chosen sequence", lower=False),
        "mean_regret": _number(
            _OF + "(mean test accuracy of the best sequence - that of the chosen one)",
            lower=True,
            source="Lattimore and Szepesvari, Bandit Algorithms, 2020",
        ),
        "last_regret": _number("the same over the last tenth of the jobs: after bandits have learned", lower=True),
        "mean_rank": _number(_OF + "1 + sequences with a higher mean test accuracy", lower=True),
        "share_best": _number("share of jobs with rank 1", lower=False),
        "mean_search_s": _number(
            _OF + "device time spent on training other sequences than the chosen one", lower=True, unit="s"
        ),
        "relative_cost": _number("device time of all jobs / their budgets", lower=True),
        "mean_n_deepened": _number(_OF + "times that it was deepened", lower=None),
        "n_tied": MetricInfo(
            "1",
            "jobs whose mean test accuracy other sequences share",
            OWN,
            lower_is_better=None,
            hides_zero=True,
        ),
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
    """Return the mean regret of all jobs that have ended by each end of one: the anytime curve.

    Parameters
    ----------
    end_s
        When jobs ended, ascending.
    regret
        The regret of each.
    """
    return np.asarray(np.cumsum(regret) / np.arange(1, len(end_s) + 1))
