"""Progress callbacks of an experiment."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass


def _ignore(done: int, total: int, values: Mapping[str, float]) -> None:
    del done, total, values


@contextlib.contextmanager
def _never() -> Iterator[Callable[[], bool]]:
    yield lambda: False


@dataclass(frozen=True, slots=True)
class Progress:
    """Progress callbacks of an experiment.

    Attributes
    ----------
    message
        Gets a line of text at each new stage.
    jobs
        Gets the finished jobs and all jobs of the current simulation, a few times a second.
    training
        Gets the finished iterations and all iterations of a training, and the numbers of the last one by name.
    stoppable
        Entered while a training runs; what it gives says whether to stop. It is asked between two iterations, and
        what is reached is saved.
    """

    message: Callable[[str], None]
    jobs: Callable[[int, int], None]
    training: Callable[[int, int, Mapping[str, float]], None] = _ignore
    stoppable: Callable[[], AbstractContextManager[Callable[[], bool]]] = _never
