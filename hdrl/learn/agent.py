"""The interface of an agent for the training loop: it acts, it learns from a batch, and its state can be saved.

::

    agent.act(observations, mask, explore=True)  ->  Acted(actions, stored)
    agent.learn(batch)                           ->  {"policy_loss": 0.1, ...}
    agent.state_dict(), agent.load_state_dict(state)

Which batches an agent learns from is said by its `Agent.memory`: rollouts (`hdrl.learn.rollout.Rollout`), whole
episodes (`hdrl.learn.rollout.Episodes`) or a replay buffer (`hdrl.learn.replay.Replay`). An agent does no input or
output, refers to no environment, and draws all its random numbers from the generator that it was given.
"""

from __future__ import annotations

import abc
import contextlib
import functools
from collections.abc import Generator, Iterator, Mapping
from typing import Any, ClassVar, Literal, NamedTuple, Protocol, cast

import gymnasium as gym
import torch
from torch import Tensor, nn

from hdrl.base.errors import LearningError
from hdrl.base.plainnet import PlainActor
from hdrl.learn.config import Config as BaseConfig
from hdrl.learn.device import CPU
from hdrl.learn.memory import Memory, Outcome
from hdrl.learn.spaces import n_actions_of, n_numbers_of, observation_shape_of


class Acted(NamedTuple):
    """Choice of an agent.

    Attributes
    ----------
    actions
        Shape ``(n,)``, int64; of a Box, shape ``(n, n_actions)``, floating point.
    stored
        Values that the algorithm needs in its batch again, by name; the first axis of each is ``n``.
    """

    actions: Tensor
    stored: dict[str, Tensor]


class Descent(NamedTuple):
    """A gradient is there: a step of an optimiser may follow."""

    optimizer: torch.optim.Optimizer  # the optimiser whose parameters hold the gradient
    max_norm: float | None  # largest norm of the gradient, to which longer ones are scaled down; ``None``: any


class Listener(Protocol):
    """The callbacks of an agent's ``listener``."""

    def chose(self, agent: Agent, observations: Tensor, mask: Tensor | None, actions: Tensor) -> None:
        """Handle the ``actions`` (int64) that the agent chose for ``observations`` and ``mask``, as in `Agent.act`."""

    def happened(self, outcome: Outcome) -> None:
        """Handle the outcome of the last actions; rows that are not valid were no decisions."""

    def learned(self, losses: Mapping[str, float]) -> None:
        """Handle the losses of a batch, by name."""


