"""A command as a process of ours: started with a log, watched, and gone when we are done with it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from hdrl.base import guard
from hdrl.base.closing import Closing
from hdrl.base.errors import SimulationError

_N_LINES, _LONGEST_LINE, _TAIL_BYTES = 3, 200, 8192
_CLOSING_S = 4 * guard.PATIENCE_S


class Process(Closing):
    """A running command that writes into a log.

    It is the leader of a session of its own, so that Ctrl-C reaches us alone, and ends with us (`base.guard`).

    The log gets all of its output. ``remove`` is removed when we close it, or are killed before it ends; ``{pid}`` in
    it stands for its process id.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        folder: Path,
        log: Path,
        environment: Mapping[str, str] | None = None,
        remove: Sequence[str] = (),
    ) -> None:
        self.name = Path(command[0]).name
        self.log = log
        removed = [word for path in remove for word in ("--remove", path)]
        guarded = [sys.executable, "-I", "-S", str(Path(guard.__file__)), *removed, *command]
        try:
            with log.open("wb") as output:
                self._guard = subprocess.Popen(
                    guarded,
                    cwd=folder,
                    env=environment,
                    stdin=subprocess.PIPE,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
        except OSError as error:
            raise SimulationError(f"{self.name}: cannot be started ({error.strerror or error})") from None

    def poll(self) -> int | None:
        """Return the exit code (as shells give it, above 128 for a signal), or ``None`` while it runs."""
        code = self._guard.poll()
        return code if code is None or code >= 0 else guard.SIGNALLED - code

    def wait(self, timeout_s: float) -> int | None:
        """Return the exit code, or ``None`` if it still runs after a time."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._guard.wait(timeout_s)
        return self.poll()

    def describe_exit(self) -> str:
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

    def log_tail(self) -> str:
        """Return the last lines of the log as one, to be put at the end of a message."""
        try:
            with self.log.open("rb") as file:
                file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL_BYTES))
                text = file.read().decode(errors="replace")
        except OSError:
            text = ""
        lines = [" ".join(printable(line).split())[:_LONGEST_LINE] for line in text.splitlines() if line.strip()]
        return f"its log ends: {' | '.join(lines[-_N_LINES:])}" if lines else "its log is empty"

    def close(self) -> None:
        """End it, and whatever it has started, and wait until it is gone."""
        assert self._guard.stdin is not None  # noqa: S101 - requested above
        with contextlib.suppress(OSError):
            self._guard.stdin.close()
        try:
            self._guard.wait(_CLOSING_S)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._guard.pid, signal.SIGKILL)
            self._guard.wait()


def printable(text: str) -> str:
    """Return a text of another program without characters that cannot be shown."""
    return "".join(character if character.isprintable() or character.isspace() else "?" for character in text)
