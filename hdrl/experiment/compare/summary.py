"""From the points of a comparison to its table: means, ratios and tests."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hdrl.metrics.catalogue import MetricInfo
from hdrl.metrics.statistics import (
    CONFIDENCE,
    Bootstrap,
    GroupInterval,
    Interval,
    across_groups,
    block_ratio,
    holm,
    improvement_probability,
    log_ratios,
    log_sd,
    mean_ranks,
    rank_direction,
    ratio_iqm,
    suspicious_lag,
    wilcoxon_p,
    without_each_group,
)
from hdrl.metrics.tables import EQUAL, FloatArray

ALL = "all"
"""The row over all workloads."""

SHORTEST_S = 1e-6
"""Times below this count as zero, in seconds."""


@dataclass(frozen=True, slots=True)
class Measured:
    """All numbers of a comparison."""

    candidates: tuple[str, ...]
    baseline: str  # the candidate that ratios refer to
    workloads: tuple[str, ...]  # name of the workload of each window, shape ``(n_windows,)``
    # by candidate and metric, an array of shape ``(n_windows, n_seeds)``
    values: Mapping[str, Mapping[str, FloatArray]]
    is_failed: Mapping[str, NDArray[np.bool_]]  # by candidate, where it could not be simulated to its end, same shape
    metrics: Mapping[str, MetricInfo]  # definition of every metric
    unrun: Sequence[str]  # metrics that count items which were not brought to an end
    # names of the workloads that are logs: those that are generated are not drawn from any population
    logs: Sequence[str] = ()
    # by candidate that is the average of others' trainings, the candidate that consists of these
    trainings: Mapping[str, str] = field(default_factory=dict)
    # by candidate, for each window its metrics by name in each week and seed, shape ``(n_weeks, n_seeds)``; empty where
    # there are no weeks
    weeks: Mapping[str, Sequence[Mapping[str, FloatArray]]] = field(default_factory=dict)

    @property
    def workload_names(self) -> list[str]:
        """Names of the workloads, each once, in order."""
        return list(dict.fromkeys(self.workloads))

    def windows_of(self, workload: str) -> NDArray[np.int64]:
        """Return the indices of the windows of a workload, or of all."""
        return np.flatnonzero([workload in (ALL, name) for name in self.workloads])

    def n_unrun(self, candidate: str) -> float:
        """Return the number of jobs that a candidate did not bring to an end, those of windows that failed included."""
        return _n_unrun(self, self.values[candidate], self.is_failed[candidate])

    def decides_as_baseline(self, candidate: str, windows: NDArray[np.int64]) -> bool:
        """Return whether all metrics of a candidate equal the baseline's in all windows, without failures."""
        if self.is_failed[candidate][windows].any() or self.is_failed[self.baseline][windows].any():
            return False
        base = self.values[self.baseline]
        return all(_is_equal(table[windows], base[name][windows]) for name, table in self.values[candidate].items())


@dataclass(frozen=True, slots=True)
class SummaryRow:
    """A candidate on one workload (or all) by one metric."""

    workload: str
    metric: str
    unit: str
    candidate: str
    is_baseline: bool  # True if it is what ratios refer to
    # how much it was run
    n_windows: int
    n_seeds: int
    # mean over windows and seeds with its interval
    mean: float
    mean_low: float
    mean_high: float
    # geometric mean over windows of the ratio to the baseline with its interval
    ratio: float
    ratio_low: float
    ratio_high: float
    # Wilcoxon's p-value, and the same adjusted for all tests of the metric on this table
    p: float
    p_holm: float
    # the 99th of a hundred windows, from the best to the worst, and the worst; NaN where neither side is better
    p99: float
    worst: float
    log_sd: float  # standard deviation over windows of the logarithm of the ratio
    # jobs that counted, and those of them that the candidate did not bring to an end
    n_jobs: int
    n_unfinished: int
    n_failed: int  # simulations that could not be carried to their end
    is_contested: bool = False  # True if the mean ratio and the signed ranks of the windows speak for different sides
    # the ratio is better than this, one-sided, with the confidence of the interval; NaN where neither side is better
    bound: float = math.nan
    # share of windows and pairs of seeds in which the candidate is better than the baseline; NaN as above
    improvement: float = math.nan
    ratio_iqm: float = math.nan  # geometric mean of the middle half of the ratios of single windows and seeds
    # mean over windows of the rank among all candidates that have a number in each, 1 the best; NaN as above
    mean_rank: float = math.nan
    confidence: float = CONFIDENCE  # share of intervals that would hold the true value
    decides_as_baseline: bool = False  # True if all metrics equal the baseline's in all windows
    # trainings that the candidate averages, if the intervals include what other trainings would change
    n_averaged: int = 0
    n_weeks: int = 0  # weeks from which the interval of a single run comes, and p; 0 where there are windows
    # logs, and the mean ratio over logs with its interval as if they were drawn from many
    n_logs: int = 0
    logs_ratio: float = math.nan
    logs_low: float = math.nan
    logs_high: float = math.nan
    # the log without which the ratio looks worst, and the ratio without it
    without_log: str = ""
    without_ratio: float = math.nan

    @property
    def level(self) -> float:
        """Significance level of adjusted p-values: the complement of the confidence."""
        return round(1 - self.confidence, 12)


