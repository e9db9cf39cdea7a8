"""Results of a switchback experiment so far, valid however often one looks."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from hdrl.base.arguments import paths_of
from hdrl.base.errors import OptionsError
from hdrl.experiment.compare.summary import ALL, SummaryRow
from hdrl.experiment.compare.verdict import Tail, is_better, verdict
from hdrl.metrics.statistics import Interval, anytime_interval, anytime_p, fewest_pairs
from hdrl.metrics.words import metric_words, number_words
from hdrl.site.ab.blocks import FEWEST_JOBS, MeasuredBlock, MeasuredBlocks, measure_blocks, read_dumps
from hdrl.site.ab.plan import DAY_S, METRICS, AbPlan
from hdrl.site.joining import CANCELLED

FloatArray = NDArray[np.float64]

TAILS: Final = ("p99_wait_s", "max_wait_s")
OTHERS: Final = ("mean_wait_s", "median_wait_s", "mean_turnaround_s", "mean_bounded_slowdown")
"""Metrics that stand beside the one that decides."""

MOST_LOOKS = 40
"""Looks of which the interval is computed."""

MOST_CARRIED = 0.1
"""Share of jobs that start after the end of their block above which a note warns."""

TOO_FEW = f"a block with fewer than {FEWEST_JOBS} jobs"
NOT_OVER = "a block that is not settled yet"
NO_RATIO = "a block whose metric is 0"


@dataclass(frozen=True, slots=True)
class AbChoices:
    """Choices for reading the accounting.

    Attributes
    ----------
    form
        Format of the files, ``"auto"``: by their first lines.
    zone
        Time zone of dates that say none; ``None``: the zone of the plan.
    cluster
        Name of the cluster, where the accounting covers several.
    """

    form: str = "auto"
    zone: str | None = None
    cluster: str | None = None


def analyze_ab(
    plan: AbPlan, dumps: str | Path | Sequence[str | Path], choices: AbChoices | None = None
) -> dict[str, Any]:
    """Return the analysis of two policies that took turns, from the accounting.

    Returns
    -------
    dict[str, Any]
        The answer, as JSON.

    Raises
    ------
    OptionsError
        If there is no file.
    HdrlError
        If a file cannot be read.
    """
    if not (paths := paths_of(dumps)):
        raise OptionsError("no file given, expected at least one with accounting data")
    choices = choices or AbChoices()
    dump = read_dumps(paths, choices.zone or plan.zone, choices.form, choices.cluster)
    return answer_of(plan, measure_blocks(plan, dump))


def answer_of(plan: AbPlan, measured: MeasuredBlocks) -> dict[str, Any]:
    """Return the results from the numbers of the blocks, as JSON."""
    pairs = settled_pairs(plan, measured)
    rows = {metric: _row(plan, metric, pairs, measured) for metric in dict.fromkeys((plan.metric, *TAILS, *OTHERS))}
    row = rows[plan.metric]
    info = METRICS[plan.metric]
    n = row.n_windows
    over = f"{n} pair{'' if n == 1 else 's'} of blocks"
    least = fewest_pairs(plan.confidence)
    tails = [Tail(rows[name], METRICS[name]) for name in TAILS if name != plan.metric and rows[name].n_windows >= least]
    if n == 0:
        words = f"Nothing can be said yet: no pair of blocks has settled ({_date(measured.seen_until_s)})."
    elif n < least:
        words = (
            f"{plan.policies[1]} has {number_words(row.ratio)} times the {metric_words(plan.metric)} of "
            f"{plan.policies[0]} over {over}: fewer than {least} cannot show a difference."
        )
    else:
        words = verdict(row, plan.policies[0], info, tails=tails, over=over)
    shown = np.flatnonzero(anytime_p(differences_of(pairs, plan.metric)[0]) < row.level)
    return {
        "policies": plan.policies,
        "metric": plan.metric,
        "confidence": plan.confidence,
        "verdict": words,
        "certainty": _certainty(plan),
        "is_better": is_better(row, info) if n else None,
        "n_pairs": n,
        "planned_pairs": plan.n_pairs,
        "seen_until": _date(measured.seen_until_s),
        "first_shown": _settled(differences_of(pairs, plan.metric)[1][shown[0]]) if len(shown) else None,
        "notes": [*_notes(plan, measured, n), *(f"{note[:1].upper()}{note[1:]}." for note in measured.notes)],
        "metrics": {name: _numbers(one) for name, one in rows.items()},
        "looks": _looks(plan, pairs),
        "pairs_left_out": _pairs_left_out(plan, measured),
        "rows": {"read": measured.n_rows, "skipped": dict(measured.skipped)},
        "jobs": {
            "ids": measured.n_jobs,
            "counted": {
                policy: sum(block.n_jobs for block in measured.blocks if block.policy == policy)
                for policy in plan.policies
            },
            "left_out": {reason: dict(counts) for reason, counts in measured.left_out.items()},
        },
        "blocks": [_block(block, plan.metric) for block in measured.blocks],
    }


Pairs = list[tuple[MeasuredBlock, MeasuredBlock]]


def settled_pairs(plan: AbPlan, measured: MeasuredBlocks) -> Pairs:
    """Return the settled pairs in the order in which they settled, the candidate's block first."""
    of_pair: dict[int, dict[str, MeasuredBlock]] = {}
    for block in measured.blocks:
        of_pair.setdefault(block.pair, {})[block.policy] = block
    found = [(those[plan.policies[1]], those[plan.policies[0]]) for those in of_pair.values()]
    found = [pair for pair in found if all(one.is_settled for one in pair)]
    return sorted(found, key=lambda pair: max(one.settled_s for one in pair))


