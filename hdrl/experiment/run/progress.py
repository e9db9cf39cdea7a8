"""Progress callbacks of an experiment."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass


def quiet(*_: object) -> None:
    """Tell nobody."""


@contextlib.contextmanager
def _never() -> Iterator[Callable[[], bool]]:
    yield lambda: False


@dataclass(frozen=True, slots=True)
class Progress:
    """Progress callbacks of an experiment; what is not given hears nothing.

    Attributes
    ----------
    message
        Gets a line of text at each new stage.
    jobs
        Gets the finished jobs and all jobs of the current simulation, a few times a second; ``None``: nobody does.
    training
        Gets the finished iterations and all iterations of a training, and the numbers of the last one by name.
    stoppable
        Entered while a training runs; what it gives says whether to stop. It is asked between two iterations, and
        what is reached is saved.
    """

    message: Callable[[str], None] = quiet
    jobs: Callable[[int, int], None] | None = None
    training: Callable[[int, int, Mapping[str, float]], None] = quiet
    stoppable: Callable[[], AbstractContextManager[Callable[[], bool]]] = _never
