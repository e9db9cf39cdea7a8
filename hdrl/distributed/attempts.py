"""One task in a worker: its result, or what went wrong, as something that travels between processes."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hdrl.errors import HdrlError


class WorkerDied(HdrlError):
    """A worker died again and again over the same task."""


class TaskFailed(RuntimeError):
    """A task raised what only an error of the program raises; the message holds the traceback of the worker."""


@dataclass(frozen=True, slots=True)
class Attempted:
    """What came of a task.

    Attributes
    ----------
    result
        What the function returned.
    problem
        Empty if all went well; else the message of an `HdrlError`, or the traceback of any other exception. (The
        exceptions themselves need not survive the way between processes.)
    is_expected
        Whether it was an `HdrlError`.
    """

    result: Any = None
    problem: str = ""
    is_expected: bool = True

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
    """Call a function and return what came of it, whatever it is but Ctrl-C.

    Parameters
    ----------
    function
        What to call.
    task
        Its argument.

    Raises
    ------
    KeyboardInterrupt
        If the user has had enough.
    """
    try:
        return Attempted(function(task))
    except HdrlError as error:
        return Attempted(problem=str(error) or type(error).__name__)
    except KeyboardInterrupt:
        raise
    except BaseException:  # noqa: BLE001 (it is raised again where the tasks came from)
        return Attempted(problem=traceback.format_exc(), is_expected=False)


def too_often(description: str, n_attempts: int, last: str) -> WorkerDied:
    """Return the error for a task that ended its worker as often as is allowed.

    Parameters
    ----------
    description
        The task, in words.
    n_attempts
        How often it was tried.
    last
        How the last worker ended.
    """
    return WorkerDied(f"{description}: its worker died {n_attempts} times, the last one {last}; what finished is kept")
