"""Ape-X: actors that only act, a learner that only learns, and a replay between them that belongs to neither.

Horgan et al., "Distributed Prioritized Experience Replay", ICLR 2018. Actor i explores by an epsilon of its own that
stays as it is, and reports the errors of its own steps, so that no batch is drawn for first priorities.

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
from hdrl.distributed.training.group import WorkerGroup
from hdrl.distributed.training.pool import Handle, WorkerPool
from hdrl.distributed.training.replay import Chunk, ReplayRole, SharedReplay, errors_of, settings_of
from hdrl.distributed.training.schemes import UnderWay
from hdrl.distributed.training.worker import Report, Weights, WorkerPlan, put_weights
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


class ApexActor:
    """Acts, and reports its steps."""

    def __init__(self, plan: WorkerPlan, n_actors: int) -> None:
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

    def act(self, weights: Weights | None, n_steps: int) -> tuple[Chunk, Report]:
        """Act for some steps of each environment, with the learner's weights (``None``: with those of before)."""
        with torch_threads(1), self._agent.session():
            if weights is not None:
                put_weights(self._weights, weights)
            return self._acted(n_steps)

    def _acted(self, n_steps: int) -> tuple[Chunk, Report]:
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
        return dataclasses.replace(chunk, errors=errors), Report(n_valid, tuple(interaction.episodes))

    def state_dict(self) -> tuple[dict[str, Any], None]:
        """Return the whole state, from which `load_state_dict` continues."""
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

    def __init__(self, plan: WorkerPlan) -> None:
        self._agent = plan.agent()

    def learn(self, batch: Transitions) -> tuple[Transitions, Report]:
        """Learn from a batch, and fill in its errors."""
        with torch_threads(1), self._agent.session():
            losses = self._agent.learn(batch)
        del losses["epsilon"]  # actors alone have one
        return batch, Report(losses=losses)

    def weights(self) -> tuple[dict[int, Tensor], None]:
        """Return copies of all weights by position."""
        return {position: one.detach().clone() for position, one in enumerate(all_weights(self._agent))}, None

    def modules(self) -> tuple[dict[str, Any], None]:
        """Return all networks, and how much has been learned."""
        state = self._agent.state_dict()
        return {name: part for name, part in state.items() if name not in ("optimizers", "generator")}, None

    def state_dict(self) -> tuple[dict[str, Any], None]:
        """Return the whole state, from which `load_state_dict` continues."""
        return self._agent.state_dict(), None

    def load_state_dict(self, state: Mapping[str, Any]) -> tuple[None, None]:
        """Take over what `state_dict` returned."""
        self._agent.load_state_dict(state)
        return None, None


class ApexGroup(WorkerGroup):
    """Actors, the learner and the replay."""

    def __init__(self, pool: WorkerPool, clock: Clock, options: DistributedOptions, plan: WorkerPlan) -> None:
        super().__init__(pool, clock, options, plan)
        self.n_steps = 0
        config = plan.config
        if not isinstance(config, ReplayConfig):
            raise LearningError("apex needs an agent with a replay")
        self.config = config
        # Actors have the numbers below that of the replay, whose random numbers are its own.
        self.learner = pool.start_role(Learner, plan)
        pattern = plan.agent()
        generator = dataclasses.replace(plan, number=self.n_workers).agent().generator.get_state()
        settings = settings_of(_replay_of(pattern, self.n_workers * plan.n_envs))
        self.replay = pool.start_role(ReplayRole, self.n_workers, plan.n_envs, generator, settings)
        self.workers = [self._started(number) for number in range(self.n_workers)]

    def _started(self, number: int) -> Any:
        return self.pool.start_role(ApexActor, self.plan(number), self.n_workers)

    def model(self) -> Any:
        """Return the role that has the model."""
        return self.learner

    def weights(self) -> list[Handle]:
        """Fetch the weights of the learner."""
        return [self.pool.call(self.learner, "weights")]

    def replace(self, number: int) -> None:
        """Replace an actor that has died; the steps that it has reported stay in the replay."""
        self.pool.call(self.replay, "cut", number)
        super().replace(number)

    def close(self) -> None:
        """End all roles."""
        super().close()
        for member in (self.learner, self.replay):
            self.pool.stop_role(member)

    def state_dict(self) -> dict[str, Any]:
        """Return the whole state, from which `load_state_dict` continues."""
        pool = self.pool
        saved = [pool.call(worker, "state_dict") for worker in self.workers]
        learner, replay = pool.call(self.learner, "state_dict"), pool.call(self.replay, "state_dict")
        return {
            "workers": [pool.content(handle) for handle in saved],
            "learner": pool.content(learner),
            "replay": pool.content(replay),
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
        for handle in [self.pool.call(one, "load_state_dict", it) for one, it in zip(members, saved, strict=True)]:
            self.pool.result_of(handle)
        self.clock.load_state_dict(state["clock"])
        self.lives = [int(n) for n in state["lives"]]
        self.version, self.n_steps = (int(n) for n in state["counts"])


class Apex(UnderWay):
    """Directs actors and learner."""

    group: ApexGroup
    _counted = "n_told"

    def __init__(self, group: ApexGroup) -> None:
        super().__init__(group)
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
        group = self.group
        return group.pool.call(group.workers[number], "act", weights, group.options.push_every)

    def _remember(self, number: int) -> None:
        group = self.group
        handle, report = self._taken(number)
        group.pool.call(group.replay, "add", handle)
        group.record.lags.append(group.version - self._fetched[number])
        group.n_steps += report.n_steps
        if not self._is_learning and group.n_steps >= max(group.config.warm_up, 2 * group.n_workers):
            self._is_learning = True
            self._learn()

    def _learn(self) -> None:
        """Let the learner begin with a batch that is drawn now."""
        group = self.group
        batch = group.pool.call(group.replay, "sample")
        self._learned = group.pool.call(group.learner, "learn", batch)
        group.pool.call(group.replay, "renew", self._learned)
        group.version += 1
        group.clock.begin("learner", 0, self._learned)

    def _count_learned(self) -> None:
        group = self.group
        if self._learned is not None:
            group.take(self._learned)
        group.record.n_updates += 1
        group.record.n_batches += 1

    def _as_plain(self, content: Chunk) -> Any:
        return content.as_plain()

    def _from_plain(self, plain: Any) -> Chunk:
        return Chunk.from_plain(plain)

    def state_dict(self) -> dict[str, Any]:
        """Return the messages that have been written, and have not come yet."""
        state = super().state_dict()
        learned = None if self._learned is None else self.group.pool.result_of(self._learned).as_plain()
        return {"messages": state.pop("messages"), "learned": learned, **state}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over what `state_dict` returned."""
        super().load_state_dict(state)
        self._is_learning = state["learned"] is not None
        if self._is_learning:
            self._learned = self.group.pool.keep(None, Report.from_plain(state["learned"]))
            self.group.clock.resume("learner", 0, self._learned)


def _replay_of(agent: Agent, n_envs: int) -> Replay:
    memory = agent.memory(n_envs)
    if not isinstance(memory, Replay):
        raise LearningError(f"{type(agent).__name__} remembers no steps, expected dqn, d3qn or rainbow")
    return memory
