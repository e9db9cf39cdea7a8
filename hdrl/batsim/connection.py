"""A scheduler on the other side of a ZeroMQ socket, as Batsim sees it: requests out, replies in."""

from __future__ import annotations

from hdrl.base.closing import Closing
from hdrl.base.errors import BatsimError
from hdrl.batsim.zmtp import RequestSocket

DEFAULT_ENDPOINT = "tcp://localhost:28000"


class RemoteScheduler(Closing):
    """A scheduler that listens on a ZeroMQ REP socket.

    Parameters
    ----------
    timeout_s
        Longest time of an answer, in wall-clock seconds; 0 for as long as it takes, as with Batsim. A scheduler that
        was there and goes away while an answer is due is noticed in any case.
    """

    def __init__(self, endpoint: str = DEFAULT_ENDPOINT, *, timeout_s: float = 0.0) -> None:
        self.endpoint = endpoint
        self.timeout_s = timeout_s
        try:
            self._socket = RequestSocket(endpoint)
        except ValueError as error:
            raise BatsimError(str(error)) from None

    def close(self) -> None:
        """Close the connection at once, whatever is under way."""
        self._socket.close()

    def exchange(self, message: str) -> str:
        """Send a message and return the reply."""
        try:
            reply = self._socket.exchange(message.encode(), self.timeout_s or None)
        except TimeoutError:
            state = "the scheduler gave no answer" if self._socket.connected else "no scheduler is there"
            raise BatsimError(
                f"{self.endpoint}: {state} within {self.timeout_s:g} s; Batsim would wait forever"
            ) from None
        except OSError:
            raise BatsimError(
                f"{self.endpoint}: the scheduler closed the connection while an answer was due; "
                "Batsim would wait forever"
            ) from None
        if len(reply) != 1:
            raise BatsimError(f"the scheduler's reply has {len(reply)} parts, expected one")
        try:
            return reply[0].decode()
        except UnicodeDecodeError as error:
            raise BatsimError(f"the scheduler's reply is not UTF-8 text (byte {error.start})") from None
