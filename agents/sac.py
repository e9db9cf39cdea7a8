"""SAC for discrete actions: maximum entropy learning with twin critics and a temperature that is learned.

Haarnoja et al., "Soft Actor-Critic Algorithms and Applications", 2018; Christodoulou, "Soft Actor-Critic for Discrete
Action Settings", 2019.

Differences from the papers, with reasons:

1. Expectations over actions are sums over the legal ones; the target of the entropy is a share of the largest entropy
   that the legal actions of each observation allow, not of all actions.
2. The loss of the temperature weighs each action by its probability, as Christodoulou's equation 11 has it.
3. An episode that was cut off counts the value of its last observation.
"""

from __future__ import annotations

import math
from typing import Any

import gymnasium as gym
import torch
from pydantic import Field
from torch import Tensor, nn

from hdrl.learn import portable
from hdrl.learn.config import ReplayConfig
from hdrl.learn.masking import entropy_of, log_prob_of
from hdrl.learn.memory import Memory
from hdrl.learn.networks import ActorCritic
from hdrl.learn.policy import ActorCriticAgent, network_of, step_down
from hdrl.learn.replay import Replay, Transitions
from hdrl.options.numbers import Few, LearningRate, Positive, PositiveShare, Share


class SACConfig(ReplayConfig):
    """Settings of discrete SAC."""

    lr: LearningRate = Field(default=5e-4, description="Learning rate of the actor (Adam); usual 1e-4 to 1e-3.")
    value_lr: LearningRate | None = Field(default=None, description="Learning rate of the critics; null: the same.")
    alpha_lr: LearningRate | None = Field(
        default=None, description="Learning rate of the temperature; null: the actor's."
    )
    alpha: Positive = Field(
        default=0.2, description="Temperature: what a nat of entropy is worth; at first, if it is learned."
    )
    is_alpha_learned: bool = Field(default=True, description="True if the temperature is learned.")
    target_entropy: Share = Field(
        default=0.5,
        description="Share of the largest possible entropy that is aimed at; usual 0.1 to 0.98, the papers 0.98.",
    )
    tau: PositiveShare = Field(
        default=0.01, description="Share of the critics' weights that is copied at each batch; usual 0.001 to 0.01."
    )
    actor_every: Few = Field(default=1, description="Batches between two updates of the actor; usual 1 to 2.")
    max_grad_norm: Positive | None = Field(
        default=None, description="Largest norm of the gradient; usual 1 to 10; null: any."
    )


class SAC(ActorCriticAgent):
    """Soft actor-critic with discrete actions."""

    Config = SACConfig
    is_portable = True
    has_critic = False
    config: SACConfig

    def __init__(
        self,
        observation_space: gym.Space[Any],
        action_space: gym.Space[Any],
        config: SACConfig | None = None,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__(observation_space, action_space, config, generator)
        self.critics = [network_of(self, has_critic=False) for _ in range(2)]
        self.targets = [network_of(self, has_critic=False) for _ in range(2)]
        self._move_targets(1.0)
        self.log_alpha = nn.Parameter(torch.tensor(math.log(self.config.alpha)))
        critics, targets = nn.ModuleList(self.critics), nn.ModuleList(self.targets).requires_grad_(requires_grad=False)
        temperature = nn.ParameterDict({"log_alpha": self.log_alpha})
        self.modules.update(critics=critics, targets=targets, temperature=temperature)

    def make_optimizers(self) -> dict[str, torch.optim.Optimizer]:
        """Return Adam for each of the three, with rates of their own."""
        config, modules = self.config, self.modules
        rates = {
            "actor": (self.network, config.lr),
            "critics": (modules["critics"], config.value_lr or config.lr),
            "temperature": (modules["temperature"], config.alpha_lr or config.lr),
        }
        return {name: portable.Adam(module.parameters(), lr) for name, (module, lr) in rates.items()}

    def memory(self, n_envs: int) -> Memory:
        """Return a replay buffer."""
        return Replay.of(self.config, n_envs, self.generator)

    @property
    def alpha(self) -> float:
        """The temperature now."""
        return math.exp(float(self.log_alpha.detach()))

    def learn(self, batch: Transitions) -> dict[str, float]:
        """Make one step of critics, actor and temperature on a batch of transitions."""
        logged = self._learn_critics(batch)
        self.n_updates += 1
        if self.n_updates % self.config.actor_every == 0:
            logged |= self._learn_actor(batch)
        self._move_targets(self.config.tau)
        return {**logged, "alpha": self.alpha, "reward_scale": batch.scale}

    def _learn_critics(self, batch: Transitions) -> dict[str, float]:
        with torch.no_grad():
            log_probs = portable.log_softmax(self.network.logits(batch.next_observations, batch.next_masks))
            worth = self._smaller(self.targets, batch.next_observations, batch.next_masks)
            targets = batch.returns + batch.discounts * self._expected(log_probs, worth)
        loss = targets.new_zeros(())
        for critic in self.critics:
            values = log_prob_of(critic.logits(batch.observations, batch.masks), batch.actions)
            loss = loss + portable.mean((values - targets).square())
        self._descend("critics", loss)
        return {"value_loss": float(loss.detach()) / 2.0, "mean_value": float(portable.mean(targets))}

    def _learn_actor(self, batch: Transitions) -> dict[str, float]:
        log_probs = portable.log_softmax(self.network.logits(batch.observations, batch.masks))
        with torch.no_grad():
            worth = self._smaller(self.critics, batch.observations, batch.masks)
        loss = -portable.mean(self._expected(log_probs, worth))
        entropies = entropy_of(log_probs.detach())
        self._descend("actor", loss)
        if self.config.is_alpha_learned:
            missing = entropies - self.config.target_entropy * self._largest_entropies(batch)
            self._descend("temperature", self.log_alpha * portable.mean(missing))
        return {"policy_loss": float(loss.detach()), "entropy": float(portable.mean(entropies))}

    def _expected(self, log_probs: Tensor, worth: Tensor) -> Tensor:
        """Return the mean worth of actions, and of the entropy of their choice, shape ``(n,)``."""
        return portable.sum(portable.exp(log_probs) * (worth - self.alpha * log_probs), -1)

    def _largest_entropies(self, batch: Transitions) -> Tensor:
        if batch.masks is None:
            return batch.returns.new_full((len(batch.actions),), math.log(self.n_actions))
        return portable.log(batch.masks.sum(-1).float())

    def _descend(self, name: str, loss: Tensor) -> None:
        step_down(self.optimizers[name], loss, self.config.max_grad_norm)

    @staticmethod
    def _smaller(critics: list[ActorCritic], observations: Tensor, mask: Tensor | None) -> Tensor:
        """Return the smaller of both critics' values of each action; 0 for illegal ones, which have no probability."""
        values = torch.minimum(*(critic.logits(observations, mask) for critic in critics))
        return values if mask is None else values.masked_fill(~mask, 0.0)

    def _move_targets(self, share: float) -> None:
        for target, critic in zip(self.targets, self.critics, strict=True):
            target.copy_from(critic, share)
