"""From options to an agent that learns: its class, its settings, its environments."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hdrl.errors import MissingExtra, OptionsError, UnknownName
from hdrl.experiment.run.agentfile import Agent, AgentError, AgentKind, blame
from hdrl.experiment.train.environments import Environment
from hdrl.options.file import OptionsFile
from hdrl.seeding import seed_sequence
from hdrl.setting import Load, Machine
from hdrl.windows import range_of_shares

if TYPE_CHECKING:
    from hdrl.experiment.train.modelfile import AnyLearner
    from hdrl.learn.agent import Agent as LearningAgent


def stream_seed(seed: int, name: str) -> int:
    """Return the 32-bit seed of one part of an experiment.

    Parameters
    ----------
    seed
        Seed of the experiment.
    name
        The part: ``"train"``, ``"validation"``, ``"agent"``.
    """
    return int(seed_sequence(seed, name).generate_state(1)[0])


def require_torch() -> None:
    """Say in one line what is missing where torch is.

    Raises
    ------
    MissingExtra
        If torch is not installed.
    """
    try:
        import torch  # noqa: F401 (it must be there)
    except ModuleNotFoundError:
        raise MissingExtra("torch", "learn") from None


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Let torch compute on one thread, so that sums have one order on every machine.

    The networks are small: more threads wait for each other longer than they compute as soon as anything else runs.
    """
    from hdrl.learn.threads import torch_threads

    with torch_threads(1):
        yield


def built_in_agent(options: OptionsFile, name: str) -> Agent:
    """Return a built-in learning agent.

    Parameters
    ----------
    options
        The options, for messages.
    name
        Name of its algorithm.

    Raises
    ------
    OptionsError
        If there is no such algorithm.
    """
    from hdrl.agents import ALGORITHMS

    require_torch()
    try:
        return Agent(name, name, kind=AgentKind.LEARNING, learner=ALGORITHMS[name].agent_class())
    except UnknownName as error:
        raise OptionsError(f"{options.where}: learning.algorithm: {error}") from None


def make_agent(
    agent: Agent, config: Mapping[str, Any], spaces: tuple[Any, Any], *, seed: int, where: str
) -> LearningAgent:
    """Make an agent of our API.

    Parameters
    ----------
    agent
        Its class.
    config
        Its settings by name.
    spaces
        The observation and the action space.
    seed
        Seed of the experiment.
    where
        Where the settings come from, for messages.

    Raises
    ------
    HdrlError
        If a setting is wrong, or it cannot be made.
    """
    import torch

    cls = agent.learner
    if cls is None:
        raise TypeError("the agent does not learn")
    generator = torch.Generator().manual_seed(stream_seed(seed, "agent"))
    made: LearningAgent
    try:
        with one_thread():  # agents from files, too, begin with the same weights on every machine
            made = cls(*spaces, cls.Config.of(config, where), generator)
    except (TypeError, AttributeError, ValueError, RuntimeError) as error:
        blamed = blame(error, agent.path) if agent.path is not None else None
        if blamed is not None:
            raise AgentError(str(blamed)) from error
        if agent.path is None:
            raise
        raise AgentError(f"{agent.path}: {cls.__name__}: {' '.join(str(error).split())}") from error
    return made


def settings_of(options: OptionsFile, agent: Agent) -> dict[str, Any]:
    """Return the settings of an agent of our API: those of the preset, of ``pybatsim.agent``, of ``learning.settings``.

    Parameters
    ----------
    options
        The options.
    agent
        The agent.
    """
    if agent.learner is None:
        raise TypeError("the agent does not learn")
    settings: dict[str, Any] = {}
    if agent.path is None:
        from hdrl.agents import ALGORITHMS

        settings |= ALGORITHMS[agent.name].settings
    known = agent.learner.Config.model_fields
    given = options.agent_options
    for name, value in (("hidden", given.hidden), ("lr", given.lr), ("gamma", given.gamma)):
        if value is not None and name in known:
            settings[name] = [value] * len(known[name].get_default()) if name == "hidden" else value
    return settings | options.learning.settings


