"""Agents of HDeepRM's API as agents of `hdrl.learn`, so that one loop trains, validates and plays all agents.

As in HDeepRM, every simulation has a new object of the agent's class, into which the weights are loaded, and ends with
one step of Adam. What the object is handed is a `RecordedEnvironment`: it notes the actions, which the training loop
carries out.
"""

from __future__ import annotations

import contextlib
import math
import traceback
from collections.abc import Iterator, Mapping
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor

from hdrl.base.errors import HdrlError, LearningError
from hdrl.base.pyfiles import AgentError
from hdrl.learn.agent import Acted, Agent, one_line
from hdrl.learn.checks import Calls, check_calls
from hdrl.learn.config import Config
from hdrl.learn.global_rng import GlobalRng, kept_randomness
from hdrl.learn.memory import Memory, Outcome
from hdrl.learn.spaces import n_actions_of

_CALLS: Calls = {"observe": (1, ()), "decide": (1, ()), "alter": (2, ()), "rewarded": (1, ()), "loss": (0, ())}


@contextlib.contextmanager
def _located(made: Any, method: str) -> Iterator[None]:
    """Name the method of an object in errors of the bases, which compute with what the object's methods returned.

    Errors with a line of the object's own file pass: the code that runs the file names that line.
    """
    try:
        yield
    except (HdrlError, NotImplementedError):
        raise
    except Exception as error:
        frames = (frame for frame, _ in traceback.walk_tb(error.__traceback__))
        if any(frame.f_globals.get("__name__") == type(made).__module__ for frame in frames):
            raise
        raise AgentError(f"{type(made).__name__}.{method}: {type(error).__name__}: {one_line(error)}") from error


class HDeepRMConfig(Config):
    """Options of an agent of HDeepRM: ``pybatsim.agent.gamma``, ``hidden`` and ``lr``."""

    gamma: float = 0.99
    hidden: int = 64
    lr: float = 0.001
    samples_in_test: bool = False


class RecordedEnvironment:
    """Environment as an agent of HDeepRM sees it; its actions are noted, and carried out later."""

    def __init__(self, observation_space: gym.Space[Any], action_space: gym.Space[Any]) -> None:
        self.observation_space = observation_space
        self.action_space = action_space
        self._observation = np.zeros(0, dtype=np.float32)
        self._mask = np.ones(self.action_size, dtype=np.bool_)
        self.begin()

    def begin(self) -> None:
        """Forget the last episode."""
        self.has_ended = False
        self.n_steps = 0
        self._reward = 0.0
        self._chosen: list[int] = []

    @property
    def action_size(self) -> int:
        """Number of actions."""
        return n_actions_of(self.action_space)

    @property
    def observation_size(self) -> int:
        """Number of values of an observation; of rows, where it is a table."""
        return int((self.observation_space.shape or (1,))[0])

    @property
    def action_mask(self) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """Mask of the legal actions, shape ``(action_size,)``; an illegal one stands for the first legal one."""
        return self._mask.copy()

    @property
    def has_choice(self) -> bool:
        """True if an action is noted that has not been carried out yet."""
        return bool(self._chosen)

    def observation(self) -> np.ndarray[Any, np.dtype[np.float32]]:
        """Return the present observation, float32, shape ``(observation_size,)``."""
        return self._observation.copy()

    def reward(self) -> float:
        """Return the reward of the last action."""
        return self._reward

    def step(self, action: object) -> None:
        """Note an action."""
        number = int(action) if isinstance(action, (int, np.integer)) and not isinstance(action, bool) else -1
        if not 0 <= number < self.action_size:
            raise AgentError(f"decided for action {action!r}, expected a whole number from 0 to {self.action_size - 1}")
        self._chosen.append(number)
        self.n_steps += 1

    def show(self, observations: Tensor, mask: Tensor | None) -> None:
        """Set the present observation."""
        self._observation = observations[0].numpy()
        self._mask = np.ones(self.action_size, dtype=np.bool_) if mask is None else mask[0].numpy()

    def take(self) -> int:
        """Return the action to carry out now: the first one noted, or the first legal one if that is illegal."""
        number = self._chosen.pop(0)
        return number if self._mask[number] else int(np.argmax(self._mask))

    def receive(self, reward: float, *, has_ended: bool) -> None:
        """Record the reward of the last action, and whether the episode has ended.

        ``has_ended``: whether the episode has ended with it; what is noted but not carried out is dropped then.
        """
        self._reward = reward
        self.has_ended = has_ended
        if has_ended:
            self._chosen.clear()


