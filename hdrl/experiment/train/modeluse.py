"""Using a model file: it says what agent it is of and in which environment that decides."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hdrl.agents import ALGORITHMS
from hdrl.base.errors import LearningError, OptionsError, UnknownName, readable
from hdrl.base.pyfiles import TRUST, UntrustedFile, located_errors, refuse_python
from hdrl.experiment.run.agentfile import AgentChoice, AgentKind, load_agent
from hdrl.experiment.train.decisions import DecisionLog, write_lines
from hdrl.experiment.train.environments import ChosenEnvironment, check_same_meaning
from hdrl.experiment.train.learning import environment_errors, make_agent, one_thread, require_torch, settings_of
from hdrl.experiment.train.modelfile import (
    AVERAGED,
    FILE,
    IS_UNTRAINED,
    api_of,
    check_same_file,
    load_weights,
    read_checkpoint,
    read_model,
    spec_of,
)
from hdrl.experiment.train.world import TrainingWorld
from hdrl.options.file import OptionsFile
from hdrl.setting import EnvironmentSpec, Load, Machine, Message, Setting, Trace

if TYPE_CHECKING:
    from hdrl.learn.agent import Agent
    from hdrl.learn.checkpoint import Checkpoint
    from hdrl.learn.library import Specialist


class Model:
    """A model file, ready to decide on any platform and workload that its observations fit.

    Parameters
    ----------
    agent_file
        The agent file of a user's own agent; ``None``: the agent is a built-in one.
    agent_files
        Instead of one: several agent files; the one that the model file names counts.
    setting
        The setting that it decides in; ``None``: the shipped one that it was trained in.
    trust
        True if the agent file may run that the model file names and that lies beside it.

    Attributes
    ----------
    path
        The model file.
    algorithm
        Name of its algorithm, or ``file:`` and the name of the agent file.
    trained_on
        On which jobs it was trained: ``workload``, ``workload_sha256``, ``n_jobs`` (of the whole workload),
        ``first_job`` and ``last_job`` (in the order of submission, from 0), ``platform`` and a ``sketch`` of these jobs
        (`hdrl.experiment.recognition`); the same of each further log in ``further``; empty if unknown.
    averages
        Hashes of the averaged model files; empty if it is no average.
    is_trained
        False if its weights are those that a training began with.

    Raises
    ------
    ReadError
        If a file cannot be read.
    OptionsError
        If the agent's file is missing, or is not the one that the model was trained with.
    UntrustedFile
        If the model needs an agent file that was not given.
    MissingExtra
        If torch is not installed.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        agent_file: str | Path | None = None,
        agent_files: Sequence[str | Path] = (),
        setting: Setting | None = None,
        trust: bool = False,
    ) -> None:
        require_torch()
        self.path = Path(path)
        self._checkpoint: Checkpoint = read_checkpoint(self.path)
        self.algorithm = self._checkpoint.algorithm
        self.trained_on: Mapping[str, Any] = self._checkpoint.notes.get("trained_on", {})
        named = self.algorithm.removeprefix(FILE) if self.algorithm.startswith(FILE) else None
        if agent_file is None and named is not None:
            agent_file = next((file for file in agent_files if Path(file).name == named), None)
            agent_file = agent_file or self._beside(named, trust=trust)
        self.averages: tuple[str, ...] = tuple(map(str, self._checkpoint.notes.get(AVERAGED, ())))
        self.is_trained = not self._checkpoint.notes.get(IS_UNTRAINED, False)
        self._choice = self._find_choice(agent_file)
        self._spec = spec_of(self._checkpoint, self.path, setting)
        if not trust:
            refuse_python(self._spec.arguments, self.path)

    def __repr__(self) -> str:
        return f"<Model {self.path}: {self.algorithm} in {self._spec.id}>"

    @property
    def agent_state(self) -> Mapping[str, Any]:
        """State of the agent, as `Agent.state_dict` gave it."""
        return self._checkpoint.agent

    @property
    def environment(self) -> dict[str, Any]:
        """The environment that it was trained in, as its file describes it."""
        return self._spec.as_json()

    @property
    def spec(self) -> EnvironmentSpec:
        """Kind of its environment."""
        return self._spec.spec

    @property
    def uses_hidden_information(self) -> bool:
        """True if its observations show information that no real scheduler has."""
        return self._spec.spec.uses_hidden_information(self._spec.arguments)

    def check_can_play(self, machine: Machine | None = None) -> None:
        """Refuse a model that cannot be played in the world of the policies that hdrl simulates."""
        self._spec.check_can_play(str(self.path), machine)

    def warm_up(self, message: Message) -> None:
        """Compile the code that plays the model, if that is compiled code."""
        if self._of_spaces(self._checkpoint.spaces(), 0).plain_actor() is not None:
            self._spec.spec.warm_up(message)

    def play(
        self, machine: Machine, load: Load, *, seed: int = 0, options: Any = None, as_trained: bool = False
    ) -> Trace:
        """Simulate the jobs of a workload with the best actions.

        Parameters
        ----------
        machine, load
            Machine and load; the machine must have as many nodes, processors and cores as the one of the training,
            unless the observation leaves them out.
        seed
            Seed of the environment: of what random selections draw.
        options
            Options or a sweep, for what they say of simulations.
        as_trained
            True to simulate in the environment of the training, instead of as all candidates are simulated.
        """
        from hdrl.learn.library import specialists_of

        with environment_errors(f"{self.path}: its environment"):
            if as_trained:
                self._spec.check_exact(machine, load, str(self.path))
                env = self._spec.single(machine, load)
            else:
                self.check_can_play(machine)
                env = self._spec.player(machine, load, options)
        try:
            agent, where = self._of_spaces((env.observation_space, env.action_space), seed), str(self.path)
            switch = switch_of(specialists_of(self.agent_state, where), agent, env, load, self._spec, where)
            return played(agent, env, seed, self._choice.path, switch)
        finally:
            env.close()

    def agent(self, envs: Any) -> Agent:
        """Return the agent, to decide in a batch of environments like that of its training."""
        return self._of_spaces((envs.single_observation_space, envs.single_action_space), 0)

    def _of_spaces(self, found: tuple[Any, Any], seed: int) -> Agent:
        from hdrl.learn.spaces import check_same_spaces

        checkpoint, where = self._checkpoint, str(self.path)
        spaces = checkpoint.spaces()
        check_same_spaces(spaces, found, where)
        agent = make_agent(self._choice, checkpoint.config, spaces, seed=seed, where=where)
        load_weights(agent, checkpoint.agent, where, self._choice.path)
        return agent

    def _beside(self, name: str, *, trust: bool) -> Path:
        """Return the agent file beside the model, which the header names."""
        beside = self.path.parent / name
        if Path(name).name != name or not beside.is_file():
            raise OptionsError(
                f"{self.path}: is a model of the agent file {readable(name)}, expected it as the agent, or next to the "
                f"model with {TRUST}"
            )
        if not trust:
            raise UntrustedFile(self.path, name, "name it as the agent, --agent FILE in a comparison")
        return beside

    def _find_choice(self, agent_file: str | Path | None) -> AgentChoice:
        if agent_file is not None:
            agent = load_agent(agent_file, _no_pair, takes_first=True)
            if agent.kind.value != api_of(self._checkpoint):
                raise OptionsError(f"{self.path}: is a model of {self.algorithm}, not of {agent_file}")
            check_same_file(agent, self._checkpoint, self.path)
            return agent
        try:
            found = ALGORITHMS[self.algorithm].agent_class()
        except UnknownName as error:
            raise LearningError(f"{self.path}: {error}") from None
        return AgentChoice(self.algorithm, self.algorithm, kind=AgentKind.LEARNING, learner=found)


