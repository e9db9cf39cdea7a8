"""Changes of a file's options by a command line."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from hdrl.base.errors import HdrlError, UnknownName, quoted, suggest
from hdrl.base.pyfiles import is_policy_file

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


def workload_changes(custom: str | None) -> list[str]:
    """Return the change of ``--custom-workload``: a file, or the name of a shipped workload."""
    if custom is not None and not Path(custom).exists() and not set("./\\") & set(custom):
        return [f"workload.custom={json.dumps(custom)}"]
    return paths({"workload.custom": custom})


def agent_changes(
    agent: str | None,
    options_file: str | Path,
    setting: str | None,
    *,
    overrides: Sequence[str] = (),
    trust: bool | None = None,
) -> list[str]:
    """Return the changes that make an agent, or a policy of the options' setting, that of the options.

    What is trusted: as in `hdrl.experiment.run.inputs.read_options`. The options are read with the other changes,
    without which they may be incomplete.
    """
    from hdrl.agents import ALGORITHMS
    from hdrl.experiment.run.inputs import read_options
    from hdrl.setting import find_setting

    classic = ["agent.file=null", "learning.algorithm=null", "agent.type=CLASSIC"]
    if agent is None:
        return []
    if is_policy_file(agent):
        return [*paths({"agent.file": agent}), "learning.algorithm=null"]
    if agent == CLASSIC:
        return classic
    if agent in ALGORITHMS:
        return ["agent.file=null", f"learning.algorithm={agent}", "agent.type=LEARNING"]
    options = read_options(options_file, overrides=overrides, setting=setting, trust=trust)
    policies = find_setting(options.setting_name, options.folder).policies
    if agent.endswith((".pt", ".safetensors")):
        raise LaunchError(f"{agent}: is a model; run it by -im {agent} --set pybatsim.agent.run=test")
    try:
        policies.read(agent)
    except UnknownName as error:
        if error.name != agent:  # a part of the name is wrong, such as its predictor
            raise
        known = (CLASSIC, *ALGORITHMS, *policies.names())
        raise LaunchError(
            f"no agent {quoted(agent)}, expected a Python file, a policy or a built-in agent; {suggest(agent, known)}"
        ) from None
    return [*classic, f"agent.{options.policy_key}={json.dumps(agent)}"]
