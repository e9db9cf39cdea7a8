"""A2C: advantage actor-critic, the synchronous form of A3C.

Mnih et al., "Asynchronous Methods for Deep Reinforcement Learning", ICML 2016.

Differences from the paper, with reasons:

1. Environments are stepped together instead of by asynchronous workers: the same seed gives the same weights.
2. Adam instead of RMSProp, and advantages by GAE; ``gae_lambda = 1`` gives the n-step returns of the paper.
3. Actions are masked; an episode that was cut off counts the value of its last observation.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Annotated

import torch
from pydantic import Field

from hdrl.learn import portable
from hdrl.learn.advantages import explained_variance, standardise
from hdrl.learn.agent import Descent
from hdrl.learn.config import ValueConfig
from hdrl.learn.memory import Memory
from hdrl.learn.policy import ActorCriticAgent, adam, descend
from hdrl.learn.rollout import Rollout, Steps
from hdrl.learn.scaling import scale_of
from hdrl.options.numbers import Coefficient, Count, LearningRate, Positive, Share


class A2CConfig(ValueConfig):
    """Settings of A2C."""

    n_steps: Count = Field(default=16, description="Steps of each environment in a batch; usual 5 to 128.")
    lr: LearningRate = Field(default=7e-4, description="Learning rate (Adam); usual 1e-4 to 1e-2.")
    value_lr: LearningRate | None = Field(default=None, description="Learning rate of the critic; null: the same.")
    gae_lambda: Share = Field(default=1.0, description="Weight of longer advantage estimates; 1: n-step returns.")
    is_standardised: bool = Field(default=False, description="True if the advantages of a batch are standardised.")
    entropy_coef: Coefficient = Field(
        default=0.01, description="Weight of the entropy in the objective; usual 0 to 0.02."
    )
    value_coef: Annotated[float, Field(ge=0, le=100)] = Field(
        default=0.5, description="Weight of the critic's loss; usual 0.25 to 1."
    )
    max_grad_norm: Positive | None = Field(
        default=0.5, description="Largest norm of the gradient; usual 0.5 to 10; null: any."
    )


class A2C(ActorCriticAgent):
    """Advantage actor-critic."""

    Config = A2CConfig
    is_portable = True
    n_gradients = "one"
    config: A2CConfig

    def make_optimizers(self) -> dict[str, torch.optim.Optimizer]:
        """Return Adam."""
        return {"adam": adam(self.network, self.config.lr, self.config.value_lr)}

    def memory(self, n_envs: int) -> Memory:
        """Return a rollout of ``n_steps`` steps of each environment."""
        del n_envs
        return Rollout(self.config.n_steps, scale_of(self.config))

    def learn(self, batch: Steps) -> dict[str, float]:
        """Make one step of gradient descent on a rollout."""
        return descend(self.gradients(batch))

    def gradients(self, batch: Steps) -> Generator[Descent, None, dict[str, float]]:
        """Compute the gradient on a rollout."""
        config = self.config
        observations, masks, actions = batch.flat()
        logits, flat_values = self.network.both(observations, masks)
        values = flat_values.detach().view(batch.rewards.shape)
        advantages = batch.advantages(values, self.values, config.gamma, config.gae_lambda)
        valid = batch.valid.flatten()
        returns = (advantages + values).flatten()[valid]
        if config.is_standardised:
            advantages = standardise(advantages, batch.valid)
        log_probs, entropies = portable.choose(logits, actions)
        policy_loss = -portable.mean((log_probs * advantages.flatten())[valid])
        value_loss = 0.5 * portable.mean((flat_values[valid] - returns).square())
        entropy = portable.mean(entropies[valid])
        loss = policy_loss + 2.0 * config.value_coef * value_loss - config.entropy_coef * entropy
        self.optimizers["adam"].zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        yield Descent(self.optimizers["adam"], config.max_grad_norm)
        self.n_updates += 1
        return {
            "policy_loss": float(policy_loss.detach()),
            "value_loss": float(value_loss.detach()),
            "entropy": float(entropy.detach()),
            "explained_variance": explained_variance(values.flatten()[valid], returns),
            "reward_scale": batch.scale,
        }
