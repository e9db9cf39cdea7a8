"""The answer to a what-if question for people: as text, and as a page in the style of all reports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hdrl.figures.numbers import MISSING, time_unit
from hdrl.report.page.findings import Findings
from hdrl.report.page.page import render
from hdrl.report.page.parts import Cell, PageColumn, PageTable, Panel, Row
from hdrl.report.page.schedule import Packed
from hdrl.settings.batch.site_rules.metrics import LENGTH_CLASSES, SIZE_CLASSES
from hdrl.site.page import new_folder, text_table, write_forms
from hdrl.site.whatif import PARTITION

ANSWER, TEXT, PAGE = "whatif.json", "whatif.txt", "whatif.html"


def write_answer(answer: Mapping[str, Any], folder: Path) -> list[str]:
    """Write an answer as JSON, as text and as a page; return what could not be written.

    Raises
    ------
    OutputError
        If the folder is there already, or cannot be made.
    """
    new_folder(folder)
    return write_forms(answer, folder, (ANSWER, TEXT, PAGE), answer_text, answer_page)


def answer_text(answer: Mapping[str, Any]) -> str:
    """Return an answer as text."""
    lines = [f"{answer['site']}: {answer['verdict']}", "", *(f"- {note}" for note in answer["notes"])]
    for table in _tables(answer):
        lines += ["", *text_table(table)]
    return "\n".join(lines) + "\n"


def answer_page(answer: Mapping[str, Any]) -> str:
    """Return the page of an answer.

    Raises
    ------
    MissingExtra
        If Jinja2 is not installed.
    """
    question = answer["question"]
    findings = Findings(
        f"How many nodes does {answer['site']} need?",
        answer["verdict"],
        f"Intervals of 95 % over {question['windows']} windows of {question['window']:,} jobs; "
        "the same for all machines.",
        tuple(answer["notes"]),
    )
    facts = [
        ("machines", f"{len(question['sizes'])}"),
        ("policies", f"{len(question['policies'])}"),
        ("windows", f"{question['windows']}"),
        ("jobs before each", f"{question['warm_up']:,}"),
    ]
    summary, *classes = _tables(answer)
    packed = Packed(())
    panels = [Panel("Machines", [summary]), Panel("Classes", classes, "classes")]
    return render(findings, facts, panels, packed.model, packed.packs)


def _tables(answer: Mapping[str, Any]) -> list[PageTable]:
    rows = answer["rows"]
    largest = max((row["numbers"]["p95_wait_s"][0] or 0.0 for row in rows), default=0.0)
    seconds, unit = time_unit(largest)
    columns = [
        PageColumn("nodes"),
        PageColumn("mean wait", unit),
        PageColumn("p95 wait", unit),
        PageColumn("cores in use", "%"),
        PageColumn("power", "kW"),
        PageColumn("cost a day"),
    ]
    scales = {
        "mean_wait_s": seconds,
        "p95_wait_s": seconds,
        "utilization": 0.01,
        "power_kw": 1.0,
        "cost_per_day": 1.0,
    }
    cells = [
        Row(_title(row), [Cell(f"{row['nodes']:,}"), *(_cell(row, name, scale) for name, scale in scales.items())])
        for row in rows
    ]
    tables = [PageTable("Machines and policies", "machine and policy", columns, cells, is_stacked=True)]
    partitions = [name for name in rows[0]["numbers"] if name.startswith(PARTITION)]
    for caption, names in (
        ("Mean waits by requested time", [name for name, _ in LENGTH_CLASSES]),
        ("Mean waits by size", list(SIZE_CLASSES)),
        ("Mean waits by partition", partitions),
    ):
        if names:
            tables.append(_of_classes(caption, names, rows, (seconds, unit)))
    return tables


def _of_classes(
    caption: str, names: Sequence[str], rows: Sequence[Mapping[str, Any]], time: tuple[float, str]
) -> PageTable:
    seconds, unit = time
    cells = [Row(_title(row), [_cell(row, name, seconds) for name in names]) for row in rows]
    return PageTable(caption, "machine and policy", [PageColumn(name, unit) for name in names], cells, is_stacked=True)


def _title(row: Mapping[str, Any]) -> str:
    return f"{row['size']}, {row['policy']}"


def _cell(row: Mapping[str, Any], name: str, scale: float) -> Cell:
    value, low, high = row["numbers"][name]
    if value is None:
        return Cell(MISSING)
    ends = "" if low is None or low == high else f"[{low / scale:,.2f}, {high / scale:,.2f}]"
    return Cell(f"{value / scale:,.2f}", aside=ends)
