"""Being asked to stop: by Ctrl-C, or by SIGTERM, with which batch systems and containers announce the end."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from typing import NoReturn


class Terminated(KeyboardInterrupt):
    """SIGTERM has come: a command ends as after Ctrl-C, with another exit code."""


def _terminate(number: int, frame: object) -> NoReturn:
    del number, frame
    raise Terminated


@contextlib.contextmanager
def _handlers(handlers: dict[int, Callable[[int, object], None]]) -> Iterator[None]:
    """Handle signals, in the main thread: in others they cannot be taken, and all stays as it is."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def heeding_sigterm() -> Iterator[None]:
    """Let SIGTERM raise `Terminated`, so that what has been begun is ended in order."""
    with _handlers({signal.SIGTERM: _terminate}):
        yield


class Stop:
    """What asks a training to end after its running iteration: a first Ctrl-C, or SIGTERM.

    A second Ctrl-C ends it at once. Batch systems may send SIGTERM more than once, which makes no difference.

    Attributes
    ----------
    number
        The signal that has come, 0 as long as none has.
    """

    def __init__(self) -> None:
        self.number = 0

    @contextlib.contextmanager
    def listening(self, message: Callable[[str], None]) -> Iterator[Callable[[], bool]]:
        """Take notice of the signals meanwhile; give a function that tells whether one has come.

        Parameters
        ----------
        message
            Told what is going to happen.

        Yields
        ------
        Callable[[], bool]
            Tells whether a signal has come.
        """

        def stop(number: int, frame: object) -> None:
            del frame
            if self.number == 0:
                self.number = number
                message("stopping after this iteration, then saving; Ctrl-C: at once")
            elif number == signal.SIGINT:
                raise KeyboardInterrupt

        with _handlers({signal.SIGINT: stop, signal.SIGTERM: stop}):
            yield lambda: self.number != 0
