"""The three ways in which the same functions run.

*Fast*: put together as in `hdrl.compiled.fast.parts`, arrays borrowed as pointers. That uses parts of Numba which it
may change in any version.

*Plain Numba*: compiled by nothing but what Numba documents. Compiling takes several times as long, the code is slower,
and a batch is stepped by one thread; results are the same. Untested versions of Numba use it, and
all versions with ``HDRL_PLAIN_NUMBA=1``.

*Plain Python*: without any compiler, ``NUMBA_DISABLE_JIT=1``.

Each has its use. The fast way halves the time of compiling. Plain Numba serves installations with another Numba than
the bounds of this package allow, as distributions of Linux have, or with one in which `hdrl.compiled.fast.known` finds
something else than it expects; it also shows whether a result depends on the fast way's liberties. In plain Python a
debugger goes step by step, and coverage counts lines. Both use the same code of `hdrl.compiled.plain`; to do without
plain Numba would save some 60 lines.

Which way it is, is known without Numba: to load it takes a quarter of a short command.
"""

from __future__ import annotations

import contextlib
import os
from importlib import metadata

TRIED = (0, 61), (0, 70)
"""The first version of Numba that the fast way is known to work with, and the first untested one."""


def is_tried(version: str) -> bool:
    """Tell whether the fast way is known to work with a version of Numba."""
    major, minor = (int("".join(filter(str.isdigit, part)) or 0) for part in version.split(".")[:2])
    return TRIED[0] <= (major, minor) < TRIED[1]


def _is_disabled(value: str) -> bool:
    """Return whether Numba takes a value of ``NUMBA_DISABLE_JIT`` as true."""
    with contextlib.suppress(ValueError):
        return bool(int(value))
    return False


NUMBA_VERSION = metadata.version("numba")

JIT_DISABLED = _is_disabled(os.environ.get("NUMBA_DISABLE_JIT", ""))
"""True if everything runs as plain Python (``NUMBA_DISABLE_JIT=1``)."""

PLAIN_NUMBA = not JIT_DISABLED and (
    os.environ.get("HDRL_PLAIN_NUMBA", "0") not in ("", "0") or not is_tried(NUMBA_VERSION)
)
"""True if only documented features of Numba are used."""

IS_FAST = not JIT_DISABLED and not PLAIN_NUMBA
"""True if parts of Numba are used that may change between versions."""

TILE_ROWS = 16
"""Rows that ``multiply_tile`` of each backend takes: with four units they fill half of the registers of 32 bytes."""
