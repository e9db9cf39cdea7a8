"""Parts that the readers of all formats share: the open file, invalid rows, and the load made of the rows."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hdrl.base.csvfiles import delimiter_of, named_rows
from hdrl.base.textnumbers import float_of
from hdrl.settings.gpu.loads.load import WHOLE_GPU, GpuLoad, Speeds, new_jobs

Row = dict[str, Any]
"""A job as a reader gives it: ``arrival_s``, ``duration_s``, ``n_gpus``, and further columns of jobs by name."""

LATE_S = 10_000_000.0
"""A trace whose dates begin later gets a warning: rates counted from 0 on include time without any job."""


class Faulty(Exception):
    """A row that makes no job; its text is the reason, in the plural."""


@dataclass
class Source:
    """A trace that is being read."""

    path: Path
    text: str
    dropped: dict[str, int] = field(default_factory=dict)  # numbers of rows that were left out, by reason
    faults: list[str] = field(default_factory=list)  # other faults, a line each
    gpus_per_machine: int = 8  # GPUs that a machine of a trace without GPUs stands for

    @property
    def first_line(self) -> str:
        """The first line that is not blank."""
        return next((line.strip() for line in self.text.splitlines() if line.strip()), "")

    def drop(self, reason: str) -> None:
        """Count a row that is left out, by a reason in the plural."""
        self.dropped[reason] = self.dropped.get(reason, 0) + 1

    def table(self, columns: Sequence[str], *, has_header: bool = True) -> Iterator[tuple[int, dict[str, str]]]:
        """Yield the lines of a CSV file with their numbers, see `hdrl.base.csvfiles.named_rows`."""
        return named_rows(self.path, self.text, columns, has_header=has_header)


def cells_of(line: str) -> list[str]:
    """Return the cells of the first line of a file, without the spaces around them."""
    try:
        return [
            cell.strip() for cell in next(csv.reader([line], delimiter=delimiter_of(line), skipinitialspace=True), [])
        ]
    except csv.Error:  # a field that is too long
        return []


def number(value: str, what: str) -> float:
    """Return a finite number, or raise `Faulty` with the description ``what``."""
    try:
        found = float_of(value)
    except ValueError:
        raise Faulty(f"jobs without {what}") from None
    if not math.isfinite(found):
        raise Faulty(f"jobs without {what}")
    return found


def whole(value: str, what: str) -> int:
    """Return a whole number, or raise `Faulty` with the description ``what``."""
    found = number(value, what)
    if not found.is_integer():
        raise Faulty(f"jobs without {what} that is whole")
    return int(found)


def gpus(value: str) -> Row:
    """Return the number of GPUs of a job, or its share of one, as columns of jobs."""
    found = number(value, "a number of GPUs")
    if found < 0:
        raise Faulty("jobs that ask for fewer than 0 GPUs")
    if found == 0:
        raise Faulty("jobs that ask for 0 GPUs")
    if found < 1:
        return {"n_gpus": 1, "gpu_milli": math.ceil(found * WHOLE_GPU)}
    if not found.is_integer():
        raise Faulty("jobs that ask for more than one GPU, but not for a whole number")
    return {"n_gpus": int(found), "gpu_milli": WHOLE_GPU}


@dataclass(frozen=True, slots=True)
class TraceFormat:
    """A format of traces."""

    help: str  # trace that has this format
    # gives the jobs of a source; those that make none raise `Faulty` inside of `kept`
    rows: Callable[[Source], Iterator[Row]]
    speeds: Speeds  # whether types of GPUs differ in speed where the trace does not say on which ones it was measured
    matches: Callable[[str], bool]  # tells by its first line whether a file is of this format
    columns: Sequence[str] = ()  # columns that a first line with names must have; empty where the first line names none
    has_calendar_dates: bool = False  # True if dates may be those of the calendar, not seconds since a start


def named_format(
    what: str,
    job: Callable[[dict[str, str]], Row],
    speeds: Speeds,
    columns: Sequence[str],
    *,
    has_calendar_dates: bool = False,
) -> TraceFormat:
    """Return a format that hdrl recognises by the names of its columns, in any order, others among them."""
    return TraceFormat(
        what,
        lambda source: kept(source, source.table(columns), job),
        speeds,
        lambda line: set(columns) <= set(cells_of(line)),
        columns,
        has_calendar_dates,
    )


def kept(source: Source, lines: Iterator[tuple[int, dict[str, str]]], job: Callable[[dict[str, str]], Row]) -> Any:
    """Yield the jobs of lines; count lines that make no job, by reason."""
    for _, line in lines:
        try:
            yield job(line)
        except Faulty as fault:
            source.drop(str(fault))
        except OverflowError:  # a product of what is large
            source.drop(TOO_LARGE)


def name_prefix(name: str) -> str:
    """Return the common part of the names of repeated jobs: what is before the first number, in small letters.

    A name that begins with a number is its own prefix.
    """
    small = name.strip().lower()
    return re.split(r"[-_.\s]*\d", small, maxsplit=1)[0] or small


TOO_LARGE = "jobs whose numbers are beyond all bounds"


def describe_dropped(dropped: Mapping[str, int]) -> str:
    """Return the numbers of items that were left out, in words."""
    return ", ".join(f"{count:,} {reason}" for reason, count in dropped.items())


_NUMBERED = {"user": "user", "group": "group", "name": "name", "kind": "kind", "constraint": "types"}
"""Columns of jobs that are numbers of what rows say, and what they are called there."""


def load_of(
    source: Source,
    form: str,
    rows: list[Row],
    *,
    speeds: Speeds = "flops",
    scale: float = 1.0,
    sha256: str = "",
    has_calendar_dates: bool = False,
) -> GpuLoad:
    """Return the load of the jobs of a source, in the order of their arrival; ``scale`` multiplies arrival dates."""
    rows.sort(key=lambda row: row["arrival_s"])
    first_s = rows[0]["arrival_s"]
    if first_s >= LATE_S and not has_calendar_dates:
        source.faults.append(f"dates begin at {first_s:,.0f} s: they are counted from the first job on")
    jobs = new_jobs(len(rows))
    numbers: dict[str, dict[Any, int]] = {name: {} for name in _NUMBERED}
    plain = ("n_gpus", "gpu_milli", "cpu_milli", "memory_mib", "priority", "requested_s", "wait_s")
    for job, row in zip(jobs, rows, strict=True):
        job["arrival_s"], job["work"] = (row["arrival_s"] - first_s) * scale, row["duration_s"]
        for name in plain:
            if name in row:
                job[name] = row[name]
        for name, key in _NUMBERED.items():
            if row.get(key):
                job[name] = numbers[name].setdefault(row[key], len(numbers[name]))
    if source.dropped:
        source.faults.insert(0, f"left out: {describe_dropped(source.dropped)}")
    name = Path(source.path.name.removesuffix(".gz")).stem
    return GpuLoad(
        name,
        jobs,
        kinds=tuple(numbers["kind"]),
        users=tuple(numbers["user"]),
        constraints=tuple(numbers["constraint"]),
        speeds=speeds,
        n_dropped=dict(source.dropped),
        faults=tuple(source.faults),
        origin={"file": source.path.name, "format": form, "sha256": sha256, "first_date_s": first_s},
    )
