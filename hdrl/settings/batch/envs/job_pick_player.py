"""Agents of ``hdrl/JobPick-v0`` on the kernel: they see and pick as in training, everything else is simulated in full.

`envs.job_pick.JobPickVectorEnv` simulates a pool of identical processors, which is what makes training fast. To
compare an agent with a policy that the kernel simulates, both must live in the same world: memory, contention, speeds,
P-states, energy and walltimes of the platform and the jobs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
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
from hdrl.settings.batch.envs.job_pick_compiled import CompiledPicks, rule_of
from hdrl.settings.batch.envs.job_pick_options import OBJECTIVES, SKIP, PickChoices
from hdrl.settings.batch.envs.job_pick_picture import Picture
from hdrl.settings.batch.envs.job_pick_rules import PickRules
from hdrl.settings.batch.envs.machines import pool_inputs
from hdrl.settings.batch.identical_cores.codes import CHOOSE, OVER
from hdrl.settings.batch.metrics import compute_metrics
from hdrl.settings.batch.platform.model import Platform
from hdrl.settings.batch.simulation.embedded import EmbeddedSimulator
from hdrl.settings.batch.simulation.trace import Trace
from hdrl.settings.batch.simulation.view import View
from hdrl.settings.batch.workload.model import Workload

CORE_SELECTION = "high_gflops"
"""Which free cores a picked job gets unless chosen: the fastest ones."""


def check_can_play(compatibility: str | None) -> None:
    """Refuse agents whose decisions cannot be carried out on the kernel.

    Raises
    ------
    OptionsError
        If it is one.
    """
    if compatibility is not None:
        raise OptionsError(
            f"compatibility is {compatibility!r}, a simulator of its own: what was trained in it cannot be played "
            "beside policies that hdrl simulates"
        )


class JobPickPlayer(gymnasium.Env[NDArray[Any], np.int64]):
    """One environment like ``hdrl/JobPick-v0`` whose decisions the kernel carries out, on any platform.

    Observations, actions and what a pick means are those of `envs.job_pick.JobPickVectorEnv`. Besides, a job can
    start where cores *and memory* are free, expected ends are those on the cores that a job gets, and an episode is a
    whole workload. Times are those of messages from Batsim, which tells simultaneous events one after the
    other. There are no rewards before the end: this is for playing what has been learned.

    Parameters
    ----------
    core_selection
        Which free cores a picked job gets: ``"high_gflops"`` (the fastest ones) or ``"low_power"``.
    energy
        Whether energy is accounted for; ``None``: if the platform says what its hosts draw.
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
        self.options = PickChoices(**choices).checked()
        self.platform, self.workload = platform, workload
        self._energy = platform.has_power if energy is None else energy
        self._core_selection = core_selection
        self._rules = PickRules(self.options, core_selection)
        self._inputs = pool_inputs(workload, platform, None, needs_identical=False)
        self.layout = self.options.layout
        self._mask = np.zeros(self.layout.n_actions, dtype=np.int8)
        self.observation_space = self.layout.observation_space
        self.action_space = LegalDiscrete(self._mask)
        self.render_mode = None
        self._simulator: EmbeddedSimulator | None = None
        self._shown: list[int] = []
        self._stage = OVER
        self._n_decisions = 0
        self._trace: Trace | None = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[NDArray[Any], Info]:
        """Restart the simulation; see `gymnasium.Env.reset`.

        Parameters
        ----------
        seed
            Seed of the simulation, in which nothing is drawn.
        options
            ``episode``: which one; they are all the same.

        Raises
        ------
        OptionsError
            If there are others.
        """
        super().reset(seed=seed)
        check_reset_options(options or {}, ())
        self._simulator = EmbeddedSimulator(self.platform, self.workload, seed=seed or 0, energy=self._energy)
        self._n_decisions = 0
        self._trace = None
        view = self._simulator.reset()
        while not self._see(view):
            view = self._simulator.step()
        observation = self._to_decision()
        return observation, self._masks()

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
        self._check(int(action))
        self._n_decisions += 1
        if self.layout.name_of(int(action)) == SKIP:
            self._to_next_event()
        elif int(action) >= self.options.max_jobs:
            self._rules.hold(self._shown[int(action) - self.options.max_jobs])
        else:
            self._rules.pick(self._shown[int(action)])
        observation = self._to_decision()
        info = self._masks()
        if self._stage != OVER:
            return observation, 0.0, False, False, info
        value = self._value()
        reward = self.options.objective.sign * value
        info["results"] = {"r": reward, "l": self._n_decisions, "objective": value}
        return observation, reward, True, False, info

    @property
    def rules(self) -> PickRules:
        """The queue, and what is free now."""
        return self._rules

    @property
    def shown(self) -> list[int]:
        """The jobs of the rows of the observation, indices into the workload."""
        return list(self._shown)

    def action_masks(self) -> NDArray[np.bool_]:
        """Return which actions are legal now, shape ``(n_actions,)``."""
        return np.not_equal(self._mask, 0)

    def trace(self) -> Trace:
        """Return everything that happened in the last episode that has ended.

        Raises
        ------
        SimulationError
            If none has.
        """
        if self._trace is None:
            raise SimulationError("no episode has ended yet, so that there is no trace")
        return self._trace

    def play_actor(self, actor: PlainActor, *, seed: int) -> None:
        """Play an episode with the actions that an actor finds best, in compiled code; `trace` tells what happened.

        It is the same as `reset`, and `step` with the best action until the end, but some fifty times as fast.

        Parameters
        ----------
        seed
            Seed of the simulation, in which nothing is drawn.
        """
        warm_up()
        simulator = EmbeddedSimulator(
            self.platform, self.workload, seed=seed, energy=self._energy, rule=rule_of(self.options)
        )
        simulator.run_by(CompiledPicks(self._inputs, self.options, self._core_selection, actor).decide)
        self._simulator, self._trace = None, simulator.trace
        self._stage = OVER

    # ------------------------------------------------------------------ parts

    @cached_property
    def _picture(self) -> Picture:
        """What an agent sees; who plays in compiled code needs none."""
        return Picture(self._inputs, self.options)

    def row_mask(self) -> NDArray[np.bool_]:
        """Return which rows hold a job now, shape ``(n_rows,)``."""
        return np.arange(self.layout.n_rows) < len(self._shown)

    def _masks(self) -> Info:
        return {ACTION_MASK: self._mask.copy(), ROW_MASK: self.row_mask().astype(np.int8)}

    def _value(self) -> float:
        """Return the objective of the episode that has ended."""
        metrics, objective = compute_metrics(self.trace()), self.options.objective
        if isinstance(objective, OwnObjective):
            return objective.value({name: metrics[name] for name in OBJECTIVES})
        return float(metrics[objective.metric])

    def _check(self, action: int) -> None:
        if self._stage == OVER:
            raise DecisionError("the episode has ended, or none has begun; reset it first")
        if not 0 <= action < len(self._mask):
            raise DecisionError(f"no action {action}, expected 0 to {len(self._mask) - 1}")
        if not self._mask[action]:
            raise DecisionError(f"action {action} is illegal here")

    def _to_decision(self) -> NDArray[np.float32]:
        """Go on until the agent is to decide, or to the end; return what it sees."""
        while len(self._rules.queue) or self._rules.n_submitted < self.workload.n_jobs:
            stage = self._rules.stage()
            if stage is not None:
                self._stage = stage
                observation, self._shown = self._picture.show(self._rules, stage)
                self._write_mask()
                if self._mask[: self.options.max_jobs].any():
                    return observation
            self._to_next_event()
        return self._finish()

    def _write_mask(self) -> None:
        self._mask[:] = 0
        n_shown, held = len(self._shown), self._rules.held
        if self._stage == CHOOSE:
            self._mask[:n_shown] = [job not in held for job in self._shown]
        else:
            overtakers = set(self._rules.overtakers())
            self._mask[:n_shown] = [job in overtakers for job in self._shown]
        if self.options.may_hold and self._rules.is_running:
            first = self.options.max_jobs
            self._mask[first : first + n_shown] = self._mask[:n_shown]
        if self.options.has_skip:
            self._mask[-1] = self._rules.can_wait

    def _to_next_event(self) -> None:
        """Tell the kernel what has been started, and continue until jobs come or end."""
        self._picture.note_starts(self._rules.machine)
        view = self._running().step(self._rules.machine.started)
        while not self._see(view) and not view.is_over:
            view = self._running().step()

    def _see(self, view: View) -> bool:
        """Take in a message; return whether jobs have arrived or ended."""
        self._picture.hear(view)
        return self._rules.see(view)

    def _finish(self) -> NDArray[np.float32]:
        """Let what has been started run to its end."""
        simulator = self._running()
        view = simulator.step(self._rules.machine.started)
        while not view.is_over:
            view = simulator.step()
        self._trace = replace(simulator.trace, n_decisions=self._n_decisions)
        self._stage = OVER
        self._mask[:] = 0
        self._mask[0] = 1
        observation, self._shown = self._picture.show(self._rules, OVER)
        return observation

    def _running(self) -> EmbeddedSimulator:
        if self._simulator is None:
            raise SimulationError("no episode has begun; reset the environment first")
        return self._simulator
