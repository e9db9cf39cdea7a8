"""REINFORCE: the policy gradient from the returns of whole episodes, with an optional baseline.

Williams, "Simple Statistical Gradient-Following Algorithms for Connectionist Reinforcement Learning", Machine
Learning 8, 1992. The presets ``hdeeprm_reinforce`` and ``hdeeprm_actor_critic`` follow the example agents of HDeepRM.

Differences from the paper, with reasons:

1. Returns are standardised over the batch, as HDeepRM does, so that the learning rate does not depend on the unit of
   the reward.
2. The baseline, if any, is a critic that learns the standardised returns by a smooth L1 loss, as in HDeepRM's
   actor-critic.
3. The loss is a mean over steps, not a sum, so that long episodes do not take larger steps.
4. The same number of episodes is taken from each environment; an episode that was cut off counts no later rewards.
"""

from __future__ import annotations

from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional

from hdrl.learn import portable
from hdrl.learn.advantages import discounted_returns, standardise
from hdrl.learn.config import NetworkConfig
from hdrl.learn.memory import Memory
from hdrl.learn.policy import ActorCriticAgent, adam, step_clipped
from hdrl.learn.rollout import Episodes, Steps
from hdrl.options.numbers import Coefficient, Few, LearningRate, Positive, Share

CHUNK = 8192
"""Steps whose gradients are computed at once; those of a long batch are summed up over chunks."""


class ReinforceConfig(NetworkConfig):
    """Settings of REINFORCE."""

    n_episodes: Few = Field(default=1, description="Episodes of each environment in a batch; usual 1 to 10, HDeepRM 1.")
    lr: LearningRate = Field(default=1e-3, description="Learning rate (Adam); usual 1e-4 to 1e-2.")
    value_lr: LearningRate | None = Field(default=None, description="Learning rate of the baseline; null: the same.")
    gamma: Share = Field(default=0.99, description="Discount of later rewards; usual 0.9 to 1.")
    is_standardised: bool = Field(default=True, description="True if the returns of a batch are standardised.")
    has_baseline: bool = Field(default=False, description="True if a critic's estimate is taken off the returns.")
    entropy_coef: Coefficient = Field(
        default=0.0, description="Weight of the entropy in the objective; usual 0 to 0.02."
    )
    value_coef: Annotated[float, Field(ge=0, le=100)] = Field(
        default=1.0, description="Weight of the baseline's loss; usual 0.5 to 1."
    )
    max_grad_norm: Positive | None = Field(
        default=None, description="Largest norm of the gradient; usual 0.5 to 10; null: any."
    )


class Reinforce(ActorCriticAgent):
    """The policy gradient from whole episodes."""

    Config = ReinforceConfig
    is_portable = True
    config: ReinforceConfig

    @property
    def has_critic(self) -> bool:
        """True if there is a baseline."""
        return self.config.has_baseline

    def make_optimizers(self) -> dict[str, torch.optim.Optimizer]:
        """Return Adam."""
        return {"adam": adam(self.network, self.config.lr, self.config.value_lr)}

    def memory(self, n_envs: int) -> Memory:
        """Return a memory of whole episodes."""
        del n_envs
        return Episodes(self.config.n_episodes)

    def learn(self, batch: Steps) -> dict[str, float]:
        """Make one step of gradient descent on whole episodes."""
        returns = discounted_returns(batch.rewards, batch.terminated, batch.truncated, self.config.gamma)
        if self.config.is_standardised:
            returns = standardise(returns, batch.valid)
        index = batch.valid.flatten().nonzero().squeeze(-1)
        targets = returns.flatten()
        self.optimizers["adam"].zero_grad()
        sums: dict[str, float] = {}
        for part in torch.split(index, CHUNK):
            share = len(part) / len(index)
            for name, value in self._accumulate(batch, part, targets[part], share).items():
                sums[name] = sums.get(name, 0.0) + share * value
        step_clipped(self.optimizers["adam"], self.config.max_grad_norm)
        self.n_updates += 1
        return sums

    def _accumulate(self, batch: Steps, part: Tensor, returns: Tensor, share: float) -> dict[str, float]:
        """Add the gradients of some steps, and return their losses."""
        config = self.config
        observations, masks, actions = batch.flat()
        seen = observations.index_select(0, part)
        legal = None if masks is None else masks.index_select(0, part)
        if config.has_baseline:
            logits, values = self.network.both(seen, legal)
            advantages = returns - values.detach()
            value_loss = portable.mean(functional.smooth_l1_loss(values, returns, reduction="none"))
        else:
            logits, advantages = self.network.logits(seen, legal), returns
            value_loss = logits.new_zeros(())
        log_probs, entropies = portable.choose(logits, actions.index_select(0, part))
        policy_loss = -portable.mean(log_probs * advantages)
        entropy = portable.mean(entropies)
        loss = policy_loss + config.value_coef * value_loss - config.entropy_coef * entropy
        (share * loss).backward()  # type: ignore[no-untyped-call]
        losses = {"policy_loss": float(policy_loss.detach()), "entropy": float(entropy.detach())}
        return {**losses, "value_loss": float(value_loss.detach())} if config.has_baseline else losses
