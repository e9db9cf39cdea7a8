"""Sums over the ended jobs of groups that are alike, by name: what predictions are made from outside a simulation.

The file holds a line for each group: nine numbers and its key, apart by tabs. A key is the level and what the jobs of
the group have in common: user, requested seconds, cores. It is data for Slurm's Lua as for the daemon.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hdrl.base.errors import ReadError
from hdrl.base.files import atomic_write, read_text
from hdrl.deploy.ranking import learn
from hdrl.settings.batch.kernel.groups import SUMS_DTYPE
from hdrl.settings.batch.workload.history import LEVELS, USER_LEVEL, LogHistory

COLUMNS = ("n", "log_ratio", "inverse", "run_s", "log_run", "log_run_squared", "last_s", "before_last_s", "n_ended")
"""Fields of `kernel.groups.SUMS_DTYPE` in a line, in this order."""

HEADER = "hdrl-groups-1"
MOST_GROUPS = 200_000

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


def keys_of(user: str, requested_s: float, cores: int) -> tuple[str, ...]:
    """Return the keys of the groups of a job, one for each level.

    Parameters
    ----------
    user
        The user's name; control characters become question marks.
    """
    name, seconds = _CONTROL.sub("?", user), str(round(requested_s))
    parts = ((), (seconds,), (name,), (name, seconds), (name, seconds, str(cores)))
    return tuple("\t".join((str(level), *part)) for level, part in enumerate(parts))


def whole_minutes_s(requested_s: float) -> float:
    """Return a requested time as Slurm keeps it: limits are whole minutes there."""
    return 60.0 * math.ceil(requested_s / 60)


class KeyedGroups:
    """Groups by their keys.

    Attributes
    ----------
    sums
        Sums, a row for each group and more for groups to come.
    """

    def __init__(self) -> None:
        self.sums: NDArray[Any] = np.zeros(64, dtype=SUMS_DTYPE)
        self._positions: dict[str, int] = {}

    @property
    def all_jobs(self) -> Any:
        """The sums over all jobs."""
        return self.sums[self._place("0")]

    def positions(self, user: str, requested_s: float, cores: int) -> list[int]:
        """Return the positions of the groups of a job in `sums`; groups that are new get one."""
        return [self._place(key) for key in keys_of(user, requested_s, cores)]

    def _place(self, key: str) -> int:
        position = self._positions.setdefault(key, len(self._positions))
        if position >= len(self.sums):
            self.sums = np.concatenate([self.sums, np.zeros(len(self.sums), dtype=SUMS_DTYPE)])
        return position

    def learn(self, user: str, requested_s: float, cores: int, run_s: float) -> None:
        """Add a job that has ended."""
        positions = np.array(self.positions(user, requested_s, cores), dtype=np.int32)
        learn(self.sums, positions, run_s, requested_s)

    def learn_jobs(self, history: LogHistory, ended: NDArray[np.int64], name_of: Callable[[int], str]) -> None:
        """Add jobs of a log in the order of their ends; ``name_of`` returns the name of a user's number."""
        columns = (history.user, history.requested_time_s, history.cores, history.run_s)
        for user, requested_s, cores, run_s in zip(*(column[ended].tolist() for column in columns), strict=True):
            self.learn(name_of(user), whole_minutes_s(requested_s), cores, run_s)

    def here(self, users: Iterable[tuple[str, bool]]) -> None:
        """Record the jobs in the system.

        Parameters
        ----------
        users
            Of each job its user, and whether it waits.
        """
        self.sums["n_here"] = self.sums["n_waiting"] = 0
        for user, is_waiting in users:
            position = self._place(keys_of(user, 0.0, 0)[USER_LEVEL])
            self.sums[position]["n_here"] += 1
            self.sums[position]["n_waiting"] += is_waiting

    def write(self, path: Path) -> None:
        """Write the groups whose jobs have ended; if there are too many, the finest with the fewest jobs go.

        Raises
        ------
        OutputError
            If the file cannot be written.
        """
        known = [(key, position) for key, position in self._positions.items() if self.sums[position]["n_ended"] > 0]
        if len(known) > MOST_GROUPS:
            known.sort(key=lambda one: (int(one[0][0]) >= USER_LEVEL, -self.sums[one[1]]["n"]))
            known = known[:MOST_GROUPS]
        n_learned = int(self.all_jobs["n_ended"])
        with atomic_write(path) as file:
            file.write(f"{HEADER}\t{n_learned}\n")
            for key, position in sorted(known):
                numbers = "\t".join(repr(self.sums[position][column].item()) for column in COLUMNS)
                file.write(f"{numbers}\t{key}\n")


def learned_groups(history: LogHistory | None, ended: NDArray[np.int64], name_of: Callable[[int], str]) -> KeyedGroups:
    """Return the groups of ended jobs of a log.

    Parameters
    ----------
    history
        The log; ``None``: nothing has ended.
    ended
        Indices of its ended jobs, in the order of their ends.
    name_of
        Returns the name of a user's number.
    """
    groups = KeyedGroups()
    if history is not None:
        groups.learn_jobs(history, ended, name_of)
    return groups


def read_groups(path: Path) -> KeyedGroups:
    """Return the groups of a file.

    Raises
    ------
    ReadError
        If it holds something else.
    """
    groups = KeyedGroups()
    lines = read_text(path).split("\n")
    if lines[0].partition("\t")[0] != HEADER:
        raise ReadError(path, f"begins with {lines[0][:40]!r}, expected {HEADER}", line=1)
    if len(lines) > MOST_GROUPS + 2:
        raise ReadError(path, f"holds more than {MOST_GROUPS:,} groups")
    for number, key, values in _lines(path, lines):
        position = groups._place(key)  # noqa: SLF001 (a way to make one)
        if groups.sums[position]["n_ended"]:
            raise ReadError(path, "repeats a group", line=number)
        for column, value in zip(COLUMNS, values, strict=True):
            groups.sums[position][column] = value
    return groups


def _lines(path: Path, lines: list[str]) -> Iterator[tuple[int, str, list[float]]]:
    for number, line in enumerate(lines[1:], start=2):
        if not line:
            continue
        *texts, key = line.split("\t", len(COLUMNS))
        try:
            values = [float(text) for text in texts]
        except ValueError:
            values = []
        is_key = key[:1].isdigit() and int(key[0]) < len(LEVELS)
        if len(values) != len(COLUMNS) or not all(map(math.isfinite, values)) or not is_key:
            raise ReadError(path, f"expected {len(COLUMNS)} numbers and a group", line=number)
        yield number, key, values
