"""Commands that stand in for ``batsim``: one that simulates, and several that misbehave."""

import os
import sys
from pathlib import Path


def command(folder: Path, code: str, *, version: str = "v4.2.1") -> str:
    """Make a command of Python code and return its path; it says which version it is."""
    path = folder / "batsim"
    head = f"#!{sys.executable}\nimport sys\nif '--version' in sys.argv:\n    print({version!r})\n    sys.exit(0)\n"
    path.write_text(head + code)
    path.chmod(0o755)
    return str(path)


def batsim_command(folder: Path) -> str:
    """Make a command that simulates as Batsim does, by the exact engine."""
    return command(folder, "from hdrl.launcher.batsim import main\nmain()\n")


SOCKET = """
import json, os, signal, time, zmq
endpoint = sys.argv[sys.argv.index("-s") + 1]
socket = zmq.Context().socket(zmq.REQ)
socket.setsockopt(zmq.LINGER, 0)
socket.connect(endpoint)
"""
"""How a command begins that connects to its scheduler."""


def saying(*messages: str, then: str = "time.sleep(60)") -> str:
    """Return the code of a command that says something, one message after the other, and then does something."""
    said = "".join(f"socket.send({message.encode()!r})\nsocket.recv()\n" for message in messages[:-1])
    last = f"socket.send({messages[-1].encode()!r})\n" if messages else ""
    return f"{SOCKET}{said}{last}{then}\n"


def children() -> set[int]:
    """Return the ids of the processes that are ours, or were started by one of ours and run on."""
    found = set()
    for path in Path("/proc").iterdir():
        if path.name.isdecimal():
            try:
                fields = (path / "stat").read_text().rsplit(")", 1)[1].split()
            except OSError:
                continue
            if int(fields[1]) == os.getpid():
                found.add(int(path.name))
    return found
