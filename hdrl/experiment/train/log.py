"""The logs of a training: tidy tables, and the files of HDeepRM.

``training.csv`` has a row per iteration and ``episodes.csv`` one per finished episode; lines are appended, so that
long trainings cost no more per iteration than short ones. Neither holds anything of the wall clock: a training that is
repeated, or interrupted and resumed, leaves the same bytes. ``losses.log``, ``rewards.log``, ``makespans.log`` and
``probs.json`` are made of the tables by `TrainingLog.write_hdeeprm_files`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hdrl.base.errors import MissingExtra, ReadError, readable
from hdrl.base.files import atomic_write, read_text, write_json
from hdrl.experiment.train.decisions import write_lines

if TYPE_CHECKING:
    from collections.abc import Iterable

TRAINING_FILE = "training.csv"
EPISODES_FILE = "episodes.csv"
LOGS = {"losses.log": "loss", "rewards.log": "return", "makespans.log": "makespan_s"}
"""HDeepRM's logs, and the column of ours that each holds."""

PROBABILITIES_FILE = "probs.json"
PROBABILITY = "probability."
"""Prefix of the columns of ``training.csv`` that hold the probability of an action at the first decision."""


class LogTable:
    """A table of numbers in a CSV file that grows by rows.

    The file is made with the first row. Of an existing file, ``n_rows`` rows stay.
    """

    def __init__(self, path: Path, n_rows: int = 0) -> None:
        self.path = path
        self.columns: list[str] = []
        self.n_rows = n_rows
        if n_rows:
            lines = read_text(path).splitlines()
            if len(lines) < n_rows + 1:
                raise ReadError(path, f"has {max(len(lines) - 1, 0)} rows, expected at least {n_rows}")
            self.columns = lines[0].split(",")
            for row in range(1, n_rows + 1):
                self._check(lines[row], row)
            self._rewrite(lines[1 : n_rows + 1])
        else:
            path.unlink(missing_ok=True)

    def _check(self, line: str, row: int) -> None:
        """Refuse a row that does not hold a number, or nothing, for each column: before a training, not after it."""
        cells = line.split(",")
        if len(cells) != len(self.columns):
            raise ReadError(self.path, f"row {row} has {len(cells)} columns, expected {len(self.columns)}")
        for name, cell in zip(self.columns, cells, strict=True):
            try:
                float(cell or "nan")
            except ValueError:
                message = f"row {row}: {readable(name)} is {readable(repr(cell))}, expected a number"
                raise ReadError(self.path, message) from None

    def append(self, rows: Sequence[Mapping[str, float]]) -> None:
        """Add rows.

        A new column is empty in older rows.
        """
        new = [name for name in dict.fromkeys(name for row in rows for name in row) if name not in self.columns]
        if new:
            lines = read_text(self.path).splitlines()[1:] if self.n_rows else []
            self.columns += new
            self._rewrite([line + "," * len(new) for line in lines])
        write_lines(self.path.parent, {self.path.name: [self._line(row) for row in rows]})
        self.n_rows += len(rows)

    def column(self, name: str) -> list[float]:
        """Return a column of the file, NaN where it is empty."""
        if not self.n_rows:
            return []
        header, *lines = read_text(self.path).splitlines()
        columns = header.split(",")
        if name not in columns:
            return [math.nan] * len(lines)
        position = columns.index(name)
        return [float(line.split(",")[position] or "nan") for line in lines]

    def _line(self, row: Mapping[str, float]) -> str:
        return ",".join(_text(row[name]) if name in row else "" for name in self.columns)

    def _rewrite(self, lines: Iterable[str]) -> None:
        with atomic_write(self.path) as out:
            out.write(",".join(self.columns) + "\n")
            out.writelines(f"{line}\n" for line in lines)


