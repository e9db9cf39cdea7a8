"""DQN and its family: double, dueling, prioritised and n-step learning, each of which can be switched on.

Mnih et al., "Human-level control through deep reinforcement learning", Nature 518, 2015; van Hasselt et al., "Deep
Reinforcement Learning with Double Q-learning", AAAI 2016; Wang et al., "Dueling Network Architectures", ICML 2016;
Schaul et al., "Prioritized Experience Replay", ICLR 2016; n steps as in Hessel et al., "Rainbow", AAAI 2018. The
preset ``d3qn`` is double, dueling and prioritised.

What differs from the papers, and why:

1. The best next action, and the mean of the dueling advantages, are taken over legal actions alone.
2. Adam and a Huber loss instead of RMSProp and clipped errors, which is the same gradient clipping.
3. Importance weights multiply the loss of each transition before the mean is taken.
4. An episode that was cut off counts the value of its last observation; near the end of an episode or of the buffer,
   transitions go over fewer than n steps.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Annotated, Any

import gymnasium as gym
import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional

from hdrl.learn.agent import Acted, Agent, Descent
from hdrl.learn.config import ReplayConfig
from hdrl.learn.masking import ILLEGAL, log_prob_of, random_legal
from hdrl.learn.memory import Memory
from hdrl.learn.networks import ActorCritic, build_network
from hdrl.learn.policy import descend
from hdrl.learn.replay import Replay, Schedule, Transitions


class DQNConfig(ReplayConfig):
    """Settings of the DQN family."""

    is_double: bool = Field(
        default=False, description="Whether the next action is chosen by the learning network and judged by the other."
    )
    is_dueling: bool = Field(default=False, description="Whether values and advantages are learned apart.")
    is_prioritised: bool = Field(default=False, description="Whether surprising transitions are drawn more often.")
    n_return_steps: Annotated[int, Field(ge=1, le=1000)] = Field(
        default=1, description="Steps whose rewards are counted before a value is; usual 1 to 5."
    )
    lr: Annotated[float, Field(gt=0, le=10)] = Field(
        default=5e-4, description="Learning rate (Adam); usual 5e-5 to 1e-3."
    )
    target_every: Annotated[int, Field(ge=1, le=10**9)] = Field(
        default=200, description="Batches between two copies of the network that judges; usual 100 to 10,000."
    )
    tau: Annotated[float, Field(gt=0, le=1)] = Field(
        default=1.0, description="Share of the weights that is copied then; 1: all, usual otherwise 0.001 to 0.01."
    )
    epsilon_first: Annotated[float, Field(ge=0, le=1)] = Field(
        default=1.0, description="Share of random actions at first."
    )
    epsilon_last: Annotated[float, Field(ge=0, le=1)] = Field(
        default=0.05, description="Share of random actions at last; usual 0.01 to 0.1."
    )
    epsilon_steps: Annotated[int, Field(ge=0, le=10**12)] = Field(
        default=10_000, description="Environment steps from the first share to the last; usual a tenth of all."
    )
    alpha: Annotated[float, Field(ge=0, le=1)] = Field(
        default=0.6, description="Prioritised: how much errors count; usual 0.5 to 0.7."
    )
    beta_first: Annotated[float, Field(ge=0, le=1)] = Field(
        default=0.4, description="Prioritised: how much the weights make up for it at first; usual 0.4 to 0.6."
    )
    beta_updates: Annotated[int, Field(ge=0, le=10**12)] = Field(
        default=10_000, description="Prioritised: batches after which the weights make up for it wholly."
    )
    max_grad_norm: Annotated[float, Field(gt=0, le=10**6)] | None = Field(
        default=10.0, description="Largest norm of the gradient; usual 1 to 10; null: any."
    )


class DQN(Agent):
    """Deep Q-learning."""

    Config = DQNConfig
    n_gradients = "one"
    config: DQNConfig

    def __init__(
        self,
        observation_space: gym.Space[Any],
        action_space: gym.Space[Any],
        config: DQNConfig | None = None,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__(observation_space, action_space, config, generator)
        self.network = self._build()
        self.target = self._build()
        self.target.copy_from(self.network)
        self.target.requires_grad_(requires_grad=False)
        self.optimizer = torch.optim.Adam(self.network.parameters(), lr=self.config.lr, fused=True)
        self.modules.update(network=self.network, target=self.target)
        self.optimizers["adam"] = self.optimizer
        self.n_explored = 0
        self._epsilon = Schedule(self.config.epsilon_first, self.config.epsilon_last, self.config.epsilon_steps)

    def memory(self, n_envs: int) -> Memory:
        """Return a replay buffer."""
        config = self.config
        return Replay.of(
            config,
            n_envs,
            self.generator,
            n_steps=config.n_return_steps,
            alpha=config.alpha if config.is_prioritised else 0.0,
            beta=Schedule(config.beta_first, 1.0, config.beta_updates),
        )

    @property
    def epsilon(self) -> float:
        """The share of random actions now."""
        return self._epsilon.at(self.n_explored)

    def act(self, observations: Tensor, mask: Tensor | None, *, explore: bool) -> Acted:
        """Take the action of the highest value; while exploring, sometimes a random one."""
        with torch.inference_mode():
            best = self.action_values(self.network, observations, mask).argmax(-1)
            if not explore:
                return Acted(best, {})
            is_random = torch.rand(len(best), generator=self.generator) < self.epsilon
            self.n_explored += len(best)
            other = random_legal(self._legal(best, mask), self.generator)
            return Acted(torch.where(is_random, other, best), {})

    def probabilities(self, observations: Tensor, mask: Tensor | None) -> Tensor:
        """Return how likely each action is while training."""
        with torch.inference_mode():
            best = self.action_values(self.network, observations, mask).argmax(-1)
            legal = self._legal(best, mask).float()
            chances = self.epsilon * legal / legal.sum(-1, keepdim=True)
            return chances.scatter_add_(1, best.unsqueeze(-1), torch.full((len(best), 1), 1.0 - self.epsilon))

    def learn(self, batch: Transitions) -> dict[str, float]:
        """Make one step of gradient descent on a batch of transitions."""
        return descend(self.gradients(batch))

    def gradients(self, batch: Transitions) -> Generator[Descent, None, dict[str, float]]:
        """Compute the gradient on a batch of transitions."""
        values, targets = self._values_and_targets(batch)
        loss = (batch.weights * functional.smooth_l1_loss(values, targets, reduction="none")).mean()
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        yield Descent(self.optimizer, self.config.max_grad_norm)
        batch.errors = (values.detach() - targets).abs()
        self.n_updates += 1
        if self.n_updates % self.config.target_every == 0:
            self.target.copy_from(self.network, self.config.tau)
        return {
            "loss": float(loss.detach()),
            "mean_value": float(values.detach().mean()),
            "mean_error": float(batch.errors.mean()),
            "epsilon": self.epsilon,
            "reward_scale": batch.scale,
        }

    def errors(self, batch: Transitions) -> Tensor:
        """Return how far the values of transitions are from what they should be, shape ``(n,)``, without learning.

        Parameters
        ----------
        batch
            The transitions.
        """
        with torch.no_grad():
            values, targets = self._values_and_targets(batch)
            return (values - targets).abs()

    def _values_and_targets(self, batch: Transitions) -> tuple[Tensor, Tensor]:
        with torch.no_grad():
            next_values = self._next_values(batch)
        values = log_prob_of(self.action_values(self.network, batch.observations, batch.masks), batch.actions)
        return values, batch.returns + batch.discounts * next_values

    def action_values(self, network: ActorCritic, observations: Tensor, mask: Tensor | None) -> Tensor:
        """Return the value of each action, shape ``(n, n_actions)``; those of illegal ones are `masking.ILLEGAL`.

        Parameters
        ----------
        network
            The learning network, or the one that judges.
        observations, mask
            As in `act`.
        """
        if not self.config.is_dueling:
            return network.logits(observations, mask)
        advantages, values = network.both(observations, mask)
        if mask is None:
            return values.unsqueeze(-1) + advantages - advantages.mean(-1, keepdim=True)
        legal = advantages.masked_fill(~mask, 0.0)
        means = legal.sum(-1, keepdim=True) / mask.sum(-1, keepdim=True)
        return (values.unsqueeze(-1) + legal - means).masked_fill(~mask, ILLEGAL)

    def state_dict(self) -> dict[str, Any]:
        """Return all that the agent needs to continue, including how far it has explored."""
        return {**super().state_dict(), "n_explored": self.n_explored}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over what `state_dict` returned."""
        super().load_state_dict(state)
        self.n_explored = int(state.get("n_explored", 0))

    def _build(self) -> ActorCritic:
        return build_network(
            self.config, self.observation_shape, self.n_actions, self.generator, has_critic=self.config.is_dueling
        )

    def _legal(self, actions: Tensor, mask: Tensor | None) -> Tensor:
        return torch.ones((len(actions), self.n_actions), dtype=torch.bool) if mask is None else mask

    def _next_values(self, batch: Transitions) -> Tensor:
        judged = self.action_values(self.target, batch.next_observations, batch.next_masks)
        if not self.config.is_double:
            return judged.amax(-1)
        chosen = self.action_values(self.network, batch.next_observations, batch.next_masks).argmax(-1)
        return log_prob_of(judged, chosen)
