"""What a run folder holds: tables of all settings, and what became of each job."""

from __future__ import annotations

import csv
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hdrl.errors import ReadError
from hdrl.figures.figure import Run
from hdrl.figures.tables import TableRun, read_table_run
from hdrl.files import atomic_write, read_text
from hdrl.settings.adaptation.simulation import OTHER, OUTCOME_DTYPE, AdaptationTrace
from hdrl.trace.files import STAYS_FILE, TASKS_FILE, TraceFile, write_tables

JOBS_FILE = "adaptations.csv"

_NUMBERS = tuple(name for name in OUTCOME_DTYPE.names or () if name != "sequence")
COLUMNS = ("job", "table", "draw", "sequence", "actions", *_NUMBERS)
"""Columns of the file; ``actions`` are a digit for each decision."""


def write_adaptations(trace: AdaptationTrace, folder: Path) -> None:
    """Write what was done to each job and what came of it.

    Parameters
    ----------
    trace
        What happened.
    folder
        The folder that gets ``adaptations.csv``.
    """
    load: Any = trace.load
    with atomic_write(folder / JOBS_FILE) as out:
        rows = csv.writer(out, lineterminator="\n")
        rows.writerow(COLUMNS)
        for job, outcome in enumerate(trace.outcomes):
            table = load.tables[load.table[job]]
            sequence = int(outcome["sequence"])
            actions = "" if sequence == OTHER else "".join(map(str, table.actions(sequence)))
            numbers = [outcome[name].item() for name in _NUMBERS]
            rows.writerow([job, table.name, int(load.draw[job]), sequence, actions, *numbers])


@dataclass(frozen=True, slots=True)
class AdaptationRun(TableRun):
    """A run as its tables describe it.

    Attributes
    ----------
    job_tables, actions
        Of each job the name of its table, and what was done, a digit for each decision.
    outcomes
        Of each job, array of `OUTCOME_DTYPE`.
    """

    job_tables: tuple[str, ...]
    actions: tuple[str, ...]
    outcomes: NDArray[np.void]


def read_run(folder: Path, name: str | None = None) -> Run:
    """Read a run folder.

    Parameters
    ----------
    folder, name
        The folder, and what the run is called.

    Raises
    ------
    ReadError
        If a file is missing or damaged.
    """
    run = read_table_run(folder, name, unit_word="device")
    path = folder / JOBS_FILE
    header, *rows = list(csv.reader(read_text(path).splitlines())) or [[]]
    if tuple(header) != COLUMNS or any(len(row) != len(COLUMNS) for row in rows):
        raise ReadError(path, f"is no table of {', '.join(COLUMNS)}")
    try:
        values = [(int(row[3]), *map(float, row[5:])) for row in rows]
    except ValueError:
        raise ReadError(path, "has texts in columns of numbers") from None
    outcomes = np.zeros(len(rows), OUTCOME_DTYPE)
    for place, column in enumerate(OUTCOME_DTYPE.names or ()):
        outcomes[column] = [row[place] for row in values]
    data = run.data
    more = AdaptationRun(
        *(data.name, data.policy, data.n_units, data.tasks, data.stays, data.stay_units),
        tuple(row[1] for row in rows),
        tuple(row[4] for row in rows),
        outcomes,
    )
    return replace(run, data=more)


FILES = (
    TraceFile((TASKS_FILE, STAYS_FILE), write_tables, "jobs and their stays on the device"),
    TraceFile((JOBS_FILE,), write_adaptations, "what was done to each job, and what came of it"),
)
"""What a run folder holds of a Trace."""
