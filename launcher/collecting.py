"""Searching for unreachable objects rarely: nearly all that a command makes stays to its end."""

from __future__ import annotations

import atexit
import contextlib
import gc
import sys
from collections.abc import Iterator

RARE = 100_000
"""Objects that are made between two searches of the youngest."""


@contextlib.contextmanager
def rare_collections() -> Iterator[None]:
    """Search rarely while a command runs, and not when it ends.

    What is imported alone is so much that the searches would take a fifth of a short run. The one that would follow
    when things are as usual again took 5 % of ``hdrl-launch`` on 10,000 jobs (28 of 560 ms of processor time).

    Yields
    ------
    None
        While searches are rare.
    """
    usual = gc.get_threshold()
    gc.set_threshold(RARE, *usual[1:])
    atexit.register(end_quickly)
    try:
        yield
    finally:
        gc.freeze()  # both together: all that is there counts as old from now on
        gc.unfreeze()
        gc.set_threshold(*usual)


def end_quickly() -> None:
    """Spare the last search of a short run; a long one that loaded torch ends as Python wants it.

    Extensions made with nanobind, which torch brings along, take what was not collected for their own leaks and
    print a line for each.
    """
    if "torch" not in sys.modules:
        gc.freeze()
