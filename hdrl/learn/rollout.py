"""Steps in the order in which they happened: rollouts of a fixed length, and whole episodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from hdrl.learn.advantages import gae
from hdrl.learn.memory import Finals, Memory, Outcome
from hdrl.learn.scaling import RewardScale

ValueFunction = Callable[[Tensor, Tensor | None], Tensor]
"""From observations and masks, ``n`` of each, to values of shape ``(n,)``."""


@dataclass(slots=True)
class Steps:
    """Transitions of ``n_envs`` environments during ``n_steps`` steps.

    Attributes
    ----------
    observations
        Observations before each step, shape ``(n_steps, n_envs, *observation_shape)``, float32.
    masks
        Masks of the legal actions, shape ``(n_steps, n_envs, n_actions)``, bool, or ``None``: all.
    actions
        Shape ``(n_steps, n_envs)``, int64.
    rewards
        Shape ``(n_steps, n_envs)``, float32; divided by `scale`.
    terminated, truncated
        Shape ``(n_steps, n_envs)``, bool.
    valid
        Shape ``(n_steps, n_envs)``, bool; false where there was no transition, which must not be learned from.
    stored
        Values that the agent stored when it acted, each of shape ``(n_steps, n_envs, ...)``.
    last_observations, last_masks
        Observations and masks after the last step, first axis ``n_envs``.
    scale
        Divisor of the rewards.
    finals
        The last observations of episodes where the next row already belongs to another episode: pairs of a
        step's index and its `hdrl.learn.memory.Finals`.
    """

    observations: Tensor
    masks: Tensor | None
    actions: Tensor
    rewards: Tensor
    terminated: Tensor
    truncated: Tensor
    valid: Tensor
    stored: dict[str, Tensor]
    last_observations: Tensor
    last_masks: Tensor | None
    scale: float = 1.0
    finals: list[tuple[int, Finals]] = field(default_factory=list)

    def next_values(self, values: Tensor, value_function: ValueFunction) -> Tensor:
        """Return the values after each step, shape ``(n_steps, n_envs)``, from those before each step.

        ``value_function`` computes those of observations that are not among them.
        """
        after = torch.cat([values[1:], value_function(self.last_observations, self.last_masks).unsqueeze(0)])
        for t, finals in self.finals:
            after[t, finals.rows] = value_function(finals.observations, finals.masks)
        return after

    def advantages(self, values: Tensor, value_function: ValueFunction, gamma: float, lam: float) -> Tensor:
        """Return `hdrl.learn.advantages.gae`; the other arguments are those of `next_values`."""
        after = self.next_values(values, value_function)
        return gae(self.rewards, values, after, self.terminated, self.truncated, gamma, lam)

    def flat(self) -> tuple[Tensor, Tensor | None, Tensor]:
        """Return observations, masks and actions with steps and environments in one axis."""
        masks = None if self.masks is None else self.masks.flatten(0, 1)
        return self.observations.flatten(0, 1), masks, self.actions.flatten(0, 1)


class Rollout(Memory):
    """Gathers a fixed number of steps of each environment, in tensors that are made once.

    Parameters
    ----------
    n_steps
        Steps of each environment in a batch, at least 1.
    scale
        Divisor of the rewards of a batch, once it has seen them; ``None``: they stay as they are.
    """

    def __init__(self, n_steps: int, scale: RewardScale | None = None) -> None:
        self.n_steps = n_steps
        self.scale = scale
        self._n = 0
        self._columns: dict[str, Tensor] = {}
        self._stored: tuple[str, ...] = ()
        self._finals: list[tuple[int, Finals]] = []

    def record_choice(
        self, observations: Tensor, mask: Tensor | None, actions: Tensor, stored: Mapping[str, Tensor]
    ) -> None:
        """Copy observations and choices."""
        self._put("observations", observations)
        if mask is not None:
            self._put("masks", mask)
        self._put("actions", actions)
        self._stored = tuple(stored)
        for name, tensor in stored.items():
            self._put(f"stored.{name}", tensor)

    def record_outcome(self, outcome: Outcome) -> None:
        """Copy the outcome of the last choice."""
        for name in ("rewards", "terminated", "truncated", "valid"):
            self._put(name, getattr(outcome, name))
        if outcome.finals is not None:
            self._finals.append((self._n, outcome.finals))
        self._n += 1

    def batch(self, observations: Tensor, mask: Tensor | None) -> Steps | None:
        """Return the steps once there are enough; they are valid until the next choice is recorded."""
        if not self._is_complete():
            return None
        columns = {name: tensor[: self._n] for name, tensor in self._columns.items()}
        scale = 1.0
        if self.scale is not None:
            self.scale.see(columns["rewards"], columns["terminated"], columns["truncated"], columns["valid"])
            scale = self.scale.value
        steps = Steps(
            observations=columns["observations"],
            masks=columns.get("masks"),
            actions=columns["actions"],
            rewards=columns["rewards"] / scale,
            terminated=columns["terminated"],
            truncated=columns["truncated"],
            valid=columns["valid"],
            stored={name: columns[f"stored.{name}"] for name in self._stored},
            last_observations=observations,
            last_masks=mask,
            scale=scale,
            finals=self._finals,
        )
        self._n = 0
        self._finals = []
        return steps

    def state_dict(self) -> dict[str, Any]:
        """Return the scale, if there is one."""
        return {} if self.scale is None else {"scale": self.scale.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over the scale, if there is one."""
        if self.scale is not None:
            self.scale.load_state_dict(state["scale"])

    def _is_complete(self) -> bool:
        return self._n >= self.n_steps

    def _put(self, name: str, tensor: Tensor) -> None:
        column = self._columns.get(name)
        if column is None or self._n >= len(column):
            longer = torch.empty((max(self.n_steps, 2 * self._n), *tensor.shape), dtype=tensor.dtype)
            if column is not None:
                longer[: self._n] = column[: self._n]
            self._columns[name] = column = longer
        column[self._n].copy_(tensor)


class Episodes(Rollout):
    """Gathers whole episodes, the same number from each environment.

    All environments start again before each batch. An environment that has done its share continues, but its steps
    are no longer valid; taking the first episodes to end instead would prefer short ones.

    Parameters
    ----------
    n_each
        Episodes of each environment in a batch, at least 1.
    n_steps
        Steps for which there is room at first; it grows.
    """

    resets_first = True

    def __init__(self, n_each: int, n_steps: int = 64) -> None:
        super().__init__(n_steps)
        self.n_each = n_each
        self._left: Tensor | None = None

    def record_outcome(self, outcome: Outcome) -> None:
        """Copy the outcome; steps of environments that have done their share are not valid."""
        if self._left is None or self._n == 0:
            self._left = torch.full(outcome.valid.shape, self.n_each, dtype=torch.int64)
        valid = outcome.valid & (self._left > 0)
        self._left = self._left - (valid & (outcome.terminated | outcome.truncated)).to(torch.int64)
        super().record_outcome(replace(outcome, valid=valid))

    def _is_complete(self) -> bool:
        return self._left is not None and self._n > 0 and not bool((self._left > 0).any())