def summarise(
    measured: Measured, metrics: Sequence[str], *, seed: int, n_resamples: int, confidence: float
) -> list[SummaryRow]:
    """Return the table: a row per metric, workload and candidate, rows over all workloads first.

    Where a candidate has no number in a window in which another has one, it has none at all in the table: to leave
    that window out would flatter it.
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
        if measured.weeks:
            choices = {"seed": seed, "n_resamples": n_resamples}
            of_metric = [_by_weeks(measured, row, confidence, choices) for row in of_metric]
        rows += _adjusted(of_metric)
    return rows


def _rows(measured: Measured, metric: str, part: str, bootstrap: Bootstrap, confidence: float) -> Iterator[SummaryRow]:
    windows = measured.windows_of(part)
    info = measured.metrics[metric]
    has_sides, less = info.lower_is_better is not None, info.lower_is_better is not False
    tables = {
        name: _drop_rounding_errors(measured.values[name][metric][windows], info.unit) for name in measured.candidates
    }
    exists = np.any([~np.isnan(table).all(axis=1) for table in tables.values()], axis=0)
    base = tables[measured.baseline]
    ranked = {name: table[exists].mean(axis=1) for name, table in tables.items() if not np.isnan(table[exists]).any()}
    ranks: dict[str, float] = {}
    if exists.any() and ranked and has_sides:
        order = mean_ranks(np.stack([*ranked.values()], axis=1), lower_is_better=less)
        ranks = dict(zip(ranked, order.tolist(), strict=True))
    for name, table in tables.items():
        is_whole = exists.any() and not np.isnan(table[exists]).any()
        nothing = Interval(math.nan, math.nan, math.nan)
        is_pair = bool(is_whole and name != measured.baseline and not np.isnan(base[exists]).any())
        trainings = tables.get(measured.trainings.get(name, ""))
        if trainings is not None and np.isnan(trainings[exists]).any():
            trainings = None
        mean = bootstrap.mean(table, trainings=trainings) if is_whole else nothing
        ratio = bootstrap.ratio(table, base, trainings=trainings) if is_pair else nothing
        has_worst, is_sided = is_whole and has_sides, is_pair and has_sides
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
            bound=bootstrap.ratio_bound(table, base, is_upper=less, trainings=trainings) if is_sided else math.nan,
            improvement=improvement_probability(table, base, lower_is_better=less) if is_sided else math.nan,
            ratio_iqm=ratio_iqm(table, base) if is_pair else math.nan,
            mean_rank=ranks.get(name, math.nan),
            confidence=confidence,
            decides_as_baseline=is_pair and measured.decides_as_baseline(name, windows),
            n_averaged=0 if trainings is None else trainings.shape[1],
            **(_of_logs(measured, table, base, windows, less=less, confidence=confidence) if is_pair else {}),
        )


def _by_weeks(measured: Measured, row: SummaryRow, confidence: float, choices: Mapping[str, int]) -> SummaryRow:
    """Return the row of a single run with the interval that its weeks give, if its mean is one of their means."""
    windows = measured.windows_of(row.workload)
    if len(windows) != 1 or row.is_baseline or row.decides_as_baseline or math.isnan(row.ratio):
        return row
    candidate_values, reference_values = (
        measured.weeks[name][windows[0]] for name in (row.candidate, measured.baseline)
    )
    if (
        not candidate_values
        or not reference_values
        or candidate_values["n_jobs"].shape[0] != reference_values["n_jobs"].shape[0]
    ):
        return row
    weights, tables = candidate_values["n_jobs"][:, 0], (candidate_values[row.metric], reference_values[row.metric])
    for name, table in zip((row.candidate, measured.baseline), tables, strict=True):
        whole = measured.values[name][row.metric][windows[0]]
        mean = (table * weights[:, np.newaxis]).sum(axis=0) / weights.sum()
        if np.isnan(table).any() or not np.all(np.abs(mean - whole) <= EQUAL * np.abs(whole)):
            return row
    (_, low, high), p = block_ratio(*tables, weights, confidence=confidence, **choices)
    one_sided, _ = block_ratio(*tables, weights, confidence=2 * confidence - 1, **choices)
    bound = {True: one_sided.high, False: one_sided.low, None: math.nan}[measured.metrics[row.metric].lower_is_better]
    return replace(row, ratio_low=low, ratio_high=high, p=p, bound=bound, n_weeks=len(weights), is_contested=False)


def _of_logs(
    measured: Measured,
    table: FloatArray,
    base: FloatArray,
    windows: NDArray[np.int64],
    *,
    less: bool,
    confidence: float,
) -> dict[str, Any]:
    """Return an estimate for an unseen log from several logs; nothing for one log, and for generated loads."""
    names = [measured.workloads[window] for window in windows]
    known = [name for name in dict.fromkeys(names) if name in measured.logs]
    of_log = np.array([name in known for name in names])
    if len(known) < 2:
        return {}
    groups = np.array([known.index(name) for name in names if name in known])
    over: GroupInterval = across_groups(table[of_log], base[of_log], groups, confidence=confidence)
    without = without_each_group(table[of_log], base[of_log], groups)
    if math.isnan(over.value):
        return {}
    worst = max(without, key=lambda group: (1 if less else -1) * without[group])
    return {
        "n_logs": over.n_groups,
        "logs_ratio": over.value,
        "logs_low": over.low,
        "logs_high": over.high,
        "without_log": known[worst],
        "without_ratio": without[worst],
    }


def _is_equal(one: FloatArray, other: FloatArray) -> bool:
    """Return whether all values are equal but for rounding, each seed of one side with each of the other."""
    candidate_values, reference_values = one[:, :, np.newaxis], other[:, np.newaxis, :]
    with np.errstate(invalid="ignore"):
        close = np.abs(candidate_values - reference_values) <= EQUAL * np.maximum(
            np.abs(candidate_values), np.abs(reference_values)
        )
    return bool(
        np.all(
            close | (candidate_values == reference_values) | (np.isnan(candidate_values) & np.isnan(reference_values))
        )
    )


def _drop_rounding_errors(table: FloatArray, unit: str) -> FloatArray:
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
    """Return the rows over all workloads of the metric that decides, the baseline's left out."""
    return [row for row in rows if row.workload == ALL and row.metric == metric and not row.is_baseline]


