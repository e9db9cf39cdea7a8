"""Traces in a run folder: the tables that any Trace can be written as, and the protocol of formats of one's setting."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hdrl.base.csvfiles import atomic_table, read_table
from hdrl.base.errors import ReadError, quoted
from hdrl.base.textnumbers import float_of
from hdrl.trace.model import STAY_DTYPE, TASK_DTYPE, Trace

TASKS_FILE, STAYS_FILE = "tasks.csv", "stays.csv"

_TASK_COLUMNS = ("task", *(TASK_DTYPE.names or ()))
_STAY_COLUMNS = ("task", "start_s", "end_s", "pace", "units")


@dataclass(frozen=True, slots=True)
class TraceFile:
    """A file, or a few that belong together, that a setting writes of a Trace.

    Attributes
    ----------
    names
        Names of the files in the run folder.
    write
        Writes them: the Trace and the folder.
    what
        Their contents, in a few words.
    is_extra
        True if they are written only where options ask for them by name (``also_write``).
    is_of_few
        True if they are written only where a load has what they hold.
    """

    names: tuple[str, ...]
    write: Callable[[Any, Path], None]
    what: str
    is_extra: bool = False
    is_of_few: bool = False


def write_tables(trace: Trace, folder: str | Path) -> None:
    """Write the tasks and stays of a Trace as CSV; numbers have as many digits as they need.

    The files are ``tasks.csv`` and ``stays.csv``.
    """
    folder = Path(folder)
    with atomic_table(folder / TASKS_FILE, _TASK_COLUMNS) as write_row:
        for number, row in enumerate(trace.tasks.tolist()):
            write_row((number, *row))
    units = trace.stay_units
    with atomic_table(folder / STAYS_FILE, _STAY_COLUMNS) as write_row:
        for task, start_s, end_s, first, n_units, pace in trace.stays.tolist():
            write_row((task, start_s, end_s, pace, " ".join(map(str, units[first : first + n_units].tolist()))))


def read_tables(folder: str | Path) -> tuple[NDArray[np.void], NDArray[np.void], NDArray[np.int32]]:
    """Return the tasks, the stays, and the units of the stays that `write_tables` wrote."""
    folder = Path(folder)
    tasks_path, stays_path = folder / TASKS_FILE, folder / STAYS_FILE
    task_rows = [row[1:] for row in numbers_of(tasks_path, read_table(tasks_path, _TASK_COLUMNS))]
    tasks = table_of(tasks_path, task_rows, TASK_DTYPE, may_be_none=("deadline_s", "requested_s"))
    rows = read_table(stays_path, _STAY_COLUMNS)
    held = [_units(row[-1], stays_path) for row in rows]
    numbers = numbers_of(stays_path, [row[:-1] for row in rows])
    if not all(0 <= row[0] < len(tasks) and all(map(math.isfinite, row[1:])) for row in numbers):
        raise ReadError(stays_path, f"holds a date that is not finite, or a task that is not one of {len(tasks)}")
    stays = np.zeros(len(rows), dtype=STAY_DTYPE)
    stays["n_units"] = [len(units) for units in held]
    stays["first_unit"] = np.cumsum(stays["n_units"]) - stays["n_units"]
    for position, name in enumerate(("task", "start_s", "end_s", "pace")):
        stays[name] = [row[position] for row in numbers]
    return tasks, stays, np.array([unit for units in held for unit in units], dtype=np.int32)


def numbers_of(path: Path, rows: Iterable[Sequence[str]]) -> list[list[float]]:
    """Return the numbers in rows of texts."""
    try:
        return [[float_of(text) for text in row] for row in rows]
    except ValueError:
        raise ReadError(path, "has text in a column of numbers") from None


def _units(text: str, path: Path) -> list[int]:
    """Return the numbers of units in a cell."""
    words = text.split()
    # Longer numbers are none of an array of int32; very long ones Python does not read at all.
    if not all(word.isascii() and word.isdigit() and len(word) <= _MOST_DIGITS for word in words):
        raise ReadError(path, f"units are {quoted(text)}, expected numbers of units from 0 on")
    return [int(word) for word in words]


_MOST_DIGITS = 9


def table_of(
    path: Path, rows: Iterable[Sequence[float]], dtype: np.dtype[np.void], *, may_be_none: Sequence[str] = ()
) -> NDArray[np.void]:
    """Return rows of numbers as an array.

    Columns of ``may_be_none`` may hold NaN and infinities.

    Raises
    ------
    ReadError
        If a column cannot hold a number.
    """
    names = dtype.names or ()
    table = np.array([tuple(row) for row in rows], dtype=[(name, np.float64) for name in names])
    for name in names:
        column, kind = table[name], dtype[name]
        if kind.kind == "i":
            is_right = (column >= np.iinfo(kind).min) & (column < float(np.iinfo(kind).max) + 1.0)
        else:
            is_right = np.isfinite(column) | (name in may_be_none)
        if not is_right.all():
            row = int(np.argmin(is_right))
            raise ReadError(path, f"{name} of row {row} is {column[row]:g}, which is out of range")
    return np.asarray(table.astype(dtype))
