"""The folder of a finished comparison: written once, read by all that show it."""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pydantic import BaseModel, Field, field_validator

from hdrl.base.csvfiles import read_records, write_records
from hdrl.base.errors import ReadError, readable
from hdrl.base.files import atomic_write_bytes, read_json, without_nan, write_json
from hdrl.experiment.compare.cautions import Caution
from hdrl.experiment.compare.points import Point, PointResult, PointRunner
from hdrl.experiment.compare.selection import Selection
from hdrl.experiment.compare.summary import SummaryRow
from hdrl.experiment.compare.verdict import CRITERIA, Criteria
from hdrl.experiment.run.inputs import RESUME_FILE, SWEEP_FILE, setting_of, sweep_in
from hdrl.metrics.catalogue import MetricInfo
from hdrl.metrics.statistics import CONFIDENCE
from hdrl.options.reading import checked

SUMMARY_FILE = "summary.json"
RESULTS_FILE = "results.csv"
WEEKS_FILE = "weeks.csv"

FILES = (
    *(SUMMARY_FILE, SWEEP_FILE, RESUME_FILE, "summary.csv", RESULTS_FILE, "results.parquet", "selection.csv"),
    *(WEEKS_FILE, "provenance.json", "timing.json"),
)
"""Files of a comparison."""


@dataclass(frozen=True, slots=True)
class PeerBaseline:
    """The best of the classic policies that know as much as some candidates, chosen as the baseline is."""

    name: str  # the policy
    group: str  # the policies among which it is the best
    # these candidates over all workloads by the metric that decides; ratios refer to the rival
    rows: tuple[SummaryRow, ...]
    verdicts: tuple[str, ...]  # the same in words


@dataclass(frozen=True, slots=True)
class LookTaken:
    """The look of several after which a comparison ended."""

    # which, counted from 1, and how many were allowed
    number: int
    most: int
    level: float  # bound below which p had to stay at it


@dataclass(frozen=True, slots=True)
class Comparison:
    """A finished comparison."""

    folder: Path
    baseline: str  # the candidate that ratios refer to
    metric: str  # the metric that decides
    verdict: str  # its conclusion, in a sentence
    verdicts: tuple[str, ...]  # the same of each candidate
    cautions: tuple[Caution, ...]  # cautions for readers
    rows: tuple[SummaryRow, ...]  # the table
    # points that it consists of, and those that had to be simulated now
    n_points: int
    n_simulated: int
    metrics: Mapping[str, MetricInfo]  # definition of every metric of the setting
    # further opponents of candidates that have more information than the heuristics
    peer_baselines: tuple[PeerBaseline, ...] = ()
    verdict_metrics: tuple[str, ...] = ()  # the metrics with verdicts, the deciding one first
    tails: tuple[str, ...] = ()  # metrics of the tail beside it
    criteria: Criteria = CRITERIA  # criteria for equal, and for no worse
    look: LookTaken | None = None  # after which look it ended; ``None`` if there was to be one
    # tails that are in the table for the verdict alone, and not among the metrics that the sweep names
    added: tuple[str, ...] = ()


def read_comparison(folder: str | Path) -> Comparison:
    """Return a finished comparison from its folder."""
    folder = Path(folder)
    path = folder / SUMMARY_FILE
    summary = checked(_Summary, read_json(path), path, message="is not a summary of a comparison ({})", whole="it")
    if not summary.rows or summary.metric not in {row.metric for row in summary.rows}:
        raise ReadError(path, f"is not a summary of a comparison (it has no rows of {readable(summary.metric)})")
    setting, _ = setting_of(*sweep_in(folder), trust=False)
    found = dict(summary) | {"verdict_metrics": summary.verdict_metrics or (summary.metric,)}
    return Comparison(folder=folder, n_simulated=0, metrics=setting.measures.metrics, **found)


@dataclass(frozen=True, slots=True)
class Failure:
    """A candidate that could not be simulated to the end everywhere."""

    candidate: str
    # numbers of its failed simulations, and of all
    n_failed: int
    n_points: int
    first: str  # the first of them: which window, and why


def failures_in(folder: str | Path) -> list[Failure]:
    """Return the candidates of a finished comparison that failed somewhere, in the order of its files."""
    path = Path(folder) / RESULTS_FILE
    try:
        rows = read_records(path)
        n_points = Counter(row["candidate"] for row in rows)
        failed = [row for row in rows if row["problem"]]
        n_failed = Counter(row["candidate"] for row in failed)
        first = {
            row["candidate"]: f"window {row['window']} of {row['workload']}: {row['problem']}" for row in failed[::-1]
        }
    except KeyError:
        raise ReadError(path, "is not a table of results of a comparison") from None
    return [Failure(name, n, n_points[name], first[name]) for name, n in n_failed.items()]


def _filled_in(rows: Any) -> Any:
    """Return rows with NaN where JSON has no number; what are no rows is found wrong later."""
    if isinstance(rows, dict):
        return {name: math.nan if value is None else value for name, value in rows.items()}
    return [_filled_in(row) for row in rows] if isinstance(rows, list) else rows


