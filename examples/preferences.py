"""A custom learning agent in the API that we recommend: one preference per action, whatever it sees.

It is the smallest agent that learns something: a softmax over one number for each action, moved by REINFORCE. Replace
``logits`` by a network and it is a policy.
"""

from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor, nn

from hdrl.learn.advantages import discounted_returns, standardise
from hdrl.learn.agent import Acted, Agent
from hdrl.learn.config import Config
from hdrl.learn.masking import mask_logits, sample
from hdrl.learn.rollout import Episodes, Steps


class PreferencesConfig(Config):
    """What ``learning.settings`` may hold."""

    lr: Annotated[float, Field(gt=0)] = Field(default=0.1, description="Step of the preferences; usual 0.01 to 1.")
    gamma: Annotated[float, Field(ge=0, le=1)] = Field(default=1.0, description="Discount of later rewards.")


class Preferences(Agent):
    """Learns which action is best on the whole."""

    Config = PreferencesConfig
    config: PreferencesConfig

    def __init__(self, observation_space, action_space, config=None, generator=None) -> None:
        super().__init__(observation_space, action_space, config, generator)
        # What stands in these two is saved, loaded and counted by the base class.
        self.modules["preferences"] = nn.ParameterList([torch.zeros(self.n_actions)])
        self.optimizers["adam"] = torch.optim.Adam(self.modules["preferences"].parameters(), lr=self.config.lr)

    def logits(self, mask: Tensor | None, n: int) -> Tensor:
        """Return the preferences for ``n`` environments, shape ``(n, n_actions)``; illegal actions have none."""
        return mask_logits(self.modules["preferences"][0].expand(n, -1), mask)

    def memory(self, n_envs: int) -> Episodes:
        """Learn from one whole episode of each environment at a time."""
        del n_envs
        return Episodes(1)

    @torch.no_grad()
    def act(self, observations: Tensor, mask: Tensor | None, *, explore: bool) -> Acted:
        """Draw actions, or take the preferred ones."""
        logits = self.logits(mask, len(observations))
        return Acted(sample(logits, self.generator) if explore else logits.argmax(-1), {})

    @torch.no_grad()
    def probabilities(self, observations: Tensor, mask: Tensor | None) -> Tensor:
        """Return how likely each action is; it is logged."""
        return torch.softmax(self.logits(mask, len(observations)), -1)

    def learn(self, batch: Steps) -> dict[str, float]:
        """Prefer what was followed by more than usual."""
        returns = discounted_returns(batch.rewards, batch.terminated, batch.truncated, self.config.gamma)
        worth = standardise(returns, batch.valid)
        _, masks, actions = batch.flat()
        log_probs = torch.log_softmax(self.logits(masks, len(actions)), -1)
        chosen = log_probs.gather(-1, actions.unsqueeze(-1)).squeeze(-1)
        valid = batch.valid.flatten()
        loss = -(chosen * worth.flatten())[valid].mean()
        self.optimizers["adam"].zero_grad()
        loss.backward()
        self.optimizers["adam"].step()
        self.n_updates += 1
        return {"loss": float(loss.detach())}
