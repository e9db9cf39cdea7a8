"""Tiny vector environments with known best policies: an agent that fails here has an error.

All of them know both modes of autoreset, give action masks, can save their state, and draw all that is random from
one seed.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from hdrl.base.errors import DecisionError
from hdrl.base.seeding import stream

Array = NDArray[Any]


class ToyEnvs(VectorEnv[Array, Array, Array]):
    """The base of the toys: episodes of a fixed length, and everything that Gymnasium asks for.

    ``observation_space`` and ``n_actions`` are those of one toy. With ``is_truncated``, episodes are cut off instead of
    ending by themselves. ``autoreset_mode`` is NEXT_STEP or SAME_STEP.
    """

    def __init__(
        self,
        num_envs: int,
        observation_space: spaces.Box,
        n_actions: int,
        *,
        length: int = 1,
        is_truncated: bool = False,
        autoreset_mode: AutoresetMode = AutoresetMode.NEXT_STEP,
    ) -> None:
        self.num_envs = num_envs
        self.n_actions = n_actions
        self.length = length
        self.is_truncated = is_truncated
        self.mode = autoreset_mode
        self.metadata = {"autoreset_mode": autoreset_mode, "render_modes": []}
        self.render_mode = None
        self.single_observation_space = observation_space
        self.single_action_space = spaces.Discrete(n_actions)
        self.observation_space = batch_space(observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.random = stream(0, "toys")
        self.ages = np.zeros(num_envs, dtype=np.int64)
        self.has_ended = np.zeros(num_envs, dtype=np.bool_)
        self.returns = np.zeros(num_envs)

    @abstractmethod
    def draw(self, rows: Array) -> None:
        """Draw the next observations of the environments of the given indices."""

    @abstractmethod
    def rewards_of(self, actions: Array) -> Array:
        """Return the rewards of actions, shape ``(num_envs,)``."""

    @abstractmethod
    def observe(self) -> Array:
        """Return the observations of all environments, a new array."""

    def masks(self) -> Array:
        """Return the mask of legal actions, shape ``(num_envs, n_actions)``, int8: all of them."""
        return np.ones((self.num_envs, self.n_actions), dtype=np.int8)

    def arrays(self) -> dict[str, Array]:
        """Return the arrays, not copies, that hold the state, by name."""
        return {"ages": self.ages, "has_ended": self.has_ended, "returns": self.returns}

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Array, dict[str, Any]]:
        """Begin an episode in every environment; the options are not used."""
        del options
        if isinstance(seed, int):
            self.random = stream(seed, "toys")
        self._begin(np.arange(self.num_envs))
        return self.observe(), {"action_mask": self.masks()}

    def step(self, actions: Array) -> tuple[Array, Array, Array, Array, dict[str, Any]]:
        """Carry out one action in each environment."""
        starting = self.has_ended.copy()
        legal = self.masks()[np.arange(self.num_envs), actions] != 0
        if not bool((legal | starting).all()):
            raise DecisionError(f"environment {int(np.argmin(legal | starting))}: an illegal action")
        rewards = np.where(starting, 0.0, self.rewards_of(actions))
        self.returns += rewards
        self.ages += ~starting
        ended = ~starting & (self.ages >= self.length)
        infos: dict[str, Any] = {}
        if ended.any():
            infos["results"] = {"r": self.returns.copy(), "l": self.ages.copy()}
            infos["_results"] = ended.copy()
        self.draw(np.flatnonzero(~starting))
        self._begin(np.flatnonzero(starting))
        self.has_ended = ended.copy()
        if self.mode is AutoresetMode.SAME_STEP and ended.any():
            self._start_over(ended, infos)
        infos["action_mask"] = self.masks()
        cut = ended & self.is_truncated
        return self.observe(), rewards, ended & ~cut, cut, infos

    def state_dict(self) -> dict[str, Any]:
        """Return the whole state: copies of arrays, and the state of the random generator."""
        saved: dict[str, Any] = {name: array.copy() for name, array in self.arrays().items()}
        return {**saved, "random": self.random.bit_generator.state}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on where `state_dict` was called."""
        for name, array in self.arrays().items():
            array[...] = state[name]
        self.random.bit_generator.state = state["random"]

    def _begin(self, rows: Array) -> None:
        self.ages[rows] = 0
        self.returns[rows] = 0.0
        self.has_ended[rows] = False
        self.draw(rows)

    def _start_over(self, ended: Array, infos: dict[str, Any]) -> None:
        last = self.observe()
        finals = np.full(self.num_envs, None, dtype=object)
        for row in np.flatnonzero(ended):
            finals[row] = last[row].copy()
        infos["final_obs"], infos["_final_obs"] = finals, ended.copy()
        infos["final_info"] = {"action_mask": self.masks(), "results": infos.pop("results")}
        infos["_final_info"] = infos.pop("_results")
        self._begin(np.flatnonzero(ended))


