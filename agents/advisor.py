"""An advisor: REINFORCE with a temperature, a baseline and entropy, or with the exact expected gradient.

Williams, "Simple Statistical Gradient-Following Algorithms for Connectionist Reinforcement Learning", Machine
Learning 8, 1992. The preset ``advisor_seed`` follows ChamiLamelas' advisor for networks that are deepened.

Differences from the paper, with reasons:

1. The return of an episode is less what episodes have brought so far, and divided by how much that varied: both are
   running means, so that a batch may be one episode. With ``baseline: start`` it is less what those episodes of the
   batch brought that began with the same observation: jobs of several tables differ more than their sequences do.
2. Logits are divided by a temperature while exploring, which falls to 1 from update to update.
3. ``gradient: exact`` plays every sequence of actions once, in as many environments as there are, instead of drawing
   them, and weighs each by its probability. Episodes must all have the same number of decisions, and the environments
   must have the same episode.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

import gymnasium as gym
import torch
from pydantic import Field
from torch import Tensor, nn

from hdrl.base.errors import LearningError
from hdrl.learn import portable
from hdrl.learn.advantages import discounted_returns
from hdrl.learn.agent import Acted
from hdrl.learn.config import NetworkConfig
from hdrl.learn.masking import sample
from hdrl.learn.memory import Memory, Outcome
from hdrl.learn.policy import ActorCriticAgent, adam, step_down
from hdrl.learn.rollout import Episodes, Steps
from hdrl.options.numbers import Coefficient, Few, LearningRate, Positive, PositiveShare

RATE = 0.05
"""Share of a new batch in the running means."""

Mistake = Literal["parent_weights", "temperature_on_probabilities"]


class AdvisorConfig(NetworkConfig):
    """Settings of advisors."""

    network: str = Field(default="sequence", description="Name of the network.")
    gradient: Literal["sampled", "exact"] = Field(
        default="sampled", description="Draw episodes, or play and weigh every one."
    )
    n_episodes: Few = Field(default=1, description="sampled: episodes of each environment in a batch.")
    lr: LearningRate = Field(default=1e-3, description="Learning rate (Adam); usual 1e-4 to 1e-2.")
    lr_decay: PositiveShare = Field(default=1.0, description="Factor on the learning rate every 500 updates.")
    has_baseline: bool = Field(
        default=True, description="sampled: true if the mean return is taken off and its spread divided by."
    )
    baseline: Literal["running", "start"] = Field(
        default="running",
        description="sampled: what a return is compared with: the returns of all episodes so far, or of the batch"
        " that began alike. The latter is for jobs of several tables.",
    )
    entropy_coef: Coefficient = Field(
        default=0.0, description="Weight of the entropy in the objective; usual 0 to 0.02."
    )
    entropy_decay: PositiveShare = Field(
        default=1.0, description="Factor on the weight of the entropy after each update."
    )
    temperature: Annotated[float, Field(ge=1, le=10**6)] = Field(
        default=1.0, description="sampled: initial divisor of the logits while exploring."
    )
    temperature_decay: PositiveShare = Field(
        default=0.9, description="sampled: factor on the temperature after each update, until it is 1."
    )
    max_grad_norm: Positive | None = Field(default=None, description="Largest norm of the gradient; null: any.")
    errors: list[Mistake] = Field(
        default=[],
        description="Errors of ChamiLamelas' advisor: parent_weights judges an agent by the weights that it started"
        " from; temperature_on_probabilities divides probabilities instead of logits, and softmaxes them again.",
    )


class _Running(nn.Module):
    """Running means of returns and their squared deviations, and the temperature: numbers that are saved."""

    is_portable = True
    n_batches: Tensor
    mean: Tensor
    square: Tensor
    temperature: Tensor

    def __init__(self, temperature: float) -> None:
        super().__init__()
        self.register_buffer("n_batches", torch.zeros(()))
        self.register_buffer("mean", torch.zeros(()))
        self.register_buffer("square", torch.ones(()))
        self.register_buffer("temperature", torch.tensor(temperature))

    def scaled(self, returns: Tensor) -> Tensor:
        """Return the standardised returns, and update their statistics."""
        if not self.n_batches:
            self.mean = portable.mean(returns)
            self.square = portable.mean((returns - self.mean).square()).clamp(min=1e-4)
        found = (returns - self.mean) / portable.sqrt(self.square).clamp(min=1e-6)
        self.square = _moved(self.square, portable.mean((returns - self.mean).square()))
        self.mean = _moved(self.mean, portable.mean(returns))
        self.n_batches = self.n_batches + 1.0
        return found


class AdvisorAgent(ActorCriticAgent):
    """The policy gradient of whole episodes, drawn or all of them."""

    Config = AdvisorConfig
    is_portable = True
    has_critic = False
    config: AdvisorConfig

    def __init__(
        self,
        observation_space: gym.Space[Any],
        action_space: gym.Space[Any],
        config: AdvisorConfig | None = None,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__(observation_space, action_space, config, generator)
        self.running = _Running(self.config.temperature)
        self.modules["running"] = self.running
        self._step = 0
        if "parent_weights" in self.config.errors:
            self.modules["parent"] = copy.deepcopy(self.network)

    def make_optimizers(self) -> dict[str, torch.optim.Optimizer]:
        """Return Adam."""
        return {"adam": adam(self.network, self.config.lr, None)}

    def memory(self, n_envs: int) -> Memory:
        """Return a memory of whole episodes; raise LearningError for fewer environments than sequences of actions."""
        if self.config.gradient == "exact":
            self._n_decisions(n_envs)
            return Episodes(1)
        return Episodes(self.config.n_episodes)

    @contextlib.contextmanager
    def session(self, seed: int | None = None) -> Iterator[None]:
        """Begin to play every sequence from the beginning."""
        del seed
        self._step = 0
        yield

    def saw(self, outcome: Outcome, observations: Tensor, mask: Tensor | None) -> None:
        """Count the decisions of the episodes."""
        del outcome, observations, mask
        self._step += 1

    def act(self, observations: Tensor, mask: Tensor | None, *, explore: bool) -> Acted:
        """Draw actions, or those of the sequence that is the environment's; or take the most probable ones."""
        with torch.inference_mode():
            if not explore:
                judged: Any = self.modules.get("parent", self.network)
                return Acted(judged.logits(observations, mask).argmax(-1), {})
            if self.config.gradient == "exact":
                return Acted(self._next_of_all(len(observations)), {})
            return Acted(sample(self._exploring(self.network.logits(observations, mask)), self.generator), {})

    def probabilities(self, observations: Tensor, mask: Tensor | None) -> Tensor:
        """Return the probability of each action while training."""
        with torch.inference_mode():
            return portable.softmax(self._exploring(self.network.logits(observations, mask)))

    def learn(self, batch: Steps) -> dict[str, float]:
        """Make one step of gradient descent."""
        if self.n_updates == 0 and "parent" in self.modules:
            self.modules["parent"].load_state_dict(self.network.state_dict())
        loss, logged = self._exact(batch) if self.config.gradient == "exact" else self._sampled(batch)
        step_down(self.optimizers["adam"], loss, self.config.max_grad_norm)
        self.n_updates += 1
        if self.n_updates % 500 == 0:
            for group in self.optimizers["adam"].param_groups:
                group["lr"] *= self.config.lr_decay
        self.running.temperature = (self.running.temperature * self.config.temperature_decay).clamp(min=1.0)
        return {"policy_loss": float(loss.detach()), **logged}

    def load_weights(self, state: Mapping[str, Any]) -> None:
        """Take over the weights; a model without those of its parent becomes the parent."""
        modules = dict(state["modules"])
        modules.setdefault("parent", modules.get("network"))
        temperature = self.running.temperature.clone()
        super().load_weights({**state, "modules": {"running": self.running.state_dict(), **modules}})
        self.running.temperature = temperature

    @property
    def _entropy_coef(self) -> float:
        """The present weight of the entropy."""
        return self.config.entropy_coef * self.config.entropy_decay**self.n_updates

    def _exploring(self, logits: Tensor) -> Tensor:
        """Return logits at the present temperature."""
        temperature = float(self.running.temperature)
        if temperature == 1.0:
            return logits
        if "temperature_on_probabilities" in self.config.errors:
            return portable.softmax(logits) / temperature
        return logits / temperature

    def _sampled(self, batch: Steps) -> tuple[Tensor, dict[str, float]]:
        """Return the loss of drawn episodes: every decision is as good as what its episode brought."""
        returns = discounted_returns(batch.rewards, batch.terminated, batch.truncated, 1.0)
        index = batch.valid.flatten().nonzero().squeeze(-1)
        worth = returns.flatten()[index]
        if self.config.has_baseline and self.config.baseline == "start":
            worth = _advantage_in_kind(worth, _beginnings(batch)[index])
        elif self.config.has_baseline:
            worth = self.running.scaled(worth)
        observations, masks, actions = batch.flat()
        logits = self.network.logits(observations[index], None if masks is None else masks[index])
        log_probs, entropies = portable.choose(self._exploring(logits), actions[index])
        entropy = portable.mean(entropies)
        loss = -portable.mean(log_probs * worth) - self._entropy_coef * entropy
        return loss, {"entropy": float(entropy.detach())}

    def _exact(self, batch: Steps) -> tuple[Tensor, dict[str, float]]:
        """Return minus the expected return, standardised over all sequences."""
        n_steps, n_envs = batch.valid.shape
        same = (batch.observations[0] == batch.observations[0, :1]).all()
        if not batch.valid.all() or n_steps != self._n_decisions(n_envs) or not same:
            raise LearningError(
                "gradient 'exact' needs the same episode in all environments, and as many decisions as they can play"
                " every sequence of: learning.episodes.n_jobs 1, start consecutive, n_envs n_actions ** n_decisions"
            )
        returns = portable.sum(batch.rewards, 0)
        deviation, mean = portable.std_mean(returns)
        worth = (returns - mean) / deviation.clamp(min=1e-6)
        observations, masks, actions = batch.flat()
        log_probs, entropies = portable.choose(self.network.logits(observations, masks), actions)
        probability = portable.exp(portable.sum(log_probs.reshape(n_steps, n_envs), 0))
        entropy = portable.sum(probability.detach() * portable.mean(entropies.reshape(n_steps, n_envs), 0))
        loss = -portable.sum(probability * worth) - self._entropy_coef * entropy
        return loss, {
            "entropy": float(entropy.detach()),
            "expected_return": float(portable.sum((probability * returns).detach())),
        }

    def _next_of_all(self, n_envs: int) -> Tensor:
        """Return the next action of the sequence that each environment plays."""
        power = max(0, self._n_decisions(n_envs) - 1 - self._step)
        actions: Tensor = torch.arange(n_envs) // self.n_actions**power % self.n_actions
        return actions

    def _n_decisions(self, n_envs: int) -> int:
        n_decisions = 1
        while self.n_actions**n_decisions < n_envs:
            n_decisions += 1
        if self.n_actions**n_decisions != n_envs:
            near = [self.n_actions**n for n in (max(1, n_decisions - 1), n_decisions)]
            raise LearningError(
                f"gradient 'exact' plays every sequence of {self.n_actions} actions at once: n_envs is {n_envs},"
                f" expected {near[0]} or {near[1]}"
            )
        return n_decisions


