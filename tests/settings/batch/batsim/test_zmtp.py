"""The REQ socket of `zmtp` against libzmq, and against peers that say what libzmq does not."""

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import zmq

from hdrl.batsim.zmtp import RequestSocket

GREETING = b"\xff" + b"\0" * 8 + b"\x7f\x03\0NULL" + b"\0" * 48
READY = b"\x04\x19\x05READY\x0bSocket-Type\0\0\0\x03REP"
HELLO = b"\x01\0\0\x05hello"


@contextlib.contextmanager
def _replying(endpoint: str) -> Iterator[str]:
    """Yield the endpoint of a REP socket of libzmq that says everything twice."""
    context = zmq.Context()
    replier = context.socket(zmq.REP)
    replier.setsockopt(zmq.LINGER, 0)
    replier.setsockopt(zmq.RCVTIMEO, 20)
    replier.bind(endpoint)
    over = threading.Event()

    def serve() -> None:
        while not over.is_set():
            with contextlib.suppress(zmq.Again):
                replier.send(2 * replier.recv())
        replier.close()

    thread = threading.Thread(target=serve)
    where = replier.getsockopt_string(zmq.LAST_ENDPOINT)
    thread.start()
    try:
        yield where
    finally:
        over.set()
        thread.join()
        context.term()


@contextlib.contextmanager
def _peer(*conversations: Callable[[socket.socket], None]) -> Iterator[str]:
    """Yield the endpoint of one who takes as many connections as there are conversations, one after the other."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            for converse in conversations:
                stream, _ = server.accept()
                with stream:
                    converse(stream)

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"tcp://127.0.0.1:{server.getsockname()[1]}"
        thread.join()


def _handshake(stream: socket.socket, greeting: bytes = GREETING, ready: bytes = READY) -> None:
    stream.sendall(greeting)
    assert _read(stream, 64)[:12] == b"\xff\0\0\0\0\0\0\0\x01\x7f\x03\0"
    stream.sendall(ready)
    flags, size = _read(stream, 2)
    assert (flags, _read(stream, size)[:6]) == (4, b"\x05READY")


def _read(stream: socket.socket, n_bytes: int) -> bytes:
    """Return that many bytes, and leave what follows: the request may come with the end of the handshake."""
    return stream.recv(n_bytes, socket.MSG_WAITALL)


@pytest.mark.parametrize("n_bytes", [0, 1, 255, 256, 70_000, 5_000_000])
def test_messages_of_all_lengths(n_bytes: int) -> None:
    with _replying("tcp://127.0.0.1:*") as endpoint:
        asking = RequestSocket(endpoint)
        for _ in range(2):
            assert asking.exchange(b"x" * n_bytes, 10.0) == [b"x" * 2 * n_bytes]
        asking.close()


def test_over_a_file(tmp_path: Path) -> None:
    with _replying(f"ipc://{tmp_path}/socket") as endpoint:
        asking = RequestSocket(endpoint)
        assert asking.exchange(b"ab") == [b"abab"]
        asking.close()


def test_whoever_comes_later_is_found() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    asking = RequestSocket(f"tcp://localhost:{port}")
    with pytest.raises(TimeoutError):
        asking.exchange(b"a", 0.05)
    assert not asking.connected
    with _replying(f"tcp://127.0.0.1:{port}"):
        assert asking.exchange(b"b", 10.0) == [b"bb"]
    asking.close()


def test_byte_by_byte_with_pings_in_between() -> None:
    def converse(stream: socket.socket) -> None:
        _handshake(stream)
        assert stream.recv(100) == b"\x01\0\0\x01?"
        for byte in b"\x04\x0b\x05SUBSx\0\0abc" + b"\x04\x0a\x04PING\0\x07abc" + HELLO:
            stream.sendall(bytes((byte,)))
            time.sleep(0.001)
        assert stream.recv(100) == b"\x04\x08\x04PONGabc"

    with _peer(converse) as endpoint:
        asking = RequestSocket(endpoint)
        assert asking.exchange(b"?", 10.0) == [b"hello"]
        asking.close()


@pytest.mark.parametrize(
    ("greeting", "ready"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n" + b" " * 64, b""),
        (GREETING[:10] + b"\x01" + GREETING[11:], b""),
        (GREETING.replace(b"NULL", b"CURV"), b""),
        (GREETING, READY.replace(b"REP", b"PUB")),
        (GREETING, b"\x04\x06\x05ERROR"),
    ],
    ids=["HTTP", "ZMTP 2", "CURVE", "PUB", "ERROR"],
)
def test_strangers_are_left_until_a_replier_is_there(greeting: bytes, ready: bytes) -> None:
    def be_strange(stream: socket.socket) -> None:
        stream.sendall(greeting + ready)
        # Who leaves with something unread resets the connection.
        with contextlib.suppress(ConnectionResetError):
            while stream.recv(1000):
                pass

    def converse(stream: socket.socket) -> None:
        _handshake(stream)
        stream.recv(100)
        stream.sendall(HELLO)

    with _peer(be_strange, converse) as endpoint:
        asking = RequestSocket(endpoint)
        assert asking.exchange(b"?", 10.0) == [b"hello"]
        asking.close()


@pytest.mark.parametrize("said", [b"", HELLO[:4], b"\0\x05hello"])
def test_a_peer_that_leaves_or_says_nonsense(said: bytes) -> None:
    def converse(stream: socket.socket) -> None:
        _handshake(stream)
        stream.recv(100)
        stream.sendall(said)

    with _peer(converse) as endpoint:
        asking = RequestSocket(endpoint)
        with pytest.raises(ConnectionError):
            asking.exchange(b"?", 10.0)
        assert asking.connected
        asking.close()


def test_drops_of_an_answer_are_not_waited_for_for_ever() -> None:
    over = threading.Event()

    def converse(stream: socket.socket) -> None:
        _handshake(stream)
        stream.sendall(b"\x01\0\0\xff")
        while not over.wait(0.02):
            stream.sendall(b".")

    with _peer(converse) as endpoint:
        asking = RequestSocket(endpoint)
        with pytest.raises(TimeoutError):
            asking.exchange(b"?", 0.2)
        over.set()
        asking.close()


@pytest.mark.parametrize(
    "endpoint",
    [
        "nonsense",
        "tcp://",
        "tcp://host",
        "tcp://host:0",
        "tcp://host:65536",
        "tcp://*:5",
        "tcp://a b:5",
        "tcp://a/b:5",
        f"tcp://{'a' * 64}:5",
        "ipc://",
        "ipc://a\0b",
        "ws://host:5",
        "tcp://[::1]",
        "tcp://::1:5",
    ],
)
def test_no_endpoints(endpoint: str) -> None:
    with pytest.raises(ValueError, match="is not a socket endpoint, expected tcp://HOST:PORT or ipc://PATH"):
        RequestSocket(endpoint)
