"""PPO: proximal policy optimisation with a clipped objective, masked actions, and advantages by GAE.

Schulman et al., "Proximal Policy Optimization Algorithms", 2017; Huang and Ontañón, "A Closer Look at Invalid Action
Masking in Policy Gradient Algorithms", FLAIRS 2022. The preset ``rlscheduler`` has the settings of Zhang et al.,
"RLScheduler", SC 2020.

Differences from the paper, with reasons:

1. The learning rates of actor and critic may differ, as in RLScheduler and Spinning Up.
2. An update ends early when the policy has moved too far (``target_kl``, also from Spinning Up); where actor and
   critic share no weights, the critic learns on to the last epoch.
3. Advantages are standardised over the whole batch, not over each minibatch, so that the size of minibatches does not
   change them.
4. An episode that was cut off counts the value of its last observation, one that ended by itself counts none.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Annotated, ClassVar, NamedTuple

import torch
from pydantic import Field
from torch import Tensor

from hdrl.learn import portable
from hdrl.learn.advantages import explained_variance, standardise
from hdrl.learn.agent import Descent
from hdrl.learn.config import ValueConfig
from hdrl.learn.memory import Memory
from hdrl.learn.policy import ActorCriticAgent, adam, descend, send_back, step_clipped
from hdrl.learn.rollout import Rollout, Steps
from hdrl.learn.scaling import scale_of
from hdrl.options.numbers import Coefficient, Count, LearningRate, Positive, Share

KL_TOLERANCE = 1.5
"""By how much the estimated divergence may exceed its target before an update ends; the factor of Spinning Up."""


class PPOConfig(ValueConfig):
    """Settings of PPO."""

    newer_keys: ClassVar[tuple[str, ...]] = ("lr_iterations",)

    n_steps: Count = Field(default=128, description="Steps of each environment in a batch; usual 32 to 2048.")
    n_epochs: Annotated[int, Field(ge=1, le=10_000)] = Field(
        default=4, description="Number of passes over each batch; usual 3 to 30, RLScheduler 80."
    )
    minibatch_size: Count | None = Field(
        default=512, description="Steps in a minibatch; usual 64 to 4096; null: the whole batch at once."
    )
    lr: LearningRate = Field(default=3e-4, description="Learning rate (Adam); usual 1e-4 to 1e-3.")
    value_lr: LearningRate | None = Field(
        default=None, description="Learning rate of the critic; null: the same; RLScheduler 1e-3."
    )
    lr_iterations: Count | None = Field(
        default=None, description="Iterations in which the learning rates fall linearly to 0; null: they stay."
    )
    gae_lambda: Share = Field(default=0.95, description="Weight of longer advantage estimates; usual 0.9 to 1.")
    clip: Annotated[float, Field(gt=0, le=10)] = Field(
        default=0.2, description="Largest rewarded distance of the probability ratio from 1; usual 0.1 to 0.3."
    )
    target_kl: Annotated[float, Field(gt=0, le=100)] | None = Field(
        default=None, description="Divergence from the old policy beyond which an update ends; usual 0.005 to 0.05."
    )
    entropy_coef: Coefficient = Field(
        default=0.0, description="Weight of the entropy in the objective; usual 0 to 0.02."
    )
    value_coef: Annotated[float, Field(ge=0, le=100)] = Field(
        default=0.5, description="Weight of the critic's loss; usual 0.25 to 1."
    )
    max_grad_norm: Positive | None = Field(
        default=0.5, description="Largest norm of the gradient; usual 0.5 to 10; null: any."
    )


class Sample(NamedTuple):
    """Training data of ``n`` steps beside observations; each of shape ``(n,)``."""

    actions: Tensor
    log_probs: Tensor
    advantages: Tensor
    returns: Tensor

    def at(self, index: Tensor) -> Sample:
        """Return some of the steps."""
        return Sample(*(column.index_select(0, index) for column in self))


class Batch(NamedTuple):
    """The steps of a rollout, in one axis."""

    observations: Tensor  # shape ``(n, *observation_shape)``
    masks: Tensor | None  # shape ``(n, n_actions)``, or ``None``
    sample: Sample  # training data
    values: Tensor  # expectation of the critic, shape ``(n,)``
    valid: Tensor  # indices of the steps to learn from, int64


Logged = dict[str, Tensor]
"""Values for the log, by name."""


class PPO(ActorCriticAgent):
    """Proximal policy optimisation."""

    Config = PPOConfig
    is_portable = True
    n_gradients = "many"
    config: PPOConfig

    def make_optimizers(self) -> dict[str, torch.optim.Optimizer]:
        """Return Adam."""
        return {"adam": adam(self.network, self.config.lr, self.config.value_lr)}

    def memory(self, n_envs: int) -> Memory:
        """Return a rollout of ``n_steps`` steps of each environment."""
        del n_envs
        return Rollout(self.config.n_steps, scale_of(self.config))

    def learn(self, batch: Steps) -> dict[str, float]:
        """Learn from a rollout."""
        return descend(self.gradients(batch))

    def imitate(self, batch: Steps) -> dict[str, float]:
        """Make the actions of a rollout likely, which another policy chose, and learn their values.

        The loss is the mean of -log p(action), that of the critic is as in `learn`. ``agreement`` is how often the most
        probable action is the other's.
        """

        def imitation_loss(logits: Tensor, sample: Sample, logged: Logged) -> Tensor:
            loss = -portable.mean(portable.choose(logits, sample.actions).log_probs)
            logged["imitation_loss"] = loss.detach()
            logged["agreement"] = portable.mean(logits.detach().argmax(-1) == sample.actions)
            return loss

        steps, log = self._batch(batch), _Log()
        for _ in range(self.config.n_epochs):
            for index in self._minibatches(steps):
                logged = self._send_back(steps, index, imitation_loss)
                step_clipped(self.optimizers["adam"], self.config.max_grad_norm)
                log.add({name: logged[name] for name in ("imitation_loss", "value_loss", "agreement")})
        return log.means()

    def gradients(self, batch: Steps) -> Generator[Descent, None, dict[str, float]]:
        """Compute a gradient on every minibatch of every epoch."""
        self._lower_rates()
        steps, log = self._batch(batch), _Log()
        is_stopped, n_epochs = False, 0
        for _ in range(self.config.n_epochs):
            if is_stopped and self.config.is_shared:
                break
            for index in self._minibatches(steps):
                logged = self._send_back(steps, index, None if is_stopped else self._policy_loss)
                log.add(logged)
                if is_stopped or "policy_loss" in logged:
                    yield Descent(self.optimizers["adam"], self.config.max_grad_norm)
                else:
                    is_stopped = True
            n_epochs += not is_stopped
        self.n_updates += 1
        values, returns = steps.values[steps.valid], steps.sample.returns[steps.valid]
        return {
            **log.means(),
            "n_epochs": float(n_epochs),
            "explained_variance": explained_variance(values, returns),
            "reward_scale": batch.scale,
        }

    def _lower_rates(self) -> None:
        """Set the learning rates of this iteration, if they fall."""
        if self.config.lr_iterations is None:
            return
        left = max(0.0, 1.0 - self.n_updates / self.config.lr_iterations)
        firsts = (self.config.lr, self.config.lr if self.config.value_lr is None else self.config.value_lr)
        for group, first in zip(self.optimizers["adam"].param_groups, firsts, strict=False):
            group["lr"] = first * left

    def _batch(self, steps: Steps) -> Batch:
        """Return steps with their advantages and returns."""
        observations, masks, actions = steps.flat()
        values = self.values(observations, masks).view(steps.rewards.shape)
        advantages = steps.advantages(values, self.values, self.config.gamma, self.config.gae_lambda)
        returns = advantages + values
        advantages = standardise(advantages, steps.valid)
        sample = Sample(actions, steps.stored["log_prob"].flatten(), advantages.flatten(), returns.flatten())
        return Batch(observations, masks, sample, values.flatten(), steps.valid.flatten().nonzero().squeeze(-1))

    def _minibatches(self, batch: Batch) -> tuple[Tensor, ...]:
        """Return the steps of each minibatch of an epoch, int64."""
        n, size = len(batch.valid), self.config.minibatch_size
        order = torch.randperm(n, generator=self.generator).to(self.device)
        return torch.split(batch.valid[order], n if size is None else min(size, n))

    def _policy_loss(self, logits: Tensor, sample: Sample, logged: Logged) -> Tensor | None:
        """Return the loss of the actor; ``None`` if learning is to stop."""
        config = self.config
        log_probs, entropies = portable.choose(logits, sample.actions)
        log_ratio = log_probs - sample.log_probs
        with torch.no_grad():
            kl = portable.mean(portable.expm1(log_ratio) - log_ratio)
        if config.target_kl is not None and float(kl) > KL_TOLERANCE * config.target_kl:
            logged["approx_kl"] = kl
            return None
        ratio = portable.exp(log_ratio)
        clipped = ratio.clamp(1.0 - config.clip, 1.0 + config.clip)
        policy_loss = -portable.mean(torch.minimum(ratio * sample.advantages, clipped * sample.advantages))
        with torch.set_grad_enabled(config.entropy_coef > 0.0):
            entropy = portable.mean(entropies)
        logged["policy_loss"], logged["entropy"], logged["approx_kl"] = policy_loss.detach(), entropy.detach(), kl
        logged["clip_fraction"] = portable.mean((ratio.detach() - 1.0).abs() > config.clip)
        return policy_loss - config.entropy_coef * entropy

    def _send_back(
        self, batch: Batch, index: Tensor, actor_loss: Callable[[Tensor, Sample, Logged], Tensor | None] | None
    ) -> Logged:
        """Compute the gradients on a minibatch; return what is worth logging."""
        sample = batch.sample.at(index)
        of_actor: Logged = {}
        of_critic: Logged = {}

        def value_loss(values: Tensor) -> Tensor:
            loss = 0.5 * portable.mean((values - sample.returns).square())
            of_critic["value_loss"] = loss.detach()
            return 2.0 * self.config.value_coef * loss

        self.optimizers["adam"].zero_grad()
        of_logits = None if actor_loss is None else lambda logits: actor_loss(logits, sample, of_actor)
        goes_on = send_back(self.network, (batch.observations, batch.masks), index, of_logits, value_loss)
        return of_actor | of_critic if goes_on else of_actor


class _Log:
    """Means over minibatches, kept as tensors until the end so that nothing waits for them."""

    def __init__(self) -> None:
        self._parts: dict[str, list[Tensor]] = {}

    def add(self, parts: Logged) -> None:
        for name, part in parts.items():
            self._parts.setdefault(name, []).append(part)

    def means(self) -> dict[str, float]:
        return {name: float(portable.mean(torch.stack(parts))) for name, parts in self._parts.items()}