class _Summary(BaseModel):
    """Summary of a comparison: fields of `Comparison`."""

    verdict: str
    verdicts: tuple[str, ...]
    cautions: tuple[Caution, ...] = Field(alias="warnings")
    baseline: str
    metric: str
    n_points: int
    rows: tuple[SummaryRow, ...]
    peer_baselines: tuple[PeerBaseline, ...] = Field((), alias="rivals")
    verdict_metrics: tuple[str, ...] = Field((), alias="asked")
    tails: tuple[str, ...] = ()
    criteria: Criteria = CRITERIA
    look: LookTaken | None = None
    added: tuple[str, ...] = ()

    @field_validator("rows", mode="before")
    @classmethod
    def _fill_in(cls, rows: object) -> object:
        return _filled_in(rows)

    @field_validator("peer_baselines", mode="before")
    @classmethod
    def _fill_in_peers(cls, peer_baselines: object) -> object:
        if not isinstance(peer_baselines, list):
            return peer_baselines
        return [one | {"rows": _filled_in(one.get("rows"))} if isinstance(one, dict) else one for one in peer_baselines]


def write_comparison(
    runner: PointRunner,
    comparison: Comparison,
    results: Mapping[Point, PointResult],
    selection: Selection | None,
    identity: Mapping[str, Any],
) -> None:
    """Write all files that are the same whenever the comparison is repeated; the one that marks the end comes last.

    ``results`` holds all points that candidates are judged by, ``identity`` all that makes it this comparison.
    """
    out, sweep = comparison.folder, runner.sweep
    # By candidate first: a file in the order in which people look at it.
    rank = {name: number for number, name in enumerate(dict.fromkeys(row.candidate for row in comparison.rows))}
    names = [candidate.name for candidate in runner.candidates]
    ordered = sorted(results, key=lambda point: (rank[names[point.candidate]], point.case, point.seed))
    table = []
    is_followed = any(case.follow_up for case in runner.cases)
    for point in ordered:
        case, result = runner.cases[point.case], results[point]
        row = {"candidate": names[point.candidate], "workload": case.workload, "window": case.window}
        row |= {"first_job": case.first_job, "warm_up": case.warm_up}
        row |= {"follow_up": case.follow_up} if is_followed else {}
        row |= {"seed": sweep.seed + point.seed}
        row |= {"offered_load": result.offered_load, **_counted(result.metrics), "problem": result.problem}
        table.append(row)
    write_records(out / RESULTS_FILE, table)
    _write_parquet(out / "results.parquet", table)
    weeks = [
        {"candidate": names[point.candidate], "workload": runner.cases[point.case].workload}
        | {"seed": sweep.seed + point.seed, "week": number, **_counted(metrics)}
        for point in ordered
        for number, metrics in enumerate(results[point].weeks)
    ]
    if weeks:
        write_records(out / WEEKS_FILE, weeks)
    if selection is not None:
        write_records(out / "selection.csv", selection.rows())
    rows = _as_json(comparison.rows)
    write_records(out / "summary.csv", rows)
    write_json(
        out / SUMMARY_FILE,
        {
            "verdict": comparison.verdict,
            "verdicts": comparison.verdicts,
            "warnings": [dataclasses.asdict(caution) for caution in comparison.cautions],
            "baseline": comparison.baseline,
            "metric": comparison.metric,
            "asked": comparison.verdict_metrics,
            "tails": comparison.tails,
            "added": comparison.added,
            "criteria": dataclasses.asdict(comparison.criteria),
            "confidence": sweep.confidence,
            "n_points": comparison.n_points,
            "chosen_by": None if selection is None else selection.words(),
            "rows": [without_nan(row) for row in rows],
            **({"look": dataclasses.asdict(comparison.look)} if comparison.look else {}),
            **(
                {"rivals": [_peer_as_json(peer) for peer in comparison.peer_baselines]}
                if comparison.peer_baselines
                else {}
            ),
        },
    )
    write_json(out / "provenance.json", {"identity": identity, "seed": sweep.seed})


def load_parquet() -> None:
    """Load polars, which writes Parquet, if it is there: that takes longer than to write the table."""
    with contextlib.suppress(ImportError):
        import polars  # noqa: F401 (it is in memory then)


def _write_parquet(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write rows with the same keys as Parquet; without polars there is no such file."""
    try:
        import polars
    except ImportError:
        path.unlink(missing_ok=True)
        return
    frame = polars.DataFrame({name: [row[name] for row in rows] for name in rows[0]}, strict=False)
    with atomic_write_bytes(path) as out:
        frame.write_parquet(out)


def _peer_as_json(peer: PeerBaseline) -> dict[str, Any]:
    return dataclasses.asdict(peer) | {"rows": [without_nan(row) for row in _as_json(peer.rows)]}


def _as_json(rows: Sequence[SummaryRow]) -> list[dict[str, Any]]:
    """Return the rows of a table; rare columns are there if they say anything."""
    data = [dataclasses.asdict(row) for row in rows]
    left_out = {name for names, says in _RARE.items() if not any(map(says, rows)) for name in names}
    return [{name: value for name, value in one.items() if name not in left_out} for one in data]


_RARE: Mapping[tuple[str, ...], Callable[[SummaryRow], bool]] = MappingProxyType(
    {
        ("is_contested",): lambda row: row.is_contested,
        ("confidence",): lambda row: row.confidence != CONFIDENCE,
        ("decides_as_baseline",): lambda row: row.decides_as_baseline,
        ("n_averaged",): lambda row: row.n_averaged > 0,
        ("n_weeks",): lambda row: row.n_weeks > 0,
        ("n_logs", "logs_ratio", "logs_low", "logs_high", "without_log", "without_ratio"): lambda row: row.n_logs > 0,
    }
)
"""Columns that a table has only if they say anything, and when they do."""


def _counted(metrics: Mapping[str, float]) -> dict[str, float | int | None]:
    """Return metrics as they stand in files: counts as whole numbers, ``None`` for what does not exist."""
    return {
        name: None if math.isnan(value) else int(value) if name.startswith("n_") else value
        for name, value in metrics.items()
    }
