"""Evolution: agents whose weights are drawn, judged as a whole and moved, with no gradient and no network.

An action is a candidate: all weights of a policy. The environment plays whole episodes with it, in compiled code, and
its reward says how good they were (``hdrl/JobIndex-v0``). Each environment of a batch judges one candidate of a
generation, so that the number of environments is the size of the population.

All that a strategy does follows from its start, its seed and the losses that it was given, so that these are all
that is saved: after an interruption it is given the same losses again.
"""

from __future__ import annotations

import abc
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, cast

import gymnasium as gym
import numpy as np
import numpy.typing as npt
import torch
from pydantic import Field
from torch import Tensor

from hdrl.base.errors import LearningError
from hdrl.learn.agent import Acted, Agent, fitting
from hdrl.learn.config import Config
from hdrl.learn.memory import Memory, Outcome

Floats = npt.NDArray[np.float64]


class Generation(Memory):
    """Memory of the losses of the candidates of one generation."""

    def __init__(self) -> None:
        self._losses: Floats | None = None

    def record_choice(
        self, observations: Tensor, mask: Tensor | None, actions: Tensor, stored: Mapping[str, Tensor]
    ) -> None:
        """Record nothing: the agent has its candidates."""

    def record_outcome(self, outcome: Outcome) -> None:
        """Add the rewards, unless environments only began their episodes.

        Raise LearningError if episodes do not end with the first action.
        """
        if not bool(outcome.valid.all()):
            return
        if not bool(outcome.terminated.all()):
            raise LearningError("an episode goes on after its first action; expected environments that judge weights")
        rewards = outcome.rewards.double() if outcome.exact_rewards is None else outcome.exact_rewards
        self._losses = -rewards.numpy()

    def batch(self, observations: Tensor, mask: Tensor | None) -> Floats | None:
        """Return the losses of a generation, once."""
        del observations, mask
        losses, self._losses = self._losses, None
        return losses


class Strategy(abc.ABC):
    """Distribution of candidates around a mean, and the update of the mean."""

    mean: Floats
    """Shape ``(n_weights,)``."""

    @abc.abstractmethod
    def ask(self) -> Floats:
        """Draw the candidates of a generation, shape ``(n_candidates, n_weights)``."""

    @abc.abstractmethod
    def tell(self, candidates: Floats, losses: Floats) -> None:
        """Move the mean by the losses of the candidates that `ask` returned; lower is better."""


class EvolutionConfig(Config):
    """The settings of agents that evolve."""

    sigma: Annotated[float, Field(gt=0, le=100)] = Field(
        default=0.25, description="Standard deviation of the first candidates; usual 0.05 to 0.5."
    )
    averaging: Annotated[float, Field(ge=0, lt=1)] = Field(
        default=0.8,
        description="Share of the earlier average that a generation keeps: the weights of the agent are a moving"
        " average of the means; 0: the last mean.",
    )


