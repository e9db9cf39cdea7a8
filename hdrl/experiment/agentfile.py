"""Agents: the built-in ones by name, a user's own from a Python file.

An agent file defines either a function ``policy(view)`` that returns decisions, or one class that derives
from `hdrl.agents.classic.ClassicAgent`. It is compiled and run under a module name of its own; neither ``sys.path`` nor
the folder of the file is touched.
"""

from __future__ import annotations

import hashlib
import inspect
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from hdrl.errors import HdrlError
from hdrl.files import read_text

Policy = str | Callable[[Any], Any]
"""A policy by name, or a function from a view to decisions."""

BUILT_IN_AGENTS = ("classic",)
"""Agents that need no file."""


class AgentError(HdrlError):
    """An agent file is wrong, or fails while it decides."""


@dataclass(frozen=True, slots=True)
class Agent:
    """Who decides in a run.

    Attributes
    ----------
    name
        Name of the file, or of a built-in agent.
    policy
        The policy that it follows.
    path
        The agent file; ``None`` for a built-in agent.
    sha256
        SHA-256 of the file, hexadecimal; empty for a built-in agent.
    """

    name: str
    policy: Policy
    path: Path | None = None
    sha256: str = ""


def load_agent(path: str | Path, policy_pair: Callable[[], str]) -> Agent:
    """Load an agent from a Python file.

    Parameters
    ----------
    path
        The file.
    policy_pair
        Gives the policy pair of the options; only asked if the file defines a classic agent.

    Raises
    ------
    ReadError
        If the file cannot be read.
    AgentError
        If it is no Python, fails, or does not define exactly one agent.
    """
    path = Path(path)
    source = read_text(path)
    digest = hashlib.sha256(source.encode()).hexdigest()
    module = _run_module(path, source, f"hdrl_agent_{digest[:16]}")
    function = getattr(module, "policy", None)
    classes = _agent_classes(module)
    if inspect.isfunction(function) and not classes:
        return Agent(path.name, function, path, digest)
    if len(classes) == 1 and not inspect.isfunction(function):
        return Agent(path.name, _make(classes[0], policy_pair(), path), path, digest)
    if not classes:
        raise AgentError(f"{path}: defines no agent, expected a function policy(view) or a subclass of ClassicAgent")
    found = [cls.__name__ for cls in classes] + (["policy"] if inspect.isfunction(function) else [])
    raise AgentError(f"{path}: defines {len(found)} agents ({', '.join(found)}), expected one")


def blame(error: BaseException, path: Path) -> AgentError | None:
    """Return an error that names the line of an agent file, or ``None`` if the file had no part in it.

    Parameters
    ----------
    error
        What was raised.
    path
        The agent file.
    """
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if frame.filename == str(path)]
    if not lines:
        return None
    return AgentError(f"{path}:{lines[-1]}: {type(error).__name__}: {_one_line(error)}")


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split()) or "no message"


def _run_module(path: Path, source: str, name: str) -> ModuleType:
    module = ModuleType(name)
    module.__file__ = str(path)
    try:
        code = compile(source, str(path), "exec")
    except SyntaxError as error:
        raise AgentError(f"{path}:{error.lineno or 1}: {error.msg}") from None
    except (ValueError, RecursionError, MemoryError) as error:  # NUL characters, absurd nesting
        raise AgentError(f"{path}: is no Python ({error})") from None
    sys.modules[name] = module  # dataclasses look their module up there
    try:
        exec(code, module.__dict__)
    except HdrlError:
        raise
    except (Exception, SystemExit) as error:
        raise blame(error, path) or AgentError(f"{path}: {type(error).__name__}: {_one_line(error)}") from error
    return module


def _agent_classes(module: ModuleType) -> list[type[Any]]:
    from hdrl.agents.classic import ClassicAgent

    found = [
        value
        for value in vars(module).values()
        if inspect.isclass(value) and issubclass(value, ClassicAgent) and value.__module__ == module.__name__
    ]
    # A class that another one of the file derives from is a helper.
    return [cls for cls in found if not any(cls in other.__mro__[1:] for other in found)]


def _make(cls: type[Any], policy_pair: str, path: Path) -> Policy:
    try:
        policy: Policy = cls(policy_pair).policy
    except HdrlError:
        raise
    except Exception as error:
        raise blame(error, path) or AgentError(f"{path}: {cls.__name__}: {_one_line(error)}") from error
    return policy
