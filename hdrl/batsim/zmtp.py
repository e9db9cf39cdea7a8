"""A ZeroMQ REQ socket on one plain stream: ZMTP 3.0 (https://rfc.zeromq.org/spec/23) with the NULL mechanism.

libzmq hands every message from thread to thread; a client that only sends and waits for the answer needs none of it.
"""

from __future__ import annotations

import re
import socket
import time

_GREETING = b"\xff\0\0\0\0\0\0\0\x01\x7f" + b"\x03\0" + b"NULL".ljust(20, b"\0") + b"\0" * 32
_OLDEST_VERSION = 3
_VERSION_AT = 10
_MECHANISM = slice(12, 32)

_MORE, _LONG, _COMMAND = 1, 2, 4
_DELIMITER = bytes((_MORE, 0))
_LONGEST_SHORT = 255
_SHORT_REPLY = _DELIMITER + b"\0"
_SHORT_HEAD_BYTES = 4
_PING_HEAD = b"\x04PING" + b"\0\0"  # the two bytes are a time to live
_ANSWERING_TYPES = (b"REP", b"ROUTER")

_TCP = re.compile(r"(?:\[([0-9a-fA-F:.]+)\]|((?:[\w-]{1,63}\.)*[\w-]{1,63}\.?)):([0-9]{1,5})", re.ASCII)
_RETRY_S = 0.1
_CHUNK_BYTES = 65536
_LARGEST_PORT = 65535


class RequestSocket:
    """Sends requests to one address and receives the reply to each; connects by itself when it is first used.

    Parameters
    ----------
    endpoint
        ``tcp://HOST:PORT`` or ``ipc://PATH``.
    """

    def __init__(self, endpoint: str) -> None:
        self.connected = False
        self._family, self._address = _address_of(endpoint)
        self._stream: socket.socket | None = None
        self._unread = bytearray()
        self._deadline_s: float | None = None

    def close(self) -> None:
        """Close the connection at once, whatever is under way."""
        if self._stream is not None:
            self._stream.close()
            self._stream = None

    def exchange(self, request: bytes, timeout_s: float | None = None) -> list[bytes]:
        """Send a request and return the parts of the reply.

        Raise TimeoutError after ``timeout_s`` of wall-clock time, ConnectionError if the other side goes away or
        answers what is no reply.
        """
        self._deadline_s = None if timeout_s is None else time.monotonic() + timeout_s
        try:
            stream = self._stream or self._connect()
            if timeout_s is not None:
                stream.settimeout(self._left_s())
            stream.sendall(_DELIMITER + _frame(request))
            if not self._unread:
                data = self._received(stream)
                # nearly always a short reply, which has come as a whole
                if data.startswith(_SHORT_REPLY) and len(data) == _SHORT_HEAD_BYTES + data[_SHORT_HEAD_BYTES - 1]:
                    return [data[_SHORT_HEAD_BYTES:]]
                self._unread += data
            delimiter, *parts = self._message()
            if delimiter:
                raise ConnectionError("a reply without an empty delimiter in front")
        except OSError:
            self.close()  # whatever else comes would answer this request
            raise
        return parts

    def _connect(self) -> socket.socket:
        """Connect and shake hands, again and again until a peer answers requests."""
        while True:
            stream = socket.socket(self._family, socket.SOCK_STREAM)
            self._stream = stream
            self._unread.clear()
            try:
                stream.settimeout(self._left_s())
                stream.connect(self._address)
                if self._family != socket.AF_UNIX:
                    stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._handshake(stream)
            except TimeoutError:
                raise
            except OSError:  # no peer yet, or another program, or a name that cannot be resolved
                self.close()
                left_s = self._left_s()
                time.sleep(_RETRY_S if left_s is None else min(left_s, _RETRY_S))
            else:
                self.connected = True
                return stream

    def _handshake(self, stream: socket.socket) -> None:
        stream.sendall(_GREETING)
        greeting = self._read(len(_GREETING))
        of_zmtp = greeting[0] == 0xFF and greeting[_VERSION_AT - 1] & 1
        if not of_zmtp or greeting[_VERSION_AT] < _OLDEST_VERSION or greeting[_MECHANISM].rstrip(b"\0") != b"NULL":
            raise ConnectionError("no ZMTP 3 without encryption")
        stream.sendall(_frame(_ready(b"REQ"), flags=_COMMAND))
        flags, body = self._next_frame()
        if not flags & _COMMAND or not any(_socket_type(kind) in body for kind in _ANSWERING_TYPES):
            raise ConnectionError("no socket that answers requests")

    def _message(self) -> list[bytes]:
        parts = []
        while True:
            flags, body = self._next_frame()
            if flags & _COMMAND:
                self._answer_command(body)
                continue
            parts.append(body)
            if not flags & _MORE:
                return parts

    def _answer_command(self, command: bytes) -> None:
        """Answer a PING with a PONG; all other commands are none of a connection that stands."""
        if command.startswith(_PING_HEAD[:5]) and self._stream is not None:
            self._stream.sendall(_frame(b"\x04PONG" + command[len(_PING_HEAD) :], flags=_COMMAND))

    def _next_frame(self) -> tuple[int, bytes]:
        flags, size = self._read(2)
        if flags & _LONG:
            size = int.from_bytes(bytes((size,)) + self._read(7), "big")
        return flags, self._read(size)

    def _read(self, n_bytes: int) -> bytes:
        """Return the next bytes of the stream."""
        unread, stream = self._unread, self._stream
        while len(unread) < n_bytes:
            if stream is None:
                raise ConnectionError("not connected")
            unread += self._received(stream)
            if self._deadline_s is not None and len(unread) < n_bytes:
                stream.settimeout(self._left_s())
        taken = bytes(unread[:n_bytes])
        del unread[:n_bytes]
        return taken

    def _received(self, stream: socket.socket) -> bytes:
        data = stream.recv(_CHUNK_BYTES)
        if not data:
            raise ConnectionError("closed by the other side")
        return data

    def _left_s(self) -> float | None:
        """Return the seconds until the deadline, `None` if there is none; raise `TimeoutError` if there are none."""
        if self._deadline_s is None:
            return None
        left_s = self._deadline_s - time.monotonic()
        if left_s <= 0:
            raise TimeoutError
        return left_s


def _address_of(endpoint: str) -> tuple[int, tuple[str, int] | str]:
    transport, _, where = endpoint.partition("://")
    if transport == "ipc" and where and "\0" not in where:
        return socket.AF_UNIX, "\0" + where[1:] if where.startswith("@") else where
    match = _TCP.fullmatch(where)
    if transport != "tcp" or match is None or not 0 < int(match[3]) <= _LARGEST_PORT:
        raise ValueError(f"{endpoint!r} is not a socket endpoint, expected tcp://HOST:PORT or ipc://PATH")
    # names stand for their IPv4 addresses, as in libzmq: a scheduler that listens on tcp://*:PORT has no other
    return (socket.AF_INET6, (match[1], int(match[3]))) if match[1] else (socket.AF_INET, (match[2], int(match[3])))


def _frame(body: bytes, flags: int = 0) -> bytes:
    if len(body) <= _LONGEST_SHORT:
        return bytes((flags, len(body))) + body
    return bytes((flags | _LONG,)) + len(body).to_bytes(8, "big") + body


def _ready(socket_type: bytes) -> bytes:
    return b"\x05READY" + _socket_type(socket_type) + b"\x08Identity\0\0\0\0"


def _socket_type(name: bytes) -> bytes:
    return b"\x0bSocket-Type" + len(name).to_bytes(4, "big") + name