class TrainingLog:
    """The logs in the folder of a training.

    What was logged after ``state`` (see `state_dict`) is dropped. ``also`` names files that get lines of their own.
    """

    def __init__(self, folder: Path, state: Mapping[str, int] | None = None, also: Sequence[str] = ()) -> None:
        self.folder = folder
        counts = dict(state or {})
        self._n_lines = {name: counts.get(_LINES + name, 0) for name in also}
        for name, n_lines in self._n_lines.items():
            _cut(folder / name, n_lines)
        self.iterations = LogTable(folder / TRAINING_FILE, counts.get("n_iterations", 0))
        self.episodes = LogTable(folder / EPISODES_FILE, counts.get("n_episodes", 0))

    def add(self, iteration: Mapping[str, float], episodes: Sequence[Mapping[str, float]]) -> None:
        """Add the numbers of an iteration."""
        self.iterations.append([iteration])
        if episodes:
            self.episodes.append(episodes)

    def state_dict(self) -> dict[str, int]:
        """Return the numbers of logged lines."""
        lines = {_LINES + name: n_lines for name, n_lines in self._n_lines.items()}
        return {"n_iterations": self.iterations.n_rows, "n_episodes": self.episodes.n_rows, **lines}

    def add_lines(self, lines: Mapping[str, Sequence[str]]) -> None:
        """Add lines to the files that get lines of their own."""
        write_lines(self.folder, lines)
        for name, more in lines.items():
            self._n_lines[name] += len(more)

    def write_hdeeprm_files(self) -> None:
        """Write the logs with HDeepRM's names and formats.

        ``losses.log`` has the loss of each iteration, ``rewards.log`` and ``makespans.log`` the sum of the rewards and
        the makespan of each episode; ``probs.json`` has, for each action, its probability at the first decision,
        iteration by iteration.
        """
        for name, column in LOGS.items():
            table = self.iterations if column == "loss" else self.episodes
            values = [value for value in table.column(column) if not math.isnan(value)]
            with atomic_write(self.folder / name) as out:
                out.writelines(f"{_text(value)}\n" for value in values)
        actions = [name for name in self.iterations.columns if name.startswith(PROBABILITY)]
        if actions:
            probabilities = [[value for value in self.iterations.column(name) if value == value] for name in actions]
            write_json(self.folder / PROBABILITIES_FILE, {"probs": probabilities}, indent=None)


_LINES = "n_lines."


def _cut(path: Path, n_lines: int) -> None:
    """Keep the first lines of a file; without any, the file goes."""
    if not n_lines:
        path.unlink(missing_ok=True)
        return
    lines = read_text(path).splitlines(keepends=True)
    if len(lines) < n_lines:
        raise ReadError(path, f"has {len(lines)} lines, expected at least {n_lines}")
    with atomic_write(path) as out:
        out.writelines(lines[:n_lines])


GROUPS = {"episode_": "episode", "validation_": "validation", PROBABILITY: "probability"}
"""Prefixes of names of numbers, and the group in which TensorBoard shows them; the rest is about the training."""


class Events:
    """Events for TensorBoard, over the decisions that the training has made.

    An interrupted training may have left events of decisions after ``n_steps``; these are hidden.
    """

    def __init__(self, folder: Path, n_steps: int = 0) -> None:
        try:
            from tensorboardX import SummaryWriter
        except ModuleNotFoundError:
            raise MissingExtra("tensorboardX", "learn") from None
        # What happened at the last step that counts is kept: only what comes after it will come again.
        self._writer: Any = SummaryWriter(str(folder), purge_step=n_steps + 1 if n_steps else None)

    def add(self, n_steps: int, values: Mapping[str, float]) -> None:
        """Add the numbers of an iteration.

        Numbers that are not finite are left out.
        """
        for name, value in values.items():
            if math.isfinite(value):
                self._writer.add_scalar(_tag(name), value, n_steps)

    def close(self) -> None:
        """Write the remaining lines."""
        self._writer.close()


def _tag(name: str) -> str:
    for beginning, group in GROUPS.items():
        if name.startswith(beginning):
            return f"{group}/{name.removeprefix(beginning)}"
    return f"training/{name}"


def _text(value: float) -> str:
    """Return a number so that reading gives it back; nothing for NaN, no point in whole numbers."""
    number = float(value)
    if math.isnan(number):
        return ""
    return str(int(number)) if number.is_integer() and abs(number) < 2**53 else repr(number)
