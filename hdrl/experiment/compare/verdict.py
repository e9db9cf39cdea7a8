"""Conclusions from the table of a comparison, in sentences."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from hdrl.experiment.compare.summary import SummaryRow
from hdrl.figures.numbers import Form, metric_form
from hdrl.metrics.catalogue import MetricInfo
from hdrl.metrics.planning import cautious_log_sd, fewest_windows, smallest_visible_change
from hdrl.metrics.words import interval_words, metric_words, number_words

FAR_BELOW = 0.1
"""Ratios below it are written as how many times lower a value is."""

EQUAL_WITHIN = 0.02
"""Ratios that differ from 1 by less are the same in practice."""

TAIL_MARGIN = 1.1
"""Largest ratio of a tail to the baseline's that counts as no worse."""


@dataclass(frozen=True, slots=True)
class Criteria:
    """Criteria for equal, and for no worse."""

    equal_within: float = EQUAL_WITHIN  # relative change up to which two are the same in practice
    tail_margin: float = TAIL_MARGIN  # ratio to the baseline up to which a tail is no worse


CRITERIA = Criteria()


class Tail(NamedTuple):
    """A candidate by a metric that stands for its tail, and what that metric means."""

    row: SummaryRow
    info: MetricInfo


def differs(row: SummaryRow) -> bool:
    """Return whether a comparison shows that a candidate differs from the baseline.

    It does if the interval of the ratio excludes 1, the adjusted p-value is below one less the confidence, and both
    speak for the same side: a few windows may make a mean, while most of them, and so p, say the opposite.
    """
    is_apart = not math.isnan(row.ratio_low) and not row.ratio_low <= 1 <= row.ratio_high
    return is_apart and row.p_holm < row.level and not row.is_contested


def is_better(row: SummaryRow, info: MetricInfo, base: SummaryRow | None = None) -> bool | None:
    """Return whether a candidate is better than the baseline.

    ``None`` if no difference was shown, or if neither side of the metric is better. Where numbers of 0 leave no ratio,
    the baseline's row decides: the means, p and most windows must agree.
    """
    if info.lower_is_better is None:
        return None
    if math.isnan(row.ratio) and base is not None and row.p_holm < row.level:
        is_less, wins = row.mean < base.mean, row.improvement - 0.5
        better = is_less == info.lower_is_better
        return better if row.mean != base.mean and wins != 0 and (wins > 0) == better else None
    return (row.ratio < 1) == info.lower_is_better if differs(row) else None


def is_equal(row: SummaryRow, criteria: Criteria = CRITERIA) -> bool:
    """Return whether the interval of the ratio lies so close to 1 that the difference does not matter."""
    return 1 / (1 + criteria.equal_within) <= row.ratio_low <= row.ratio_high <= 1 + criteria.equal_within


def is_no_worse(row: SummaryRow, info: MetricInfo, criteria: Criteria = CRITERIA) -> bool:
    """Return whether the one-sided bound of the ratio excludes that a tail is worse than the margin."""
    if info.lower_is_better is False:
        return row.bound >= 1 / criteria.tail_margin
    return row.bound <= criteria.tail_margin


def verdict(
    row: SummaryRow,
    baseline: str,
    info: MetricInfo,
    *,
    among: int = 1,
    kind: str = "",
    n_tests: int | None = None,
    tails: Sequence[Tail] = (),
    criteria: Criteria = CRITERIA,
    over: str = "",
    base: SummaryRow | None = None,
) -> str:
    """Say in a sentence what a comparison shows of a candidate.

    The row is over all workloads, of the metric that decides, and the best of ``among`` candidates of a ``kind``
    (``"learned "``; empty: all). ``n_tests`` candidates were tested against the baseline, by default ``among``. Tails
    of other candidates are ignored. ``over`` says what the numbers come from, if not from windows: ``"14 pairs of
    blocks"``. ``base`` is the baseline's row: its mean stands beside a candidate's without a ratio, and the jobs that
    it left unrun beside theirs.
    """
    words = metric_words(row.metric)
    first = _rank_words(info)[0]
    subject = row.candidate if among <= 1 else f"the {first} of {among} {kind}candidates, {row.candidate},"
    windows = f"{row.n_windows} window{'s' if row.n_windows != 1 else ''}"
    if row.n_weeks:
        windows = f"one run of {row.n_weeks} weeks"
    if row.n_averaged:
        windows += f" and the {row.n_averaged} trainings that it averages"
    elif row.n_seeds > 1:
        windows += f" and {row.n_seeds} seeds"
    windows = over or windows
    unrun = _unrun_words(row, base)
    own = [tail for tail in tails if tail.row.candidate == row.candidate and tail.row.metric != row.metric]
    if math.isnan(row.ratio):
        if math.isnan(row.mean) or base is None or math.isnan(base.mean) or math.isnan(row.p_holm):
            why = unrun.replace("; but ", "; ") or ": ratios need numbers above 0 on both sides, see the means"
            return f"{subject} cannot be compared with {baseline} by its {words} over {windows}{why}."
        form = metric_form(row.metric, info, [row.mean, base.mean])
        means = f"has the {words} {_mean_words(row, form)}, {baseline} has {_mean_words(base, form)}"
        better = is_better(row, info, base)
        conclusion = "no difference shown" if better is None else "better" if better else "worse"
        conclusion = _with_tail(conclusion, own, criteria, better=better)
        why = "; there is no ratio, because some windows have 0"
        return f"{subject} {means} over {windows} (p {_p_words(row.p_holm)}): {conclusion}{why}{unrun}."
    if row.decides_as_baseline:
        return f"{subject} decides as {baseline} does: all metrics are equal in {windows}{unrun}."
    start = f"{subject} has {_ratio_words(row, words, baseline)} over {windows}"
    if math.isnan(row.ratio_low):
        return f"{start}: one window shows nothing beyond itself{unrun}."
    conclusion = _conclusion(row, info, n_tests or among, criteria, of_windows=not over)
    conclusion = _with_tail(conclusion, own, criteria, better=is_better(row, info))
    return f"{start} (p {_p_words(row.p_holm)}): {conclusion}{unrun}."


