"""The three ways in which the same functions run.

*Fast*: put together as `hdrl.compiled.fast.linking` tells, arrays lent as pointers. That uses parts of Numba which it
may change in any version.

*Plain Numba*: compiled by nothing but what Numba documents. Compiling takes several times as long, the code is slower,
and a batch is stepped by one thread; results are the same. It is what versions of Numba get that nobody has tried, or
everybody by ``HDRL_PLAIN_NUMBA=1``.

*Plain Python*: without any compiler, ``NUMBA_DISABLE_JIT=1``.
"""

from __future__ import annotations

import os

import numba

TRIED = (0, 61), (0, 70)
"""The first version of Numba that the fast way is known to work with, and the first that nobody has tried."""


def is_tried(version: str) -> bool:
    """Tell whether the fast way is known to work with a version of Numba.

    Parameters
    ----------
    version
        For instance ``"0.62.1"``.
    """
    major, minor = (int("".join(filter(str.isdigit, part)) or 0) for part in version.split(".")[:2])
    return TRIED[0] <= (major, minor) < TRIED[1]


JIT_DISABLED = bool(numba.config.DISABLE_JIT)
"""Whether everything runs as plain Python (``NUMBA_DISABLE_JIT=1``)."""

PLAIN_NUMBA = not JIT_DISABLED and (
    os.environ.get("HDRL_PLAIN_NUMBA", "0") not in ("", "0") or not is_tried(numba.__version__)
)
"""Whether only what Numba documents is used."""

IS_FAST = not JIT_DISABLED and not PLAIN_NUMBA
"""Whether the parts of Numba are used that it may change."""
