"""The files of a run read back: Batsim's, from this project or from Batsim, and HDeepRM's over-utilisations.

`simulation.outputs` writes them. What no run can have written is refused, with the line where it stands.
"""

from __future__ import annotations

import csv
import io
import itertools
import math
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hdrl.errors import ReadError, suggest
from hdrl.files import read_json, read_text
from hdrl.settings.batch.simulation.outputs import JOB_COLUMNS
from hdrl.settings.batch.simulation.texts import text_array
from hdrl.settings.batch.simulation.trace import JobState, OverUtilization
from hdrl.textnumbers import float_of

_TEXT_COLUMNS = frozenset({"job_id", "workload_name", "profile", "final_state", "allocated_resources", "metadata"})
_INTEGER_COLUMNS = frozenset({"requested_number_of_resources", "success"})
_END_COLUMNS = (*JOB_COLUMNS[8:14], "consumed_energy")
_END_STATES = frozenset(state.name for state in JobState if state >= JobState.COMPLETED_SUCCESSFULLY)
_REQUIRED_SCHEDULE_COLUMNS = (
    "consumed_joules",
    "makespan",
    "max_slowdown",
    "max_turnaround_time",
    "max_waiting_time",
    "mean_slowdown",
    "mean_turnaround_time",
    "mean_waiting_time",
)
_SET_PATTERN = re.compile(r"\d+(-\d+)?( \d+(-\d+)?)*", re.ASCII)


def _read_rows(
    path: Path, check_header: Callable[[Path, list[str]], None]
) -> tuple[list[str], list[list[str]], list[int]]:
    """Return header, rows and line numbers of a CSV file whose rows all have as many fields as the header."""
    text = read_text(path)
    if not text.strip():
        raise ReadError(path, "is empty, expected a header line")
    if not text.endswith("\n"):
        raise ReadError(path, "is truncated: its last line has no end", line=text.count("\n") + 1)
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    rows: list[list[str]] = []
    lines: list[int] = []
    header: list[str] = []
    try:
        header = next(reader)
        check_header(path, header)
        for row in reader:
            if len(row) != len(header):
                raise ReadError(path, f"{len(row)} fields, expected {len(header)}", line=reader.line_num)
            rows.append(row)
            lines.append(reader.line_num)
    except csv.Error as error:
        raise ReadError(path, f"is no CSV: {error}", line=reader.line_num) from None
    return header, rows, lines


def _shown(text: str) -> str:
    return repr(text if len(text) <= 40 else text[:37] + "...")


def _finite(text: str) -> float:
    value = float_of(text)
    if not math.isfinite(value):
        raise ValueError(text)
    return value


def _first_bad(column: Sequence[str], convert: Callable[[str], float]) -> int:
    """Return the index of the first text that does not convert to a number that an array can hold."""
    for index, text in enumerate(column):
        try:
            np.int64(convert(text)) if convert is int else convert(text)
        except (ValueError, OverflowError):
            return index
    raise AssertionError("called for a column that converts")


def _numbers(path: Path, name: str, column: Sequence[str], lines: Sequence[int]) -> NDArray[Any]:
    """Return a column as numbers; an empty field of a column that rejected jobs leave empty is NaN."""
    is_integer = name in _INTEGER_COLUMNS
    empty = np.zeros(len(column), dtype=bool)
    if name in _END_COLUMNS and "" in column:
        empty = np.fromiter((not text for text in column), bool, len(column))
        column = [text or "0" for text in column]
    try:
        values = np.fromiter(map(int if is_integer else float, column), np.int64 if is_integer else float, len(column))
        is_good = bool(np.all(np.isfinite(values)))
    except (ValueError, OverflowError):
        is_good = False
    if not is_good:
        index = _first_bad(column, int if is_integer else _finite)
        what = "a whole number" if is_integer else "a finite number"
        raise ReadError(path, f"{name} is {_shown(column[index])}, expected {what}", line=lines[index])
    if empty.any():
        values[empty] = np.nan
    return values


def _check_jobs_header(path: Path, header: list[str]) -> None:
    for position, (found, wanted) in enumerate(itertools.zip_longest(header, JOB_COLUMNS), start=1):
        if found != wanted:
            here = "missing" if found is None else _shown(found)
            there = "no more columns" if wanted is None else repr(wanted)
            raise ReadError(path, f"column {position} is {here}, expected {there}", line=1)


def _check_schedule_header(path: Path, header: list[str]) -> None:
    for name in _REQUIRED_SCHEDULE_COLUMNS:
        if name not in header:
            raise ReadError(path, f"has no column {name!r}; {suggest(name, [text[:40] for text in header])}", line=1)
    if len(set(header)) != len(header):
        raise ReadError(path, "names a column twice", line=1)


