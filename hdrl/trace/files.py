"""Traces in a run folder: the tables that any Trace can be written as, and the protocol of formats of one's setting."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hdrl.errors import ReadError
from hdrl.files import atomic_table, read_table
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
        What they hold, in a few words.
    is_extra
        Whether they are written only where options ask for them by name (``also_write``).
    is_of_few
        Whether they are written only where a load has what they hold.
    """

    names: tuple[str, ...]
    write: Callable[[Any, Path], None]
    what: str
    is_extra: bool = False
    is_of_few: bool = False


def write_tables(trace: Trace, folder: Path) -> None:
    """Write the tasks and stays of a Trace as CSV; numbers have as many digits as they need.

    Parameters
    ----------
    trace
        The Trace.
    folder
        The folder that gets ``tasks.csv`` and ``stays.csv``.

    Raises
    ------
    OutputError
        If a file cannot be written.
    """
    with atomic_table(folder / TASKS_FILE, _TASK_COLUMNS) as write_row:
        for number, row in enumerate(trace.tasks.tolist()):
            write_row((number, *row))
    units = trace.stay_units
    with atomic_table(folder / STAYS_FILE, _STAY_COLUMNS) as write_row:
        for task, start_s, end_s, first, n_units, pace in trace.stays.tolist():
            write_row((task, start_s, end_s, pace, " ".join(map(str, units[first : first + n_units].tolist()))))


def read_tables(folder: Path) -> tuple[NDArray[np.void], NDArray[np.void], NDArray[np.int32]]:
    """Read what `write_tables` wrote.

    Parameters
    ----------
    folder
        The run folder.

    Returns
    -------
    tuple
        Tasks, stays, and the units of the stays.

    Raises
    ------
    ReadError
        If a file is missing or of another form.
    """
    tasks = np.array(
        [tuple(map(float, row[1:])) for row in _rows(folder / TASKS_FILE, _TASK_COLUMNS)], dtype=_FLOATS
    ).astype(TASK_DTYPE)
    rows = _rows(folder / STAYS_FILE, _STAY_COLUMNS)
    held = [[int(unit) for unit in row[4].split()] for row in rows]
    stays = np.zeros(len(rows), dtype=STAY_DTYPE)
    stays["n_units"] = [len(units) for units in held]
    stays["first_unit"] = np.cumsum(stays["n_units"]) - stays["n_units"]
    for place, name in enumerate(("task", "start_s", "end_s", "pace")):
        stays[name] = [float(row[place]) for row in rows]
    return tasks, stays, np.array([unit for units in held for unit in units], dtype=np.int32)


_FLOATS = np.dtype([(name, np.float64) for name in TASK_DTYPE.names or ()])


def _rows(path: Path, columns: tuple[str, ...]) -> list[list[str]]:
    """Return the rows of a table, all but whose last columns must hold numbers."""
    rows = read_table(path, columns)
    try:
        for row in rows:
            [float(text) for text in row[:-1]]
    except ValueError:
        raise ReadError(path, f"is no table of {', '.join(columns)}") from None
    return rows
