"""Environments in which weights of an index are the action: one step is one episode, whole loads judge the weights.

What differs between settings is what an index weighs and what its loads are: `IndexVectorEnv.judge`. Agents that search
weights (`hdrl.learn.evolution`) and any other optimiser of a box know nothing of that. All rows are judged on the same
draw of loads, so that candidates differ by their weights alone.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from hdrl.base.errors import DecisionError, OptionsError, SimulationError
from hdrl.envs.episodes import Start
from hdrl.envs.hooks import Info
from hdrl.envs.requests import (
    check_render_mode,
    check_reset_options,
    checked_count,
    read_autoreset_mode,
    seed_of_each_row,
)
from hdrl.envs.seeds import fresh_seed

Floats = NDArray[np.float64]


def index_spaces(n_weights: int, largest: float) -> tuple[spaces.Box, spaces.Box]:
    """Return the spaces of observations, in which nothing is seen, and of weights.

    ``largest``: by how much they may differ from those by hand.
    """
    return spaces.Box(0.0, 1.0, (1,), np.float32), spaces.Box(-largest, largest, (n_weights,), np.float64)


class IndexVectorEnv(VectorEnv[NDArray[Any], NDArray[Any], NDArray[Any]], abc.ABC):
    """A batch of environments in which an action is by how much weights differ from those by hand.

    A setting derives its own and says how loads judge weights.

    - ``n_windows``: how many windows of loads an episode draws.
    - ``start``: ``"random"`` alone.
    - ``autoreset_mode``: ``NEXT_STEP`` or ``SAME_STEP``.
    """

    metadata: dict[str, Any] = {"render_modes": [], "autoreset_mode": AutoresetMode.NEXT_STEP}  # noqa: RUF012
    rows_share_draws = True
    """All rows are judged on the same loads, whatever process holds them."""

    def __init__(
        self,
        num_envs: int,
        n_weights: int,
        largest: float,
        *,
        n_windows: int,
        start: Start = "random",
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        render_mode: None = None,
    ) -> None:
        check_render_mode(render_mode)
        if start not in ("random", None):
            raise OptionsError(f"start is {start!r}, expected 'random': each episode has other windows")
        self.n_windows = checked_count("n_windows", n_windows)
        self.num_envs = checked_count("num_envs", num_envs)
        self.autoreset_mode = read_autoreset_mode(autoreset_mode)
        if self.autoreset_mode is AutoresetMode.DISABLED:
            raise OptionsError("autoreset_mode is 'Disabled', expected 'NextStep' or 'SameStep'")
        self.metadata = {**type(self).metadata, "autoreset_mode": self.autoreset_mode}
        self.render_mode = None
        self.single_observation_space, self.single_action_space = index_spaces(n_weights, largest)
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        self._seed: int | None = None
        self._episode = 0
        self._is_begun = False
        self._has_ended = np.zeros(self.num_envs, dtype=np.bool_)

    @abc.abstractmethod
    def judge(self, offsets: Floats, draw: tuple[int, int]) -> tuple[Floats, Mapping[str, Floats]]:
        """Return the reward of each candidate, and what ``info["results"]`` tells of it besides.

        - ``offsets``: by how much the weights of each differ from those by hand.
        - ``draw``: seed and number of the draw of loads.
        """

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[Any], Info]:
        """Begin an episode: see `gymnasium.vector.VectorEnv.reset`.

        - ``seed``: what the loads of all rows are drawn by; of several, the first counts.
        - ``options``: none are known.
        """
        check_reset_options(options or {}, ())
        first = seed_of_each_row(seed, self.num_envs)[0]
        if first is not None:
            self._seed, self._episode = first, 0
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
            Shape ``(num_envs, n_weights)``.

        Raises
        ------
        DecisionError
            If they are no such numbers, or no episode has begun.
        """
        if not self._is_begun or self._seed is None:
            raise DecisionError("no episode has begun; reset the environment first")
        never = np.zeros(self.num_envs, dtype=np.bool_)
        if self._has_ended.all():  # this step only begins the next episode
            self._has_ended[:] = False
            return self._seen(), np.zeros(self.num_envs), never, never, {}
        try:
            offsets = np.asarray(actions, dtype=np.float64)
        except (TypeError, ValueError):
            raise DecisionError(f"actions are {actions!r}, expected numbers") from None
        if offsets.shape != self.action_space.shape or not np.isfinite(offsets).all():
            raise DecisionError(
                f"actions of shape {offsets.shape}, expected finite numbers of shape {self.action_space.shape}"
            )
        rewards, results = self.judge(offsets, (self._seed, self._episode))
        everywhere = np.ones(self.num_envs, dtype=np.bool_)
        episode = {"r": rewards.copy(), "l": np.ones(self.num_envs, dtype=np.int64), **results}
        info = {"results": {**episode, **{f"_{name}": everywhere for name in episode}}, "_results": everywhere}
        self._episode += 1
        ended = np.ones(self.num_envs, dtype=np.bool_)
        if self.autoreset_mode is AutoresetMode.SAME_STEP:
            final = np.empty(self.num_envs, dtype=object)
            final[:] = list(self._seen())
            return self._seen(), rewards, ended, never, {"final_obs": final, "final_info": info}
        self._has_ended[:] = True
        return self._seen(), rewards, ended, never, info

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the episodes."""
        return {"seed": self._seed, "episode": self._episode, "has_ended": self._has_ended.copy()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on where `state_dict` was called."""
        self._seed, self._episode = state["seed"], int(state["episode"])
        self._has_ended = np.array(state["has_ended"], dtype=np.bool_)
        self._is_begun = True

    def _seen(self) -> NDArray[np.float32]:
        return np.zeros((self.num_envs, 1), dtype=np.float32)


