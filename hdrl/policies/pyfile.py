"""Policies in Python files: a priority or a policy of one's own works by path wherever the name of a policy does.

``my.py`` may define ``policy(view)``, or ``priority(job, now_s)`` (and ``priorities(jobs, now_s)``, the same for all
waiting jobs at once). With a priority, backfilling and a core selection may follow: ``my.py+easy``,
``my.py+conservative-low_power``. The file is compiled and run under a module name of its own; neither ``sys.path`` nor
the folder of the file is touched.
"""

from __future__ import annotations

import hashlib
import inspect
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from hdrl.errors import HdrlError
from hdrl.files import read_text
from hdrl.policies.pairs import DEFAULT_CORE_SELECTION, read_choices
from hdrl.policies.priorities import OwnPriority

SUFFIX = ".py"


class AgentError(HdrlError):
    """A file with an agent or a policy is wrong, or fails while it decides."""


def is_policy_file(name: str) -> bool:
    """Tell whether a policy is given by a Python file, with or without backfilling.

    Parameters
    ----------
    name
        For instance ``"fcfs+easy"`` or ``"mine/first.py+easy"``.
    """
    base, suffix = split_policy_file(name)
    return base.endswith(SUFFIX) and suffix[:1] in ("", "+", "-")


def split_policy_file(name: str) -> tuple[str, str]:
    """Return the path of a policy file, and what follows it: ``("my.py", "+easy-low_power")``.

    Parameters
    ----------
    name
        A path, with or without backfilling and a core selection.
    """
    base, dot, suffix = name.rpartition(SUFFIX)
    return (base + dot, suffix) if dot else (name, "")


def load_policy(name: str) -> OwnPriority | Callable[[Any], Any]:
    """Return the policy that a Python file defines.

    Parameters
    ----------
    name
        Path of the file, with or without backfilling and a core selection.

    Returns
    -------
    OwnPriority or function
        A policy for `hdrl.policies.simulate`.

    Raises
    ------
    ReadError
        If the file cannot be read.
    AgentError
        If it is no Python, fails, or does not define exactly one policy.
    UnknownName
        If there is no such backfilling or core selection.
    """
    base, suffix = split_policy_file(name)
    path = Path(base)
    module, _ = run_file(path)
    policy = policy_of(module, path, suffix)
    if policy is None:
        raise AgentError(f"{path}: defines no policy, expected a function policy(view) or priority(job, now_s)")
    return policy


def run_file(path: Path) -> tuple[ModuleType, str]:
    """Run a Python file; return the module that it makes, and the SHA-256 of its text.

    Parameters
    ----------
    path
        The file.

    Raises
    ------
    ReadError
        If it cannot be read.
    AgentError
        If it is no Python, or fails.
    """
    source = read_text(path)
    digest = hashlib.sha256(source.encode()).hexdigest()
    return _run_module(path, source, f"hdrl_agent_{digest[:16]}"), digest


def policy_of(module: ModuleType, path: Path, suffix: str = "") -> OwnPriority | Callable[[Any], Any] | None:
    """Return the policy that a module defines, or ``None`` if it defines none.

    Parameters
    ----------
    module
        What `run_file` returned.
    path
        Its file, for messages.
    suffix
        Backfilling and core selection: ``"+easy-low_power"``.

    Raises
    ------
    AgentError
        If it defines both a policy and a priority, or a policy is to be combined with backfilling.
    UnknownName
        If there is no such backfilling or core selection.
    """
    policy = getattr(module, "policy", None)
    policy = policy if callable(policy) and not inspect.isclass(policy) else None
    priority, priorities = (_function(module, name) for name in ("priority", "priorities"))
    if policy is not None and (priority or priorities):
        raise AgentError(f"{path}: defines a policy and a priority, expected one of them")
    if priority is None and priorities is None:
        if policy is not None and suffix:
            raise AgentError(f"{path}: a policy(view) decides itself; {suffix!r} goes with a priority(job, now_s)")
        return policy
    backfilling, core_selection = _choices(suffix)
    knows = any(getattr(thing, "clairvoyant", False) for thing in (module, priority, priorities))
    return OwnPriority(priority, backfilling, core_selection, priorities, f"{path.name}{suffix}", clairvoyant=knows)


def _function(module: ModuleType, name: str) -> Callable[..., Any] | None:
    found = getattr(module, name, None)
    return found if inspect.isfunction(found) else None


def _choices(suffix: str) -> tuple[str | None, str]:
    """Return backfilling and core selection of ``"+easy-low_power"``."""
    kind, dash, core = suffix.partition("-")
    backfilling = kind.removeprefix("+") if kind else None
    core_selection = core if dash else DEFAULT_CORE_SELECTION
    read_choices(backfilling, core_selection)
    return backfilling, core_selection


def blame(error: BaseException, path: Path) -> AgentError | None:
    """Return an error that names the line of a file, or ``None`` if the file had no part in it.

    Parameters
    ----------
    error
        What was raised.
    path
        The file.
    """
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if frame.filename == str(path)]
    if not lines:
        return None
    hint = ""
    if isinstance(error, ModuleNotFoundError) and str(error.name).split(".")[0] == "hdeeprm":
        hint = "; its classes are in hdrl.agents.hdeeprm"
    return AgentError(f"{path}:{lines[-1]}: {type(error).__name__}: {one_line(error)}{hint}")


def one_line(error: BaseException) -> str:
    """Return the message of an error on one line.

    Parameters
    ----------
    error
        The error.
    """
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
        raise blame(error, path) or AgentError(f"{path}: {type(error).__name__}: {one_line(error)}") from error
    return module