def ratio_words(row: SummaryRow) -> str:
    """Return the ratio of a row with its interval, if it has one."""
    return interval_words(row.ratio, row.ratio_low, row.ratio_high)


def logs_words(row: SummaryRow) -> str:
    """Describe the result of several logs for an unseen one; nothing where there is one log."""
    if row.n_logs < 2:
        return ""
    return (
        f"On another log: {row.candidate} has {interval_words(row.logs_ratio, row.logs_low, row.logs_high)} "
        f"as far as {row.n_logs} logs show; without {row.without_log} "
        f"it has {number_words(row.without_ratio)}."
    )


def headline(
    rows: Sequence[SummaryRow],
    baseline: str,
    info: MetricInfo,
    learned: Collection[str],
    *,
    n_tests: int | None = None,
    tails: Sequence[Tail] = (),
    criteria: Criteria = CRITERIA,
    base: SummaryRow | None = None,
) -> str:
    """Say in one or two sentences what a comparison shows: of what was learned, if anything was.

    A model is what people compare for, so that it leads even where other candidates do better; how it ranks among them
    follows.

    The rows are over all workloads, of the metric that decides, without the baseline's. ``n_tests`` candidates were
    tested, by default as many as there are rows.
    """
    say = partial(
        verdict, baseline=baseline, info=info, n_tests=n_tests or len(rows), tails=tails, criteria=criteria, base=base
    )
    best = _best_row(rows, info)
    ours = _best_row(models := [row for row in rows if row.candidate in learned], info)
    if ours is None or best is None or len(models) == len(rows):
        return "" if best is None else say(best, among=len(rows))
    said, (first, ahead, behind) = say(ours, among=len(models), kind="learned "), _rank_words(info)
    if best is ours or math.isnan(best.ratio):
        return said + _words_of_others([row for row in rows if row.candidate not in learned], behind)
    n_ahead = sum(info.sign * row.ratio < info.sign * ours.ratio for row in rows)
    if math.isnan(ours.ratio) or not n_ahead:
        return f"{said} The {first} of all {len(rows)} candidates is {best.candidate}."
    have = "has" if n_ahead == 1 else "have"
    return f"{said} {n_ahead} of {len(rows)} candidates {have} a {ahead} mean ratio; the {first} is {best.candidate}."


def _rank_words(info: MetricInfo) -> tuple[str, str, str]:
    """Return the words for the candidate that leads a ranking, for those before another one, and for those behind it.

    Without a better side, the lowest value leads.
    """
    return ("lowest", "lower", "higher") if info.lower_is_better is None else ("best", "better", "worse")


def _words_of_others(others: Sequence[SummaryRow], behind: str) -> str:
    """Say that none of the candidates that were not learned is better than the best that was."""
    n_compared = sum(not math.isnan(row.ratio) for row in others)
    n_without = len(others) - n_compared
    words = ""
    if n_compared:
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
    if 0 < row.ratio < FAR_BELOW:
        times = interval_words(_inverse(row.ratio), _inverse(row.ratio_high), _inverse(row.ratio_low))
        return f"a {words} {times} times lower than {baseline}"
    return f"{ratio_words(row)} times the {words} of {baseline}"


