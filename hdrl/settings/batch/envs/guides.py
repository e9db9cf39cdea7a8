"""Whom learners of JobPick may imitate: a policy, or of several that which is best in the jobs of the episode."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from hdrl.envs.episodes import Window

Choices = Callable[[int], NDArray[np.int64]]
"""Returns what a policy, by its number, would do now in each row, shape ``(n_envs,)``."""

Costs = Callable[[int, Sequence[Window]], NDArray[np.float64]]
"""Simulates a policy in some windows, and returns how bad it is in each."""


class Guides:
    """Policies that are asked what to do; in each row the one that is best in its window answers.

    Which one that is depends on the jobs of the window alone, so that no state need be saved.

    Parameters
    ----------
    costs
        How bad each is; not asked where there is one policy alone.
    """

    def __init__(self, n_policies: int, choices: Choices, costs: Costs) -> None:
        self._numbers, self._choices, self._costs = range(n_policies), choices, costs
        self._best: dict[Window, int] = {}

    def actions(self, windows: Sequence[Window]) -> NDArray[np.int64]:
        """Return what the best policy of each row would do now, shape ``(n_envs,)``."""
        if len(self._numbers) == 1:
            return self._choices(0)
        self._judge(list(dict.fromkeys(window for window in windows if window not in self._best)))
        best = np.array([self._best[window] for window in windows])
        actions = np.zeros(len(windows), dtype=np.int64)
        for number in np.unique(best).tolist():
            actions[best == number] = self._choices(number)[best == number]
        return actions

    def _judge(self, windows: Sequence[Window]) -> None:
        """Find the best policy of some windows, of equals the one that was named first."""
        if windows:
            costs = np.stack([self._costs(number, windows) for number in self._numbers])
            self._best.update(zip(windows, costs.argmin(axis=0).tolist(), strict=True))
