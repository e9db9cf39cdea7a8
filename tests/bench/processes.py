"""Processes that a test may have left."""

from __future__ import annotations

import contextlib
from pathlib import Path


def running(*command: str) -> bool:
    """Tell whether a process runs a command that begins with these words."""
    words = b"\0".join(word.encode() for word in command)
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if path.read_bytes().startswith(words):
                return True
    return False
