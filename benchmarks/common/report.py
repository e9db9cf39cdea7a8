"""Tables of measured numbers beside their targets: for people, as JSON, and in Markdown."""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console
from rich.table import Table

SECTION = "## Last measured"
"""Where tables go that have no heading yet."""

_HEAD = ("| what | median | min - max | n | target | verdict | ratio |", "|---|---:|---:|---:|---|---|---|")

_STATE = "Measured on"


def _state() -> str:
    """Say on which machine something is measured, and how busy it has been in the last minute."""
    load = f", load {os.getloadavg()[0]:.1f} before" if hasattr(os, "getloadavg") else ""
    today = datetime.now(UTC).date()
    return f"{today}, {os.cpu_count()} processors, {platform.system()}, Python {platform.python_version()}{load}."


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured number; less is better, unless it is a rate or its target is a least value.

    Attributes
    ----------
    what
        What was measured.
    values
        The measurements; their median is compared with the target.
    unit
        ``"s"``, ``"MiB"``, ``"x"`` or, for a rate, ``"/s"``.
    at_most, at_least
        The target, if there is one.
    ratio
        A comparison with something else in the same table or quoted, in words, for instance ``"12 x faster"``.
    """

    what: str
    values: tuple[float, ...]
    unit: str = "s"
    at_most: float | None = None
    at_least: float | None = None
    ratio: str = ""

    @property
    def median(self) -> float:
        """The median of the measurements."""
        return statistics.median(self.values)

    @property
    def is_met(self) -> bool | None:
        """Whether the target is met; ``None`` without one."""
        if self.at_most is not None:
            return self.median <= self.at_most
        return None if self.at_least is None else self.median >= self.at_least


@dataclass(slots=True)
class Report:
    """The table of one benchmark.

    Attributes
    ----------
    title
        What it is about.
    figures
        Its rows.
    notes
        Lines below it: what was left out, where quoted numbers come from.
    state
        On which machine, and how busy that was before.
    """

    title: str
    figures: list[Figure] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    state: str = field(default_factory=_state)

    def add(
        self,
        what: str,
        values: Sequence[float],
        unit: str = "s",
        *,
        at_most: float | None = None,
        at_least: float | None = None,
        ratio: str = "",
    ) -> None:
        """Add a row.

        Parameters
        ----------
        what, values, unit, at_most, at_least, ratio
            See `Figure`.
        """
        self.figures.append(Figure(what, tuple(values), unit, at_most, at_least, ratio))

    def show(self) -> None:
        """Print the table."""
        table = Table(title=self.title, title_justify="left")
        table.add_column("what", overflow="fold")
        for name in ("median", "min - max", "n", "target"):
            table.add_column(name, justify="right", no_wrap=True)
        table.add_column("verdict")
        table.add_column("ratio")
        colours = {"met": "[green]met[/]", "missed": "[red]missed[/]"}
        for *numbers, verdict, ratio in map(_cells, self.figures):
            table.add_row(*numbers, colours.get(verdict, ""), ratio)
        console = Console(highlight=False, width=None if Console().is_terminal else 160)
        console.print(table)
        for note in (self.state, *self.notes):
            console.print(note, markup=False)

    def placed_in(self, text: str) -> str:
        """Return a text in Markdown with the table in it: below the heading of its title, in place of what is there.

        What else stands below the heading stays. Without such a heading, one comes to the end of `SECTION`.

        Parameters
        ----------
        text
            The text.
        """
        lines, heading = text.splitlines(), f"### {self.title}"
        rows = [*_HEAD, *(f"| {' | '.join(_cells(figure))} |" for figure in self.figures), "", f"{_STATE} {self.state}"]
        if heading not in lines:
            end = _next(lines, lines.index(SECTION) + 1 if SECTION in lines else len(lines), "## ")
            lines[end:end] = [heading, "", *rows, "", *self.notes, *([""] if self.notes else [])]
            return "\n".join(lines).rstrip() + "\n"
        first = lines.index(heading) + 1
        end = _next(lines, first, "#")
        begin = next((i for i in range(first, end) if lines[i].startswith("|")), None)
        if begin is None:
            lines[first:first] = ["", *rows]
        else:
            after = next((i for i in range(begin, end) if not lines[i].startswith("|")), end)
            if lines[after : after + 1] == [""] and after + 1 < end and lines[after + 1].startswith(_STATE):
                after += 2
            lines[begin:after] = rows
        return "\n".join(lines) + "\n"


@dataclass(frozen=True, slots=True)
class ReportOptions:
    """The command line of a benchmark.

    Attributes
    ----------
    json
        Where the numbers are kept.
    readme
        A text in Markdown into which the table is put.
    rest
        All other arguments.
    """

    json: Path | None
    readme: Path | None
    rest: tuple[str, ...]


def arguments(description: str | None, rest: str = "") -> ReportOptions:
    """Read the command line of a benchmark.

    Parameters
    ----------
    description
        What the benchmark does, for its help.
    rest
        What further arguments it takes; empty: none.
    """
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--json", type=Path, metavar="FILE", help="keep the numbers in FILE, beside those there")
    parser.add_argument(
        "--readme", type=Path, metavar="FILE", help="put the table into FILE (Markdown), below the heading of its title"
    )
    if rest:
        parser.add_argument("rest", nargs="*", metavar=rest)
    found = parser.parse_args()
    return ReportOptions(found.json, found.readme, tuple(found.rest) if rest else ())


def finish(report: Report, report_options: ReportOptions) -> None:
    """Print a report, and keep it where that was asked for.

    Parameters
    ----------
    report
        The report.
    report_options
        The command line.
    """
    report.show()
    if report_options.readme is not None:
        report_options.readme.write_text(report.placed_in(report_options.readme.read_text()))
    if report_options.json is None:
        return
    kept = json.loads(report_options.json.read_text()) if report_options.json.exists() else {}
    kept["machine"] = {"processors": os.cpu_count(), "system": platform.system(), "python": platform.python_version()}
    kept[report.title] = {
        "state": report.state,
        "figures": [
            {
                "what": figure.what,
                "unit": figure.unit,
                "values": list(figure.values),
                "at_most": figure.at_most,
                "at_least": figure.at_least,
                "is_met": figure.is_met,
                "ratio": figure.ratio,
            }
            for figure in report.figures
        ],
        "notes": report.notes,
    }
    report_options.json.write_text(json.dumps(kept, indent=2) + "\n")


def _cells(figure: Figure) -> tuple[str, ...]:
    """Return what stands in the row of a figure."""
    n = len(figure.values)
    spread = f"{_number(min(figure.values))} - {_number(max(figure.values))}" if n > 1 else ""
    verdict = {True: "met", False: "missed", None: ""}[figure.is_met]
    return figure.what, _quantity(figure.median, figure.unit), spread, str(n), _target(figure), verdict, figure.ratio


def _next(lines: Sequence[str], first: int, begins: str) -> int:
    """Return where the next line from one on begins with something, the number of lines if none does."""
    return next((i for i in range(first, len(lines)) if lines[i].startswith(begins)), len(lines))


def _number(value: float) -> str:
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.2f}" if value >= 1 else f"{value:.3f}"


def _quantity(value: float, unit: str) -> str:
    return f"{_number(value)} {unit}"


def _target(figure: Figure) -> str:
    if figure.at_most is not None:
        return f"<= {figure.at_most:g} {figure.unit}"
    return "" if figure.at_least is None else f">= {figure.at_least:g} {figure.unit}"
