"""Agents: one readable file per algorithm, and the names by which they are made.

::

    agent = make_agent("ppo", envs.single_observation_space, envs.single_action_space, seed=1, lr=1e-3)

A preset is an algorithm with some settings changed: ``d3qn`` is ``dqn`` with double, dueling and prioritised
learning. Importing this package loads no torch; making an agent does.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hdrl.base.registry import Registry
from hdrl.base.seeding import stream

if TYPE_CHECKING:
    import gymnasium as gym

    from hdrl.learn.agent import Agent
    from hdrl.learn.checkpoint import Checkpoint
    from hdrl.learn.config import Config

__all__ = ["ALGORITHMS", "Algorithm", "load_agent", "make_agent"]


@dataclass(frozen=True, slots=True)
class Algorithm:
    """A named way to learn.

    Attributes
    ----------
    module, class_name
        Module and name of its class.
    summary
        Its description, in a few words.
    settings
        Changed defaults of its configuration.
    """

    module: str
    class_name: str
    summary: str
    settings: Mapping[str, Any] = field(default_factory=dict)

    def agent_class(self) -> type[Agent]:
        """Return the class; this imports torch; raise MissingExtra if torch is not installed."""
        found: type[Agent] = getattr(importlib.import_module(self.module), self.class_name)
        return found

    def config(self, settings: Mapping[str, Any] | None = None, where: str = "settings") -> Config:
        """Return the configuration: the defaults, then the preset's, then the given settings.

        Raise OptionsError if a name or a value is wrong, MissingExtra if torch is not installed.

        ``where``: name of their source, for messages.
        """
        agent_class = self.agent_class()
        from hdrl.learn.config import check_used

        chosen = {**self.settings, **(settings or {})}
        found: Config = agent_class.Config.of(chosen, where)
        check_used(agent_class.Config, chosen, settings or (), where)
        return found


ALGORITHMS: Registry[Algorithm] = Registry("algorithm")
"""All algorithms and presets by name."""

_DUELING = {"is_double": True, "is_dueling": True, "is_prioritised": True, "is_shared": True}
_RAINBOW = {
    **_DUELING,
    "n_return_steps": 3,
    "is_noisy": True,
    "n_atoms": 51,
    "alpha": 0.5,
    "epsilon_first": 0.0,
    "epsilon_last": 0.0,
}
_RLSCHEDULER = {
    "network": "kernel",
    "n_steps": 256,
    "n_epochs": 80,
    "minibatch_size": None,
    "lr": 3e-4,
    "value_lr": 1e-3,
    "gamma": 1.0,
    "gae_lambda": 0.97,
    "clip": 0.2,
    "target_kl": 0.01,
    "max_grad_norm": None,
    "is_scaled": False,
}
_ADVISOR_SEED = {"lr": 1e-4, "lr_decay": 0.99, "has_baseline": False}
_HDEEPRM: dict[str, Any] = {"network": "hdeeprm_reinforce", "hidden": [16], "lr": 1e-3}

for _name, _module, _class, _summary, _settings in (
    ("random", "random", "Random", "every legal action with the same probability; does not learn", {}),
    ("reinforce", "reinforce", "Reinforce", "policy gradient from whole episodes", {}),
    ("a2c", "a2c", "A2C", "advantage actor-critic", {}),
    ("ppo", "ppo", "PPO", "proximal policy optimisation", {}),
    ("dqn", "dqn", "DQN", "deep Q-learning", {}),
    ("d3qn", "dqn", "DQN", "double, dueling, prioritised deep Q-learning", _DUELING),
    ("rainbow", "dqn", "DQN", "d3qn with three steps, noisy weights and distributions of returns", _RAINBOW),
    ("sac", "sac", "SAC", "soft actor-critic for discrete actions", {}),
    ("cma_es", "cma_es", "CMAES", "evolution of weights by CMA-ES, for the environments of an index", {}),
    (
        "openai_es",
        "openai_es",
        "OpenAIES",
        "evolution of weights by OpenAI's strategy, for the environments of an index",
        {},
    ),
    ("advisor", "advisor", "AdvisorAgent", "REINFORCE that reads layers, for networks that adapt", {}),
    ("advisor_exact", "advisor", "AdvisorAgent", "advisor with the exact expected gradient", {"gradient": "exact"}),
    ("advisor_seed", "advisor", "AdvisorAgent", "advisor as in ChamiLamelas' code", _ADVISOR_SEED),
    ("rlscheduler", "ppo", "PPO", "PPO as in RLScheduler, per-job kernel; made for 100 environments", _RLSCHEDULER),
    ("hdeeprm_reinforce", "reinforce", "Reinforce", "REINFORCE as in HDeepRM's example", _HDEEPRM),
    (
        "hdeeprm_actor_critic",
        "reinforce",
        "Reinforce",
        "actor-critic as in HDeepRM's example",
        {**_HDEEPRM, "network": "hdeeprm_actor_critic", "has_baseline": True},
    ),
):
    ALGORITHMS.register(_name)(Algorithm(f"hdrl.agents.{_module}", _class, _summary, _settings))


def make_agent(
    name: str,
    observation_space: gym.Space[Any],
    action_space: gym.Space[Any],
    *,
    seed: int = 0,
    device: str = "cpu",
    **settings: Any,
) -> Agent:
    """Make an agent.

    Parameters
    ----------
    name
        Of an algorithm or preset (`ALGORITHMS`).
    observation_space, action_space
        The spaces of one environment: a Box and a Discrete.
    seed
        Seed of its first weights and of all its choices, not negative.
    device
        Device of its networks: ``"cpu"``, ``"cuda"``, ``"mps"``, or ``"auto"``, a GPU if there is one.
    **settings
        Changes of the defaults; each algorithm's ``Config`` describes them.

    Raises
    ------
    UnknownName
        If there is no such algorithm.
    OptionsError
        If a setting is wrong, or there is no such device.
    LearningError
        If it cannot act in such spaces, or not on such a device.
    MissingExtra
        If torch is not installed.
    """
    algorithm = ALGORITHMS[name]
    config = algorithm.config(settings, where=name)
    from hdrl.learn.device import find_device

    made = algorithm.agent_class()(observation_space, action_space, config, _generator(seed))
    made.to(find_device(device))
    return made


def load_agent(model: str | Path | Checkpoint) -> Agent:
    """Make the agent of a model file, ready to act and to learn on.

    Raises
    ------
    ReadError
        If it is no good model file.
    UnknownName
        If its algorithm is not one of `ALGORITHMS`.
    LearningError
        If its parts do not fit each other.
    MissingExtra
        If torch is not installed.
    """
    from hdrl.learn.checkpoint import load_checkpoint

    checkpoint = load_checkpoint(model) if isinstance(model, (str, Path)) else model
    algorithm = ALGORITHMS[checkpoint.algorithm]
    agent_class = algorithm.agent_class()
    config = agent_class.Config.of(checkpoint.config, where="model")
    agent = agent_class(*checkpoint.spaces(), config, _generator(0))
    agent.load_state_dict(checkpoint.agent)
    return agent


def _generator(seed: int) -> Any:
    import torch

    return torch.Generator().manual_seed(int(stream(seed, "agent").integers(2**63 - 1)))
