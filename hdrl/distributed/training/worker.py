"""A worker: an agent of its own, environments of its own, and steps that it remembers itself."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Self

import gymnasium as gym
import torch
from torch import Tensor

from hdrl.base.errors import LearningError
from hdrl.base.seeding import stream_seed
from hdrl.distributed.training.server import weights_of
from hdrl.learn.agent import Agent, Descent
from hdrl.learn.config import Config
from hdrl.learn.interaction import Episode
from hdrl.learn.policy import step_clipped
from hdrl.learn.threads import torch_threads
from hdrl.learn.train import Trainer

Weights = Sequence[Mapping[int, Tensor]]
"""The weights of all servers, by position."""

MakeEnvs = Callable[..., gym.vector.VectorEnv[Any, Any, Any]]
"""Makes a number of environments; ``share=(i, n)``: for worker i of n, which has some of the configurations."""


@dataclass(frozen=True, slots=True)
class WorkerPlan:
    """The parts of a worker; it is sent to the worker's process."""

    # the agent, with its share of the batch
    agent_class: type[Agent]
    config: Config
    spaces: tuple[gym.Space[Any], gym.Space[Any]]  # observations and actions
    make_envs: MakeEnvs
    n_envs: int
    seed: int  # seed of the training
    first: Mapping[str, Any]  # the state of the agent at first
    number: int  # number of the worker
    life: int = 0  # number of earlier workers of this number that have died
    n_shares: int = 1  # among how many the configurations of the load are shared; 1: each worker has all of them

    def envs(self) -> gym.vector.VectorEnv[Any, Any, Any]:
        """Make the environments; a backup worker has the configurations of the one that it may stand in for."""
        if self.n_shares == 1:
            return self.make_envs(self.n_envs)
        return self.make_envs(self.n_envs, share=(self.number % self.n_shares, self.n_shares))

    def agent(self) -> Agent:
        """Make the agent: worker 0 continues the random numbers of the first state, the others have their own."""
        made = self.agent_class(*self.spaces, self.config, torch.Generator().manual_seed(self._own_seed("agent")))
        own = made.generator.get_state()
        made.load_state_dict({**self.first, "optimizers": {k: v.state_dict() for k, v in made.optimizers.items()}})
        if self.number or self.life:
            made.generator.set_state(own)
        return made

    def env_seed(self) -> int:
        """Return the seed of the environments: for worker 0 that of the training."""
        return self._own_seed("environments") if self.number or self.life else self.seed

    def _own_seed(self, name: str) -> int:
        return stream_seed(self.seed, f"{name} of worker {self.number}.{self.life}")


@dataclass(frozen=True, slots=True)
class Report:
    """The report of a worker, besides its gradient."""

    n_steps: int = 0  # environment steps since the last report
    episodes: tuple[Episode, ...] = ()  # episodes that have ended since
    losses: Mapping[str, float] | None = None  # logged values of learning, if a batch is done with
    max_norm: float | None = None  # largest norm of the gradient
    is_done: bool = False  # True if the batch is done with: then there is no gradient

    def as_plain(self) -> dict[str, Any]:
        """Return the report as a checkpoint can hold it."""
        named = {one.name: getattr(self, one.name) for one in fields(self)}
        return {**named, "episodes": list(self.episodes), "losses": None if self.losses is None else dict(self.losses)}

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Self:
        """Make the report that `as_plain` described."""
        return cls(**{**plain, "episodes": tuple(plain["episodes"])})


