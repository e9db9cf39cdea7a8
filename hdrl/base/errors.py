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
    ├── SimulationError     a simulation that cannot continue (for instance: the policy never starts the waiting jobs)
    ├── BatsimError         a conversation between Batsim and a scheduler that cannot continue
    ├── LearningError       agents, models and environments that do not fit each other
    ├── UnknownName         a name that is in no registry (also a LookupError)
    └── MissingExtra        an optional dependency that is not installed (also an ImportError)

Each message is one line that says where, what was found and what was expected; the command line
prints it and exits with code 2.
"""

from __future__ import annotations

import difflib
import heapq
from collections.abc import Iterable
from pathlib import Path


class HdrlError(Exception):
    """The base of all errors that hdrl raises on purpose."""


class OptionsError(HdrlError):
    """An options file holds an unknown key, or a value that it must not hold."""


class NoPictures(OptionsError, TypeError):
    """An environment cannot draw; a ``TypeError``, because libraries that try to draw first go on without after one."""


class PlatformError(HdrlError):
    """A platform description is wrong."""


class WorkloadError(HdrlError):
    """The jobs of a workload are wrong, or do not fit the platform."""


class ReadError(HdrlError):
    """A file cannot be read.

    Parameters
    ----------
    problem
        Found and expected values, one line.
    line
        Line number, counted from 1, where that helps.
    column
        Column in that line, counted from 1, where that helps.
    """

    def __init__(self, path: str | Path, problem: str, line: int | None = None, column: int | None = None) -> None:
        self.path = Path(path)
        self.line = line
        name = readable(str(path), MAX_SHOWN_PATH)
        where = ":".join(map(str, [name, *(number for number in (line, column) if number is not None)]))
        super().__init__(f"{where}: {problem}")


class OutputError(HdrlError):
    """A folder or a file cannot be written."""


class FetchError(HdrlError):
    """A file cannot be had from a server, or what came is not what it should be."""


class DecisionError(HdrlError):
    """A decision cannot be followed; nothing of it, or after it, was applied."""


class SimulationError(HdrlError):
    """A simulation cannot continue."""


class BatsimError(HdrlError):
    """A conversation between Batsim and a scheduler cannot continue: Batsim would stop, or wait forever."""


class LearningError(HdrlError):
    """An agent, a model file and an environment do not fit each other, or learning cannot continue."""


class UnknownName(HdrlError, LookupError):
    """A name that is not registered.

    Parameters
    ----------
    what
        The kind of thing, for instance ``"policy"``.
    """

    def __init__(self, what: str, name: str, known: Iterable[str]) -> None:
        self.name = name
        super().__init__(f"no {what} {quoted(name)}; {suggest(name, known)}")


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


MAX_SHOWN = 60
"""Characters of a foreign text that a message shows."""

MAX_SHOWN_PATH = 400

_MAX_COMPARED = 200
"""Names that are compared letter by letter; of more, those that share most letters with the requested name."""

_LEAST_SIMILARITY = 0.6


def readable(text: str, limit: int = MAX_SHOWN) -> str:
    """Return a text that a user gave as it may stand in a message: printable, on one line, of a readable length."""
    text = text[: limit + 1]
    text = text if text.isprintable() else repr(text)
    return text if len(text) <= limit else f"{text[: limit - 3]}..."


def suggest(name: str, known: Iterable[str]) -> str:
    """Suggest a valid name: the nearest known one, else all of them.

    Of very many known names, not all are compared.
    """
    names = sorted(map(str, known))
    close = nearest(str(name), names)
    if close is not None:
        return f"did you mean {quoted(close)}?"
    few = ", ".join(readable(one) for one in names[:12]) or "none"
    return f"known: {few}{', ...' if len(names) > 12 else ''}"


def quoted(name: object) -> str:
    """Return a name as messages quote it, cut to a readable length."""
    return readable(repr(name[: 2 * MAX_SHOWN] if isinstance(name, str) else name), MAX_SHOWN + 2)


def nearest(name: str, names: Iterable[str]) -> str | None:
    """Return the name that was meant, ``None`` if none is like it.

    To compare two texts takes the product of their lengths, so few are compared.
    """
    if not name or len(name) > 2 * MAX_SHOWN:
        return None
    # Texts whose lengths differ more than this cannot be similar enough.
    longest = len(name) * (2 - _LEAST_SIMILARITY) / _LEAST_SIMILARITY
    shortest = len(name) * _LEAST_SIMILARITY / (2 - _LEAST_SIMILARITY)
    near = [one for one in names if shortest <= len(one) <= longest]
    if len(near) > _MAX_COMPARED:
        letters = set(name)
        near = heapq.nlargest(_MAX_COMPARED, near, key=lambda one: 2 * len(letters.intersection(one)) - len(set(one)))
    return next(iter(difflib.get_close_matches(name, near, n=1, cutoff=_LEAST_SIMILARITY)), None)
