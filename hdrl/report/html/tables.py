"""The tables of a report: runs side by side, all metrics, where everything comes from."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from hdrl.report.html.findings import best_of, is_comparable
from hdrl.report.html.markup import Markup, joined, tag
from hdrl.report.html.numbers import metric_form, metric_label
from hdrl.report.html.sources import Run
from hdrl.settings.batch.metrics import METRICS

HEADLINES = (
    "mean_bounded_slowdown",
    "mean_wait_s",
    "p95_wait_s",
    "max_wait_s",
    "makespan_s",
    "utilization",
    "energy_j",
)
"""Metrics of the first table, if at least one run has them."""

COUNTS = ("n_finished", "n_unfinished", "n_not_started", "n_rejected")
"""Counts that stand beside every mean, also where they are 0."""


def headline_table(runs: Sequence[Run], metric: str) -> Markup:
    """Return the first table: a row per run, the metrics that matter most, and how many jobs they cover.

    Parameters
    ----------
    runs
        The runs.
    metric
        The metric that decides; it comes first.
    """
    names = [name for name in HEADLINES if name != metric and any(name in run.metrics for run in runs)]
    names = [metric, *COUNTS, *names]
    can_win = _can_win(runs)
    columns = [_Column(name, [run.metric(name) for run in runs], can_win) for name in names]
    head = tag(
        "tr",
        tag("th", "run", scope="col"),
        *(
            tag("th", column.label, column.unit, scope="col", class_="number", title=column.formula)
            for column in columns
        ),
    )
    body = [
        tag(
            "tr",
            tag("th", _swatch(index), run.name, scope="row", class_="run"),
            *(column.cell(index) for column in columns),
        )
        for index, run in enumerate(runs)
    ]
    return table("Runs side by side", head, body)


def metrics_table(runs: Sequence[Run]) -> Markup:
    """Return the table of all metrics: a row per metric, a column per run.

    Parameters
    ----------
    runs
        The runs.
    """
    head = tag(
        "tr",
        tag("th", "metric", scope="col"),
        *(tag("th", _swatch(index), run.name, scope="col", class_="number") for index, run in enumerate(runs)),
    )
    body = []
    can_win = _can_win(runs)
    for name in METRICS:
        if not any(name in run.metrics for run in runs):
            continue
        row = _Column(name, [run.metric(name) for run in runs], can_win)
        cells = [row.cell(index) for index in range(len(runs))]
        body.append(tag("tr", tag("th", row.label, row.unit, scope="row", title=row.formula), *cells))
    return table("All metrics", head, body)


def options_differences(runs: Sequence[Run]) -> Markup:
    """Return the table of the options that are not the same in all runs; empty if there are none.

    Parameters
    ----------
    runs
        The runs.
    """
    flat = [_flat(run.options) for run in runs]
    keys = sorted({key for options in flat for key in options})
    different = [key for key in keys if len({json.dumps(options.get(key)) for options in flat}) > 1]
    if not different:
        return Markup()
    head = tag("tr", tag("th", "option", scope="col"), *(tag("th", run.name, scope="col") for run in runs))
    body = [
        tag(
            "tr",
            tag("th", tag("code", key), scope="row"),
            *(tag("td", tag("code", json.dumps(options.get(key)))) for options in flat),
        )
        for key in different
    ]
    return table("Options that differ", head, body)


def origin_table(runs: Sequence[Run]) -> Markup:
    """Return the table of where the runs come from: seeds, hashes, versions.

    Parameters
    ----------
    runs
        The runs.
    """
    rows: list[tuple[str, list[str]]] = [
        ("folder", [run.folder.resolve().name for run in runs]),
        ("seed", [str(run.provenance.get("seed", "unknown")) for run in runs]),
    ]
    rows += [(what, [_named(run.origin(what).get("name")) for run in runs]) for what in ("platform", "workload")]
    rows += [
        (f"SHA-256 of the {what}", [_named(run.origin(what).get("sha256")) for run in runs])
        for what in ("options", "platform", "workload", "agent")
    ]
    programs = sorted({name for run in runs for name in _versions(run)})
    rows += [(f"version of {name}", [_named(_versions(run).get(name)) for run in runs]) for name in programs]
    head = tag("tr", tag("th", "what", scope="col"), *(tag("th", run.name, scope="col") for run in runs))
    body = [_origin_row(what, values) for what, values in rows if set(values) != {"unknown"}]
    return table("Where the results come from", head, body)


def options_files(runs: Sequence[Run]) -> Markup:
    """Return the resolved options of each run, to read and to download.

    Parameters
    ----------
    runs
        The runs.
    """
    shown = []
    for index, run in enumerate(runs):
        if not run.options_text:
            continue
        name = f"options_{index}.json" if len(runs) > 1 else "options.json"
        link = download(name, run.options_text)
        command = f"hdrl-launch {name} --out again_{index}" if len(runs) > 1 else f"hdrl-launch {name} --out again"
        shown.append(
            tag(
                "details",
                tag("summary", run.name),
                tag("p", link, " and run it again, byte by byte:"),
                tag("pre", tag("code", command)),
                tag("pre", tag("code", run.options_text)),
            )
        )
    return joined(shown)


def table(caption: str, head: Markup, body: Sequence[Markup]) -> Markup:
    """Return a table that scrolls sideways within itself where the page is narrow.

    Parameters
    ----------
    caption
        What it shows.
    head
        Its header row.
    body
        Its rows.
    """
    inside = tag("table", tag("caption", tag("span", caption)), tag("thead", head), tag("tbody", *body))
    return tag("div", inside, class_="scroll", role="region", aria_label=caption, tabindex="0")


def code_table(caption: str, rows: Sequence[tuple[str, str]]) -> Markup:
    """Return a table of names and values to copy.

    Parameters
    ----------
    caption
        What it shows.
    rows
        The names and values.
    """
    head = tag("tr", tag("th", "what", scope="col"), tag("th", "value", scope="col"))
    return table(caption, head, [_origin_row(name, [value]) for name, value in rows])


def download(name: str, text: str) -> Markup:
    """Return a link that saves a JSON file.

    Parameters
    ----------
    name
        Its name.
    text
        What it holds.
    """
    address = "data:application/json;charset=utf-8," + quote(text)
    return tag("a", f"Save {name}", href=address, download=name)


class _Column:
    """The values of one metric in all runs, written in one form."""

    def __init__(self, metric: str, values: list[float], can_win: Sequence[bool]) -> None:
        self._values = values
        self._form = metric_form(metric, values)
        self._best = self._marked(best_of(values, metric, allowed=can_win))
        self._is_bad = [metric in COUNTS[1:] and value > 0 for value in values]
        self.label = metric_label(metric)
        self.unit = tag("span", f" ({self._form.unit})", class_="unit") if self._form.unit else Markup()
        info = METRICS.get(metric)
        self.formula = info.formula if info is not None else None

    def _marked(self, is_best: list[bool]) -> list[bool]:
        """Tell which numbers read like the best one; none where all do."""
        texts = [self._form.number(value) for value in self._values]
        best = {text for text, is_one in zip(texts, is_best, strict=True) if is_one}
        return [text in best and len(set(texts)) > 1 for text in texts]

    def cell(self, index: int) -> Markup:
        text = self._form.number(self._values[index])
        if self._best[index]:
            return tag("td", tag("span", "best ", class_="best"), tag("b", text), class_="number is-best")
        return tag("td", text, class_="number is-bad" if self._is_bad[index] else "number")


def _can_win(runs: Sequence[Run]) -> list[bool]:
    """Tell which runs may be the best: those that ran all jobs, of runs that can be compared at all."""
    is_fair = is_comparable(runs)
    return [is_fair and run.n_unrun == 0 for run in runs]


def _swatch(index: int) -> Markup:
    """Return the colour of a run in the figures."""
    return tag("span", class_="swatch", data_run=index, aria_hidden="true")


def _origin_row(what: str, values: list[str]) -> Markup:
    if len(set(values)) == 1 and len(values) > 1:
        cells = [tag("td", tag("code", values[0]), " (all)", colspan=len(values))]
    else:
        cells = [tag("td", tag("code", value)) for value in values]
    return tag("tr", tag("th", what, scope="row"), *cells)


def _named(value: object) -> str:
    return "unknown" if value is None else str(value)


def _versions(run: Run) -> Mapping[str, Any]:
    return run.origin("versions")


def _flat(value: Any, prefix: str = "") -> dict[str, Any]:
    """Return nested options as one level of dotted keys."""
    if not isinstance(value, Mapping):
        return {prefix: value}
    flat: dict[str, Any] = {}
    for key, inner in value.items():
        flat |= _flat(inner, f"{prefix}.{key}" if prefix else str(key))
    return flat
