"""The page of something that still runs: what a training or a comparison has come to so far."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hdrl.errors import HdrlError, ReadError
from hdrl.experiment.compare.pointstore import POINTS_FILE, read_points
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
from hdrl.report.page.parts import Cell, Chart, Column, Panel, Row, Table
from hdrl.report.page.report import build_report
from hdrl.report.runs import setting_of

TRAINING_FILE, RESULT_FILE = "training.csv", "metrics.json"
HIDDEN = ("probability.",)
"""How the columns of a training begin that are drawn, but too many to list."""


def is_finished(folder: Path) -> bool:
    """Tell whether nothing will change in a folder any more.

    Parameters
    ----------
    folder
        Folder of a run, a training or a comparison.
    """
    return is_comparison(folder) or (folder / RESULT_FILE).is_file() or (folder / "run_0").is_dir()


def live_page(folder: str | Path) -> str:
    """Return the page of a folder: the report if it is finished, else what is known by now.

    Parameters
    ----------
    folder
        Folder of a run, a training or a comparison.

    Raises
    ------
    HdrlError
        If it is none of them, or a library is missing.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise ReadError(folder, "no such folder")
    if is_finished(folder):
        return build_report([folder])
    if (folder / SWEEP_FILE).is_file():
        return _page_of_comparison(folder)
    if (folder / OPTIONS_FILE).is_file() or (folder / TRAINING_FILE).is_file():
        return _page_of_training(folder)
    raise ReadError(folder, "is no run, training or comparison")


def _page_of_training(folder: Path) -> str:
    columns = _columns_of(folder)
    n_done = len(next(iter(columns.values()), ()))
    planned = _planned(read_object(folder / OPTIONS_FILE))
    of = f" of {planned:,}" if planned else ""
    run = Run(folder.name, folder, None, None, None, {}, None, {}, {}, None)
    charts: dict[str, list[Chart]] = {}
    for figure in figures_of(setting_of(folder)).values():
        for on_page in figure.on_page if figure.reads == "trainings" and n_done else ():
            drawn = chart_of(figure, on_page, [(0, run)])
            if drawn is not None:
                charts.setdefault(on_page.tab, []).append(drawn)
    shown = {name: values for name, values in columns.items() if not name.startswith(HIDDEN)}
    rows = [Row(name, [Cell(_last(values))]) for name, values in shown.items()]
    table = Table("Latest values", "number", [Column("value")], rows)
    panels = [*(Panel(tab, parts) for tab, parts in charts.items()), Panel("Numbers", [table])]
    verdict = f"{n_done:,}{of} iterations are done."
    findings = Findings(f"How far along is the training in {folder.name}?", verdict, "The page refreshes itself.", ())
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


def _page_of_comparison(folder: Path) -> str:
    setting = setting_of(folder)
    asked = read_object(folder / SWEEP_FILE).get("metrics") or setting.default_metrics
    metric = asked[0]
    found = read_points(folder / POINTS_FILE, setting.metrics)
    by_candidate: dict[str, list[float]] = {}
    for key, result in found.items():
        by_candidate.setdefault(key.split("/", 1)[1].rsplit("/", 1)[0], []).append(result.metrics[metric])
    rows = [
        Row(name, [Cell(f"{len(values):,}"), Cell(_mean(values))])
        for name, values in sorted(by_candidate.items(), key=lambda one: one[0])
    ]
    columns = [Column("simulations"), Column(f"mean {metric_words(metric).removeprefix('mean ')} so far")]
    table = Table("What is simulated", "candidate", columns, rows)
    findings = Findings(
        f"How far along is the comparison in {folder.name}?",
        f"{len(found):,} simulations are done.",
        "The verdict waits for all of them: the first windows are no random sample. The page refreshes itself.",
        (),
    )
    return render(findings, [("folder", folder.name)], [Panel("So far", [table])], {}, {})


def _mean(values: list[float]) -> str:
    known = [value for value in values if math.isfinite(value)]
    return number_words(math.fsum(known) / len(known)) if known else "-"