class EvolutionAgent(Agent):
    """Acts with its weights; while it learns, with candidates around them.

    Raise LearningError if actions are no Box.
    """

    Config = EvolutionConfig
    computes_on = "cpu"
    config: EvolutionConfig
    takes_box: ClassVar[bool] = True
    shares_rows: ClassVar[bool] = True
    _strategy: Strategy

    def __init__(
        self,
        observation_space: gym.Space[Any],
        action_space: gym.Space[Any],
        config: EvolutionConfig | None = None,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__(observation_space, action_space, config, generator)
        self.seed = int(torch.randint(2**31 - 1, (), generator=self.generator))
        self.weights = np.zeros(self.n_actions)
        self._start = self.weights.copy()
        self._losses: list[Floats] = []
        self._candidates: Floats | None = None

    @abc.abstractmethod
    def strategy(self, start: Floats, seed: int, population: int) -> Strategy:
        """Return a new strategy with ``population`` candidates in a generation; raise LearningError for too few."""

    def memory(self, n_envs: int) -> Memory:
        """Return the memory of the losses of a generation: one candidate for each environment.

        Raise LearningError for fewer than four environments, or an odd number.
        """
        if n_envs < 4 or n_envs % 2:
            raise LearningError(
                f"{n_envs} environments are the candidates of a generation, expected an even number, at least 4"
                " (learning.n_envs)"
            )
        self._begin(self._start, n_envs)
        return Generation()

    def candidates(self) -> Floats:
        """Return the candidates of the generation that is to be judged next."""
        if self._candidates is None:
            self._candidates = self._strategy.ask()
        return self._candidates

    def act(self, observations: Tensor, mask: Tensor | None, *, explore: bool) -> Acted:
        """Return the weights, or one candidate for each environment."""
        del mask
        weights = self.candidates() if explore else np.tile(self.weights, (len(observations), 1))
        return Acted(torch.from_numpy(weights), {})

    def learn(self, batch: Floats) -> dict[str, float]:
        """Move the mean, and the weights after it; raise LearningError if a loss is not finite."""
        if not np.isfinite(batch).all():
            raise LearningError(
                f"the score of a candidate is {batch[~np.isfinite(batch)][0]}, expected a finite number"
            )
        self._advance(batch)
        self.n_updates += 1
        return {"loss": float(batch.mean()), "best": float(batch.min())}

    def state_dict(self) -> dict[str, Any]:
        """Return the weights, and what they evolved by."""
        n_done = len(self._losses)
        return {
            **super().state_dict(),
            "seed": self.seed,
            "start": self._start.copy(),
            "losses": np.array(self._losses, dtype=np.float64).reshape(n_done, -1) if n_done else np.zeros((0, 0)),
            "weights": self.weights.copy(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Evolve again as the agent of the state did; averaged weights have evolved by nothing."""
        super().load_state_dict(state)
        with fitting(type(self).__name__):
            names = ("weights", "start", "losses")
            weights, start, losses = (np.asarray(state[name], dtype=np.float64) for name in names)
            self.seed = int(state["seed"])
        self._check(weights)
        self._check(start)
        if losses.ndim != 2:
            raise LearningError(f"the saved losses have shape {losses.shape}, expected a row for each generation")
        self._start = start
        if len(losses):
            self._begin(start, losses.shape[1])
        for row in losses:
            self._advance(row)
        # Another version of hdrl may round otherwise; the weights that were judged are those that were saved.
        self.weights = weights.copy()

    def load_weights(self, state: Mapping[str, Any]) -> None:
        """Begin to evolve from the weights of another agent."""
        weights = np.asarray(state.get("weights", ()), dtype=np.float64)
        self._check(weights)
        self._start, self.weights = weights.copy(), weights.copy()
        self._losses, self._candidates = [], None

    def _begin(self, start: Floats, population: int) -> None:
        self._start = start
        self._losses = []
        self._candidates = None
        self._strategy = self.strategy(start.copy(), self.seed, population)
        self.weights = start.copy()

    def _advance(self, losses: Floats) -> None:
        self._strategy.tell(self.candidates(), losses)
        self._candidates = None
        self._losses.append(losses.copy())
        kept = self.config.averaging if len(self._losses) > 1 else 0.0
        self.weights = kept * self.weights + (1 - kept) * self._strategy.mean

    def _check(self, weights: Floats) -> None:
        if weights.shape != (self.n_actions,) or not np.isfinite(weights).all():
            raise LearningError(
                f"the saved weights do not fit {type(self).__name__}: shape {weights.shape}, expected"
                f" {self.n_actions} finite numbers"
            )


def untrained_state(state: Mapping[str, Any]) -> dict[str, Any]:
    """Return the state of an agent with the weights from which another one (``state``) began to evolve.

    Raise LearningError if it has no such weights.
    """
    start = state.get("start")
    if not isinstance(start, np.ndarray):
        raise LearningError("has no evolved weights, expected a model that evolved (such as of cma_es)")
    return {**state, "weights": start.copy(), "losses": np.zeros((0, 0)), "n_updates": 0}


def averaged_state(states: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the state of an agent with the mean weights of agents with the same spaces and settings.

    It can play and be trained further. Raise LearningError for no states, or weights that are missing or of another
    number.
    """
    if not states:
        raise LearningError("no models to average, expected at least one")
    for number, state in enumerate(states, 1):
        if not isinstance(state.get("weights"), np.ndarray):
            raise LearningError(f"model {number} has no evolved weights; only those of agents that evolve are averaged")
    weights = [cast("Floats", state["weights"]) for state in states]
    if len({one.shape for one in weights}) > 1:
        raise LearningError(f"the models have {', '.join(str(len(one)) for one in weights)} weights, expected as many")
    mean = np.mean(weights, axis=0)
    return {**states[0], "start": mean, "weights": mean.copy(), "losses": np.zeros((0, 0)), "n_updates": 0}
