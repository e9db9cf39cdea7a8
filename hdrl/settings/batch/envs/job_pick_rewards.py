"""Rewards of picks beyond those of compiled code: custom objectives, and relative rewards."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from hdrl.envs.episodes import Window
from hdrl.envs.hooks import BoolArray, FloatArray, StateDict
from hdrl.envs.own_objective import OwnObjective, OwnRewards
from hdrl.settings.batch.envs.job_pick_options import OBJECTIVES, REPORTED, SHAPED, JobPickOptions
from hdrl.settings.batch.identical_cores.state import LARGEST

RunPriorities: TypeAlias = Callable[[str, Sequence[Window]], dict[str, dict[str, FloatArray]]]
"""`envs.job_pick.JobPickVectorEnv.run_priorities`."""


class PickRewards:
    """The results and the rewards of a batch that compiled code leaves to Python.

    ``unused``: names of the scalars of a pool that the objective does not need.
    """

    def __init__(self, options: JobPickOptions, n_rows: int) -> None:
        self._objective, self._reward, self._reference = options.objective, options.reward, options.reference
        self._own = OwnRewards(options.objective, n_rows) if isinstance(options.objective, OwnObjective) else None
        self._references: dict[Window, float] = {}
        self.unused = frozenset(LARGEST) - {options.objective.metric} if self._own is None else frozenset()

    def begin(self, row: int) -> None:
        """Reset the paid rewards, at the beginning of an episode."""
        if self._own is not None:
            self._own.value[row] = 0.0

    def arrays(self) -> StateDict:
        """Return the arrays to save, by name."""
        return {} if self._own is None else {"own_value": self._own.value}

    def named(self, values: FloatArray, rows: NDArray[np.int64]) -> dict[str, FloatArray]:
        """Return objectives by name, and the one that is rewarded as ``objective``.

        - ``values``: by their numbers, shape ``(n_objectives, n_rows)``.
        - ``rows``: in which rows they are known.
        """
        named = {name: values[one.pool_code] for name, one in OBJECTIVES.items()}
        if not isinstance(self._objective, OwnObjective):
            return {"objective": named[self._objective.metric].copy(), **named}
        own = np.zeros(values.shape[1])
        own[rows] = self._objective.values(rows, named)
        return {"objective": own, **named}

    def episode_info(self, values: FloatArray, ended: BoolArray) -> dict[str, FloatArray]:
        """Return the info at the end of episodes."""
        named = self.named(values, np.flatnonzero(ended))
        names = ("objective", *REPORTED, self._objective.metric)
        return {name: named[name] for name in dict.fromkeys(names) if name in named}

    def due(self, chosen: BoolArray, ended: BoolArray) -> BoolArray | None:
        """Return the mask of the rows in which a user's own objective is to be paid now; ``None`` if there are none."""
        if self._own is None:
            return None
        rewarded = chosen if self._reward == SHAPED else chosen & ended
        return rewarded if rewarded.any() else None

    def add_own_reward(self, rewarded: BoolArray, values: FloatArray, rewards: FloatArray, returns: FloatArray) -> None:
        """Pay a user's own objective."""
        if self._own is not None:
            columns = {name: values[one.pool_code] for name, one in OBJECTIVES.items()}
            self._own.pay(np.flatnonzero(rewarded), columns, rewards, returns)

    def compare(
        self,
        rows: NDArray[np.int64],
        windows: Sequence[Window],
        run_priorities: RunPriorities,
        rewards: FloatArray,
        returns: FloatArray,
    ) -> None:
        """Replace the only rewards of episodes, and so the returns, by what the agent gained over the reference."""
        missing = list(dict.fromkeys(window for window in windows if window not in self._references))
        if missing:
            values = run_priorities(self._reference, missing)[self._reference]["objective"]
            self._references.update(zip(missing, values.tolist(), strict=True))
        for row, window in zip(rows.tolist(), windows, strict=True):
            value, reference = abs(float(rewards[row])), self._references[window]
            if self._objective.sign > 0:
                rewards[row] = math.log(value / reference)
            else:
                rewards[row] = -math.log(max(value, 1.0) / max(reference, 1.0))
            returns[row] = rewards[row]
