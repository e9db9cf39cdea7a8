"""Threads that help to step a batch: see `hdrl.compiled.team` for what they do in compiled code."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from queue import SimpleQueue

_HELP, _END = "help", "end"


class _Calls:
    """The signal to one thread: that there is something to do, or that there never will be again."""

    def __init__(self) -> None:
        self.answers: SimpleQueue[str] = SimpleQueue()
        self.is_asleep = True


class Helpers:
    """Threads that help whenever they are called, and are gone when they are closed or forgotten.

    ``serve``: a method: what a thread does when it is called, with its number, from 1 on; it returns when nothing has
    been to do for a while. Its object is not kept alive by threads that are asleep.
    """

    def __init__(self, n: int, serve: Callable[[int], None]) -> None:
        self._calls = [_Calls() for _ in range(n)]
        self._end = weakref.finalize(self, _stop_helpers, self._calls)
        for number, calls in enumerate(self._calls, start=1):
            arguments = calls, weakref.WeakMethod(serve), number
            threading.Thread(target=_help, args=arguments, name=f"hdrl-env-{number}", daemon=True).start()

    def call(self) -> None:
        """Wake those who are asleep; the others look for themselves."""
        for calls in self._calls:
            if calls.is_asleep:
                calls.is_asleep = False
                calls.answers.put(_HELP)

    def close(self) -> None:
        """End the threads."""
        self._end()


def _stop_helpers(all_calls: list[_Calls]) -> None:
    for calls in all_calls:
        calls.answers.put(_END)


def _help(calls: _Calls, serve: weakref.WeakMethod[Callable[[int], None]], number: int) -> None:
    while calls.answers.get() == _HELP:
        method = serve()
        if method is None:
            return
        method(number)
        del method
        calls.is_asleep = True
