"""From folders to the file of a report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from hdrl.base.errors import ReadError, UnknownName
from hdrl.base.files import atomic_write, check_new
from hdrl.experiment.compare.held_out import PROTOCOLS
from hdrl.experiment.compare.held_out import RESULT_FILE as HELD_OUT_FILE
from hdrl.experiment.run.manifest import MANIFEST_FILE, changed_files
from hdrl.figures.figure import SUMMARY, Run
from hdrl.report.comparison import Compared, is_comparison, read_compared
from hdrl.report.drawing import LEARNING, figures_of
from hdrl.report.page import comparison
from hdrl.report.page.charts import chart_of
from hdrl.report.page.findings import Findings, findings_of_runs
from hdrl.report.page.page import render
from hdrl.report.page.parts import Panel, Part, Verdicts
from hdrl.report.page.schedule import Packed, part_of
from hdrl.report.page.tables import headline_table, metrics_table, options_files, origin_tables
from hdrl.report.runs import read_report_runs, setting_of
from hdrl.setting import Setting


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
    metric
        The metric that the verdict is about; by default the comparison's, or that of the runs' setting.
    question
        The question that the report answers; made from the runs by default.
    """
    out = Path(out)
    check_new(out, force=force)
    text = build_report(folders, metric=metric, question=question)
    with atomic_write(out) as file:
        file.write(text)
    return out


def build_report(folders: Sequence[str | Path], *, metric: str | None = None, question: str | None = None) -> str:
    """Return the HTML of a report; see `write_report`."""
    paths = [Path(folder) for folder in folders]
    if not paths:
        raise ReadError("report", "no folder given, expected at least one of a run or a comparison")
    for path in paths:
        if (path / HELD_OUT_FILE).is_file():
            parts = ", ".join(str(path / name) for name in PROTOCOLS)
            raise ReadError(path, f"holds comparisons by {len(PROTOCOLS)} protocols, expected one of them: {parts}")
    setting = setting_of(paths[0])
    if metric is not None and metric not in setting.measures.metrics:
        raise UnknownName("metric", metric, setting.measures.metrics)
    comparisons = [path for path in paths if is_comparison(path)]
    if len(comparisons) > 1:
        raise ReadError(comparisons[1], "is a second comparison, expected one: each answers its own question")
    runs = read_report_runs([path for path in paths if path not in comparisons], setting)
    if comparisons:
        return _report_of_comparison(read_compared(comparisons[0], metric), runs, question)
    return report_of_runs(runs, metric or setting.measures.compared[0], setting, question)


def report_of_runs(runs: Sequence[Run], metric: str, setting: Setting, question: str | None = None) -> str:
    """Return the HTML of a report about runs that were read."""
    charts = _charts(runs, setting)
    schedules, packed = _schedules(runs, charts)
    panels = [
        Panel(SUMMARY, [headline_table(runs, metric, setting), *charts.pop(SUMMARY, ())]),
        Panel("All metrics", [metrics_table(runs, setting)], "metrics"),
        *schedules,
        *(Panel(title, parts) for title, parts in charts.items()),
        Panel("Reproduce", [*origin_tables(runs), *options_files(runs)]),
    ]
    findings = _completed(findings_of_runs(runs, metric, setting), [run.folder for run in runs], question)
    return render(findings, _facts(runs), panels, packed.model, packed.packs)


def _report_of_comparison(compared: Compared, runs: Sequence[Run], question: str | None = None) -> str:
    """Return the HTML of a report about a comparison, with runs as examples."""
    setting = setting_of(compared.folder)
    summary, others = comparison.tables_of_comparison(compared)
    verdicts = compared.result.verdicts if compared.metric == compared.result.metric else ()
    files, origin = comparison.origin_of_comparison(compared)
    charts = _charts(runs, setting)
    schedules, packed = _schedules(runs, charts)
    examples: list[Panel] = []
    again: list[Part] = [files, origin]
    if runs:
        tables = [headline_table(runs, compared.metric, setting), metrics_table(runs, setting)]
        examples = [Panel("Runs", [*tables, *charts.pop(SUMMARY, ())]), *schedules]
        examples += [Panel(title, parts) for title, parts in charts.items()]
        again += [*origin_tables(runs), *options_files(runs)]
    panels = [
        Panel(SUMMARY, [*summary, *([Verdicts(verdicts)] if len(verdicts) > 1 else [])]),
        Panel("Other metrics", others, "metrics"),
        Panel("Windows", comparison.windows_of_comparison(compared)),
        *examples,
        Panel("Reproduce", again),
    ]
    folders = [compared.folder, *(run.folder for run in runs)]
    findings = _completed(comparison.findings_of_comparison(compared), folders, question)
    facts = comparison.facts_of_comparison(compared)
    return render(findings, facts, [panel for panel in panels if panel.parts], packed.model, packed.packs)


def _completed(findings: Findings, folders: Sequence[Path], question: str | None) -> Findings:
    """Return findings with the user's question, if there is one, and a warning of files that were changed."""
    changed = [
        f"{folder / name} is not as hdrl wrote it: the page may show something else than the runs."
        for folder in folders
        if (folder / MANIFEST_FILE).is_file()
        for name in changed_files(folder)
    ]
    return replace(findings, question=question or findings.question, warnings=(*changed, *findings.warnings))


def _schedules(runs: Sequence[Run], charts: dict[str, list[Part]]) -> tuple[list[Panel], Packed]:
    """Return the tab of the schedules, if there are any, and what the browser draws; take its figures out of charts."""
    found = [(position, run.name, one) for position, run in enumerate(runs) if (one := run.schedule()) is not None]
    parts: list[Part] = [*([part_of(found)] if found else []), *charts.pop("Schedule", ())]
    return [Panel("Schedule", parts)] if parts else [], Packed(found)


def _charts(runs: Sequence[Run], setting: Setting) -> dict[str, list[Part]]:
    """Return the figures that can be drawn of the runs, by the title of their tab."""
    tabs: dict[str, list[Part]] = {}
    # What was learned comes first in the summary, and its own tab comes last.
    for figure in sorted(figures_of(setting).values(), key=lambda one: one.reads != "trainings"):
        for on_page in figure.on_page:
            drawn = chart_of(figure, on_page, list(enumerate(runs)))
            if drawn is not None:
                tabs.setdefault(on_page.tab, []).append(drawn)
    if LEARNING in tabs:
        tabs[LEARNING] = tabs.pop(LEARNING)
    return tabs


def _facts(runs: Sequence[Run]) -> list[tuple[str, str]]:
    """Return the facts of the runs: how many, their inputs, and their numbers, as ranges where they differ."""

    def one_or_count(values: list[str | None], many: str) -> str:
        known = list(dict.fromkeys(value for value in values if value is not None))
        return known[0] if len(known) == 1 else f"{len(known)} {many}" if known else "unknown"

    facts = [
        ("runs", f"{len(runs):,}"),
        ("platform", one_or_count([run.platform for run in runs], "platforms")),
        ("workload", one_or_count([run.workload for run in runs], "workloads")),
    ]
    for name in dict.fromkeys(name for run in runs for name in run.facts):
        numbers = [run.facts[name] for run in runs if name in run.facts]
        low, high = (f"{number:,.2f}".removesuffix(".00") for number in (min(numbers), max(numbers)))
        facts.append((name, low if low == high else f"{low} to {high}"))
    return facts
