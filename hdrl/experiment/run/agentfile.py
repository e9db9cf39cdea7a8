"""Agents: the built-in ones by name, a user's own from a Python file.

An agent file defines one of these:

- a function ``policy(view)`` that returns decisions,
- a function ``priority(job, now_s)`` of a waiting job (`hdrl.settings.batch.policies.priorities`), with backfilling if
  ``+easy`` or the like follows the name of the file,
- a class that derives from `hdrl.agents.classic.ClassicAgent`,
- a class that learns and derives from `hdrl.compat.hdeeprm.bases.Agent`, as agents of HDeepRM do,
- a class that learns and has the methods of `hdrl.learn.agent.Agent`, the way that we recommend.

How a file is read and run: `hdrl.settings.batch.policies.pyfile`.
"""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeAlias

from hdrl.base.errors import HdrlError
from hdrl.base.pyfiles import AgentError, located_errors, one_line, run_policy_file
from hdrl.setting import BATCH, SETTINGS

if TYPE_CHECKING:
    from hdrl.setting import PolicyBook

__all__ = ["AgentChoice", "AgentError", "AgentKind", "load_agent"]

HDEEPRM_BASES = "hdrl.compat.hdeeprm.bases"
"""Module of the bases of HDeepRM's agents; an agent file that derives from them loads it."""

_IMPORTS_HDEEPRM = re.compile(r"^\s*(from|import)\s+hdeeprm\b", re.MULTILINE)

Policy: TypeAlias = Any
"""The name of a policy, or what a setting makes of a Python file: a priority, a function from a view to decisions."""

LEARNING_METHODS = ("act", "learn", "memory", "state_dict", "load_state_dict")
"""Methods of a class that learns, whatever it derives from."""


class AgentKind(Enum):
    """Kind of an agent."""

    POLICY = "policy"
    """A policy, by name or as a function: it does not learn."""
    HDEEPRM = "hdeeprm"
    """A class of HDeepRM's API that learns."""
    LEARNING = "learning"
    """A class of our API that learns."""


@dataclass(frozen=True, slots=True)
class AgentChoice:
    """Agent of a run: the parts that make it, not the agent itself.

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
        Its kind.
    learner
        The class of an agent that learns, else ``None``.
    """

    name: str
    policy: Policy
    path: Path | None = None
    sha256: str = ""
    kind: AgentKind = AgentKind.POLICY
    learner: type[Any] | None = None


def load_agent(
    path: str | Path,
    policy_pair: Callable[[], str],
    *,
    policies: PolicyBook | None = None,
    takes_first: bool = False,
) -> AgentChoice:
    """Load an agent from a Python file.

    Parameters
    ----------
    path
        The file, with backfilling behind a priority: ``my.py+easy``.
    policy_pair
        Gives the policy pair of the options; only called if the file defines a classic agent.
    policies
        Policies of the setting, which say what a function of the file is; by default the policies of batch jobs.
    takes_first
        True if of several classes the alphabetically first counts, as in HDeepRM.

    Raises
    ------
    ReadError
        If the file cannot be read.
    AgentError
        If it is no Python, fails, or does not define exactly one agent.
    """
    module, path, digest, suffix = run_policy_file(str(path), _replace_hdeeprm)
    book = policies or SETTINGS[BATCH].policies
    policy = book.from_module(module, path, suffix)
    classes = _agent_classes(module)
    if takes_first:
        classes = sorted(classes, key=lambda cls: cls.__name__)[:1]
    if policy is not None and not classes:
        return AgentChoice(f"{path.name}{suffix}", policy, path, digest)
    if len(classes) == 1 and policy is None:
        if suffix:
            raise AgentError(f"{path}: defines {classes[0].__name__}; {suffix!r} goes with a priority(job, now_s)")
        kind = _kind_of(classes[0]) or AgentKind.POLICY
        if kind is AgentKind.POLICY:
            return AgentChoice(path.name, _make(classes[0], policy_pair(), path), path, digest)
        return AgentChoice(path.name, path.stem, path, digest, kind, classes[0])
    if not classes:
        functions = f"a function {book.functions}, " if book.functions else ""
        raise AgentError(
            f"{path}: defines no agent, expected {functions}a subclass "
            f"of ClassicAgent or PolicyLearningAgent, or a class with the methods {', '.join(LEARNING_METHODS)}"
        )
    found = [cls.__name__ for cls in classes]
    if policy is not None:
        found.append("policy" if callable(policy) else "priority")
    raise AgentError(f"{path}: defines {len(found)} agents ({', '.join(found)}), expected one")


def _kind_of(cls: type[Any]) -> AgentKind | None:
    """Return the kind of the agents of a class, ``None`` for a class of something else."""
    from hdrl.agents.classic import ClassicAgent  # with what batch jobs need

    if issubclass(cls, ClassicAgent):
        return AgentKind.POLICY
    # A class that derives from another one has loaded its module: torch is not loaded just for looking.
    hdeeprm = sys.modules.get(HDEEPRM_BASES)
    if hdeeprm is not None and issubclass(cls, hdeeprm.Agent):
        return AgentKind.HDEEPRM
    if all(callable(getattr(cls, name, None)) for name in LEARNING_METHODS):
        return AgentKind.LEARNING
    return None


@contextlib.contextmanager
def _replace_hdeeprm(source: str) -> Iterator[None]:
    """Let agents of HDeepRM import its bases unchanged, from `compat.hdeeprm.bases`, where HDeepRM is not installed."""
    names = ("hdeeprm", "hdeeprm.agent", "hdeeprm.environment")
    if not _IMPORTS_HDEEPRM.search(source) or find_spec(names[0]) is not None:
        yield
        return
    ours = import_module(HDEEPRM_BASES)
    package = ModuleType(names[0])
    vars(package).update({"__path__": [], "agent": ours, "environment": ours})
    sys.modules.update({names[0]: package, names[1]: ours, names[2]: ours})
    try:
        yield
    finally:
        for name in names:
            sys.modules.pop(name, None)


def _agent_classes(module: ModuleType) -> list[type[Any]]:
    found = [
        value
        for value in vars(module).values()
        if issubclass(type(value), type) and value.__module__ == module.__name__ and _kind_of(value) is not None
    ]
    # A class that another one of the file derives from is a helper.
    return [cls for cls in found if not any(cls in other.__mro__[1:] for other in found)]


def _make(cls: type[Any], policy_pair: str, path: Path) -> Policy:
    try:
        with located_errors(path):
            policy: Policy = cls(policy_pair).policy
    except HdrlError:
        raise
    except Exception as error:
        raise AgentError(f"{path}: {cls.__name__}: {one_line(error)}") from error
    return policy
