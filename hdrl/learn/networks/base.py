"""What every pair of actor and critic offers to the algorithms."""

from __future__ import annotations

import abc

import torch
from torch import Tensor, nn


class ActorCritic(nn.Module, abc.ABC):
    """One number for each action (the actor), and one for the whole observation (the critic).

    What the numbers mean is for the algorithm to say: logits and a state value, or the advantages and the value of a
    dueling network. The critic is absent where the algorithm needs none.

    Attributes
    ----------
    has_critic
        Whether there is a critic.
    """

    has_critic: bool

    @abc.abstractmethod
    def logits(self, observations: Tensor, mask: Tensor | None) -> Tensor:
        """Return a number for each action, shape ``(n, n_actions)``; those of illegal actions are `masking.ILLEGAL`.

        Parameters
        ----------
        observations
            Shape ``(n, *observation_shape)``, float32.
        mask
            Which actions are legal, shape ``(n, n_actions)``, bool; ``None``: all of them.
        """

    @abc.abstractmethod
    def values(self, observations: Tensor, mask: Tensor | None) -> Tensor:
        """Return a number for each observation, shape ``(n,)``.

        Parameters
        ----------
        observations, mask
            As in `logits`.
        """

    def both(self, observations: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        """Return `logits` and `values`, computing only once what they share.

        Parameters
        ----------
        observations, mask
            As in `logits`.
        """
        return self.logits(observations, mask), self.values(observations, mask)

    @abc.abstractmethod
    def critic_parameters(self) -> list[nn.Parameter]:
        """Return the weights that serve the critic alone."""

    def actor_parameters(self) -> list[nn.Parameter]:
        """Return all other weights: those of the actor, and those that both share."""
        own = {id(parameter) for parameter in self.critic_parameters()}
        return [parameter for parameter in self.parameters() if id(parameter) not in own]

    @torch.no_grad()
    def copy_from(self, other: ActorCritic, share: float = 1.0) -> None:
        """Move the weights towards those of another network of the same kind.

        Parameters
        ----------
        other
            Where to.
        share
            How far, 0 to 1; 1 copies them.
        """
        mine: list[Tensor] = list(self.parameters())
        theirs: list[Tensor] = list(other.parameters())
        if share >= 1.0:
            torch._foreach_copy_(mine, theirs)
        else:
            torch._foreach_lerp_(mine, theirs, share)
