"""From folders to the file of a report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hdrl.errors import OutputError, ReadError, UnknownName
from hdrl.experiment.compare.comparison import SUMMARY_FILE
from hdrl.files import atomic_write
from hdrl.report.html.figures import Figures, figures_of_runs, time_unit
from hdrl.report.html.findings import Findings, findings_of_runs
from hdrl.report.html.markup import Markup, joined, tag
from hdrl.report.html.page import Panel, chart_panel, gantt_panel, page
from hdrl.report.html.sources import Run, read_report_runs
from hdrl.report.html.tables import headline_table, metrics_table, options_differences, options_files, origin_table
from hdrl.settings.batch.metrics import METRICS

if TYPE_CHECKING:
    from hdrl.report.html.comparison import Compared

DEFAULT_METRIC = "mean_bounded_slowdown"

LEARNING_NOTE = "Means over equal numbers of episodes or updates where there are many; zoomed in, each one."
TIME_NOTE = "Means over equal spans of time where there are too many steps to read; zoomed in, each step."


def write_report(
    folders: Sequence[str | Path],
    out: str | Path,
    *,
    metric: str | None = None,
    question: str | None = None,
    force: bool = False,
) -> Path:
    """Write a report about runs and comparisons: one HTML file that needs nothing else.

    Parameters
    ----------
    folders
        Run folders, folders of experiments with several runs, and at most one folder of a comparison, which then
        gives the verdict.
    out
        The file to write.
    metric
        The metric that the verdict is about, one of ``hdrl.metrics.METRICS``; by default that of the comparison, or
        `DEFAULT_METRIC`.
    question
        The question that the report answers; made from the runs by default.
    force
        Whether a file that is there already is replaced.

    Returns
    -------
    Path
        The file.

    Raises
    ------
    HdrlError
        If a folder is neither, the metric is unknown, plotly is not installed, or the file cannot be written.
    """
    out = Path(out)
    if out.exists() and not force:
        raise OutputError(f"{out}: exists already, expected the name of a new file (--force replaces it)")
    text = build_report(folders, metric=metric, question=question)
    with atomic_write(out) as file:
        file.write(text)
    return out


def build_report(folders: Sequence[str | Path], *, metric: str | None = None, question: str | None = None) -> str:
    """Return the HTML of a report; see `write_report`.

    Parameters
    ----------
    folders, metric, question
        As for `write_report`.

    Raises
    ------
    HdrlError
        If a folder is neither a run nor a comparison, the metric is unknown, or plotly is not installed.
    """
    if metric is not None and metric not in METRICS:
        raise UnknownName("metric", metric, METRICS)
    paths = [Path(folder) for folder in folders]
    comparisons = [path for path in paths if (path / SUMMARY_FILE).is_file()]
    if len(comparisons) > 1:
        raise ReadError(comparisons[1], "is a second comparison, expected one: each answers a question of its own")
    runs = read_report_runs([path for path in paths if path not in comparisons])
    if not comparisons:
        if not runs:
            raise ReadError("report", "no folder given, expected at least one of a run or a comparison")
        return report_of_runs(runs, metric or DEFAULT_METRIC, question)
    from hdrl.report.html.comparison import read_compared

    return report_of_comparison(read_compared(comparisons[0], metric), runs, question)


def report_of_runs(runs: Sequence[Run], metric: str, question: str | None = None) -> str:
    """Return the HTML of a report about runs that were read.

    Parameters
    ----------
    runs
        The runs, at least one.
    metric, question
        As for `write_report`.

    Raises
    ------
    MissingExtra
        If plotly is not installed.
    """
    figures = figures_of_runs(runs)
    panels = [
        Panel("summary", "Summary", headline_table(runs, metric)),
        Panel("metrics", "All metrics", metrics_table(runs)),
        *_figure_panels(runs, figures),
        Panel("reproduce", "Reproduce", _origins(runs)),
    ]
    return page(_asked(findings_of_runs(runs, metric), question), _facts(runs), panels, figures, _model(runs))


def report_of_comparison(compared: Compared, runs: Sequence[Run], question: str | None = None) -> str:
    """Return the HTML of a report about a comparison, with runs as examples.

    Parameters
    ----------
    compared
        The comparison.
    runs
        Runs to look at in detail; may be none.
    question
        As for `write_report`.

    Raises
    ------
    MissingExtra
        If plotly is not installed.
    """
    from hdrl.report.html import comparison

    figures = figures_of_runs(runs) if runs else Figures()
    comparison.add_windows(figures, compared)
    panels = [
        Panel("summary", "Summary", _summary(comparison.summary_of_comparison(compared), compared)),
        Panel("metrics", "Other metrics", comparison.other_metrics(compared)),
        *_known(chart_panel(figures, "windows", "Windows")),
        *(
            [Panel("runs", "Runs", joined((headline_table(runs, compared.metric), metrics_table(runs))))]
            if runs
            else []
        ),
        *(_figure_panels(runs, figures) if runs else []),
        Panel("reproduce", "Reproduce", joined((comparison.origin_of_comparison(compared), _origins(runs)))),
    ]
    findings = comparison.findings_of_comparison(compared)
    facts = comparison.facts_of_comparison(compared)
    panels = [panel for panel in panels if panel.content]
    return page(_asked(findings, question), facts, panels, figures, _model(runs))


def _asked(findings: Findings, question: str | None) -> Findings:
    return findings if question is None else replace(findings, question=question)


def _known(panel: Panel | None) -> list[Panel]:
    return [] if panel is None else [panel]


def _figure_panels(runs: Sequence[Run], figures: Figures) -> list[Panel]:
    return [
        gantt_panel([run.name for run in runs]),
        *_known(chart_panel(figures, "time", "Over time", tag("p", TIME_NOTE, class_="note"))),
        *_known(chart_panel(figures, "distribution", "Distributions")),
        *_known(chart_panel(figures, "learning", "Learning", tag("p", LEARNING_NOTE, class_="note"))),
    ]


def _summary(tables: Markup, compared: Compared) -> Markup:
    """Return the tables of a comparison, and the verdict about each candidate where there are several."""
    verdicts = compared.result.verdicts
    if compared.metric != compared.result.metric or len(verdicts) < 2:
        return tables
    items = tag("ul", *(tag("li", text) for text in verdicts))
    return joined((tables, tag("details", tag("summary", f"All {len(verdicts)} verdicts"), items)))


def _model(runs: Sequence[Run]) -> dict[str, Any]:
    """Return what the browser must know of the runs."""
    spans = [run.data.span_s for run in runs]
    seconds, unit = time_unit(max((end - begin for begin, end in spans), default=0.0))
    return {
        "runs": [{"name": run.name, "n_cores": run.data.n_cores} for run in runs],
        "time": {"seconds": seconds, "unit": unit},
    }


def _facts(runs: Sequence[Run]) -> list[tuple[str, str]]:
    def one_or_count(values: list[str | None], many: str) -> str:
        known = list(dict.fromkeys(value for value in values if value is not None))
        return known[0] if len(known) == 1 else f"{len(known)} {many}" if known else "unknown"

    jobs = sorted({run.data.n_jobs + run.data.n_hidden for run in runs})
    cores = sorted({run.data.n_cores for run in runs})
    loads = [load for run in runs if (load := run.offered_load()) > 0]
    facts = [
        ("runs", f"{len(runs):,}"),
        ("platform", one_or_count([run.data.platform for run in runs], "platforms")),
        ("cores", f"{cores[0]:,}" if len(cores) == 1 else f"{cores[0]:,} to {cores[-1]:,}"),
        ("workload", one_or_count([run.data.workload for run in runs], "workloads")),
        ("jobs", f"{jobs[0]:,}" if len(jobs) == 1 else f"{jobs[0]:,} to {jobs[-1]:,}"),
    ]
    if loads:
        low, high = f"{min(loads):.2f}", f"{max(loads):.2f}"
        facts.append(("offered load", low if low == high else f"{low} to {high}"))
    return facts


def _origins(runs: Sequence[Run]) -> Markup:
    if not runs:
        return Markup()
    pieces = [options_differences(runs), origin_table(runs)]
    files = options_files(runs)
    if files:
        text = (
            "The options of each run with every default filled in. Paths that are not names of shipped platforms and "
            "workloads start from the folder of the options file."
        )
        pieces += [tag("h2", "Run it again"), tag("p", text, class_="note"), files]
    return joined(pieces)
