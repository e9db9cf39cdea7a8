"""DQN and its family: double, dueling, prioritised, n-step, noisy and distributional, each by a setting.

Mnih et al., "Human-level control through deep reinforcement learning", Nature 518, 2015; van Hasselt et al., "Deep
Reinforcement Learning with Double Q-learning", AAAI 2016; Wang et al., "Dueling Network Architectures", ICML 2016;
Schaul et al., "Prioritized Experience Replay", ICLR 2016; Fortunato et al., "Noisy Networks for Exploration", ICLR
2018; Bellemare et al., "A Distributional Perspective on Reinforcement Learning" (C51), ICML 2017; n steps and all of it
together as in Hessel et al., "Rainbow", AAAI 2018. The preset ``d3qn`` is double, dueling and prioritised; ``rainbow``
is all of it.

Differences from the papers, with reasons:

1. The best next action, and the mean of the dueling advantages, are taken over legal actions alone.
2. Adam and a Huber loss instead of RMSProp and clipped errors, which is the same gradient clipping.
3. Importance weights multiply the loss of each transition before the mean is taken.
4. An episode that was cut off counts the value of its last observation; near the end of an episode or of the buffer,
   transitions go over fewer than n steps.
5. Noise: all environments that act at once share one draw. The means begin as weights without noise do.
6. Distributions of illegal actions are left out of everything. A loss is a divergence, not a cross-entropy, which has
   the same gradient; it is the error that sets priorities, as in Rainbow.
"""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Mapping
from typing import Annotated, Any, ClassVar, NamedTuple, Self

import gymnasium as gym
import torch
from pydantic import Field, SerializerFunctionWrapHandler, model_serializer, model_validator
from torch import Tensor
from torch.nn import functional

from hdrl.learn import portable
from hdrl.learn.agent import Acted, Agent, Descent
from hdrl.learn.atoms import atoms_of, project
from hdrl.learn.config import ReplayConfig
from hdrl.learn.masking import ILLEGAL, log_prob_of, mask_logits, random_legal
from hdrl.learn.memory import Memory
from hdrl.learn.networks import ActorCritic
from hdrl.learn.networks.noisy import make_noisy, noise_in
from hdrl.learn.policy import descend, network_of
from hdrl.learn.replay import Replay, Schedule, Transitions
from hdrl.options.numbers import Count, LearningRate, Positive, PositiveShare, Share

N_DRAWS = 32
"""Draws of noise from which probabilities of actions are estimated."""

Return = Annotated[float, Field(ge=-1e9, le=1e9)]


