"""How the kernel is compiled: once, without the GIL, cached on disk.

Python calls what is marked `entry`; its compiled code, with all inner functions in it, is cached in a folder named
after a hash of the sources that it is made of (numba itself only looks at the file of the entry, and would run stale
code after a change elsewhere). The folder lies beside the package where that is writable, else in the user's cache
folder, else in a temporary one. ``NUMBA_DISABLE_JIT=1`` runs the same functions as plain Python.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
from numba.core.caching import FunctionCache
from numba.core.runtime import rtsys

from hdrl.kernel.linking import PartCompiler, WholeCompiler

F = TypeVar("F", bound=Callable[..., Any])

JIT_DISABLED = bool(numba.config.DISABLE_JIT)
"""Whether everything runs as plain Python (``NUMBA_DISABLE_JIT=1``)."""

_HERE = Path(__file__).parent


def source_hash(paths: Iterable[Path]) -> str:
    """Return a hash of the sources that compiled code depends on.

    Parameters
    ----------
    paths
        Their files.
    """
    digest = hashlib.sha256()
    for path in paths:
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _writable(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


def cache_folder(prefix: str, paths: Iterable[Path]) -> Path:
    """Return the folder in which compiled code is kept; it exists and is writable.

    Folders of earlier versions of the sources beside it are removed.

    Parameters
    ----------
    prefix
        How its name begins.
    paths
        The files that the code is compiled from.
    """
    name = f"{prefix}-{source_hash(paths)}"
    chosen = os.environ.get("NUMBA_CACHE_DIR")
    user = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "hdrl"
    parents = [Path(chosen)] if chosen else [_HERE / "__pycache__", user]
    for parent in parents:
        if _writable(parent / name):
            for stale in parent.glob(f"{prefix}-*"):
                if stale.name != name:
                    shutil.rmtree(stale, ignore_errors=True)
            return parent / name
    return Path(tempfile.mkdtemp(prefix=f"{prefix}-"))


CACHE_FOLDER = cache_folder("hdrl-kernel", [*sorted(_HERE.glob("*.py")), _HERE.parent / "platform" / "pstates.py"])


def jit(function: F) -> F:
    """Compile an inner function of the kernel: only other compiled functions call it.

    It is compiled without wrappers for Python and without reference counting (the arrays belong to the caller of the
    entry), which halves the time that compiling takes.

    Parameters
    ----------
    function
        A function of scalars and flat arrays; it makes no arrays.
    """
    compiled: F = numba.njit(
        nogil=True,
        error_model="numpy",
        no_cpython_wrapper=True,
        no_cfunc_wrapper=True,
        _nrt=False,
        pipeline_class=PartCompiler,
    )(function)
    return compiled


class _Cache(FunctionCache):  # type: ignore[misc]
    """Numba's cache, without loading all that Numba knows how to compile, SciPy included, before looking into it.

    That would take a quarter of the time of a short simulation. Who compiles loads it anyway.
    """

    def load_overload(self, signature: Any, target_context: Any) -> Any:
        """Return compiled code, or ``None`` if there is none."""
        rtsys.initialize(target_context)
        with self._guard_against_spurious_io_errors():
            return self._load_overload(signature, target_context)


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


def entry_in(folder: Path) -> Callable[[F], F]:
    """Return a decorator that compiles a function which Python calls; the result is cached on disk.

    Parameters
    ----------
    folder
        The folder of the cache.
    """

    def compile_entry(function: F) -> F:
        before = numba.config.CACHE_DIR
        numba.config.CACHE_DIR = str(folder)  # where it is cached is decided when it is decorated
        try:
            compiled = numba.njit(nogil=True, error_model="numpy", pipeline_class=WholeCompiler)(function)
            if not JIT_DISABLED:
                compiled._cache = _Cache(function)  # noqa: SLF001 - where Numba itself puts its own
        finally:
            numba.config.CACHE_DIR = before
        return function if JIT_DISABLED else cast("F", _Entry(compiled))

    return compile_entry


entry = entry_in(CACHE_FOLDER)
"""Compile a function of scalars and flat arrays that Python calls, always with the same types; it is cached."""


def compile_once(folder: Path, name: str, text: str, run: Callable[[], object], message: Callable[[str], None]) -> None:
    """Do what makes compiled code if it has never been done here; later processes load the code from the cache.

    Parameters
    ----------
    folder
        The folder of the cache.
    name
        What of it is compiled.
    text
        What to say before it takes long.
    run
        Calls the functions in question.
    message
        Told the text.
    """
    stamp = folder / f"{name}-numba-{numba.__version__}"
    if JIT_DISABLED or stamp.exists():
        return
    message(text)
    run()
    stamp.touch()
