"""Checks of the results of agents: a message about a mistake names its line."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from hdrl.base.errors import LearningError
from hdrl.base.pyfiles import AgentError
from hdrl.learn.agent import Acted, Agent, one_line
from hdrl.learn.device import CPU, moved, put
from hdrl.learn.memory import Memory
from hdrl.learn.replay import Transitions

Calls = Mapping[str, tuple[int, tuple[str, ...]]]
"""Signatures of methods, by name: the number of positional arguments, and the names of the others."""

_CALLS: Calls = {"act": (2, ("explore",)), "learn": (1, ()), "memory": (1, ())}
_ATTRIBUTES = ("observation_space", "action_space", "n_actions", "config")


def locate_method(agent: object, method: str) -> str:
    """Return file, line and name of a method of an object, for messages: ``mine.py:12: Mine.act``."""
    name = f"{type(agent).__name__}.{method}"
    function = getattr(type(agent), method, None)
    code = None if function is None else getattr(inspect.unwrap(function), "__code__", None)
    return name if code is None else f"{code.co_filename}:{code.co_firstlineno}: {name}"


def check_calls(agent: object, calls: Calls) -> None:
    """Refuse an object whose methods cannot be called as they will be.

    Raise AgentError if a method takes other arguments.
    """
    for method, (n_positions, names) in calls.items():
        try:
            inspect.signature(getattr(agent, method)).bind(*range(n_positions), **dict.fromkeys(names))
        except TypeError as error:
            raise AgentError(f"{locate_method(agent, method)}: {one_line(error)}, when called as hdrl does") from None
        except ValueError:  # a callable without a signature
            continue


def check_agent(agent: Agent) -> None:
    """Raise AgentError for an agent that cannot be trained: wrong arguments of methods, or no set-up of the base."""
    missing = [name for name in _ATTRIBUTES if not hasattr(agent, name)]
    if missing:
        raise AgentError(
            f"{locate_method(agent, '__init__')} leaves the agent without {missing[0]}, expected a call of "
            "super().__init__(observation_space, action_space, config, generator)"
        )
    check_calls(agent, _CALLS)


def checked_memory(agent: Agent, n_envs: int) -> Memory:
    """Return a new memory of an agent; raise AgentError if it is none."""
    memory = agent.memory(n_envs)
    if not isinstance(memory, Memory):
        raise AgentError(
            f"{locate_method(agent, 'memory')} returned {_shown(memory)}, expected a Rollout, Episodes or Replay"
        )
    return memory


def checked_choice(agent: Agent, observations: Tensor, mask: Tensor | None, *, explore: bool) -> Acted:
    """Return the agent's actions; raise AgentError unless it chooses one action in each environment."""
    seen = moved((observations, mask), agent.device)
    try:
        acted = agent.act(*seen, explore=explore)
    except (RuntimeError, ValueError):
        # What torch says of probabilities that are nan does not help: the weights are what is wrong.
        check_weights(agent, torch.isfinite)
        raise
    n = len(observations)
    if not isinstance(acted, Acted):
        raise AgentError(f"{locate_method(agent, 'act')} returned {_shown(acted)}, expected Acted(actions, stored)")
    if agent.device != CPU:
        acted = put(acted, CPU)
    actions, stored = acted
    if not isinstance(actions, Tensor) or not _are_actions(agent, actions, n):
        shape = f"a floating-point tensor of shape ({n}, {agent.n_actions})" if agent.takes_box else ""
        raise AgentError(
            f"{locate_method(agent, 'act')} returned {_shown(actions)} as actions, expected "
            f"{shape or f'an int64 tensor of shape ({n},)'}"
        )
    if not isinstance(stored, dict) or not all(isinstance(x, Tensor) and x.shape[:1] == (n,) for x in stored.values()):
        raise AgentError(
            f"{locate_method(agent, 'act')} returned {_shown(stored)} as stored, expected tensors by name, "
            f"each of {n} rows"
        )
    if agent.listener is not None:
        agent.listener.chose(agent, observations, mask, actions)
    return acted


def _are_actions(agent: Agent, actions: Tensor, n: int) -> bool:
    if agent.takes_box:
        return actions.is_floating_point() and actions.shape == (n, agent.n_actions)
    return actions.dtype == torch.int64 and actions.shape == (n,)


def checked_losses(agent: Agent, batch: Any, *, imitates: bool = False) -> dict[str, float]:
    """Let an agent learn from a batch, or imitate the choices in it.

    Raise AgentError if it does not return numbers by name, LearningError if a loss is not finite.
    """
    there = moved(batch, agent.device)
    returned = agent.imitate(there) if imitates else agent.learn(there)
    if there is not batch and isinstance(there, Transitions) and there.errors is not None:
        batch.errors = there.errors.cpu()
    try:
        if not isinstance(returned, Mapping):
            raise TypeError
        losses = {str(name): float(value) for name, value in returned.items()}
    except (TypeError, ValueError, RuntimeError):
        raise AgentError(
            f"{locate_method(agent, 'learn')} returned {_shown(returned)}, "
            "expected numbers by name, such as {'loss': 0.1}"
        ) from None
    for name, value in losses.items():
        if (name == "loss" or name.endswith("_loss")) and not math.isfinite(value):
            raise LearningError(f"{name} of {type(agent).__name__} is {value}, expected a finite number")
    if agent.listener is not None:
        agent.listener.learned(losses)
    return losses


def checked_probabilities(agent: Agent, observations: Tensor, mask: Tensor | None) -> list[float]:
    """Return the probability of each action in the first of some environments; raise AgentError for anything else."""
    with torch.no_grad():
        returned = agent.probabilities(*moved((observations, mask), agent.device))
    if not isinstance(returned, Tensor) or returned.ndim != 2 or len(returned) != len(observations):
        shape = (len(observations), agent.n_actions)
        raise AgentError(
            f"{locate_method(agent, 'probabilities')} returned {_shown(returned)}, expected a tensor of shape {shape}"
        )
    return [float(value) for value in returned[0]]


def check_weights(agent: Agent, is_good: Callable[[Tensor], Tensor] | None = None) -> None:
    """Raise LearningError for weights that are no numbers.

    ``is_good`` finds the good ones; ``None``: all but NaN, since some networks hold infinities on purpose.
    """
    if not _all_good(agent.state_dict(), is_good or _is_number):
        raise LearningError(f"weights of {type(agent).__name__} are not finite any more; a smaller lr may help")


def _is_number(tensor: Tensor) -> Tensor:
    return ~tensor.isnan()


def _all_good(value: Any, is_good: Callable[[Tensor], Tensor]) -> bool:
    if isinstance(value, Tensor):
        return not value.is_floating_point() or bool(is_good(value).all())
    if isinstance(value, Mapping):
        return all(_all_good(part, is_good) for part in value.values())
    return not isinstance(value, (list, tuple)) or all(_all_good(part, is_good) for part in value)


def _shown(value: object) -> str:
    if isinstance(value, Tensor):
        return f"a {str(value.dtype).removeprefix('torch.')} tensor of shape {tuple(value.shape)}"
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
