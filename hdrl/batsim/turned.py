"""The exact engine turned round: the scheduler calls it, one message at a time."""

from __future__ import annotations

import threading
from queue import SimpleQueue

from hdrl.batsim.exact import ExactBatsim, Result


class _Stopped(BaseException):
    """Unwinds the engine's thread when the rest is not wanted."""


class TurnedEngine:
    """The exact engine turned round: it calls its scheduler, but we want to call it, one message at a time."""

    def __init__(self, simulation: ExactBatsim) -> None:
        self._simulation = simulation
        self._replies: SimpleQueue[str | None] = SimpleQueue()
        self._messages: SimpleQueue[str | Result | BaseException] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="hdrl-exact", daemon=True)

    def next(self, reply: str | None) -> str | Result:
        """Give the reply to the last message (``None`` to begin) and return the next, or the result."""
        if reply is None:
            self._thread.start()
        else:
            self._replies.put(reply)
        message = self._messages.get()
        if isinstance(message, BaseException):
            raise message
        return message

    def exchange(self, message: str) -> str:
        """Be the scheduler, in the engine's thread."""
        self._messages.put(message)
        reply = self._replies.get()
        if reply is None:
            raise _Stopped
        return reply

    def close(self) -> None:
        """End the thread."""
        if self._thread.is_alive():
            self._replies.put(None)
            self._thread.join()

    def _run(self) -> None:
        try:
            self._messages.put(self._simulation.run(self))
        except _Stopped:
            pass
        except BaseException as error:  # noqa: BLE001 - it is raised again in the thread that waits
            self._messages.put(error)
