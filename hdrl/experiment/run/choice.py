"""What options amount to: the agent, its kind, the seeds."""

from __future__ import annotations

from hdrl.errors import OptionsError, UnknownName
from hdrl.experiment.run.agentfile import AgentChoice, AgentKind, load_agent
from hdrl.options import Options
from hdrl.seeding import seed_sequence


def run_seeds(options: Options) -> list[int]:
    """Return the seed of each run.

    A single run has the seed of the options. Of several, run ``i`` has the first 32 bits of the stream
    ``run/<i>``; in the compatibility mode all have the same seed, as in HDeepRM.

    Parameters
    ----------
    options
        The options.
    """
    if options.runs == 1 or options.compatibility is not None:
        return [options.seed] * options.runs
    return [int(seed_sequence(options.seed, f"run/{index}").generate_state(1)[0]) for index in range(options.runs)]


def resolve_options(options: Options) -> Options:
    """Return the options with all that they imply made explicit, so that equal experiments have equal options.

    The kind of agent, the policy of the classic agent by today's name, and no copy of the seed.

    Parameters
    ----------
    options
        The options.

    Raises
    ------
    OptionsError
        If a classic agent without a file does not have exactly one policy.
    """
    agent: dict[str, object] = {"type": options.agent_type}
    if options.agent_type == "CLASSIC" and options.pybatsim.agent.file is None:
        agent["policy_pair"] = _classic_policy(options)
    decisions = options.pybatsim.model_dump()
    return options.changed(pybatsim=decisions | {"seed": None, "agent": decisions["agent"] | agent})


def choose_agent(options: Options) -> AgentChoice:
    """Return the agent that the options ask for.

    Parameters
    ----------
    options
        The options.

    Raises
    ------
    OptionsError
        If they do not say who learns, ask for a model where nothing learns, or do not name exactly one policy.
    HdrlError
        If the agent file is wrong.
    """
    given = options.pybatsim.agent
    if given.file is not None:
        compatible = options.compatibility is not None
        agent = load_agent(options.path_of(given.file), lambda: _classic_policy(options), takes_first=compatible)
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
                    f"{options.where}: pybatsim.agent.{key} is {model!r}, but a classic agent has no model"
                )
    return agent


def may_learn(options: Options) -> bool:
    """Tell whether the agent of options may be one that learns: a file decides itself.

    Parameters
    ----------
    options
        The options.
    """
    return options.agent_type == "LEARNING" or options.pybatsim.agent.file is not None


def with_kind(options: Options, agent: AgentChoice) -> Options:
    """Return the options with the kind that the agent is of: in a file, the class decides.

    Parameters
    ----------
    options
        The options.
    agent
        Their agent.
    """
    kind = "CLASSIC" if agent.kind is AgentKind.POLICY else "LEARNING"
    decisions = options.pybatsim.model_dump()
    return options.changed(pybatsim=decisions | {"agent": decisions["agent"] | {"type": kind}})


def _classic_policy(options: Options) -> str:
    from hdrl.policies import normalise_policy_name
    from hdrl.pyfiles import is_policy_file

    written = options.policy_pair()
    if is_policy_file(written):
        raise OptionsError(
            f"{options.where}: pybatsim.agent.policy_pair is {written!r}; a Python file goes into pybatsim.agent.file"
        )
    try:
        return normalise_policy_name(written)
    except UnknownName as error:
        raise OptionsError(f"{options.where}: pybatsim.agent.policy_pair: {error}") from None
