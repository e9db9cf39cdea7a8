"""Evolution: agents whose weights are drawn, judged as a whole and moved, with no gradient and no single step.

::

    candidates  ->  envs.evaluate_weights(candidates, seed)  ->  Judged(losses, n_steps)  ->  agent.learn

It works with any vector environment that offers compiled evaluation (`Evaluates`): a generation's episodes in one
call, on all cores, without Python per decision. Other environments are refused in one line.

Whatever a strategy does follows from its start, its seed and the losses that it was told, so that these are all
that is saved: going on after an interruption tells it the same losses again.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Protocol, cast, runtime_checkable

import gymnasium as gym
import numpy as np
import numpy.typing as npt
import torch
from pydantic import Field
from torch import Tensor

from hdrl.errors import LearningError
from hdrl.learn.agent import Acted, Agent
from hdrl.learn.config import Config
from hdrl.learn.memory import Memory, Outcome
from hdrl.seeding import stream

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Judged:
    """How good the candidates of a generation are.

    Attributes
    ----------
    losses
        Shape ``(n_candidates,)``, lower is better.
    n_steps
        Decisions made in all their episodes together.
    """

    losses: Floats
    n_steps: int


@runtime_checkable
class Evaluates(Protocol):
    """What a vector environment offers to agents that evolve."""

    def evaluate_weights(self, candidates: Floats, seed: int) -> Judged:
        """Play whole episodes with each candidate, the same ones for all, and return the losses.

        Parameters
        ----------
        candidates
            Shape ``(n_candidates, n_weights)``: of each, what a row's features are multiplied with; the legal row
            with the lowest sum is picked, the first of equal ones.
        seed
            What the episodes are drawn by.
        """


class Generation(Memory):
    """Remembers no steps: its batch is a generation, judged by the environments.

    Parameters
    ----------
    candidates
        What returns the candidates of the next generation.
    """

    def __init__(self, candidates: Callable[[], Floats]) -> None:
        self._candidates = candidates

    def judged(self, envs: gym.vector.VectorEnv[Any, Any, Any], seed: int, generation: int) -> Judged:
        """Let environments judge the next generation.

        Parameters
        ----------
        envs
            The environments.
        seed, generation
            What the episodes are drawn by; each generation has others.

        Raises
        ------
        LearningError
            If they offer no compiled evaluation, or a loss is not finite.
        """
        world = envs.unwrapped
        if not isinstance(world, Evaluates):
            raise LearningError(
                f"{type(world).__name__} offers no compiled evaluation (evaluate_weights), which agents that evolve"
                " learn from"
            )
        candidates = self._candidates()
        drawn = int(stream(seed, f"generation {generation}").integers(2**31 - 1))
        judged = world.evaluate_weights(candidates, drawn)
        losses = np.asarray(judged.losses, dtype=np.float64)
        if losses.shape != (len(candidates),) or not np.isfinite(losses).all():
            raise LearningError(
                f"{type(world).__name__}.evaluate_weights returned {losses!r:.60} as losses, expected"
                f" {len(candidates)} finite numbers"
            )
        return Judged(losses, int(judged.n_steps))

    def record_choice(
        self, observations: Tensor, mask: Tensor | None, actions: Tensor, stored: Mapping[str, Tensor]
    ) -> None:
        """Remember nothing."""

    def record_outcome(self, outcome: Outcome) -> None:
        """Remember nothing."""

    def batch(self, observations: Tensor, mask: Tensor | None) -> None:
        """Return no batch: no single steps are learned from."""


class Strategy(abc.ABC):
    """How candidates are drawn around a mean, and how the mean moves."""

    mean: Floats
    """Shape ``(n_weights,)``."""

    @abc.abstractmethod
    def ask(self) -> Floats:
        """Draw the candidates of a generation, shape ``(n_candidates, n_weights)``."""

    @abc.abstractmethod
    def tell(self, candidates: Floats, losses: Floats) -> None:
        """Move the mean.

        Parameters
        ----------
        candidates
            What `ask` returned.
        losses
            Of each, lower is better.
        """


class EvolutionConfig(Config):
    """The settings of agents that evolve."""

    sigma: Annotated[float, Field(gt=0, le=100)] = Field(
        default=0.25, description="Standard deviation of the first candidates; usual 0.05 to 0.5."
    )
    population: Annotated[int, Field(ge=4, le=100_000, multiple_of=2)] = Field(
        default=14, description="Candidates in a generation, an even number; usual 8 to 256."
    )
    averaging: Annotated[float, Field(ge=0, lt=1)] = Field(
        default=0.8,
        description="Share of the earlier average that a generation keeps: the weights of the agent are a moving"
        " average of the means; 0: the last mean.",
    )


class EvolutionAgent(Agent):
    """Picks the legal row with the lowest weighted sum of its features; the weights evolve.

    Rows stand for the first actions; further actions are taken only where no row is legal.

    Raises
    ------
    LearningError
        If observations are no table, or have more rows than there are actions.
    """

    Config = EvolutionConfig
    config: EvolutionConfig
    _strategy: Strategy

    def __init__(
        self,
        observation_space: gym.Space[Any],
        action_space: gym.Space[Any],
        config: EvolutionConfig | None = None,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__(observation_space, action_space, config, generator)
        if len(self.observation_shape) != 2 or self.observation_shape[0] > self.n_actions:
            raise LearningError(
                f"observations have shape {self.observation_shape}, expected (rows, features) with at most"
                f" {self.n_actions} rows, one for each action"
            )
        self.seed = int(torch.randint(2**31 - 1, (), generator=self.generator))
        self._told: list[Floats] = []
        self._asked: Floats | None = None
        self._begin(np.zeros(self.observation_shape[1]))

    @abc.abstractmethod
    def strategy(self, start: Floats, seed: int) -> Strategy:
        """Return a new strategy.

        Parameters
        ----------
        start
            Its first mean.
        seed
            What it draws by.

        Raises
        ------
        MissingExtra
            If a library that it needs is not installed.
        """

    def memory(self, n_envs: int) -> Memory:
        """Return what lets the environments judge candidates."""
        del n_envs
        return Generation(self.candidates)

    def candidates(self) -> Floats:
        """Return the candidates of the generation that is to be judged next."""
        if self._asked is None:
            self._asked = self._strategy.ask()
        return self._asked

    def act(self, observations: Tensor, mask: Tensor | None, *, explore: bool) -> Acted:
        """Pick the row with the lowest sum."""
        del explore
        n_rows = self.observation_shape[0]
        sums = torch.full((len(observations), self.n_actions), torch.finfo(torch.float64).max, dtype=torch.float64)
        sums[:, :n_rows] = observations.double() @ torch.from_numpy(self.weights)
        if mask is not None:
            sums[~mask] = torch.inf
        return Acted(sums.argmin(-1), {})

    def learn(self, batch: Judged) -> dict[str, float]:
        """Move the mean, and the weights after it."""
        self._tell(batch.losses)
        self.n_updates += 1
        return {"loss": float(batch.losses.mean()), "best": float(batch.losses.min())}

    def state_dict(self) -> dict[str, Any]:
        """Return the weights, and what they evolved by."""
        return {
            **super().state_dict(),
            "seed": self.seed,
            "start": self._start.copy(),
            "losses": np.array(self._told, dtype=np.float64).reshape(-1, self.config.population),
            "weights": self.weights.copy(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Evolve again as the agent of the state did; averaged weights have evolved by nothing."""
        super().load_state_dict(state)
        try:
            weights, start, losses = (np.asarray(state[name], dtype=np.float64) for name in _ARRAYS)
            self.seed = int(state["seed"])
        except KeyError as error:
            raise LearningError(f"the saved state of {type(self).__name__} has no {error.args[0]!r}") from None
        except (TypeError, ValueError) as error:
            raise LearningError(f"the saved state does not fit {type(self).__name__}: {error}") from None
        self._check(weights)
        self._check(start)
        if losses.ndim != 2 or (len(losses) and losses.shape[1] != self.config.population):
            raise LearningError(f"the saved losses have shape {losses.shape}, expected {self.config.population} a row")
        self._begin(start)
        for row in losses:
            self._tell(row)
        # Other versions of the libraries may round otherwise; the weights that were judged are those that were saved.
        self.weights = weights.copy()

    def load_weights(self, state: Mapping[str, Any]) -> None:
        """Begin to evolve from the weights of another agent."""
        weights = np.asarray(state.get("weights", ()), dtype=np.float64)
        self._check(weights)
        self._begin(weights.copy())

    def _begin(self, start: Floats) -> None:
        self._start = start
        self._told = []
        self._asked = None
        self._strategy = self.strategy(start.copy(), self.seed)
        self.weights = start.copy()

    def _tell(self, losses: Floats) -> None:
        self._strategy.tell(self.candidates(), losses)
        self._asked = None
        self._told.append(losses.copy())
        kept = self.config.averaging if len(self._told) > 1 else 0.0
        self.weights = kept * self.weights + (1 - kept) * self._strategy.mean

    def _check(self, weights: Floats) -> None:
        if weights.shape != (self.observation_shape[1],) or not np.isfinite(weights).all():
            raise LearningError(
                f"the saved weights do not fit {type(self).__name__}: shape {weights.shape}, expected"
                f" {self.observation_shape[1]} finite numbers"
            )


_ARRAYS = ("weights", "start", "losses")


def averaged_state(states: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the state of an agent with the mean of several agents' weights, which can be used and started from.

    Parameters
    ----------
    states
        What `EvolutionAgent.state_dict` of agents with the same spaces and settings returned.

    Raises
    ------
    LearningError
        If there are none, or one has no such weights, or another number of them.
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
