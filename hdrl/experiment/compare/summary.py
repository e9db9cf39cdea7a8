"""From the points of a comparison to its table: means, ratios, tests, and the verdict in a sentence."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hdrl.metrics.catalogue import MetricInfo
from hdrl.metrics.planning import cautious_log_sd, fewest_windows, smallest_visible_change
from hdrl.metrics.statistics import Bootstrap, Interval, holm, log_sd, rank_direction, wilcoxon_p
from hdrl.metrics.words import metric_words, number_words

FloatArray = NDArray[np.float64]

ALL = "all"
"""The row over all workloads."""

SIGNIFICANT = 0.05

FAR_BELOW = 0.1
"""Ratios below it are written as how many times lower a value is."""

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
        The 99th of a hundred windows, from the best to the worst, and the worst.
    log_sd
        Standard deviation over windows of the logarithm of the ratio.
    n_jobs, n_unfinished
        Jobs that counted, and those of them that the candidate did not bring to an end.
    n_failed
        Simulations that could not be carried to their end.
    is_contested
        Whether the mean ratio and the signed ranks of the windows speak for different sides.
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
        of_metric = [row for part in parts for row in _rows(measured, metric, part, bootstraps[part])]
        rows += _adjusted(of_metric)
    return rows


def _rows(measured: Measured, metric: str, part: str, bootstrap: Bootstrap) -> Iterator[SummaryRow]:
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
        worst_last = np.sort(table[exists].ravel()) if is_whole else np.array([math.nan])
        worst_last = worst_last[::-1] if info.lower_is_better is False else worst_last
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
    from dataclasses import replace

    pooled = np.array([row.workload == ALL for row in rows])
    p = np.array([row.p for row in rows])
    adjusted = np.full(len(rows), np.nan)
    for family in (pooled, ~pooled):
        adjusted[family] = holm(p[family])
    return [replace(row, p_holm=float(value)) for row, value in zip(rows, adjusted, strict=True)]


def is_better(row: SummaryRow, info: MetricInfo) -> bool | None:
    """Tell whether a candidate is better than the baseline; ``None`` if that was not shown.

    It was shown if the interval of the ratio excludes 1, the adjusted p-value is below 5 %, and both speak for the same
    side: a few windows may make a mean, while most of them, and so p, say the opposite.

    Parameters
    ----------
    row
        The candidate's row.
    info
        What its metric means.
    """
    if math.isnan(row.ratio_low) or not row.p_holm < SIGNIFICANT or row.ratio_low <= 1 <= row.ratio_high:
        return None
    if row.is_contested:
        return None
    return (row.ratio < 1) == (info.lower_is_better is not False)


def verdict(
    row: SummaryRow, baseline: str, info: MetricInfo, *, among: int = 1, kind: str = "", n_tests: int | None = None
) -> str:
    """Say in a sentence what a comparison shows of a candidate.

    Parameters
    ----------
    row
        Its row over all workloads, of the metric that decides.
    baseline
        Name of the baseline.
    info
        What its metric means.
    among
        Of how many candidates it is the best.
    kind
        Which candidates those are, ``"learned "`` for instance; empty if they are all.
    n_tests
        How many candidates are tested against the baseline; ``None``: those among which it is the best.
    """
    words = metric_words(row.metric)
    who = row.candidate if among <= 1 else f"the best of {among} {kind}candidates, {row.candidate},"
    windows = f"{row.n_windows} window{'s' if row.n_windows != 1 else ''}"
    seeds = f" and {row.n_seeds} seeds" if row.n_seeds > 1 else ""
    if math.isnan(row.ratio):
        told = math.isnan(row.mean) or row.n_unfinished > 0
        why = _unrun_words(row) if told else ": ratios need numbers above 0 on both sides, see the means"
        return f"{who} cannot be compared with {baseline} by its {words} over {windows}{why}."
    start = f"{who} has {_ratio_words(row, words, baseline)} over {windows}{seeds}"
    if math.isnan(row.ratio_low):
        return f"{start}: one window shows nothing beyond itself{_unrun_words(row)}."
    return f"{start} (p {_p_words(row.p_holm)}): {_conclusion(row, info, n_tests or among)}{_unrun_words(row)}."


def headline(
    rows: Sequence[SummaryRow],
    baseline: str,
    info: MetricInfo,
    learned: Collection[str],
    *,
    n_tests: int | None = None,
) -> str:
    """Say in one or two sentences what a comparison shows: of what was learned, if anything was.

    A model is what people compare for, so that it leads even where other candidates do better; how it ranks among them
    follows.

    Parameters
    ----------
    rows
        The rows over all workloads of the metric that decides, the baseline's left out.
    baseline
        Name of the baseline.
    info
        What the metric means.
    learned
        Names of the learned candidates.
    n_tests
        How many candidates were tested; ``None``: as many as there are rows.
    """
    n_tests = n_tests or len(rows)
    best = best_row(rows, info)
    ours = best_row(models := [row for row in rows if row.candidate in learned], info)
    if ours is None or best is None or len(models) == len(rows):
        return "" if best is None else verdict(best, baseline, info, among=len(rows), n_tests=n_tests)
    said = verdict(ours, baseline, info, among=len(models), kind="learned ", n_tests=n_tests)
    if best is ours or math.isnan(best.ratio):
        return said + _words_of_others([row for row in rows if row.candidate not in learned])
    sign = -1.0 if info.lower_is_better is False else 1.0
    n_ahead = sum(sign * row.ratio < sign * ours.ratio for row in rows)
    if math.isnan(ours.ratio) or not n_ahead:
        return f"{said} The best of all {len(rows)} candidates is {best.candidate}."
    have = "has" if n_ahead == 1 else "have"
    return f"{said} {n_ahead} of {len(rows)} candidates {have} a better mean ratio; the best is {best.candidate}."


def _words_of_others(others: Sequence[SummaryRow]) -> str:
    """Say that none of the candidates that were not learned is better than the best that was."""
    n_compared = sum(not math.isnan(row.ratio) for row in others)
    n_without = len(others) - n_compared
    words = ""
    if n_compared:
        words = (
            " The other candidate has a worse mean ratio."
            if n_compared == 1
            else f" The {n_compared} other candidates have worse mean ratios."
        )
    if n_without:
        words += f" {n_without} candidate{'s have' if n_without > 1 else ' has'} no mean ratio."
    return words


def _inverse(value: float) -> float:
    return 1 / value if value else math.inf


def _ratio_words(row: SummaryRow, words: str, baseline: str) -> str:
    """Return by what a candidate differs: what is far below 1 reads better as how many times lower it is."""
    is_far_below = 0 < row.ratio < FAR_BELOW
    numbers = (row.ratio, row.ratio_low, row.ratio_high)
    if is_far_below:
        numbers = (_inverse(row.ratio), _inverse(row.ratio_high), _inverse(row.ratio_low))
    interval = "" if math.isnan(row.ratio_low) else f" [{number_words(numbers[1])}, {number_words(numbers[2])}]"
    if is_far_below:
        return f"a {words} {number_words(numbers[0])}{interval} times lower than {baseline}"
    return f"{number_words(numbers[0])}{interval} times the {words} of {baseline}"


def _conclusion(row: SummaryRow, info: MetricInfo, n_tests: int) -> str:
    better = is_better(row, info)
    if better is not None:
        return "better" if better else "worse"
    if row.is_contested and row.p_holm < SIGNIFICANT:
        return "no difference shown (a few windows make the mean, and p speaks for the other side)"
    if row.n_windows < fewest_windows(n_tests):
        return "no difference shown (so few windows cannot show any)"
    change = smallest_visible_change(row.n_windows, cautious_log_sd(row.log_sd, row.n_windows), n_tests)
    return f"no difference shown (so many windows show changes of {change:.0%} or more)"


def _unrun_words(row: SummaryRow) -> str:
    return f"; but it left {row.n_unfinished:,} of {row.n_jobs:,} jobs unrun" if row.n_unfinished else ""


def _p_words(p: float) -> str:
    return f"= {p:.2g}" if p >= 1e-4 else f"< {10.0 ** math.ceil(math.log10(p)):.0e}" if p > 0 else "= 0"


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


def best_row(rows: Sequence[SummaryRow], info: MetricInfo) -> SummaryRow | None:
    """Return the row with the best ratio; the first of all if none has a ratio, ``None`` without rows.

    Parameters
    ----------
    rows
        Rows of one metric.
    info
        What it means.
    """
    if not rows:
        return None
    sign = -1.0 if info.lower_is_better is False else 1.0
    # What left jobs unrun is the best only if all did.
    known = [row for row in rows if not math.isnan(row.ratio)]
    return min(known, key=lambda row: (row.n_unfinished > 0, sign * row.ratio), default=rows[0])
