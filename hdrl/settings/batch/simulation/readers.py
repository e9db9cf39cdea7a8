"""The files of a run read back: Batsim's, from this project or from Batsim, and HDeepRM's over-utilisations.

`simulation.outputs` writes them. A file whose name ends in ``.gz`` is decompressed. What no run can have written is
refused, with the line where it stands.
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hdrl.base.csvfiles import as_written
from hdrl.base.errors import ReadError, suggest
from hdrl.base.files import read_json, read_text
from hdrl.base.textnumbers import finite_of, float_of, int_of
from hdrl.settings.batch.simulation.outputs import JOB_COLUMNS
from hdrl.settings.batch.simulation.texts import text_array
from hdrl.settings.batch.simulation.trace import JobState, OverUtilization

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
        raise ReadError(path, f"is not CSV: {error}", line=reader.line_num) from None
    return header, rows, lines


def _shown(text: str) -> str:
    return repr(text if len(text) <= 40 else text[:37] + "...")


def _first_bad(column: Sequence[str], convert: Callable[[str], float]) -> int:
    """Return the index of the first text that does not convert to a number that an array can hold."""
    for index, text in enumerate(column):
        try:
            np.int64(convert(text)) if convert is int_of else convert(text)
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
        convert = int_of if is_integer else float_of
        values = np.fromiter(map(convert, column), np.int64 if is_integer else float, len(column))
        is_good = bool(np.all(np.isfinite(values)))
    except (ValueError, OverflowError):
        is_good = False
    if not is_good:
        index = _first_bad(column, int_of if is_integer else finite_of)
        what = "a whole number" if is_integer else "a finite number"
        raise ReadError(path, f"{name} is {_shown(column[index])}, expected {what}", line=lines[index])
    if empty.any():
        values[empty] = np.nan
    return values


_OLD_NAMES = {
    "jobID": "job_id",
    "requested_number_of_processors": "requested_number_of_resources",
    "allocated_processors": "allocated_resources",
}
"""Columns of Batsim 1 and 2, and what later versions call them."""

_OPTIONAL = {"workload_name": "w0", "profile": "", "requested_time": "-1", "consumed_energy": "-1", "metadata": ""}
"""Columns that not every version writes, and what stands for them."""

_FROM_OTHERS = ("final_state", "waiting_time", "turnaround_time", "stretch")
"""Columns that follow from others where a version does not write them."""


def _column_indices(header: Sequence[str]) -> dict[str, int]:
    """Return the position of each column of `JOB_COLUMNS` that a file has, by any name of it."""
    names = [name.strip() for name in header]
    positions = {name: position for position, name in enumerate(names) if name in JOB_COLUMNS}
    old = {_OLD_NAMES[name]: position for position, name in enumerate(names) if name in _OLD_NAMES}
    return old | positions


def _check_jobs_header(path: Path, header: list[str]) -> None:
    known = [name.strip() for name in header if name.strip() in JOB_COLUMNS]
    if len(set(known)) != len(known):
        raise ReadError(path, "names a column twice", line=1)
    positions = _column_indices(header)
    for name in JOB_COLUMNS:
        if name not in (*positions, *_OPTIONAL, *_FROM_OTHERS):
            raise ReadError(path, f"has no column {name!r}; {suggest(name, [text[:40] for text in header])}", line=1)


def _filled(columns: dict[str, Sequence[str]], n_rows: int) -> dict[str, Sequence[str]]:
    """Return all columns of `JOB_COLUMNS`: those that a file has, and what stands for the others."""
    filled = {name: columns.get(name, [text] * n_rows) for name, text in _OPTIONAL.items()} | columns
    if "final_state" not in columns:
        ended = {"1": JobState.COMPLETED_SUCCESSFULLY.name}
        filled["final_state"] = [ended.get(text.strip(), JobState.COMPLETED_FAILED.name) for text in columns["success"]]
    for name in _FROM_OTHERS[1:]:
        filled.setdefault(name, [text and "0" for text in columns["execution_time"]])
    return filled


def _derive(table: dict[str, NDArray[Any]], columns: Iterable[str]) -> None:
    """Compute times that a file does not tell from those that it tells."""
    submitted_s, run_s = table["submission_time"], table["execution_time"]
    if "waiting_time" not in columns:
        table["waiting_time"] = table["starting_time"] - submitted_s
    if "turnaround_time" not in columns:
        table["turnaround_time"] = table["finish_time"] - submitted_s
    if "stretch" not in columns:
        with np.errstate(divide="ignore", invalid="ignore"):
            table["stretch"] = table["turnaround_time"] / run_s


def _without_workload(column: Sequence[str], workloads: Sequence[str]) -> list[str]:
    """Return ids or profiles without the workload in front, which Batsim 5 writes and Batsim 4 does not."""
    return [text.removeprefix(f"{workload}!") for text, workload in zip(column, workloads, strict=True)]


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
    """Read out_jobs.csv, of this project or of any version of Batsim: columns are found by name, others are left out.

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
    header, rows, lines = _read_rows(path, _check_jobs_header)
    found: dict[str, Sequence[str]] = {
        name: [row[position] for row in rows] for name, position in _column_indices(header).items()
    }
    columns = _filled(found, len(rows))
    for name in ("job_id", "profile", "workload_name"):
        columns[name] = [as_written(cell) for cell in columns[name]]
    for name in ("job_id", "profile"):
        columns[name] = _without_workload(columns[name], columns["workload_name"])
    table = {
        name: text_array(columns[name]) if name in _TEXT_COLUMNS else _numbers(path, name, columns[name], lines)
        for name in JOB_COLUMNS
    }
    _derive(table, found)
    _check_jobs(path, table, lines)
    return table


def read_out_schedule(path: str | Path) -> dict[str, str | float]:
    """Read out_schedule.csv, of this project or of any version of Batsim.

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
            result[name] = math.nan if text in {"-nan", "nan"} else finite_of(text)
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

    Returns
    -------
    OverUtilization
        Its contents; spans in the order in which they began, those of one date in the order of the file.

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
