"""A network behind running statistics of observations, as `VecNormalize` of Stable-Baselines3 keeps them."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from hdrl.learn.networks.base import ActorCritic


class NormalizedActorCritic(ActorCritic):
    """A network whose observations are ``clip((observation - mean) / deviation, -bound, bound)``.

    The three are part of its weights and never learned. At first they change nothing.
    """

    is_portable = True
    mean: Tensor
    deviation: Tensor
    bound: Tensor

    def __init__(self, network: ActorCritic, observation_shape: tuple[int, ...]) -> None:
        super().__init__()
        self.network = network
        self.has_critic, self.n_atoms, self.is_parted = network.has_critic, network.n_atoms, network.is_parted
        # In double precision, as NumPy computes them.
        self.register_buffer("mean", torch.zeros(observation_shape, dtype=torch.float64))
        self.register_buffer("deviation", torch.ones(observation_shape, dtype=torch.float64))
        self.register_buffer("bound", torch.tensor(torch.inf, dtype=torch.float64))

    def normalized(self, observations: Tensor) -> Tensor:
        """Return the normalised observations, float32."""
        return ((observations.double() - self.mean) / self.deviation).clamp(-self.bound, self.bound).float()

    def logits(self, observations: Tensor, mask: Tensor | None) -> Tensor:
        """Return a number for each action."""
        return self.network.logits(self.normalized(observations), mask)

    def values(self, observations: Tensor, mask: Tensor | None) -> Tensor:
        """Return a number for each observation."""
        return self.network.values(self.normalized(observations), mask)

    def both(self, observations: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        """Return both, as the network computes them."""
        return self.network.both(self.normalized(observations), mask)

    def apart(
        self, observations: Tensor, mask: Tensor | None, index: Tensor
    ) -> tuple[Callable[[], Tensor], Callable[[], Tensor]]:
        """Return functions that compute both apart."""
        return self.network.apart(self.normalized(observations), mask, index)

    def critic_parameters(self) -> list[nn.Parameter]:
        """Return the weights that serve the critic alone."""
        return self.network.critic_parameters()
