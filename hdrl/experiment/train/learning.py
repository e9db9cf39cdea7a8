"""From options to an agent that learns: its class, its settings, its imitation, and the file of an error."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hdrl.agents import ALGORITHMS
from hdrl.base.errors import HdrlError, LearningError, MissingExtra, OptionsError, UnknownName
from hdrl.base.pyfiles import located_errors, one_line
from hdrl.base.seeding import stream_seed
from hdrl.experiment.run.agentfile import AgentChoice, AgentError, AgentKind
from hdrl.options.file import OptionsFile

if TYPE_CHECKING:
    import torch

    from hdrl.learn.agent import Agent
    from hdrl.learn.train import Imitation

HDEEPRM_ADAPTER = "hdrl.compat.hdeeprm.adapter"
"""Module that makes agents of HDeepRM learn here; loaded when there is one."""


def require_torch() -> None:
    """Say in one line what is missing where torch is."""
    try:
        import torch  # noqa: F401 (it must be there)
    except ModuleNotFoundError:
        raise MissingExtra("torch", "learn") from None


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Let torch compute on one thread, so that sums have one order on every machine.

    The networks are small: more threads wait for each other longer than they compute as soon as anything else runs.
    As many others as torch would have had help where results do not depend on it (`hdrl.learn.threads.share`).
    """
    import torch

    from hdrl.learn.threads import torch_threads, use_helper_threads

    with use_helper_threads(torch.get_num_threads() - 1), torch_threads(1):
        yield


def built_in_agent(options: OptionsFile, name: str) -> AgentChoice:
    """Return a built-in learning agent."""
    require_torch()
    try:
        return AgentChoice(name, name, kind=AgentKind.LEARNING, learner=ALGORITHMS[name].agent_class())
    except UnknownName as error:
        raise OptionsError(f"{options.where}: learning.algorithm: {error}") from None


@contextlib.contextmanager
def environment_errors(where: str) -> Iterator[None]:
    """Say in one line that an environment cannot be made of the options, whatever the error."""
    try:
        yield
    except UnknownName as error:
        raise OptionsError(f"{where}: {error}") from None
    except HdrlError:
        raise
    except (TypeError, ValueError, LookupError, AttributeError, ArithmeticError) as error:
        raise OptionsError(f"{where}: no environment can be made of it ({one_line(error)})") from error


def make_agent(
    choice: AgentChoice, config: Mapping[str, Any], spaces: tuple[Any, Any], *, seed: int, where: str
) -> Agent:
    """Make an agent that learns."""
    import torch

    cls, path = choice.learner, choice.path
    if cls is None:
        raise TypeError("the agent does not learn")
    try:
        with one_thread(), located_errors(path):  # agents from files, too, begin with the same weights on every machine
            if choice.kind is AgentKind.HDEEPRM:
                adapter = import_module(HDEEPRM_ADAPTER)
                settings, seed = adapter.HDeepRMConfig.of(config, where), stream_seed(seed, "train")
                made: Agent = adapter.HDeepRMAgent(*spaces, settings, made_of=cls, seed=seed)
            else:
                generator = torch.Generator().manual_seed(stream_seed(seed, "agent"))
                made = cls(*spaces, cls.Config.of(config, where), generator)
            return made
    except (TypeError, AttributeError, ValueError, RuntimeError) as error:
        if path is None:
            raise
        # What the file itself does is blamed with its line: this is an attribute that a base class would have made.
        is_unmade = isinstance(error, AttributeError) and str(error.name).startswith("_")
        hint = "; its __init__ must begin with super().__init__(...)" if is_unmade else ""
        raise AgentError(f"{path}: {cls.__name__}: {one_line(error)}{hint}") from error


