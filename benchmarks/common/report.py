"""Tables of measured numbers beside their targets, for people and as JSON."""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.table import Table


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
    """

    title: str
    figures: list[Figure] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

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
        for figure in self.figures:
            table.add_row(
                figure.what,
                _quantity(figure.median, figure.unit),
                f"{_number(min(figure.values))} - {_number(max(figure.values))}" if len(figure.values) > 1 else "",
                str(len(figure.values)),
                _target(figure),
                {True: "[green]met[/]", False: "[red]missed[/]", None: ""}[figure.is_met],
                figure.ratio,
            )
        console = Console(highlight=False, width=None if Console().is_terminal else 160)
        console.print(table)
        for note in self.notes:
            console.print(note, markup=False)


def finish(report: Report, json_file: Path | None) -> None:
    """Print a report, and keep its numbers in a file beside those of other benchmarks.

    Parameters
    ----------
    report
        The report.
    json_file
        A JSON file, made or added to; ``None`` keeps nothing.
    """
    report.show()
    if json_file is None:
        return
    kept = json.loads(json_file.read_text()) if json_file.exists() else {}
    kept["machine"] = {"processors": os.cpu_count(), "system": platform.system(), "python": platform.python_version()}
    kept[report.title] = {
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
    json_file.write_text(json.dumps(kept, indent=2) + "\n")


def json_file_argument(description: str | None) -> Path | None:
    """Read the command line of a benchmark: ``--json FILE`` or nothing.

    Parameters
    ----------
    description
        What the benchmark does, for its help.
    """
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--json", type=Path, metavar="FILE", help="keep the numbers in FILE, beside those there")
    chosen: Path | None = parser.parse_args().json
    return chosen


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