def _pairs_left_out(plan: AbPlan, measured: MeasuredBlocks) -> dict[str, int]:
    settled = settled_pairs(plan, measured)
    few = sum(not (ours.numbers and theirs.numbers) for ours, theirs in settled)
    zero = len(settled) - few - len(differences_of(settled, plan.metric)[0])
    counts = {NOT_OVER: plan.n_pairs - len(settled), TOO_FEW: few, NO_RATIO: zero}
    return {reason: n for reason, n in counts.items() if n}


def differences_of(pairs: Pairs, metric: str) -> tuple[FloatArray, Pairs]:
    """Return the logarithm of the ratio of each pair that has one, and these pairs."""
    known = [pair for pair in pairs if all(one.numbers.get(metric, 0.0) > 0 for one in pair)]
    logs = [math.log(ours.numbers[metric]) - math.log(theirs.numbers[metric]) for ours, theirs in known]
    return np.array(logs), known


def _row(plan: AbPlan, metric: str, pairs: Pairs, measured: MeasuredBlocks) -> SummaryRow:
    """Return a metric as a row of a comparison, whose windows are the pairs."""
    differences, known = differences_of(pairs, metric)
    interval = _ratio(differences, plan.confidence)
    p = float(anytime_p(differences)[-1]) if len(differences) else math.nan
    # One side of twice the level: what the bound of a tail needs.
    bound = _ratio(differences, 2 * plan.confidence - 1).high
    values = [ours.numbers[metric] for ours, _ in known]
    n_jobs = sum(block.n_jobs for block in measured.blocks)
    return SummaryRow(
        workload=ALL,
        metric=metric,
        unit=METRICS[metric].unit,
        candidate=plan.policies[1],
        is_baseline=False,
        n_windows=len(differences),
        n_seeds=1,
        mean=float(np.mean(values)) if values else math.nan,
        mean_low=math.nan,
        mean_high=math.nan,
        ratio=interval.value,
        ratio_low=interval.low,
        ratio_high=interval.high,
        p=p,
        p_holm=p,
        p99=math.nan,
        worst=math.nan,
        log_sd=float(np.std(differences, ddof=1)) if len(differences) > 1 else math.nan,
        n_jobs=n_jobs,
        n_unfinished=0,
        n_failed=0,
        bound=bound,
        confidence=plan.confidence,
    )


