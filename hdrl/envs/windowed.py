"""Batches whose episodes are windows of loads: what those of every setting have in common."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from hdrl.envs.episodes import EpisodePlan, Length, Part, Start, Window, plan_episodes, window_of_row
from hdrl.trace.model import Load


class Windowed:
    """Mixin for `hdrl.envs.NativeVectorEnv` if its episodes are windows of loads."""

    num_envs: int
    plan: EpisodePlan
    _windows: NDArray[np.int64]
    """Of each row the load, the first item and how many there are, -1 before its first episode; part of the state."""

    def _plan_windows(self, loads: Sequence[Load], n_jobs: Length, start: Start, part: Part) -> None:
        """Plan the episodes, see `hdrl.envs.episodes.plan_episodes`; the batch must have been made."""
        sizes, names = [one.n_items for one in loads], [one.name for one in loads]
        self.plan = plan_episodes(sizes, n_jobs=n_jobs, start=start, part=part, names=names)
        self._windows = np.full((self.num_envs, 3), -1, dtype=np.int64)

    def _next_window(self, row: int, episode: int, seed: int) -> Window:
        """Return the window of the next episode of a row, and record it."""
        window = self.plan.window(episode, seed)
        self._note_window(row, window)
        return window

    def _note_window(self, row: int, window: Window) -> None:
        """Record the window of the next episode of a row."""
        self._windows[row] = (window.workload, window.start, window.n_jobs)

    def window(self, row: int = 0) -> Window:
        """Return the window of the present episode of a row.

        Raises
        ------
        OptionsError
            If it has had no episode.
        """
        return window_of_row(self._windows, row)
