"""Pools that simulate windows of the jobs of a JobPick, and which windows are kept."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hdrl.base.errors import OptionsError
from hdrl.compiled.borrowed import Borrowed
from hdrl.envs.episodes import EpisodePlan, Window
from hdrl.envs.seeds import mixed_bits
from hdrl.settings.batch.envs.job_pick_options import JobPickOptions
from hdrl.settings.batch.envs.job_pick_rewards import RunPriorities
from hdrl.settings.batch.envs.machines import PoolInputs
from hdrl.settings.batch.identical_cores import entries
from hdrl.settings.batch.identical_cores.state import OrderState, new_order_state, set_episode
from hdrl.settings.batch.identical_cores.table import PoolPast, most_groups
from hdrl.settings.batch.kernel.codes import PREDICT_NOTHING

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
        self._value(plan.window(0, 0))  # an unknown priority is refused here

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


class JobPickPools:
    """Makes pools, and says which windows they simulate."""

    def __init__(self, options: JobPickOptions, inputs: PoolInputs) -> None:
        self._inputs = inputs
        self._shared = options.shared_arrays(inputs.columns, inputs.n_procs)
        self._past = PoolPast(inputs.workloads, inputs.orders) if options.predicts else None

    def new(self, n_envs: int, n_jobs: int, **outputs: NDArray[Any]) -> OrderState:
        """Return a pool for windows of at most ``n_jobs`` jobs, see `identical_cores.state.new_order_state`."""
        return new_order_state(n_envs, n_jobs, n_sums=most_groups(n_jobs), **self._shared, **outputs)

    def filled(self, windows: Sequence[Window]) -> OrderState:
        """Return a pool whose environments are about to begin some windows."""
        pool = self.new(len(windows), max(window.n_jobs for window in windows))
        self._fill(pool, windows)
        return pool

    def set_window(self, pool: OrderState, row: int, window: Window) -> None:
        """Set the next window of an environment of a pool."""
        first = self._inputs.first_jobs[window.workload] + window.start
        set_episode(pool, row, first, window.n_jobs, self._inputs.platforms[window.workload].n_cores)
        if self._past is not None and pool.groups.size:
            self._past.write(pool, row, window.workload, window.start, window.n_jobs)

    def run_keys(self, keys: Sequence[int], windows: Sequence[Window]) -> list[NDArray[np.float64]]:
        """Return all objectives of windows under each of some job keys, which use requested times."""
        settings = self._shared["settings"].copy()
        settings["predictor"] = PREDICT_NOTHING
        shared = self._shared | {"settings": settings, "network": np.zeros(0)}
        pool = new_order_state(len(windows), max(window.n_jobs for window in windows), n_sums=0, **shared)
        borrowed, results = Borrowed(pool), []
        for key in keys:
            self._fill(pool, windows)
            results.append(entries.run_keys(borrowed, [key] * len(windows)))
        return results

    def _fill(self, pool: OrderState, windows: Sequence[Window]) -> None:
        for row, window in enumerate(windows):
            self.set_window(pool, row, window)
