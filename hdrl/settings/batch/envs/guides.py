"""Policies to imitate: in each row the one that is best in its window."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from hdrl.compiled.borrowed import Borrowed
from hdrl.envs.episodes import Window
from hdrl.settings.batch.envs.job_pick_options import JobPickOptions, guided_settings
from hdrl.settings.batch.envs.job_pick_rewards import PickRewards
from hdrl.settings.batch.envs.job_pick_windows import JobPickPools
from hdrl.settings.batch.identical_cores import entries
from hdrl.settings.batch.identical_cores.state import OrderState

Choices = Callable[[int], NDArray[np.int64]]
"""Returns what a policy, by its number, would do now in each row, shape ``(n_envs,)``."""

Costs = Callable[[int, Sequence[Window]], NDArray[np.float64]]
"""Simulates a policy in some windows, and returns how bad it is in each."""


class Guides:
    """Policies that guide an agent; in each row the action is that of the policy that is best in its window.

    Which one that is depends on the jobs of the window alone, so that no state need be saved.
    """

    def __init__(self, n_policies: int, choices: Choices, costs: Costs) -> None:
        self._numbers, self._choices, self._costs = range(n_policies), choices, costs
        self._best: dict[Window, int] = {}

    def actions(self, windows: Sequence[Window]) -> NDArray[np.int64]:
        """Return the action of the best policy of each row now, shape ``(n_envs,)``."""
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


class JobPickGuides(Guides):
    """The policies that the options of a JobPick name."""

    def __init__(self, options: JobPickOptions, pay: PickRewards, pools: JobPickPools, pool: OrderState) -> None:
        super().__init__(len(options.guides), self._choose, self._cost)
        self._options, self._pay, self._pools = options, pay, pools
        self._lents = [self._borrowed(number, pool) for number in range(len(options.guides))]

    def _borrowed(self, number: int, pool: OrderState) -> Borrowed[OrderState]:
        """Return a pool as a policy looks at it."""
        guide = self._options.guides[number]
        weights = np.array(guide.rule.weights, dtype=np.float64)
        return Borrowed(pool._replace(settings=guided_settings(pool.settings, guide), weights=weights))

    def _choose(self, number: int) -> NDArray[np.int64]:
        return entries.guide_rows(self._lents[number])

    def _cost(self, number: int, windows: Sequence[Window]) -> NDArray[np.float64]:
        """Return the objective of windows under a policy, negative where more is better."""
        values = entries.follow_rows(self._borrowed(number, self._pools.filled(windows)))
        return -self._options.objective.sign * self._pay.named(values, np.arange(len(windows)))["objective"]
