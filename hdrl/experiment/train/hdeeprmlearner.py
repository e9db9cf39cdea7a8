"""Training of agents with HDeepRM's API: one simulation, then one step of Adam.

As in HDeepRM, every simulation has a new object of the agent's class, into which the weights are loaded.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from hdrl.errors import HdrlError
from hdrl.experiment.run.agentfile import Agent, AgentError, blame
from hdrl.experiment.train.learner import EpisodeEnv, EpisodeRow, Iteration, episode_row
from hdrl.experiment.train.lentrandom import LentRandomness
from hdrl.setting import Trace

if TYPE_CHECKING:
    from pathlib import Path


class HDeepRMEnvironment:
    """What an agent of HDeepRM sees of an environment.

    Parameters
    ----------
    env
        A single environment of `hdrl.envs`.

    Attributes
    ----------
    env
        It, for what HDeepRM did not offer.
    action_space, observation_space
        Its spaces.
    """

    def __init__(self, env: EpisodeEnv) -> None:
        self.env = env
        self.action_space = env.action_space
        self.observation_space = env.observation_space
        self.has_ended = True
        self.n_steps = 0
        self.episode: Mapping[str, float] = {}
        self._observation = np.zeros(0, dtype=np.float32)
        self._mask = np.zeros(0, dtype=np.int8)
        self._reward = 0.0

    @property
    def action_size(self) -> int:
        """How many actions there are."""
        return int(self.action_space.n)

    @property
    def observation_size(self) -> int:
        """How many values an observation has."""
        return int(self.observation_space.shape[0])

    @property
    def action_mask(self) -> np.ndarray[Any, Any]:
        """Which actions are legal now, shape ``(action_size,)``; an illegal one stands for the first legal one."""
        return np.not_equal(self._mask, 0)

    def begin(self, seed: int, episode: int) -> None:
        """Begin an episode; all that is random in it depends on these two numbers.

        Parameters
        ----------
        seed
            Seed.
        episode
            Number of the episode.
        """
        self._observation, info = self.env.reset(seed=seed, options={"episode": episode})
        self._mask = info["action_mask"]
        self.has_ended = False
        self.n_steps = 0
        self._reward = 0.0

    def observation(self) -> np.ndarray[Any, np.dtype[np.float32]]:
        """Return what is seen now, float32, shape ``(observation_size,)``."""
        return self._observation.copy()

    def step(self, action: object) -> None:
        """Carry out an action.

        Parameters
        ----------
        action
            Its number, a whole number of Python or NumPy.

        Raises
        ------
        AgentError
            If there is no such action.
        """
        number = int(action) if isinstance(action, (int, np.integer)) and not isinstance(action, bool) else -1
        if not 0 <= number < self.action_size:
            raise AgentError(f"decided for action {action!r}, expected a whole number from 0 to {self.action_size - 1}")
        chosen = number if self._mask[number] else int(np.argmax(self._mask))
        self._observation, self._reward, terminated, truncated, info = self.env.step(chosen)
        self._mask = info["action_mask"]
        self.has_ended = bool(terminated or truncated)
        self.n_steps += 1
        if self.has_ended:
            self.episode = info["episode"]

    def reward(self) -> float:
        """Return the reward of the last action."""
        return float(self._reward)


@dataclass(frozen=True, slots=True)
class HDeepRMSettings:
    """What the options say to an agent of HDeepRM.

    Attributes
    ----------
    gamma
        Discount of later rewards.
    hidden
        Units of each hidden layer.
    lr
        Learning rate of Adam.
    samples_in_test
        Whether it draws its actions in test mode, too.
    """

    gamma: float = 0.99
    hidden: int = 64
    lr: float = 0.001
    samples_in_test: bool = False

    def as_json(self) -> dict[str, Any]:
        """Return them by name."""
        return {"gamma": self.gamma, "hidden": self.hidden, "lr": self.lr, "samples_in_test": self.samples_in_test}


class HDeepRMLearner:
    """An agent of HDeepRM's API and the environment that it learns in.

    Parameters
    ----------
    agent
        The agent file, of the kind ``HDEEPRM``.
    settings
        What the options say to it.
    env
        The environment to learn in; for an agent that only plays, any with the right spaces.
    validation_env
        The environment to validate in, if any.
    seed
        Seed of the experiment.

    Raises
    ------
    AgentError
        If the agent cannot be made.
    """

    def __init__(
        self,
        agent: Agent,
        settings: HDeepRMSettings,
        env: EpisodeEnv,
        *,
        validation_env: EpisodeEnv | None = None,
        seed: int = 0,
    ) -> None:
        if agent.learner is None or agent.path is None:
            raise TypeError("an agent of HDeepRM is a class of a file")
        self._class, self._path = agent.learner, agent.path
        self._agent = agent
        self.settings = settings
        self.environment = HDeepRMEnvironment(env)
        self._validation = HDeepRMEnvironment(validation_env) if validation_env is not None else None
        self._seed = seed
        self._random = LentRandomness(seed, "agent")
        self.n_episodes = 0
        with self._random.lent(), _blamed(self._path):
            made = self._make()
            self._weights: dict[str, Any] = made.state_dict()
            self._optimizer: dict[str, Any] = self._adam(made).state_dict()

    def iterate(self) -> Iteration:
        """Simulate once, then learn once.

        Raises
        ------
        AgentError
            If the agent fails, or its loss is not finite.
        """
        import torch

        with self._random.lent(), _blamed(self._path):
            agent = self._fresh().train()
            _simulate(agent, self.environment, self._seed, self.n_episodes)
            values = {}
            if agent.rewards:
                loss = agent.loss()
                if not isinstance(loss, torch.Tensor) or loss.numel() != 1:
                    raise AgentError(f"{self._path}: loss() returned {loss!r:.80}, expected a tensor of one number")
                values["loss"] = float(loss.detach())
                if not math.isfinite(values["loss"]):
                    raise AgentError(f"{self._path}: the loss is {values['loss']}, expected a finite number")
                optimizer = self._adam(agent)
                optimizer.load_state_dict(self._optimizer)
                optimizer.zero_grad()
                if loss.requires_grad:
                    loss.backward()  # type: ignore[no-untyped-call]
                    optimizer.step()
                self._optimizer = optimizer.state_dict()
                self._weights = agent.state_dict()
        self.n_episodes += 1
        row = episode_row(self.environment.episode)
        return Iteration(self.environment.n_steps, [row], values, list(getattr(agent, "probs", None) or []))

    def play(self, env: EpisodeEnv, seed: int) -> Trace:
        """Simulate an episode without learning.

        Parameters
        ----------
        env
            A single environment.
        seed
            Its seed.

        Raises
        ------
        AgentError
            If the agent fails.
        """
        self._test(HDeepRMEnvironment(env), seed, 0)
        trace: Trace = env.trace()
        return trace

    def score(self, seed: int, n_episodes: int) -> list[EpisodeRow]:
        """Return the episodes of a validation.

        Parameters
        ----------
        seed
            Seed of the environment.
        n_episodes
            How many.
        """
        if self._validation is None:
            raise TypeError("there is no environment to validate in")
        rows = []
        for episode in range(n_episodes):
            self._test(self._validation, seed, episode)
            rows.append(episode_row(self._validation.episode))
        return rows

    def description(self) -> tuple[Any, Any, dict[str, Any]]:
        """Return the observation space, the action space, and the settings as JSON."""
        return self.environment.observation_space, self.environment.action_space, self.settings.as_json()

    def model(self) -> dict[str, Any]:
        """Return the weights and the optimiser, under the names that HDeepRM gives them."""
        return {"model_state_dict": dict(self._weights), "optimizer_state_dict": self._optimizer}

    def load_model(self, model: Mapping[str, Any], where: str) -> None:
        """Start from the weights of a model file, and from its optimiser if it has one.

        Parameters
        ----------
        model
            What `model` returned, the content of a model file of HDeepRM, or bare weights, as HDeepRM 0.1.0 saves them.
        where
            Name of the file, for messages.

        Raises
        ------
        AgentError
            If it does not fit the agent.
        """
        try:
            with self._random.lent():
                agent = self._make()
                agent.load_state_dict(model.get("model_state_dict", model))
                optimizer = self._adam(agent)
                if "optimizer_state_dict" in model:
                    optimizer.load_state_dict(model["optimizer_state_dict"])
                    for group in optimizer.param_groups:
                        group["lr"] = self.settings.lr
        except (RuntimeError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise AgentError(f"{where}: does not fit the agent of {self._path}: {_short(error)}") from None
        self._weights, self._optimizer = agent.state_dict(), optimizer.state_dict()

    def state_dict(self) -> dict[str, Any]:
        """Return all that going on needs besides `model`."""
        return {"n_episodes": self.n_episodes, "random": self._random.state_dict()}

    def load_state_dict(self, model: Mapping[str, Any], state: Mapping[str, Any]) -> None:
        """Go on from where `model` and `state_dict` were called.

        Parameters
        ----------
        model, state
            What they returned.
        """
        self._weights, self._optimizer = dict(model["model_state_dict"]), dict(model["optimizer_state_dict"])
        self.n_episodes = int(state["n_episodes"])
        self._random.load_state_dict(state["random"])

    def close(self) -> None:
        """Close the environments."""
        self.environment.env.close()
        if self._validation is not None:
            self._validation.env.close()

    def _make(self) -> Any:
        """Return a new agent with random weights."""
        sizes = self.environment.action_size, self.environment.observation_size
        agent = self._class(self.settings.gamma, self.settings.hidden, *sizes)
        agent.samples_in_test = self.settings.samples_in_test
        return agent

    def _fresh(self) -> Any:
        """Return a new agent with the weights at hand."""
        agent = self._make()
        agent.load_state_dict(self._weights)
        return agent

    def _adam(self, agent: Any) -> Any:
        import torch

        return torch.optim.Adam(agent.parameters(), lr=self.settings.lr)

    def _test(self, environment: HDeepRMEnvironment, seed: int, episode: int) -> None:
        """Simulate an episode; the numbers that it draws do not shift those of the training."""
        import torch

        with LentRandomness(seed, f"test/{episode}").lent(), torch.no_grad(), _blamed(self._path):
            _simulate(self._fresh().eval(), environment, seed, episode)


def _simulate(agent: Any, environment: HDeepRMEnvironment, seed: int, episode: int) -> None:
    """Let an agent decide through an episode."""
    environment.begin(seed, episode)
    while not environment.has_ended:
        n_steps = environment.n_steps
        agent.alter(agent.decide(agent.observe(environment)), environment)
        if environment.n_steps == n_steps:
            raise AgentError(f"{type(agent).__name__}.alter carried out no action, expected environment.step(action)")
        agent.rewarded(environment)


@contextlib.contextmanager
def _blamed(path: Path) -> Iterator[None]:
    """Say in which line of an agent file a mistake is."""
    try:
        yield
    except AgentError as error:
        if str(error).startswith(str(path)):
            raise
        raise AgentError(f"{path}: {error}") from None
    except HdrlError:
        raise
    except NotImplementedError as error:  # a method of the base that an agent has to override
        raise AgentError(f"{path}: {error or 'a method is missing that its base does not define'}") from error
    except Exception as error:
        blamed = blame(error, path)
        if blamed is None:
            raise
        raise blamed from error


def _short(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return text if len(text) <= 160 else f"{text[:157]}..."
