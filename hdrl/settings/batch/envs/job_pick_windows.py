"""Which windows are learned from: RLScheduler's trajectory filtering.

Windows of a log differ by orders of magnitude. Those in which no job waits teach nothing, and those in which every job
waits whatever is chosen drown what is learned from others. Windows are drawn until a fixed priority does neither too
well nor too badly in them.

References
----------
D. Zhang, D. Dai, Y. He, F. Bao, B. Xie, "RLScheduler: An Automated HPC Batch Job Scheduler Using Reinforcement
Learning", SC'20.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hdrl.base.errors import OptionsError
from hdrl.envs.episodes import EpisodePlan, Window
from hdrl.envs.seeds import mixed_bits
from hdrl.settings.batch.envs.job_pick_pay import RunPriorities

N_DRAWS = 1000
"""Windows that are drawn for an episode before there is no hope."""

N_MEASURED = 100
"""Windows from which a range is found that is not given."""


class WindowFilter:
    """Draws windows in which a priority's objective lies within a range.

    Parameters
    ----------
    keeps
        The priority, and the least and the largest value; without these, from the median to twice the mean of windows.

    Attributes
    ----------
    least, most
        The range.

    Raises
    ------
    OptionsError
        If windows are not drawn, or it is no such range.
    """

    def __init__(self, plan: EpisodePlan, keeps: Sequence[Any], run_priorities: RunPriorities) -> None:
        if not plan.is_random:
            raise OptionsError("keeps is for windows that are drawn, expected start 'random'")
        if isinstance(keeps, str) or len(keeps) not in (1, 3):
            raise OptionsError(f"keeps is {keeps!r}, expected a priority, the least and the largest value")
        self._plan, self._priority, self._run = plan, str(keeps[0]), run_priorities
        self._values: dict[Window, float] = {}
        if len(keeps) == 1:
            self.least, self.most = self._measured()
            return
        self.least, self.most = float(keeps[1]), float(keeps[2])
        if not self.least < self.most:
            raise OptionsError(f"keeps is from {self.least:g} to {self.most:g}, expected the smaller value first")
        self._value(plan.window(0, 0))  # whoever has no such priority hears of it now

    def drawn(self, episode: int, bits: int) -> Window:
        """Return the window of an episode, drawn by 64 random bits.

        Raises
        ------
        OptionsError
            If no window is kept.
        """
        for _ in range(N_DRAWS):
            window = self._plan.window(episode, bits)
            if self.least <= self._value(window) <= self.most:
                return window
            bits = mixed_bits(bits)
        raise OptionsError(
            f"none of {N_DRAWS} windows is kept: under {self._priority} their objectives are not from {self.least:g} to"
            f" {self.most:g}"
        )

    def _value(self, window: Window) -> float:
        """Return the objective of the priority in a window."""
        if window not in self._values:
            self._values[window] = float(self._run(self._priority, [window])[self._priority]["objective"][0])
        return self._values[window]

    def _measured(self) -> tuple[float, float]:
        windows, bits = [], 0
        for _ in range(N_MEASURED):
            bits = mixed_bits(bits)
            windows.append(self._plan.window(0, bits))
        values = self._run(self._priority, windows)[self._priority]["objective"]
        return float(np.median(values)), 2.0 * float(np.mean(values))
