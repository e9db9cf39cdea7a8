"""Requests to stop: by Ctrl-C, by SIGTERM, with which batch systems and containers announce the end, or by SIGHUP.

SIGHUP comes when the terminal is closed, and is left alone where ``nohup`` ignores it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from typing import NoReturn

import click

from hdrl.base.errors import HdrlError

TERMINATING = (signal.SIGTERM, *([signal.SIGHUP] if hasattr(signal, "SIGHUP") else []))
"""The signals that end a command; Windows has only one of them."""


_AGAIN_S = 0.05
"""After that time a signal that was lost is sent again."""

_running: list[object] = []
"""An object for each `handle_signals` that runs."""


class _Interrupted(KeyboardInterrupt):
    """A signal has come. As long as a command runs, nothing takes the exception: where it is lost, it comes again.

    Python drops what is raised while C code calls it (loading compiled code does that often). NumPy drops it while it
    asks a member of an enumeration for ``__array_struct__``: 17 of 4,030 signals during short simulations.
    """

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number
        self._command = _running[-1] if _running else None

    def __del__(self) -> None:
        if self._command in _running:
            again = threading.Timer(_AGAIN_S, _send_again, (self.number, self._command))
            again.daemon = True
            again.start()


class Terminated(_Interrupted):
    """SIGTERM or SIGHUP has come: a command ends as after Ctrl-C, with another exit code."""


def _send_again(number: int, command: object) -> None:
    if command in _running:
        os.kill(os.getpid(), number)


def _stop(number: int) -> NoReturn:
    """Raise the exception of a signal for a command."""
    raise (_Interrupted if number == signal.SIGINT else Terminated)(number)


@contextlib.contextmanager
def _handlers(handlers: dict[int, Callable[[int, object], None]]) -> Iterator[None]:
    """Handle signals, in the main thread: in others they cannot be taken, and all stays as it is."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    wanted = {number: one for number, one in handlers.items() if signal.getsignal(number) is not signal.SIG_IGN}
    before = {number: signal.signal(number, handler) for number, handler in wanted.items()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def _resend_lost_signals() -> Iterator[None]:
    """Send lost signals again meanwhile, without Python's report of those that C code dropped."""
    before = sys.unraisablehook

    def hook(lost: sys.UnraisableHookArgs) -> None:
        if not isinstance(lost.exc_value, KeyboardInterrupt):
            before(lost)

    sys.unraisablehook = hook
    command = object()
    _running.append(command)
    try:
        yield
    finally:
        _running.remove(command)
        sys.unraisablehook = before


@contextlib.contextmanager
def handle_signals() -> Iterator[None]:
    """Let SIGTERM and SIGHUP raise `Terminated`, so that what has been begun is ended in order; lose no signal.

    Raises
    ------
    KeyboardInterrupt
        After a signal, also where a library has put an error of its own in its place, as pydantic does while it
        serialises. Errors of ours stay: what a user's file raises is reported with its line. So does the exit code of a
        command that a signal ends as intended (`hdrl watch`).
    """
    came: list[int] = []

    def stop(number: int, frame: object) -> NoReturn:
        del frame
        came.append(number)
        _stop(number)

    with _handlers(dict.fromkeys((signal.SIGINT, *TERMINATING), stop)), _resend_lost_signals():
        try:
            yield
        except (HdrlError, click.exceptions.Exit):  # an error of ours, or a command that ends as it should
            raise
        except Exception:
            if came:
                _stop(came[0])
            raise


class Stop:
    """Request to end a training after its running iteration: a first Ctrl-C, SIGTERM or SIGHUP.

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
        """Note the signals meanwhile; give a function that returns whether one has come."""

        def stop(number: int, frame: object) -> None:
            del frame
            if self.number == 0:
                self.number = number
                message("stopping after this iteration; press Ctrl-C again to stop at once")
            elif number == signal.SIGINT:
                _stop(number)

        with _handlers(dict.fromkeys((signal.SIGINT, *TERMINATING), stop)):
            yield lambda: self.number != 0
