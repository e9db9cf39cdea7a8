"""Agents of ``hdrl/JobPick-v0`` on the kernel: they see and pick as in training, everything else is simulated in full.

`envs.job_pick.JobPickVectorEnv` simulates a pool of identical processors, which is what makes training fast. To
compare an agent with a policy that the kernel simulates, both must live in the same world: memory, contention, speeds,
P-states, energy and walltimes of the platform and the jobs. The decision systems of other simulators keep the kernel's
picture of the machine, so the same compiled code picks there.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from hdrl.base.errors import DecisionError, OptionsError, SimulationError
from hdrl.base.plainnet import PlainActor
from hdrl.envs.hooks import Info
from hdrl.envs.masks import ACTION_MASK, LegalDiscrete
from hdrl.envs.own_objective import OwnObjective
from hdrl.envs.requests import check_reset_options
from hdrl.envs.row_pick import ROW_MASK
from hdrl.settings.batch.compiled_play.entries import warm_up
from hdrl.settings.batch.compiled_play.rules import WAIT
from hdrl.settings.batch.compiled_play.state import NO_ACTOR, Play
from hdrl.settings.batch.envs.job_pick_compiled import CompiledPicks, rule_of
from hdrl.settings.batch.envs.job_pick_options import OBJECTIVES, PickChoices
from hdrl.settings.batch.envs.machines import pool_inputs
from hdrl.settings.batch.metrics import compute_metrics
from hdrl.settings.batch.platform.model import Platform
from hdrl.settings.batch.policies.choices import read_choices
from hdrl.settings.batch.simulation.trace import BatchTrace
from hdrl.settings.batch.simulators import make_simulator
from hdrl.settings.batch.workload.model import Workload

CORE_SELECTION = "high_gflops"
"""Default core selection of a picked job: the fastest free cores."""


def check_can_play(compatibility: str | None) -> None:
    """Refuse agents whose decisions cannot be carried out on the kernel."""
    if compatibility is not None:
        raise OptionsError(
            f"compatibility is {compatibility!r}, a simulator of its own: what was trained in it cannot be played "
            "beside policies that hdrl simulates"
        )


class JobPickPlayer(gymnasium.Env[NDArray[Any], np.int64]):
    """One environment like ``hdrl/JobPick-v0`` whose decisions the kernel, or another simulator, carries out.

    Observations, actions and what a pick means are those of `envs.job_pick.JobPickVectorEnv`. Besides, a job can
    start where cores *and memory* are free, expected ends are those on the cores that a job gets, and an episode is a
    whole workload. Times are those of messages from Batsim, which tells simultaneous events one after the
    other. There are no rewards before the end: this is for playing what has been learned.

    Parameters
    ----------
    core_selection
        Core selection of a picked job: ``"high_gflops"`` (the fastest ones) or ``"low_power"``.
    energy
        True if energy is accounted for; ``None``: if the platform says what its hosts draw.
    simulator
        Arguments of `policies.simulate` with another simulator and its settings; none: the kernel.
    compatibility
        Refused unless ``None``: it is another simulator.
    **choices
        ``commitment``, ``backfilling``, ``objective``, ``reward``, ``reference``, ``max_jobs``, ``order``,
        ``features``, ``skip``, ``may_hold``, ``predictor``, ``scaled_columns`` and ``scales``, as in
        `envs.job_pick.JobPickVectorEnv`.

    Raises
    ------
    HdrlError
        If an option is wrong, or cannot be carried out on the kernel, or a job never fits the platform.
    """

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012

    def __init__(
        self,
        *,
        platform: Platform,
        workload: Workload,
        core_selection: str = CORE_SELECTION,
        energy: bool | None = None,
        simulator: Mapping[str, Any] = MappingProxyType({}),
        more_logs: Sequence[str] = (),
        kill: bool | None = None,
        compatibility: str | None = None,
        n_threads: int = 1,
        **choices: Any,
    ) -> None:
        del n_threads, kill, more_logs
        check_can_play(compatibility)
        if workload.n_jobs == 0:
            raise OptionsError(f"workload {workload.name!r} has no jobs, expected at least one")
        self.options = PickChoices(**choices).checked().check_world(has_rules=False)
        self.platform, self.workload = platform, workload
        self._energy = platform.has_power if energy is None else energy
        self._simulator = simulator
        self._core_key, _ = read_choices(None, core_selection)
        self._inputs = pool_inputs(workload, platform, None, needs_identical=False, needs_run_times=False)
        self.layout = self.options.layout
        self._mask = np.zeros(self.layout.n_actions, dtype=np.int8)
        self.observation_space = self.layout.observation_space
        self.action_space = LegalDiscrete(self._mask)
        self.render_mode = None
        self._episode: _Episode | None = None
        self._trace: BatchTrace | None = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[NDArray[Any], Info]:
        """Restart the simulation; see `gymnasium.Env.reset`.

        Parameters
        ----------
        options
            ``episode``: which one; they are all the same.

        Raises
        ------
        OptionsError
            If there are others.
        """
        super().reset(seed=seed)
        check_reset_options(options or {}, ())
        warm_up()
        self.close()
        self._trace = None
        self._episode = _Episode(self._new_simulator(seed or 0), self._new_picks(NO_ACTOR))
        return self._observation(self._episode), self._masks()

    def step(self, action: int | np.int64) -> tuple[NDArray[Any], float, bool, bool, Info]:
        """Carry out an action and continue to the next decision, or to the end of the simulation.

        Returns
        -------
        tuple
            As `gymnasium.Env.step` has it; the last reward is the objective, with a minus where less is better.

        Raises
        ------
        DecisionError
            If the action is illegal, or the episode has ended.
        """
        episode = self._check(int(action))
        episode.act(int(action))
        observation = self._observation(episode)
        info = self._masks()
        if not episode.is_over:
            return observation, 0.0, False, False, info
        value = self._value()
        reward = self.options.objective.sign * value
        info["results"] = {"r": reward, "l": self.trace().n_decisions, "objective": value}
        return observation, reward, True, False, info

    @property
    def shown(self) -> list[int]:
        """The jobs of the rows of the observation, indices into the workload."""
        pool = self._now.pool
        jobs: list[int] = self._inputs.orders[0][pool.waiting[: int(pool.scalars["n_shown"][0])]].tolist()
        return jobs

    @property
    def queue(self) -> list[int]:
        """The waiting jobs, indices into the workload, in the order in which they came."""
        kernel = self._now.kernel
        jobs: list[int] = kernel.queue[: int(kernel.scalars["n_queue"][0])].tolist()
        return jobs

    @property
    def now_s(self) -> float:
        """The date of the decision, in seconds."""
        return float(self._now.kernel.scalars["message_s"][0])

    @property
    def n_free(self) -> int:
        """Number of free cores."""
        return int(self._now.kernel.scalars["n_free_cores"][0])

    def action_masks(self) -> NDArray[np.bool_]:
        """Return the mask of legal actions, shape ``(n_actions,)``."""
        return np.not_equal(self._mask, 0)

    def trace(self) -> BatchTrace:
        """Return everything that happened in the last episode that has ended.

        Raises
        ------
        SimulationError
            If none has.
        """
        if self._trace is None:
            raise SimulationError("no episode has ended yet, so there is no trace")
        return self._trace

    def play_actor(self, actor: PlainActor, *, seed: int) -> None:
        """Play an episode with the actions that an actor finds best, in compiled code; `trace` tells what happened.

        It is the same as `reset`, and `step` with the best action until the end, but some fifty times as fast.
        """
        warm_up()
        self.close()
        simulator, picks = self._new_simulator(seed), self._new_picks(actor)
        with contextlib.closing(simulator):
            for borrowed in simulator.decisions():
                picks.decide(borrowed)
            self._trace = simulator.trace

    def close(self) -> None:
        """End the simulation, if it still goes on."""
        episode, self._episode = self._episode, None
        if episode is not None:
            episode.simulator.close()

    # ------------------------------------------------------------------ parts

    def _new_simulator(self, seed: int) -> Any:
        common = {"seed": seed, "energy": self._energy, "rule": rule_of(self.options)}
        return make_simulator(self._simulator, self.platform, self.workload, **common)

    def _new_picks(self, actor: PlainActor) -> CompiledPicks:
        return CompiledPicks(self._inputs, self.options, self._core_key, actor)

    @property
    def _now(self) -> Play:
        if self._episode is None:
            raise SimulationError("no episode has begun; reset the environment first")
        return self._episode.picks.play

    def row_mask(self) -> NDArray[np.bool_]:
        """Return the mask of the rows that hold a job, shape ``(n_rows,)``."""
        return np.arange(self.layout.n_rows) < int(self._now.pool.scalars["n_shown"][0])

    def _masks(self) -> Info:
        return {ACTION_MASK: self._mask.copy(), ROW_MASK: self.row_mask().astype(np.int8)}

    def _value(self) -> float:
        """Return the objective of the episode that has ended."""
        metrics, objective = compute_metrics(self.trace()), self.options.objective
        if isinstance(objective, OwnObjective):
            return objective.value({name: metrics[name] for name in OBJECTIVES})
        return float(metrics[objective.metric])

    def _check(self, action: int) -> _Episode:
        if self._episode is None or self._episode.is_over:
            raise DecisionError("the episode has ended, or none has begun; reset it first")
        if not 0 <= action < len(self._mask):
            raise DecisionError(f"no action {action}, expected 0 to {len(self._mask) - 1}")
        if not self._mask[action]:
            raise DecisionError(f"action {action} is illegal here")
        return self._episode

    def _observation(self, episode: _Episode) -> NDArray[np.float32]:
        """Return the observation, and write the mask; keep the trace of an episode that is over."""
        play = episode.picks.play
        self._mask[:] = play.pick.legal
        if episode.is_over:
            self._trace = episode.simulator.trace
            self._mask[:] = 0
            self._mask[0] = 1  # is ignored; a mask without any legal action has no distribution
        return play.pool.observations.reshape(self.options.max_jobs, self.options.n_features).copy()


class _Episode:
    """A simulation that stops at each choice.

    ``is_over``: whether no choice is left; the simulation has ended then.
    """

    def __init__(self, simulator: Any, picks: CompiledPicks) -> None:
        self.simulator, self.picks = simulator, picks
        self.is_over = False
        self._decisions = simulator.decisions()
        self._go_on(WAIT)

    def act(self, action: int) -> None:
        """Carry out an action, and go on to the next choice or to the end."""
        self._go_on(self.picks.act(action))

    def _go_on(self, stage: int) -> None:
        while stage == WAIT:
            borrowed = next(self._decisions, None)
            if borrowed is None:
                self.is_over = True
                self.picks.show_end()
                return
            stage = self.picks.see(borrowed)
