"""The page of a training or a comparison that still runs: its results so far."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hdrl.base.errors import HdrlError, ReadError
from hdrl.base.pyfiles import trust_words
from hdrl.experiment.compare.held_out import PROTOCOLS
from hdrl.experiment.compare.held_out import RESULT_FILE as HELD_OUT_FILE
from hdrl.experiment.compare.points import PointResult
from hdrl.experiment.compare.pointstore import UnfinishedComparison, read_unfinished
from hdrl.experiment.compare.robust import AS_REQUESTED_FOLDER as AS_REQUESTED
from hdrl.experiment.compare.robust import RESULT_FILE as ROBUST_FILE
from hdrl.experiment.locks import is_held
from hdrl.experiment.run.inputs import SWEEP_FILE
from hdrl.figures.figure import Run
from hdrl.figures.folders import OPTIONS_FILE, read_object
from hdrl.figures.logs import training_table
from hdrl.figures.numbers import metric_words, number_words
from hdrl.report.comparison import is_comparison
from hdrl.report.drawing import figures_of
from hdrl.report.page.charts import chart_of
from hdrl.report.page.findings import Findings
from hdrl.report.page.page import render
from hdrl.report.page.parts import Cell, Chart, PageColumn, PageTable, Panel, Row
from hdrl.report.page.report import build_report
from hdrl.report.runs import setting_of

TRAINING_FILE, RESULT_FILE = "training.csv", "metrics.json"
BETWEEN_RUNS_S = 10.0
"""For how long there may be nothing between two runs of a folder."""

HIDDEN = ("probability.",)
"""Prefixes of the columns of a training that are drawn, but too many to list."""


def is_finished(folder: Path) -> bool:
    """Return whether nothing will change in a folder any more."""
    if _parts(folder):
        return (folder / HELD_OUT_FILE).is_file() or (folder / ROBUST_FILE).is_file()
    return is_comparison(folder) or (folder / RESULT_FILE).is_file() or (_has_runs(folder) and not _makes_runs(folder))


def _parts(folder: Path) -> list[Path]:
    """Return the comparisons in a folder with one for each protocol or condition, in the order of their beginnings."""
    if (folder / AS_REQUESTED).is_dir():
        sweeps = sorted(folder.glob(f"*/{SWEEP_FILE}"), key=lambda sweep: sweep.stat().st_mtime_ns)
        return [sweep.parent for sweep in sweeps]
    return [folder / name for name in PROTOCOLS if (folder / name).is_dir()]


def _shown(folder: Path) -> Path:
    """Return the folder whose page is shown: of several comparisons, the last one, or the first when all are done."""
    parts = _parts(folder)
    if not parts:
        return folder
    if not is_finished(folder):
        return parts[-1]
    return folder / AS_REQUESTED if folder / AS_REQUESTED in parts else parts[0]


def _has_runs(folder: Path) -> bool:
    return (folder / "run_0").is_dir()


def _makes_runs(folder: Path) -> bool:
    """Return whether another run is on its way: each appears when it is complete, and is hidden until then."""
    if any(folder.glob(".run_*")):
        return True
    return time.time() - max(run.stat().st_mtime for run in folder.glob("run_*")) < BETWEEN_RUNS_S


def live_page(folder: str | Path) -> str:
    """Return the page of a folder: the report if it is finished, else what is known by now."""
    folder = Path(folder)
    if not folder.is_dir():
        if folder.exists():
            raise ReadError(folder, "is a file, expected the folder of a run, a training or a comparison")
        raise ReadError(folder, "no such folder; a run creates it after it has read its inputs")
    shown = _shown(folder)
    if is_finished(shown) or _has_runs(folder):
        return build_report([shown])
    if (shown / SWEEP_FILE).is_file():
        more = trust_words(read_object(shown / SWEEP_FILE))
        again = f"hdrl compare --resume --out {folder}{more}" if shown == folder else "the same command"
        return _page_of_comparison(shown, str(shown.relative_to(folder.parent)), again)
    if (folder / OPTIONS_FILE).is_file() or (folder / TRAINING_FILE).is_file():
        return _page_of_training(folder)
    raise ReadError(folder, "is not the folder of a run, a training or a comparison, or holds no results yet")


REFRESHES = "The page refreshes itself."


def _certainty(waits: str, command: str, *, is_worked_on: bool | None) -> str:
    """Return the line below the progress: what it waits for, or how to resume it."""
    if is_worked_on is False:
        return f"No process works on it any more: it was stopped. To go on: {command}"
    return f"{waits} {REFRESHES}".strip()


def page_of_problem(folder: Path, problem: str) -> str:
    """Return a page that says why there is nothing else to see."""
    findings = Findings(f"Results in {folder.name}", problem, REFRESHES, ())
    return render(findings, [("folder", folder.name)], [], {}, {})


def _page_of_training(folder: Path) -> str:
    columns = _columns_of(folder)
    n_done = len(next(iter(columns.values()), ()))
    planned = _planned(read_object(folder / OPTIONS_FILE))
    of = f" of {planned:,}" if planned else ""
    # The last simulation and its files come after the last iteration.
    is_worked_on = None if planned and n_done >= planned else is_held(folder)
    run = Run(folder.name, folder, None, None, None, {}, None, {}, {}, None)
    charts: dict[str, list[Chart]] = {}
    for figure in figures_of(setting_of(folder)).values():
        for on_page in figure.on_page if figure.reads == "trainings" and n_done else ():
            drawn = chart_of(figure, on_page, [(0, run)])
            if drawn is not None:
                charts.setdefault(on_page.tab, []).append(drawn)
    shown = {name: values for name, values in columns.items() if not name.startswith(HIDDEN)}
    rows = [Row(name, [Cell(_last(values))]) for name, values in shown.items()]
    table = PageTable("Latest values", "number", [PageColumn("value")], rows)
    panels = [*(Panel(tab, parts) for tab, parts in charts.items()), Panel("Numbers", [table])]
    verdict = f"{n_done:,}{of} iterations are done."
    more = trust_words(read_object(folder / OPTIONS_FILE))
    certainty = _certainty("", f"hdrl-launch --resume {folder}{more}", is_worked_on=is_worked_on)
    findings = Findings(f"Progress of the training in {folder.name}", verdict, certainty, ())
    return render(findings, [("folder", folder.name)], panels, {}, {})


def _columns_of(folder: Path) -> Mapping[str, Any]:
    """Return the table of a training; nothing before its first row, or while one is written."""
    try:
        return training_table(folder, TRAINING_FILE)
    except HdrlError:
        return {}


def _planned(options: Mapping[str, Any]) -> int:
    learning = options.get("learning")
    iterations = learning.get("iterations") if isinstance(learning, dict) else None
    runs = options.get("runs", 1)
    return iterations * runs if isinstance(iterations, int) and isinstance(runs, int) else 0


def _last(values: Any) -> str:
    known = [float(value) for value in values if math.isfinite(value)]
    if known and known[-1].is_integer() and abs(known[-1]) < 1e6:  # a count, not a measurement
        return f"{int(known[-1]):,}"
    return number_words(known[-1]) if known else "-"


def _page_of_comparison(folder: Path, name: str, again: str) -> str:
    setting = setting_of(folder)
    compared = read_object(folder / SWEEP_FILE).get("metrics") or setting.measures.compared
    found = read_unfinished(folder, setting.measures.metrics)
    findings = Findings(
        f"Progress of the comparison in {name}",
        f"{len(found.points):,}{_of(found)} simulations are done.",
        _certainty(
            "The verdict waits for all of them: the first windows are not a random sample.",
            again,
            is_worked_on=found.is_worked_on,
        ),
        tuple(_failures(found.points)),
    )
    judging: dict[str, PointResult] = {}
    choosing: dict[str, PointResult] = {}
    for key, result in found.points.items():
        is_judging = found.scope is None or int(key.partition("/")[0]) < found.scope.n_cases
        (judging if is_judging else choosing)[key] = result
    tables = [_points_table("Finished simulations", judging, compared[0])]
    if choosing:
        tables.append(_points_table("Simulations on other windows, to choose the baseline", choosing, compared[0]))
    return render(findings, [("folder", name)], [Panel("Progress", tables)], {}, {})


def _of(found: UnfinishedComparison) -> str:
    scope = found.scope
    if scope is None:
        return ""
    at_least = "at least " if scope.may_grow else ""
    return f" of {at_least}{max(scope.n_points, len(found.points)):,}"


def _candidate_of(key: str) -> str:
    return key.split("/", 1)[1].rsplit("/", 1)[0]


def _failures(points: Mapping[str, PointResult]) -> list[str]:
    """Return a sentence about each candidate that has failed."""
    n_points = Counter(map(_candidate_of, points))
    failed = [(_candidate_of(key), result.problem) for key, result in points.items() if result.problem]
    n_failed, first = Counter(name for name, _ in failed), dict(reversed(failed))
    return [
        f"{name} failed in {n_failed[name]:,} of {n_points[name]:,} simulations; the first: {first[name]}"
        for name in sorted(n_failed)
    ]


def _points_table(caption: str, points: Mapping[str, PointResult], metric: str) -> PageTable:
    by_candidate: dict[str, list[float]] = {}
    for key, result in points.items():
        by_candidate.setdefault(_candidate_of(key), []).append(result.metrics[metric])
    rows = [
        Row(name, [Cell(f"{len(values):,}"), Cell(_mean(values))])
        for name, values in sorted(by_candidate.items(), key=lambda one: one[0])
    ]
    columns = [PageColumn("simulations"), PageColumn(f"mean {metric_words(metric).removeprefix('mean ')} so far")]
    return PageTable(caption, "candidate", columns, rows)


def _mean(values: list[float]) -> str:
    known = [value for value in values if math.isfinite(value)]
    return number_words(math.fsum(known) / len(known)) if known else "-"