def _ratio(differences: FloatArray, confidence: float) -> Interval:
    return Interval(*(_exp(one) for one in anytime_interval(differences, confidence)))


def _exp(value: float) -> float:
    return value if math.isnan(value) else math.inf if value > 700 else math.exp(value)


def _looks(plan: AbPlan, pairs: Pairs) -> list[dict[str, Any]]:
    """Return the result of each look, or of some of many."""
    differences, known = differences_of(pairs, plan.metric)
    if not len(differences):
        return []
    p = anytime_p(differences).tolist()
    n = len(differences)
    chosen = np.unique(np.linspace(1, n, min(n, MOST_LOOKS)).round().astype(int)).tolist()
    looks = []
    for many in chosen:
        ratio, low, high = _ratio(differences[:many], plan.confidence)
        looks.append(
            {
                "date": _settled(known[many - 1]),
                "pairs": many,
                "ratio": ratio,
                "low": low or None,
                "high": _finite(high),
                "p": p[many - 1],
            }
        )
    return looks


def _numbers(row: SummaryRow) -> dict[str, Any]:
    return {
        "pairs": row.n_windows,
        "ratio": _finite(row.ratio),
        "low": _finite(row.ratio_low) or None,
        "high": _finite(row.ratio_high),
        "bound": _finite(row.bound),
        "p": _finite(row.p),
    }


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _block(block: MeasuredBlock, metric: str) -> dict[str, Any]:
    return {
        "begin": block.begin,
        "end": block.end,
        "policy": block.policy,
        "pair": block.pair,
        "is_settled": block.is_settled,
        "jobs": block.n_jobs,
        "carried_over": block.n_carried,
        "still_waiting": block.n_waiting,
        "still_running": block.n_running,
        metric: block.numbers.get(metric),
    }


def _settled(pair: tuple[MeasuredBlock, MeasuredBlock]) -> str:
    return _date(max(one.settled_s for one in pair))


def _date(seconds: float) -> str:
    if not math.isfinite(seconds):
        return "no date"
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M UTC")


def _certainty(plan: AbPlan) -> str:
    return (
        f"The {100 * plan.confidence:.10g} % interval and p hold at all looks together: look as often as you like, and "
        "stop when you like."
    )


def _notes(plan: AbPlan, measured: MeasuredBlocks, n_pairs: int) -> Iterator[str]:
    settled = [block for block in measured.blocks if block.is_settled]
    n_jobs = sum(block.n_jobs for block in settled)
    n_carried = sum(block.n_carried for block in settled)
    if n_carried > MOST_CARRIED * n_jobs:
        yield (
            f"{n_carried:,} of {n_jobs:,} jobs started after the end of their block, so that the other policy decided, "
            "too. That makes the difference look smaller than it is; plan longer blocks."
        )
    n_waiting = sum(block.n_waiting for block in settled)
    if n_waiting:
        yield (
            f"{n_waiting:,} jobs still waited {plan.settle_s / 3600:g} h after the end of their block: they count with "
            "their wait until then, and with their limit as run time."
        )
    counts = {name: sum(block.n_jobs for block in settled if block.policy == name) for name in plan.policies}
    if n_pairs and max(counts.values()) > 1.25 * max(1, min(counts.values())):
        counted = " and ".join(f"{n:,} under {name}" for name, n in counts.items())
        yield f"{counted} jobs count: users may submit more under one policy, which no ratio of waits shows."
    never = measured.left_out.get(CANCELLED, Counter())
    if sum(never.values()):
        counted = " and ".join(f"{never.get(name, 0):,} under {name}" for name in plan.policies)
        yield f"Jobs that users cancelled while they waited do not count: {counted}."
    if n_pairs:
        yield "The interval assumes the same ratio in all pairs; the bound on false alarms does not."
    if n_pairs == plan.n_pairs or not settled:
        return
    left = (datetime.fromisoformat(plan.blocks[-1].end).timestamp() + plan.settle_s - measured.seen_until_s) / DAY_S
    if left > 0:
        yield f"The plan goes on for {math.ceil(left)} days."
