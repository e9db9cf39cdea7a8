"""Pools in which windows of the jobs of a JobPick are simulated."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hdrl.compiled.lend import Lent
from hdrl.envs.episodes import Window
from hdrl.settings.batch.envs.job_pick_options import JobPickOptions
from hdrl.settings.batch.envs.machines import PoolInputs
from hdrl.settings.batch.identical_cores import entries
from hdrl.settings.batch.identical_cores.state import OrderState, new_order_state, set_episode
from hdrl.settings.batch.identical_cores.table import PoolPast, most_groups
from hdrl.settings.batch.kernel.codes import PREDICT_NOTHING


class JobPickPools:
    """Makes pools, and says which windows they simulate.

    Parameters
    ----------
    options
        What is decided, and what is seen.
    """

    def __init__(self, options: JobPickOptions, inputs: PoolInputs) -> None:
        self._inputs = inputs
        self._shared = options.shared_arrays(inputs.columns, inputs.n_procs)
        self._past = PoolPast(inputs.workloads, inputs.orders) if options.predicts else None

    def new(self, n_envs: int, n_jobs: int, **outputs: NDArray[Any]) -> OrderState:
        """Return a pool for windows of at most so many jobs, see `identical_cores.state.new_order_state`."""
        return new_order_state(n_envs, n_jobs, n_sums=most_groups(n_jobs), **self._shared, **outputs)

    def filled(self, windows: Sequence[Window]) -> OrderState:
        """Return a pool whose environments are about to begin some windows."""
        pool = self.new(len(windows), max(window.n_jobs for window in windows))
        self._fill(pool, windows)
        return pool

    def set_window(self, pool: OrderState, row: int, window: Window) -> None:
        """Say which window an environment of a pool begins next."""
        first = self._inputs.first_jobs[window.workload] + window.start
        set_episode(pool, row, first, window.n_jobs, self._inputs.platforms[window.workload].n_cores)
        if self._past is not None and pool.groups.size:
            self._past.write(pool, row, window.workload, window.start, window.n_jobs)

    def run_keys(self, keys: Sequence[int], windows: Sequence[Window]) -> list[NDArray[np.float64]]:
        """Return all objectives of windows under each of some job keys, which go by requested times."""
        settings = self._shared["settings"].copy()
        settings["predictor"] = PREDICT_NOTHING
        shared = self._shared | {"settings": settings, "network": np.zeros(0)}
        pool = new_order_state(len(windows), max(window.n_jobs for window in windows), n_sums=0, **shared)
        lent, results = Lent(pool), []
        for key in keys:
            self._fill(pool, windows)
            results.append(entries.run_keys(lent, [key] * len(windows)))
        return results

    def _fill(self, pool: OrderState, windows: Sequence[Window]) -> None:
        for row, window in enumerate(windows):
            self.set_window(pool, row, window)
