"""From folders to the file of a report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from hdrl.errors import OutputError, ReadError, UnknownName
from hdrl.files import atomic_write
from hdrl.metrics import METRICS
from hdrl.report.html.figures import figures_of_runs, time_unit
from hdrl.report.html.findings import findings_of_runs
from hdrl.report.html.markup import Markup, joined, tag
from hdrl.report.html.page import Panel, chart_panel, gantt_panel, page
from hdrl.report.html.sources import Run, read_report_runs
from hdrl.report.html.tables import headline_table, metrics_table, options_differences, options_files, origin_table

DEFAULT_METRIC = "mean_bounded_slowdown"

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
        Run folders, folders of experiments with several runs, folders of comparisons.
    out
        The file to write.
    metric
        The metric that the verdict is about, one of ``hdrl.metrics.METRICS``; `DEFAULT_METRIC` unless given.
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
    metric = metric or DEFAULT_METRIC
    if metric not in METRICS:
        raise UnknownName("metric", metric, METRICS)
    paths = [Path(folder) for folder in folders]
    if not paths:
        raise ReadError("report", "no folder given, expected at least one of a run or a comparison")
    return report_of_runs(read_report_runs(paths), metric, question)


def report_of_runs(runs: list[Run], metric: str, question: str | None = None) -> str:
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
    findings = findings_of_runs(runs, metric)
    if question is not None:
        findings = replace(findings, question=question)
    figures = figures_of_runs(runs)
    names = [run.name for run in runs]
    panels = [
        Panel("summary", "Summary", headline_table(runs, metric)),
        Panel("metrics", "All metrics", metrics_table(runs)),
        gantt_panel(names),
        chart_panel(figures, "time", "Over time", tag("p", TIME_NOTE, class_="note")),
        chart_panel(figures, "distribution", "Distributions"),
        chart_panel(figures, "learning", "Learning"),
        _reproduce(runs),
    ]
    spans = [run.data.span_s for run in runs]
    seconds, unit = time_unit(max(end - begin for begin, end in spans))
    model = {
        "runs": [{"name": run.name, "n_cores": run.data.n_cores} for run in runs],
        "time": {"seconds": seconds, "unit": unit},
    }
    return page(findings, _facts(runs), [panel for panel in panels if panel is not None], figures, model)


def _facts(runs: list[Run]) -> list[tuple[str, str]]:
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


def _reproduce(runs: list[Run]) -> Panel:
    pieces = [options_differences(runs), origin_table(runs)]
    files = options_files(runs)
    if files:
        text = (
            "The options of each run with every default filled in. Paths that are not names of shipped platforms and "
            "workloads start from the folder of the options file."
        )
        pieces += [tag("h2", "Run it again"), tag("p", text, class_="note"), files]
    return Panel(
        "reproduce", "Reproduce", joined(pieces) or Markup(tag("p", "These folders do not tell their options."))
    )
