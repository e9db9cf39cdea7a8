"""The same candidates by three protocols in one go: what windows hide, a whole run shows.

``windows``: each begins with an empty machine. ``padded``: jobs before each window fill the machine, and jobs after it
keep arriving, so that nothing is gained by putting jobs off to its end. ``continuous``: the whole log is simulated, and
the jobs of the range count. The opponents are chosen once, for windows, by the part of the logs before the range.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hdrl.base.errors import OptionsError, UnknownName
from hdrl.base.files import without_nan, write_json
from hdrl.experiment.compare.comparison import CompareProgress, run_comparison
from hdrl.experiment.compare.files import Comparison
from hdrl.experiment.compare.selection import BEST
from hdrl.experiment.compare.summary import ALL, WAITS, SummaryRow, deciding_rows
from hdrl.experiment.compare.verdict import Tail, is_better, ratio_words, tail_words
from hdrl.experiment.plan import setting_for
from hdrl.metrics.catalogue import MetricInfo
from hdrl.metrics.statistics import CONFIDENCE
from hdrl.options.sweep import Sweep
from hdrl.setting import Setting

DEFAULT_LENGTH = 1024
DEFAULT_RANGE = (0.7, 1.0)

WARM_UP, FOLLOW_UP = 0.375, 0.625
"""Jobs before and after a padded window, as shares of its own."""

PROTOCOLS = ("windows", "padded", "continuous")
HELD_OUT = "held-out"
RESULT_FILE = "held_out.json"

TAIL_METRICS = ("p99_wait_s", "max_wait_s", "user_fairness")
"""Metrics that stand beside every ratio, where a setting has them."""


@dataclass(frozen=True, slots=True)
class HeldOutRow:
    """A candidate by one protocol, over all workloads."""

    protocol: str
    candidate: str
    n_windows: int
    # geometric mean of the ratio to the best heuristic, with its interval; NaN where one window gives none
    ratio: float
    ratio_low: float
    ratio_high: float
    peer: str  # the best of the classic policies with the same predictions; empty if it predicts nothing
    # the same of the ratio to it
    peer_ratio: float
    peer_low: float
    peer_high: float
    tail: Mapping[str, float]  # means over windows of `TAIL_METRICS`, by name
    confidence: float = CONFIDENCE  # share of intervals that would hold the true value


@dataclass(frozen=True, slots=True)
class HeldOut:
    """Results of all three protocols."""

    folder: Path  # folder of the comparisons, a folder each, and of `RESULT_FILE`
    baseline: str  # the best heuristic
    metric: str
    rows: tuple[HeldOutRow, ...]
    cautions: tuple[str, ...]  # cautions of the comparisons, and where a mean wins and a tail loses
    confidence: float  # share of intervals that would hold the true value


def by_protocol(sweep: Sweep, protocol: str) -> Sweep:
    """Return a sweep whose windows are simulated by a protocol."""
    if protocol not in PROTOCOLS:
        raise UnknownName("protocol", protocol, [*PROTOCOLS, HELD_OUT])
    given = sweep.windows
    if given is not None and (given.warm_up or given.follow_up or given.length == "all" or given.starts is not None):
        raise OptionsError(f"{sweep.where}: the protocol sets what is simulated; leave out all but --windows LENGTH")
    length = DEFAULT_LENGTH if given is None or given.length == "all" else given.length
    count = None if given is None else given.count
    windows: dict[str, Any] = {"length": length, "count": count, "up_to": None if given is None else given.up_to}
    if protocol == "padded":
        windows |= {"warm_up": round(WARM_UP * length), "follow_up": round(FOLLOW_UP * length)}
    if protocol == "continuous":
        if sweep.loads:
            raise OptionsError(
                f"{sweep.where}: loads are as long as a window, and protocol 'continuous' simulates whole logs;"
                " give workloads (-w FILE)"
            )
        windows = {"length": "all", "warm_up": "all"}
    share = list(DEFAULT_RANGE) if sweep.range == [0.0, 1.0] else sweep.range
    data = sweep.model_dump() | {"windows": windows, "range": share}
    return type(sweep).model_validate(data).located(sweep.where, sweep.folder)


def run_held_out(
    sweep: Sweep,
    *,
    out: str | Path,
    n_workers: int | None = None,
    on: str = "local",
    progress: CompareProgress | None = None,
) -> HeldOut:
    """Compare candidates by all three protocols.

    Windows say how long they are; without a range, the last 30 % of each log judges.
    """
    out, progress = Path(out), progress or CompareProgress()
    sweep = _with_tail(sweep, setting_for(sweep))
    found: dict[str, Comparison] = {}
    peer_baselines: dict[str, str] = {}
    for protocol, planned in [(protocol, by_protocol(sweep, protocol)) for protocol in PROTOCOLS]:
        if found:
            planned = planned.model_copy(update={"baseline": found["windows"].baseline})
        progress.message(f"{protocol}:")
        found[protocol] = run_comparison(
            planned,
            out=out / protocol,
            n_workers=n_workers,
            on=on,
            progress=progress,
            peer_baselines=peer_baselines or None,
        )
        peer_baselines = {one.group: one.name for one in found["windows"].peer_baselines}
    first = found["windows"]
    rows = tuple(row for protocol, one in found.items() for row in _rows(protocol, one, first))
    sentences = (*_cautions_of(found), *tail_cautions(found, is_chosen=(sweep.baseline or "").startswith(BEST)))
    result = HeldOut(out, first.baseline, first.metric, rows, sentences, sweep.confidence)
    write_json(
        out / RESULT_FILE,
        {
            "baseline": result.baseline,
            "metric": result.metric,
            "warnings": result.cautions,
            "rows": [_as_json(row) for row in rows],
        },
    )
    return result


def _with_tail(sweep: Sweep, setting: Setting) -> Sweep:
    metrics = list(sweep.metrics or setting.measures.compared[:1])
    metrics += [name for name in TAIL_METRICS if name in setting.measures.metrics and name not in metrics]
    return sweep.model_copy(update={"metrics": metrics})


def _rows(protocol: str, comparison: Comparison, first: Comparison) -> Iterator[HeldOutRow]:
    tails = {
        (row.candidate, row.metric): row.mean
        for row in comparison.rows
        if row.workload == ALL and row.metric in TAIL_METRICS
    }
    against = {
        row.candidate: (peer.name, row.ratio, row.ratio_low, row.ratio_high)
        for peer in comparison.peer_baselines
        for row in peer.rows
    }
    for row in comparison.rows:
        if row.workload != ALL or row.metric != first.metric:
            continue
        peer, ratio, low, high = against.get(row.candidate, ("", math.nan, math.nan, math.nan))
        yield HeldOutRow(
            protocol=protocol,
            candidate=row.candidate,
            n_windows=row.n_windows,
            ratio=row.ratio,
            ratio_low=row.ratio_low,
            ratio_high=row.ratio_high,
            peer=peer,
            peer_ratio=ratio,
            peer_low=low,
            peer_high=high,
            confidence=row.confidence,
            tail={name: tails[row.candidate, name] for name in TAIL_METRICS if (row.candidate, name) in tails},
        )


def _cautions_of(found: Mapping[str, Comparison]) -> Iterator[str]:
    """Yield the cautions of the comparisons, each sentence once."""
    protocols_of: dict[str, list[str]] = {}
    for protocol, comparison in found.items():
        for caution in comparison.cautions:
            if protocol != "continuous" or caution.kind != "powerless":  # one window: its ratio has no interval
                protocols_of.setdefault(caution.text, []).append(protocol)
    for text, protocols in protocols_of.items():
        yield text if len(protocols) == len(found) else f"{', '.join(protocols)}: {text}"


def tail_cautions(found: Mapping[str, Comparison], *, is_chosen: bool) -> Iterator[str]:
    """Warn of candidates that are better on the mean and worse in the tail, and of a chosen baseline's bad tail."""
    for protocol, comparison in found.items():
        info, criteria = comparison.metrics[comparison.metric], comparison.criteria
        for row in deciding_rows(comparison.rows, comparison.metric):
            tails = [
                Tail(one, comparison.metrics[name])
                for name in WAITS
                if name in comparison.metrics
                for one in deciding_rows(comparison.rows, name)
                if one.candidate == row.candidate
            ]
            worse = [tail for tail in tails if _is_apart(tail, criteria.tail_margin, better=False)]
            if worse and _is_ahead(row, info):
                yield (
                    f"{protocol}: {row.candidate} is better than {comparison.baseline} on the mean "
                    f"({ratio_words(row)}), and worse in the tail ({_factors(worse)})"
                )
            better = [tail for tail in tails if _is_apart(tail, criteria.tail_margin, better=True)]
            if better and is_chosen:
                yield (
                    f"{protocol}: {comparison.baseline} was chosen by its mean, and its tail is worse than that of "
                    f"{row.candidate}, which has {_factors(better)} times its own"
                )


def _is_ahead(row: SummaryRow, info: MetricInfo) -> bool:
    """Return whether a mean is better by all that the protocol can show: one run may have no interval."""
    if not math.isnan(row.ratio_low):
        return is_better(row, info) is True
    return row.ratio != 1 and info.side(row.ratio) == "better"


def _is_apart(tail: Tail, margin: float, *, better: bool) -> bool:
    """Return whether a tail differs to one side by more than the margin, and not by chance where that is known."""
    row, info = tail
    less = info.lower_is_better is not False
    is_beyond = row.ratio < 1 / margin if better == less else row.ratio > margin
    return is_beyond and (math.isnan(row.ratio_low) or is_better(row, info) is better)


def _factors(tails: Sequence[Tail]) -> str:
    return ", ".join(f"{tail_words(row.metric)} {ratio_words(row)}" for row, _ in tails)


def _as_json(row: HeldOutRow) -> dict[str, Any]:
    """Return a row under the keys of the file, in which a peer is called a rival."""
    data = dataclasses.asdict(row)
    renamed = {name.replace("peer", "rival"): value for name, value in without_nan(data).items()}
    return {**renamed, "tail": without_nan(data["tail"])}