class DQNConfig(ReplayConfig):
    """Settings of the DQN family."""

    needs: ClassVar[Mapping[str, str]] = {
        **{"alpha": "is_prioritised", "beta_first": "is_prioritised", "beta_updates": "is_prioritised"},
        **{"noise": "is_noisy", "value_range": "n_atoms"},
    }

    is_double: bool = Field(
        default=False, description="True if the next action is chosen by the learning network and judged by the other."
    )
    is_dueling: bool = Field(default=False, description="True if values and advantages are learned apart.")
    is_prioritised: bool = Field(default=False, description="True if surprising transitions are drawn more often.")
    n_return_steps: Annotated[int, Field(ge=1, le=1000)] = Field(
        default=1, description="Steps whose rewards are counted before a value is; usual 1 to 5."
    )
    lr: LearningRate = Field(default=5e-4, description="Learning rate (Adam); usual 5e-5 to 1e-3.")
    target_every: Count = Field(
        default=200, description="Batches between two copies of the network that judges; usual 100 to 10,000."
    )
    tau: PositiveShare = Field(
        default=1.0, description="Share of the weights that is copied then; 1: all, usual otherwise 0.001 to 0.01."
    )
    epsilon_first: Share = Field(default=1.0, description="Share of random actions at first.")
    epsilon_last: Share = Field(default=0.05, description="Share of random actions at last; usual 0.01 to 0.1.")
    epsilon_steps: Annotated[int, Field(ge=0, le=10**12)] = Field(
        default=10_000, description="Environment steps from the first share to the last; usual a tenth of all."
    )
    alpha: Share = Field(default=0.6, description="Prioritised: how much errors count; usual 0.5 to 0.7.")
    beta_first: Share = Field(
        default=0.4, description="Prioritised: how much the weights make up for it at first; usual 0.4 to 0.6."
    )
    beta_updates: Annotated[int, Field(ge=0, le=10**12)] = Field(
        default=10_000, description="Prioritised: batches after which the weights make up for it wholly."
    )
    max_grad_norm: Positive | None = Field(
        default=10.0, description="Largest norm of the gradient; usual 1 to 10; null: any."
    )
    is_noisy: bool = Field(
        default=False,
        description="True if noise on the weights explores, as much of it as is learned to be good; epsilon_first and"
        " epsilon_last are usually 0 then.",
    )
    noise: Annotated[float, Field(gt=0, le=100)] = Field(
        default=0.5,
        description="Noisy: deviation of the weights at first, times the root of the number of inputs of their layer;"
        " usual 0.1 to 0.5.",
    )
    n_atoms: Annotated[int, Field(ge=1, le=1000)] = Field(
        default=1,
        description="Atoms of the distribution of returns that is learned in place of their mean; 1: the mean; usual"
        " 51.",
    )
    value_range: Annotated[tuple[Return, Return], Field(strict=False)] = Field(
        default=(-10.0, 10.0),
        description="Several atoms: the smallest and the largest return, in units of `reward_scale` if rewards are"
        " scaled.",
    )

    @model_validator(mode="after")
    def _atoms_differ(self) -> Self:
        if not self.value_range[0] < self.value_range[1]:
            raise ValueError(f"value_range is {list(self.value_range)}, expected the smaller number first")
        return self

    @model_serializer(mode="wrap")
    def _without_unused_parts(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave out noise and atoms that there are not: model files stay as they always were."""
        state: dict[str, Any] = handler(self)
        unused = [] if self.is_noisy else ["is_noisy", "noise"]
        unused += [] if self.n_atoms > 1 else ["n_atoms", "value_range"]
        return {name: value for name, value in state.items() if name not in unused}


class _Judged(NamedTuple):
    """Expected values of transitions, and their errors; each of shape ``(n,)``."""

    losses: Tensor  # losses to minimise, with gradients
    errors: Tensor  # absolute errors, at least 0
    values: Tensor  # the mean return that was expected
    # several atoms: how likely the return is to lie at one of the ends of the range, or beyond
    edges: Tensor | None = None


class DQN(Agent):
    """Deep Q-learning."""

    Config = DQNConfig
    is_portable = True
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
        n_atoms = self.config.n_atoms
        self.atoms = atoms_of(self.config.value_range, n_atoms) if n_atoms > 1 else None
        self.network = self._build()
        self.target = self._build()
        self.target.copy_from(self.network)
        self.target.requires_grad_(requires_grad=False)
        self.modules.update(network=self.network, target=self.target)
        self.n_explored = 0
        self._epsilon = Schedule(self.config.epsilon_first, self.config.epsilon_last, self.config.epsilon_steps)

    def make_optimizers(self) -> dict[str, torch.optim.Optimizer]:
        """Return Adam."""
        return {"adam": portable.Adam(self.network.parameters(), self.config.lr)}

    def to(self, device: torch.device) -> None:
        """Let the networks compute elsewhere from now on."""
        super().to(device)
        self.atoms = None if self.atoms is None else self.atoms.to(device)

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
        """Take the action of the highest value; while exploring, by noisy weights, and sometimes a random one."""
        with torch.inference_mode():
            if not explore:
                return Acted(self._best(observations, mask), {})
            with self._noise_in(self.network):
                best = self._best(observations, mask)
            is_random = (torch.rand(len(best), generator=self.generator) < self.epsilon).to(best.device)
            self.n_explored += len(best)
            other = random_legal(self._legal(best, mask), self.generator)
            return Acted(torch.where(is_random, other, best), {})

    def probabilities(self, observations: Tensor, mask: Tensor | None) -> Tensor:
        """Return the probability of each action while training; with noisy weights, its share of some draws."""
        with torch.inference_mode():
            if not self.config.is_noisy:
                return self._chances(self._best(observations, mask), mask)
            drawn = torch.Generator().manual_seed(0)  # asking changes nothing
            chances = []
            for _ in range(N_DRAWS):
                with noise_in(self.network, drawn):
                    chances.append(self._chances(self._best(observations, mask), mask))
            return portable.mean(torch.stack(chances), 0)

    def learn(self, batch: Transitions) -> dict[str, float]:
        """Make one step of gradient descent on a batch of transitions."""
        return descend(self.gradients(batch))

    def gradients(self, batch: Transitions) -> Generator[Descent, None, dict[str, float]]:
        """Compute the gradient on a batch of transitions."""
        judged = self._judged(batch)
        loss = portable.mean(batch.weights * judged.losses)
        self.optimizers["adam"].zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        yield Descent(self.optimizers["adam"], self.config.max_grad_norm)
        batch.errors = judged.errors
        self.n_updates += 1
        if self.n_updates % self.config.target_every == 0:
            self.target.copy_from(self.network, self.config.tau)
        return {
            "loss": float(loss.detach()),
            "mean_value": float(portable.mean(judged.values)),
            "mean_error": float(portable.mean(batch.errors)),
            "epsilon": self.epsilon,
            "reward_scale": batch.scale,
            **({} if judged.edges is None else {"edge_share": float(portable.mean(judged.edges))}),
        }

    def errors(self, batch: Transitions) -> Tensor:
        """Return the errors of predictions for transitions, shape ``(n,)``, without learning."""
        with torch.no_grad():
            return self._judged(batch).errors

    def _judged(self, batch: Transitions) -> _Judged:
        return self._judged_by_means(batch) if self.atoms is None else self._judged_by_atoms(batch, self.atoms)

    def _judged_by_means(self, batch: Transitions) -> _Judged:
        with torch.no_grad():
            targets = batch.returns + batch.discounts * self._next_values(batch)
        with self._noise_in(self.network):
            all_values = self.action_values(self.network, batch.observations, batch.masks)
        values = log_prob_of(all_values, batch.actions)
        losses = functional.smooth_l1_loss(values, targets, reduction="none")
        return _Judged(losses, (values.detach() - targets).abs(), values.detach())

    def _judged_by_atoms(self, batch: Transitions, atoms: Tensor) -> _Judged:
        with torch.no_grad():
            targets = project(self._next_chances(batch), batch.returns, batch.discounts, atoms)
        with self._noise_in(self.network):
            outputs = self._outputs(self.network, batch.observations, batch.masks)
        log_chances = portable.log_softmax(_of_actions(outputs, batch.actions))
        information = torch.where(targets > 0.0, targets * portable.log(targets), 0.0)
        losses = portable.sum(information - targets * log_chances, -1)
        values = portable.sum(portable.exp(log_chances.detach()) * atoms, -1)
        # Rounding may take a divergence a little below 0.
        return _Judged(losses, losses.detach().clamp(min=0.0), values, targets[:, 0] + targets[:, -1])

    def action_values(self, network: ActorCritic, observations: Tensor, mask: Tensor | None) -> Tensor:
        """Return the value of each action, shape ``(n, n_actions)``; those of illegal ones are `masking.ILLEGAL`."""
        outputs = self._outputs(network, observations, mask)
        return outputs if self.atoms is None else self._means(outputs, mask)

    def _outputs(self, network: ActorCritic, observations: Tensor, mask: Tensor | None) -> Tensor:
        """Return the network's output for each action: a value, or the logits of its atoms, on an axis of their own."""
        if not self.config.is_dueling:
            return network.logits(observations, mask)
        advantages, values = network.both(observations, mask)
        if mask is None:
            means = portable.mean(advantages, 1, keepdim=True)
            return portable.expand(values.unsqueeze(1) - means, *advantages.shape) + advantages
        seen = mask if self.atoms is None else mask.unsqueeze(-1)
        legal = advantages.masked_fill(~seen, 0.0)
        means = portable.sum(legal, 1, keepdim=True) / seen.sum(1, keepdim=True)
        return (portable.expand(values.unsqueeze(1) - means, *legal.shape) + legal).masked_fill(~seen, ILLEGAL)

    def _means(self, outputs: Tensor, mask: Tensor | None) -> Tensor:
        """Return the mean of each action's distribution."""
        if self.atoms is None:
            raise TypeError("there are no distributions")
        return mask_logits(portable.sum(portable.softmax(outputs) * self.atoms, -1), mask)

    def state_dict(self) -> dict[str, Any]:
        """Return the whole state of the agent, including how far it has explored."""
        return {**super().state_dict(), "n_explored": self.n_explored}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over what `state_dict` returned."""
        super().load_state_dict(state)
        self.n_explored = int(state.get("n_explored", 0))

    def _build(self) -> ActorCritic:
        network = network_of(self, has_critic=self.config.is_dueling, n_atoms=self.config.n_atoms)
        if self.config.is_noisy:
            make_noisy(network, self.config.noise)
        return network

    def _noise_in(self, network: ActorCritic) -> contextlib.AbstractContextManager[None]:
        """Let a network be noisy for a while, by noise that is drawn now, if noise is switched on."""
        return noise_in(network, self.generator) if self.config.is_noisy else contextlib.nullcontext()

    def _best(self, observations: Tensor, mask: Tensor | None) -> Tensor:
        return self.action_values(self.network, observations, mask).argmax(-1)

    def _chances(self, best: Tensor, mask: Tensor | None) -> Tensor:
        """Return the probability of each action where one is the best, and some are drawn at random."""
        legal = self._legal(best, mask)
        chances = self.epsilon * legal.float() / legal.sum(-1, keepdim=True)
        return chances.scatter_add_(1, best.unsqueeze(-1), chances.new_full((len(best), 1), 1.0 - self.epsilon))

    def _legal(self, actions: Tensor, mask: Tensor | None) -> Tensor:
        everything = (len(actions), self.n_actions)
        return torch.ones(everything, dtype=torch.bool, device=actions.device) if mask is None else mask

    def _next_values(self, batch: Transitions) -> Tensor:
        with self._noise_in(self.target):
            judged = self.action_values(self.target, batch.next_observations, batch.next_masks)
        return log_prob_of(judged, self._next_actions(batch, judged))

    def _next_chances(self, batch: Transitions) -> Tensor:
        """Return the probability of each atom after the best next action, shape ``(n, n_atoms)``."""
        with self._noise_in(self.target):
            outputs = self._outputs(self.target, batch.next_observations, batch.next_masks)
        chosen = self._next_actions(batch, self._means(outputs, batch.next_masks))
        return portable.softmax(_of_actions(outputs, chosen))

    def _next_actions(self, batch: Transitions, judged: Tensor) -> Tensor:
        """Return the best next actions by the values of the network that judges, or of the one that learns."""
        if not self.config.is_double:
            return judged.argmax(-1)
        with self._noise_in(self.network):
            return self._best(batch.next_observations, batch.next_masks)


def _of_actions(outputs: Tensor, actions: Tensor) -> Tensor:
    """Return the output for one action in each row, shape ``(n, n_atoms)``."""
    return outputs[torch.arange(len(actions), device=actions.device), actions]