def evaluate_model(
    path: str | Path,
    machine: Machine,
    load: Load,
    *,
    seed: int = 0,
    agent_file: str | Path | None = None,
    trust: bool = False,
) -> Trace:
    """Simulate the jobs of a workload with a learned model, which takes its best actions.

    Parameters
    ----------
    path
        The model file; it says what agent it is of and in which environment that decides.
    seed
        Seed of what is random in the environment.
    agent_file
        The agent file of a user's own agent.
    trust
        True if the agent file may run that lies next to the model file.
    """
    return Model(path, agent_file=agent_file, trust=trust).play(machine, load, seed=seed)


def play_options(world: TrainingWorld, choice: AgentChoice, *, seed: int, folder: Path | None = None) -> Trace:
    """Test a learning agent as options say: with the model that they name, in the environment that they describe.

    ``folder`` gets the decisions that the options ask for, and the files of a simulator outside.
    """
    require_torch()
    options = world.options
    given = options.agent_options.input_model
    if given is None and choice.name != "random":
        raise OptionsError(
            f"{options.where}: {options.agent_block}.run is 'test', which needs a model (--inmodel FILE);"
            " none that the same options have trained is in runs/"
        )
    env = world.test(folder)
    spaces = env.observation_space, env.action_space
    where = f"{options.where}: learning.settings"
    try:
        made = make_agent(choice, _settings(options, choice), spaces, seed=seed, where=where)
        specialists: Sequence[Specialist] = ()
        if given is not None:
            specialists = load_model(options.path_of(given), choice, made, world)
        decisions = DecisionLog(world.spec.action_names(), options.also_write_names)
        made.listener = decisions if decisions.is_needed else None
        switch = switch_of(specialists, made, env, world.tested(), world.spec, str(given))
        trace = played(made, env, seed, choice.path, switch)
        if folder is not None:
            write_lines(folder, decisions.take())
        return trace
    finally:
        env.close()


