"""The agent API of HDeepRM: its agent files run here after a change of the line that imports.

::

    from hdeeprm.agent import PolicyLearningAgent                # before
    from hdrl.compat.hdeeprm.bases import PolicyLearningAgent    # now

An agent file defines one class. It is made as ``cls(gamma, hidden, action_size, observation_size)``, a new object for
every simulation, into which the weights of the last one are loaded; so what a constructor sets up is set up anew each
time. At every decision point it is called in this order::

    observation = agent.observe(environment)
    action = agent.decide(observation)
    agent.alter(action, environment)
    agent.rewarded(environment)          # at the next decision point, or at the end

and after the simulation, when it learns, ``agent.loss()`` is what Adam goes down by one step.

Differences from HDeepRM 0.3.1, with reasons:

1. An agent in test mode takes its best action instead of drawing one, so that a test is no lottery. In compatibility
   mode it draws, as HDeepRM does.
2. Both versions of the API are understood: `LearningAgent.process` of 0.1.0b1, and ``forward`` of 0.3.1. A ``forward``
   that returns nothing, as in the examples of HDeepRM, stands for `LearningAgent.process`; one that returns a pair is
   taken for probabilities and a value.
3. The probabilities of the first decision are noted for agents that override ``decide``, too.
4. ``actions.log`` and ``log_probs.log`` appear where ``also_write`` in the options names them.
5. Rewards are standardised in double precision, and the losses of values are taken without broadcasting.

For agents of your own that need no compatibility, `hdrl.learn.agent` is the API that we recommend: it learns from
batches of many environments at once, and knows about actions that are not allowed.

Source: HDeepRM 0.3.1b1 and 0.1.0b1, https://github.com/RaMdsC/hdeeprm.
"""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from hdrl.agents.classic import ClassicAgent
from hdrl.base.errors import MissingExtra
from hdrl.base.pyfiles import AgentError

try:
    import torch
    from torch import Tensor, nn
    from torch.nn import functional
except ModuleNotFoundError as error:  # pragma: no cover (the tests have it)
    raise MissingExtra("torch", "learn") from error

from hdrl.learn.checks import locate_method

if TYPE_CHECKING:
    Observation = np.ndarray[Any, np.dtype[np.float32]]

__all__ = ["Agent", "ClassicAgent", "Environment", "LearningAgent", "PolicyLearningAgent", "ValueLearningAgent"]


class Environment(Protocol):
    """Environment as an agent uses it."""

    @property
    def action_size(self) -> int:
        """Number of actions; the last is void, if void is among them."""

    @property
    def observation_size(self) -> int:
        """Number of values of an observation."""

    def observation(self) -> Observation:
        """Return the present observation, float32, shape ``(observation_size,)``."""

    def step(self, action: int) -> None:
        """Carry out an action; jobs start."""

    def reward(self) -> float:
        """Return the reward of the last action."""


class Agent(nn.Module):
    """The base of all agents, under the name that agent files of HDeepRM derive from.

    ``rewards``: one per decision of the simulation so far.
    """

    def __init__(self) -> None:
        super().__init__()
        self.rewards: list[float] = []

    def observe(self, environment: Environment) -> Observation:
        """Look at the environment; return the observation, float32, shape ``(observation_size,)``."""
        return environment.observation()

    def decide(self, observation: Observation) -> int:
        """Return the number of the action to take after such an observation."""
        raise NotImplementedError("the agent does not define decide")

    def alter(self, action: int, environment: Environment) -> None:
        """Carry out an action."""
        environment.step(action)

    def rewarded(self, environment: Environment) -> None:
        """Take the reward of the last action."""
        self.rewards.append(environment.reward())


class LearningAgent(Agent):
    """An agent with a model that learns from its rewards at the end of a simulation.

    ``gamma``: discount of later rewards, 0 to 1.
    """

    def __init__(self, gamma: float) -> None:
        super().__init__()
        self.gamma = gamma

    def forward(self, observation: Observation) -> Any:
        """Run the model; return probabilities, a value, or both as a pair."""
        return self.process(observation)

    def process(self, observation: Observation) -> Any:
        """Run ``forward_policy`` and ``forward_value``, if they exist (the name of `forward` in HDeepRM 0.1.0b1).

        ``observation``: shape ``(observation_size,)``.

        Returns
        -------
        typing.Any
            Probabilities, shape ``(1, action_size)``; a value, shape ``(1, 1)``; of an agent that has both, the pair.
        """
        try:
            batch = torch.from_numpy(np.ascontiguousarray(observation)).float().unsqueeze(0)
        except (TypeError, ValueError):
            found = f"{locate_method(self, 'observe')} returned {observation!r:.60}"
            raise AgentError(f"{found}, expected an array of numbers") from None
        parts = [getattr(self, name)(batch) for name in ("forward_policy", "forward_value") if hasattr(self, name)]
        if not parts:
            raise NotImplementedError("a learning agent overrides forward, or derives from one that learns a policy")
        return parts[0] if len(parts) == 1 else tuple(parts)

    def loss(self) -> Tensor:
        """Return the loss that the optimiser minimises, a scalar with a gradient."""
        raise NotImplementedError("the agent does not define loss")

    def transform_rewards(self) -> list[float]:
        """Return the discounted returns, standardised over the simulation.

        ``G_t = r_t + gamma G_(t+1)``, minus their mean, divided by their standard deviation (of a sample) plus
        1.2e-7. A single return stays as it is.
        """
        try:
            rewards = [float(reward) for reward in reversed(self.rewards)]
        except (TypeError, ValueError):
            raise AgentError(f"rewards are {str(self.rewards[:3])[:60]}, expected numbers") from None
        last_first = list(accumulate(rewards, lambda following, reward: reward + self.gamma * following))
        returns = np.array(last_first[::-1])
        if len(returns) > 1:
            returns = (returns - returns.mean()) / (returns.std(ddof=1) + np.finfo(np.float32).eps)
        return [float(value) for value in returns]

    def _computed(self, observation: Observation) -> tuple[Any, Any]:
        """Return probabilities and value, ``None`` for what the agent does not have."""
        output = self(observation)
        if output is None:
            output = self.process(observation)
        if isinstance(output, tuple):
            probabilities, value = output
            return probabilities, value
        return (output, None) if isinstance(self, PolicyLearningAgent) else (None, output)


