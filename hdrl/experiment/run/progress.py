"""Progress of an experiment: callbacks, and the time of its stages."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass


def quiet(*_: object) -> None:
    """Ignore reports of progress."""


@contextlib.contextmanager
def _never() -> Iterator[Callable[[], bool]]:
    yield lambda: False


@dataclass(frozen=True, slots=True)
class Progress:
    """Progress callbacks of an experiment; those that are not given do nothing.

    Attributes
    ----------
    message
        Gets a line of text at each new stage.
    jobs
        Gets the finished jobs and all jobs of the current simulation, a few times a second; ``None`` shows none.
    training
        Gets the finished iterations and all iterations of a training, and the numbers of the last one by name.
    stoppable
        Entered while a training runs; it gives a function that says whether to stop. The training calls it between
        two iterations, and saves what is reached.
    """

    message: Callable[[str], None] = quiet
    jobs: Callable[[int, int], None] | None = None
    training: Callable[[int, int, Mapping[str, float]], None] = quiet
    stoppable: Callable[[], AbstractContextManager[Callable[[], bool]]] = _never


class StageClock:
    """Wall-clock seconds of the stages of a run."""

    def __init__(self) -> None:
        self.laps: dict[str, float] = {}
        self._last_s = time.perf_counter()

    def lap(self, name: str) -> float:
        """Note and return the seconds since the last call."""
        now_s = time.perf_counter()
        self.laps[name] = now_s - self._last_s
        self._last_s = now_s
        return self.laps[name]
