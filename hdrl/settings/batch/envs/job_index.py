"""``hdrl/JobIndex-v0``: weights of an index of jobs are the action, and whole windows of logs judge them.

What follows from one action is simulated by the kernel from the first to the last job of every window, in compiled
code; there are no further decisions. It is for agents that search weights (`hdrl.learn.evolution`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from hdrl.base import elementary
from hdrl.base.cores import usable_cores
from hdrl.base.errors import DecisionError, OptionsError, SimulationError
from hdrl.envs.episodes import Length, Part, Start
from hdrl.envs.hooks import Info
from hdrl.envs.requests import check_render_mode, check_reset_options, checked_count, read_autoreset_mode
from hdrl.envs.seeds import fresh_seed
from hdrl.settings.batch.envs.machines import WorkloadLike, pool_inputs
from hdrl.settings.batch.envs.window_judge import ADDED, JudgedLog, judge
from hdrl.settings.batch.platform.model import Platform
from hdrl.settings.batch.policies.indexed import LARGEST_WEIGHT, IndexKind
from hdrl.settings.batch.policies.simulation import simulate
from hdrl.settings.batch.simulation.trace import Trace
from hdrl.settings.batch.workload.fit import check_fits
from hdrl.settings.batch.workload.model import Workload

DEFAULT_N_JOBS = 1024
DEFAULT_N_WINDOWS = 6


def _spaces(kind: IndexKind) -> tuple[spaces.Box, spaces.Box]:
    nothing = spaces.Box(0.0, 1.0, (1,), np.float32)
    return nothing, spaces.Box(-LARGEST_WEIGHT, LARGEST_WEIGHT, (kind.n_weights,), np.float64)


class JobIndexVectorEnv(VectorEnv[NDArray[Any], NDArray[Any], NDArray[Any]]):
    """A batch of environments in which weights of an index and a gate are judged by whole windows of logs.

    **Description.** The action is an index of waiting jobs and a gate that holds jobs back (`kernel.keys`): EASY with
    that order. It is simulated on windows of one log or several, all rows on the same windows.

    **Action space.** ``Box(-50, 50, (24,))``, or ``(144,)`` with ``form="network"``: by how much the weights differ
    from those by hand.

    **Observation space.** ``Box(0, 1, (1,))``: nothing is seen, 0.

    **Rewards.** Minus the mean over logs of the mean over windows of log(objective / that of the log's best classic),
    which is found among all priorities x orders of EASY on windows of the part; with ``tail``, plus ``tail`` times the
    same of the 99th percentile of the waiting times.

    **Episode end.** After the first action. ``info["episode"]`` tells the geometric mean of the objective
    (``objective``) and of its ratio to the best classic's (``ratio``).

    Parameters
    ----------
    num_envs
        Number of rows.
    workload, platform
        The first log and its machine, as in `JobPickVectorEnv`.
    n_procs
        The number of processors instead of a platform.
    more_logs
        Further logs, each on identical processors, as many as its header says.
    n_jobs
        Jobs of a window; ``"all"``: the whole part.
    start, part
        Windows are drawn from this part, of further logs from the same shares of their jobs; ``start`` may be
        ``"random"`` alone.
    n_windows
        Windows of each log in an episode.
    objective
        A name of `OBJECTIVES`; less is better.
    tail
        What the 99th percentile of waiting times counts beside the objective; 0: nothing.
    reference
        ``"best"``, or the policy that the ratio refers to.
    form, gate, predictor, backfilling, core_selection
        See `policies.indexed.IndexKind`.
    autoreset_mode
        ``NEXT_STEP`` or ``SAME_STEP``.
    n_threads
        How many threads simulate; ``None``: one for each core. Results do not depend on it.

    Raises
    ------
    HdrlError
        If an argument is wrong, or a log cannot be read.
    """

    metadata: dict[str, Any] = {"render_modes": [], "autoreset_mode": AutoresetMode.NEXT_STEP}  # noqa: RUF012
    rows_share_draws = True
    """All rows are judged on the same windows, whatever process holds them."""

    def __init__(
        self,
        num_envs: int = 1,
        *,
        workload: WorkloadLike | None = None,
        platform: Platform | str | Path | None = None,
        n_procs: int | None = None,
        more_logs: Sequence[str] = (),
        n_jobs: Length = DEFAULT_N_JOBS,
        start: Start = "random",
        part: Part = "all",
        n_windows: int = DEFAULT_N_WINDOWS,
        objective: str = "mean_bounded_slowdown",
        tail: float = 0.0,
        reference: str = "best",
        form: str = "linear",
        gate: bool = True,
        predictor: str = "geo",
        backfilling: str = "easy_priority",
        core_selection: str = "high_gflops",
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        n_threads: int | None = None,
        render_mode: None = None,
    ) -> None:
        check_render_mode(render_mode)
        if start not in ("random", None):
            raise OptionsError(f"start is {start!r}, expected 'random': each episode has other windows")
        if not isinstance(n_jobs, (int, str)):
            raise OptionsError(f"n_jobs is {n_jobs!r}, expected one number: candidates are judged on equal windows")
        if not tail >= 0:
            raise OptionsError(f"tail is {tail}, expected a number, at least 0")
        self.kind = IndexKind(form, gate, predictor, backfilling, core_selection)
        self.num_envs = checked_count("num_envs", num_envs)
        self.autoreset_mode = read_autoreset_mode(autoreset_mode)
        if self.autoreset_mode is AutoresetMode.DISABLED:
            raise OptionsError("autoreset_mode is 'Disabled', expected 'NextStep' or 'SameStep'")
        self.metadata = {**type(self).metadata, "autoreset_mode": self.autoreset_mode}
        self.render_mode = None
        self.n_windows = checked_count("n_windows", n_windows)
        self._n_threads = usable_cores() if n_threads is None else checked_count("n_threads", n_threads)
        self._tail = float(tail)
        self.single_observation_space, self.single_action_space = _spaces(self.kind)
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        given = [pool_inputs(workload, platform, n_procs, needs_identical=False)]
        given += [pool_inputs(one, None, None) for one in more_logs]
        self.logs = tuple(
            JudgedLog.of(
                one.platform,
                one.workloads[0],
                n_jobs=n_jobs,
                part=part,
                first_n_jobs=given[0].workloads[0].n_jobs,
                objective=objective,
                reference=reference,
                n_threads=self._n_threads,
            )
            for one in given
        )
        self._seed: int | None = None
        self._episode = 0
        self._is_begun = False
        self._has_ended = np.zeros(self.num_envs, dtype=np.bool_)

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[Any], Info]:
        """Begin an episode: see `gymnasium.vector.VectorEnv.reset`.

        Parameters
        ----------
        seed
            What the windows of all rows are drawn by; of several, the first counts.
        options
            None are known.
        """
        check_reset_options(options or {}, ())
        first = seed if seed is None or isinstance(seed, int) else seed[0]
        if first is not None:
            self._seed, self._episode = int(first), 0
        elif self._seed is None:
            self._seed = fresh_seed()
        self._has_ended[:] = False
        self._is_begun = True
        return self._seen(), {}

    def step(
        self, actions: NDArray[Any]
    ) -> tuple[NDArray[Any], NDArray[Any], NDArray[np.bool_], NDArray[np.bool_], Info]:
        """Judge a candidate in each row: see `gymnasium.vector.VectorEnv.step`.

        Parameters
        ----------
        actions
            Shape ``(num_envs, 24)``, or as many as the form has weights.

        Raises
        ------
        DecisionError
            If they are no such numbers, or no episode has begun.
        """
        if not self._is_begun:
            raise DecisionError("no episode has begun; reset the environment first")
        never = np.zeros(self.num_envs, dtype=np.bool_)
        if self._has_ended.all():  # this step only begins the next episode
            self._has_ended[:] = False
            return self._seen(), np.zeros(self.num_envs), never, never, {}
        offsets = np.asarray(actions, dtype=np.float64)
        if offsets.shape != self.action_space.shape or not np.isfinite(offsets).all():
            raise DecisionError(
                f"actions of shape {offsets.shape}, expected finite numbers of shape {self.action_space.shape}"
            )
        rewards, info = self._judge(offsets)
        self._episode += 1
        ended = np.ones(self.num_envs, dtype=np.bool_)
        if self.autoreset_mode is AutoresetMode.SAME_STEP:
            final = np.empty(self.num_envs, dtype=object)
            final[:] = list(self._seen())
            return self._seen(), rewards, ended, never, {"final_obs": final, "final_info": info}
        self._has_ended[:] = True
        return self._seen(), rewards, ended, never, info

    def state_dict(self) -> dict[str, Any]:
        """Return where the episodes are."""
        return {"seed": self._seed, "episode": self._episode, "has_ended": self._has_ended.copy()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on where `state_dict` was called.

        Parameters
        ----------
        state
            What it returned.
        """
        self._seed, self._episode = state["seed"], int(state["episode"])
        self._has_ended = np.array(state["has_ended"], dtype=np.bool_)
        self._is_begun = True

    @classmethod
    def refuses(cls, machine: Platform, load: Workload) -> str | None:
        """Return ``None``: it runs on the simulator that policies run on."""
        del machine, load
        return None

    def _seen(self) -> NDArray[np.float32]:
        return np.zeros((self.num_envs, 1), dtype=np.float32)

    def _judge(self, offsets: NDArray[np.float64]) -> tuple[NDArray[np.float64], Info]:
        if self._seed is None:
            raise SimulationError("no episode has begun; reset the environment first")
        candidates = [self.kind.policy(row) for row in offsets]
        judged = judge(self.logs, candidates, self.n_windows, (self._seed, self._episode), n_threads=self._n_threads)
        rewards = -(judged.log_ratios + self._tail * judged.log_tail_ratios)
        everywhere = np.ones(self.num_envs, dtype=np.bool_)
        episode = {
            "r": rewards.copy(),
            "l": np.ones(self.num_envs, dtype=np.int64),
            "objective": elementary.exp(judged.log_values) - ADDED.get(self.logs[0].objective, 0.0),
            "ratio": elementary.exp(judged.log_ratios),
        }
        return rewards, {"episode": {**episode, **{f"_{name}": everywhere for name in episode}}, "_episode": everywhere}


class JobIndexEnv(gymnasium.Env[NDArray[Any], NDArray[Any]]):
    """One environment in which weights are judged: see `JobIndexVectorEnv`.

    Parameters
    ----------
    **arguments
        Those of `JobIndexVectorEnv`, except ``num_envs`` and ``autoreset_mode``.
    """

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012

    def __init__(self, **arguments: Any) -> None:
        self.batch = JobIndexVectorEnv(1, autoreset_mode=AutoresetMode.SAME_STEP, **arguments)
        self.observation_space = self.batch.single_observation_space
        self.action_space = self.batch.single_action_space
        self.render_mode = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[NDArray[Any], Info]:
        """Begin an episode: see `gymnasium.Env.reset`.

        Parameters
        ----------
        seed, options
            See `JobIndexVectorEnv.reset`.
        """
        super().reset(seed=seed)
        observations, info = self.batch.reset(seed=seed, options=options)
        return observations[0], info

    def step(self, action: NDArray[Any]) -> tuple[NDArray[Any], float, bool, bool, Info]:
        """Judge a candidate: see `JobIndexVectorEnv.step`.

        Parameters
        ----------
        action
            As many weights as the form has.
        """
        observations, rewards, _, _, info = self.batch.step(np.asarray(action)[None])
        told = info["final_info"]["episode"]
        episode = {name: column[0].item() for name, column in told.items() if not name.startswith("_")}
        return observations[0], float(rewards[0]), True, False, {"episode": episode}


class JobIndexPlayer(gymnasium.Env[NDArray[Any], NDArray[Any]]):
    """One environment whose only action, weights, is simulated on a whole workload as any policy is.

    Parameters
    ----------
    platform, workload
        What is simulated.
    energy
        Whether energy is accounted for; ``None``: if the platform says what its hosts draw.
    **arguments
        Those of `policies.indexed.IndexKind`; others concern trainings alone.
    """

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012

    def __init__(
        self,
        *,
        platform: Platform,
        workload: Workload,
        energy: bool | None = None,
        **arguments: Any,
    ) -> None:
        self.kind = IndexKind(**{one.name: arguments[one.name] for one in fields(IndexKind) if one.name in arguments})
        self.platform, self.workload = platform, check_fits(workload, platform)
        self._energy = platform.has_power if energy is None else energy
        self.observation_space, self.action_space = _spaces(self.kind)
        self.render_mode = None
        self._seed = 0
        self._trace: Trace | None = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[NDArray[Any], Info]:
        """Begin: see `gymnasium.Env.reset`."""
        super().reset(seed=seed)
        check_reset_options(options or {}, ())
        self._seed = seed or 0
        return np.zeros(1, dtype=np.float32), {}

    def step(self, action: NDArray[Any]) -> tuple[NDArray[Any], float, bool, bool, Info]:
        """Simulate all jobs with some weights."""
        policy = self.kind.policy(action)
        self._trace = simulate(self.platform, self.workload, policy, seed=self._seed, energy=self._energy)
        return np.zeros(1, dtype=np.float32), 0.0, True, False, {}

    def trace(self) -> Trace:
        """Return everything that happened.

        Raises
        ------
        SimulationError
            If nothing has been simulated yet.
        """
        if self._trace is None:
            raise SimulationError("no episode has ended yet, so that there is no trace")
        return self._trace
