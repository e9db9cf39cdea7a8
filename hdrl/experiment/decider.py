"""Who decides, whatever it came from: the name of a policy, a Python file, a model, an agent that options describe."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from hdrl.base.errors import OptionsError
from hdrl.base.pyfiles import CPP_SUFFIX, blamed
from hdrl.experiment.plan import RunPlan
from hdrl.experiment.run.agentfile import AgentKind, load_agent
from hdrl.experiment.train.modeluse import Model, play_options
from hdrl.experiment.train.world import World
from hdrl.setting import EnvironmentSpec, Load, Machine, Policy, Progress, Setting


@dataclass(frozen=True, slots=True)
class Knowledge:
    """What a decider knows that others may not.

    Attributes
    ----------
    sees_too_much
        Whether it sees what no scheduler sees, true run times for instance.
    trained_on
        On which items it was trained, as a model file says it; empty for what was not trained, or if unknown.
    is_trained
        Whether it was trained at all.
    environment
        The environment of its training, which tells what items are; ``None`` if there is none.
    averages
        Hashes of the model files of which it is the average; empty if it is none.
    """

    sees_too_much: bool = False
    trained_on: Mapping[str, Any] = field(default_factory=dict)
    is_trained: bool = False
    environment: EnvironmentSpec | None = None
    averages: tuple[str, ...] = ()


class Decider(Protocol):
    """Who decides in a simulation."""

    def play(
        self, machine: Machine, load: Load, *, seed: int, progress: Progress | None = None, folder: Path | None = None
    ) -> Any:
        """Simulate a load on a machine.

        Parameters
        ----------
        seed
            Seed of what is random in deciding.
        progress
            Progress callback, if the decider reports progress.
        folder
            Where a simulator outside leaves its files.

        Raises
        ------
        HdrlError
            If it cannot decide there, or decides something impossible.
        """

    def knows(self) -> Knowledge:
        """Return what it knows that others may not."""


@dataclass(frozen=True, slots=True)
class PolicyDecider:
    """A policy that does not learn.

    Attributes
    ----------
    setting
        Its setting.
    policy
        Its name, or what the setting made of a Python file.
    path
        The Python file, for messages.
    options
        Options or a sweep, for what they say of simulations.
    """

    setting: Setting
    policy: Policy
    path: Path | None = None
    options: Any = None

    def play(
        self, machine: Machine, load: Load, *, seed: int, progress: Progress | None = None, folder: Path | None = None
    ) -> Any:
        """Simulate under the policy."""
        with blamed(self.path):
            return self.setting.simulator.simulate(
                machine, load, self.policy, seed=seed, options=self.options, progress=progress, folder=folder
            )

    def knows(self) -> Knowledge:
        """Return whether the policy sees too much."""
        return Knowledge(sees_too_much=self.setting.policies.knows_too_much(self.policy))


@dataclass(frozen=True, slots=True)
class ModelDecider:
    """A model file, in the environment that it was trained in.

    Attributes
    ----------
    model
        The model.
    options
        Options or a sweep, for what they say of simulations.
    """

    model: Model
    options: Any = None

    def play(
        self, machine: Machine, load: Load, *, seed: int, progress: Progress | None = None, folder: Path | None = None
    ) -> Any:
        """Simulate with the best actions."""
        del progress, folder
        return self.model.play(machine, load, seed=seed, options=self.options)

    def knows(self) -> Knowledge:
        """Return whether its environment shows too much, and on what it was trained."""
        record = self.model.trained_on
        return Knowledge(
            sees_too_much=self.model.knows_too_much,
            trained_on=record if isinstance(record, Mapping) else {},
            is_trained=True,
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
        world = World(replace(self.plan, machine=machine, loads=(load,)))
        return play_options(world, self.plan.agent, seed=seed, folder=folder)

    def knows(self) -> Knowledge:
        """Return that it was trained."""
        return Knowledge(is_trained=True)


def decider_of(plan: RunPlan) -> Decider:
    """Return who decides in a run.

    Raises
    ------
    OptionsError
        If it cannot decide there.
    """
    options, agent = plan.asked, plan.agent
    if agent.kind is AgentKind.POLICY:
        return PolicyDecider(plan.setting, agent.policy, agent.path, options)
    why_not = options.no_learning()
    if why_not is not None:
        raise OptionsError(f"{options.where}: {why_not}")
    return AgentDecider(plan)


def decider_of_file(path: Path, suffix: str, setting: Setting, options: Any = None) -> PolicyDecider:
    """Return the freshly loaded policy of a user's Python file, or of a scheduler in C++.

    Parameters
    ----------
    suffix
        What follows it: ``"+easy"``; empty if nothing does.
    options
        Options or a sweep, for what they say of simulations.

    Raises
    ------
    HdrlError
        If the file defines nothing of the kind.
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
