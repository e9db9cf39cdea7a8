"""``hdrl/JobPick-v0`` with ``compatibility="dissertation"``: as in a dissertation on scheduling by PPO."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import ClassVar

import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from hdrl.base.errors import OptionsError
from hdrl.compat.dissertation import entries
from hdrl.compat.dissertation import world as kernel
from hdrl.compat.dissertation.jobs import node_jobs, whole_nodes
from hdrl.compat.dissertation.playing import (
    GUIDES,
    REWARDS,
    SCORES,
    play_order,
    put_window,
    read_errors,
    scores_of,
    shared_arrays,
)
from hdrl.compiled.borrowed import Borrowed
from hdrl.compiled.fields import saved
from hdrl.envs.episodes import Length, Part, Start, Window, plan_episodes
from hdrl.envs.hooks import BoolArray, Options, StateDict
from hdrl.envs.native import NativeVectorEnv
from hdrl.envs.requests import check_choice, check_flags, check_render_mode
from hdrl.envs.single import SingleEnv
from hdrl.envs.windowed import Windowed
from hdrl.settings.batch.envs.guides import Guides
from hdrl.settings.batch.envs.job_pick_options import names_of_guides, number_of
from hdrl.settings.batch.envs.machines import WorkloadLike, unpoolable_reason
from hdrl.settings.batch.envs.pool_trace import EndedEpisodes, pool_trace, with_unrun
from hdrl.settings.batch.platform.model import Platform
from hdrl.settings.batch.platform.reader import given_platform
from hdrl.settings.batch.simulation.trace import BatchTrace
from hdrl.settings.batch.workload.model import Workload

N_JOBS = (256, 512)
"""Jobs of an episode, from the first to the second number."""

BACKFILLINGS = ("none", "expected")
"""Jobs that may overtake a chosen job that does not fit."""


class DissertationVectorEnv(Windowed, NativeVectorEnv):
    """A batch of machines of whole nodes, in the world of a dissertation (LANNDS18/DeepRLScheduler, 2023).

    **Description.** Each job gets as many whole nodes as hold its processors. If a chosen job does not fit, time passes
    until it does; the agent decides nothing meanwhile. Simultaneous events are looked at one by one.

    **Action space.** ``Discrete(128)``: choose the job of a row. The first row without a job does nothing until
    the next event, or for 60 s; the rows behind it are illegal. If 128 jobs wait or more, none does nothing.

    **Observation space.** ``Box(-1, 1, (1280 + n_nodes,), float32)``: ten numbers for each of 128 rows, then for each
    node the number of the job that holds it / the largest number of the log, -1 if it is free.

    ======  ===============================================================================================
    column  meaning
    ======  ===============================================================================================
    0       date of submission / last date of the log
    1       time waited / 12 h
    2       requested time / longest run time of the log
    3       how long it will really run / longest run time, if ``errors`` holds ``true_run_times``; else -1
    4       processors / processors of the machine
    5-7     memory, user, group / largest of the log, 1 if absent
    8       1 - 1e-6 if the job fits now, 1e-6 if not; 1 in the row that does nothing, 0 behind it
    9       1; 0 in the rows behind the one that does nothing
    ======  ===============================================================================================

    Numbers end at 1 - 1e-6; rows without a job have -1 in the first eight columns. Up to 128 waiting jobs are seen in
    the order of submission. If more wait, five lists take turns: by F1, F2, requested time, processors, and drawn.

    **Rewards.** Let x be the mean score of the jobs that have been started. ``"episodic"``: -x in the last step alone;
    ``"running"``: -x in each step but the last; ``"sigmoid"``: 1 / (1 + e^(x / ``sigmoid_scale``)) in each step, -1e-6
    in the last one and, without the error ``skip_is_paid``, for doing nothing. Where scores are positive it lies in
    (0, 1/2], and episodes with more steps gain more. ``"corrected"``: what each step adds to twice that number, which
    is 1 before the first job, so that the return is that of the whole episode minus 1, however many steps it has.

    **Starting state.** The first job of the episode has just been submitted to the empty machine, at its date in
    the log.

    **Episode end.** When the last job has been started. With the error ``may_give_up`` also if nothing is done when
    nothing runs and no job comes any more.

    Parameters
    ----------
    n_jobs
        Jobs of an episode; by default 256 to 512.
    objective
        Score of an episode: a name of `envs.dissertation.SCORES`.
    reward
        ``"sigmoid"`` (the default), ``"episodic"``, ``"running"`` or ``"corrected"``.
    sigmoid_scale
        The scale of sigmoid rewards; 50 or 100 in the original.
    backfilling
        ``"none"``, or ``"expected"``: jobs that are expected to end before the chosen one can start may overtake it, in
        the order of submission.
    guide
        An order of jobs, or several, whose choices among the jobs seen `guide_actions` tells: names of
        `envs.dissertation.GUIDES`. Of several, each episode takes the one with the best objective on its jobs.
    errors
        Errors of the original to reproduce, names of `envs.dissertation.ERRORS`; ``None``: all but ``true_run_times``.
        Those that concern its baselines alone change nothing here.

    Raises
    ------
    OptionsError
        If an argument is wrong.
    WorkloadError
        If the machine can never run a job.
    ReadError
        If a file cannot be read.

    Notes
    -----
    Version 0.
    """

    _option_names: ClassVar[frozenset[str]] = frozenset()

    def __init__(
        self,
        num_envs: int = 1,
        *,
        workload: WorkloadLike | None = None,
        platform: Platform | str | Path | None = None,
        n_procs: int | None = None,
        n_nodes: int | None = None,
        n_jobs: Length = N_JOBS,
        start: Start = None,
        part: Part = "all",
        objective: str = "mean_bounded_slowdown",
        reward: str = "sigmoid",
        sigmoid_scale: float = 100.0,
        backfilling: str = "none",
        guide: str | Sequence[str] | None = None,
        errors: Iterable[str] | None = None,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        copy: bool = True,
        n_threads: int = 1,
        render_mode: None = None,
    ) -> None:
        check_render_mode(render_mode)
        check_flags(copy=copy)
        for what, name, known in (
            ("objective", objective, SCORES),
            ("reward", reward, REWARDS),
            ("backfilling", backfilling, BACKFILLINGS),
        ):
            check_choice(what, name, known)
        if not 0 < sigmoid_scale < math.inf:
            raise OptionsError(f"sigmoid_scale is {sigmoid_scale!r}, expected a positive number")
        self.objective, self.errors = objective, read_errors(errors)
        machine = None if platform is None else given_platform(platform)
        self.jobs = node_jobs(workload, machine, n_procs=n_procs, n_nodes=n_nodes)
        self.plan = plan_episodes([self.jobs.n_jobs], n_jobs=n_jobs, start=start, part=part, names=[self.jobs.name])
        super().__init__(
            num_envs,
            spaces.Box(-1.0, 1.0, (kernel.N_ROWS * kernel.N_COLUMNS + self.jobs.n_nodes,), np.float32),
            spaces.Discrete(kernel.N_ROWS),
            autoreset_mode=autoreset_mode,
            copy=copy,
            n_threads=n_threads,
        )
        shared = shared_arrays(
            self.jobs,
            self.errors,
            score=objective,
            reward=reward,
            sigmoid_scale=float(sigmoid_scale),
            backfills=backfilling != "none",
        )
        self._orders = [number_of("policy to imitate", name, GUIDES) for name in names_of_guides(guide)]
        self._guides = Guides(len(self._orders), self._guide_choices, self._guide_costs)
        self._windows = np.full((self.num_envs, 3), -1, dtype=np.int64)
        self._shared = shared
        given = shared | {"observations": self._observations}
        self._world = kernel.new_world(given, self.num_envs, self.plan.max_jobs, self.jobs.n_nodes)
        self._borrowed = Borrowed(self._world)
        self._ended = EndedEpisodes(self.num_envs)

    @classmethod
    def unsupported_reason(cls, machine: Platform, load: Workload) -> str | None:
        """Return why a machine and jobs are not simulated exactly here; ``None`` if they are."""
        return unpoolable_reason(machine, load)

    # ------------------------------------------------------------------ hooks of the batch

    def _begin(self, row: int, episode: int, seed: int, options: Options) -> None:
        del options
        put_window(self._world, row, self._next_window(row, episode, seed), seed)

    def _reset_rows(self, chosen: BoolArray) -> None:
        entries.SERVED.reset(self._borrowed, self._team, chosen, self._counts)

    def _step_rows(self, chosen: BoolArray, actions: NDArray[np.int64]) -> tuple[int, int]:
        return entries.SERVED.step(self._borrowed, self._counts, self._team, chosen, actions)

    def _help(self, number: int) -> None:
        entries.SERVED.help(self._borrowed, self._counts, self._team, number, self._chosen)

    def _episode_infos(self, ended: BoolArray) -> dict[str, NDArray[np.float64]]:
        found = {name: np.zeros(self.num_envs) for name in ("objective", "n_run", *SCORES)}
        for row in np.flatnonzero(ended).tolist():
            window = self.window(row)
            start_s = self._world.start_s[row, : window.n_jobs].copy()
            self._ended.keep(row, window, start_s, int(self._lengths[row]))
            scores = scores_of(self.jobs, window, start_s, float(self._world.now_s[row, 0]), self.errors)
            for name, value in scores.items():
                found[name][row] = value
            found["n_run"][row] = np.count_nonzero(start_s >= 0)
            found["objective"][row] = scores[self.objective]
        return found

    def _state_arrays(self) -> StateDict:
        return {**saved(self._world), "windows": self._windows}

    # ------------------------------------------------------------------ more than Gymnasium asks for

    def guide_actions(self) -> NDArray[np.int64]:
        """Return the row that the order ``guide`` would choose now, shape ``(num_envs,)``; 0 after an end.

        Of several orders, it is in each environment that which is best in the jobs of its episode.

        Raise OptionsError if there is none.
        """
        if not self._orders:
            raise OptionsError("guide is missing: expected an order whose choices the agent imitates")
        return self._guides.actions([self.window(row) for row in range(self.num_envs)])

    def _guide_choices(self, number: int) -> NDArray[np.int64]:
        orders = np.full(self.num_envs, self._orders[number], dtype=np.int64)
        rows = entries.SERVED.call(self._borrowed, entries.GUIDE, self._all, orders)[0]
        return np.asarray(rows, dtype=np.int64)

    def _guide_costs(self, number: int, windows: Sequence[Window]) -> NDArray[np.float64]:
        """Return the score of windows under an order that looks at all waiting jobs, negative where more is better."""
        shared = self._shared | {"flags": np.zeros_like(self._shared["flags"])}
        outcomes = play_order(self.jobs, windows, self._orders[number], shared)
        scores = np.array([outcome.scores[self.objective] for outcome in outcomes])
        return -scores if self.objective == "utilization" else scores

    def trace(self, row: int = 0) -> BatchTrace:
        """Return the trace of the last episode of a row that has ended, for metrics, pictures and reports.

        Its cores are whole nodes.

        Raise OptionsError if none has ended (in this process: it is not part of `state_dict`), or no job was run in it.
        """
        window, start_s, n_decisions = self._ended.last(row)
        was_run = start_s >= 0
        if not was_run.any():
            raise OptionsError(f"row {row}: no job was run in its last episode")
        platform, workload = whole_nodes(self.jobs)
        positions = np.arange(window.start, window.start + window.n_jobs)
        trace = pool_trace(
            platform,
            workload.take(positions[was_run]),
            start_s[was_run],
            self.jobs.run_s[positions[was_run]],
            is_killed=np.zeros(int(was_run.sum()), dtype=np.bool_),
            n_decisions=n_decisions,
        )
        return trace if was_run.all() else with_unrun(trace, workload.take(positions), was_run)


class DissertationEnv(SingleEnv):
    """One machine of whole nodes: see `DissertationVectorEnv`."""

    batch: DissertationVectorEnv
    batch_class = DissertationVectorEnv
