"""Interface of every pair of actor and critic for the algorithms."""

from __future__ import annotations

import abc
from collections.abc import Callable
from functools import partial
from typing import ClassVar

import torch
from torch import Tensor, nn

from hdrl.base.plainnet import PlainActor
from hdrl.learn import portable


class ActorCritic(nn.Module, abc.ABC):
    """One number for each action (the actor), and one for the whole observation (the critic).

    What the numbers mean is for the algorithm to say: logits and a state value, or the advantages and the value of a
    dueling network. The critic is absent where the algorithm needs none.

    Attributes
    ----------
    has_critic
        True if there is a critic.
    n_atoms
        Number of outputs for each action, and for the observation. If it is not 1, all that is returned has a last axis
        of that length.
    is_parted
        True if actor and critic share no weights, so that each can learn by itself.
    is_portable
        True if its results have the same bits on every processor: it uses `hdrl.learn.portable`. A subclass must set it
        again, or it does not hold.
    """

    has_critic: bool
    n_atoms: int = 1
    is_parted: bool = False
    is_portable: ClassVar[bool] = False

    @abc.abstractmethod
    def logits(self, observations: Tensor, mask: Tensor | None) -> Tensor:
        """Return a number for each action, shape ``(n, n_actions)``; those of illegal actions are `masking.ILLEGAL`."""

    @abc.abstractmethod
    def values(self, observations: Tensor, mask: Tensor | None) -> Tensor:
        """Return a number for each observation, shape ``(n,)``."""

    def both(self, observations: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        """Return `logits` and `values`, computing only once what they share."""
        return self.logits(observations, mask), self.values(observations, mask)

    def apart(
        self, observations: Tensor, mask: Tensor | None, index: Tensor
    ) -> tuple[Callable[[], Tensor], Callable[[], Tensor]]:
        """Return functions that compute `logits` and `values` of the observations at ``index``, each in its own thread.

        Each index (int64) comes at most once.
        """
        seen, legal = observations.index_select(0, index), None if mask is None else mask.index_select(0, index)
        return partial(self.logits, seen, legal), partial(self.values, seen, legal)

    def plain_actor(self) -> PlainActor | None:
        """Return the actor in plain numbers, for compiled code that plays it; ``None`` where there is no such code."""
        return None

    @abc.abstractmethod
    def critic_parameters(self) -> list[nn.Parameter]:
        """Return the weights that serve the critic alone."""

    def actor_parameters(self) -> list[nn.Parameter]:
        """Return all other weights: the actor's, and the weights that both share."""
        own = {id(parameter) for parameter in self.critic_parameters()}
        return [parameter for parameter in self.parameters() if id(parameter) not in own]

    def by_atoms(self, numbers: Tensor) -> Tensor:
        """Return numbers whose last axis holds all atoms of several actions with an axis of its own for the atoms.

        ``(..., k * n_atoms)`` becomes ``(..., k, n_atoms)``, or stays as it is if there is one atom.
        """
        return numbers if self.n_atoms == 1 else numbers.reshape(*numbers.shape[:-1], -1, self.n_atoms)

    def without_axis(self, numbers: Tensor) -> Tensor:
        """Return numbers, shape ``(..., n_atoms)``, without their last axis if there is one atom."""
        return numbers.squeeze(-1) if self.n_atoms == 1 else numbers

    @torch.no_grad()
    def copy_from(self, other: ActorCritic, share: float = 1.0) -> None:
        """Move the weights by a share (0 to 1) of the distance to those of another network; 1 copies them."""
        portable.move_towards(list(self.parameters()), list(other.parameters()), share)