class OneSimulation(Memory):
    """Waits for the end of a simulation; what happened in it is remembered by the object that decided."""

    resets_first = True

    def __init__(self, agent: HDeepRMAgent) -> None:
        self._agent = agent

    def record_choice(
        self, observations: Tensor, mask: Tensor | None, actions: Tensor, stored: Mapping[str, Tensor]
    ) -> None:
        """Do nothing."""

    def record_outcome(self, outcome: Outcome) -> None:
        """Do nothing."""

    def batch(self, observations: Tensor, mask: Tensor | None) -> Any | None:
        """Return the object that has decided through a whole simulation, if its end has come."""
        del observations, mask
        return self._agent.finished()

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the agent's random numbers, which a model has no use for."""
        return {"random": self._agent.random.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on with these random numbers."""
        self._agent.random.load_state_dict(state["random"])


class HDeepRMAgent(Agent):
    """An agent of HDeepRM's API, one object after the other.

    - ``made_of``: its class, a subclass of `hdrl.compat.hdeeprm.bases.Agent`.
    - ``seed``: seed of the global generators while it is trained.

    Attributes
    ----------
    random
        The global generators, from which the code of the agent draws while it is trained.
    """

    Config = HDeepRMConfig
    computes_on = "cpu"
    config: HDeepRMConfig

    def __init__(
        self,
        observation_space: gym.Space[Any],
        action_space: gym.Space[Any],
        config: HDeepRMConfig | None = None,
        *,
        made_of: type[Any],
        seed: int = 0,
    ) -> None:
        super().__init__(observation_space, action_space, config)
        self._class = made_of
        self._environment = RecordedEnvironment(observation_space, action_space)
        self._object: Any = None
        self._test_seed: int | None = None
        self._n_tests = 0
        self.random = GlobalRng(seed, "agent")
        with self.random.in_use():
            made = self._make()
            check_calls(made, _CALLS)
            self._weights: dict[str, Any] = made.state_dict()
            self._optimizer: dict[str, Any] = self._adam(made).state_dict()

    def memory(self, n_envs: int) -> Memory:
        """Learn from one simulation after the other; raise LearningError if there are several environments."""
        if n_envs != 1:
            raise LearningError(f"an agent of HDeepRM's API learns in one environment, not in {n_envs}")
        return OneSimulation(self)

    @contextlib.contextmanager
    def session(self, seed: int | None = None) -> Iterator[None]:
        """Lend the global generators; tests have random numbers of their own, which do not shift the training's."""
        self._object, self._test_seed, self._n_tests = None, seed, 0
        if seed is None:
            with self.random.in_use():
                yield
        else:
            with kept_randomness(), torch.no_grad():
                yield

    def act(self, observations: Tensor, mask: Tensor | None, *, explore: bool) -> Acted:
        """Let the object decide and note what it does, unless it did several things at once the last time.

        Raise AgentError if it does nothing, or something that does not exist.
        """
        del explore  # a session of a test has begun, or one of the training
        environment = self._environment
        environment.show(observations, mask)
        if self._object is None:
            self._begin()
        if environment.has_ended:
            return Acted(torch.zeros(1, dtype=torch.int64), {})  # it is not used
        if not environment.has_choice:
            decides = self._object
            with _located(decides, "observe"):
                observation = decides.observe(environment)
            with _located(decides, "decide"):
                action = decides.decide(observation)
            with _located(decides, "alter"):
                decides.alter(action, environment)
            if not environment.has_choice:
                raise AgentError(
                    f"{self._class.__name__}.alter carried out no action, expected environment.step(action)"
                )
        return Acted(torch.tensor([environment.take()]), {})

    def saw(self, outcome: Outcome, observations: Tensor, mask: Tensor | None) -> None:
        """Let the object take its reward."""
        environment = self._environment
        environment.show(observations, mask)
        if not outcome.valid[0]:
            self._object = None  # another episode has begun
            return
        rewards = outcome.rewards if outcome.exact_rewards is None else outcome.exact_rewards
        environment.receive(float(rewards[0]), has_ended=bool(outcome.terminated[0] or outcome.truncated[0]))
        if not environment.has_choice:
            with _located(self._object, "rewarded"):
                self._object.rewarded(environment)

    def finished(self) -> Any | None:
        """Return the object that has decided through an episode, ``None`` before its end."""
        return self._object if self._environment.has_ended else None

    def learn(self, batch: Any) -> dict[str, float]:
        """Make one step of Adam on the loss of the object that has decided.

        Raise AgentError if its loss is no number, or not finite.
        """
        if not batch.rewards:
            return {}
        with _located(batch, "loss"):
            loss = batch.loss()
        if not isinstance(loss, Tensor) or loss.numel() != 1:
            raise AgentError(f"loss() returned {loss!r:.80}, expected a tensor of one number")
        value = float(loss.detach())
        if not math.isfinite(value):
            raise AgentError(f"the loss is {value}, expected a finite number")
        optimizer = self._adam(batch)
        optimizer.load_state_dict(self._optimizer)
        optimizer.zero_grad()
        if loss.requires_grad:
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
        self._optimizer, self._weights = optimizer.state_dict(), batch.state_dict()
        return {"loss": value}

    def probabilities(self, observations: Tensor, mask: Tensor | None) -> Tensor:
        """Return the probability of each action at the first decision of the last episode.

        Raise LearningError if the object has not noted it.
        """
        noted = getattr(self._object, "probs", None)
        if not noted:
            return super().probabilities(observations, mask)
        return torch.tensor([noted], dtype=torch.float64)

    def latest_probabilities(self, observations: Tensor, mask: Tensor | None) -> Tensor:
        """Return the probability of each action at the latest decision.

        Raise LearningError if the object has not noted it.
        """
        noted = getattr(self._object, "latest_probs", None)
        return self.probabilities(observations, mask) if noted is None else noted.reshape(1, -1).double()

    def state_dict(self) -> dict[str, Any]:
        """Return the weights and the optimiser, under the names that HDeepRM gives them."""
        return {"model_state_dict": dict(self._weights), "optimizer_state_dict": self._optimizer}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on with these weights and this optimiser."""
        try:
            self._weights, self._optimizer = dict(state["model_state_dict"]), dict(state["optimizer_state_dict"])
        except (KeyError, TypeError, ValueError) as error:
            raise LearningError(f"the saved state does not fit {self._class.__name__}: {one_line(error)}") from None

    def load_weights(self, state: Mapping[str, Any]) -> None:
        """Start from weights, and from their optimiser if there is one.

        Raise LearningError if they do not fit.

        ``state``: what `state_dict` returned, the content of a model file of HDeepRM, or bare weights, as HDeepRM 0.1.0
        saves them.
        """
        try:
            with self.random.in_use():
                made = self._make()
                made.load_state_dict(state.get("model_state_dict", state))
                optimizer = self._adam(made)
                if "optimizer_state_dict" in state:
                    optimizer.load_state_dict(state["optimizer_state_dict"])
                    for group in optimizer.param_groups:
                        group["lr"] = self.config.lr
        except (RuntimeError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise LearningError(f"the saved weights do not fit {self._class.__name__}: {one_line(error)}") from None
        self._weights, self._optimizer = made.state_dict(), optimizer.state_dict()

    def _begin(self) -> None:
        """Begin an episode with a new object."""
        if self._test_seed is not None:
            GlobalRng(self._test_seed, f"test/{self._n_tests}").take_over()
            self._n_tests += 1
        made = self._make()
        made.load_state_dict(self._weights)
        self._object = made.train(self._test_seed is None)
        self._environment.begin()

    def _make(self) -> Any:
        """Return a new object with random weights."""
        sizes = self._environment.action_size, self._environment.observation_size
        made = self._class(self.config.gamma, self.config.hidden, *sizes)
        made.samples_in_test = self.config.samples_in_test
        return made

    def _adam(self, made: Any) -> torch.optim.Optimizer:
        return torch.optim.Adam(made.parameters(), lr=self.config.lr)
