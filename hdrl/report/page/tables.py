"""The tables of runs: side by side, all metrics, where everything comes from."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from hdrl.figures.figure import Run
from hdrl.figures.folders import get_nested
from hdrl.figures.numbers import metric_form, metric_words
from hdrl.metrics.catalogue import MetricInfo
from hdrl.report.page.findings import best_of, is_comparable, n_unrun
from hdrl.report.page.parts import Cell, File, Files, PageColumn, PageTable, Row
from hdrl.setting import Setting


def headline_table(runs: Sequence[Run], metric: str, setting: Setting) -> PageTable:
    """Return the first table: a row per run, the metrics that matter most, and what was left unrun."""
    unrun = [name for name in setting.measures.unrun if any(run.metrics.get(name, 0) for run in runs)]
    others = [name for name in setting.measures.headline if name != metric and any(name in run.metrics for run in runs)]
    numbers = [_Numbers(name, runs, setting) for name in (metric, *unrun, *others)]
    return PageTable(
        caption="Runs side by side" if len(runs) > 1 else "The run",
        about="run",
        columns=[PageColumn(one.title, one.unit, one.help) for one in numbers],
        rows=[Row(run.name, [one.cell(index) for one in numbers], place=index) for index, run in enumerate(runs)],
        is_stacked=True,
    )


def metrics_table(runs: Sequence[Run], setting: Setting) -> PageTable:
    """Return the table of all metrics: a row per metric, a column per run."""
    all_names = (*setting.measures.metrics, *dict.fromkeys(name for run in runs for name in run.own_infos))
    known = [name for name in all_names if any(name in run.metrics for run in runs)]
    numbers = [_Numbers(name, runs, setting) for name in known]
    return PageTable(
        caption="All metrics",
        about="metric",
        columns=[PageColumn(run.name, place=index) for index, run in enumerate(runs)],
        rows=[
            Row(one.title, [one.cell(index) for index in range(len(runs))], unit=one.unit, help=one.help)
            for one in numbers
        ],
    )


def origin_tables(runs: Sequence[Run]) -> list[PageTable]:
    """Return the options that are not the same in all runs, and where the runs come from: seeds, hashes, versions."""
    columns = [PageColumn(run.name, is_number=False) for run in runs]
    flat = [_flat(run.options) for run in runs]
    keys = sorted({key for options in flat for key in options})
    different = {
        key: values for key in keys if len(set(values := [json.dumps(options.get(key)) for options in flat])) > 1
    }
    tables = []
    if different:
        rows = [
            Row(key, [Cell(value, is_code=True) for value in values], is_code=True) for key, values in different.items()
        ]
        tables.append(PageTable("Options that differ", "option", columns, rows))
    rows = [_row(what, values) for what, values in _origins(runs) if set(values) != {"unknown"}]
    return [*tables, PageTable("Provenance", "item", columns, rows)]


def code_table(caption: str, pairs: Sequence[tuple[str, str]]) -> PageTable:
    """Return a table of names and values to copy."""
    return PageTable(
        caption, "item", [PageColumn("value", is_number=False)], [_row(name, [value]) for name, value in pairs]
    )


def options_files(runs: Sequence[Run]) -> list[Files]:
    """Return the resolved options of each run, to read, to save and to run again."""
    files = []
    for index, run in enumerate(runs):
        if run.options:
            suffix = f"_{index}" if len(runs) > 1 else ""
            command = f"hdrl-launch options{suffix}.json --out again{suffix}"
            text = json.dumps(run.options, indent=2) + "\n"
            files.append(File(f"options{suffix}.json", run.name, text, command))
    note = (
        "The options of each run with every default filled in. Paths that are not names of shipped platforms and "
        "workloads start from the folder of the options file."
    )
    return [Files(files, note)] if files else []


class _Numbers:
    """The values of one metric in all runs, written in one form."""

    def __init__(self, metric: str, runs: Sequence[Run], setting: Setting) -> None:
        own = (run.own_infos[metric] for run in runs if metric in run.own_infos)
        info: MetricInfo | None = setting.measures.metrics.get(metric) or next(own, None)
        self._values = [run.metrics.get(metric) for run in runs]
        self._form = metric_form(metric, info, self._values)
        is_fair = is_comparable(runs)
        can_win = [is_fair and n_unrun(run, setting) == 0 for run in runs]
        self._is_best = self._marked(best_of(self._values, info, allowed=can_win))
        self._is_count_of_unrun = metric in setting.measures.unrun
        self.title = metric_words(metric)
        self.unit = self._form.unit
        self.help = info.formula if info is not None else ""

    def _marked(self, is_best: list[bool]) -> list[bool]:
        """Return the mask of the numbers that print like the best one; none where all do."""
        texts = [self._form.number(value) for value in self._values]
        best = {text for text, is_one in zip(texts, is_best, strict=True) if is_one}
        return [text in best and len(set(texts)) > 1 for text in texts]

    def cell(self, index: int) -> Cell:
        value = self._values[index]
        is_bad = self._is_count_of_unrun and bool(value)
        return Cell(self._form.number(value), mark="best" if self._is_best[index] else "bad" if is_bad else "")


def _versions(run: Run) -> Mapping[str, Any]:
    """Return the versions of the programs that made a run, if its provenance has them."""
    found = get_nested(run.provenance, "versions")
    return found if isinstance(found, Mapping) else {}


def _origins(runs: Sequence[Run]) -> list[tuple[str, list[str]]]:
    rows: list[tuple[str, list[str]]] = [
        ("folder", [run.folder.resolve().name for run in runs]),
        ("seed", [str(run.provenance.get("seed", "unknown")) for run in runs]),
        ("platform", [run.platform or "unknown" for run in runs]),
        ("workload", [run.workload or "unknown" for run in runs]),
    ]
    hashed = list(
        dict.fromkeys(what for run in runs for what in run.provenance if get_nested(run.provenance, what, "sha256"))
    )
    rows += [
        (f"SHA-256 of the {what}", [_text(get_nested(run.provenance, what, "sha256")) for run in runs])
        for what in hashed
    ]
    programs = sorted({name for run in runs for name in _versions(run)})
    rows += [
        (f"version of {name}", [_text(get_nested(run.provenance, "versions", name)) for run in runs])
        for name in programs
    ]
    return rows


def _row(what: str, values: list[str]) -> Row:
    if len(set(values)) == 1 and len(values) > 1:
        return Row(what, [Cell(values[0], aside="(all)", is_code=True, span=len(values))])
    return Row(what, [Cell(value, is_code=True) for value in values])


def _text(value: object) -> str:
    return "unknown" if value is None else str(value)


def _flat(value: Any, prefix: str = "") -> dict[str, Any]:
    """Return nested options as one level of dotted keys."""
    if not isinstance(value, Mapping):
        return {prefix: value}
    flat: dict[str, Any] = {}
    for key, inner in value.items():
        flat |= _flat(inner, f"{prefix}.{key}" if prefix else str(key))
    return flat
