"""Plan of an experiment or a comparison, resolved once: its setting, its inputs, and its deciders."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from hdrl.agents import ALGORITHMS
from hdrl.base.errors import OptionsError, UnknownName
from hdrl.base.pyfiles import is_policy_file
from hdrl.experiment.run.agentfile import AgentChoice, AgentKind, load_agent
from hdrl.experiment.train.learning import built_in_agent
from hdrl.options.file import OptionsFile
from hdrl.options.sweep import Sweep
from hdrl.setting import Load, LoadGenerator, Machine, Setting, find_setting

Request = TypeVar("Request", bound="OptionsFile | Sweep")

NOWHERE = Path()
"""The folder of results that are not written."""


@dataclass(frozen=True, slots=True)
class Plan(Generic[Request]):
    """Inputs of a simulation, and the folder of its results.

    Attributes
    ----------
    request
        The options or the sweep, with all that they imply made explicit.
    setting
        Their setting.
    machine, loads
        Inputs of the simulation.
    out
        The folder of the results.
    """

    request: Request
    setting: Setting
    machine: Machine
    loads: tuple[Load, ...]
    out: Path

    @property
    def load(self) -> Load:
        """The only load, or the first of several."""
        return self.loads[0]


@dataclass(frozen=True, slots=True)
class RunPlan(Plan[OptionsFile]):
    """A run, or a training and what its model does then.

    Attributes
    ----------
    agent
        Agent that decides or learns; its Python file has been run, and is not run again.
    """

    agent: AgentChoice

    @property
    def trains(self) -> bool:
        """True if the agent learns."""
        return self.agent.kind is not AgentKind.POLICY and self.request.agent_options.run == "train"


def setting_for(request: OptionsFile | Sweep) -> Setting:
    """Return the setting of options or of a sweep."""
    return find_setting(request.setting_name, request.folder)


def plan_of(request: Request, out: str | Path = NOWHERE) -> Plan[Request]:
    """Resolve options or a sweep: find the setting, and read what is simulated.

    Options must be explicit (`plans_of`).
    """
    out = Path(out)
    setting = setting_for(request)
    machine = setting.inputs.machine(request)
    if isinstance(request, Sweep):
        baseline, metrics = setting.policies.default_baseline, setting.measures.compared
        request = request.completed(machine, baseline=baseline, metrics=metrics)
        return Plan(request, setting, machine, tuple(read_loads(request, setting, machine)), out)
    return Plan(request, setting, machine, (setting.inputs.load(request, machine),), out)


def generator_of(setting: Setting, sweep: Sweep) -> LoadGenerator:
    """Return the generator of loads."""
    if not isinstance(setting.inputs, LoadGenerator):
        raise OptionsError(f"{sweep.where}: setting {setting.name} generates no loads: leave out loads")
    return setting.inputs


def read_loads(sweep: Sweep, setting: Setting, machine: Machine) -> list[Load]:
    """Read the loads of a sweep, and check that the machine can serve them.

    Refuse items that can never run, two loads of one name, and the generator whose offered loads are given, too.
    """
    if sweep.loads and (generator := generator_of(setting, sweep).generator) in sweep.workloads:
        raise OptionsError(
            f"{sweep.where}: workload {generator!r} is the generator of loads: its own load and offered loads "
            f"of {', '.join(f'{load:g}' for load in sweep.loads)} would share one table; leave out workloads, or loads"
        )
    loads = list(setting.inputs.loads(sweep, machine))
    names = [load.name for load in loads]
    for name in names:
        if names.count(name) > 1:
            raise OptionsError(f"{sweep.where}: two workloads are called {name!r}")
    return loads


def plans_of(options: OptionsFile, out: str | Path) -> Iterator[RunPlan]:
    """Resolve options: yield the plan of a training, or of each run; several have a folder each, ``run_0`` and so on.

    The agent of each run is loaded for itself, since what one remembers must not pass to the next run.

    Yields
    ------
    RunPlan
        A plan.
    """
    out = Path(out)
    setting, options = setting_for(options), options.explicit()
    agent = choose_agent(options, setting)
    learns = agent.kind is not AgentKind.POLICY
    values: dict[str, object] = {"type": "LEARNING" if learns else "CLASSIC"}
    if not learns and agent.path is None:
        values[options.policy_key] = agent.policy
    options = options.with_agent(**values)
    if options.runs == 1 or (learns and options.agent_options.run == "train"):
        each = {out: options}
    else:
        seeds = enumerate(options.run_seeds)
        each = {out / f"run_{index}": options.changed(seed=seed, runs=1) for index, seed in seeds}
    for number, (folder, one) in enumerate(each.items()):
        agent = agent if number == 0 else choose_agent(one, setting)
        machine = setting.inputs.machine(one)
        yield RunPlan(one, setting, machine, (setting.inputs.load(one, machine),), folder, agent)


def resolve_options(options: OptionsFile) -> OptionsFile:
    """Return the options with all that they imply made explicit, so that equal experiments have equal options.

    The kind of agent, the policy of the classic agent by today's name, and no copy of the seed. No agent's file is run
    for that: it is believed to hold what the options say.
    """
    setting, options = setting_for(options), options.explicit()
    values: dict[str, object] = {"type": options.agent_type}
    if options.agent_type == "CLASSIC" and options.agent_options.file is None:
        values[options.policy_key] = _classic_policy(options, setting)
    return options.with_agent(**values)


def choose_agent(options: OptionsFile, setting: Setting) -> AgentChoice:
    """Return the agent that options ask for; a Python file is run for it."""
    given = options.agent_options
    if given.file is not None:
        agent = load_agent(
            options.path_of(given.file),
            lambda: _classic_policy(options, setting),
            policies=setting.policies,
            takes_first=options.takes_first_agent,
        )
    elif options.learning.algorithm is not None:
        agent = built_in_agent(options, options.learning.algorithm)
    elif options.agent_type == "LEARNING":
        raise OptionsError(
            f"{options.where}: asks for a LEARNING agent, but names none; name a Python file or one of "
            f"{', '.join(ALGORITHMS)}"
        )
    else:
        agent = AgentChoice("classic", _classic_policy(options, setting))
    if agent.kind is AgentKind.POLICY:
        for key, model in (("input_model", given.input_model), ("output_model", given.output_model)):
            if model is not None:
                raise OptionsError(
                    f"{options.where}: {options.agent_block}.{key} is {model!r}, but a classic agent has no model"
                )
    return agent


def _classic_policy(options: OptionsFile, setting: Setting) -> str:
    written, key = options.policy(), f"{options.agent_block}.{options.policy_key}"
    if is_policy_file(written):
        raise OptionsError(f"{options.where}: {key} is {written!r}; a Python file goes into {options.agent_block}.file")
    try:
        return setting.policies.read(written)
    except UnknownName as error:
        raise OptionsError(f"{options.where}: {key}: {error}") from None
