"""What the folder of a training tells of it: losses, rewards, makespans and probabilities of actions.

The files have HDeepRM's names and forms: a number per line, and ``probs.json``; ``training.csv`` holds a column per
quantity besides.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hdrl.errors import ReadError
from hdrl.files import read_json, read_text

FloatArray = NDArray[np.float64]

LOG_FILES = {"losses": "losses.log", "rewards": "rewards.log", "makespans": "makespans.log"}
"""Files with a number per line, one line per update or episode."""

PROBABILITIES_FILE = "probs.json"
TRAINING_FILE = "training.csv"


def learning_log(folder: str | Path, kind: str) -> FloatArray:
    """Return the numbers of one log of a training, in the order in which they came.

    Parameters
    ----------
    folder
        Folder of the run.
    kind
        A key of `LOG_FILES`.

    Raises
    ------
    ReadError
        If the file is missing, empty or holds something else than numbers.
    """
    path = _file(folder, LOG_FILES[kind])
    values = []
    for number, line in enumerate(read_text(path).splitlines(), start=1):
        if not line.strip():
            continue
        try:
            values.append(float(line))
        except ValueError:
            raise ReadError(path, f"{line.strip()[:40]!r}, expected a number", line=number) from None
    if not values:
        raise ReadError(path, "is empty, expected a number per line")
    return np.array(values)


def training_table(folder: str | Path) -> dict[str, FloatArray]:
    """Return the columns of ``training.csv`` that hold numbers; what is empty is NaN.

    Parameters
    ----------
    folder
        Folder of the run.

    Raises
    ------
    ReadError
        If the file is missing, or its rows differ in length.
    """
    path = _file(folder, TRAINING_FILE)
    header, *rows = (line.split(",") for line in read_text(path).splitlines() if line.strip())
    for number, row in enumerate(rows, start=2):
        if len(row) != len(header):
            raise ReadError(path, f"{len(row)} fields, expected {len(header)}", line=number)
    table = {}
    for position, name in enumerate(header):
        try:
            table[name] = np.array([float(row[position] or "nan") for row in rows])
        except ValueError:
            continue  # a column of texts
    return table


def action_probabilities(folder: str | Path) -> FloatArray:
    """Return how probable each action was at the first decision of each run, shape ``(n_actions, n_runs)``.

    Parameters
    ----------
    folder
        Folder of the run.

    Raises
    ------
    ReadError
        If the file is missing, or does not hold equally long lists of probabilities.
    """
    path = _file(folder, PROBABILITIES_FILE)
    data = read_json(path)
    lists = data.get("probs") if isinstance(data, dict) else None
    try:
        table = np.array(lists, dtype=np.float64)
    except (TypeError, ValueError):
        table = np.zeros(0)
    if table.ndim != 2 or not table.size or np.any(~(table >= 0) | (table > 1 + 1e-6)):
        raise ReadError(path, "must be {probs: [[...], ...]}, as many probabilities for each action")
    return table


def _file(folder: str | Path, name: str) -> Path:
    folder = Path(folder)
    path = folder / name
    if not folder.is_dir():
        raise ReadError(folder, "no such folder")
    if not path.is_file():
        raise ReadError(folder, f"has no {name}: is it the folder of a run in which something was learnt?")
    return path
