"""Python files of users: a custom agent or policy, given by its path.

A file is compiled and run under a module name of its own; neither ``sys.path`` nor the folder of the file is touched.
"""

from __future__ import annotations

import hashlib
import sys
import traceback
from pathlib import Path
from types import ModuleType

from hdrl.errors import HdrlError
from hdrl.files import read_text

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
