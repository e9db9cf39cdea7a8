"""Agents of ``hdrl/PolicyPair-v0`` in simulators outside: they see and choose as in training, jobs run elsewhere.

The decision system of such a simulator has the same picture of the machine as the kernel, so that the same compiled
functions show it and start jobs (`kernel.episodes`).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from hdrl.base.errors import DecisionError, OptionsError, SimulationError
from hdrl.compiled.borrowed import Borrowed
from hdrl.compiled.counts import new_counts
from hdrl.compiled.fields import alone
from hdrl.envs.hooks import Info
from hdrl.envs.masks import ACTION_MASK
from hdrl.envs.requests import check_reset_options
from hdrl.envs.seeds import episode_seed, seed_key
from hdrl.settings.batch.envs.policy_pair_arguments import (
    Actions,
    action_names,
    job_limits,
    observation_space,
    off_after_s,
    pair_numbers,
    pstate_shares,
    read_observation,
    site_rules_reason,
)
from hdrl.settings.batch.envs.policy_pair_rows import SWITCHING, watches_of
from hdrl.settings.batch.kernel import codes, episodes
from hdrl.settings.batch.kernel.beginning import NO_RULE
from hdrl.settings.batch.kernel.episodes import EpisodeArrays, Section, new_origin
from hdrl.settings.batch.kernel.observe import Watch
from hdrl.settings.batch.kernel.reward import OWN
from hdrl.settings.batch.kernel.state import BatchState
from hdrl.settings.batch.platform.model import Platform
from hdrl.settings.batch.policies.pairs import VOID, read_pair
from hdrl.settings.batch.simulation.embedded import check_switches
from hdrl.settings.batch.simulation.trace import BatchTrace
from hdrl.settings.batch.simulators import make_simulator
from hdrl.settings.batch.workload.fit import check_fits
from hdrl.settings.batch.workload.model import Workload

_ONE = np.ones(1, dtype=np.bool_)


class PolicyPairOutside(gymnasium.Env[NDArray[Any], np.int64]):
    """One environment like ``hdrl/PolicyPair-v0`` whose jobs run in another simulator.

    Observations, actions and masks are those of `envs.policy_pair.PolicyPairVectorEnv`. There are no rewards: this is
    for playing what has been learned.

    Parameters
    ----------
    platform, workload
        Machine and jobs.
    simulator
        The arguments of `policies.simulate` with the simulator, ``simulator`` among them, and its settings.
    actions, void, observation, queue_sensitivity, energy
        As in `envs.policy_pair.PolicyPairVectorEnv`.
    compatibility
        Refused unless ``None``: it is another simulator.
    **others
        Arguments of the training alone.

    Raises
    ------
    HdrlError
        If an argument is wrong, or the simulator cannot ask for decisions.
    """

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012

    def __init__(
        self,
        *,
        platform: Platform,
        workload: Workload,
        simulator: Mapping[str, Any],
        actions: Actions | None = None,
        void: bool = True,
        observation: str = "normal",
        queue_sensitivity: float = 0.05,
        energy: bool = True,
        compatibility: str | None = None,
        **others: Any,
    ) -> None:
        del others
        why = site_rules_reason(platform)
        if why is not None or compatibility is not None:
            raise OptionsError(why or f"compatibility is {compatibility!r}, which only the embedded simulator has")
        self.platform, self.workload = platform, check_fits(workload, platform)
        self.actions = action_names(actions, void=void)
        policies = [read_pair(name) for name in self.actions if name != VOID]
        switches = any(one.rule != NO_RULE for one in policies)
        if switches:
            check_switches(platform, energy=energy, sleep_state=max(one.rule.sleep_state for one in policies))
        self._rule = SWITCHING if switches else NO_RULE
        self._energy, self._choices = energy, simulator
        self.observation_space = observation_space(platform, observation, with_nodes=switches)
        self.action_space = spaces.Discrete(len(self.actions))
        self.render_mode = None
        scalars = {
            "void_action": len(policies) if void else -1,
            "detail": read_observation(observation),
            "objective": OWN,
            "queue_sensitivity": queue_sensitivity,
            "n_jobs": workload.n_jobs,
            "last_action": -1,
        }
        self._new_watch: Callable[[], Watch] = lambda: watches_of(
            (1, workload.n_jobs, 1),
            scalars,
            pairs=pair_numbers(policies, platform),
            off_after_s=off_after_s(policies),
            limits=job_limits([workload], compatible=False),
            shares=pstate_shares(platform),
        )
        self._simulator: Any = None
        self._decisions: Iterator[Borrowed[BatchState]] = iter(())
        self._trace: BatchTrace | None = None
        self._state: BatchState | None = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[NDArray[Any], Info]:
        """Begin the simulation anew: see `gymnasium.Env.reset`."""
        super().reset(seed=seed)
        check_reset_options(options or {}, ())
        self.close()
        self._trace, self._state = None, None
        # The seed is that of a batch of one row.
        common = {"seed": episode_seed(seed_key(seed or 0), 0), "energy": self._energy, "rule": self._rule}
        self._simulator = make_simulator(self._choices, self.platform, self.workload, **common)
        self._decisions = self._simulator.decisions()
        self._watch = self._new_watch()
        self._counts = Borrowed(new_counts(1, len(self.actions)))
        self._observations = np.zeros((1, *self.observation_space.shape), dtype=np.float32)  # type: ignore[misc]
        self._go_on()
        return self._seen()

    def step(self, action: int | np.int64) -> tuple[NDArray[Any], float, bool, bool, Info]:
        """Carry out an action, and go on to the next decision."""
        legal = np.flatnonzero(self._counts.arrays.masks[0])
        if self._trace is not None or int(action) not in legal:
            raise DecisionError(f"action {int(action)} is not legal, or the episode has ended")
        self._start_jobs(int(action))
        self._go_on()
        observation, info = self._seen()
        return observation, 0.0, self._trace is not None, False, info

    def trace(self) -> BatchTrace:
        """Return everything that happened; raise SimulationError before the end."""
        if self._trace is None:
            raise SimulationError("no episode has ended yet, so there is no trace")
        return self._trace

    def close(self) -> None:
        """End the simulator, if it still goes on."""
        if self._simulator is not None:
            with contextlib.closing(self._simulator):
                self._simulator = None

    def _go_on(self) -> None:
        """Simulate until the agent is to choose, and show what it sees then."""
        for borrowed in self._decisions:
            self._take(borrowed.arrays)
            last_action = int(self._watch.rows["last_action"][0, 0])
            if int(borrowed.arrays.scalars["news"][0]) == codes.NEWS_OF_NODES and last_action >= 0:
                self._start_jobs(last_action)  # the last decision holds for what it has booted
                continue
            self._call(episodes.SHOW)
            return
        self._trace = self._simulator.trace
        self._counts.arrays.masks[:] = 0
        self._counts.arrays.masks[0, 0] = 1

    def _start_jobs(self, action: int) -> None:
        self._counts.arrays.actions[0] = action
        self._call(episodes.START)

    def _call(self, request: int) -> None:
        episodes.SERVED.call(self._borrowed, request, _ONE, counts=self._counts)

    def _take(self, state: BatchState) -> None:
        """Take the arrays of the decision system, which move as they grow."""
        if state is not self._state:
            self._state = state
            nothing = np.zeros(0, dtype=np.int64)
            origin = new_origin([Section(state.jobs[:0], nothing, nothing)], 1)
            objectives = np.zeros((1, 0))
            self._borrowed = Borrowed(
                EpisodeArrays(alone(state), self._watch, state, origin, objectives, self._observations)
            )

    def _seen(self) -> tuple[NDArray[Any], Info]:
        return self._observations[0].copy(), {ACTION_MASK: self._counts.arrays.masks[0].copy()}
