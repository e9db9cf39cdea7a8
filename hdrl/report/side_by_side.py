"""Metrics of runs of any setting side by side."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hdrl.base.errors import OptionsError
from hdrl.figures.figure import Run
from hdrl.figures.folders import distinct_names
from hdrl.figures.metrics_bars import MOST_BARS, metrics_bars
from hdrl.metrics.side_by_side import SideBySide, check_metrics
from hdrl.report.runs import folders_of_runs, setting_of


def side_by_side(
    folders: Sequence[str | Path], *, names: Sequence[str] = (), metrics: Sequence[str] | None = ()
) -> SideBySide:
    """Read the metrics of runs.

    ``names`` has one for each run, "" where it keeps its own; by default the names of the folders. ``metrics`` are
    ``()`` for those that the setting shows after a run, ``None`` for all.
    """
    paths = folders_of_runs(folders)
    if names and len(names) != len(paths):
        raise OptionsError(f"number of names: {len(names)}, of runs: {len(paths)}; expected a name for each run")
    setting, own = setting_of(paths[0]), distinct_names(paths)
    given = [name or mine for name, mine in zip(names, own, strict=True)] if names else own
    return compare_runs([setting.view.read(path, name) for path, name in zip(paths, given, strict=True)], metrics)


def compare_runs(runs: Sequence[Run], metrics: Sequence[str] | None = ()) -> SideBySide:
    """Return the metrics of runs that have been read; see `side_by_side`."""
    setting = setting_of(runs[0].folder)
    infos, measures = setting.measures.metrics, setting.measures
    chosen = list(infos) if metrics is None else list(metrics) or _with_numbers(runs, measures.shown)
    check_metrics(chosen, infos)
    counts = [name for name in ("n_jobs", *measures.unrun) if name in infos and name not in chosen]
    values = {name: [run.metrics.get(name, math.nan) for run in runs] for name in (*counts, *chosen)}
    usual = list(dict.fromkeys((*measures.compared, *measures.headline)))
    drawn = [name for name in (metrics or usual) if name not in ("n_jobs", "n_finished", *measures.unrun)]
    values |= {name: [run.metrics.get(name, math.nan) for run in runs] for name in drawn if name not in values}
    differences = tuple(_differences(runs, values, measures.unrun))
    return SideBySide(tuple(run.name for run in runs), infos, values, tuple(drawn[:MOST_BARS]), differences)


def bars(runs: Sequence[Run]) -> Any:
    """Draw the metrics that a setting compares, a bar for each run."""
    table = compare_runs(runs)
    return metrics_bars(table.by_run, {name: table.infos[name] for name in table.drawn})


def _with_numbers(runs: Sequence[Run], names: Sequence[str]) -> list[str]:
    """Return the metrics with a number in a run."""
    return [name for name in names if any(math.isfinite(run.metrics.get(name, math.nan)) for run in runs)]


def _differences(runs: Sequence[Run], values: dict[str, list[float]], unrun: Sequence[str]) -> list[str]:
    conditions = dict.fromkeys(name for run in runs for name in run.conditions)
    found = {what: {json.dumps(run.conditions.get(what), sort_keys=True) for run in runs} for what in conditions}
    said = [f"the runs differ in their {what}" for what, texts in found.items() if len(texts) > 1]
    if len(set(values["n_jobs"])) > 1:
        said.append("the runs differ in the number of jobs")
    for position, run in enumerate(runs):
        n_unrun = sum(values[name][position] for name in unrun if math.isfinite(values[name][position]))
        if n_unrun:
            said.append(f"{run.name} left {int(n_unrun):,} jobs unrun: its means are those of the others")
    return said
