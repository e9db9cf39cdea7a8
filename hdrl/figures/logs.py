"""Logs in the folder of a training: losses, rewards and probabilities of actions.

The files have HDeepRM's names and forms: a number per line, and ``probs.json``; ``training.csv`` holds a column per
quantity besides.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hdrl.base.errors import ReadError
from hdrl.base.files import read_json, read_text
from hdrl.base.textnumbers import float_of

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class LearningLog:
    """Numbers that a training leaves, one after the other."""

    name: str  # name of the quantity, in the plural
    file: str  # the file with a number per line
    # table and column of a training that still runs, or was cut off, before it wrote that file
    table: str
    column: str

    @property
    def files(self) -> tuple[str, str]:
        """Alternative files; one is needed."""
        return self.file, self.table


LOSSES = LearningLog("losses", "losses.log", "training.csv", "loss")
REWARDS = LearningLog("rewards", "rewards.log", "episodes.csv", "return")

PROBABILITIES_FILE = "probs.json"
PROBABILITY = "probability."
"""Prefix of the columns of ``training.csv`` that hold the probability of an action."""


def learning_log(folder: str | Path, log: LearningLog) -> FloatArray:
    """Return the numbers of one log of a training, in the order in which they came."""
    folder = Path(folder)
    if not (folder / log.file).is_file() and (folder / log.table).is_file():
        values = training_table(folder, log.table).get(log.column, np.zeros(0))
        values = values[np.isfinite(values)]
        path = folder / log.table
    else:
        path = _file(folder, log.file)
        values = _numbers(path)
    if not len(values):
        raise ReadError(path, f"holds no {log.name}")
    return values


def _numbers(path: Path) -> FloatArray:
    values = []
    for number, line in enumerate(read_text(path).splitlines(), start=1):
        if not line.strip():
            continue
        try:
            value = float(line)
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            raise ReadError(path, f"{line.strip()[:40]!r}, expected a finite number", line=number)
        values.append(value)
    return np.array(values)


def training_table(folder: str | Path, name: str = "training.csv") -> dict[str, FloatArray]:
    """Return the columns of ``training.csv`` (a row per update) or ``episodes.csv``; what is empty is NaN."""
    path = _file(folder, name)
    # A training that runs may be writing its last row: it ends with a line break when it is complete.
    lines = [line for line in read_text(path).rpartition("\n")[0].splitlines() if line.strip()]
    if not lines:
        raise ReadError(path, "is empty, expected a header line")
    header, *rows = (line.split(",") for line in lines)
    numbers = np.empty((len(rows), len(header)))
    for index, row in enumerate(rows):
        if len(row) != len(header):
            raise ReadError(path, f"{len(row)} fields, expected {len(header)}", line=index + 2)
        try:
            numbers[index] = [float_of(text or "nan") for text in row]
        except ValueError:
            raise ReadError(path, "expected numbers", line=index + 2) from None
    return {column: numbers[:, position] for position, column in enumerate(header)}


def action_probabilities(folder: str | Path) -> tuple[FloatArray, list[str]]:
    """Return the probability of each action at the first decision, ``(n_actions, n_updates)``, and their names."""
    folder = Path(folder)
    if (folder / "training.csv").is_file():
        table = training_table(folder)
        names = [column for column in table if column.startswith(PROBABILITY)]
        values = np.array([table[name] for name in names])
        if names and np.all(np.isfinite(values)):
            return values, [name.removeprefix(PROBABILITY) for name in names]
    path = _file(folder, PROBABILITIES_FILE)
    data = read_json(path)
    lists = data.get("probs") if isinstance(data, dict) else None
    try:
        values = np.array(lists, dtype=np.float64)
    except (TypeError, ValueError):
        values = np.zeros(0)
    if values.ndim != 2 or not values.size or np.any(~(values >= 0) | (values > 1 + 1e-6)):
        raise ReadError(path, "must be {probs: [[...], ...]}, as many probabilities for each action")
    return values, []


def _file(folder: str | Path, name: str) -> Path:
    folder = Path(folder)
    path = folder / name
    if not folder.is_dir():
        raise ReadError(folder, "no such folder")
    if not path.is_file():
        raise ReadError(folder, f"has no {name}: is it the folder of a training?")
    return path
