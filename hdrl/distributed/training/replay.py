"""The replay that belongs to no worker: actors add what they have seen, the learner draws, and renews priorities."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Self, cast

import numpy as np
import torch
from torch import Tensor

from hdrl.base import elementary
from hdrl.learn.agent import Agent
from hdrl.learn.memory import Finals, Outcome
from hdrl.learn.replay import Replay, Transitions
from hdrl.learn.scaling import RewardScale


@dataclass(frozen=True, slots=True)
class Chunk:
    """Some steps of an actor."""

    number: int  # number of the actor
    # data of each step before its outcome: observations, mask, actions
    choices: tuple[tuple[Tensor, Tensor | None, Tensor], ...]
    outcomes: tuple[Outcome, ...]  # outcomes of the steps
    # errors of the predictions for the steps, in the order in which `places_of` names them; empty: not known
    errors: Tensor | None = None

    def as_plain(self) -> dict[str, Any]:
        """Return the steps as a checkpoint can hold them."""
        return {
            "number": self.number,
            "choices": [list(choice) for choice in self.choices],
            "outcomes": [_outcome_as_plain(outcome) for outcome in self.outcomes],
            "errors": self.errors,
        }

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Self:
        """Make the steps that `as_plain` described."""
        choices = tuple((seen, mask, actions) for seen, mask, actions in plain["choices"])
        return cls(int(plain["number"]), choices, tuple(map(_outcome, plain["outcomes"])), plain["errors"])


def _outcome_as_plain(outcome: Outcome) -> dict[str, Any]:
    named = {one.name: getattr(outcome, one.name) for one in fields(outcome)}
    finals = outcome.finals
    return {**named, "finals": None if finals is None else [finals.rows, finals.observations, finals.masks]}


def _outcome(plain: Mapping[str, Any]) -> Outcome:
    finals = plain["finals"]
    return Outcome(**{**plain, "finals": None if finals is None else Finals(*finals)})


class ScaleOfAll(RewardScale):
    """The unit of the rewards of several actors, each of which is followed by itself."""

    def __init__(self, gamma: float, n: int) -> None:
        super().__init__(gamma)
        self.each = [RewardScale(gamma) for _ in range(n)]
        self.number = 0

    @property
    def value(self) -> float:
        """Divisor of the rewards, as if one worker had seen all of them."""
        steps = sum(one.n for one in self.each)
        if not steps:
            return 1.0
        mean_square = sum(one.n * one.value**2 for one in self.each if one.n) / steps
        return math.sqrt(mean_square)

    def add(self, outcome: Outcome) -> None:
        """Take in a step of actor ``number``."""
        self.each[self.number].add(outcome)

    def settle(self) -> None:
        """Make sure that something has been seen before the first use."""
        for one in self.each:
            one.settle()

    def state_dict(self) -> dict[str, Any]:
        """Return the whole state, from which `load_state_dict` continues."""
        return {"each": [one.state_dict() for one in self.each]}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over what `state_dict` returned."""
        for one, saved in zip(self.each, state["each"], strict=True):
            one.load_state_dict(saved)