def settings_of(options: OptionsFile, choice: AgentChoice, usual: Mapping[str, object] | None = None) -> dict[str, Any]:
    """Return the settings of an agent: of the preset, of the environment, of the agent, of ``learning.settings``.

    ``usual`` are those of the environment; settings that the agent does not have are left out.
    """
    given = options.agent_options
    chosen = {name: getattr(given, name) for name in ("hidden", "lr", "gamma") if getattr(given, name) is not None}
    if choice.learner is None:
        raise TypeError("the agent does not learn")
    if choice.kind is AgentKind.HDEEPRM:
        return chosen | {"samples_in_test": options.tests_by_drawing}
    settings: dict[str, Any] = {}
    if choice.path is None:
        settings |= ALGORITHMS[choice.name].settings
    known = choice.learner.Config.model_fields
    settings |= {name: value for name, value in (usual or {}).items() if name in known}
    for name, value in chosen.items():
        if name in known:
            settings[name] = [value] * len(known[name].get_default()) if name == "hidden" else value
    from hdrl.learn.config import check_used

    by_user = {name for name in chosen if name in known} | options.learning.settings.keys()
    settings |= options.learning.settings
    check_used(choice.learner.Config, settings, by_user, options.where)
    return settings


def device_of(options: OptionsFile, agent: Agent) -> torch.device:
    """Return the device on which an agent learns."""
    from hdrl.learn.device import CPU, find_device

    requested, where = options.learning.device, f"{options.where}: learning.device"
    if requested == "auto" and (options.learning.distributed is not None or agent.computes_on == "cpu"):
        return CPU
    found = find_device(requested, where)
    if found != CPU and agent.computes_on == "cpu":
        raise OptionsError(
            f"{where} is {requested!r}, but {type(agent).__name__} computes on the CPU alone, expected 'cpu'"
        )
    if found != CPU and options.learning.distributed is not None:
        raise OptionsError(
            f"{where} is {requested!r}, but workers of learning.distributed compute on the CPU alone, expected 'cpu'"
        )
    return found


def check_options_of(options: OptionsFile, choice: AgentChoice) -> None:
    """Refuse options that agents of HDeepRM's API cannot follow in a training."""
    if choice.kind is not AgentKind.HDEEPRM:
        return
    if options.learning.settings:
        raise OptionsError(
            f"{options.where}: learning.settings is given, but {Path(choice.path or '').name} has HDeepRM's API, whose "
            f"settings are {options.agent_block}.hidden, lr and gamma"
        )
    if options.learning.n_envs != 1:
        raise OptionsError(
            f"{options.where}: learning.n_envs is {options.learning.n_envs}, but agents of HDeepRM's API learn from "
            "one simulation after the other, expected 1"
        )


IMITATION = "learning.imitation"


def imitation_of(options: OptionsFile, agent: Agent, envs: Any) -> Imitation | None:
    """Return the policy that an agent imitates, ``None`` if there is none.

    The ``guide_actions`` of the environments say what the other policy would do.
    """
    import torch

    from hdrl.learn.adversary import Adversary
    from hdrl.learn.agent import Agent as Base
    from hdrl.learn.rollout import Rollout
    from hdrl.learn.train import Imitation

    requested = options.learning.imitation
    if requested is None:
        return None
    n_first, name = requested.iterations or 0, type(agent).__name__
    n_iterations = options.runs * options.learning.iterations
    if n_first and type(agent).imitate is Base.imitate:
        raise OptionsError(f"{options.where}: {IMITATION}: {name} cannot imitate, expected ppo")
    if n_first > n_iterations:
        raise OptionsError(
            f"{options.where}: {IMITATION}.iterations is {n_first}, expected at most the {n_iterations} of the training"
        )
    if requested.adversarial is None:
        return Imitation(n_first, envs.guide_actions)
    if not isinstance(agent.memory(1), Rollout):
        raise OptionsError(
            f"{options.where}: {IMITATION}.adversarial: {name} does not learn from steps in their order, expected ppo, "
            "a2c or reinforce"
        )
    generator = torch.Generator().manual_seed(stream_seed(options.seed, "adversary"))
    try:
        adversary = Adversary(agent, requested.adversarial, generator, begins_after=n_first)
    except (UnknownName, LearningError) as error:
        raise OptionsError(f"{options.where}: {IMITATION}.adversarial: {error}") from None
    return Imitation(n_first, envs.guide_actions, adversary)
