"""Results of an experiment for people: as text, and as a page in the style of all reports."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from hdrl.figures.numbers import MISSING
from hdrl.figures.style import below_title, canvas, colour, default_look
from hdrl.metrics.words import metric_words, number_words
from hdrl.report.page.charts import chart
from hdrl.report.page.findings import Findings
from hdrl.report.page.forest import Axis, Scale, interval
from hdrl.report.page.page import render
from hdrl.report.page.parts import Cell, Chart, PageColumn, PageTable, Panel, Part, Row
from hdrl.report.page.schedule import Packed
from hdrl.site.page import new_folder, text_table, write_forms

ANSWER, TEXT, PAGE = "ab.json", "ab.txt", "ab.html"


def write_analysis(answer: Mapping[str, Any], folder: str | Path) -> list[str]:
    """Write an answer as JSON, as text and as a page; return what could not be written.

    Raises
    ------
    OutputError
        If the folder is there already, or cannot be made.
    """
    folder = Path(folder)
    new_folder(folder)
    return write_forms(answer, folder, (ANSWER, TEXT, PAGE), analysis_text, analysis_page)


def analysis_text(answer: Mapping[str, Any]) -> str:
    """Return an answer as text."""
    lines = [answer["verdict"], answer["certainty"], "", *(f"- {note}" for note in answer["notes"])]
    for table in (_metrics_table(answer), _counts_table(answer)):
        lines += ["", *text_table(table)]
    return "\n".join(lines) + "\n"


def analysis_page(answer: Mapping[str, Any]) -> str:
    """Return the page of an answer.

    Raises
    ------
    MissingExtra
        If Jinja2 or matplotlib is not installed.
    """
    baseline, candidate = answer["policies"]
    findings = Findings(
        f"Is {candidate} better than {baseline} here?", answer["verdict"], answer["certainty"], tuple(answer["notes"])
    )
    facts = [
        ("pairs of blocks", f"{answer['n_pairs']} of {answer['planned_pairs']}"),
        ("jobs that count", f"{sum(answer['jobs']['counted'].values()):,}"),
        ("accounting until", answer["seen_until"]),
        ("difference first shown", answer["first_shown"] or "not yet"),
    ]
    results: list[Part] = [_metrics_table(answer, drawn=True)]
    if picture := _picture(answer):
        results.append(picture)
    panels = [
        Panel("Result", results),
        Panel("Looks", [_looks_table(answer)]),
        Panel("Jobs", [_counts_table(answer)]),
        Panel("Blocks", [_blocks_table(answer)]),
    ]
    packed = Packed(())
    return render(
        findings,
        facts,
        [one for one in panels if any(_rows_of(part) for part in one.parts)],
        packed.model,
        packed.packs,
    )


def _rows_of(part: Part) -> Sequence[Row]:
    return part.rows if isinstance(part, PageTable) else ()


def _number(value: float | None) -> str:
    return MISSING if value is None else number_words(value)


def _ends(low: float | None, high: float | None) -> str:
    return f"[{_number(low)}, {_number(high)}]"


def _metrics_table(answer: Mapping[str, Any], *, drawn: bool = False) -> PageTable:
    baseline, candidate = answer["policies"]
    numbers: Mapping[str, Mapping[str, Any]] = answer["metrics"]
    finite = [one[end] for one in numbers.values() for end in ("ratio", "low", "high") if one[end]]
    scale = Scale.over(finite)
    columns = [
        PageColumn("pairs"),
        PageColumn("ratio", help="with the interval that holds at all looks"),
        *([PageColumn("", scale=Axis(scale, "better", "worse"))] if drawn else []),
        PageColumn("at most", help="one-sided bound"),
        PageColumn("p"),
    ]
    rows = []
    for name, one in numbers.items():
        is_apart = bool(one["low"] and one["high"]) and not one["low"] <= 1 <= one["high"]
        mark = "" if not is_apart else "good" if one["ratio"] < 1 else "bad"
        cells = [Cell(f"{one['pairs']}"), Cell(_number(one["ratio"]), aside=_ends(one["low"], one["high"]), mark=mark)]
        if drawn:
            ends = (one["low"] or 0.0, math.inf if one["high"] is None else one["high"])
            is_known = one["ratio"] is not None and math.isfinite(ends[1]) and ends[0] > 0
            cells.append(
                Cell(drawing=interval(scale, one["ratio"], *ends, mark=mark, is_learned=False)) if is_known else Cell()
            )
        cells += [Cell(_number(one["bound"])), Cell(MISSING if one["p"] is None else f"{one['p']:.2g}")]
        rows.append(Row(metric_words(name), cells))
    return PageTable(f"{candidate} as a multiple of {baseline}", "metric", columns, rows, is_stacked=True)


def _looks_table(answer: Mapping[str, Any]) -> PageTable:
    columns = [PageColumn("pairs"), PageColumn("ratio"), PageColumn("p")]
    rows = [
        Row(
            one["date"],
            [
                Cell(f"{one['pairs']}"),
                Cell(_number(one["ratio"]), _ends(one["low"], one["high"])),
                Cell(f"{one['p']:.2g}"),
            ],
        )
        for one in answer["looks"]
    ]
    return PageTable(f"Looks at the {metric_words(answer['metric'])}", "date", columns, rows)


def _counts_table(answer: Mapping[str, Any]) -> PageTable:
    policies = answer["policies"]
    jobs = answer["jobs"]

    def cells(counts: Mapping[str, int]) -> list[Cell]:
        return [Cell(f"{sum(counts.values()):,}"), *(Cell(f"{counts.get(name, 0):,}") for name in policies)]

    rows = [Row("jobs that count", cells(jobs["counted"]))]
    rows += [Row(f"left out: {reason}", cells(counts)) for reason, counts in jobs["left_out"].items()]
    rows.append(Row("job ids", [Cell(f"{jobs['ids']:,}"), Cell(), Cell()]))
    for reason, n in answer["rows"]["skipped"].items():
        rows.append(Row(f"rows skipped: {reason}", [Cell(f"{n:,}"), Cell(), Cell()]))
    for reason, n in answer["pairs_left_out"].items():
        rows.append(Row(f"pairs left out: {reason}", [Cell(f"{n:,}"), Cell(), Cell()]))
    columns = [PageColumn("number"), *(PageColumn(f"under {name}") for name in policies)]
    return PageTable("Counted and excluded jobs", "count", columns, rows)


def _blocks_table(answer: Mapping[str, Any]) -> PageTable:
    metric = answer["metric"]
    columns = [
        PageColumn("policy", is_number=False),
        PageColumn("pair"),
        PageColumn("jobs"),
        PageColumn("started after the end"),
        PageColumn(metric_words(metric)),
    ]
    rows = [
        Row(
            one["begin"],
            [
                Cell(one["policy"]),
                Cell(f"{one['pair']}"),
                Cell(f"{one['jobs']:,}" if one["is_settled"] else MISSING),
                Cell(f"{one['carried_over']:,}" if one["is_settled"] else MISSING),
                Cell(_number(one[metric])),
            ],
        )
        for one in answer["blocks"]
    ]
    return PageTable("Blocks of the plan", "begin", columns, rows)


def _picture(answer: Mapping[str, Any]) -> Chart | None:
    """Draw the interval after each look."""
    looks = [one for one in answer["looks"] if one["low"] and one["high"]]
    if len(looks) < 2:
        return None
    title = f"Ratio of the {metric_words(answer['metric'])} as the experiment went on"
    with default_look():
        figure, (axes,) = canvas(None, 1, 1, size_in=(9.0, 3.5))
        at = [one["pairs"] for one in looks]
        axes.fill_between(
            at, [one["low"] for one in looks], [one["high"] for one in looks], color=colour(0), alpha=0.2, linewidth=0
        )
        axes.plot(at, [one["ratio"] for one in looks], color=colour(0))
        axes.axhline(1.0, color="#6b7280", linewidth=1)
        axes.set_yscale("log")
        ticks = Scale.over(one[end] for one in looks for end in ("low", "high")).ticks()
        axes.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
        axes.minorticks_off()
        axes.set_xlabel("settled pairs of blocks")
        axes.set_ylabel("ratio")
        below_title(axes, f"with the {100 * answer['confidence']:.10g} % interval that holds at all looks")
        last = looks[-1]
        words = f"{title}; after {last['pairs']} pairs {_number(last['ratio'])} {_ends(last['low'], last['high'])}."
        return chart(figure, title, words, [])


def plan_lines(plan: Mapping[str, Any], outlook: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines of a plan and its outlook, as text."""
    baseline, candidate = plan["policies"]
    blocks = plan["blocks"]
    yield f"{candidate} against {baseline}: {len(blocks)} blocks from {blocks[0]['begin']} to {blocks[-1]['end']}"
    needed = [
        Row(f"{one['metric']}, pairs of {_PAIR_WORDS[one['pairing']]}", _needed_cells(one)) for one in outlook["needed"]
    ]
    columns = [PageColumn("pairs of the log"), PageColumn("sd of the log ratio"), PageColumn("days")]
    caption = f"Days until 4 of 5 experiments show a gain of {outlook['gain']:.0%}, from {outlook['source']}"
    yield from text_table(PageTable(caption, "metric", columns, needed))
    yield f"{outlook['power']:.0%} of experiments as long as this plan show it."
    yield (
        f"All jobs that waited at a switch have started {outlook['clear_h']:.1f} h after it on nine of ten days. The "
        f"wash-out is {plan['wash_out_s'] / 3600:g} h; {outlook['carried']:.1%} of the jobs start after their block's "
        "end."
    )


_PAIR_WORDS = {"next": "neighbours", "week": "a week apart"}


def _needed_cells(one: Mapping[str, Any]) -> list[Cell]:
    days = "more than 1,024 pairs of blocks" if one["days"] is None else f"{one['days']:,.0f}"
    if one["sd"] is None:
        days = "too few pairs"
    return [Cell(f"{one['pairs_of_the_log']:,}"), Cell(_number(one["sd"])), Cell(days)]
