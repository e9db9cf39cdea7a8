"""Run a command that ends when the process that started it goes away: ``python guard.py COMMAND ...``.

Batsim waits for its scheduler for ever. This small process stands between the two: its standard input is a pipe that
the starter holds open, so that even a starter that is killed takes Batsim with it. It runs by itself, without hdrl.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading

SIGNALLED = 128
"""An exit code above this means: ended by the signal of that number more, as shells say it."""

PATIENCE_S = 1.0
"""How long a command may take to end when it is asked to."""


def main(command: list[str]) -> int:
    """Run a command and return its exit code."""
    # A handler, for what is ignored would be ignored by the command too.
    signal.signal(signal.SIGTERM, lambda *_: None)
    try:
        child = subprocess.Popen(command, stdin=subprocess.DEVNULL)
    except OSError as error:
        sys.stderr.write(f"{command[0]}: cannot be started ({error.strerror or error})\n")
        return SIGNALLED - 2
    ending = threading.Event()
    watch = threading.Thread(target=_end_with_starter, args=(child, ending), daemon=True)
    watch.start()
    code = child.wait()
    if ending.is_set():
        watch.join()  # it ends this process too, once nothing of the command is left
    return code if code >= 0 else SIGNALLED - code


def _end_with_starter(child: subprocess.Popen[bytes], ending: threading.Event) -> None:
    while os.read(sys.stdin.fileno(), 1):
        pass
    ending.set()
    with contextlib.suppress(ProcessLookupError):
        os.killpg(0, signal.SIGTERM)
    try:
        child.wait(PATIENCE_S)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()
    os.killpg(0, signal.SIGKILL)  # what the command has left behind, and this process with it


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
