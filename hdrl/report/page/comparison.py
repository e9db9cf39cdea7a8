"""Report on a comparison: its verdict, its tables with intervals, its windows."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable

from hdrl.experiment.compare.summary import SummaryRow, baseline_row
from hdrl.experiment.compare.verdict import differs, headline, logs_words
from hdrl.figures.numbers import MISSING, Form, listed, metric_form, metric_words, number_words
from hdrl.figures.style import default_look
from hdrl.report.comparison import ALL, Compared
from hdrl.report.intervals import windows
from hdrl.report.page.charts import chart
from hdrl.report.page.findings import Findings
from hdrl.report.page.forest import Axis, Scale, interval
from hdrl.report.page.parts import Cell, Chart, File, Files, PageColumn, PageTable, Row
from hdrl.report.page.tables import code_table
from hdrl.report.ranking import ranks_of

MOST_CURVES = 8
"""Candidates whose windows are drawn: the best ones, and all that learned."""

MOST_ON_LOGS = 3
"""Number of candidates with an estimate for another log on the page."""


def _judged(compared: Compared, rows: list[SummaryRow]) -> list[SummaryRow]:
    """Return the rows of the requested candidates, without second opponents that hdrl chose."""
    requested = compared.sweep.get("candidates") or []
    extra_opponents = {peer.name for peer in compared.result.peer_baselines}.difference(requested)
    named = [row for row in rows if row.candidate not in extra_opponents]
    return named if len(named) <= len(requested) else rows  # opponents may be members of a requested group


def findings_of_comparison(compared: Compared) -> Findings:
    """Return the findings of a comparison."""
    result, metric = compared.result, compared.metric
    label = metric_words(metric)
    rows = _judged(compared, [row for row in compared.rows(metric) if not row.is_baseline])
    learned = [row.candidate for row in rows if compared.is_learned(row.candidate)]
    question = f"How does {result.baseline} perform in {label}?"
    if len(rows) == 1 or len(learned) == 1:
        question = f"Does {(learned or [rows[0].candidate])[0]} beat {result.baseline} in {label}?"
    elif rows:
        question = f"Does any of {len(rows)} candidates beat {result.baseline} in {label}?"
    answer = result.verdict
    if metric != result.metric:
        base = baseline_row(result.rows, metric)
        answer = headline(rows, result.baseline, compared.infos[metric], learned, criteria=result.criteria, base=base)
    share = f"{100 * compared.confidence:.10g}%"
    certainty = (
        f"Ratios are geometric means over windows with {share} intervals of a bootstrap; p-values are Wilcoxon's, "
        "after Holm."
    )
    if len(rows) > 1 and compared.infos[metric].lower_is_better is None:
        shown = sum(map(differs, rows))
        certainty = f"{shown} of {len(rows)} candidates are shown to differ. " + certainty
    elif len(rows) > 1:
        shown = sum(compared.is_better(row) is True for row in rows)
        certainty = f"{shown} of {len(rows)} candidates are shown to be better. " + certainty
    certainty = " ".join([certainty, *filter(None, map(logs_words, rows[:MOST_ON_LOGS]))])
    warnings = tuple(_sentence(caution.text) for caution in result.cautions)
    return Findings(
        question, _sentence(answer or "There is nothing to compare the baseline with."), certainty, warnings
    )


def facts_of_comparison(compared: Compared) -> list[tuple[str, str]]:
    """Return pairs of a name and a value that say what was compared."""
    rows = compared.rows(compared.metric)
    platform = compared.identity.platform
    workloads = [str(one.name) for one in compared.identity.workloads]
    facts = [("candidates", f"{len(rows):,}"), ("simulations", f"{compared.result.n_points:,}")]
    if rows:
        jobs = max(row.n_jobs // row.n_seeds for row in rows)
        facts += [("windows", f"{rows[0].n_windows:,}"), ("jobs", f"{jobs:,}")]
    if platform.name:
        facts.append(("platform", platform.name))
    if platform.n_cores:
        facts.append(("cores", f"{platform.n_cores:,}"))
    if workloads:
        facts.append(("workloads" if len(workloads) > 1 else "workload", listed(workloads)))
    return facts


def tables_of_comparison(compared: Compared) -> tuple[list[PageTable], list[PageTable]]:
    """Return the tables of the metric that decides, over all workloads and of each, and those of other metrics.

    All have one scale of ratios.
    """
    parts = [(compared.metric, part) for part in (ALL, *compared.workloads)]
    others = [(metric, ALL) for metric in compared.metrics[1:]]
    rows = [row for metric, part in (*parts, *others) for row in compared.rows(metric, part)]
    scale = Scale.over(end for row in rows for end in (row.ratio, row.ratio_low, row.ratio_high))
    return list(_tables(compared, parts, scale)), list(_tables(compared, others, scale))


def windows_of_comparison(compared: Compared) -> list[Chart]:
    """Return the picture of the ratio to the baseline in each window: of the best candidates and those that learned."""
    means = compared.means_of_windows()
    n_windows = len(means.get(compared.result.baseline, ()))
    known = [
        row
        for row in compared.rows(compared.metric)
        if not row.is_baseline and not math.isnan(row.ratio) and len(means.get(row.candidate, ())) == n_windows
    ]
    rows = [row for position, row in enumerate(known) if position < MOST_CURVES or compared.is_learned(row.candidate)]
    if not rows or not n_windows:
        return []
    with default_look():
        names = [row.candidate for row in rows]
        words = metric_words(compared.metric)
        each = "; ".join(f"{row.candidate} {number_words(row.ratio)} in the mean" for row in rows)
        charts = [
            chart(
                windows(compared, names),
                f"Ratio of the {words} to {compared.result.baseline}, window by window",
                f"Ratio of the {words} to that of {compared.result.baseline} in each window; {each}",
                list(enumerate(names)),
                has_marks=True,
            )
        ]
        if len(known) > 1 and n_windows > 1:
            ranked = f"Mean ranks by {words}, joined where no difference is shown"
            charts.append(chart(ranks_of(compared), ranked, f"{ranked}; best first: {names[0]}", []))
        return charts


def origin_of_comparison(compared: Compared) -> tuple[Files, PageTable]:
    """Return the sweep that repeats a comparison, and the hashes and versions of all inputs."""
    identity = compared.identity
    pairs = [("folder", compared.folder.resolve().name), ("SHA-256 of the sweep", identity.sweep)]
    pairs.append(("SHA-256 of the platform", identity.platform.sha256))
    pairs += [(f"SHA-256 of {one.name}", one.sha256) for one in identity.workloads]
    for name, candidate in identity.candidates.items():
        pairs += [(f"SHA-256 of {name}", text) for text in candidate.sha256]
    pairs += [(f"version of {name}", text) for name, text in identity.versions.items()]
    text = json.dumps(compared.sweep, indent=2) + "\n"
    sweep = File("sweep.json", "sweep.json", text, "hdrl compare sweep.json --out again")
    known = [(name, str(value)) for name, value in pairs if value]
    return Files([sweep]), code_table("Provenance", known)


def _tables(compared: Compared, parts: Iterable[tuple[str, str]], scale: Scale) -> Iterable[PageTable]:
    for metric, workload in parts:
        rows = compared.rows(metric, workload)
        if rows:
            yield _table(compared, rows, scale)


def _table(compared: Compared, rows: list[SummaryRow], scale: Scale) -> PageTable:
    first = rows[0]
    info = compared.infos[first.metric]
    form = metric_form(first.metric, info, [value for row in rows for value in (row.mean, row.p99, row.worst)])
    where = "" if first.workload == ALL else f" on {first.workload}"
    windows_ = f"{first.n_windows:,} window{'' if first.n_windows == 1 else 's'}"
    axis = Axis(scale, info.side(0.5), info.side(2.0))
    # Where one side is 0 in some window, there are no ratios.
    has_ratios = any(not math.isnan(row.ratio) for row in rows if not row.is_baseline)
    columns = [
        *([PageColumn(f"ratio to {compared.result.baseline}"), PageColumn("", scale=axis)] if has_ratios else []),
        PageColumn("p (Holm)"),
        PageColumn("mean", form.unit),
        PageColumn("p99", form.unit),
        PageColumn("worst", form.unit),
    ]
    has_unrun = any(row.n_unfinished or row.n_failed for row in rows)
    if has_unrun:
        columns.append(PageColumn("unrun jobs"))
    ordered = sorted(rows, key=lambda row: not row.is_baseline)
    return PageTable(
        caption=f"{metric_words(first.metric).capitalize()}{where}: {windows_}, {info.preference}",
        about="candidate",
        columns=columns,
        rows=[
            Row(
                row.candidate,
                [
                    *(_ratio_cells(compared, row, scale) if has_ratios else []),
                    *_cells(row, form, _marker_of(compared, row) if math.isnan(row.ratio) else ""),
                    *([_unrun(row)] if has_unrun else []),
                ],
                badge="baseline"
                if row.is_baseline and not has_ratios
                else "learned"
                if compared.is_learned(row.candidate)
                else "",
            )
            for row in ordered
        ],
        is_stacked=True,
    )


def _ratio_cells(compared: Compared, row: SummaryRow, scale: Scale) -> list[Cell]:
    mark = "" if math.isnan(row.ratio) else _marker_of(compared, row)
    ratio = "baseline" if row.is_baseline else _number(row.ratio)
    is_learned = compared.is_learned(row.candidate)
    picture = interval(scale, row.ratio, row.ratio_low, row.ratio_high, mark=mark, is_learned=is_learned)
    if row.is_baseline:
        picture = interval(scale, math.nan, math.nan, math.nan)
    of_ratio = "" if math.isnan(row.ratio_low) else f"[{_number(row.ratio_low)}, {_number(row.ratio_high)}]"
    return [Cell(ratio, of_ratio, mark), Cell(drawing=picture)]


def _marker_of(compared: Compared, row: SummaryRow) -> str:
    better = compared.is_better(row)
    return "" if better is None or row.is_baseline else "good" if better else "bad"


def _cells(row: SummaryRow, form: Form, mark: str) -> list[Cell]:
    p = "" if row.is_baseline or math.isnan(row.p_holm) else f"{row.p_holm:.2g}"
    of_mean = "" if math.isnan(row.mean_low) else f"[{form.number(row.mean_low)}, {form.number(row.mean_high)}]"
    return [
        Cell(p),
        Cell(form.number(row.mean), of_mean, mark),
        Cell(form.number(row.p99)),
        Cell(form.number(row.worst)),
    ]


def _unrun(row: SummaryRow) -> Cell:
    return Cell(f"{row.n_unfinished:,}", "(failed)" if row.n_failed else "", "bad" if row.n_unfinished else "")


def _number(value: float) -> str:
    return number_words(value) if math.isfinite(value) else MISSING


_FIRST_WORDS = "the", "requested", "one", "no", "windows", "neighbouring"
"""Words that begin a caution and are no name, so that a sentence may begin with a capital."""


def _sentence(text: str) -> str:
    if text.split(maxsplit=1)[:1] and text.split(maxsplit=1)[0] in _FIRST_WORDS:
        text = text[0].upper() + text[1:]
    return text if text.endswith((".", "!", "?")) else text + "."
