"""Difficulty of each task, and the results of the classic policies: measured by a command, kept in the package."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hdrl.base.csvfiles import atomic_table, read_records
from hdrl.base.errors import OptionsError, ReadError
from hdrl.base.textnumbers import float_of, int_of
from hdrl.bench.points import Values, best_of, read_points
from hdrl.bench.results import DIVISIONS, BenchResult, Division
from hdrl.bench.tasks import Named, Task, read_task
from hdrl.experiment.compare.comparison import CompareProgress, run_comparison
from hdrl.metrics.statistics import geometric_mean_ratio, kendall_tau, mean_ranks

FACTS_FILE, CLASSICS_FILE, SHIPPED_FILE = "facts.csv", "classics.csv", "shipped.csv"

KEPT_IN = Path(__file__).parent / "data"

DIGITS = 7
"""Significant digits of the numbers of classic policies: ranks and ratios need no more."""


@dataclass(frozen=True, slots=True)
class Difficulty:
    """Measurements of a task.

    Attributes
    ----------
    task, sha256
        Of which, in which version.
    n_windows, n_classic
        Numbers of windows, and of classic policies.
    best
        The classic policy with the best mean rank.
    gap
        Its ratio to the yardstick, above 1 (geometric mean over the windows that have a ratio).
    share_waiting
        Share of windows in which anybody waits under the baseline.
    agreement
        Kendall's tau between the rankings of the classic policies by even and by odd windows: 1 without noise.
    seconds
        Time of all measurements on one core, in seconds.
    """

    task: str
    sha256: str
    n_windows: int
    n_classic: int
    best: str
    gap: float
    share_waiting: float
    agreement: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Classic:
    """Result of a classic policy in a task.

    Attributes
    ----------
    task, sha256, policy
        What.
    objective, tail
        The numbers of each window.
    """

    task: str
    sha256: str
    policy: str
    objective: NDArray[np.float64]
    tail: NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Shipped:
    """Result in a task of a learned policy that comes with hdrl, or that a command of its documentation trains.

    Attributes
    ----------
    task, sha256, policy
        What.
    division, core_minutes
        In which division, and what its training took.
    how
        The commands that make the result of a trained model again; empty for a policy by name.
    objective, tail
        The numbers of each window.
    """

    task: str
    sha256: str
    policy: str
    division: Division
    core_minutes: float
    how: str
    objective: NDArray[np.float64]
    tail: NDArray[np.float64]


def shipped_of(result: BenchResult) -> list[Shipped]:
    """Return the numbers of a result, to be kept.

    Raises
    ------
    OptionsError
        If its entry is a file, and its card does not say how it is made.
    """
    card = result.card
    is_named = card.kind == "policy" and card.name == card.policy
    if not is_named and not card.training.words:
        raise OptionsError(
            f"{result.folder}: is of {card.name}, expected a policy that comes with hdrl, by its own name, or models "
            "with the commands that make them again (--how)"
        )
    how = "" if is_named else card.training.words
    found = []
    for name, sha256 in card.tasks.items():
        task = read_task(name).task
        values = read_points(result.points(name), [task.objective, task.tail])[card.name]
        numbers = values[task.objective], values[task.tail]
        found.append(Shipped(name, sha256, card.name, card.division, card.training.core_minutes, how, *numbers))
    return found


def measure(
    named: Named, out: Path, *, n_workers: int | None = None, progress: CompareProgress | None = None
) -> tuple[Difficulty, list[Classic]]:
    """Simulate the classic policies and the yardstick of a task.

    Parameters
    ----------
    out
        Folder for the comparisons.
    n_workers, progress
        As `run_comparison` takes them.

    Raises
    ------
    HdrlError
        If a log is missing.
    """
    task, began = named.task, time.process_time()
    yard = task.yardstick
    more = [name for name in (task.waits, yard.bound, yard.per) if name is not None]
    run_comparison(
        named.sweep(task.classic, metrics=more), out=out / named.name, n_workers=n_workers, progress=progress
    )
    values = read_points(out / named.name, [task.objective, task.tail, *more])
    names = classic_names(task)
    less = is_less_better(task)
    best, candidate_values = best_of({name: values[name][task.objective] for name in names}, less=less)
    goal = _bound(task, values, best) if yard.bound is not None else _others(named, out, n_workers, progress)
    usable = (candidate_values > 0) & (goal > 0)
    gap = geometric_mean_ratio(candidate_values[usable], goal[usable]) if usable.any() else math.nan
    table = np.stack([values[name][task.objective] for name in names], axis=1)
    halves = [mean_ranks(table[start::2], lower_is_better=less).tolist() for start in (0, 1)]
    difficulty = Difficulty(
        named.name,
        task.sha256(),
        len(candidate_values),
        len(names),
        best,
        gap if less or math.isnan(gap) else 1 / gap,
        float(np.mean(values[task.baseline][task.waits] > 0)),
        kendall_tau(*halves),
        time.process_time() - began,
    )
    classics = [
        Classic(named.name, task.sha256(), name, values[name][task.objective], values[name][task.tail])
        for name in names
    ]
    return difficulty, classics


def classic_names(task: Task) -> list[str]:
    """Return the names of the classic policies of a task, each once."""
    groups = task.setting.policies.groups()
    return list(dict.fromkeys(name for text in task.classic for name in groups.get(text, [text])))


def is_less_better(task: Task) -> bool:
    """Return whether less of the objective is better."""
    return task.setting.measures.metrics[task.objective].lower_is_better is not False


def _bound(task: Task, values: Values, best: str) -> NDArray[np.float64]:
    bound = values[best][str(task.yardstick.bound)]
    return bound if task.yardstick.per is None else bound / values[best][task.yardstick.per]


def _others(named: Named, out: Path, n_workers: int | None, progress: CompareProgress | None) -> NDArray[np.float64]:
    task, folder = named.task, out / f"{named.name}-yardstick"
    sweep = named.sweep(task.yardstick.policies, changes=task.yardstick.changes)
    run_comparison(sweep, out=folder, n_workers=n_workers, progress=progress)
    table = np.stack([one[task.objective] for one in read_points(folder, [task.objective]).values()])
    return np.asarray(np.nanmin(table, axis=0) if is_less_better(task) else np.nanmax(table, axis=0))


def write_measured(folder: Path, found: Sequence[tuple[Difficulty, Sequence[Classic]]]) -> None:
    """Write measurements into a folder; rows of other tasks that are there stay."""
    folder.mkdir(parents=True, exist_ok=True)
    facts = {**read_facts(folder), **{one.task: one for one, _ in found}}
    classics = {**read_classics(folder), **{one.task: those for one, those in found}}
    with atomic_table(folder / FACTS_FILE, [one.name for one in fields(Difficulty)]) as write_row:
        for name in sorted(facts):
            write_row([_short(value) for value in asdict(facts[name]).values()])
    with atomic_table(folder / CLASSICS_FILE, [one.name for one in fields(Classic)]) as write_row:
        for name in sorted(classics):
            for one in classics[name]:
                write_row([one.task, one.sha256, one.policy, _joined(one.objective), _joined(one.tail)])


def write_shipped(folder: Path, found: Sequence[Shipped]) -> None:
    """Write the results of shipped policies into a folder; rows of other policies and tasks that are there stay."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = {(one.task, one.policy, one.division): one for one in (*read_shipped(folder), *found)}
    with atomic_table(folder / SHIPPED_FILE, [one.name for one in fields(Shipped)]) as write_row:
        for _, one in sorted(rows.items()):
            numbers = _joined(one.objective), _joined(one.tail)
            write_row([one.task, one.sha256, one.policy, one.division, f"{one.core_minutes:g}", one.how, *numbers])


