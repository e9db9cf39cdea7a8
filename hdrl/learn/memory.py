"""Memories of the steps between two calls of an agent's ``learn``."""

from __future__ import annotations

import abc
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor


@dataclass(frozen=True, slots=True)
class Finals:
    """The last observations of episodes whose environments have begun the next one in the same step already.

    Attributes
    ----------
    rows
        Indices of the environments, shape ``(k,)``, int64.
    observations
        Shape ``(k, *observation_shape)``, float32.
    masks
        Shape ``(k, n_actions)``, bool, or ``None``.
    """

    rows: Tensor
    observations: Tensor
    masks: Tensor | None


@dataclass(frozen=True, slots=True)
class Outcome:
    """Outcome of one step of a batch of ``n`` environments.

    Attributes
    ----------
    rewards
        Shape ``(n,)``, float32.
    terminated, truncated
        Shape ``(n,)``, bool: the episode ended by itself, or was cut off (then the value of what would have followed
        counts).
    valid
        Shape ``(n,)``, bool; false where the environment began a new episode and ignored the action: that is no
        transition.
    finals
        Last observations of ended episodes whose next observation is of another episode already; else ``None``.
    exact_rewards
        The rewards as the environments gave them, shape ``(n,)``, float64; ``None`` if they were not kept.
    """

    rewards: Tensor
    terminated: Tensor
    truncated: Tensor
    valid: Tensor
    finals: Finals | None
    exact_rewards: Tensor | None = None


class Memory(abc.ABC):
    """Store of steps until there is a batch to learn from.

    The training loop records each choice before the environments are stepped (so that their buffers may be reused) and
    its outcome afterwards, and then takes a batch if there is one.
    """

    resets_first: bool = False
    """True if all environments must begin new episodes before each batch is gathered."""

    learns_per_iteration: int = 1
    """After how many batches an iteration of the training loop ends."""

    @abc.abstractmethod
    def record_choice(
        self, observations: Tensor, mask: Tensor | None, actions: Tensor, stored: Mapping[str, Tensor]
    ) -> None:
        """Record observations and choices."""

    @abc.abstractmethod
    def record_outcome(self, outcome: Outcome) -> None:
        """Record the outcome of the last choice."""

    @abc.abstractmethod
    def batch(self, observations: Tensor, mask: Tensor | None) -> Any | None:
        """Return a batch if it is time to learn, else ``None``; the arguments are what the agent sees now."""

    def after_learning(self, batch: Any) -> None:
        """Take in what learning has found out about a batch, for instance its errors."""
        del batch

    def state_dict(self) -> dict[str, Any]:
        """Return the state to save between two iterations: nothing, unless it lasts longer than an iteration."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over what `state_dict` returned."""
        del state
