"""Compiling functions: once, without the GIL, cached on disk.

What Python calls is marked by an ``entry``, whose cache is a folder of its own (`hdrl.compiled.cache`); what only other
compiled functions call, by `jit`. `hdrl.compiled.backends` tells in which ways they run.

Nothing here loads Numba before something is to be compiled: what is in the cache is loaded without it
(`hdrl.compiled.bare`).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from functools import cache, cached_property
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar, cast

from hdrl.compiled.backends import IS_FAST, JIT_DISABLED
from hdrl.compiled.bare import IS_TRIED, BareEntry, Code
from hdrl.compiled.cache import SIMULATOR
from hdrl.compiled.codes import CodeTable
from hdrl.compiled.intact import writing

F = TypeVar("F", bound=Callable[..., Any])

_COMMON: dict[str, Any] = {"nogil": True, "error_model": "numpy"}


@cache
def _numba() -> Any:
    """Load Numba, and let it take a `CodeTable` for the plain tuple that it is."""
    import numba
    from numba.extending import typeof_impl

    typeof_impl.register(CodeTable)(lambda table, context: typeof_impl(tuple(table), context))
    return numba


def _parts() -> Any:
    _numba()
    from hdrl.compiled.fast import parts

    return parts


def _linking() -> Any:
    _numba()
    from hdrl.compiled.fast import linking

    return linking


class Later:
    """Stands for a compiled function: it is loaded when Numba compiles a function that names it, or by a call.

    ``py_func``: the function in Python, if there is one.
    """

    def __init__(self, load: Callable[[], Any], py_func: Callable[..., Any] | None = None) -> None:
        self._load = load
        self.py_func = py_func

    @cached_property
    def compiled(self) -> Any:
        """The function as Numba compiled it."""
        return self._load()

    @property
    def _numba_type_(self) -> Any:
        """Numba's hook for the type of an object that it does not know."""
        from numba.core.registry import cpu_target

        compiled = self.compiled
        for context in (cpu_target.typing_context, cpu_target.target_context):
            context.refresh()  # intrinsics that have just been loaded
        return cpu_target.typing_context.resolve_value_type(compiled)

    def __call__(self, *arguments: Any) -> Any:
        """Call the function, which compiles it."""
        return self.compiled(*arguments)


def jit(function: F) -> F:
    """Compile an inner function: only other compiled functions call it.

    It is compiled without wrappers for Python and without reference counting (the arrays belong to the caller of the
    entry), which halves the time that compiling takes. The compiler takes no liberties with floating-point numbers:
    what comes out is the same on every processor, to the bit.

    ``function``: a function of scalars and flat arrays; it makes no arrays.
    """
    if JIT_DISABLED:
        return function

    def compiled() -> Any:
        numba = _numba()
        part = _parts().PART if IS_FAST else {}
        return numba.njit(**_COMMON, **part)(function)

    return cast("F", Later(compiled, function))


def python_of(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function in Python that a compiled one was made of, for calls that are not worth compiling it."""
    python: Callable[..., Any] = getattr(function, "py_func", function)
    return python


def backend(name: str) -> Any:
    """Return a twin that each of the ways has: an intrinsic of `hdrl.compiled.fast`, or a function of the plain ways.

    ``name``: its module in `hdrl.compiled.fast` and its own name, which is that of its twin in `hdrl.compiled.plain`:
    ``"bits.lowest"``.
    """
    module, _, own = name.partition(".")
    place = f"hdrl.compiled.fast.{module}" if IS_FAST else "hdrl.compiled.plain"
    if JIT_DISABLED:
        return getattr(import_module(place), own)
    return Later(lambda: getattr(import_module(place), own))


@contextlib.contextmanager
def _kept_in(folder: Path) -> Iterator[None]:
    """Let Numba cache what is decorated meanwhile in a folder."""
    numba = _numba()
    before = numba.config.CACHE_DIR
    numba.config.CACHE_DIR = str(folder)
    try:
        yield
    finally:
        numba.config.CACHE_DIR = before


class _Entry:
    """A compiled function that is always called with arguments of the same types.

    Numba looks at the type of every argument in every call, some 0.2 microseconds for each array of a tuple; this is
    what it finds the first time.
    """

    def __init__(self, function: Callable[..., Any], folder: Path, text: str) -> None:
        self._function = function
        self._folder = folder
        self._text = text
        self._compiled: Callable[..., Any] | None = None

    @cached_property
    def _dispatcher(self) -> Any:
        numba = _numba()
        with _kept_in(self._folder):
            compiled = numba.njit(**_COMMON, **_parts().WHOLE)(self._function)
            # where Numba itself puts its own
            compiled._cache = _linking().EntryCache(self._function, self._folder, self._text)  # noqa: SLF001
        return compiled

    def __call__(self, *arguments: Any) -> Any:
        if self._compiled is not None:
            return self._compiled(*arguments)
        result = self._dispatcher(*arguments)
        self._compiled = self._dispatcher.get_overload(self._dispatcher.signatures[0])
        return result


class _PlainEntry:
    """The same by what Numba documents; when it was called first, checksums of what Numba has kept are noted."""

    def __init__(self, function: Callable[..., Any], folder: Path) -> None:
        self._function = function
        self._folder = folder
        self._is_noted = False

    @cached_property
    def _dispatcher(self) -> Any:
        numba = _numba()
        with _kept_in(self._folder):
            return numba.njit(cache=True, **_COMMON)(self._function)

    def __call__(self, *arguments: Any) -> Any:
        result = self._dispatcher(*arguments)
        if not self._is_noted:
            with writing(self._folder):
                self._is_noted = True
        return result


def _bare_code(function: Callable[..., Any], arguments: tuple[Any, ...]) -> Code:
    code: Code = _linking().bare_code(function, arguments, _COMMON)
    return code


def entry_in(folder: Path, text: str = SIMULATOR) -> Callable[[F], F]:
    """Return a decorator that compiles a function which Python calls; the result is cached on disk.

    The function takes numbers, contiguous arrays and named tuples of these, always of the same types, and returns
    numbers or nothing. Where that is possible, its code is loaded without Numba (`hdrl.compiled.bare`).

    ``text``: what is said before it takes long to compile.
    """

    def compile_entry(function: F) -> F:
        if JIT_DISABLED:
            return function
        usual = _Entry(function, folder, text) if IS_FAST else _PlainEntry(function, folder)
        return cast("F", BareEntry(function, folder, usual, _bare_code, text) if IS_TRIED else usual)

    return compile_entry
