"""The server of the weights, or one of several that share them: takes gradients, makes steps, gives weights.

Weights are shared tensor by tensor, and norms are put together as torch does it; so the number of servers
changes no byte.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, nn

from hdrl.base.errors import LearningError, OptionsError
from hdrl.learn import portable
from hdrl.learn.agent import Agent

RULES: dict[str, type[torch.optim.Optimizer]] = {
    "sgd": torch.optim.SGD,
    "adagrad": torch.optim.Adagrad,
    "rmsprop": torch.optim.RMSprop,
}
"""Rules by which a server uses gradients, besides the agent's own optimiser."""


@dataclass(frozen=True, slots=True)
class ServerPart:
    """The tensors of one server, the optimiser's settings for each of them, and what makes the optimiser."""

    positions: tuple[int, ...]
    groups: tuple[dict[str, Any], ...]
    rule: Callable[..., torch.optim.Optimizer]


def weights_of(agent: Agent) -> list[Tensor]:
    """Return the weights that the agent's only optimiser changes, in its order; not copies."""
    return [cast("Tensor", one) for group in _optimizer_of(agent).param_groups for one in group["params"]]


def _optimizer_of(agent: Agent) -> torch.optim.Optimizer:
    """Return the only optimiser of an agent."""
    if len(agent.optimizers) != 1:
        raise LearningError(
            f"{type(agent).__name__} has {len(agent.optimizers)} optimisers, expected one to learn together with others"
        )
    return next(iter(agent.optimizers.values()))


def parts_of(agent: Agent, n_servers: int, rule: str, where: str) -> list[ServerPart]:
    """Share the weights of an agent among servers, about the same number of them to each.

    Parameters
    ----------
    rule
        ``"agent"`` or one of `RULES`.
    where
        Source of the number, for messages.

    Raises
    ------
    OptionsError
        If there are more servers than tensors.
    """
    weights, optimizer = weights_of(agent), _optimizer_of(agent)
    if n_servers > len(weights):
        raise OptionsError(
            f"{where}: learning.distributed.servers is {n_servers}, but the networks have {len(weights)} tensors to"
            f" share, expected at most {len(weights)}"
        )
    settings = []
    for group in optimizer.param_groups:
        own = {name: value for name, value in group.items() if name != "params"}
        settings += [own if rule == "agent" else {"lr": own["lr"]}] * len(group["params"])
    total = sum(one.numel() for one in weights)
    positions: list[list[int]] = [[] for _ in range(n_servers)]
    before = 0
    for position, tensor in enumerate(weights):
        fair = int(n_servers * before / max(total, 1))
        before += tensor.numel()
        left = len(weights) - position
        empty = [k for k in range(n_servers) if not positions[k]]
        positions[empty[0] if len(empty) >= left else min(fair, n_servers - 1)].append(position)
    made = type(optimizer) if rule == "agent" else RULES[rule]
    return [ServerPart(tuple(sorted(one)), tuple(settings[i] for i in sorted(one)), made) for one in positions]


class ParameterServer:
    """Holds some of the weights and their optimiser."""

    def __init__(self, part: ServerPart, weights: Sequence[Tensor]) -> None:
        self._positions = part.positions
        self._weights = [nn.Parameter(weights[position].detach().clone()) for position in part.positions]
        groups = [{**own, "params": [one]} for own, one in zip(part.groups, self._weights, strict=True)]
        self._optimizer = part.rule(groups)

    def take(self, gradients: Sequence[Sequence[Tensor]]) -> tuple[list[Tensor], None]:
        """Keep the mean of workers' gradients, in their order, for `step`; return its norm for each tensor."""
        for position, weight in zip(self._positions, self._weights, strict=True):
            mean = gradients[0][position].clone()
            for one in gradients[1:]:
                mean += one[position]
            weight.grad = mean if len(gradients) == 1 else mean.div_(len(gradients))
        squares = [portable.sum_of_squares(cast("Tensor", weight.grad)) for weight in self._weights]
        return [torch.tensor(math.sqrt(one), dtype=torch.float64) for one in squares], None

    def step(self, norms: Sequence[Sequence[Tensor]], max_norm: float | None) -> tuple[None, None]:
        """Make a step with the mean, scaled down to a norm; ``norms`` is what `take` of all servers returned."""
        if max_norm is not None:
            flat = [norm for some in norms for norm in some]
            norm = math.sqrt(sum(float(one) ** 2 for one in flat))
            share = min(1.0, max_norm / (norm + 1e-6))
            for weight in self._weights:
                cast("Tensor", weight.grad).mul_(share)
        self._optimizer.step()
        return None, None

    def weights(self) -> tuple[dict[int, Tensor], None]:
        """Return copies of the weights that are held here, by position."""
        held = zip(self._positions, self._weights, strict=True)
        return {position: weight.detach().clone() for position, weight in held}, None

    def state_dict(self) -> tuple[dict[str, Any], None]:
        """Return weights and optimiser."""
        return {
            "weights": [weight.detach().clone() for weight in self._weights],
            "optimizer": self._optimizer.state_dict(),
        }, None

    def load_state_dict(self, state: Mapping[str, Any]) -> tuple[None, None]:
        """Take over what `state_dict` returned."""
        with torch.no_grad():
            for weight, saved in zip(self._weights, state["weights"], strict=True):
                weight.copy_(saved)
        self._optimizer.load_state_dict(dict(state["optimizer"]))
        return None, None
