"""A scheduler on the other side of a ZeroMQ socket, as Batsim sees it: requests out, replies in."""

from __future__ import annotations

import contextlib
import math
import sys
import time
from types import TracebackType

import zmq

from hdrl.errors import BatsimError

DEFAULT_ENDPOINT = "tcp://localhost:28000"

_LOOK_EVERY_S = 0.05
"""A reply that takes longer is waited for with a look at the connection now and then: asking both costs more."""


def monitored_event(monitor: zmq.Socket[bytes]) -> int:
    """Return the kind of the next event of a socket's monitor.

    `zmq.utils.monitor` does the same, but to load it takes as long as a hundred exchanges.

    Parameters
    ----------
    monitor
        What `get_monitor_socket` gave.
    """
    event, _ = monitor.recv_multipart()
    return int.from_bytes(event[:2], sys.byteorder)


class RemoteScheduler:
    """A scheduler that listens on a ZeroMQ REP socket.

    Parameters
    ----------
    endpoint
        Where it listens.
    timeout_s
        How long an answer may take, in wall-clock seconds; 0 for as long as it takes, as with Batsim. A scheduler
        that was there and goes away while an answer is due is noticed in any case.

    Raises
    ------
    BatsimError
        If the endpoint makes no sense.
    """

    def __init__(self, endpoint: str = DEFAULT_ENDPOINT, *, timeout_s: float = 0.0) -> None:
        self.endpoint = endpoint
        self.timeout_s = timeout_s
        self._connected = False
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._socket = self._context.socket(zmq.REQ)
        self._socket.setsockopt(zmq.LINGER, 0)
        self._socket.setsockopt(zmq.RCVTIMEO, round(1e3 * _LOOK_EVERY_S))
        self._monitor = self._socket.get_monitor_socket(zmq.EVENT_HANDSHAKE_SUCCEEDED | zmq.EVENT_DISCONNECTED)
        try:
            self._socket.connect(endpoint)
        except zmq.ZMQError as error:
            self.close()
            raise BatsimError(f"{endpoint!r} is no socket endpoint ({error}), expected tcp://HOST:PORT") from None

    def __enter__(self) -> RemoteScheduler:
        """Return the scheduler."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close the connection."""
        self.close()

    def close(self) -> None:
        """Close the connection at once, whatever is under way."""
        self._socket.disable_monitor()
        self._monitor.close(linger=0)
        self._socket.close(linger=0)
        self._context.term()

    def exchange(self, message: str) -> str:
        """Send a message and return the reply.

        Raises
        ------
        BatsimError
            If there is no reply: the scheduler went away, or took too long; or if it is no text.
        """
        self._socket.send(message.encode())
        reply = self._await_reply()
        if len(reply) != 1:
            raise BatsimError(f"the scheduler's reply has {len(reply)} parts, expected one")
        try:
            return reply[0].decode()
        except UnicodeDecodeError as error:
            raise BatsimError(f"the scheduler's reply is not UTF-8 text (byte {error.start})") from None

    def _await_reply(self) -> list[bytes]:
        deadline_s = time.monotonic() + self.timeout_s if self.timeout_s > 0 else math.inf
        while True:
            with contextlib.suppress(zmq.Again):
                return self._socket.recv_multipart()
            self._note_connection()
            left_s = deadline_s - time.monotonic()
            if left_s <= 0:
                state = "no scheduler is there" if not self._connected else "the scheduler gave no answer"
                raise BatsimError(f"{self.endpoint}: {state} within {self.timeout_s:g} s; Batsim would wait for ever")
            self._socket.rcvtimeo = math.ceil(1e3 * min(left_s, _LOOK_EVERY_S))

    def _note_connection(self) -> None:
        while self._monitor.poll(0):
            if monitored_event(self._monitor) == zmq.EVENT_HANDSHAKE_SUCCEEDED:
                self._connected = True
            elif self._connected and not self._socket.poll(0):
                raise BatsimError(
                    f"{self.endpoint}: the scheduler closed the connection while an answer was due; "
                    "Batsim would wait for ever"
                )
