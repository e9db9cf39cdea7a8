"""Adversarial imitation: a discriminator tells an agent's choices from an expert's, and pays for those of an expert.

At every decision of the agent the expert says what it would do in the same situation. The discriminator gives each
action a number, the logarithm of the odds that it is the expert's; it learns from both choices by logistic regression.
What the agent chose is paid by that number, which is 0 where the two cannot be distinguished, so that an agent gains
nothing by deciding more often.

J. Ho and S. Ermon, "Generative Adversarial Imitation Learning", NIPS 2016; the reward is that of J. Fu, K. Luo, S.
Levine, "Learning Robust Rewards with Adversarial Inverse Reinforcement Learning", ICLR 2018. For batch jobs, with a
pool of experts of which the best one is imitated: J. Li, X. Zhang, J. Wei, Z. Ji, Z. Wei, "GARLSched", Future
Generation Computer Systems 135, 2022.

Differences from GAIL, with reasons:

1. Experts choose in the situations of the agent instead of leaving trajectories of their own, since policies can
choose anywhere: the discriminator then compares choices, not the situations that either gets into.
2. Its rewards may fade: an agent that is always paid for imitation cannot become better than its experts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from hdrl.base.rowspace import n_per_row_of
from hdrl.learn import portable
from hdrl.learn.agent import Agent, fitting
from hdrl.learn.config import NetworkConfig
from hdrl.learn.masking import log_prob_of
from hdrl.learn.networks import build_network
from hdrl.learn.policy import CHUNK, step_down
from hdrl.learn.rollout import Steps
from hdrl.options.learning import AdversaryOptions

EXPERT = "expert"
"""The name under which the expert's actions are stored in a batch."""

MOST = 4.0
"""The largest log-odds that are paid for, on either side: 55 to 1. Beyond, no choices are distinguished any better."""

BATCH = 256
"""Steps in a batch of the discriminator."""


class Adversary:
    """A discriminator that learns beside an agent.

    Raise UnknownName if there is no such network, LearningError if the network cannot look at such observations.

    ``begins_after``: iterations of the training before its first.

    Attributes
    ----------
    network
        Its logits are the log-odds of the actions.
    """

    def __init__(
        self, agent: Agent, options: AdversaryOptions, generator: torch.Generator, *, begins_after: int = 0
    ) -> None:
        self.options, self.generator, self.begins_after = options, generator, begins_after
        self.network = build_network(
            _network_of(agent, options.network),
            agent.observation_shape,
            agent.n_actions,
            generator,
            has_critic=False,
            n_per_row=n_per_row_of(agent.action_space),
        )
        self.optimizer = portable.Adam(self.network.parameters(), options.lr)

    def weight(self, n_iterations: int) -> float:
        """Return the reward for a unit of log-odds, 0 before the first iteration and where it has faded."""
        n_own = n_iterations - self.begins_after
        if n_own < 0:
            return 0.0
        if self.options.iterations is None:
            return self.options.weight
        return self.options.weight * max(0.0, 1.0 - n_own / self.options.iterations)

    def pay(self, steps: Steps, weight: float) -> dict[str, float]:
        """Learn from a batch, add a reward for each choice, and return what is worth logging.

        ``discriminator_loss`` is the mean of softplus(-x) of the expert's and softplus(x) of the agent's choices, with
        x the log-odds: 1.39 where the network cannot distinguish them. ``expert_agreement`` is how often both choose
        the same, ``payment`` the mean reward added to a decision.

        - ``steps``: the batch; ``stored["expert"]`` holds the expert's actions, shape ``(n_steps, n_envs)``.
        - ``weight``: what is paid for a unit of log-odds.
        """
        observations, masks, actions = steps.flat()
        experts = steps.stored[EXPERT].flatten()
        index = steps.valid.flatten().nonzero().squeeze(-1)
        losses = []
        for _ in range(self.options.n_epochs):
            order = index[torch.randperm(len(index), generator=self.generator)]
            for part in torch.split(order, BATCH):
                mask = None if masks is None else masks[part]
                losses.append(self._learn(observations[part], mask, actions[part], experts[part]))
        paid = torch.zeros(len(actions))
        with torch.no_grad():
            for part in torch.split(index, CHUNK):
                odds = self.network.logits(observations[part], None if masks is None else masks[part])
                paid[part] = weight * log_prob_of(odds, actions[part]).clamp(-MOST, MOST)
        steps.rewards = steps.rewards + paid.view_as(steps.rewards)
        return {
            "discriminator_loss": float(portable.mean(torch.stack(losses))),
            "expert_agreement": float(portable.mean(actions[index] == experts[index])),
            "payment": float(portable.mean(paid[index])),
        }

    def _learn(self, observations: Tensor, mask: Tensor | None, actions: Tensor, experts: Tensor) -> Tensor:
        odds = self.network.logits(observations, mask)
        of_expert, of_agent = log_prob_of(odds, experts), log_prob_of(odds, actions)
        loss = portable.mean(portable.softplus(-of_expert) + portable.softplus(of_agent))
        step_down(self.optimizer, loss)
        return loss.detach()

    def state_dict(self) -> dict[str, Any]:
        """Return the whole state, from which `load_state_dict` continues."""
        return {
            "network": self.network.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "generator": self.generator.get_state(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over what `state_dict` returned; raise LearningError if it does not fit."""
        with fitting("the discriminator"):
            self.network.load_state_dict(state["network"])
            self.optimizer.load_state_dict(state["optimizer"])
            self.generator.set_state(state["generator"])


def _network_of(agent: Agent, name: str | None) -> NetworkConfig:
    """Return the settings of a discriminator's network."""
    if name is not None:
        return NetworkConfig(network=name)
    is_table = len(agent.observation_shape) == 2 and n_per_row_of(agent.action_space) == 1
    if is_table:
        return NetworkConfig(network="attention")
    return NetworkConfig(network=str(getattr(agent.config, "network", "mlp")))