class Agent(abc.ABC):
    """The base of agents; a custom agent derives from it and fills in `act`, `learn` and `memory`.

    Networks and optimisers that are put into ``modules`` and ``optimizers`` are saved and loaded by the base class.
    Optimisers that `make_optimizers` returns are made on first use: to play a model needs none, and with
    the first one torch loads its compiler, which takes a second.

    Parameters
    ----------
    observation_space
        A `gymnasium.spaces.Box`: the space of one environment, not of a batch.
    action_space
        A `gymnasium.spaces.Discrete` that begins with 0; a Box where ``takes_box``.
    config
        Settings, an instance of the class's ``Config``; ``None`` means its defaults.
    generator
        The source of all random numbers; ``None`` means one seeded with 0.

    Attributes
    ----------
    n_actions
        Number of actions; of a Box, how many numbers an action is.
    observation_shape
        Shape of one observation.
    config, generator
        As given.
    device
        Device of the networks. The arguments of `act`, `learn` and `probabilities` lie there, and so may their results;
        the generator stays on the CPU.
    n_updates
        Number of calls of `learn`.
    listener
        Is called at its decisions and after it has learned; ``None``: there is none.

    Raises
    ------
    LearningError
        If a space is of another kind.
    """

    Config: ClassVar[type[BaseConfig]] = BaseConfig
    listener: Listener | None = None
    device: torch.device = CPU
    takes_box: ClassVar[bool] = False
    """True if its actions are the numbers of a Box, instead of one of several."""
    n_gradients: ClassVar[Literal["none", "one", "many"]] = "none"
    """Number of gradients that `gradients` yields for a batch, which decides how several workers can share the
    learning."""
    shares_rows: ClassVar[bool] = False
    """True if several workers share its environments and nothing else, since it has no gradients."""
    computes_on: ClassVar[Literal["cpu", "any"]] = "any"
    """On which devices it can learn."""
    is_portable: ClassVar[bool] = False
    """True if its computations beside its networks have the same bits on every processor: it uses
    `hdrl.learn.portable`. A subclass must set it again, or it does not hold."""

    def __init__(
        self,
        observation_space: gym.Space[Any],
        action_space: gym.Space[Any],
        config: BaseConfig | None = None,
        generator: torch.Generator | None = None,
    ) -> None:
        self.observation_space = observation_space
        self.action_space = action_space
        self.observation_shape = observation_shape_of(observation_space)
        self.n_actions = n_numbers_of(action_space) if self.takes_box else n_actions_of(action_space)
        self.config = self.Config() if config is None else config
        self.generator = torch.Generator().manual_seed(0) if generator is None else generator
        self.modules: dict[str, nn.Module] = {}
        self.n_updates = 0

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.observation_space} to {self.action_space}>"

    @functools.cached_property
    def optimizers(self) -> dict[str, torch.optim.Optimizer]:
        """The optimisers by name."""
        return self.make_optimizers()

    def make_optimizers(self) -> dict[str, torch.optim.Optimizer]:
        """Return new optimisers of the networks by name; none here."""
        return {}

    @abc.abstractmethod
    def act(self, observations: Tensor, mask: Tensor | None, *, explore: bool) -> Acted:
        """Choose an action in each of ``n`` environments.

        Parameters
        ----------
        observations
            Shape ``(n, *observation_shape)``, float32.
        mask
            Mask of the legal actions, shape ``(n, n_actions)``, bool, at least one in each row; ``None``: all of them.
        explore
            True to choose as in training; else the best action.
        """

    def plain_actor(self) -> PlainActor | None:
        """Return the function of the best action in plain numbers; ``None`` if only `act` has it.

        Environments that know such actors play them in compiled code.
        """
        return None

    @abc.abstractmethod
    def learn(self, batch: Any) -> dict[str, float]:
        """Learn from a batch of the agent's `memory` and return what is worth logging, by name.

        ``batch``: what the agent's memory makes: `hdrl.learn.rollout.Steps` or `hdrl.learn.replay.Transitions`.
        """

    def imitate(self, batch: Any) -> dict[str, float]:
        """Learn to choose as another policy did, and return what is worth logging, by name.

        The actions in the batch are the other policy's. Raise LearningError if the agent cannot imitate.
        """
        del batch
        raise LearningError(f"{type(self).__name__} cannot imitate, expected PPO")

    def gradients(self, batch: Any) -> Generator[Descent, None, dict[str, float]]:
        """Learn from a batch, but leave the steps of the optimiser to the caller, which takes the next gradient then.

        It is a generator. It yields whenever the parameters hold a gradient, goes on when they have been changed, and
        ends with what `learn` returns. `learn` makes each step itself; workers that learn together make one with what
        all of them have found. Raise LearningError if the agent cannot learn together with others.
        """
        del batch
        raise LearningError(f"{type(self).__name__} cannot learn together with others, expected DQN, A2C or PPO")

    @abc.abstractmethod
    def memory(self, n_envs: int) -> Memory:
        """Return a new memory of the kind that this agent learns from, for ``n_envs`` environments in step."""

    def probabilities(self, observations: Tensor, mask: Tensor | None) -> Tensor:
        """Return the probability of each action while training, shape ``(n, n_actions)``; each row sums to 1.

        Raise LearningError if the agent cannot compute them.
        """
        del observations, mask
        raise LearningError(f"{type(self).__name__} gives no action probabilities")

    @contextlib.contextmanager
    def session(self, seed: int | None = None) -> Iterator[None]:
        """Surround an iteration of training, or episodes of evaluation with their ``seed``.

        Nothing happens here. It is for agents that need more than their own generator, such as HDeepRM's agents.
        """
        del seed
        yield

    def latest_probabilities(self, observations: Tensor, mask: Tensor | None) -> Tensor:
        """Return the probability of each action in the choice just made, shape ``(n, n_actions)``.

        Raise LearningError if the agent does not choose by probabilities.
        """
        return self.probabilities(observations, mask)

    def saw(self, outcome: Outcome, observations: Tensor, mask: Tensor | None) -> None:
        """Take in the outcome of the last actions and what is seen now, in training and in play.

        Most agents learn it from their batch.
        """
        del outcome, observations, mask

    def to(self, device: torch.device) -> None:
        """Let the networks compute elsewhere from now on.

        Raise LearningError if the agent computes on the CPU alone.
        """
        if device == self.device:
            return
        if self.computes_on == "cpu":
            raise LearningError(f"{type(self).__name__} computes on the CPU alone, expected device cpu, not {device}")
        self.device = device
        for module in self.modules.values():
            module.to(device)
        for optimizer in self.optimizers.values():
            optimizer.load_state_dict(optimizer.state_dict())  # which puts its state where the weights are

    def state_dict(self) -> dict[str, Any]:
        """Return the whole state of the agent: weights, optimisers, counters, generator.

        It holds tensors, numbers, texts, lists and dictionaries alone.
        """
        return {
            "modules": {name: module.state_dict() for name, module in self.modules.items()},
            "optimizers": {name: optimizer.state_dict() for name, optimizer in self.optimizers.items()},
            "generator": self.generator.get_state(),
            "n_updates": self.n_updates,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over what `state_dict` of an agent with the same spaces and settings returned.

        Raise LearningError if it does not fit.
        """
        with fitting(type(self).__name__):
            self._load_modules(state)
            for name, optimizer in self.optimizers.items():
                optimizer.load_state_dict(state["optimizers"][name])
            self.generator.set_state(cast("Tensor", state["generator"]))
            self.n_updates = int(state["n_updates"])

    def load_weights(self, state: Mapping[str, Any]) -> None:
        """Take over the weights alone: a start for new training, with fresh optimisers and random numbers.

        Raise LearningError if they do not fit.
        """
        try:
            self._load_modules(state)
        except (KeyError, RuntimeError, TypeError) as error:
            raise LearningError(f"the saved weights do not fit {type(self).__name__}: {one_line(error)}") from None

    def _load_modules(self, state: Mapping[str, Any]) -> None:
        for name, module in self.modules.items():
            module.load_state_dict(state["modules"][name])


def notify_listener(agent: Agent, outcome: Outcome, observations: Tensor, mask: Tensor | None) -> None:
    """Pass the outcome of the last choice to an agent and its listener, with the arguments of `Agent.saw`."""
    agent.saw(outcome, observations, mask)
    if agent.listener is not None:
        agent.listener.happened(outcome)


@contextlib.contextmanager
def silence_listener(agent: Agent) -> Iterator[None]:
    """Detach the listener of an agent for a while."""
    listener, agent.listener = agent.listener, None
    try:
        yield
    finally:
        agent.listener = listener


@contextlib.contextmanager
def fitting(what: str) -> Iterator[None]:
    """Raise `LearningError` where what takes over a saved state lacks a part of it, or one does not fit."""
    try:
        yield
    except KeyError as error:
        raise LearningError(f"the saved state of {what} has no {error.args[0]!r}") from None
    except (RuntimeError, ValueError, TypeError) as error:
        raise LearningError(f"the saved state does not fit {what}: {one_line(error)}") from None


def one_line(error: BaseException) -> str:
    """Return the message of an error of torch, which may span several lines, in one of readable length."""
    text = " ".join(str(error).split())
    return text if len(text) <= 200 else f"{text[:197]}..."