def baseline_row(rows: Sequence[SummaryRow], metric: str) -> SummaryRow | None:
    """Return the baseline's row over all workloads of a metric, if there is one."""
    return next((row for row in rows if row.workload == ALL and row.metric == metric and row.is_baseline), None)


WAITS = ("p99_wait_s", "max_wait_s")


def tails_of(metric: str, known: Collection[str]) -> list[str]:
    """Return the metrics of the tail beside a mean: metrics of waits where there are any, else of the same quantity."""
    if not metric.startswith("mean_"):
        return []
    of = metric.removeprefix("mean_")
    waits = [name for name in WAITS if name in known]
    return waits or [name for name in (f"p99_{of}", f"max_{of}") if name in known]


def correlated_windows(measured: Measured, metric: str) -> Iterator[tuple[str, str]]:
    """Warn of logs whose neighbouring windows have like ratios, more than chance explains."""
    base = measured.values[measured.baseline][metric]
    others = [name for name in measured.candidates if name != measured.baseline]
    for log in measured.logs:
        windows = measured.windows_of(log)
        found = {}
        for name in others:
            logs = log_ratios(measured.values[name][metric][windows], base[windows])
            correlation = suspicious_lag(logs, len(others) * len(measured.logs))
            if correlation is not None:
                found[name] = correlation
        if found:
            name = max(found, key=lambda one: found[one])
            more = f" (and {len(found) - 1} more candidates)" if len(found) > 1 else ""
            yield (
                "alike-neighbours",
                f"neighbouring windows of {log} have like ratios of {name}{more} (correlation {found[name]:.2f}): they "
                "are not independent, so intervals are too narrow; take longer windows",
            )
