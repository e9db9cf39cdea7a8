"""Deciders of a simulation: a policy by name, a Python file, a model, or an agent that options describe."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from hdrl.base.errors import OptionsError
from hdrl.base.pyfiles import CPP_SUFFIX, located_errors
from hdrl.experiment.plan import RunPlan
from hdrl.experiment.run.agentfile import AgentKind, load_agent
from hdrl.experiment.train.modeluse import Model, play_options
from hdrl.experiment.train.world import TrainingWorld
from hdrl.setting import EnvironmentSpec, Load, Machine, Policy, Progress, Setting


@dataclass(frozen=True, slots=True)
class Knowledge:
    """Information that a decider has and others may lack."""

    uses_hidden_information: bool = False  # True if it sees what no scheduler sees, true run times for instance
    # on which items it was trained, as a model file says it; empty for what was not trained, or if unknown
    trained_on: Mapping[str, Any] = field(default_factory=dict)
    is_trained: bool = False  # True if it was trained at all
    # the environment of its training, which says what items are; ``None`` if there is none
    environment: EnvironmentSpec | None = None
    averages: tuple[str, ...] = ()  # hashes of the averaged model files; empty if it is no average


class Decider(Protocol):
    """Decider of a simulation."""

    def play(
        self, machine: Machine, load: Load, *, seed: int, progress: Progress | None = None, folder: Path | None = None
    ) -> Any:
        """Simulate a load on a machine.

        ``seed`` is that of what is random in deciding. ``progress`` is called if the decider reports progress. A
        simulator outside leaves its files in ``folder``.
        """

    def knowledge(self) -> Knowledge:
        """Return the information that it has and others may lack."""


@dataclass(frozen=True, slots=True)
class PolicyDecider:
    """A policy that does not learn."""

    setting: Setting
    policy: Policy  # its name, or what the setting made of a Python file
    path: Path | None = None  # the Python file, for messages
    options: Any = None  # options or a sweep, for what they say of simulations

    def play(
        self, machine: Machine, load: Load, *, seed: int, progress: Progress | None = None, folder: Path | None = None
    ) -> Any:
        """Simulate under the policy."""
        with located_errors(self.path):
            return self.setting.simulator.simulate(
                machine, load, self.policy, seed=seed, options=self.options, progress=progress, folder=folder
            )

    def knowledge(self) -> Knowledge:
        """Return whether the policy sees too much."""
        return Knowledge(uses_hidden_information=self.setting.policies.uses_hidden_information(self.policy))


@dataclass(frozen=True, slots=True)
class ModelDecider:
    """A model file, in the environment that it was trained in."""

    model: Model
    options: Any = None  # options or a sweep, for what they say of simulations

    def play(
        self, machine: Machine, load: Load, *, seed: int, progress: Progress | None = None, folder: Path | None = None
    ) -> Any:
        """Simulate with the best actions."""
        del progress, folder
        return self.model.play(machine, load, seed=seed, options=self.options)

    def knowledge(self) -> Knowledge:
        """Return whether its environment shows too much, and on what it was trained."""
        record = self.model.trained_on
        return Knowledge(
            uses_hidden_information=self.model.uses_hidden_information,
            trained_on=record if isinstance(record, Mapping) else {},
            is_trained=self.model.is_trained,
            environment=self.model.spec,
            averages=self.model.averages,
        )


@dataclass(frozen=True, slots=True)
class AgentDecider:
    """An agent that learns, tested as options say: with the model that they name, if any."""

    plan: RunPlan

    def play(
        self, machine: Machine, load: Load, *, seed: int, progress: Progress | None = None, folder: Path | None = None
    ) -> Any:
        """Simulate with the best actions."""
        del progress
        world = TrainingWorld(replace(self.plan, machine=machine, loads=(load,)))
        return play_options(world, self.plan.agent, seed=seed, folder=folder)

    def knowledge(self) -> Knowledge:
        """Return that it was trained."""
        return Knowledge(is_trained=True)


def decider_of(plan: RunPlan) -> Decider:
    """Return the decider of a run."""
    options, agent = plan.request, plan.agent
    if agent.kind is AgentKind.POLICY:
        return PolicyDecider(plan.setting, agent.policy, agent.path, options)
    why_not = options.no_model()
    if why_not is not None:
        raise OptionsError(f"{options.where}: {why_not}")
    return AgentDecider(plan)


def decider_of_file(path: Path, suffix: str, setting: Setting, options: Any = None) -> PolicyDecider:
    """Return the freshly loaded policy of a user's Python file, or of a scheduler in C++.

    The suffix is ``"+easy"`` for instance, or empty.
    """
    if path.suffix == CPP_SUFFIX:
        policy = setting.policies.of_source(path)
        if policy is None or suffix:
            what = f"{suffix!r} goes with a priority in Python" if suffix else "its setting plays no scheduler in C++"
            raise OptionsError(f"{path}: {what}")
        return PolicyDecider(setting, policy, path, options)
    agent = load_agent(f"{path}{suffix}", lambda: _no_pair(path), policies=setting.policies)
    if agent.kind is not AgentKind.POLICY:
        raise OptionsError(f"{path}: an agent that learns is compared by its model (*.pt), which hdrl-launch trains")
    return PolicyDecider(setting, agent.policy, path, options)


def _no_pair(path: Path) -> str:
    raise OptionsError(f"{path}: an agent that asks for a policy pair cannot be compared by itself; write policy(view)")
