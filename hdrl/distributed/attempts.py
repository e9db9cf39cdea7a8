"""Base of all kinds of workers: a task's result, or its error, as an object that can be sent."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from hdrl.base.errors import HdrlError

MAX_ATTEMPTS = 3
"""Number of attempts at a task whose worker dies."""

OnResult = Callable[[int, Any], None]
"""Gets the index of a task and its result as soon as it is there."""

Starting = Callable[[], AbstractContextManager[object]]
"""Context that is entered while workers start."""


class WorkerDied(HdrlError):
    """A worker died again and again over the same task."""


class TaskFailed(RuntimeError):
    """A task raised what only an error of the program raises; the message holds the traceback of the worker."""


@dataclass(frozen=True, slots=True)
class Attempted:
    """Result of an attempt at a task."""

    result: Any = None  # result of the function
    # empty if all went well; else the message of an `HdrlError`, or the traceback of any other exception. (The
    # exceptions themselves need not survive the way between processes.)
    problem: str = ""
    is_expected: bool = True  # True if it was an `HdrlError`

    def unwrap(self) -> Any:
        """Return the result.

        Raises
        ------
        HdrlError
            If the task raised one.
        TaskFailed
            If it raised anything else.
        """
        if not self.problem:
            return self.result
        if self.is_expected:
            raise HdrlError(self.problem)
        raise TaskFailed(f"a task failed in its worker:\n{self.problem}")


def attempt(function: Callable[[Any], Any], task: Any) -> Attempted:
    """Call a function and return its result or its exception; only Ctrl-C passes through."""
    try:
        return Attempted(function(task))
    except HdrlError as error:
        return Attempted(problem=str(error) or type(error).__name__)
    except KeyboardInterrupt:
        raise
    except BaseException:  # noqa: BLE001 (it is raised again where the tasks came from)
        return Attempted(problem=traceback.format_exc(), is_expected=False)


def repeated_failure(description: str, last: str) -> WorkerDied:
    """Return the error for a task that ended its worker as often as is allowed."""
    died = f"its worker died {MAX_ATTEMPTS} times, the last one {last}"
    return WorkerDied(f"{description}: {died}; finished tasks are kept")


def first_line(error: BaseException) -> str:
    """Return the first line of what an error says, or else its kind."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
