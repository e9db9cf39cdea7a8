"""Policies of EASY as whom learners of JobPick may imitate: their choices, and how good they are in windows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from hdrl.compiled.lend import Lent
from hdrl.envs.episodes import Window
from hdrl.settings.batch.envs.guides import Guides
from hdrl.settings.batch.envs.job_pick_options import JobPickOptions, guided_settings
from hdrl.settings.batch.envs.job_pick_pay import PickPay
from hdrl.settings.batch.envs.job_pick_pools import JobPickPools
from hdrl.settings.batch.identical_cores import entries
from hdrl.settings.batch.identical_cores.state import OrderState


class JobPickGuides(Guides):
    """The policies that the options of a JobPick name."""

    def __init__(self, options: JobPickOptions, pay: PickPay, pools: JobPickPools, pool: OrderState) -> None:
        super().__init__(len(options.guides), self._choose, self._cost)
        self._options, self._pay, self._pools = options, pay, pools
        self._lents = [self._lent(number, pool) for number in range(len(options.guides))]

    def _lent(self, number: int, pool: OrderState) -> Lent[OrderState]:
        """Return a pool as a policy looks at it."""
        guide = self._options.guides[number]
        weights = np.array(guide.rule.weights, dtype=np.float64)
        return Lent(pool._replace(settings=guided_settings(pool.settings, guide), weights=weights))

    def _choose(self, number: int) -> NDArray[np.int64]:
        return entries.guide_rows(self._lents[number])

    def _cost(self, number: int, windows: Sequence[Window]) -> NDArray[np.float64]:
        """Return the objective of windows under a policy, negative where more is better."""
        values = entries.follow_rows(self._lent(number, self._pools.filled(windows)))
        return -self._options.objective.sign * self._pay.named(values, np.arange(len(windows)))["objective"]
