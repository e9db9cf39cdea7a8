"""Run a command that ends when the process that started it goes away: ``python guard.py [--remove PATH] COMMAND ...``.

A simulator outside waits forever for its scheduler. This small process stands between the two: its standard input is a
pipe that the starter holds open, so that even a starter that is killed takes the command with it, and all that the
command has started, daemons included. It runs by itself, without hdrl.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import threading
import time

SIGNALLED = 128
"""An exit code above this means: ended by the signal of that number more, as shells say it."""

PATIENCE_S = 1.0
"""Time that a command may take to end after SIGTERM, in seconds."""

_PR_SET_CHILD_SUBREAPER = 36
_ROUNDS, _ROUND_S = 200, 0.01


def main(arguments: list[str]) -> int:
    """Run a command and return its exit code.

    Parameters
    ----------
    arguments
        ``--remove PATH``, any number of times: a file or a folder that is removed when the starter has gone, ``{pid}``
        in it stands for the process id of the command; then the program and its arguments.
    """
    remove = []
    while arguments[0] == "--remove":
        remove.append(arguments[1])
        arguments = arguments[2:]
    # A handler, for what is ignored would be ignored by the command too.
    signal.signal(signal.SIGTERM, lambda *_: None)
    _adopt_orphans()
    try:
        child = subprocess.Popen(arguments, stdin=subprocess.DEVNULL)
    except OSError as error:
        sys.stderr.write(f"{arguments[0]}: cannot be started ({error.strerror or error})\n")
        return SIGNALLED - 2
    ended, is_alone = threading.Event(), threading.Event()
    watch = threading.Thread(target=_end_with_starter, args=(child.pid, ended, is_alone), daemon=True)
    watch.start()
    status = _status_of(child.pid)
    ended.set()
    _kill_descendants()
    if is_alone.is_set():
        _remove([path.replace("{pid}", str(child.pid)) for path in remove])
    return shell_code(status)


def shell_code(status: int) -> int:
    """Return the exit code of a process that has ended as shells give it, above `SIGNALLED` for a signal."""
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else SIGNALLED - code


def _adopt_orphans() -> None:
    """Become the parent of the daemons that the command leaves behind, where the system can do so."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _status_of(pid: int) -> int:
    """Wait for the command, and for the orphans that end meanwhile; return the status of the command."""
    while True:
        ended, status = os.waitpid(-1, 0)
        if ended == pid:
            return status


def _end_with_starter(pid: int, ended: threading.Event, is_alone: threading.Event) -> None:
    while os.read(sys.stdin.fileno(), 1):
        pass
    is_alone.set()
    if ended.is_set():
        return
    with contextlib.suppress(ProcessLookupError):
        os.killpg(0, signal.SIGTERM)
    if not ended.wait(PATIENCE_S):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _kill_descendants() -> None:
    """Kill the processes that the command has left behind, until none of them is there."""
    for _ in range(_ROUNDS):
        found = _descendants()
        for pid in found:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        if not found:
            return
        time.sleep(_ROUND_S)


def _descendants() -> list[int]:
    parents = {}
    for folder in pathlib.Path("/proc").iterdir():
        if folder.name.isdecimal():
            with contextlib.suppress(OSError):
                parents[int(folder.name)] = int((folder / "stat").read_bytes().rsplit(b")", 1)[1].split()[1])
    found: set[int] = set()
    new = {os.getpid()}
    while new:
        new = {pid for pid, parent in parents.items() if parent in new} - found
        found |= new
    return sorted(found)


def _remove(paths: list[str]) -> None:
    for path in paths:
        shutil.rmtree(path, ignore_errors=True)
        with contextlib.suppress(OSError):
            pathlib.Path(path).unlink()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