class IdentityEnvs(ToyEnvs):
    """Repeat the observation: it is one of ``n_actions`` symbols, the action of that number earns 1, others 0.

    The best return of an episode is its length; guessing earns ``length / n_actions``.

    With ``is_masked``, some wrong actions are illegal; with ``is_shuffled``, rewards do not depend on actions.
    """

    def __init__(
        self,
        num_envs: int,
        *,
        n_actions: int = 4,
        length: int = 10,
        is_masked: bool = False,
        is_shuffled: bool = False,
        **arguments: Any,
    ) -> None:
        space = spaces.Box(0.0, 1.0, (n_actions,), np.float32)
        super().__init__(num_envs, space, n_actions, length=length, **arguments)
        self.is_masked = is_masked
        self.is_shuffled = is_shuffled
        self.symbols = np.zeros(num_envs, dtype=np.int64)
        self.legal = np.ones((num_envs, n_actions), dtype=np.int8)

    def draw(self, rows: Array) -> None:
        """Draw symbols and masks; the right action is always legal, and so is another."""
        self.symbols[rows] = self.random.integers(self.n_actions, size=len(rows))
        if self.is_masked:
            self.legal[rows] = self.random.random((len(rows), self.n_actions)) < 0.5
            self.legal[rows, self.symbols[rows]] = 1
            self.legal[rows, (self.symbols[rows] + 1) % self.n_actions] = 1

    def rewards_of(self, actions: Array) -> Array:
        """Return 1 for the right action."""
        right = self.random.integers(self.n_actions, size=self.num_envs) if self.is_shuffled else self.symbols
        return np.equal(actions, right).astype(np.float64)

    def observe(self) -> Array:
        """Return the symbols, one-hot."""
        return np.eye(self.n_actions, dtype=np.float32)[self.symbols]

    def masks(self) -> Array:
        """Return the masks."""
        return self.legal.copy()

    def arrays(self) -> dict[str, Array]:
        """Return the state."""
        return {**super().arrays(), "symbols": self.symbols, "legal": self.legal}


class BanditEnvs(ToyEnvs):
    """A contextual bandit: in context ``c`` the arm ``(2 c + 1) % n_actions`` earns 1 on average, the others 0.

    Rewards have a standard deviation of ``noise``; an episode is one pull. The best mean return is 1.
    """

    def __init__(
        self, num_envs: int, *, n_actions: int = 5, n_contexts: int = 3, noise: float = 0.5, **arguments: Any
    ) -> None:
        super().__init__(num_envs, spaces.Box(0.0, 1.0, (n_contexts,), np.float32), n_actions, length=1, **arguments)
        self.n_contexts = n_contexts
        self.noise = noise
        self.contexts = np.zeros(num_envs, dtype=np.int64)

    def best(self, contexts: Array) -> Array:
        """Return the best arms."""
        return (2 * contexts + 1) % self.n_actions

    def draw(self, rows: Array) -> None:
        """Draw contexts."""
        self.contexts[rows] = self.random.integers(self.n_contexts, size=len(rows))

    def rewards_of(self, actions: Array) -> Array:
        """Return noisy rewards."""
        noise = self.noise * self.random.standard_normal(self.num_envs)
        return np.equal(actions, self.best(self.contexts)) + noise

    def observe(self) -> Array:
        """Return the contexts, one-hot."""
        return np.eye(self.n_contexts, dtype=np.float32)[self.contexts]

    def arrays(self) -> dict[str, Array]:
        """Return the state."""
        return {**super().arrays(), "contexts": self.contexts}


class ConstantEnvs(ToyEnvs):
    """Every step earns 1 whatever is done; nothing is ever seen.

    With discount ``gamma``, an episode that is cut off and would go on forever is worth ``1 / (1 - gamma)`` at each
    step; with episodes of one step that end by themselves, a step is worth 1.
    """

    def __init__(self, num_envs: int, *, length: int = 5, **arguments: Any) -> None:
        super().__init__(num_envs, spaces.Box(0.0, 1.0, (1,), np.float32), 2, length=length, **arguments)

    def draw(self, rows: Array) -> None:
        """Draw nothing."""

    def rewards_of(self, actions: Array) -> Array:
        """Return 1."""
        return np.ones(len(actions))

    def observe(self) -> Array:
        """Return the same as always."""
        return np.ones((self.num_envs, 1), dtype=np.float32)


class ShortestRowEnvs(ToyEnvs):
    """Pick the shortest job: a table with a row for each job; some are empty and illegal.

    The action's job of the smallest second feature earns 1, others 0. The best return of an episode is its length.
    With 128 rows and 8 features the spaces are those of ``hdrl/JobPick-v0``.

    ``n_jobs`` are the smallest and the largest number of rows that hold a job.
    """

    def __init__(
        self,
        num_envs: int,
        *,
        n_rows: int = 8,
        n_features: int = 3,
        n_jobs: tuple[int, int] = (1, 8),
        length: int = 10,
        **arguments: Any,
    ) -> None:
        space = spaces.Box(0.0, 1.0, (n_rows, n_features), np.float32)
        super().__init__(num_envs, space, n_rows, length=length, **arguments)
        self.n_jobs = n_jobs
        self.tables = np.zeros((num_envs, n_rows, n_features), dtype=np.float32)
        self.filled = np.zeros((num_envs, n_rows), dtype=np.int8)

    def draw(self, rows: Array) -> None:
        """Draw tables."""
        n_rows, n_features = self.tables.shape[1:]
        numbers = self.random.integers(self.n_jobs[0], self.n_jobs[1] + 1, size=len(rows))
        filled = np.arange(n_rows) < numbers[:, None]
        features = self.random.random((len(rows), n_rows, n_features), dtype=np.float32)
        self.tables[rows] = np.where(filled[:, :, None], features, 0.0)
        self.filled[rows] = filled

    def rewards_of(self, actions: Array) -> Array:
        """Return 1 for the shortest job."""
        lengths = np.where(self.filled != 0, self.tables[:, :, 1], np.inf)
        shortest: Array = lengths.argmin(-1)
        return np.equal(actions, shortest).astype(np.float64)

    def observe(self) -> Array:
        """Return the tables."""
        return self.tables.copy()

    def masks(self) -> Array:
        """Return the mask of the rows that hold a job."""
        return self.filled.copy()

    def arrays(self) -> dict[str, Array]:
        """Return the state."""
        return {**super().arrays(), "tables": self.tables, "filled": self.filled}
