"""What the table of a comparison shows, in sentences."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

from hdrl.experiment.compare.summary import SummaryRow
from hdrl.metrics.catalogue import MetricInfo
from hdrl.metrics.planning import cautious_log_sd, fewest_windows, smallest_visible_change
from hdrl.metrics.words import metric_words, number_words

FAR_BELOW = 0.1
"""Ratios below it are written as how many times lower a value is."""


def differs(row: SummaryRow) -> bool:
    """Return whether a comparison shows that a candidate differs from the baseline.

    It does if the interval of the ratio excludes 1, the adjusted p-value is below one less the confidence, and both
    speak for the same side: a few windows may make a mean, while most of them, and so p, say the opposite.

    Parameters
    ----------
    row
        The candidate's row.
    """
    is_apart = not math.isnan(row.ratio_low) and not row.ratio_low <= 1 <= row.ratio_high
    return is_apart and row.p_holm < row.level and not row.is_contested


def is_better(row: SummaryRow, info: MetricInfo) -> bool | None:
    """Return whether a candidate is better than the baseline.

    ``None`` if no difference was shown, or if neither side of the metric is better.

    Parameters
    ----------
    row
        The candidate's row.
    info
        What its metric means.
    """
    if info.lower_is_better is None or not differs(row):
        return None
    return (row.ratio < 1) == info.lower_is_better


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
    who = row.candidate if among <= 1 else f"the {_first(info)} of {among} {kind}candidates, {row.candidate},"
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
    best = _best_row(rows, info)
    ours = _best_row(models := [row for row in rows if row.candidate in learned], info)
    if ours is None or best is None or len(models) == len(rows):
        return "" if best is None else verdict(best, baseline, info, among=len(rows), n_tests=n_tests)
    said = verdict(ours, baseline, info, among=len(models), kind="learned ", n_tests=n_tests)
    if best is ours or math.isnan(best.ratio):
        return said + _words_of_others([row for row in rows if row.candidate not in learned], info)
    n_ahead = sum(info.sign * row.ratio < info.sign * ours.ratio for row in rows)
    if math.isnan(ours.ratio) or not n_ahead:
        return f"{said} The {_first(info)} of all {len(rows)} candidates is {best.candidate}."
    have = "has" if n_ahead == 1 else "have"
    ahead, first = _ahead(info), _first(info)
    return f"{said} {n_ahead} of {len(rows)} candidates {have} a {ahead} mean ratio; the {first} is {best.candidate}."


def _first(info: MetricInfo) -> str:
    """Return the word for the candidate that leads a ranking: without a better side, the lowest value leads."""
    return "lowest" if info.lower_is_better is None else "best"


def _ahead(info: MetricInfo) -> str:
    """Return how candidates that rank before another one differ from it."""
    return "lower" if info.lower_is_better is None else "better"


def _words_of_others(others: Sequence[SummaryRow], info: MetricInfo) -> str:
    """Say that none of the candidates that were not learned is better than the best that was."""
    n_compared = sum(not math.isnan(row.ratio) for row in others)
    n_without = len(others) - n_compared
    words = ""
    if n_compared:
        behind = "higher" if info.lower_is_better is None else "worse"
        words = (
            f" The other candidate has a {behind} mean ratio."
            if n_compared == 1
            else f" The {n_compared} other candidates have {behind} mean ratios."
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
    if differs(row):
        return info.side(row.ratio)
    if row.is_contested and row.p_holm < row.level:
        return "no difference shown (a few windows make the mean, and p speaks for the other side)"
    if row.n_windows < fewest_windows(n_tests, row.level):
        return "no difference shown (so few windows cannot show any)"
    change = smallest_visible_change(row.n_windows, cautious_log_sd(row.log_sd, row.n_windows), n_tests, row.level)
    return f"no difference shown (so many windows show changes of {change:.0%} or more)"


def _unrun_words(row: SummaryRow) -> str:
    return f"; but it left {row.n_unfinished:,} of {row.n_jobs:,} jobs unrun" if row.n_unfinished else ""


def _p_words(p: float) -> str:
    return f"= {p:.2g}" if p >= 1e-4 else f"< {10.0 ** math.ceil(math.log10(p)):.0e}" if p > 0 else "= 0"


def _best_row(rows: Sequence[SummaryRow], info: MetricInfo) -> SummaryRow | None:
    """Return the row with the best ratio; the first of all if none has a ratio, ``None`` without rows.

    Where neither side is better, it is the row with the lowest ratio.
    """
    if not rows:
        return None
    # What left jobs unrun is the best only if all did.
    known = [row for row in rows if not math.isnan(row.ratio)]
    return min(known, key=lambda row: (row.n_unfinished > 0, info.sign * row.ratio), default=rows[0])