class PolicyLearningAgent(LearningAgent):
    """An agent that learns how likely each action should be.

    Attributes
    ----------
    probs
        Probabilities of the actions at the first decision, ``None`` before it.
    latest_probs
        Those at the latest decision, a tensor of shape ``(1, action_size)``, ``None`` before the first.
    log_probs
        Logarithm of the probability of each action taken, tensors of shape ``(1,)``.
    samples_in_test
        True if actions are drawn even when the agent does not learn, as HDeepRM 0.3.1 does.
    """

    def __init__(self, gamma: float) -> None:
        super().__init__(gamma)
        self.probs: list[float] | None = None
        self.latest_probs: Tensor | None = None
        self.log_probs: list[Tensor] = []
        self.samples_in_test = False

    def decide(self, observation: Observation) -> int:
        """Choose an action by the probabilities that the model gives."""
        probabilities, value = self._computed(observation)
        if value is not None and isinstance(self, ValueLearningAgent):
            self.save_value(value)
        return self.get_action(probabilities)

    def loss(self) -> Tensor:
        """Return the sum of `policy_loss` over the simulation."""
        return _total(self.policy_loss(self.transform_rewards()))

    def forward_policy(self, observation: Tensor) -> Tensor:
        """Compute the probability of each action, shape ``(1, action_size)``."""
        raise NotImplementedError("the agent does not define forward_policy")

    def get_action(self, probabilities: Tensor) -> int:
        """Draw an action and note the logarithm of its probability; an agent in test mode takes the best."""
        distribution = self._distribution(probabilities)
        self.latest_probs = probabilities.detach()
        if self.probs is None:
            self.probs = [float(value) for value in probabilities.detach().flatten()]
        draws = self.training or self.samples_in_test
        action = distribution.sample() if draws else probabilities.argmax(dim=-1)  # type: ignore[no-untyped-call]
        self.save_log_prob(distribution.log_prob(action))  # type: ignore[no-untyped-call]
        return int(action.item())

    def _distribution(self, probabilities: Any) -> torch.distributions.Categorical:
        try:
            return torch.distributions.Categorical(probabilities)
        except (ValueError, TypeError, AttributeError, RuntimeError):
            own = (name for name in ("forward_policy", "forward", "process") if name in vars(type(self)))
            if isinstance(probabilities, Tensor):
                probabilities = [round(float(value), 3) for value in probabilities.detach().flatten()[:6]]
            raise AgentError(
                f"{locate_method(self, next(own, 'decide'))} returned {probabilities!r:.60}, expected probabilities:"
                " numbers from 0 on that add up to 1, as softmax gives"
            ) from None

    def policy_loss(self, rews_or_advs: list[float]) -> list[Tensor]:
        """Return the loss of each decision: minus the logarithm of its probability, times what it was worth."""
        return [-log_prob * worth for log_prob, worth in zip(self.log_probs, rews_or_advs, strict=False)]

    def save_log_prob(self, log_prob: Tensor) -> None:
        """Note the logarithm of the probability of an action taken."""
        self.log_probs.append(log_prob)


class ValueLearningAgent(LearningAgent):
    """An agent that learns what a state is worth.

    ``values``: estimated value at each decision, tensors of shape ``(1, 1)``.
    """

    def __init__(self, gamma: float) -> None:
        super().__init__(gamma)
        self.values: list[Tensor] = []

    def loss(self) -> Tensor:
        """Return the sum of `value_loss` over the simulation."""
        return _total(self.value_loss(self.transform_rewards()))

    def forward_value(self, observation: Tensor) -> Tensor:
        """Estimate the value of the state, shape ``(1, 1)``."""
        raise NotImplementedError("the agent does not define forward_value")

    def value_loss(self, rews: list[float]) -> list[Tensor]:
        """Return the Huber loss (with delta 1) of each estimate."""
        return [
            functional.smooth_l1_loss(value.reshape(-1), value.new_tensor([worth]))
            for value, worth in zip(self.values, rews, strict=False)
        ]

    def save_value(self, value: Tensor) -> None:
        """Note an estimated value."""
        self.values.append(value)


def _total(losses: list[Tensor]) -> Tensor:
    return torch.stack([loss.reshape(()) for loss in losses]).sum()