class SharedReplay(Replay):
    """A replay to which several actors add, each with environments of its own."""

    def __init__(self, n_actors: int, n_each: int, **settings: Any) -> None:
        super().__init__(n_actors * n_each, **settings)
        self._n_each = n_each
        if self.scale is not None:
            self.scale = ScaleOfAll(self.gamma, n_actors)

    def add(self, chunk: Chunk) -> Any:
        """Add the steps of an actor, and return the slots that can be drawn from now on.

        They are in the order of time, then of environments.
        """
        first = chunk.number * self._n_each
        rows = np.arange(first, first + self._n_each)
        before = self._heads[rows].copy()
        self._all_rows = rows
        if isinstance(self.scale, ScaleOfAll):
            self.scale.number = chunk.number
        for (observations, mask, actions), outcome in zip(chunk.choices, chunk.outcomes, strict=True):
            self.record_choice(observations, mask, actions, {})
            finals = outcome.finals
            moved = None if finals is None else Finals(finals.rows + first, finals.observations, finals.masks)
            self.record_outcome(replace(outcome, finals=moved))
        slots = self._new_slots(rows, before)
        if chunk.errors is not None and self.alpha > 0.0 and len(slots):
            errors = chunk.errors.double().numpy() + self.smallest_error
            self._largest = max(self._largest, float(errors.max()))
            self.tree.set(slots, elementary.power(errors, self.alpha))
        return slots

    def cut(self, number: int) -> None:
        """End the actor's transitions where it died: the steps that follow are those of its successor."""
        rows = np.arange(number * self._n_each, (number + 1) * self._n_each)
        rows = rows[self._heads[rows] > 0]
        if not len(rows):
            return
        newest = self._slots(rows, self._heads[rows] - 1)
        self._columns["valid"][torch.from_numpy(newest)] = False
        for k in range(min(self.n_steps, self.length)):
            self.tree.set(self._slots(rows, self._heads[rows] - 1 - k), 0.0)

    def _new_slots(self, rows: Any, before: Any) -> Any:
        """Return the slots that became complete: from the one that was newest before to the one before the newest."""
        slots: list[int] = []
        longest = int((self._heads[rows] - before).max())
        for k in range(longest):
            heads = before - 1 + k
            is_new = (heads >= 0) & (heads < self._heads[rows] - 1) & (heads >= self._heads[rows] - self.length)
            at = self._slots(rows, heads)[is_new]
            slots += at[self.tree.priorities[at] > 0.0].tolist()
        return np.array(slots, dtype=np.int64)

    def sample(self) -> Transitions:
        """Draw a batch."""
        if self.scale is not None:
            self.scale.settle()
        slots, weights = self._draw()
        self._n_batches += 1
        return self.transitions(slots, weights)


class ReplayRole:
    """The shared replay as a role."""

    def __init__(self, n_actors: int, n_each: int, generator_state: Tensor, settings: Mapping[str, Any]) -> None:
        self._generator = torch.Generator()
        self._generator.set_state(generator_state)
        self._replay = SharedReplay(n_actors, n_each, generator=self._generator, **settings)

    def add(self, chunk: Chunk) -> tuple[None, int]:
        """Add the steps of an actor and return their number."""
        self._replay.add(chunk)
        return None, sum(int(outcome.valid.sum()) for outcome in chunk.outcomes)

    def cut(self, number: int) -> tuple[None, None]:
        """Note that an actor has died."""
        self._replay.cut(number)
        return None, None

    def sample(self) -> tuple[Transitions, None]:
        """Draw a batch."""
        return self._replay.sample(), None

    def renew(self, batch: Transitions) -> tuple[None, None]:
        """Renew the priorities of a batch that was learned from."""
        self._replay.after_learning(batch)
        return None, None

    def state_dict(self) -> tuple[dict[str, Any], None]:
        """Return the whole content."""
        return {"replay": self._replay.state_dict(), "generator": self._generator.get_state()}, None

    def load_state_dict(self, state: Mapping[str, Any]) -> tuple[None, None]:
        """Take over what `state_dict` returned."""
        self._replay.load_state_dict(state["replay"])
        self._generator.set_state(cast("Tensor", state["generator"]))
        return None, None


def settings_of(replay: Replay) -> dict[str, Any]:
    """Return the settings that make another replay like the one that an agent's ``memory`` returned."""
    return {
        "capacity": replay.length * replay.n_envs,
        "batch_size": replay.batch_size,
        "gamma": replay.gamma,
        "n_steps": replay.n_steps,
        "alpha": replay.alpha,
        "beta": replay.beta,
        "smallest_error": replay.smallest_error,
        "scale": replay.scale,
    }


def errors_of(agent: Agent, replay: SharedReplay, slots: Any) -> Tensor:
    """Return the errors of an agent's predictions for steps."""
    if not len(slots):
        return torch.zeros(0)
    if replay.scale is not None:
        replay.scale.settle()
    errors: Tensor = agent.errors(replay.transitions(slots, torch.ones(len(slots))))  # type: ignore[attr-defined]
    return errors
