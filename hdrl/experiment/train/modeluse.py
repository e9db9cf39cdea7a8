"""Using a model file: it says what agent it is of and in which environment that decides."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hdrl.errors import LearningError, OptionsError, UnknownName
from hdrl.experiment.run.agentfile import Agent, AgentKind, load_agent
from hdrl.experiment.train.environments import Environment, environment_from, environment_of
from hdrl.experiment.train.learning import (
    hdeeprm_settings,
    make_agent,
    one_thread,
    require_torch,
    settings_of,
    test_jobs,
)
from hdrl.experiment.train.modelfile import FILE, read_model
from hdrl.options.file import OptionsFile
from hdrl.setting import Load, Machine, Setting, Trace, find_setting

if TYPE_CHECKING:
    from hdrl.experiment.train.modelfile import AnyLearner
    from hdrl.learn.checkpoint import Checkpoint


class Model:
    """What a model file holds, ready to decide on any platform and workload that its observations fit.

    Parameters
    ----------
    path
        The model file.
    agent_file
        The agent file of a user's own agent; ``None``: the agent is a built-in one.
    setting
        The setting that it decides in; batch jobs by default.

    Attributes
    ----------
    path
        The model file.
    algorithm
        Name of its algorithm, or ``file:`` and the name of the agent file.
    trained_on
        On which jobs it was trained: ``workload``, ``workload_sha256``, ``n_jobs`` (of the whole workload),
        ``first_job`` and ``last_job`` (in the order of submission, from 0) and ``platform``; empty if nobody knows.

    Raises
    ------
    ReadError
        If a file cannot be read.
    OptionsError
        If the agent's file is missing, or is of another agent.
    MissingExtra
        If torch is not installed.
    """

    def __init__(
        self, path: str | Path, *, agent_file: str | Path | None = None, setting: Setting | None = None
    ) -> None:
        require_torch()
        from hdrl.learn.checkpoint import load_checkpoint

        self.path = Path(path)
        self._checkpoint: Checkpoint = load_checkpoint(self.path)
        self.algorithm = self._checkpoint.algorithm
        self.trained_on: Mapping[str, Any] = self._checkpoint.notes.get("trained_on", {})
        self._agent = self._find_agent(agent_file)
        self._spec = environment_from(self._checkpoint.environment, str(self.path), setting)

    def play(
        self, machine: Machine, load: Load, *, seed: int = 0, options: Any = None, as_trained: bool = False
    ) -> Trace:
        """Simulate the jobs of a workload with the best actions.

        Parameters
        ----------
        machine, load
            What is simulated; the platform must have as many nodes, processors and cores as the one of the training,
            unless the observation leaves them out.
        seed
            Seed of the environment: of what random selections draw.
        options
            Options or a sweep, for what they say of simulations.
        as_trained
            Whether the environment of the training simulates, instead of the simulator of all other policies.

        Raises
        ------
        HdrlError
            If the model does not fit the platform, or a decision cannot be followed.
        """
        if as_trained:
            self._spec.check_exact(machine, load, str(self.path))
            env = self._spec.single(machine, load)
        else:
            self.check_can_play()
            env = self._spec.player(machine, load, options)
        try:
            with one_thread():
                return self._learner(env, seed).play(env, seed)
        finally:
            env.close()

    def check_can_play(self) -> None:
        """Refuse a model whose decisions cannot be carried out by the simulator of all other policies.

        Raises
        ------
        OptionsError
            If it is one.
        """
        try:
            self._spec.check_can_play(str(self.path))
        except OptionsError as error:
            raise OptionsError(f"{self.path}: {error}") from None

    def _learner(self, env: Any, seed: int) -> AnyLearner:
        from hdrl.experiment.train.batchlearner import BatchLearner
        from hdrl.experiment.train.hdeeprmlearner import HDeepRMLearner, HDeepRMSettings
        from hdrl.learn.spaces import check_same_spaces

        checkpoint = self._checkpoint
        check_same_spaces(checkpoint.spaces(), (env.observation_space, env.action_space), str(self.path))
        learner: AnyLearner
        if self._agent.kind is AgentKind.HDEEPRM:
            learner = HDeepRMLearner(self._agent, HDeepRMSettings(**checkpoint.config), env, seed=seed)
        else:
            made = make_agent(self._agent, checkpoint.config, checkpoint.spaces(), seed=seed, where=str(self.path))
            learner = BatchLearner(made, None, path=self._agent.path)
        learner.load_model(checkpoint.agent, str(self.path))
        return learner

    def _find_agent(self, agent_file: str | Path | None) -> Agent:
        if agent_file is not None:
            agent = load_agent(agent_file, _no_pair, takes_first=True)
            if agent.kind.value != self._checkpoint.notes.get("api"):
                raise OptionsError(f"{self.path}: is a model of {self.algorithm}, not of {agent_file}")
            return agent
        if self.algorithm.startswith(FILE):
            name = self.algorithm.removeprefix(FILE)
            beside = self.path.parent / name
            if beside.is_file():
                return self._find_agent(beside)
            raise OptionsError(
                f"{self.path}: is a model of the agent file {name}, which must be given, or lie beside it"
            )
        from hdrl.agents import ALGORITHMS

        try:
            found = ALGORITHMS[self.algorithm].agent_class()
        except UnknownName as error:
            raise LearningError(f"{self.path}: {error}") from None
        return Agent(self.algorithm, self.algorithm, kind=AgentKind.LEARNING, learner=found)


def evaluate_model(
    path: str | Path,
    machine: Machine,
    load: Load,
    *,
    seed: int = 0,
    agent_file: str | Path | None = None,
) -> Trace:
    """Simulate the jobs of a workload with a learned model, which takes its best actions.

    Parameters
    ----------
    path
        The model file; it says what agent it is of and in which environment that decides.
    machine, load
        What is simulated.
    seed
        Seed of what is random in the environment.
    agent_file
        The agent file of a user's own agent, unless it lies beside the model file.

    Raises
    ------
    HdrlError
        If a file cannot be read, or the model does not fit the platform.
    """
    return Model(path, agent_file=agent_file).play(machine, load, seed=seed)


def play_options(options: OptionsFile, agent: Agent, machine: Machine, load: Load) -> Trace:
    """Test a learning agent as options say: with the model that they name, in the environment that they describe.

    Parameters
    ----------
    options
        The options.
    agent
        The agent.
    machine, load
        What is simulated.

    Raises
    ------
    HdrlError
        If there is no model, or it does not fit.
    """
    require_torch()
    from hdrl.experiment.train.batchlearner import BatchLearner
    from hdrl.experiment.train.hdeeprmlearner import HDeepRMLearner

    spec = environment_of(options)
    env = playing_environment(options, spec, machine, load)
    spaces = env.observation_space, env.action_space
    learner: AnyLearner
    if agent.kind is AgentKind.HDEEPRM:
        learner = HDeepRMLearner(agent, hdeeprm_settings(options), env, seed=options.seed)
    else:
        settings, where = _settings(options, agent), f"{options.where}: learning.settings"
        made = make_agent(agent, settings, spaces, seed=options.seed, where=where)
        learner = BatchLearner(made, None, path=agent.path)
    _load(options, agent, learner, spec, spaces)
    try:
        with one_thread():
            return learner.play(env, options.seed)
    finally:
        env.close()


def playing_environment(options: OptionsFile, spec: Environment, machine: Machine, load: Load) -> Any:
    """Return the environment in which a model is tested on the jobs of a test.

    Parameters
    ----------
    options
        The options.
    spec
        The environment of the training.
    machine, load
        What is simulated.

    Raises
    ------
    HdrlError
        If the decisions of the model cannot be carried out.
    """
    tested = test_jobs(options, load)
    if spec.is_compatible:  # reproduces numbers that were made in that mode
        spec.check_exact(machine, tested, options.where)
        return spec.single(machine, tested)
    return spec.player(machine, tested, options)


def _settings(options: OptionsFile, agent: Agent) -> dict[str, Any]:
    """Return the settings that a test needs: those of the model, which decide about its networks."""
    given = options.agent_options.input_model
    if given is None:
        return settings_of(options, agent)
    _, checkpoint = read_model(options.path_of(given), agent)
    return dict(checkpoint.config) if checkpoint is not None else settings_of(options, agent)


def _load(options: OptionsFile, agent: Agent, learner: AnyLearner, spec: Environment, spaces: tuple[Any, Any]) -> None:
    from hdrl.learn.spaces import check_same_spaces

    given = options.agent_options.input_model
    if given is None:
        if agent.name == "random":
            return
        raise OptionsError(
            f"{options.where}: {options.agent_block}.run is 'test', which needs a model (--inmodel FILE)"
        )
    path = options.path_of(given)
    model, checkpoint = read_model(path, agent)
    if checkpoint is not None:
        check_same_spaces(checkpoint.spaces(), spaces, str(path))
        trained = environment_from(checkpoint.environment, str(path), find_setting(options.setting_name))
        _check_same_meaning(trained, spec, path)
    learner.load_model(model, str(path))


def _check_same_meaning(trained: Environment, now: Environment, path: Path) -> None:
    """Refuse a model whose actions or observations mean something else here."""
    if trained.id != now.id:
        raise OptionsError(f"{path}: was trained in {trained.id}, not in {now.id}")
    for key in sorted({*trained.arguments, *now.arguments} - {"objective"}):
        before, after = trained.arguments.get(key), now.arguments.get(key)
        if before != after:
            raise OptionsError(f"{path}: was trained with {key} = {before!r}, not {after!r}")


def _no_pair() -> str:
    return "first-random"
