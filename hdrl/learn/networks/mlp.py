"""Fully connected networks over the whole observation, HDeepRM's among them."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from hdrl.base.plainnet import PlainActor
from hdrl.learn.config import Activation
from hdrl.learn.masking import mask_logits
from hdrl.learn.networks.base import ActorCritic
from hdrl.learn.networks.layers import POLICY_GAIN, VALUE_GAIN, mlp, plain_layers


class MlpActorCritic(ActorCritic):
    """Two fully connected networks, which may share their first layers.

    ========  ===========================  ========================================
    part      input                        output
    ========  ===========================  ========================================
    trunk     all numbers of observation   ``hidden[-1]``, if shared
    actor     the same, or the trunk's     ``n_actions * n_atoms``
    critic    the same, or the trunk's     ``n_atoms``
    ========  ===========================  ========================================

    Parameters
    ----------
    hidden
        Units of the layers of the trunk, or of the first layers of both networks.
    heads
        Units of the layers that follow, apart for each network.
    has_plain_init
        True if torch's own first weights are used, as HDeepRM does, instead of orthogonal ones.
    """

    is_portable = True

    def __init__(
        self,
        observation_shape: tuple[int, ...],
        n_actions: int,
        generator: torch.Generator,
        *,
        hidden: tuple[int, ...] = (64, 64),
        heads: tuple[int, ...] = (),
        activation: Activation = "relu",
        is_shared: bool = False,
        has_critic: bool = True,
        has_plain_init: bool = False,
        n_atoms: int = 1,
    ) -> None:
        super().__init__()
        sizes = (math.prod(observation_shape), *hidden)
        self.has_critic, self.n_atoms, self.is_parted = has_critic, n_atoms, not is_shared
        self.trunk = nn.Sequential()
        if is_shared:
            self.trunk = mlp(sizes, generator, activation, is_open=True, has_plain_init=has_plain_init)
            sizes = sizes[-1:]

        def network(n_out: int, gain: float) -> nn.Sequential:
            whole = (*sizes, *heads, n_out)
            return mlp(whole, generator, activation, last_gain=gain, has_plain_init=has_plain_init)

        self.actor = network(n_actions * n_atoms, POLICY_GAIN)
        self.critic = network(n_atoms, VALUE_GAIN) if has_critic else nn.Sequential()

    def logits(self, observations: Tensor, mask: Tensor | None) -> Tensor:
        """Return a number for each action."""
        return mask_logits(self.by_atoms(self.actor(self.trunk(observations.flatten(1)))), mask)

    def values(self, observations: Tensor, mask: Tensor | None) -> Tensor:
        """Return a number for each observation."""
        del mask
        return self.without_axis(self.critic(self.trunk(observations.flatten(1))))

    def both(self, observations: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        """Return both, passing the trunk once."""
        shared = self.trunk(observations.flatten(1))
        return mask_logits(self.by_atoms(self.actor(shared)), mask), self.without_axis(self.critic(shared))

    def plain_actor(self) -> PlainActor | None:
        """Return the actor in plain numbers."""
        layers = plain_layers([*self.trunk, *self.actor])
        return None if layers is None or self.n_atoms != 1 else PlainActor(layers)

    def critic_parameters(self) -> list[nn.Parameter]:
        """Return the weights that serve the critic alone."""
        return list(self.critic.parameters())