class IndexEnv(gymnasium.Env[NDArray[Any], NDArray[Any]]):
    """One environment in which weights are judged: a row of a batch.

    ``**arguments``: arguments of the batch, except ``num_envs`` and ``autoreset_mode``.
    """

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012
    batch_class: ClassVar[Callable[..., IndexVectorEnv]]

    def __init__(self, **arguments: Any) -> None:
        self.batch = type(self).batch_class(1, autoreset_mode=AutoresetMode.SAME_STEP, **arguments)
        self.observation_space = self.batch.single_observation_space
        self.action_space = self.batch.single_action_space
        self.render_mode = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[NDArray[Any], Info]:
        """Begin an episode: see `gymnasium.Env.reset`."""
        super().reset(seed=seed)
        observations, info = self.batch.reset(seed=seed, options=options)
        return observations[0], info

    def step(self, action: NDArray[Any]) -> tuple[NDArray[Any], float, bool, bool, Info]:
        """Judge a candidate: see `IndexVectorEnv.step`."""
        observations, rewards, _, _, info = self.batch.step(np.asarray(action)[None])
        results = info["final_info"]["results"]
        episode = {name: column[0].item() for name, column in results.items() if not name.startswith("_")}
        return observations[0], float(rewards[0]), True, False, {"results": episode}


class IndexPlayer(gymnasium.Env[NDArray[Any], NDArray[Any]]):
    """One environment whose only action, weights, is simulated on a whole load as any policy is.

    Parameters
    ----------
    simulate
        Simulates the load with some weights and a seed, and returns the Trace.
    objective
        Computes the objective from a Trace.
    """

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012

    def __init__(
        self,
        n_weights: int,
        largest: float,
        simulate: Callable[[NDArray[Any], int], Any],
        objective: Callable[[Any], float],
    ) -> None:
        self.observation_space, self.action_space = index_spaces(n_weights, largest)
        self.render_mode = None
        self._simulate, self._objective = simulate, objective
        self._seed = 0
        self._trace: Any = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[NDArray[Any], Info]:
        """Begin: see `gymnasium.Env.reset`."""
        super().reset(seed=seed)
        check_reset_options(options or {}, ())
        self._seed = seed or 0
        return np.zeros(1, dtype=np.float32), {}

    def step(self, action: NDArray[Any]) -> tuple[NDArray[Any], float, bool, bool, Info]:
        """Simulate everything with some weights."""
        self._trace = self._simulate(np.asarray(action), self._seed)
        episode = {"objective": self._objective(self._trace)}
        return np.zeros(1, dtype=np.float32), 0.0, True, False, {"results": episode}

    def trace(self) -> Any:
        """Return everything that happened.

        Raises
        ------
        SimulationError
            If nothing has been simulated yet.
        """
        if self._trace is None:
            raise SimulationError("no episode has ended yet, so there is no trace")
        return self._trace