def make_learner(
    options: OptionsFile,
    agent: Agent,
    spec: Environment,
    machine: Machine,
    load: Load,
) -> AnyLearner:
    """Make the learner of a training, with its environments.

    Parameters
    ----------
    options
        The options.
    agent
        The agent.
    spec
        Its environment.
    machine, load
        What is simulated.

    Raises
    ------
    HdrlError
        If anything does not fit.
    """
    require_torch()
    from hdrl.experiment.train.batchlearner import BatchLearner
    from hdrl.experiment.train.hdeeprmlearner import HDeepRMLearner

    spec.check_exact(machine, load, options.where)
    seed = stream_seed(options.seed, "train")
    validates = options.learning.validation_every is not None
    training = episode_arguments(options, "train", load)
    validation = episode_arguments(options, "validation", load) if validates else {}
    if agent.kind is AgentKind.HDEEPRM:
        _check_hdeeprm(options, agent)
        return HDeepRMLearner(
            agent,
            hdeeprm_settings(options),
            spec.single(machine, load, **training),
            validation_env=spec.single(machine, load, **validation) if validates else None,
            seed=seed,
        )
    n_validation = min(options.learning.n_validation_episodes, 64)
    envs = spec.batch(options.learning.n_envs, machine, load, **training)
    spaces = envs.single_observation_space, envs.single_action_space
    where = f"{options.where}: learning.settings"
    made = make_agent(agent, settings_of(options, agent), spaces, seed=options.seed, where=where)
    return BatchLearner(
        made,
        envs,
        validation_envs=spec.batch(n_validation, machine, load, **validation) if validates else None,
        seed=seed,
        path=agent.path,
    )


def hdeeprm_settings(options: OptionsFile) -> Any:
    """Return what options say to an agent of HDeepRM's API.

    Parameters
    ----------
    options
        The options.
    """
    from hdrl.experiment.train.hdeeprmlearner import HDeepRMSettings

    given = options.agent_options
    chosen = {name: getattr(given, name) for name in ("gamma", "hidden", "lr") if getattr(given, name) is not None}
    return HDeepRMSettings(**chosen, samples_in_test=options.tests_by_drawing)


def episode_arguments(options: OptionsFile, name: str, load: Load) -> dict[str, Any]:
    """Return the arguments of an environment that say which jobs an episode holds.

    Parameters
    ----------
    options
        The options.
    name
        The range: ``"train"``, ``"validation"`` or ``"test"``.
    workload
        The workload.

    Raises
    ------
    OptionsError
        If the range is too short for an episode.
    """
    episodes = options.learning.episodes
    if episodes.n_jobs is None:
        return {}
    first, last = job_range(options, name, load)
    if last - first < episodes.n_jobs:
        raise OptionsError(
            f"{options.where}: learning.episodes.{name} holds {last - first:,} of the {load.n_items:,} jobs, "
            f"expected at least learning.episodes.n_jobs = {episodes.n_jobs:,}"
        )
    # Validations draw their windows too: always the same ones, since they have the same seed.
    start = episodes.start if name == "train" else "random"
    return {"n_jobs": episodes.n_jobs, "part": (first, last), "start": start}


def job_range(options: OptionsFile, name: str, load: Load) -> tuple[int, int]:
    """Return a range as numbers of jobs: the first, and the one after the last.

    Parameters
    ----------
    options
        The options.
    name
        The range: ``"train"``, ``"validation"`` or ``"test"``.
    workload
        The workload.

    Raises
    ------
    OptionsError
        If no job is in it.
    """
    if options.learning.episodes.n_jobs is None:
        return 0, load.n_items
    shares = getattr(options.learning.episodes, name)
    what = f"{options.where}: learning.episodes.{name}"
    return range_of_shares(shares, load.n_items, what=what, items=f"jobs of {load.name}")


def test_jobs(options: OptionsFile, load: Load) -> Load:
    """Return the jobs of a test: all, or those of the range ``test`` where episodes are windows.

    Parameters
    ----------
    options
        The options.
    workload
        The workload.
    """
    if options.learning.episodes.n_jobs is None:
        return load
    first, last = job_range(options, "test", load)
    return load.window(first, last - first)


test_jobs.__test__ = False  # type: ignore[attr-defined]  # no test, whatever pytest thinks of its name


def _check_hdeeprm(options: OptionsFile, agent: Agent) -> None:
    """Refuse what agents of HDeepRM's API cannot do."""
    if options.learning.settings:
        raise OptionsError(
            f"{options.where}: learning.settings is given, but {Path(agent.path or '').name} has HDeepRM's API, whose "
            "settings are pybatsim.agent.hidden, lr and gamma"
        )
    if options.learning.n_envs != 1:
        raise OptionsError(
            f"{options.where}: learning.n_envs is {options.learning.n_envs}, but agents of HDeepRM's API learn from "
            "one simulation after the other, expected 1"
        )