def switch_of(
    specialists: Sequence[Specialist], agent: Agent, env: Any, load: Load, spec: ChosenEnvironment, where: str
) -> Callable[[], None] | None:
    """Return a function that gives an agent the weights of the present configuration; ``None`` without any."""
    from hdrl.learn.library import WeightSwitch

    if not specialists:
        return None
    points = spec.configuration_coordinates(load)
    return WeightSwitch(agent, specialists, lambda: points[spec.configuration_now(env, load)], where)


def played(agent: Agent, env: Any, seed: int, path: Path | None, before: Callable[[], object] | None = None) -> Trace:
    """Simulate an episode with the best actions.

    The environment has a ``trace`` method in addition to those of Gymnasium. ``before`` is called before each decision.
    """
    from hdrl.learn.evaluate import play

    with one_thread(), located_errors(path):
        play(agent, env, seed=seed, before=before)
    trace: Trace = env.trace()
    return trace


def load_model(path: Path, choice: AgentChoice, agent: Agent, world: TrainingWorld) -> list[Specialist]:
    """Let an agent start from a model file, if what it has learned means the same in its environment.

    Return what the file holds of single configurations; the agent has what was learned last.
    """
    from hdrl.learn.library import specialists_of
    from hdrl.learn.spaces import check_same_spaces

    model, checkpoint = read_model(path, choice)
    if checkpoint is not None:
        check_same_spaces(checkpoint.spaces(), (agent.observation_space, agent.action_space), str(path))
        if checkpoint.environment:
            check_same_meaning(spec_of(checkpoint, path, world.setting), world.spec, path)
    load_weights(agent, model, str(path), choice.path)
    return specialists_of(model, str(path))


def _settings(options: OptionsFile, choice: AgentChoice) -> dict[str, Any]:
    """Return the settings that a test needs: the settings of the model, which decide about its networks."""
    given = options.agent_options.input_model
    if given is None or choice.kind is AgentKind.HDEEPRM:
        return settings_of(options, choice)
    _, checkpoint = read_model(options.path_of(given), choice)
    return dict(checkpoint.config) if checkpoint is not None else settings_of(options, choice)


def _no_pair() -> str:
    return "first-random"