class Worker:
    """Gathers steps and computes gradients."""

    def __init__(self, plan: WorkerPlan) -> None:
        with torch_threads(1):
            self._trainer = Trainer(plan.agent(), plan.envs(), seed=plan.env_seed(), n_threads=1)
        self._agent = self._trainer.agent
        self._weights = weights_of(self._agent)
        self._steps: Generator[Descent, None, dict[str, float]] | None = None
        self._batch: Any = None

    # ------------------------------------------------------------------ together with others, gradient by gradient

    def gather(self, weights: Weights) -> tuple[list[Tensor] | None, Report]:
        """Gather a batch and return its first gradient."""
        with torch_threads(1), self._agent.session():
            self._put(weights)
            self._batch, report = self._gather()
            self._steps = self._agent.gradients(self._batch)
            return self._next(report)

    def go_on(self, weights: Weights) -> tuple[list[Tensor] | None, Report]:
        """Apply the outcome of the last gradients, and return the next gradient of the batch, or none."""
        with torch_threads(1), self._agent.session():
            self._put(weights)
            return self._next(Report())

    def _next(self, report: Report) -> tuple[list[Tensor] | None, Report]:
        if self._steps is None:
            raise LearningError("a worker must gather a batch before it continues with it")
        try:
            descent = next(self._steps)
        except StopIteration as end:
            self._steps = None
            self._trainer.memory.after_learning(self._batch)
            return None, Report(report.n_steps, report.episodes, end.value, is_done=True)
        return self._gradient(), Report(report.n_steps, report.episodes, None, descent.max_norm)

    # ------------------------------------------------------------------ by itself, a message now and then

    def contribute(
        self, weights: Weights | None, n_batches: int, *, is_alone: bool, is_clipped: bool
    ) -> tuple[list[Tensor], Report]:
        """Learn from batches and return the sum of their gradients.

        Parameters
        ----------
        is_alone
            True if it makes steps of its own on the way.
        is_clipped
            True if each gradient is scaled down where its norm is too large.
        """
        with torch_threads(1), self._agent.session():
            if weights is not None:
                self._put(weights)
            sums: list[Tensor] = []
            n_steps = 0
            episodes: list[Episode] = []
            losses: dict[str, float] = {}
            max_norm: float | None = None
            for _ in range(n_batches):
                batch, report = self._gather()
                n_steps += report.n_steps
                episodes += report.episodes
                steps = self._agent.gradients(batch)
                descent = next(steps)
                max_norm = descent.max_norm
                if is_clipped and max_norm is not None:
                    torch.nn.utils.clip_grad_norm_(self._weights, max_norm)
                own = self._gradient()
                sums = own if not sums else [a + b for a, b in zip(sums, own, strict=True)]
                if is_alone:
                    step_clipped(descent.optimizer, None)
                losses = _finished(steps)
                self._trainer.memory.after_learning(batch)
            return sums, Report(n_steps, tuple(episodes), losses, max_norm)

    # ------------------------------------------------------------------ both

    def modules(self) -> tuple[dict[str, Any], None]:
        """Return all networks, those that judge included, and how much has been learned."""
        state = self._agent.state_dict()
        return {name: part for name, part in state.items() if name not in ("optimizers", "generator")}, None

    def state_dict(self) -> tuple[dict[str, Any], None]:
        """Return the whole state, from which `load_state_dict` continues."""
        return self._trainer.state_dict(), None

    def load_state_dict(self, state: Mapping[str, Any]) -> tuple[None, None]:
        """Take over what `state_dict` returned."""
        self._trainer.load_state_dict(state)
        return None, None

    def close(self) -> tuple[None, None]:
        """Close the environments."""
        self._trainer.interaction.envs.close()
        return None, None

    def _gather(self) -> tuple[Any, Report]:
        trainer = self._trainer
        trainer.interaction.episodes = []
        before = trainer.n_steps
        trainer.begin()
        batch = trainer.gather()
        return batch, Report(trainer.n_steps - before, tuple(trainer.interaction.episodes))

    def _gradient(self) -> list[Tensor]:
        return [torch.zeros_like(one) if one.grad is None else one.grad.detach().clone() for one in self._weights]

    def _put(self, weights: Weights) -> None:
        put_weights(self._weights, weights)


def put_weights(into: Sequence[Tensor], weights: Weights) -> None:
    """Copy the weights of all servers."""
    with torch.no_grad():
        for part in weights:
            for position, tensor in part.items():
                into[position].copy_(tensor)


def _finished(steps: Generator[Descent, None, dict[str, float]]) -> dict[str, float]:
    try:
        next(steps)
    except StopIteration as end:
        losses: dict[str, float] = end.value
        return losses
    raise LearningError("the agent has another gradient of the same batch, expected one for each batch")
