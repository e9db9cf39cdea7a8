"""``hdrl/GpuCluster-v0`` with ``compatibility="drl-gpu"``: as in the DRL scheduler for GPU clusters."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from hdrl.base.errors import OptionsError
from hdrl.compat.drl_gpu import world as kernel
from hdrl.compat.drl_gpu.playing import (
    check_can_be_split,
    flops_of,
    put_jobs,
    read_errors,
    shared_arrays,
    trace_of_seconds,
)
from hdrl.compiled.borrowed import Borrowed
from hdrl.compiled.fields import saved
from hdrl.envs.episodes import Length, Part, Start
from hdrl.envs.hooks import BoolArray, Options, StateDict
from hdrl.envs.native import NativeVectorEnv
from hdrl.envs.requests import check_render_mode
from hdrl.envs.single import SingleEnv
from hdrl.envs.windowed import Windowed
from hdrl.settings.gpu.cluster.machine import GpuCluster, cluster_of
from hdrl.settings.gpu.envs.loads import loads_of
from hdrl.settings.gpu.loads.load import GpuLoad
from hdrl.trace.model import TaskTrace


class GpuSecondsVectorEnv(Windowed, NativeVectorEnv):
    """A batch of GPU clusters in the world of the DRL scheduler for GPU clusters (HenryAJX/DRL_Scheduler).

    **Action space.** ``Discrete(17)``: start one of the first 16 waiting jobs, or none (16). All are legal; the
    position of a job that is not there costs 0.1, one that does not fit does not start.

    **Observation space.** ``Box(0, inf, (66,), float32)``: the idle share of GPUs; for each of the 16 jobs its priority
    / 5, FLOPS / 5e12, GPUs / all GPUs and run time / 15,000 s (up to 1); waiting jobs / 200. Up to 1 without
    ``large_observations``.

    **Rewards.** 50 times the priorities of jobs that ended in the second, plus 1.5 times the busy share of GPUs, minus
    0.05 for each 1,000 s that the waiting jobs have waited so far, minus 0.3 for each job that waits or runs.

    **Starting state.** The second in which the first job of the episode arrives, an empty cluster.

    **Episode end.** When all jobs are done; it is cut off after ``max_s``.

    Parameters
    ----------
    num_envs, machine, load, n_jobs, start, part, autoreset_mode, copy, n_threads
        See `hdrl.settings.gpu.envs.env.GpuClusterVectorEnv`.
    errors
        Errors of the original to reproduce, names of `hdrl.compat.drl_gpu.playing.ERRORS`; ``None``: all. Those that
        concern its baselines and tables alone change nothing here.

    Raises
    ------
    OptionsError
        If an argument is wrong.
    WorkloadError
        If a job can never run on the cluster.
    """

    def __init__(
        self,
        num_envs: int = 1,
        *,
        machine: GpuCluster | str | Path = "drl-gpu",
        load: GpuLoad | str | Path | Sequence[GpuLoad | str | Path] | None = None,
        n_jobs: Length = None,
        start: Start = None,
        part: Part = "all",
        errors: Iterable[str] | None = None,
        max_s: float = 150_000.0,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        copy: bool = True,
        n_threads: int = 1,
        render_mode: None = None,
    ) -> None:
        check_render_mode(render_mode)
        if not 0.0 < max_s < math.inf:
            raise OptionsError(f"max_s is {max_s}, expected a number of seconds above 0")
        self.machine = cluster_of(machine)
        self.loads = loads_of(load, self.machine, check_can_be_split)
        self.errors = read_errors(errors)
        self.max_s = float(max_s)
        high = np.inf if "large_observations" in self.errors else 1.0
        super().__init__(
            num_envs,
            spaces.Box(0.0, high, (kernel.N_SEEN,), np.float32),
            spaces.Discrete(kernel.TOP + 1),
            autoreset_mode=autoreset_mode,
            copy=copy,
            n_threads=n_threads,
        )
        self._plan_windows(self.loads, n_jobs, start, part)
        self._flops = [flops_of(one) for one in self.loads]
        width = min(self.plan.max_jobs, max(one.n_items for one in self.loads))
        given = shared_arrays(self.machine, self.errors) | {"observations": self._observations}
        self._state = kernel.new_seconds(given, self.num_envs, width)
        self._borrowed = Borrowed(self._state)

    # ------------------------------------------------------------------ hooks of the batch

    def _begin(self, row: int, episode: int, seed: int, options: Options) -> None:
        del options
        window = self._next_window(row, episode, seed)
        load = self.loads[window.workload].window(window.start, window.n_jobs)
        flops = self._flops[window.workload][window.start : window.start + window.n_jobs]
        put_jobs(self._state, row, load, flops)
        self._state.until_s[row] = math.floor(load.jobs["arrival_s"][0]) + self.max_s

    def _reset_rows(self, chosen: BoolArray) -> None:
        kernel.SERVED.reset(self._borrowed, self._team, chosen, self._counts)

    def _step_rows(self, chosen: BoolArray, actions: NDArray[np.int64]) -> tuple[int, int]:
        return kernel.SERVED.step(self._borrowed, self._counts, self._team, chosen, actions)

    def _help(self, number: int) -> None:
        kernel.SERVED.help(self._borrowed, self._counts, self._team, number, self._chosen)

    def _episode_infos(self, ended: BoolArray) -> dict[str, NDArray[np.float64]]:
        state = self._state
        found = {name: np.zeros(self.num_envs) for name in ("objective", "mean_jct_s", "n_finished")}
        for row in np.flatnonzero(ended):
            n, now_s = int(state.n_jobs[row, 0]), float(state.now_s[row, 0])
            arrivals_s, ends_s = state.arrival_s[row, :n], state.end_s[row, :n]
            is_done = state.is_done[row, :n] > 0
            # Of an episode in which no job ends there is no mean of those that did; validation needs a number.
            counts_done = "finished_alone" in self.errors and is_done.any()
            counted = is_done if counts_done else arrivals_s < now_s
            jcts_s = np.where(is_done, ends_s, now_s) - arrivals_s
            found["n_finished"][row] = is_done.sum()
            found["mean_jct_s"][row] = jcts_s[counted].mean() if counted.any() else math.nan
        found["objective"] = found["mean_jct_s"].copy()
        return found

    def _state_arrays(self) -> StateDict:
        return {**saved(self._state), "windows": self._windows}

    def counts(self, row: int) -> tuple[int, ...]:
        """Return the numbers of jobs of a row that have arrived, wait, run and are done."""
        return tuple(self._state.counts[row].tolist())

    def skip(self, row: int) -> None:
        """Go to the second in which something happens next: for who would start nothing until then.

        Rewards of the seconds between are not paid.
        """
        kernel.SERVED.call(self._borrowed, kernel.SKIP, np.arange(self.num_envs) == row)

    def trace(self) -> TaskTrace:
        """Return the trace of the episode of the first row; raise OptionsError if it has had no episode."""
        window = self.window(0)
        load = self.loads[window.workload].window(window.start, window.n_jobs)
        return trace_of_seconds(self.machine, load, self._state, int(self._lengths[0]))


class GpuSecondsEnv(SingleEnv):
    """One GPU cluster: see `GpuSecondsVectorEnv`."""

    batch: GpuSecondsVectorEnv
    batch_class = GpuSecondsVectorEnv
