"""Advantage actor-critic in HDeepRM's API: actor and critic share their first layer."""

import torch
from torch import nn

from hdrl.compat.hdeeprm.bases import PolicyLearningAgent, ValueLearningAgent


def head(hidden: int, size: int) -> nn.Sequential:
    """Return three hidden layers and an output layer.

    Parameters
    ----------
    hidden
        Units of each hidden layer.
    size
        Units of the output layer.
    """
    layers: list[nn.Module] = []
    for _ in range(3):
        layers += [nn.Linear(hidden, hidden), nn.LeakyReLU()]
    return nn.Sequential(*layers, nn.Linear(hidden, size))


class ActorCritic(PolicyLearningAgent, ValueLearningAgent):
    """The actor learns from how much better it went than the critic had expected.

    Parameters
    ----------
    gamma, hidden
        Discount of later rewards, units of each hidden layer: from the options.
    action_size, observation_size
        From the environment.
    """

    def __init__(self, gamma: float, hidden: int, action_size: int, observation_size: int) -> None:
        super().__init__(gamma)
        self.input = nn.Sequential(nn.Linear(observation_size, hidden), nn.LeakyReLU())
        self.actor = head(hidden, action_size)
        self.critic = head(hidden, 1)

    def forward_policy(self, observation: torch.Tensor) -> torch.Tensor:
        """Return the probabilities of the actions, shape ``(1, action_size)``.

        Parameters
        ----------
        observation
            Shape ``(1, observation_size)``.
        """
        return torch.softmax(self.actor(self.input(observation)), dim=1)

    def forward_value(self, observation: torch.Tensor) -> torch.Tensor:
        """Return what is expected to come, shape ``(1, 1)``.

        Parameters
        ----------
        observation
            Shape ``(1, observation_size)``.
        """
        return self.critic(self.input(observation))

    def loss(self) -> torch.Tensor:
        """Return the sum of what actor and critic have to answer for."""
        returns = self.transform_rewards()
        advantages = [worth - value.item() for worth, value in zip(returns, self.values, strict=True)]
        return torch.stack(self.policy_loss(advantages)).sum() + torch.stack(self.value_loss(returns)).sum()
