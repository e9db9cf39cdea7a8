"""What a report says about a comparison: its verdict, its tables with intervals, its windows."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hdrl.errors import ReadError, UnknownName
from hdrl.experiment.compare.comparison import SUMMARY_FILE, Comparison, read_comparison
from hdrl.experiment.compare.summary import ALL, SummaryRow, best_row, deciding_rows, is_better, verdict
from hdrl.files import read_json, read_text
from hdrl.report.html.figures import Figures
from hdrl.report.html.findings import Findings
from hdrl.report.html.intervals import Scale, axis_cell, interval_cell
from hdrl.report.html.markup import Markup, joined, tag
from hdrl.report.html.numbers import Form, listed, metric_form, metric_label, ratio_text
from hdrl.report.html.packing import Pack
from hdrl.report.html.tables import code_table, download, table
from hdrl.settings.batch.metrics import METRICS

MOST_CURVES = 8
"""Candidates whose windows are drawn: the best ones."""


@dataclass(frozen=True, slots=True)
class Compared:
    """A comparison folder.

    Attributes
    ----------
    folder
        The folder.
    result
        Its tables and verdicts.
    metric
        The metric that the report is about.
    sweep
        What was compared.
    provenance
        Where it comes from.
    """

    folder: Path
    result: Comparison
    metric: str
    sweep: dict[str, Any]
    provenance: dict[str, Any]

    def rows(self, metric: str, workload: str = ALL) -> list[SummaryRow]:
        """Return the rows of one table: the baseline first, then from the best ratio to the worst.

        Parameters
        ----------
        metric, workload
            Of what.
        """
        rows = [row for row in self.result.rows if row.metric == metric and row.workload == workload]
        sign = -1.0 if METRICS[metric].lower_is_better is False else 1.0
        return sorted(rows, key=lambda row: (not row.is_baseline, math.isnan(row.ratio), sign * row.ratio))

    @property
    def confidence(self) -> float:
        """Share of intervals that would hold the true value."""
        share = self.sweep.get("confidence")
        return share if isinstance(share, float) else 0.95

    @property
    def metrics(self) -> list[str]:
        """The metrics of its tables, the one that decides first."""
        return list(dict.fromkeys([self.metric, *(row.metric for row in self.result.rows)]))

    @property
    def workloads(self) -> list[str]:
        """Its workloads by name, without the row over all."""
        return [name for name in dict.fromkeys(row.workload for row in self.result.rows) if name != ALL]


def is_comparison(folder: Path) -> bool:
    """Say whether a folder is one that ``hdrl compare`` finished.

    Parameters
    ----------
    folder
        The folder.
    """
    return (folder / SUMMARY_FILE).is_file()


def read_compared(folder: Path, metric: str | None) -> Compared:
    """Read the folder of a comparison.

    Parameters
    ----------
    folder
        The folder.
    metric
        The metric that decides; that of the comparison by default.

    Raises
    ------
    ReadError
        If a file of it is missing or damaged.
    UnknownName
        If the comparison has no table of that metric.
    """
    try:
        result = read_comparison(folder)
        known = {row.metric for row in result.rows}
        if not known <= set(METRICS):
            raise ReadError(folder / SUMMARY_FILE, f"has unknown metrics: {listed(sorted(known - set(METRICS)))}")
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ReadError(folder / SUMMARY_FILE, f"is no summary of a comparison ({error})") from None
    if metric is not None and metric not in known:
        raise UnknownName(f"table in {folder} of metric", metric, known)
    sweep, provenance = read_json(folder / "sweep.json"), read_json(folder / "provenance.json")
    return Compared(folder, result, metric or result.metric, sweep, provenance)


def findings_of_comparison(compared: Compared) -> Findings:
    """Return what a comparison says.

    Parameters
    ----------
    compared
        The comparison.
    """
    result, metric = compared.result, compared.metric
    label = metric_label(metric)
    rows = deciding_rows(result.rows, metric)
    question = f"How well does {result.baseline} do in {label}?"
    if len(rows) == 1:
        question = f"Does {rows[0].candidate} beat {result.baseline} in {label}?"
    elif rows:
        question = f"Does any of {len(rows)} candidates beat {result.baseline} in {label}?"
    info = result.metrics[result.metric]
    best = best_row(rows, info)
    answer = result.verdict
    if metric != result.metric and best is not None:
        answer = verdict(best, result.baseline, info, among=len(rows))
    shown = sum(is_better(row, info) is True for row in rows)
    certainty = (
        f"Ratios are geometric means over windows with {compared.confidence:.0%} intervals of a bootstrap; p-values "
        "are Wilcoxon's, after Holm."
    )
    if len(rows) > 1:
        certainty = f"{shown} of {len(rows)} candidates are shown to be better. " + certainty
    warnings = tuple(_sentence(caution.text) for caution in result.cautions)
    return Findings(
        question, _sentence(answer or "There is nothing to compare the baseline with."), certainty, warnings
    )


def facts_of_comparison(compared: Compared) -> list[tuple[str, str]]:
    """Return pairs of a name and a value that say what was compared.

    Parameters
    ----------
    compared
        The comparison.
    """
    rows = compared.rows(compared.metric)
    platform = _identity(compared).get("platform", {})
    workloads = [str(one.get("name")) for one in _identity(compared).get("workloads", [])]
    facts = [("candidates", f"{len(rows):,}"), ("simulations", f"{compared.result.n_points:,}")]
    if rows:
        facts += [
            ("windows", f"{rows[0].n_windows:,}"),
            ("jobs", f"{max(row.n_jobs // row.n_seeds for row in rows):,}"),
        ]
    facts += [("platform", str(platform.get("name"))), ("cores", f"{platform.get('n_cores', 0):,}")]
    if workloads:
        facts.append(("workloads" if len(workloads) > 1 else "workload", listed(workloads)))
    return facts


def summary_of_comparison(compared: Compared) -> Markup:
    """Return the tables of the metric that decides: over all workloads, and of each.

    Parameters
    ----------
    compared
        The comparison.
    """
    parts = [ALL, *compared.workloads]
    return joined(_table(compared, compared.metric, part) for part in parts)


def other_metrics(compared: Compared) -> Markup:
    """Return the tables of all other metrics over all workloads.

    Parameters
    ----------
    compared
        The comparison.
    """
    return joined(_table(compared, metric, ALL) for metric in compared.metrics[1:])


def origin_of_comparison(compared: Compared) -> Markup:
    """Return how to repeat a comparison, and the hashes and versions of all that went in.

    Parameters
    ----------
    compared
        The comparison.
    """
    identity = _identity(compared)
    rows = [("folder", compared.folder.resolve().name), ("SHA-256 of the sweep", identity.get("sweep"))]
    rows.append(("SHA-256 of the platform", identity.get("platform", {}).get("sha256")))
    rows += [(f"SHA-256 of {one.get('name')}", one.get("sha256")) for one in identity.get("workloads", [])]
    for name, candidate in identity.get("candidates", {}).items():
        rows += [(f"SHA-256 of {name}", text) for text in candidate.get("sha256", [])]
    rows += [(f"version of {name}", text) for name, text in identity.get("versions", {}).items()]
    text = json.dumps(compared.sweep, indent=2) + "\n"
    return joined(
        (
            tag("h2", "Run it again"),
            tag("p", download("sweep.json", text), " and repeat it, byte by byte:"),
            tag("pre", tag("code", "hdrl compare sweep.json --out again")),
            tag("details", tag("summary", "sweep.json"), tag("pre", tag("code", text))),
            code_table("Where the results come from", [(name, str(value)) for name, value in rows if value]),
        )
    )


def add_windows(figures: Figures, compared: Compared) -> None:
    """Add the figure of the ratio to the baseline in each window, of the best candidates.

    Parameters
    ----------
    figures
        What to add it to.
    compared
        The comparison.
    """
    rows = [row for row in compared.rows(compared.metric) if not row.is_baseline and not math.isnan(row.ratio)]
    means = _means_of_windows(compared.folder / "results.csv", compared.metric)
    base = means.get(compared.result.baseline)
    series = []
    for index, row in enumerate(rows[:MOST_CURVES]):
        mine = means.get(row.candidate)
        if base is None or mine is None or len(mine) != len(base):
            continue
        good = (mine > 0) & (base > 0)
        pack = Pack()
        pack.add("x", np.flatnonzero(good) + 1)
        pack.add("y", np.log2(mine[good] / base[good]))
        figures.add_pack(f"windows-{index}", pack)
        series.append({"run": index, "pack": f"windows-{index}", "name": row.candidate})
    if series:
        label = metric_label(compared.metric)
        figures.charts.append(
            {
                "id": "windows",
                "panel": "windows",
                "title": f"Ratio of the {label} to {compared.result.baseline}, window by window",
                "alt": f"Ratio of the {label} to that of {compared.result.baseline} in each window; "
                + "; ".join(f"{row.candidate} {ratio_text(row.ratio)} in the mean" for row in rows[:MOST_CURVES]),
                "shape": "linear",
                "mode": "markers",
                "x": {"title": "window"},
                "y": {"title": "ratio", "log2": True},
                "series": series,
            }
        )


def _table(compared: Compared, metric: str, workload: str) -> Markup:
    rows = compared.rows(metric, workload)
    if not rows:
        return Markup()
    form = metric_form(metric, [value for row in rows for value in (row.mean, row.p99, row.worst)])
    scale = Scale.over([end for row in rows for end in (row.ratio, row.ratio_low, row.ratio_high)])
    better = {True: "less is better", False: "more is better", None: ""}[METRICS[metric].lower_is_better]
    where = "" if workload == ALL else f" on {workload}"
    windows = f"{rows[0].n_windows:,} window{'' if rows[0].n_windows == 1 else 's'}"
    caption = f"{metric_label(metric).capitalize()}{where}: {windows}, {better}"
    unit = tag("span", f" ({form.unit})", class_="unit") if form.unit else Markup()
    names = ("ratio", "p (Holm)", joined(("mean", unit)), joined(("p99", unit)), joined(("worst", unit)), "unrun jobs")
    head = tag(
        "tr",
        tag("th", "candidate", scope="col"),
        axis_cell(scale, compared.result.baseline),
        *(tag("th", name, scope="col", class_="number") for name in names),
    )
    return table(caption, head, [_row(row, form, scale) for row in rows])


def _row(row: SummaryRow, form: Form, scale: Scale) -> Markup:
    better = is_better(row, METRICS[row.metric])
    ratio = [tag("td", "baseline", class_="number interval")]
    if not row.is_baseline:
        text = tag("b", ratio_text(row.ratio)) if better else ratio_text(row.ratio)
        interval = "" if math.isnan(row.ratio_low) else f" [{ratio_text(row.ratio_low)}, {ratio_text(row.ratio_high)}]"
        ratio = [
            tag("td", text, tag("span", interval, class_="interval"), class_="number" + (" is-best" if better else ""))
        ]
    p = "" if row.is_baseline or math.isnan(row.p_holm) else f"{row.p_holm:.2g}"
    low_high = "" if math.isnan(row.mean_low) else f" [{form.number(row.mean_low)}, {form.number(row.mean_high)}]"
    unrun = f"{row.n_unfinished:,}" + (" (failed)" if row.n_failed else "")
    return tag(
        "tr",
        tag("th", row.candidate, scope="row", class_="run"),
        interval_cell(scale, row.ratio, row.ratio_low, row.ratio_high, is_baseline=row.is_baseline),
        *ratio,
        tag("td", p, class_="number"),
        tag("td", form.number(row.mean), tag("span", low_high, class_="interval"), class_="number"),
        tag("td", form.number(row.p99), class_="number"),
        tag("td", form.number(row.worst), class_="number"),
        tag("td", unrun, class_="number is-bad" if row.n_unfinished else "number"),
    )


def _means_of_windows(path: Path, metric: str) -> dict[str, NDArray[np.float64]]:
    """Return the mean over seeds of a metric in each window, by candidate; NaN where there is none."""
    if not path.is_file():
        return {}
    values: dict[str, dict[tuple[str, str], list[float]]] = {}
    try:
        for row in csv.DictReader(io.StringIO(read_text(path))):
            window = (row["workload"], row["window"])
            values.setdefault(row["candidate"], {}).setdefault(window, []).append(float(row[metric] or "nan"))
    except (KeyError, ValueError) as error:
        raise ReadError(path, f"is no table of a comparison ({error})") from None
    windows: Iterable[tuple[str, str]] = dict.fromkeys(window for mine in values.values() for window in mine)
    order: Sequence[tuple[str, str]] = list(windows)
    return {
        name: np.array([np.mean(mine.get(window, [math.nan])) for window in order]) for name, mine in values.items()
    }


def _identity(compared: Compared) -> dict[str, Any]:
    identity = compared.provenance.get("identity")
    return identity if isinstance(identity, dict) else {}


def _sentence(text: str) -> str:
    text = "The" + text[3:] if text.startswith("the ") else text
    return text if text.endswith((".", "!", "?")) else text + "."
