"""Ape-X: actors that only act, a learner that only learns, and a replay between them that belongs to neither.

Horgan et al., "Distributed Prioritized Experience Replay", ICLR 2018. Actor i explores by an epsilon of its own that
stays as it is, and tells how surprising its steps were to it, so that nothing has to be drawn to get a first priority.

What differs from the paper: actors and learner have no pace of their own but that of the clock (virtual by default); an
actor's newest step has the highest priority until its next message, since what follows it is not known yet.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from hdrl.base.errors import LearningError
from hdrl.distributed.training.clock import Clock
from hdrl.distributed.training.company import Staff
from hdrl.distributed.training.crew import Crew, Handle
from hdrl.distributed.training.plain import chunk_as_plain, chunk_from_plain, told_as_plain, told_from_plain
from hdrl.distributed.training.replay import Chunk, ReplayRole, SharedReplay, errors_of, settings_of
from hdrl.distributed.training.schemes import UnderWay
from hdrl.distributed.training.worker import Plan, Told, Weights, put_weights
from hdrl.learn.agent import Agent
from hdrl.learn.checks import checked_choice
from hdrl.learn.config import ReplayConfig
from hdrl.learn.interaction import Interaction
from hdrl.learn.replay import Replay, Transitions
from hdrl.learn.threads import torch_threads
from hdrl.options.distributed import DistributedOptions

BASE, SLOPE = 0.4, 7.0
"""Constants of the paper: actor i of N explores by BASE to the power of 1 + SLOPE * i / (N - 1)."""


def epsilon_of(number: int, n_actors: int) -> float:
    """Return the share of random actions of an actor; a single one explores as the first of several does."""
    return float(BASE ** (1.0 + SLOPE * number / max(n_actors - 1, 1)))


def all_weights(agent: Agent) -> list[Tensor]:
    """Return the weights of all networks of an agent, those that judge included; not copies."""
    return [one for module in agent.modules.values() for one in module.parameters()]


class Actor:
    """Acts, and tells what it has seen."""

    def __init__(self, plan: Plan, n_actors: int) -> None:
        epsilon = epsilon_of(plan.number, n_actors)
        own = {"epsilon_first": epsilon, "epsilon_last": epsilon, "epsilon_steps": 0}
        if not getattr(plan.config, "is_noisy", False):  # noisy weights explore by themselves
            plan = dataclasses.replace(plan, config=plan.config.model_copy(update=own))
        with torch_threads(1):
            self._agent = plan.agent()
            self._interaction = Interaction(plan.envs())
        self._weights = all_weights(self._agent)
        self._number, self._n_envs, self._seed = plan.number, plan.n_envs, plan.env_seed()
        self._is_reset = False
        self._settings = settings_of(_replay_of(self._agent, plan.n_envs))
        self._near = self._new_near(64)

    def _new_near(self, n_steps: int) -> SharedReplay:
        """Return a small replay of its own steps, by which their errors are computed."""
        # An episode may end in each step, which takes an entry more.
        room = 2 * (n_steps + int(self._settings["n_steps"]) + 2)
        scale = self._settings["scale"]
        settings = {**self._settings, "capacity": room * self._n_envs, "alpha": 1.0, "scale": scale}
        return SharedReplay(1, self._n_envs, generator=torch.Generator(), **settings)

    def act(self, weights: Weights | None, n_steps: int) -> tuple[Chunk, Told]:
        """Act for some steps of each environment, with the learner's weights (``None``: with those of before)."""
        with torch_threads(1), self._agent.session():
            if weights is not None:
                put_weights(self._weights, weights)
            return self._acted(n_steps)

    def _acted(self, n_steps: int) -> tuple[Chunk, Told]:
        interaction = self._interaction
        interaction.episodes = []
        if not self._is_reset:
            interaction.reset(self._seed)
            self._is_reset = True
        choices, outcomes = [], []
        for _ in range(n_steps):
            seen, mask = interaction.observations.clone(), interaction.mask
            mask = None if mask is None else mask.clone()
            acted = checked_choice(self._agent, seen, mask, explore=True)
            outcome = interaction.step(acted.actions)
            choices.append((seen, mask, acted.actions.clone()))
            outcomes.append(outcome)
        chunk = Chunk(self._number, tuple(choices), tuple(outcomes))
        if self._near.length < 2 * n_steps + 2:
            self._near = self._new_near(n_steps)
        slots = self._near.add(dataclasses.replace(chunk, number=0))
        errors = errors_of(self._agent, self._near, slots)
        n_valid = sum(int(outcome.valid.sum()) for outcome in outcomes)
        return dataclasses.replace(chunk, errors=errors), Told(n_valid, tuple(interaction.episodes))

    def state_dict(self) -> tuple[dict[str, Any], None]:
        """Return all that is needed to continue."""
        return {
            "agent": self._agent.state_dict(),
            "interaction": self._interaction.state_dict() if self._is_reset else None,
            "near": self._near.state_dict(),
        }, None

    def load_state_dict(self, state: Mapping[str, Any]) -> tuple[None, None]:
        """Take over what `state_dict` returned; where environments cannot continue, new episodes begin."""
        self._agent.load_state_dict(state["agent"])
        episodes = state["interaction"]
        self._is_reset = episodes is not None and self._interaction.load_state_dict(episodes)
        n = len(state["near"]["priorities"]) // self._n_envs
        if n != self._near.length:
            settings = {**self._settings, "capacity": n * self._n_envs, "alpha": 1.0}
            self._near = SharedReplay(1, self._n_envs, generator=torch.Generator(), **settings)
        self._near.load_state_dict(state["near"])
        return None, None

    def close(self) -> None:
        """Close the environments."""
        self._interaction.envs.close()