def _conclusion(row: SummaryRow, info: MetricInfo, n_tests: int, criteria: Criteria, *, of_windows: bool) -> str:
    same = f"{100 * criteria.equal_within:.3g} %"
    if differs(row):
        return info.side(row.ratio) + (f", by less than {same}" if is_equal(row, criteria) else "")
    if is_equal(row, criteria):
        return f"equal within {same}"
    if row.is_contested and row.p_holm < row.level:
        return "no difference shown (a few windows make the mean, and p speaks for the other side)"
    if row.n_weeks or not of_windows:
        return "no difference shown"
    if row.n_windows < fewest_windows(n_tests, row.level):
        return f"no difference shown ({row.n_windows} windows are too few to detect any)"
    sd = cautious_log_sd(row.log_sd, row.n_windows, varies_little=info.varies_little)
    change = smallest_visible_change(row.n_windows, sd, n_tests, row.level)
    return f"no difference shown ({row.n_windows} windows can detect changes of about {change:.0%} or more)"


def _with_tail(conclusion: str, tails: Sequence[Tail], criteria: Criteria, *, better: bool | None) -> str:
    """Return a conclusion about a mean with what its tail shows: worse tails always, others beside a better mean."""
    known = [tail for tail in tails if not math.isnan(tail.row.bound)]
    worse = [tail for tail in known if is_better(*tail) is False]
    if worse:
        mean = "better on the mean" + conclusion.removeprefix("better") if better else conclusion
        return f"{mean}{',' if better else ', and'} worse in the tail ({_listed_tails(worse)})"
    if better is False or (better is None and not conclusion.startswith("equal")) or not tails:
        return conclusion
    if any(math.isnan(tail.row.ratio) for tail in tails):
        return f"{conclusion}; its tail has no ratio on all windows"
    if len(known) < len(tails):
        one_run = ", ".join(f"{tail_words(row.metric)} {number_words(row.ratio)} times" for row, _ in tails)
        return f"{conclusion}; of its tail there is one value ({one_run})"
    is_open = [tail for tail in known if not is_no_worse(*tail, criteria)]
    if not is_open:
        return f"{conclusion}, and no worse in the tail ({_listed_bounds(known)})"
    mean = "better on the mean" + conclusion.removeprefix("better") if better else conclusion
    return f"{mean}; its tail may be worse ({_listed_bounds(is_open)})"


def _listed_tails(tails: Sequence[Tail]) -> str:
    return ", ".join(f"{tail_words(row.metric)} {ratio_words(row)} times" for row, _ in tails)


def _listed_bounds(tails: Sequence[Tail]) -> str:
    sides = {True: "at most", False: "at least"}
    return ", ".join(
        f"{tail_words(row.metric)} {sides[info.lower_is_better is not False]} {number_words(row.bound)} times"
        for row, info in tails
    )


def tail_words(metric: str) -> str:
    """Return the name of a metric of the tail in sentences."""
    return "longest wait" if metric == "max_wait_s" else metric_words(metric)


def _unrun_words(row: SummaryRow, base: SummaryRow | None) -> str:
    if not row.n_unfinished:
        return ""
    ours = f"it left {row.n_unfinished:,} of {row.n_jobs:,} jobs unrun"
    if base is not None and base.n_unfinished:
        return f"; {ours}, {base.candidate} {base.n_unfinished:,}"
    return f"; but {ours}"


def _mean_words(row: SummaryRow, form: Form) -> str:
    low, high = form.number(row.mean_low), form.number(row.mean_high)
    interval = "" if math.isnan(row.mean_low) else f" [{low}, {high}]"
    return f"{form.number(row.mean)}{interval}{f' {form.unit}' if form.unit else ''}"


def _p_words(p: float) -> str:
    return f"= {p:.2g}" if p >= 1e-4 else f"< {10.0 ** math.ceil(math.log10(p)):.0e}" if p > 0 else "= 0"


def _best_row(rows: Sequence[SummaryRow], info: MetricInfo) -> SummaryRow | None:
    """Return the row with the best ratio; with the best mean if none has a ratio, ``None`` without rows.

    Where neither side is better, it is the row with the lowest ratio.
    """
    known = [row for row in rows if not math.isnan(row.ratio)]
    return min(known or rows, key=lambda row: (row.n_unfinished > 0, *order_of_row(row, info)), default=None)


def order_of_row(row: SummaryRow, info: MetricInfo) -> tuple[bool, float, bool, float]:
    """Return a sort key of rows from the best ratio to the worst, those without one behind them by their means."""
    positions = [
        (math.isnan(value), 0.0 if math.isnan(value) else info.sign * value) for value in (row.ratio, row.mean)
    ]
    return (*positions[0], *positions[1])
