"""What a command line changes in the options of a file."""

from __future__ import annotations

import json
from pathlib import Path

from hdrl.errors import HdrlError

CLASSIC = "classic"
"""The agent that follows the policy of the options; the other built-in ones are the algorithms of `hdrl.agents`."""


class LaunchError(HdrlError):
    """The command line makes no sense."""


def changes_of(overrides: tuple[str, ...], values: dict[str, object]) -> list[str]:
    """Return the changes of ``--set`` and of options that have a name of their own; ``None`` changes nothing."""
    return [*overrides, *(f"{key}={value}" for key, value in values.items() if value is not None)]


def paths(files: dict[str, str | None]) -> list[str]:
    """Return changes of paths: on the command line they start from the current folder, in the options from theirs."""
    return [f"{key}={json.dumps(str(Path(path).absolute()))}" for key, path in files.items() if path is not None]


def agent_changes(agent: str | None) -> list[str]:
    """Return the changes that make an agent that of the options."""
    if agent is None:
        return []
    if agent == CLASSIC:
        return ["agent.file=null", "learning.algorithm=null", "agent.type=CLASSIC"]
    from hdrl.pyfiles import is_policy_file

    if is_policy_file(agent):
        return [*paths({"agent.file": agent}), "learning.algorithm=null"]
    return ["agent.file=null", f"learning.algorithm={agent}", "agent.type=LEARNING"]


def known_agent(agent: str | None) -> str | None:
    """Return the name of an agent after a look whether there is one."""
    from hdrl.agents import ALGORITHMS
    from hdrl.errors import suggest
    from hdrl.pyfiles import is_policy_file

    if agent is None or is_policy_file(agent):
        return agent

    known = (CLASSIC, *ALGORITHMS)
    if agent not in known:
        raise LaunchError(f"no agent {agent!r}, expected a Python file or a built-in agent; {suggest(agent, known)}")
    return agent
