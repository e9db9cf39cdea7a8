"""Every error that hdrl raises on purpose, as one tree.

::

    HdrlError
    ├── OptionsError        a key or value of an options file
    ├── PlatformError       a platform file or a type library
    ├── WorkloadError       jobs that make no sense, or that the platform can never run
    ├── ReadError           a file that cannot be read: where, what was found, what was expected
    ├── OutputError         a folder or file that cannot be written
    ├── FetchError          a file that cannot be had from a server
    ├── DecisionError       a decision that the simulated cluster cannot follow
    ├── SimulationError     a simulation that cannot go on (for instance: nobody starts the waiting jobs)
    ├── BatsimError         a conversation between Batsim and a scheduler that cannot go on
    ├── LearningError       agents, models and environments that do not fit each other
    ├── UnknownName         a name that no registry knows (also a LookupError)
    └── MissingExtra        an optional dependency that is not installed (also an ImportError)

Each message is one line that says where, what was found and what was expected; the command line
prints it and exits with code 2.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from pathlib import Path


class HdrlError(Exception):
    """The base of all errors that hdrl raises on purpose."""


class OptionsError(HdrlError):
    """An options file holds an unknown key, or a value that it must not hold."""


class NoPictures(OptionsError, TypeError):
    """An environment is asked for pictures; libraries that try that first go on without when it is a ``TypeError``."""


class PlatformError(HdrlError):
    """A platform description is wrong."""


class WorkloadError(HdrlError):
    """The jobs of a workload are wrong, or do not fit the platform."""


class ReadError(HdrlError):
    """A file cannot be read.

    Parameters
    ----------
    path
        The file.
    problem
        What was found and what was expected, one line.
    line
        Line number, counted from 1, where that helps.
    """

    def __init__(self, path: str | Path, problem: str, line: int | None = None) -> None:
        self.path = Path(path)
        self.line = line
        where = f"{path}:{line}" if line is not None else f"{path}"
        super().__init__(f"{where}: {problem}")


class OutputError(HdrlError):
    """A folder or a file cannot be written."""


class FetchError(HdrlError):
    """A file cannot be had from a server, or what came is not what it should be."""


class DecisionError(HdrlError):
    """A decision cannot be followed; nothing of it, or after it, was applied."""


class SimulationError(HdrlError):
    """A simulation cannot go on."""


class BatsimError(HdrlError):
    """A conversation between Batsim and a scheduler cannot go on: Batsim would stop there, or wait for ever."""


class LearningError(HdrlError):
    """An agent, a model file and an environment do not fit each other, or learning cannot go on."""


class UnknownName(HdrlError, LookupError):
    """A name that is not registered.

    Parameters
    ----------
    what
        The kind of thing, for instance ``"policy"``.
    name
        What was asked for.
    known
        All registered names.
    """

    def __init__(self, what: str, name: str, known: Iterable[str]) -> None:
        self.name = name
        super().__init__(f"no {what} {name!r}; {suggest(name, known)}")


class MissingExtra(HdrlError, ImportError):
    """An optional dependency is missing.

    Parameters
    ----------
    package
        The distribution that is missing, for instance ``"pandas"``.
    extra
        The extra of hdrl that installs it.
    """

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(f"this needs {package}: pip install 'hdrl[{extra}]'")


def suggest(name: str, known: Iterable[str]) -> str:
    """Say what would have been possible: the nearest known name, else all of them.

    Parameters
    ----------
    name
        What was asked for.
    known
        What would have been accepted.
    """
    names = sorted(known)
    close = difflib.get_close_matches(str(name), names, n=1, cutoff=0.6)
    if close:
        return f"did you mean {close[0]!r}?"
    shown = ", ".join(names[:12])
    return f"known: {shown}{', ...' if len(names) > 12 else ''}"
