"""The training loop: step, remember, learn, report."""

from __future__ import annotations

import abc
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from numpy.typing import NDArray

from hdrl.base.errors import LearningError
from hdrl.learn.adversary import EXPERT, Adversary
from hdrl.learn.agent import Acted, Agent, notify_listener
from hdrl.learn.checks import check_agent, checked_choice, checked_losses, checked_memory
from hdrl.learn.interaction import Episode, Interaction
from hdrl.learn.spaces import check_same_spaces
from hdrl.learn.threads import torch_threads


@dataclass(frozen=True, slots=True)
class Iteration:
    """Report of one iteration of training.

    Attributes
    ----------
    number
        Which, from 1 on, counted over interruptions.
    n_steps
        Environment steps so far, those of all environments together; steps that only begin an episode do not count.
    episodes
        The episodes that ended, in the order of time: ``return``, ``length``, ``env`` and what the environment reported
        of each.
    losses
        Logged values of learning, by name: means over the batches of the iteration.
    """

    number: int
    n_steps: int
    episodes: list[Episode]
    losses: dict[str, float]


@dataclass(frozen=True, slots=True)
class Imitation:
    """The policy that an agent imitates: it chooses in the first iterations (cloning), or is compared with."""

    n_iterations: int  # in how many of the first iterations the other chooses; 0: in none
    # returns the other's actions in the environments as they are, shape ``(n_envs,)``, int64
    choose: Callable[[], NDArray[np.int64]]
    # discriminates both in the iterations that follow, and rewards the agent; ``None``: nothing does
    adversary: Adversary | None = None


class TrainingLoop(abc.ABC):
    """The common loop of all trainers: iterate until enough is done, or a callback stops it, and save the state.

    Attributes
    ----------
    agent
        Agent to train.
    n_threads
        Threads of torch while training; ``None``: as many as it has.
    n_iterations, n_steps
        Done so far, also before an interruption.
    """

    agent: Agent
    n_threads: int | None = None
    n_iterations = 0
    n_steps = 0
    _is_stopping = False
    _is_within = False
    """True if an iteration has begun and not ended."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.n_iterations} iterations, {self.n_steps} steps>"

    def run(
        self,
        n_iterations: int | None = None,
        *,
        n_steps: int | None = None,
        on_iteration: Callable[[Iteration], object] | None = None,
    ) -> None:
        """Train until a number of iterations, or of environment steps, is reached; what was done before counts.

        Parameters
        ----------
        n_steps
            Up to how many environment steps; the iteration in which they are reached is completed.
        on_iteration
            Called after each iteration; if it returns ``True``, training ends.

        Raises
        ------
        ValueError
            If neither is given.
        AgentError
            If the agent answers nonsense.
        LearningError
            If a loss is not finite.
        """
        if n_iterations is None and n_steps is None:
            raise ValueError("pass n_iterations or n_steps")
        self._is_stopping = False
        with torch_threads(self.n_threads):
            while not self._is_stopping and not self._is_done(n_iterations, n_steps):
                iteration = self._iterate()
                if on_iteration is not None and on_iteration(iteration) is True:
                    return

    def stop(self) -> None:
        """End `run` after the running iteration; may be called from a signal handler or another thread."""
        self._is_stopping = True

    def _is_done(self, n_iterations: int | None, n_steps: int | None) -> bool:
        if n_iterations is not None and self.n_iterations >= n_iterations:
            return True
        return n_steps is not None and self.n_steps >= n_steps

    def state_dict(self) -> dict[str, Any]:
        """Return the whole state, to continue as if nothing had happened: tensors, arrays, numbers, texts and groups.

        Raise LearningError if an exception broke an iteration off: half an iteration cannot be resumed.
        """
        if self._is_within:
            raise LearningError("an iteration was interrupted; continue from the last saved state")
        counts = {"n_iterations": self.n_iterations, "n_steps": self.n_steps}
        return {"agent": self.agent.state_dict(), **self._own_state(), **counts}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on where `state_dict` was called; raise LearningError if it does not fit."""
        try:
            self.agent.load_state_dict(state["agent"])
            self._load_own_state(state)
            self.n_iterations, self.n_steps = int(state["n_iterations"]), int(state["n_steps"])
        except KeyError as error:
            raise LearningError(f"the saved state has no {error.args[0]!r}") from None
        self._is_within = False

    @abc.abstractmethod
    def _iterate(self) -> Iteration:
        """Carry out one iteration."""

    @abc.abstractmethod
    def _own_state(self) -> dict[str, Any]:
        """Return the part of `state_dict` beside the agent and the counts."""

    @abc.abstractmethod
    def _load_own_state(self, state: Mapping[str, Any]) -> None:
        """Take over these parts of a saved state; a `KeyError` says that it has none."""


