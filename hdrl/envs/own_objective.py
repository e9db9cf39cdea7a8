"""Custom objectives: a function of an episode's metrics, in a Python file or passed directly.

``objective(metrics)`` gets what is known so far (`Metrics`) and returns a number. Less is better, unless the
function or its file says ``lower_is_better = False``.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from hdrl.base.pyfiles import AgentError, check_call, located_errors, run_file

Metrics: TypeAlias = Mapping[str, float]
"""The metrics of `hdrl.settings.batch.envs.rewards.OBJECTIVES` that the environment knows, by name.

They are over the jobs that have ended (JobPick: that have been started); means divide by the number of all jobs, so
that they are the metrics of the episode at its end.
"""

FUNCTION = "objective"
"""The function in a file unless another one is named: ``"my.py"`` means ``"my.py:objective"``."""

_SUFFIX = ".py"


class OwnObjective:
    """An objective of a user.

    Parameters
    ----------
    path
        The file that it comes from, if any.
    lower_is_better
        True if less of it is better; ``None``: as the function says, else yes.

    Attributes
    ----------
    metric
        Its name, as `hdrl.settings.batch.envs.rewards.Objective` has it.
    sign
        Sign of its value in the return: -1 where less is better.
    """

    needs_energy = False

    def __init__(
        self,
        function: Callable[[Metrics], float],
        name: str,
        path: Path | None = None,
        *,
        lower_is_better: bool | None = None,
    ) -> None:
        self._function, self._path = function, path
        if lower_is_better is None:
            lower_is_better = bool(getattr(function, "lower_is_better", True))
        self.metric = name
        self.sign = -1 if lower_is_better else 1

    def value(self, metrics: Metrics) -> float:
        """Return the value of the objective.

        Raises
        ------
        AgentError
            If the function fails, with its file and line, or returns no finite number.
        """
        with located_errors(self._path):
            found = self._function(metrics)
        try:
            number = float(found)
        except (TypeError, ValueError):
            number = math.nan
        if not math.isfinite(number):
            raise AgentError(f"{self._where()} returned {found!r}, expected a finite number")
        return number

    def values(self, rows: NDArray[np.int64], columns: Mapping[str, NDArray[np.float64]]) -> list[float]:
        """Return the values of the objective in some rows of a batch."""
        return [self.value({name: float(column[row]) for name, column in columns.items()}) for row in rows.tolist()]

    def _where(self) -> str:
        return f"objective {self.metric}" if self._path is None else f"{self._path}: {self.metric}"


class OwnRewards:
    """Rewards the growth of a user's own objective, in each row of a batch.

    ``value``: what it was worth when it was last paid for, shape ``(n_rows,)``; 0 at the beginning of an episode.
    """

    def __init__(self, objective: OwnObjective, n_rows: int) -> None:
        self._objective = objective
        self.value = np.zeros(n_rows)

    def pay(
        self,
        rows: NDArray[np.int64],
        columns: Mapping[str, NDArray[np.float64]],
        rewards: NDArray[np.float64],
        returns: NDArray[np.float64],
    ) -> None:
        """Pay rows.

        - ``columns``: the metrics of all rows by name.
        - ``rewards``, ``returns``: where to write what is paid now, and to add it to what the episode has returned.
        """
        for row, value in zip(rows.tolist(), self._objective.values(rows, columns), strict=True):
            rewards[row] = self._objective.sign * (value - self.value[row])
            returns[row] += rewards[row]
            self.value[row] = value


def is_objective_file(text: str) -> bool:
    """Tell whether an objective is given by a Python file."""
    return _split(text)[0].endswith(_SUFFIX)


def moved_objective(text: str, path_of: Callable[[str], Path | str]) -> str:
    """Return an objective whose file is named from another folder.

    - ``text``: the file and the function: ``"my.py:tardiness"``.
    - ``path_of``: returns the new path of a file.
    """
    file, name = _split(text)
    return f"{path_of(file)}:{name}"


def load_objective(text: str) -> OwnObjective:
    """Return the objective that a Python file defines.

    Parameters
    ----------
    text
        The file and the function: ``"my.py:tardiness"``.

    Raises
    ------
    ReadError
        If the file cannot be read.
    AgentError
        If it is no Python, fails, or has no such function.
    """
    file, name = _split(text)
    path = Path(file)
    module = _module(path, path.stat().st_mtime_ns if path.is_file() else 0)
    function = getattr(module, name, None)
    if not callable(function):
        known = [one for one in vars(module) if not one.startswith("_") and callable(getattr(module, one))]
        there = f"it has {', '.join(known)}" if known else "it has none"
        raise AgentError(f"{path}: defines no function {name}(metrics); {there}")
    check_call(function, "metrics", path)
    chosen = getattr(function, "lower_is_better", getattr(module, "lower_is_better", True))
    return OwnObjective(function, name, path, lower_is_better=bool(chosen))


@functools.lru_cache(maxsize=16)
def _module(path: Path, written_ns: int) -> ModuleType:
    """Return the module of a file as it was written then: it runs once, however many environments ask for it."""
    del written_ns
    return run_file(path, trust=True)[0]


def _split(text: str) -> tuple[str, str]:
    """Return file and function of ``"my.py:tardiness"``; Windows drives have no such ending."""
    file, colon, name = text.rpartition(":")
    return (file, name) if colon and file.endswith(_SUFFIX) else (text, FUNCTION)
