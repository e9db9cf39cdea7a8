"""From the points of a comparison to its table: means, ratios and tests."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from hdrl.metrics.catalogue import MetricInfo
from hdrl.metrics.statistics import CONFIDENCE, Bootstrap, Interval, holm, log_sd, rank_direction, wilcoxon_p
from hdrl.metrics.tables import FloatArray

ALL = "all"
"""The row over all workloads."""

SHORTEST_S = 1e-6
"""Times below this count as zero, in seconds."""


@dataclass(frozen=True, slots=True)
class Measured:
    """All numbers of a comparison.

    Attributes
    ----------
    candidates
        Names of the candidates.
    baseline
        The name of the one that ratios refer to.
    workloads
        Name of the workload of each window, shape ``(n_windows,)``.
    values
        By candidate and metric, an array of shape ``(n_windows, n_seeds)``.
    is_failed
        By candidate, where it could not be simulated to its end, same shape.
    metrics
        What every metric means.
    unrun
        Metrics that count items which were not brought to an end.
    """

    candidates: tuple[str, ...]
    baseline: str
    workloads: tuple[str, ...]
    values: Mapping[str, Mapping[str, FloatArray]]
    is_failed: Mapping[str, NDArray[np.bool_]]
    metrics: Mapping[str, MetricInfo]
    unrun: Sequence[str]

    @property
    def workload_names(self) -> list[str]:
        """Names of the workloads, each once, in order."""
        return list(dict.fromkeys(self.workloads))

    def windows_of(self, workload: str) -> NDArray[np.int64]:
        """Return the indices of the windows of a workload, or of all.

        Parameters
        ----------
        workload
            Its name, or `ALL`.
        """
        return np.flatnonzero([workload in (ALL, name) for name in self.workloads])

    def n_unrun(self, candidate: str) -> float:
        """Return how many jobs a candidate did not bring to an end, those of windows that failed included.

        Parameters
        ----------
        candidate
            Its name.
        """
        return _n_unrun(self, self.values[candidate], self.is_failed[candidate])


@dataclass(frozen=True, slots=True)
class SummaryRow:
    """A candidate on one workload (or all) by one metric.

    Attributes
    ----------
    workload, metric, unit, candidate
        Of what.
    is_baseline
        Whether it is what ratios refer to.
    n_windows, n_seeds
        How much it was run.
    mean, mean_low, mean_high
        Mean over windows and seeds with its interval.
    ratio, ratio_low, ratio_high
        Geometric mean over windows of the ratio to the baseline with its interval.
    p, p_holm
        Wilcoxon's p-value, and the same adjusted for all tests of the metric on this table.
    p99, worst
        The 99th of a hundred windows, from the best to the worst, and the worst; NaN where neither side is better.
    log_sd
        Standard deviation over windows of the logarithm of the ratio.
    n_jobs, n_unfinished
        Jobs that counted, and those of them that the candidate did not bring to an end.
    n_failed
        Simulations that could not be carried to their end.
    is_contested
        Whether the mean ratio and the signed ranks of the windows speak for different sides.
    confidence
        Share of intervals that would hold the true value.
    """

    workload: str
    metric: str
    unit: str
    candidate: str
    is_baseline: bool
    n_windows: int
    n_seeds: int
    mean: float
    mean_low: float
    mean_high: float
    ratio: float
    ratio_low: float
    ratio_high: float
    p: float
    p_holm: float
    p99: float
    worst: float
    log_sd: float
    n_jobs: int
    n_unfinished: int
    n_failed: int
    is_contested: bool = False
    confidence: float = CONFIDENCE

    @property
    def level(self) -> float:
        """What an adjusted p-value must stay below to show a difference: the complement of the confidence."""
        return round(1 - self.confidence, 12)


def summarise(
    measured: Measured, metrics: Sequence[str], *, seed: int, n_resamples: int, confidence: float
) -> list[SummaryRow]:
    """Return the table: a row per metric, workload and candidate, rows over all workloads first.

    Where a candidate has no number in a window in which another has one, it has none at all in the table: to leave
    that window out would flatter it.

    Parameters
    ----------
    measured
        All numbers.
    metrics
        Which to summarise.
    seed, n_resamples, confidence
        Of the bootstrap.
    """
    parts = [ALL, *(measured.workload_names if len(measured.workload_names) > 1 else [])]
    strata = np.unique(measured.workloads, return_inverse=True)[1]
    rows: list[SummaryRow] = []
    bootstraps = {}
    for part in parts:
        windows = measured.windows_of(part)
        bootstraps[part] = Bootstrap(strata[windows], seed=seed, n_resamples=n_resamples, confidence=confidence)
    for metric in metrics:
        of_metric = [row for part in parts for row in _rows(measured, metric, part, bootstraps[part], confidence)]
        rows += _adjusted(of_metric)
    return rows


def _rows(measured: Measured, metric: str, part: str, bootstrap: Bootstrap, confidence: float) -> Iterator[SummaryRow]:
    windows = measured.windows_of(part)
    info = measured.metrics[metric]
    tables = {name: _without_dust(measured.values[name][metric][windows], info.unit) for name in measured.candidates}
    exists = np.any([~np.isnan(table).all(axis=1) for table in tables.values()], axis=0)
    base = tables[measured.baseline]
    for name, table in tables.items():
        is_whole = exists.any() and not np.isnan(table[exists]).any()
        nothing = Interval(math.nan, math.nan, math.nan)
        is_pair = is_whole and name != measured.baseline and not np.isnan(base[exists]).any()
        mean = bootstrap.mean(table) if is_whole else nothing
        ratio = bootstrap.ratio(table, base) if is_pair else nothing
        has_worst = is_whole and info.lower_is_better is not None
        worst_last = np.sort(table[exists].ravel())[:: int(info.sign)] if has_worst else np.array([math.nan])
        values = {key: array[windows] for key, array in measured.values[name].items()}
        is_failed = measured.is_failed[name][windows]
        yield SummaryRow(
            workload=part,
            metric=metric,
            unit=info.unit,
            candidate=name,
            is_baseline=name == measured.baseline,
            n_windows=int(np.count_nonzero(exists)),
            n_seeds=table.shape[1],
            mean=mean.value,
            mean_low=mean.low,
            mean_high=mean.high,
            ratio=ratio.value if name != measured.baseline else 1.0,
            ratio_low=ratio.low,
            ratio_high=ratio.high,
            p=wilcoxon_p(table, base) if is_pair else math.nan,
            p_holm=math.nan,
            p99=_quantile(worst_last, 0.99),
            worst=float(worst_last[-1]),
            log_sd=log_sd(table, base) if is_pair else math.nan,
            n_jobs=int(values["n_jobs"].sum()),
            n_unfinished=int(_n_unrun(measured, values, is_failed)),
            n_failed=int(np.count_nonzero(is_failed)),
            is_contested=bool(is_pair and rank_direction(table, base) * (ratio.value - 1) < 0),
            confidence=confidence,
        )


def _without_dust(table: FloatArray, unit: str) -> FloatArray:
    """Return times with zero for what dates of six decimals cannot tell from it: its ratios would mean nothing."""
    return np.where(np.abs(table) < SHORTEST_S, 0.0, table) if unit == "s" else table


def _quantile(ordered: FloatArray, share: float) -> float:
    """Return a quantile of values in the given order, with linear interpolation."""
    position = share * (len(ordered) - 1)
    below = int(position)
    above = min(below + 1, len(ordered) - 1)
    return float(ordered[below] + (position - below) * (ordered[above] - ordered[below]))


def _n_unrun(measured: Measured, values: Mapping[str, FloatArray], is_failed: NDArray[np.bool_]) -> float:
    unrun = sum((np.nan_to_num(values[name]) for name in measured.unrun), np.zeros(is_failed.shape))
    return float(np.where(is_failed, values["n_jobs"], unrun).sum())


def _adjusted(rows: list[SummaryRow]) -> list[SummaryRow]:
    """Adjust the p-values of a metric: those over all workloads and those of single ones are families of their own."""
    pooled = np.array([row.workload == ALL for row in rows])
    p = np.array([row.p for row in rows])
    adjusted = np.full(len(rows), np.nan)
    for family in (pooled, ~pooled):
        adjusted[family] = holm(p[family])
    return [replace(row, p_holm=float(value)) for row, value in zip(rows, adjusted, strict=True)]


def deciding_rows(rows: Sequence[SummaryRow], metric: str) -> list[SummaryRow]:
    """Return the rows over all workloads of the metric that decides, the baseline's left out.

    Parameters
    ----------
    rows
        The table.
    metric
        The metric.
    """
    return [row for row in rows if row.workload == ALL and row.metric == metric and not row.is_baseline]
