"""Numbers in the files of users, as people and programs write them.

Python's own ``float`` and ``int`` also take ``1_000`` and digits of other scripts, so that a misprint becomes a number.
"""

from __future__ import annotations

import math


def float_of(text: str) -> float:
    """Return the number that a text is: decimal digits of ASCII, ``inf`` or ``nan``, spaces around it."""
    if "_" in text or not text.isascii():
        raise ValueError(f"{text[:20]!r} is not a number")
    return float(text)


def finite_of(text: str) -> float:
    """Return the finite number that a text is."""
    value = float_of(text)
    if not math.isfinite(value):
        raise ValueError(f"{text[:20]!r} is not a finite number")
    return value


def int_of(text: str) -> int:
    """Return the whole number that a text is: decimal digits of ASCII, a sign before, spaces around it."""
    if "_" in text or not text.isascii():
        raise ValueError(f"{text[:20]!r} is not a whole number")
    return int(text)