class Trainer(TrainingLoop):
    """Trains an agent on a vector environment.

    Parameters
    ----------
    envs
        Any Gymnasium vector environment with the agent's spaces.
    seed
        Seed of the environments, not negative. The agent has its own generator.
    n_threads
        Threads of torch while training; ``None``: as many as it has. Results may differ in the last digits between
        numbers of threads, but not between numbers of helpers (`hdrl.learn.threads.use_helper_threads`).

    Attributes
    ----------
    n_iterations, n_steps
        Done so far, also before an interruption.

    Raises
    ------
    LearningError
        If agent and environments do not fit.
    AgentError
        If the agent's methods are not what they must be.
    """

    def __init__(
        self,
        agent: Agent,
        envs: gym.vector.VectorEnv[Any, Any, Any],
        *,
        seed: int = 0,
        n_threads: int | None = None,
        imitation: Imitation | None = None,
    ) -> None:
        check_agent(agent)
        check_same_spaces(
            (agent.observation_space, agent.action_space),
            (envs.single_observation_space, envs.single_action_space),
            "the agent",
        )
        self.agent = agent
        self.seed = seed
        self.n_threads = n_threads
        self.imitation = imitation
        self.interaction = Interaction(envs)
        self.memory = checked_memory(agent, envs.num_envs)
        self._is_reset = False

    def close(self) -> None:
        """Close the environments."""
        self.interaction.envs.close()

    def state_dict(self) -> dict[str, Any]:
        """Return agent, memory, episodes and counters, and the discriminator if there is one."""
        adversary = self._adversary
        return super().state_dict() | ({} if adversary is None else {"adversary": adversary.state_dict()})

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on where `state_dict` was called.

        With environments that cannot save their state, new episodes begin; everything else continues exactly.
        """
        super().load_state_dict(state)
        episodes = state["interaction"]
        self._is_reset = episodes is not None and self.interaction.load_state_dict(episodes)

    def _own_state(self) -> dict[str, Any]:
        episodes = self.interaction.state_dict() if self._is_reset else None
        return {"memory": self.memory.state_dict(), "interaction": episodes}

    def _load_own_state(self, state: Mapping[str, Any]) -> None:
        self.memory.load_state_dict(state["memory"])
        if self._adversary is not None:
            self._adversary.load_state_dict(state["adversary"])
        _ = state["interaction"]  # missed here: a KeyError of the environments is their own

    def _iterate(self) -> Iteration:
        self._is_within = True
        with self.agent.session():
            losses = self._learn_once()
        self.n_iterations += 1
        self._is_within = False
        return Iteration(self.n_iterations, self.n_steps, self.interaction.episodes, losses)

    def _learn_once(self) -> dict[str, float]:
        self.interaction.episodes = []
        self.begin()
        sums: dict[str, float] = {}
        for _ in range(self.memory.learns_per_iteration):
            batch = self.gather()
            losses = self._paid(batch) | checked_losses(self.agent, batch, imitates=self._imitates)
            for name, value in losses.items():
                sums[name] = sums.get(name, 0.0) + value
            self.memory.after_learning(batch)
        return {name: value / self.memory.learns_per_iteration for name, value in sums.items()}

    def begin(self) -> None:
        """Begin episodes, unless they are under way and may go on."""
        if not self._is_reset or self.memory.resets_first:
            # The first reset gives the seed; the environments continue with it by themselves.
            first = None if self._is_reset else self.seed + self.n_iterations
            self.interaction.reset(first)
            self._is_reset = True

    @property
    def _imitates(self) -> bool:
        return self.imitation is not None and self.n_iterations < self.imitation.n_iterations

    @property
    def _adversary(self) -> Adversary | None:
        return None if self.imitation is None else self.imitation.adversary

    @property
    def _weight(self) -> float:
        """Present reward of the agent for each unit of log-odds that its choices are another's."""
        return 0.0 if self._adversary is None else self._adversary.weight(self.n_iterations)

    def _paid(self, batch: Any) -> dict[str, float]:
        """Let a discriminator, if there is one, learn from a batch and pay for its choices; return what it logs."""
        return self._adversary.pay(batch, self._weight) if self._adversary is not None and self._weight > 0 else {}

    def _choice(self) -> Acted:
        """Return the agent's choice, with the expert's beside it, or the choice of the policy that it imitates."""
        if self.imitation is None or not (self._imitates or self._weight > 0):
            return checked_choice(self.agent, self.interaction.observations, self.interaction.mask, explore=True)
        others = torch.from_numpy(self.imitation.choose())
        if self._imitates:
            return Acted(others, {"log_prob": torch.zeros(len(others))})
        own = checked_choice(self.agent, self.interaction.observations, self.interaction.mask, explore=True)
        return Acted(own.actions, {**own.stored, EXPERT: others})

    def gather(self) -> Any:
        """Step until there is a batch; episodes must be under way."""
        memory, interaction = self.memory, self.interaction
        while True:
            acted = self._choice()
            memory.record_choice(interaction.observations, interaction.mask, acted.actions, acted.stored)
            outcome = interaction.step(acted.actions)
            memory.record_outcome(outcome)
            notify_listener(self.agent, outcome, interaction.observations, interaction.mask)
            self.n_steps += int(outcome.valid.sum())
            batch = memory.batch(interaction.observations, interaction.mask)
            if batch is not None:
                return batch