def _check_jobs(path: Path, table: dict[str, NDArray[Any]], lines: Sequence[int]) -> None:
    """Raise `ReadError` at the first row that no run can have written."""
    states = table["final_state"].tolist()
    for state in sorted(set(states) - _END_STATES):
        problem = f"final_state is {_shown(state)}; {suggest(state[:80], _END_STATES)}"
        raise ReadError(path, problem, line=lines[states.index(state)])
    rejected = table["final_state"] == JobState.REJECTED.name
    succeeded = table["final_state"] == JobState.COMPLETED_SUCCESSFULLY.name
    checks = [
        (
            table["success"] != succeeded,
            "success must be 1 for COMPLETED_SUCCESSFULLY and 0 for every other final_state",
        ),
        (table["requested_number_of_resources"] < 1, "requested_number_of_resources must be at least 1"),
        (~rejected & (table["execution_time"] < 0), "execution_time must not be negative"),
    ]
    for name in _END_COLUMNS:
        is_empty = np.isnan(table[name])
        checks.append((is_empty & ~rejected, f"{name} is empty, expected a number (only a rejected job has none)"))
        checks.append((~is_empty & rejected, f"{name} must be empty for a rejected job"))
    is_set = np.array([_SET_PATTERN.fullmatch(text) is not None for text in table["allocated_resources"]], dtype=bool)
    checks.append((~rejected & ~is_set, "allocated_resources must be an interval set such as '0-3 8'"))
    for mask, problem in checks:
        if mask.any():
            raise ReadError(path, problem, line=lines[int(np.argmax(mask))])


def read_out_jobs(path: str | Path) -> dict[str, NDArray[Any]]:
    """Read out_jobs.csv, of this project or of Batsim.

    Parameters
    ----------
    path
        The file; a name that ends in ``.gz`` is decompressed.

    Returns
    -------
    dict[str, NDArray]
        An array per column of `JOB_COLUMNS`, rows in the order of the file. Times in seconds, energy in joules
        (-1 without energy); NaN where a rejected job has no value. Texts are arrays of `str` objects.

    Raises
    ------
    ReadError
        If the file cannot be read, is truncated, has another header, or holds something that no run can have written.
    """
    path = Path(path)
    _, rows, lines = _read_rows(path, _check_jobs_header)
    columns: Iterable[Sequence[str]] = zip(*rows, strict=True) if rows else [()] * len(JOB_COLUMNS)
    table = {
        name: text_array(column) if name in _TEXT_COLUMNS else _numbers(path, name, column, lines)
        for name, column in zip(JOB_COLUMNS, columns, strict=True)
    }
    _check_jobs(path, table, lines)
    return table


def read_out_schedule(path: str | Path) -> dict[str, str | float]:
    """Read out_schedule.csv, of this project or of any version of Batsim.

    Parameters
    ----------
    path
        The file; a name that ends in ``.gz`` is decompressed.

    Returns
    -------
    dict[str, str | float]
        ``batsim_version`` as text and every other column as a number; NaN for the means of a run without jobs.

    Raises
    ------
    ReadError
        If the file cannot be read, is truncated, lacks a column, or a value is no number.
    """
    path = Path(path)
    header, rows, lines = _read_rows(path, _check_schedule_header)
    if len(rows) != 1:
        raise ReadError(path, f"has {len(rows)} rows below its header, expected 1")
    result: dict[str, str | float] = {}
    for name, text in zip(header, rows[0], strict=True):
        if name == "batsim_version":
            result[name] = text
            continue
        try:
            result[name] = math.nan if text in {"-nan", "nan"} else _finite(text)
        except ValueError:
            raise ReadError(path, f"{name} is {_shown(text)}, expected a finite number", line=lines[0]) from None
    return result


def _is_date(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e300


def _dates(path: Path, data: dict[str, Any], key: str) -> NDArray[np.float64]:
    dates = data.get(key)
    if not isinstance(dates, list) or not all(map(_is_date, dates)):
        raise ReadError(path, f"{key!r} must be a list of dates in seconds")
    return np.array(dates, dtype=np.float64)


def _span(path: Path, processor: str, value: object) -> tuple[float, float]:
    if isinstance(value, list) and len(value) == 2 and all(map(_is_date, value)) and value[1] >= 0:
        return float(value[0]), float(value[1])
    if _is_date(value):
        return float(value), -1.0  # type: ignore[arg-type]
    raise ReadError(
        path, f"processor {_shown(processor)}: a span must be [start, duration] or the start of an open one"
    )


def read_overutilizations(path: str | Path) -> OverUtilization:
    """Read overutilizations.json, of this project or of HDeepRM.

    Parameters
    ----------
    path
        The file; a name that ends in ``.gz`` is decompressed.

    Returns
    -------
    OverUtilization
        What it holds; spans in the order in which they began, those of one date in the order of the file.

    Raises
    ------
    ReadError
        If the file cannot be read or does not have that format.
    """
    path = Path(path)
    data = read_json(path)
    if not isinstance(data, dict):
        raise ReadError(path, "must be an object with core, mem and mem_bw")
    try:
        core_s, memory_s = _dates(path, data, "core"), _dates(path, data, "mem")
        processors = data["mem_bw"]["procs"]
        spans = [
            (int(processor), *_span(path, processor, value))
            for processor, entry in processors.items()
            for value in entry["values"]
        ]
        spans.sort(key=lambda span: span[1])
        ids, starts_s, durations_s = (list(column) for column in zip(*spans, strict=True)) if spans else ([], [], [])
        processor_ids = np.array(ids, dtype=np.int32)
    except (KeyError, TypeError, AttributeError):
        raise ReadError(path, "mem_bw must hold procs: {id: {state, values: [[start, duration], ...]}}") from None
    except (ValueError, OverflowError):
        raise ReadError(path, "the processors of mem_bw must be named by their numbers") from None
    return OverUtilization(core_s, memory_s, processor_ids, np.array(starts_s, float), np.array(durations_s, float))
