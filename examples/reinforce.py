"""REINFORCE in HDeepRM's API: a network that says how likely each policy pair should be."""

from itertools import pairwise

import torch
from torch import nn

from hdrl.compat.hdeeprm.bases import PolicyLearningAgent


class Reinforce(PolicyLearningAgent):
    """Four hidden layers of the same width, leaky ReLU between them.

    Parameters
    ----------
    gamma, hidden
        Discount of later rewards, units of each hidden layer: from the options.
    action_size, observation_size
        From the environment.
    """

    def __init__(self, gamma: float, hidden: int, action_size: int, observation_size: int) -> None:
        super().__init__(gamma)
        widths = [observation_size, hidden, hidden, hidden, hidden]
        layers: list[nn.Module] = []
        for n_in, n_out in pairwise(widths):
            layers += [nn.Linear(n_in, n_out), nn.LeakyReLU()]
        self.actor = nn.Sequential(*layers, nn.Linear(hidden, action_size), nn.Softmax(dim=1))

    def forward_policy(self, observation: torch.Tensor) -> torch.Tensor:
        """Return the probabilities of the actions, shape ``(1, action_size)``.

        Parameters
        ----------
        observation
            Shape ``(1, observation_size)``.
        """
        return self.actor(observation)
