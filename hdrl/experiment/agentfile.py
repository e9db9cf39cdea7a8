"""Agents: the built-in ones by name, a user's own from a Python file.

An agent file defines one of these:

- a function ``policy(view)`` that returns decisions,
- a class that derives from `hdrl.agents.classic.ClassicAgent`,
- a class that learns and derives from `hdrl.agents.hdeeprm.Agent`, as agents of HDeepRM do,
- a class that learns and has the methods of `hdrl.learn.agent.Agent`, the way that we recommend.

The file is compiled and run under a module name of its own; neither ``sys.path`` nor the folder of the file is touched.
"""

from __future__ import annotations

import hashlib
import inspect
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from types import ModuleType
from typing import Any

from hdrl.errors import HdrlError
from hdrl.files import read_text

Policy = str | Callable[[Any], Any]
"""A policy by name, or a function from a view to decisions."""

LEARNING_METHODS = ("act", "learn", "memory", "state_dict", "load_state_dict")
"""What a class that learns has, whatever it derives from."""


class AgentError(HdrlError):
    """An agent file is wrong, or fails while it decides."""


class AgentKind(Enum):
    """How an agent is asked."""

    POLICY = "policy"
    """A policy, by name or as a function: it does not learn."""
    HDEEPRM = "hdeeprm"
    """A class of HDeepRM's API that learns."""
    LEARNING = "learning"
    """A class of our API that learns."""


@dataclass(frozen=True, slots=True)
class Agent:
    """Who decides in a run.

    Attributes
    ----------
    name
        Name of the file, or of a built-in agent.
    policy
        The policy that it follows; of an agent that learns, a text that stands for it.
    path
        The agent file; ``None`` for a built-in agent.
    sha256
        SHA-256 of the file, hexadecimal; empty for a built-in agent.
    kind
        How it is asked.
    learner
        The class of an agent that learns, else ``None``.
    """

    name: str
    policy: Policy
    path: Path | None = None
    sha256: str = ""
    kind: AgentKind = AgentKind.POLICY
    learner: type[Any] | None = None


def load_agent(path: str | Path, policy_pair: Callable[[], str], *, takes_first: bool = False) -> Agent:
    """Load an agent from a Python file.

    Parameters
    ----------
    path
        The file.
    policy_pair
        Gives the policy pair of the options; only asked if the file defines a classic agent.
    takes_first
        Whether of several classes the alphabetically first counts, as in HDeepRM.

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
    if takes_first:
        classes = sorted(classes, key=lambda cls: cls.__name__)[:1]
    if inspect.isfunction(function) and not classes:
        return Agent(path.name, function, path, digest)
    if len(classes) == 1 and not inspect.isfunction(function):
        return _agent_of(classes[0], policy_pair, path, digest)
    if not classes:
        raise AgentError(
            f"{path}: defines no agent, expected a function policy(view), a subclass of ClassicAgent or "
            f"PolicyLearningAgent, or a class with the methods {', '.join(LEARNING_METHODS)}"
        )
    found = [cls.__name__ for cls in classes] + (["policy"] if inspect.isfunction(function) else [])
    raise AgentError(f"{path}: defines {len(found)} agents ({', '.join(found)}), expected one")


def _agent_of(cls: type[Any], policy_pair: Callable[[], str], path: Path, digest: str) -> Agent:
    kind = _kind_of(cls)
    if kind is AgentKind.POLICY:
        return Agent(path.name, _make(cls, policy_pair(), path), path, digest)
    return Agent(path.name, path.stem, path, digest, kind, cls)


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
    hint = ""
    if isinstance(error, ModuleNotFoundError) and str(error.name).split(".")[0] == "hdeeprm":
        hint = "; its classes are in hdrl.agents.hdeeprm"
    return AgentError(f"{path}:{lines[-1]}: {type(error).__name__}: {_one_line(error)}{hint}")


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


def _kind_of(cls: type[Any]) -> AgentKind | None:
    """Return how agents of a class are asked, ``None`` for a class of something else."""
    from hdrl.agents.classic import ClassicAgent

    if issubclass(cls, ClassicAgent):
        return AgentKind.POLICY
    # Who derives from a class has loaded its module: torch is not loaded just for looking.
    hdeeprm = sys.modules.get("hdrl.agents.hdeeprm")
    if hdeeprm is not None and issubclass(cls, hdeeprm.Agent):
        return AgentKind.HDEEPRM
    if all(callable(getattr(cls, name, None)) for name in LEARNING_METHODS):
        return AgentKind.LEARNING
    return None


def _agent_classes(module: ModuleType) -> list[type[Any]]:
    found = [
        value
        for value in vars(module).values()
        if inspect.isclass(value) and value.__module__ == module.__name__ and _kind_of(value) is not None
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
