"""Values of jobs that adapt: by the granted share of their budget, and by the advice that they follow."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from hdrl.base.errors import ReadError
from hdrl.base.files import read_json
from hdrl.base.hashing import sha256_of
from hdrl.base.seeding import stream

Floats = NDArray[np.float64]

MOST_SEQUENCES = 4096
"""Sequences of a table at most."""


@dataclass(frozen=True)
class ValueTable:
    """Measured value of a kind of job that is stopped early, under each sequence of actions.

    Sequences are numbered like numbers with a digit for each decision; the last action is to do nothing.

    Attributes
    ----------
    name
        Its name.
    n_actions
        Number of actions of each decision.
    decisions
        Shares of the budget after which each sequence is decided about, shape ``(n_sequences, n_steps)``.
    shares
        Shares of the budget at which it was measured, ascending from 0 to 1, shape ``(n_sequences, n_points)``.
    known
        Mean value there over the trainings that advisors know, same shape.
    values
        Value there in each of the other trainings, which jobs draw; shape ``(n_sequences, n_draws, n_points)``.
    """

    name: str
    n_actions: int
    decisions: Floats
    shares: Floats
    known: Floats
    values: Floats

    def __repr__(self) -> str:
        return f"<ValueTable {self.name}: {len(self.values)} sequences>"

    @property
    def n_steps(self) -> int:
        """Number of decisions."""
        return int(self.decisions.shape[1])

    @property
    def n_sequences(self) -> int:
        """Number of sequences."""
        return len(self.values)

    @property
    def n_draws(self) -> int:
        """Number of trainings among which a job's is drawn."""
        return int(self.values.shape[1])

    def actions(self, sequence: int) -> tuple[int, ...]:
        """Return the actions of a sequence."""
        return tuple(sequence // self.n_actions**power % self.n_actions for power in range(self.n_steps - 1, -1, -1))

    @cached_property
    def _means(self) -> Floats:
        return np.asarray(self.values.mean(axis=1))

    def visible_value(self, share: float, sequences: slice) -> Floats:
        """Return the value of sequences at a share of the budget, as advisors know it."""
        return self._between(self.known, share, sequences)

    def worth(self, share: float, sequences: slice = slice(None), draw: int | None = None) -> Floats:
        """Return the value of sequences at a share of the budget, on straight lines between measurements.

        It is that of one training (``draw``), or the mean of all.
        """
        return self._between(self._means if draw is None else self.values[:, draw], share, sequences)

    def _between(self, curves: Floats, share: float, sequences: slice) -> Floats:
        shares, curves = self.shares[sequences], curves[sequences]
        rows = np.arange(len(shares))
        position = np.clip((shares <= share).sum(axis=1) - 1, 0, shares.shape[1] - 2)
        low, high = shares[rows, position], shares[rows, position + 1]
        weight = (share - low) / (high - low)
        return np.asarray(curves[rows, position] * (1.0 - weight) + curves[rows, position + 1] * weight)


@dataclass(frozen=True)
class JobValues:
    """The table of each job of a load, and the training of it that the job is, shape ``(n_jobs,)``."""

    tables: tuple[ValueTable, ...]
    table: NDArray[np.int64]
    draw: NDArray[np.int64]

    def window(self, start: int, n_items: int) -> Self:
        """Return those of consecutive jobs."""
        part = slice(start, start + n_items)
        return type(self)(self.tables, self.table[part], self.draw[part])

    def sha256(self) -> str:
        """Return the SHA-256 of all of it."""
        arrays: list[tuple[str, NDArray[Any]]] = [("table", self.table), ("draw", self.draw)]
        for table in self.tables:
            arrays += [(name, getattr(table, name)) for name in ("decisions", "shares", "known", "values")]
        return sha256_of(arrays, [table.name for table in self.tables])


def draw_values(tables: Sequence[ValueTable], n_jobs: int, seed: int) -> JobValues:
    """Return jobs of random tables and trainings."""
    random = stream(seed, "gpu-values")
    table = random.integers(len(tables), size=n_jobs)
    draw = random.integers(np.array([one.n_draws for one in tables])[table])
    return JobValues(tuple(tables), table, draw)


def read_values(path: str | Path) -> tuple[ValueTable, ...]:
    """Read the tables of a file, for instance of ``hdrl adaptation values``.

    Of the trainings of a table the first half is what advisors know, and jobs are the others, so that none is judged
    by what was to be foreseen.

    Parameters
    ----------
    path
        A JSON file: ``jobs``, a list of tables with ``name`` and ``rows``; each row has ``actions``, ``decisions``,
        ``shares`` and ``draws``, a list of values for each training, one for each share.

    Raises
    ------
    ReadError
        If it cannot be read, or a table is not complete.
    """
    path = Path(path)
    data = read_json(path)
    jobs = data.get("jobs") if isinstance(data, Mapping) else None
    if not isinstance(jobs, list) or not jobs:
        raise ReadError(path, "holds no values of jobs, expected an object with jobs, a list of tables")
    return tuple(_table(one, f"jobs[{number}]", path) for number, one in enumerate(jobs))


def _table(data: Any, where: str, path: Path) -> ValueTable:
    rows = data.get("rows") if isinstance(data, Mapping) else None
    is_list = isinstance(rows, list) and len(rows) > 0 and all(isinstance(row, Mapping) for row in rows)
    if rows is None or not is_list or not isinstance(data.get("name"), str):
        raise ReadError(path, f"{where} is not a table of values, expected an object with name and rows")
    arrays = {key: _array([row.get(key) for row in rows], f"{where}: {key}", path) for key in _DIMENSIONS}
    actions, decisions, shares = (arrays[key] for key in ("actions", "decisions", "shares"))
    n_actions, n_steps = int(actions.max()) + 1, actions.shape[1]
    is_small = n_actions <= len(rows) <= MOST_SEQUENCES and n_steps <= len(rows)
    is_whole = is_small and n_actions**n_steps == len(rows)
    if not is_whole or not np.array_equal(actions, list(itertools.product(range(n_actions), repeat=n_steps))):
        raise ReadError(path, f"{where} must have one row for each sequence of actions, in ascending order")
    if decisions.shape != actions.shape or shares.shape[1] < 2 or arrays["draws"].shape[2] != shares.shape[1]:
        raise ReadError(path, f"{where} must have a decision for each action, and a value for each share")
    for name, dates in (("decisions", decisions), ("shares", shares)):
        if np.any(np.diff(dates, axis=1) <= 0) or dates.min() < 0 or dates.max() > 1:
            raise ReadError(path, f"{where} has {name} that do not ascend from 0 to 1")
    if np.any(shares[:, 0] != 0.0) or np.any(shares[:, -1] != 1.0):
        raise ReadError(path, f"{where} has shares that do not begin at 0 and end at 1")
    draws = arrays["draws"]
    n_known = draws.shape[1] // 2
    if n_known < 1:
        raise ReadError(
            path, f"{where} has one training of each sequence, expected two or more: advisors use half of them"
        )
    return ValueTable(data["name"], n_actions, decisions, shares, draws[:, :n_known].mean(axis=1), draws[:, n_known:])


_DIMENSIONS: Mapping[str, int] = {"actions": 2, "decisions": 2, "shares": 2, "draws": 3}


def _array(values: Any, where: str, path: Path) -> Floats:
    name = where.rpartition(" ")[2]
    try:
        found = np.array(values, dtype=np.float64)
    except (OverflowError, TypeError, ValueError):
        raise ReadError(path, f"{where} must hold equally many numbers in all rows") from None
    if found.ndim != _DIMENSIONS[name] or not found.size or not np.isfinite(found).all():
        raise ReadError(path, f"{where} must hold equally many numbers in all rows")
    return found
