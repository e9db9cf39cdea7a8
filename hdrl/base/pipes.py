"""Inputs that come through pipes: ``/dev/stdin``, and what shells make of ``<(command)``.

A pipe can be read once and has a name that says nothing. Inputs are read more than once (their hashes are noted, and
workers read them, too), and their endings say what they are. So what comes through a pipe is kept in a file until the
process ends.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import gzip
import os
import re
import shutil
import stat
import tempfile
from pathlib import Path

_NAME = re.compile(r"/dev/stdin|/(?:dev|proc/self)/fd/(\d+)")
_GZIP = b"\x1f\x8b"
_LOOKED_AT = 2**16


def is_pipe(name: str | Path) -> bool:
    """Return whether a name belongs to a pipe to read from, or to a file that the shell gives as one."""
    found = _NAME.fullmatch(str(name))
    if found is None:
        return False
    number = int(found[1] or 0)
    with contextlib.suppress(OSError):
        mode, flags = os.fstat(number).st_mode, fcntl.fcntl(number, fcntl.F_GETFL)
        can_be_read = flags & os.O_ACCMODE in (os.O_RDONLY, os.O_RDWR)
        return can_be_read and (stat.S_ISFIFO(mode) or stat.S_ISREG(mode) or stat.S_ISSOCK(mode))
    return False


@functools.cache
def file_of_pipe(name: str) -> Path:
    """Return a file with what comes through a pipe, named by what it is: ``stdin.swf``."""
    stem = "stdin" if name.endswith(("stdin", "/0")) else f"pipe{Path(name).name}"
    kept = Path(_folder().name) / stem
    with Path(name).open("rb") as source, kept.open("wb") as copy:
        shutil.copyfileobj(source, copy)
    with kept.open("rb") as file:
        begins_as_gzip = file.read(len(_GZIP)) == _GZIP
    with gzip.open(kept) if begins_as_gzip else kept.open("rb") as file:
        try:
            ending = _ending(file.read(_LOOKED_AT))
        except (OSError, EOFError):  # damaged: its reader says so
            ending = ".swf"
    return kept.rename(kept.with_name(f"{stem}{ending}{'.gz' if begins_as_gzip else ''}"))


@functools.cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    """Return the folder of all of them, which is removed when the process ends."""
    return tempfile.TemporaryDirectory(prefix="hdrl-pipe-")


def _ending(content: bytes) -> str:
    """Return the ending of the name that a file which begins like this would have."""
    lines = [line.strip() for line in content.splitlines()]
    first = next((line for line in lines if line and not line.startswith(b";")), b"")
    if first.startswith((b"{", b"[")):
        return ".json"
    return ".csv" if b"," in first else ".swf"
