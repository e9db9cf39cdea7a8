"""DDPG: deterministic policy gradient for continuous actions.

Lillicrap et al., "Continuous control with deep reinforcement learning", ICLR 2016. Schedulers choose among actions that
can be counted, so no environment of hdrl needs it and it has no name in options files; `hdrl.experiment.devices`
measures with it how fast a device learns.

Differences from the paper, with reasons:

1. The noise is Gaussian and independent from step to step; later work found the correlated one of no use.
2. The action enters the critic with the observation, not at its second layer.
3. An episode that was cut off counts the value of its last observation.
"""

from __future__ import annotations

import copy
from typing import Annotated, Any, NamedTuple

import gymnasium as gym
import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field
from torch import nn

from hdrl.base.errors import LearningError
from hdrl.learn import portable
from hdrl.learn.config import Config, Widths
from hdrl.learn.networks.layers import Tanh, mlp
from hdrl.learn.policy import step_down
from hdrl.options.numbers import Coefficient, Few, LearningRate, PositiveShare, Share

Floats = NDArray[np.float32]


class DDPGConfig(Config):
    """Settings of DDPG."""

    hidden: Widths = Field(default=(400, 300), description="Units of the hidden layers of actor and critic.")
    lr: LearningRate = Field(default=1e-3, description="Learning rate of actor and critic (Adam); usual 1e-4 to 1e-3.")
    gamma: Share = Field(default=0.99, description="Discount of later rewards.")
    tau: PositiveShare = Field(
        default=0.01, description="Share of the weights that is copied to the targets at each batch."
    )
    batch_size: Few = Field(default=64, description="Transitions in a batch.")
    capacity: Annotated[int, Field(ge=2, le=10**9)] = Field(default=10**6, description="Steps that are remembered.")
    noise: Coefficient = Field(
        default=0.1, description="Standard deviation of the noise, as a share of half the range of an action."
    )


class Transition(NamedTuple):
    """One step: observations of shape ``(n_values,)``, an action of shape ``(n_action_values,)``."""

    observation: Floats
    action: Floats
    reward: float
    next_observation: Floats
    terminated: bool


class DDPG:
    """An agent with continuous actions, on any device of torch.

    Parameters
    ----------
    observation_space, action_space
        Boxes of one axis; the action's is bounded.
    config
        Settings; ``None``: the defaults.
    seed
        Seed of the first weights, the noise and the batches.
    device
        Device of the computations: ``"cpu"``, ``"cuda"`` or ``"mps"``.

    Attributes
    ----------
    actor, critic
        The networks that learn.
    n_updates
        Batches learned from.

    Raises
    ------
    LearningError
        If a space is of another kind.
    """

    def __init__(
        self,
        observation_space: gym.Space[Any],
        action_space: gym.Space[Any],
        config: DDPGConfig | None = None,
        *,
        seed: int = 0,
        device: str = "cpu",
    ) -> None:
        for space in (observation_space, action_space):
            if not isinstance(space, gym.spaces.Box) or len(space.shape) != 1:
                raise LearningError(f"DDPG: the space is {space}, expected a Box of one axis")
        low, high = (np.asarray(bound, np.float32) for bound in (action_space.low, action_space.high))  # type: ignore[attr-defined]
        if not (np.isfinite(low).all() and np.isfinite(high).all()):
            raise LearningError(f"DDPG: the actions are {action_space}, expected bounds")
        self.config = config or DDPGConfig()
        self._device = torch.device(device)
        self._centre, self._half = (low + high) / 2, (high - low) / 2
        self._random = np.random.default_rng(seed)
        n_seen, n_done = int(observation_space.shape[0]), len(low)  # type: ignore[index]
        generator = torch.Generator().manual_seed(seed)
        self.actor = _network((n_seen, *self.config.hidden, n_done), generator, ends_in_tanh=True).to(self._device)
        self.critic = _network((n_seen + n_done, *self.config.hidden, 1), generator).to(self._device)
        self._targets = copy.deepcopy(self.actor), copy.deepcopy(self.critic)
        self._optimizers = [portable.Adam(net.parameters(), self.config.lr) for net in (self.actor, self.critic)]
        self._buffer = np.zeros((min(self.config.capacity, 1024), 2 * n_seen + n_done + 2), np.float32)
        self._widths = n_seen, n_done
        self._n_seen = 0
        self.n_updates = 0

    def act(self, observation: Floats, *, explore: bool) -> Floats:
        """Choose an action within the bounds for one observation; with ``explore`` noise is added."""
        with torch.no_grad():
            seen = torch.as_tensor(observation, dtype=torch.float32, device=self._device)
            action = self.actor(seen).cpu().numpy()
        if explore:
            action = np.clip(action + self._random.normal(0.0, self.config.noise, action.shape), -1.0, 1.0)
        bounded: Floats = (self._centre + self._half * action).astype(np.float32)
        return bounded

    def remember(self, step: Transition) -> None:
        """Remember a step; the oldest one goes where there is no room."""
        if self._n_seen == len(self._buffer) < self.config.capacity:
            room = np.zeros((min(len(self._buffer), self.config.capacity - len(self._buffer)), self._buffer.shape[1]))
            self._buffer = np.concatenate([self._buffer, room.astype(np.float32)])
        action = (step.action - self._centre) / self._half
        row = self._buffer[self._n_seen % len(self._buffer)]
        row[:] = np.concatenate(
            [step.observation, action, step.next_observation, [step.reward, float(step.terminated)]]
        )
        self._n_seen += 1

    def learn(self) -> dict[str, float]:
        """Make one step of critic, actor and targets, and return ``value_loss`` and ``policy_loss``.

        Do nothing, and return nothing, before there are as many steps as a batch has.
        """
        n_known = min(self._n_seen, len(self._buffer))
        if n_known < self.config.batch_size:
            return {}
        rows = self._buffer[self._random.integers(n_known, size=self.config.batch_size)]
        n_seen, n_done = self._widths
        batch = torch.as_tensor(rows, device=self._device)
        seen, action, after, ends = torch.split(batch, [n_seen, n_done, n_seen, 2], dim=1)
        reward, terminated = ends[:, :1], ends[:, 1:]
        actor, critic = self._targets
        with torch.no_grad():
            later = critic(torch.cat([after, actor(after)], dim=1))
            goal = reward + self.config.gamma * (1.0 - terminated) * later
        value_loss = portable.mean((self.critic(torch.cat([seen, action], dim=1)) - goal).square())
        step_down(self._optimizers[1], value_loss)
        policy_loss = -portable.mean(self.critic(torch.cat([seen, self.actor(seen)], dim=1)))
        step_down(self._optimizers[0], policy_loss)
        for target, source in zip(self._targets, (self.actor, self.critic), strict=True):
            portable.move_towards(list(target.parameters()), list(source.parameters()), self.config.tau)
        self.n_updates += 1
        return {"value_loss": float(value_loss.detach()), "policy_loss": float(policy_loss.detach())}


def _network(widths: tuple[int, ...], generator: torch.Generator, *, ends_in_tanh: bool = False) -> nn.Module:
    """Return layers with ReLU between them, initialised as torch does, of numbers that the generator gives."""
    layers = mlp(widths, generator, has_plain_init=True)
    return nn.Sequential(layers, Tanh()) if ends_in_tanh else layers
