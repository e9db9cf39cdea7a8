"""Base of agents with an actor, and perhaps a critic: everything but learning."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

import gymnasium as gym
import torch
from torch import Tensor

from hdrl.base.plainnet import PlainActor
from hdrl.base.rowspace import n_per_row_of
from hdrl.learn import portable
from hdrl.learn.agent import Acted, Agent, Descent
from hdrl.learn.config import NetworkConfig
from hdrl.learn.masking import sample
from hdrl.learn.networks import ActorCritic, build_network
from hdrl.learn.threads import at_once

CHUNK = 2048
"""Observations that are computed at once where there is no need to compute all of them: small enough for caches."""


class ActorCriticAgent(Agent):
    """An agent that draws its actions from the softmax of its actor's logits.

    Attributes
    ----------
    network
        Actor and critic.
    """

    def __init__(
        self,
        observation_space: gym.Space[Any],
        action_space: gym.Space[Any],
        config: NetworkConfig | None = None,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__(observation_space, action_space, config, generator)
        self.network: ActorCritic = network_of(self, has_critic=self.has_critic)
        self.modules["network"] = self.network

    @property
    def has_critic(self) -> bool:
        """True if its network has a critic."""
        return True

    def act(self, observations: Tensor, mask: Tensor | None, *, explore: bool) -> Acted:
        """Draw actions, or take the most probable ones; what is stored is their log-probability while exploring."""
        with torch.inference_mode():
            logits = self.network.logits(observations, mask)
            if not explore:
                return Acted(logits.argmax(-1), {})
            actions = sample(logits, self.generator)
            return Acted(actions, {"log_prob": portable.choose(logits, actions).log_probs})

    def plain_actor(self) -> PlainActor | None:
        """Return the actor in plain numbers, unless a subclass chooses by something else."""
        is_own = type(self).act is not ActorCriticAgent.act or type(self).session is not Agent.session
        return None if is_own else self.network.plain_actor()

    def probabilities(self, observations: Tensor, mask: Tensor | None) -> Tensor:
        """Return the probability of each action while training."""
        with torch.inference_mode():
            return portable.softmax(self.network.logits(observations, mask))

    def values(self, observations: Tensor, mask: Tensor | None) -> Tensor:
        """Return the critic's value of each observation, shape ``(n,)``, without gradients."""
        with torch.no_grad():
            n = len(observations)
            parts = [
                self.network.values(observations[i : i + CHUNK], None if mask is None else mask[i : i + CHUNK])
                for i in range(0, n, CHUNK)
            ]
            return torch.cat(parts) if len(parts) != 1 else parts[0]


def network_of(agent: Agent, *, has_critic: bool, n_atoms: int = 1) -> ActorCritic:
    """Return a new network for an agent, as its settings say; see `build_network`."""
    settings: Any = agent.config
    sizes = agent.observation_shape, agent.n_actions, agent.generator
    n_per_row = n_per_row_of(agent.action_space)
    return build_network(settings, *sizes, has_critic=has_critic, n_atoms=n_atoms, n_per_row=n_per_row)


def send_back(
    network: ActorCritic,
    seen: tuple[Tensor, Tensor | None],
    index: Tensor,
    actor_loss: Callable[[Tensor], Tensor | None] | None,
    critic_loss: Callable[[Tensor], Tensor],
) -> bool:
    """Compute the gradients of two losses and return whether they are of use.

    The gradients of actor and critic are computed at once if they share no weights.

    Parameters
    ----------
    seen
        Observations and masks, as in `hdrl.learn.networks.ActorCritic.logits`.
    index
        Indices of the rows to learn from, each at most once, shape ``(k,)``, int64.
    actor_loss
        From their logits to the loss of the actor, or to ``None``: the gradients are of no use. ``None``: only the
        critic learns.
    """
    if network.is_parted or actor_loss is None:
        logits_of, values_of = network.apart(*seen, index)

        def of_critic() -> None:
            critic_loss(values_of()).backward()  # type: ignore[no-untyped-call]

        if actor_loss is None:
            of_critic()
            return True

        def of_actor() -> bool:
            loss = actor_loss(logits_of())
            if loss is not None:
                loss.backward()  # type: ignore[no-untyped-call]
            return loss is not None

        return at_once(of_actor, of_critic)[0]
    observations, masks = seen
    legal = None if masks is None else masks.index_select(0, index)
    logits, values = network.both(observations.index_select(0, index), legal)
    loss = actor_loss(logits)
    if loss is None:
        return False
    (critic_loss(values) + loss).backward()  # type: ignore[no-untyped-call]
    return True


def adam(network: ActorCritic, lr: float, value_lr: float | None) -> torch.optim.Adam:
    """Return the optimiser of an actor and its critic, which learns by ``value_lr`` if that is given."""
    groups: list[dict[str, Any]] = [{"params": network.actor_parameters(), "lr": lr}]
    if network.critic_parameters():
        groups.append({"params": network.critic_parameters(), "lr": lr if value_lr is None else value_lr})
    return portable.Adam(groups)


def step_down(optimizer: torch.optim.Optimizer, loss: Tensor, max_norm: float | None = None) -> None:
    """Make a step of an optimiser that makes a loss smaller; see `step_clipped`."""
    optimizer.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    step_clipped(optimizer, max_norm)


def step_clipped(optimizer: torch.optim.Optimizer, max_norm: float | None) -> None:
    """Make a step of an optimiser with the gradients at hand, scaled down where their norm is too large."""
    if max_norm is not None:
        portable.clip([parameter for group in optimizer.param_groups for parameter in group["params"]], max_norm)
    optimizer.step()


def descend(gradients: Generator[Descent, None, dict[str, float]]) -> dict[str, float]:
    """Make a step of the optimiser with every gradient of `Agent.gradients`, and return what is worth logging."""
    while True:
        try:
            descent = next(gradients)
        except StopIteration as end:
            losses: dict[str, float] = end.value
            return losses
        step_clipped(descent.optimizer, descent.max_norm)
