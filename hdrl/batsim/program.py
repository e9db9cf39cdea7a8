"""A scheduler in C++ that speaks Batsim's protocol, from its one source file: compiled, started, and given messages.

The program gets ``ipc://PATH`` as its only argument, listens there (a ZeroMQ REP socket) and ends after
SIMULATION_ENDS.
"""

from __future__ import annotations

import functools
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

from hdrl.base.errors import BatsimError
from hdrl.base.files import read_text
from hdrl.base.process import Process, printable
from hdrl.batsim.embedded_server import ProtocolServer
from hdrl.batsim.zmtp import RequestSocket

COMPILERS = ("c++", "g++", "clang++")
TIMEOUT_S = 60.0
"""Wall-clock seconds for one answer, or to listen."""

_COMPILING_S = 600.0
_LOOK_EVERY_S = 0.002
_ERROR_LENGTH = 300


def play(source: Path, simulator: Any) -> None:
    """Simulate under the scheduler; it receives what jobs request, and never what they do.

    Raises
    ------
    BatsimError
        If it cannot be compiled, fails, is silent for too long, or asks for what the simulator refuses.
    """
    program = _compiled(read_text(source))
    with tempfile.TemporaryDirectory(prefix="hdrl-") as name:
        folder = Path(name)
        executable, address = folder / source.stem, folder / "socket"
        executable.write_bytes(program)
        executable.chmod(0o700)
        endpoint = f"ipc://{address}"
        with Process([str(executable), endpoint], folder=folder, log=folder / "log") as process:
            scheduler = _Scheduler(source, process, RequestSocket(endpoint))
            scheduler.wait_for(address)
            try:
                ProtocolServer(simulator, energy=False, hides_work=True).run(scheduler)
            finally:
                scheduler.socket.close()


class _Scheduler:
    """The running program."""

    def __init__(self, source: Path, process: Process, socket: RequestSocket) -> None:
        self._source, self._process, self.socket = source, process, socket

    def wait_for(self, address: Path) -> None:
        """Wait until the program listens."""
        deadline_s = time.monotonic() + TIMEOUT_S
        while not address.exists():
            if self._process.poll() is not None or time.monotonic() > deadline_s:
                raise self._failed("does not listen on the socket that its argument names")
            time.sleep(_LOOK_EVERY_S)

    def exchange(self, message: str) -> str:
        """Return the reply to a message."""
        try:
            return b"".join(self.socket.exchange(message.encode(), TIMEOUT_S)).decode()
        except TimeoutError:
            raise self._failed(f"has not answered within {TIMEOUT_S:g} s") from None
        except OSError:
            self._process.wait(1.0)
            raise self._failed("closed the connection before SIMULATION_ENDS") from None
        except UnicodeDecodeError:
            raise self._failed("answered with what is not UTF-8") from None

    def _failed(self, why: str) -> BatsimError:
        ended = "" if self._process.poll() is None else f"; {self._process.describe_exit()}"
        return BatsimError(f"{self._source}: the scheduler {why}{ended}; {self._process.log_tail()}")


@functools.lru_cache(maxsize=8)
def _compiled(source: str) -> bytes:
    """Return the program of a source; libzmq is linked if the source includes its header."""
    compiler = next(filter(None, map(shutil.which, COMPILERS)), None)
    if compiler is None:
        raise BatsimError(f"a scheduler in C++ needs a compiler, found none of {', '.join(COMPILERS)} on PATH")
    libraries = ["-lzmq"] if "#include <zmq" in source else []
    with tempfile.TemporaryDirectory(prefix="hdrl-") as folder:
        out = Path(folder) / "program"
        command = [compiler, "-x", "c++", "-std=c++17", "-O1", "-", "-o", str(out), *libraries]
        try:
            done = subprocess.run(
                command, input=source, capture_output=True, text=True, timeout=_COMPILING_S, check=False
            )
        except subprocess.TimeoutExpired:
            raise BatsimError(f"{compiler}: took longer than {_COMPILING_S:g} s") from None
        if done.returncode:
            lines = [line for line in done.stderr.splitlines() if "error" in line or "undefined" in line]
            first = printable(" ".join((lines or done.stderr.splitlines() or ["no message"])[0].split()))
            raise BatsimError(f"{compiler}: cannot compile the scheduler: {first[:_ERROR_LENGTH]}")
        return out.read_bytes()
