"""Batsim's executable, and which version it is."""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
from pathlib import Path

from hdrl.base.errors import BatsimError
from hdrl.base.process import Process, printable

OLDEST, NEWEST = (3, 1), (4, 2)
"""The first and the last version of Batsim (major, minor) whose protocol hdrl speaks."""

Versions = tuple[tuple[int, int], tuple[int, int]]
"""The first and the last version of a range."""

HOW_TO_GET_IT = (
    "install Batsim (https://batsim.readthedocs.io/en/latest/installation.html), or set batsim.executable, "
    "or do without it: simulator 'exact' simulates the same by itself"
)

_LONGEST_LINE = 200
_VERSION_TIMEOUT_S = 30.0


<<<<<<< HEAD
=======
class Process:
    """A running command that writes into a log.

    It is the leader of a session of its own, so that Ctrl-C reaches us alone, and ends with us (`batsim.guard`).

    Parameters
    ----------
    log
        The file that gets all of its output.

    Raises
    ------
    BatsimError
        If it cannot be started.
    """

    def __init__(self, command: Sequence[str], *, folder: Path, log: Path) -> None:
        self.name = Path(command[0]).name
        self.log = log
        guarded = [sys.executable, "-I", "-S", str(Path(guard.__file__)), *command]
        try:
            with log.open("wb") as output:
                self._guard = subprocess.Popen(
                    guarded,
                    cwd=folder,
                    stdin=subprocess.PIPE,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
        except OSError as error:
            raise BatsimError(f"{self.name}: cannot be started ({error.strerror or error})") from None

    def __enter__(self) -> Process:
        """Return the process."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """End it if it still runs."""
        self.close()

    def poll(self) -> int | None:
        """Return the exit code (as shells give it, above 128 for a signal), or ``None`` while it runs."""
        code = self._guard.poll()
        return code if code is None or code >= 0 else guard.SIGNALLED - code

    def wait(self, timeout_s: float) -> int | None:
        """Return the exit code, or ``None`` if it still runs after a time."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._guard.wait(timeout_s)
        return self.poll()

    def how_it_ended(self) -> str:
        """Say with which code or signal it ended, or that it still runs."""
        code = self.poll()
        if code is None:
            return f"{self.name} still runs"
        if code <= guard.SIGNALLED:
            return f"{self.name} ended with code {code}"
        try:
            name = signal.Signals(code - guard.SIGNALLED).name
        except ValueError:
            return f"{self.name} ended with code {code}"
        return f"{self.name} was ended by {name}"

    def last_words(self) -> str:
        """Return the last lines of the log as one, to be put at the end of a message."""
        try:
            with self.log.open("rb") as file:
                file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL_BYTES))
                text = file.read().decode(errors="replace")
        except OSError:
            text = ""
        lines = [" ".join(_printable(line).split())[:_LONGEST_LINE] for line in text.splitlines() if line.strip()]
        return f"its log ends: {' | '.join(lines[-_N_LINES:])}" if lines else "its log is empty"

    def close(self) -> None:
        """End it, and whatever it has started, and wait until it is gone."""
        assert self._guard.stdin is not None  # noqa: S101 - asked for above
        with contextlib.suppress(OSError):
            self._guard.stdin.close()
        try:
            self._guard.wait(_CLOSING_S)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._guard.pid, signal.SIGKILL)
            self._guard.wait()


>>>>>>> rest
def find_executable(name: str) -> str:
    """Return the path of the Batsim to start.

    Parameters
    ----------
    name
        A name to look for on ``PATH``, or a path.

    Raises
    ------
    BatsimError
        If there is none.
    """
    found = shutil.which(name) or shutil.which(name, path=str(Path(sys.executable).parent))
    if found is None:
        where = "" if os.sep in name else " on PATH"
        raise BatsimError(f"no executable {name!r}{where}: {HOW_TO_GET_IT}")
    return str(Path(found).absolute())


def version_of(executable: str, *, timeout_s: float = _VERSION_TIMEOUT_S, versions: Versions = (OLDEST, NEWEST)) -> str:
    """Return what version an executable says it is, after checking that hdrl speaks its protocol.

    Parameters
    ----------
    timeout_s
        How long it may take to say it.

    Raises
    ------
    BatsimError
        If it does not say, or speaks another protocol. A version without a number (a build of the day) is let pass:
        what it says later is checked anyway.
    """
    name = Path(executable).name
    with tempfile.TemporaryDirectory(prefix="hdrl-") as folder:
        log = Path(folder) / "version"
        with Process([executable, "--version"], folder=Path(folder), log=log) as process:
            code = process.wait(timeout_s)
            if code is None:
                raise BatsimError(f"{name} --version has not answered within {timeout_s:g} s")
            if code != 0:
                raise BatsimError(f"{process.how_it_ended()} when asked for its version; {process.last_words()}")
            text = " ".join(printable(log.read_bytes()[:_LONGEST_LINE].decode(errors="replace")).split())
    match = re.search(r"(\d{1,6})\.(\d{1,6})", text)
    oldest, newest = versions
    if match is not None and not oldest <= (int(match[1]), int(match[2])) <= newest:
        spoken = f"Batsim {OLDEST[0]}.{OLDEST[1]} to {NEWEST[0]}.{NEWEST[1]}, and of Batsim 5 with batsim.protocol 5"
        raise BatsimError(f"{name} is version {text!r}; hdrl speaks the protocol of {spoken}")
    return text or "unknown"
