"""What options choose: the agent, its kind, the seeds."""

from __future__ import annotations

from hdrl.base.errors import OptionsError, UnknownName
from hdrl.base.pyfiles import is_policy_file
from hdrl.base.seeding import stream_seed
from hdrl.experiment.run.agentfile import AgentChoice, AgentKind, load_agent
from hdrl.options.file import OptionsFile
from hdrl.setting import find_setting


def run_seeds(options: OptionsFile) -> list[int]:
    """Return the seed of each run.

    A single run has the seed of the options. Of several, run ``i`` has the first 32 bits of the stream
    ``run/<i>``; where the seed repeats, as in HDeepRM, all have the same.
    """
    if options.runs == 1 or options.repeats_seed:
        return [options.seed] * options.runs
    return [stream_seed(options.seed, f"run/{index}") for index in range(options.runs)]


def resolve_options(options: OptionsFile) -> OptionsFile:
    """Return the options with all that they imply made explicit, so that equal experiments have equal options.

    The kind of agent, the policy of the classic agent by today's name, and no copy of the seed.

    Raises
    ------
    OptionsError
        If a classic agent without a file does not have exactly one policy.
    """
    options = options.explicit()
    agent: dict[str, object] = {"type": options.agent_type}
    if options.agent_type == "CLASSIC" and options.agent_options.file is None:
        agent[options.policy_key] = _classic_policy(options)
    return options.with_agent(**agent)


def choose_agent(options: OptionsFile) -> AgentChoice:
    """Return the agent that the options ask for.

    Raises
    ------
    OptionsError
        If they do not say who learns, ask for a model where nothing learns, or do not name exactly one policy.
    HdrlError
        If the agent file is wrong.
    """
    given = options.agent_options
    if given.file is not None:
        agent = load_agent(
            options.path_of(given.file),
            lambda: _classic_policy(options),
            policies=find_setting(options.setting_name).policies,
            takes_first=options.takes_first_agent,
        )
    elif options.learning.algorithm is not None:
        from hdrl.experiment.train.learning import built_in_agent

        agent = built_in_agent(options, options.learning.algorithm)
    elif options.agent_type == "LEARNING":
        from hdrl.agents import ALGORITHMS

        raise OptionsError(
            f"{options.where}: asks for a LEARNING agent, but names none; name a Python file or one of "
            f"{', '.join(ALGORITHMS)}"
        )
    else:
        agent = AgentChoice("classic", _classic_policy(options))
    if agent.kind is AgentKind.POLICY:
        for key, model in (("input_model", given.input_model), ("output_model", given.output_model)):
            if model is not None:
                raise OptionsError(
                    f"{options.where}: {options.agent_block}.{key} is {model!r}, but a classic agent has no model"
                )
    return agent


def may_learn(options: OptionsFile) -> bool:
    """Tell whether the agent of options may be one that learns: a file decides itself."""
    return options.agent_type == "LEARNING" or options.agent_options.file is not None


def with_kind(options: OptionsFile, agent: AgentChoice) -> OptionsFile:
    """Return the options with the kind that the agent is of: in a file, the class decides.

    Parameters
    ----------
    options
        The options.
    agent
        Their agent.
    """
    return options.with_agent(type="CLASSIC" if agent.kind is AgentKind.POLICY else "LEARNING")


def _classic_policy(options: OptionsFile) -> str:
    written, key = options.policy(), f"{options.agent_block}.{options.policy_key}"
    if is_policy_file(written):
        raise OptionsError(f"{options.where}: {key} is {written!r}; a Python file goes into {options.agent_block}.file")
    try:
        return find_setting(options.setting_name).policies.read(written)
    except UnknownName as error:
        raise OptionsError(f"{options.where}: {key}: {error}") from None