class Learner:
    """Learns from what is drawn for it."""

    def __init__(self, plan: Plan) -> None:
        self._agent = plan.agent()

    def learn(self, batch: Transitions) -> tuple[Transitions, Told]:
        """Learn from a batch, and fill in its errors."""
        with torch_threads(1), self._agent.session():
            losses = self._agent.learn(batch)
        del losses["epsilon"]  # that of actors, of which it has none
        return batch, Told(losses=losses)

    def weights(self) -> tuple[dict[int, Tensor], None]:
        """Return copies of all weights by place."""
        return {place: one.detach().clone() for place, one in enumerate(all_weights(self._agent))}, None

    def modules(self) -> tuple[dict[str, Any], None]:
        """Return all networks, and how much has been learned."""
        state = self._agent.state_dict()
        return {name: part for name, part in state.items() if name not in ("optimizers", "generator")}, None

    def state_dict(self) -> tuple[dict[str, Any], None]:
        """Return all that is needed to continue."""
        return self._agent.state_dict(), None

    def load_state_dict(self, state: Mapping[str, Any]) -> tuple[None, None]:
        """Take over what `state_dict` returned."""
        self._agent.load_state_dict(state)
        return None, None


class ApexCompany(Staff):
    """Actors, the learner and the replay."""

    def __init__(self, crew: Crew, clock: Clock, options: DistributedOptions, plan: Plan) -> None:
        super().__init__(crew, clock, options, plan)
        self.n_steps = 0
        config = plan.config
        if not isinstance(config, ReplayConfig):
            raise LearningError("apex needs an agent with a replay")
        self.config = config
        # Actors have the numbers below that of the replay, whose random numbers are its own.
        self.learner = crew.hire(Learner, plan)
        pattern = plan.agent()
        generator = dataclasses.replace(plan, number=self.n_workers).agent().generator.get_state()
        settings = settings_of(_replay_of(pattern, self.n_workers * plan.n_envs))
        self.replay = crew.hire(ReplayRole, self.n_workers, plan.n_envs, generator, settings)
        self.workers = [self._hired(number) for number in range(self.n_workers)]

    def _hired(self, number: int) -> Any:
        return self.crew.hire(Actor, self.plan(number), self.n_workers)

    def model(self) -> Any:
        """Return who has the model."""
        return self.learner

    def weights(self) -> list[Handle]:
        """Fetch the weights of the learner."""
        return [self.crew.call(self.learner, "weights")]

    def replace(self, number: int) -> None:
        """Put a new actor in the place of one that has died; what it has told is remembered."""
        self.crew.call(self.replay, "cut", number)
        super().replace(number)

    def close(self) -> None:
        """End everybody."""
        super().close()
        for member in (self.learner, self.replay):
            self.crew.dismiss(member)

    def state_dict(self) -> dict[str, Any]:
        """Return all that is needed to continue."""
        crew = self.crew
        saved = [crew.call(worker, "state_dict") for worker in self.workers]
        learner, replay = crew.call(self.learner, "state_dict"), crew.call(self.replay, "state_dict")
        return {
            "workers": [crew.content(handle) for handle in saved],
            "learner": crew.content(learner),
            "replay": crew.content(replay),
            "clock": self.clock.state_dict(),
            "lives": list(self.lives),
            "counts": [self.version, self.n_steps],
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore a state; raise LearningError if it is of another number of actors."""
        if len(state["workers"]) != self.n_workers:
            raise LearningError(f"the saved state is of {len(state['workers'])} actors, not of {self.n_workers}")
        members = [*self.workers, self.learner, self.replay]
        saved = [*state["workers"], state["learner"], state["replay"]]
        for handle in [self.crew.call(one, "load_state_dict", it) for one, it in zip(members, saved, strict=True)]:
            self.crew.result_of(handle)
        self.clock.load_state_dict(state["clock"])
        self.lives = [int(n) for n in state["lives"]]
        self.version, self.n_steps = (int(n) for n in state["counts"])


class Apex(UnderWay):
    """Directs actors and learner."""

    company: ApexCompany
    _counted = "n_told"

    def __init__(self, company: ApexCompany) -> None:
        super().__init__(company)
        self._is_learning = False
        self._learned: Handle | None = None

    def iterate(self, n_batches: int) -> None:
        """Let the actors act until the learner has learned from some batches."""
        self._begin_all()
        n_left = n_batches
        while n_left:
            event, number = self._next()
            if event == "worker":
                self._remember(number)
                self._begin(number)
            else:
                self._count_learned()
                n_left -= 1
                self._learn()

    def _call(self, number: int, weights: list[Handle] | None) -> Handle:
        company = self.company
        return company.crew.call(company.workers[number], "act", weights, company.options.push_every)

    def _remember(self, number: int) -> None:
        company = self.company
        handle, told = self._taken(number)
        company.crew.call(company.replay, "add", handle)
        company.record.lags.append(company.version - self._fetched[number])
        company.n_steps += told.n_steps
        if not self._is_learning and company.n_steps >= max(company.config.warm_up, 2 * company.n_workers):
            self._is_learning = True
            self._learn()

    def _learn(self) -> None:
        """Let the learner begin with a batch that is drawn now."""
        company = self.company
        batch = company.crew.call(company.replay, "sample")
        self._learned = company.crew.call(company.learner, "learn", batch)
        company.crew.call(company.replay, "renew", self._learned)
        company.version += 1
        company.clock.begin("learner", 0, self._learned)

    def _count_learned(self) -> None:
        company = self.company
        if self._learned is not None:
            company.take(self._learned)
        company.record.n_updates += 1
        company.record.n_batches += 1

    def _as_plain(self, content: Chunk) -> Any:
        return chunk_as_plain(content)

    def _from_plain(self, plain: Any) -> Chunk:
        return chunk_from_plain(plain)

    def state_dict(self) -> dict[str, Any]:
        """Return the messages that have been written, and have not come yet."""
        state = super().state_dict()
        learned = None if self._learned is None else told_as_plain(self.company.crew.result_of(self._learned))
        return {"messages": state.pop("messages"), "learned": learned, **state}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over what `state_dict` returned."""
        super().load_state_dict(state)
        self._is_learning = state["learned"] is not None
        if self._is_learning:
            self._learned = self.company.crew.keep(None, told_from_plain(state["learned"]))
            self.company.clock.resume("learner", 0, self._learned)


def _replay_of(agent: Agent, n_envs: int) -> Replay:
    memory = agent.memory(n_envs)
    if not isinstance(memory, Replay):
        raise LearningError(f"{type(agent).__name__} remembers no steps, expected dqn, d3qn or rainbow")
    return memory
