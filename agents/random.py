"""The random agent: every legal action is as likely as any other. What learns nothing better has learned nothing."""

from __future__ import annotations

from typing import Any

import torch
from pydantic import Field
from torch import Tensor

from hdrl.learn.agent import Acted, Agent
from hdrl.learn.config import Config
from hdrl.learn.masking import random_legal
from hdrl.learn.memory import Memory
from hdrl.learn.rollout import Rollout
from hdrl.options.numbers import Count


class RandomConfig(Config):
    """Settings of the random agent."""

    n_steps: Count = Field(default=128, description="Steps of each environment in an iteration.")


class Random(Agent):
    """Draws among the legal actions uniformly, even without exploration: it learns no best action."""

    Config = RandomConfig
    is_portable = True
    computes_on = "cpu"
    config: RandomConfig

    def memory(self, n_envs: int) -> Memory:
        """Return a memory that is not learned from."""
        del n_envs
        return Rollout(self.config.n_steps)

    def act(self, observations: Tensor, mask: Tensor | None, *, explore: bool) -> Acted:
        """Draw actions."""
        del explore
        legal = torch.ones((len(observations), self.n_actions), dtype=torch.bool) if mask is None else mask
        return Acted(random_legal(legal, self.generator), {})

    def probabilities(self, observations: Tensor, mask: Tensor | None) -> Tensor:
        """Return the same probability for all legal actions."""
        legal = torch.ones((len(observations), self.n_actions)) if mask is None else mask.float()
        return legal / legal.sum(-1, keepdim=True)

    def learn(self, batch: Any) -> dict[str, float]:
        """Learn nothing."""
        del batch
        self.n_updates += 1
        return {}