def read_shipped(folder: Path = KEPT_IN) -> list[Shipped]:
    """Return the results of shipped policies.

    Parameters
    ----------
    folder
        Folder of the file.

    Raises
    ------
    ReadError
        If the table is damaged.
    """
    path = folder / SHIPPED_FILE
    if not path.is_file():
        return []
    try:
        return [
            Shipped(
                row["task"],
                row["sha256"],
                row["policy"],
                next(one for one in DIVISIONS if one == row["division"]),
                float_of(row["core_minutes"]),
                row["how"],
                *(np.array([float_of(text) for text in row[name].split()]) for name in ("objective", "tail")),
            )
            for row in read_records(path)
        ]
    except (KeyError, ValueError, AttributeError, StopIteration):
        raise ReadError(path, "is not a table of shipped policies") from None


def _short(value: object) -> object:
    return f"{value:.4g}" if isinstance(value, float) else value


def _joined(values: NDArray[np.float64]) -> str:
    return " ".join("nan" if math.isnan(value) else f"{value:.{DIGITS}g}" for value in values.tolist())


def read_facts(folder: Path = KEPT_IN) -> dict[str, Difficulty]:
    """Return the difficulty of tasks, by name.

    Parameters
    ----------
    folder
        Folder of the file.

    Raises
    ------
    ReadError
        If the table is damaged.
    """
    path = folder / FACTS_FILE
    if not path.is_file():
        return {}
    try:
        rows = [_difficulty(row) for row in read_records(path)]
    except (KeyError, ValueError, TypeError):
        raise ReadError(path, "is not a table of difficulties") from None
    return {row.task: row for row in rows}


def _difficulty(row: Mapping[str, str]) -> Difficulty:
    gap, waiting, agreement, seconds = (
        float_of(row[name]) for name in ("gap", "share_waiting", "agreement", "seconds")
    )
    n_windows, n_classic = int_of(row["n_windows"]), int_of(row["n_classic"])
    return Difficulty(row["task"], row["sha256"], n_windows, n_classic, row["best"], gap, waiting, agreement, seconds)


def read_classics(folder: Path = KEPT_IN) -> Mapping[str, Sequence[Classic]]:
    """Return the results of classic policies, by task.

    Parameters
    ----------
    folder
        Folder of the file.

    Raises
    ------
    ReadError
        If the table is damaged.
    """
    return _classics(folder / CLASSICS_FILE)


def _classics(path: Path) -> dict[str, list[Classic]]:
    if not path.is_file():
        return {}
    found: dict[str, list[Classic]] = {}
    try:
        for row in read_records(path):
            numbers = [np.array([float_of(text) for text in row[name].split()]) for name in ("objective", "tail")]
            one = Classic(row["task"], row["sha256"], row["policy"], numbers[0], numbers[1])
            found.setdefault(one.task, []).append(one)
    except (KeyError, ValueError, AttributeError):
        raise ReadError(path, "is not a table of classic policies") from None
    return found
