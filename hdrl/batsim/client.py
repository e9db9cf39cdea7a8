"""Batsim on the other side of a ZeroMQ socket, as a scheduler sees it: messages in, replies out."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import zmq

from hdrl.base.closing import Closing
from hdrl.base.errors import BatsimError
from hdrl.settings.batch.simulators import FREE_ENDPOINT

_LOOK_EVERY_S = 0.05
_ENDING_S = 5.0
_LARGEST_MESSAGE = 2**30
_SEND_ON_S = 1.0
_EVENTS = (
    zmq.EVENT_HANDSHAKE_SUCCEEDED
    | zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL
    | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL
    | zmq.EVENT_DISCONNECTED
)


class ReplySocket(Closing):
    """A ZeroMQ REP socket to which one Batsim connects.

    Parameters
    ----------
    endpoint
        Address to listen at; ``*`` as port stands for a free one.
    timeout_s
        Longest silence of Batsim, in wall-clock seconds.
    """

    def __init__(self, endpoint: str = FREE_ENDPOINT, *, timeout_s: float) -> None:
        self.timeout_s = timeout_s
        self._n_peers = self._n_strangers = 0
        self._lost = False
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._socket = self._context.socket(zmq.REP)
        self._socket.setsockopt(zmq.LINGER, 0)
        self._socket.setsockopt(zmq.MAXMSGSIZE, _LARGEST_MESSAGE)
        self._monitor = self._socket.get_monitor_socket(_EVENTS)
        try:
            self._socket.bind(endpoint)
        except zmq.ZMQError as error:
            self.close()
            raise BatsimError(f"cannot listen on {endpoint!r} ({error}), expected tcp://ADDRESS:PORT") from None
        self.endpoint = self._socket.getsockopt_string(zmq.LAST_ENDPOINT)

    def close(self, *, after_last_reply: bool = False) -> None:
        """Close the socket; a last reply that may still be under way gets a second to arrive."""
        self._socket.disable_monitor()
        self._monitor.close(linger=0)
        self._socket.close(linger=round(1e3 * _SEND_ON_S) if after_last_reply else 0)
        self._context.term()

    def receive(self, look: Callable[[], None] | None = None) -> str:
        """Return the next message, or raise BatsimError: no connection, a long silence, the end, or no text.

        ``look`` is called several times a second meanwhile; it raises if waiting is of no use.
        """
        message = self.receive_bytes(look)
        try:
            return message.decode()
        except UnicodeDecodeError as error:
            raise BatsimError(
                f"Batsim's message is not UTF-8 text (byte {error.start}); hdrl speaks Batsim's protocol of 3.1 "
                "to 4.2, and that of Batsim 5 with batsim.protocol 5"
            ) from None

    def receive_bytes(self, look: Callable[[], None] | None = None) -> bytes:
        """Return the next message, whatever it is; otherwise as `receive`."""
        self._await(look)
        parts = self._socket.recv_multipart()
        if len(parts) != 1:
            raise BatsimError(f"Batsim's message has {len(parts)} parts, expected one")
        return parts[0]

    def reply(self, text: str) -> None:
        """Send the reply to the last message."""
        self.reply_bytes(text.encode())

    def reply_bytes(self, message: bytes) -> None:
        """Send a reply that is no text."""
        self._socket.send(message)

    def _await(self, look: Callable[[], None] | None) -> None:
        deadline_s = time.monotonic() + self.timeout_s
        while not self._socket.poll(round(1e3 * _LOOK_EVERY_S)):
            if look is not None:
                look()
            self._note_connections()
            if self._lost:
                if look is not None:
                    _await_exit(look)
                raise BatsimError(f"{self.endpoint}: Batsim closed the connection before SIMULATION_ENDS")
            if time.monotonic() >= deadline_s:
                problem = "has sent nothing" if self._n_peers else "has not connected"
                raise BatsimError(f"{self.endpoint}: Batsim {problem} within {self.timeout_s:g} s")

    def _note_connections(self) -> None:
        while self._monitor.poll(0):
            event = _monitored_event(self._monitor)
            if event == zmq.EVENT_HANDSHAKE_SUCCEEDED:
                self._n_peers += 1
            elif event != zmq.EVENT_DISCONNECTED:
                self._n_strangers += 1  # whatever else has found the port, and is about to be disconnected
            elif self._n_strangers:
                self._n_strangers -= 1
            else:
                self._n_peers -= 1
                self._lost = self._n_peers == 0


def _monitored_event(monitor: zmq.Socket[bytes]) -> int:
    """Return the kind of the next event of a socket's monitor.

    `zmq.utils.monitor` does the same, but to load it takes as long as a hundred exchanges.
    """
    event, _ = monitor.recv_multipart()
    return int.from_bytes(event[:2], sys.byteorder)


def _await_exit(look: Callable[[], None]) -> None:
    """Look for some more seconds: a connection ends before its process does, whose end says more."""
    deadline_s = time.monotonic() + _ENDING_S
    while time.monotonic() < deadline_s:
        time.sleep(_LOOK_EVERY_S)
        look()
