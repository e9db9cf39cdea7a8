"""Passing a tuple of arrays to compiled functions as one pointer: ``state = borrow(arrays)``.

The attributes of ``state`` read like those of the tuple. It is good as long as the function that borrows runs, and
indices into arrays of one dimension must not be negative: no compiled code looks whether they are.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from hdrl.compiled.backends import IS_FAST
from hdrl.compiled.jit import Later, backend

borrow = backend("borrow.borrow")


def take_as(example: Callable[[], tuple[Any, ...]]) -> Any:
    """Return the compiled function that turns `hdrl.compiled.borrowed.Borrowed.addresses` into a borrowed tuple.

    ``example``: returns a tuple of the same types; it is called when something is compiled.
    """
    if not IS_FAST:
        return backend("plain.unchanged")
    return Later(lambda: import_module("hdrl.compiled.fast.borrow").take_as(example))
