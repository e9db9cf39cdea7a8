"""Files of a run folder: tables of all settings, and the outcome of each job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hdrl.base.csvfiles import atomic_table, read_table
from hdrl.base.errors import ReadError, quoted
from hdrl.base.sequences import words_of
from hdrl.figures.figure import Run
from hdrl.figures.tables import TableRun, read_table_run
from hdrl.settings.adaptation.simulation import OTHER, OUTCOME_DTYPE
from hdrl.trace.files import STAYS_FILE, TASKS_FILE, TraceFile, numbers_of, table_of, write_tables
from hdrl.trace.model import OutcomeTrace

JOBS_FILE = "adaptations.csv"
SEQUENCES_FILE = "sequences.csv"

_NUMBERS = tuple(name for name in OUTCOME_DTYPE.names or () if name != "sequence")
COLUMNS = ("job", "table", "draw", "sequence", "actions", *_NUMBERS)
"""Columns of the file; ``actions`` are those of `hdrl.base.sequences.words_of`."""


def _write_adaptations(trace: OutcomeTrace, folder: Path) -> None:
    """Write the actions and the outcome of each job."""
    load: Any = trace.load
    with atomic_table(folder / JOBS_FILE, COLUMNS) as write_row:
        for job, outcome in enumerate(trace.outcomes):
            table = load.tables[load.table[job]]
            sequence = int(outcome["sequence"])
            actions = "" if sequence == OTHER else words_of(table.actions(sequence), table.n_actions)
            numbers = [outcome[name].item() for name in _NUMBERS]
            write_row([job, table.name, int(load.draw[job]), sequence, actions, *numbers])


SEQUENCE_COLUMNS = ("table", "actions", "rank", "n_ties", "validation", "test", "test_std", "n_draws")
"""Columns of the file of sequences: means over the trainings of a table, and the standard deviation of one."""


def _write_sequences(trace: OutcomeTrace, folder: Path) -> None:
    """Write the value of each sequence of each table, the best one first."""
    load: Any = trace.load
    with atomic_table(folder / SEQUENCES_FILE, SEQUENCE_COLUMNS) as write_row:
        for number in sorted(set(load.table.tolist())):
            table = load.tables[number]
            validation, std = table.expected_validation.tolist(), table.test.std(axis=1).tolist()
            for sequence in np.argsort(-table.expected, kind="stable").tolist():
                test = float(table.expected[sequence])
                n_ties = int(np.count_nonzero(table.expected == test)) - 1
                numbers = [table.rank(test), n_ties, validation[sequence], test, std[sequence], table.n_draws]
                write_row([table.name, words_of(table.actions(sequence), table.n_actions), *numbers])


@dataclass(frozen=True, slots=True)
class Sequences:
    """The sequences of a table by value, the best one first."""

    actions: tuple[str, ...]  # see `words_of`
    rank: NDArray[np.float64]  # one more than there are better ones
    # mean and standard deviation of the test accuracy
    test: NDArray[np.float64]
    test_std: NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class AdaptationRun(TableRun):
    """A run as its tables describe it."""

    # of each job the name of its table, and what was done, see `words_of`
    job_tables: tuple[str, ...]
    actions: tuple[str, ...]
    outcomes: NDArray[np.void]  # of each job, array of `OUTCOME_DTYPE`
    sequences: Mapping[str, Sequences]  # of each table that jobs had; empty in runs of older versions


def read_run(folder: Path, name: str | None = None) -> Run:
    """Read a run folder; raise ReadError if a file is missing or damaged."""
    run = read_table_run(folder, name, unit_word="device")
    path = folder / JOBS_FILE
    rows = read_table(path, COLUMNS)
    if len(rows) != len(run.data.tasks):
        raise ReadError(path, f"holds {len(rows)} jobs, expected {len(run.data.tasks)}, as many as {TASKS_FILE}")
    outcomes = table_of(path, numbers_of(path, [(row[3], *row[5:]) for row in rows]), OUTCOME_DTYPE)
    sequences = _sequences(folder / SEQUENCES_FILE)
    known = {(table, actions) for table, found in sequences.items() for actions in found.actions}
    for number, (_, table, _, _, actions, *_) in enumerate(rows):
        if known and actions and (table, actions) not in known:
            where = f"actions of row {number} are {quoted(actions)}"
            raise ReadError(path, f"{where}, but {SEQUENCES_FILE} holds no such sequence of {quoted(table)}")
    data = run.data
    more = AdaptationRun(
        *(data.name, data.policy, data.n_units, data.tasks, data.stays, data.stay_units),
        tuple(row[1] for row in rows),
        tuple(row[4] for row in rows),
        outcomes,
        sequences,
    )
    return replace(run, data=more)


def _sequences(path: Path) -> dict[str, Sequences]:
    if not path.is_file():
        return {}
    by_table: dict[str, list[list[str]]] = {}
    for row in read_table(path, SEQUENCE_COLUMNS):
        by_table.setdefault(row[0], []).append(row)
    return {name: _sequences_of(path, rows) for name, rows in by_table.items()}


def _sequences_of(path: Path, rows: Sequence[Sequence[str]]) -> Sequences:
    positions = [SEQUENCE_COLUMNS.index(column) for column in _SEQUENCE_NUMBERS]
    numbers = np.array(numbers_of(path, [[row[position] for position in positions] for row in rows]))
    if not np.isfinite(numbers).all():
        raise ReadError(path, f"{', '.join(_SEQUENCE_NUMBERS)} hold what is not a finite number")
    return Sequences(tuple(row[1] for row in rows), *numbers.T)


_SEQUENCE_NUMBERS = ("rank", "test", "test_std")


FILES = (
    TraceFile((TASKS_FILE, STAYS_FILE), write_tables, "jobs and their stays on the device"),
    TraceFile((JOBS_FILE,), _write_adaptations, "actions and outcome of each job"),
    TraceFile((SEQUENCES_FILE,), _write_sequences, "value of each sequence of each table"),
)
"""Files of a run folder that are written from a Trace."""
