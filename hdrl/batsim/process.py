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


def find_executable(name: str) -> str:
    """Return the path of the Batsim to start, from a name on ``PATH`` or a path."""
    found = shutil.which(name) or shutil.which(name, path=str(Path(sys.executable).parent))
    if found is None:
        where = "" if os.sep in name else " on PATH"
        raise BatsimError(f"no executable {name!r}{where}: {HOW_TO_GET_IT}")
    return str(Path(found).absolute())


def version_of(executable: str, *, timeout_s: float = _VERSION_TIMEOUT_S, versions: Versions = (OLDEST, NEWEST)) -> str:
    """Return the version that an executable prints within a time, after checking that hdrl supports its protocol.

    A version without a number (a build of the day) passes: its first message is checked anyway.
    """
    name = Path(executable).name
    with tempfile.TemporaryDirectory(prefix="hdrl-") as folder:
        log = Path(folder) / "version"
        with Process([executable, "--version"], folder=Path(folder), log=log) as process:
            code = process.wait(timeout_s)
            if code is None:
                raise BatsimError(f"{name} --version has not answered within {timeout_s:g} s")
            if code != 0:
                raise BatsimError(f"{process.describe_exit()} when asked for its version; {process.log_tail()}")
            text = " ".join(printable(log.read_bytes()[:_LONGEST_LINE].decode(errors="replace")).split())
    match = re.search(r"(\d{1,6})\.(\d{1,6})", text)
    oldest, newest = versions
    if match is not None and not oldest <= (int(match[1]), int(match[2])) <= newest:
        spoken = f"Batsim {OLDEST[0]}.{OLDEST[1]} to {NEWEST[0]}.{NEWEST[1]}, and of Batsim 5 with batsim.protocol 5"
        raise BatsimError(f"{name} is version {text!r}; hdrl speaks the protocol of {spoken}")
    return text or "unknown"
