"""Compiling functions: once, without the GIL, cached on disk.

What Python calls is marked by an ``entry``, whose cache is a folder of its own (`hdrl.compiled.cache`); what only other
compiled functions call, by `jit`. `hdrl.compiled.ways` tells in which ways they run.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import numba

from hdrl.compiled.intact import writing
from hdrl.compiled.ways import IS_FAST, JIT_DISABLED

if IS_FAST:
    from hdrl.compiled.fast.linking import PART, WHOLE, EntryCache

F = TypeVar("F", bound=Callable[..., Any])

_COMMON: dict[str, Any] = {"nogil": True, "error_model": "numpy"}


def jit(function: F) -> F:
    """Compile an inner function: only other compiled functions call it.

    It is compiled without wrappers for Python and without reference counting (the arrays belong to the caller of the
    entry), which halves the time that compiling takes.

    Parameters
    ----------
    function
        A function of scalars and flat arrays; it makes no arrays.
    """
    compiled: F = numba.njit(**_COMMON, **(PART if IS_FAST else {}))(function)
    return compiled


class _Entry:
    """A compiled function that is always called with arguments of the same types.

    Numba looks at the type of every argument in every call, some 0.2 microseconds for each array of a tuple; this is
    what it finds the first time.
    """

    def __init__(self, dispatcher: Any) -> None:
        self._dispatcher = dispatcher
        self._compiled: Callable[..., Any] | None = None

    def __call__(self, *arguments: Any) -> Any:
        if self._compiled is not None:
            return self._compiled(*arguments)
        result = self._dispatcher(*arguments)
        self._compiled = self._dispatcher.get_overload(self._dispatcher.signatures[0])
        return result


class _PlainEntry:
    """The same by what Numba documents; when it was called first, checksums of what Numba has kept are noted."""

    def __init__(self, dispatcher: Any, folder: Path) -> None:
        self._dispatcher = dispatcher
        self._folder: Path | None = folder

    def __call__(self, *arguments: Any) -> Any:
        result = self._dispatcher(*arguments)
        if self._folder is not None:
            with writing(self._folder):
                self._folder = None
        return result


def entry_in(folder: Path) -> Callable[[F], F]:
    """Return a decorator that compiles a function which Python calls; the result is cached on disk.

    The function takes scalars and flat arrays, always of the same types.

    Parameters
    ----------
    folder
        The folder of the cache, see `hdrl.compiled.cache.cache_folder`.
    """

    def compile_entry(function: F) -> F:
        if JIT_DISABLED:
            return function
        before = numba.config.CACHE_DIR
        numba.config.CACHE_DIR = str(folder)  # where it is cached is decided when it is decorated
        try:
            if not IS_FAST:
                return cast("F", _PlainEntry(numba.njit(cache=True, **_COMMON)(function), folder))
            compiled = numba.njit(**_COMMON, **WHOLE)(function)
            compiled._cache = EntryCache(function, folder)  # noqa: SLF001 - where Numba itself puts its own
        finally:
            numba.config.CACHE_DIR = before
        return cast("F", _Entry(compiled))

    return compile_entry