def _moved(mean: Tensor, found: Tensor) -> Tensor:
    """Return a running mean after another number."""
    return mean + RATE * (found - mean)


def _beginnings(batch: Steps) -> Tensor:
    """Return for each step what its episode began with, and which of its steps it is: rows of numbers."""
    n_steps, n_envs = batch.valid.shape
    begun = torch.zeros(n_envs, dtype=torch.long)
    found = []
    for step in range(n_steps):
        first = batch.observations[begun.clamp(max=step), torch.arange(n_envs)].flatten(1)
        found.append(torch.cat([first, (step - begun).unsqueeze(-1).to(first.dtype)], -1))
        has_ended = batch.terminated[step] | batch.truncated[step] | ~batch.valid[step]
        begun = torch.where(has_ended, step + 1, begun)
    return torch.cat(found)


def _advantage_in_kind(returns: Tensor, kinds: Tensor) -> Tensor:
    """Return the advantage of returns over the mean of their kind, divided by its deviation."""
    _, kind = torch.unique(kinds, dim=0, return_inverse=True)
    n = torch.bincount(kind).to(returns.dtype)
    above = returns - (torch.zeros_like(n).index_add(0, kind, returns) / n)[kind]
    return above / portable.sqrt(portable.mean(above.square())).clamp(min=1e-6)
