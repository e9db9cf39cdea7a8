"""Loading compiled code without the compiler.

Numba takes longer to load than a short simulation takes: a quarter of a classic run on 10,000 jobs (0.18 of 0.75 s of
processor time). So what Python calls is kept as bare machine code, which llvmlite, the library beneath Numba, links in
some milliseconds. Python calls it like any function in C: it takes numbers, arrays and named tuples of arrays, and
returns numbers (`hdrl.compiled.fast.calls`).

Code is only loaded where it was made: for this processor, by these versions of Python, NumPy, Numba and llvmlite, with
the same settings of Numba, for arguments of the same types. Where bare code is not tried (not on Linux, not in the fast
way), or cannot be linked, the entry is compiled and cached by Numba's own means.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import logging
import os
import sys
import threading
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from hdrl.base.errors import OutputError, SimulationError
from hdrl.base.files import atomic_write_bytes, read_own
from hdrl.compiled.backends import IS_FAST, NUMBA_VERSION
from hdrl.compiled.cache import CHOSEN_VARIABLE, SIMULATOR, announce_compiling
from hdrl.compiled.intact import BARE_SUFFIX, compiling_alone, writing

_LOG = logging.getLogger(__name__)

IS_TRIED = IS_FAST and sys.platform == "linux" and sys.implementation.name == "cpython"
"""True if bare code may be loaded; it has been tried nowhere else."""

_FASTCALL = 0x0080
"""Python's flag ``METH_FASTCALL`` for functions that take an array of arguments."""


def kind_of(argument: object) -> str:
    """Return ``bool``, ``int`` or ``float`` for a number, ``object`` for an array or a tuple of arrays."""
    if isinstance(argument, (np.ndarray, tuple)):
        return "object"
    for name, kinds in (("bool", (bool, np.bool_)), ("int", (int, np.integer)), ("float", (float, np.floating))):
        if isinstance(argument, kinds):
            return name
    raise TypeError(f"compiled functions take numbers and arrays, not {type(argument).__name__}")


def _type_of(argument: Any) -> str:
    """Return the properties of an argument that compiled code relies on."""
    if isinstance(argument, tuple):
        kind = type(argument)
        return f"{kind.__module__}.{kind.__qualname__}({','.join(map(_type_of, argument))})"
    if not isinstance(argument, np.ndarray):
        return kind_of(argument)
    dtype, flags = argument.dtype, argument.flags
    element = dtype.str if dtype.names is None else repr(dtype)
    return f"{element}{argument.ndim}{'C' if flags.c_contiguous else '-'}{'w' if flags.writeable else '-'}"


@dataclass(frozen=True)
class Code:
    """Machine code of a bare function."""

    symbol: str
    machine: bytes

    def written(self) -> bytes:
        """Return it as it is kept in a file."""
        return self.symbol.encode() + b"\n" + self.machine

    @classmethod
    def read(cls, content: bytes) -> Code:
        """Return the code of a file."""
        symbol, _, machine = content.partition(b"\n")
        return cls(symbol.decode(), machine)


@cache
def _linker() -> Any:
    from llvmlite import binding

    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    return binding.create_lljit_compiler()


@cache
def made_for() -> tuple[object, ...]:
    """Return the dependencies of machine code besides its sources and its arguments."""
    import llvmlite
    from llvmlite import binding

    settings = sorted(
        (name, value) for name, value in os.environ.items() if name.startswith("NUMBA_") and name != CHOSEN_VARIABLE
    )
    # Where Numba's variables name the processor and what it can do, code for it is made and loaded on any that can.
    is_chosen = {"NUMBA_CPU_NAME", "NUMBA_CPU_FEATURES"} <= os.environ.keys()
    processor = () if is_chosen else (binding.get_host_cpu_name(), binding.get_host_cpu_features().flatten())
    versions = sys.implementation.cache_tag, np.__version__, NUMBA_VERSION, llvmlite.__version__
    return *versions, *processor, *settings


class _Method(ctypes.Structure):
    """The description of a function in C for Python, ``PyMethodDef``."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


class _Linked:
    """Machine code, ready to be called; it stays in memory as long as this does.

    ``call``: the function in it, for Python one of those that are built in.
    """

    def __init__(self, name: str, code: Code) -> None:
        from llvmlite import binding

        builder = binding.JITLibraryBuilder().add_object_img(code.machine).add_current_process()
        self._owner = builder.export_symbol(code.symbol).link(_linker(), f"{name}-{uuid.uuid4()}")
        self._method = _Method(name.encode(), self._owner[code.symbol], _FASTCALL, None)
        new = ctypes.PYFUNCTYPE(ctypes.py_object, *3 * [ctypes.c_void_p])(("PyCFunction_NewEx", ctypes.pythonapi))
        self.call: Callable[..., Any] = new(ctypes.addressof(self._method), None, None)


class BareEntry:
    """A compiled function that Python calls, always with arguments of the same types; loaded without Numba.

    - ``function``: the function; see `hdrl.compiled.jit.entry_in`.
    - ``usual``: the same, compiled and cached by Numba's own means.
    - ``compiled``: returns the machine code of a function for some arguments.
    - ``text``: what is said before it is compiled.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        folder: Path,
        usual: Callable[..., Any],
        compiled: Callable[[Callable[..., Any], tuple[Any, ...]], Code],
        text: str = SIMULATOR,
    ) -> None:
        self._function = function
        self._folder = folder
        self._usual = usual
        self._compiled = compiled
        self._text = text
        self._lock = threading.Lock()
        self._linked: _Linked | None = None
        self._call: Callable[..., Any] | None = None

    def __call__(self, *arguments: Any) -> Any:
        """Call the function with arrays and numbers."""
        call = self._call or self._first_call(arguments)
        try:
            return call(*arguments)
        except RuntimeError as error:
            raise SimulationError(f"{self._function.__qualname__}: {error}") from None

    def _first_call(self, arguments: tuple[Any, ...]) -> Callable[..., Any]:
        """Return the function for all later calls: one for all threads, since relinked code is freed in use."""
        with self._lock:
            if self._call is None:
                self._linked = self._found(arguments)
                self._call = self._usual if self._linked is None else self._linked.call
            return self._call

    def _found(self, arguments: tuple[Any, ...]) -> _Linked | None:
        """Return the code on disk, or else compile it."""
        function = self._function
        facts = repr((made_for(), [_type_of(argument) for argument in arguments]))
        name = f"{function.__module__.rpartition('.')[2]}.{function.__qualname__}"
        path = self._folder / f"{name}-{hashlib.sha256(facts.encode()).hexdigest()[:12]}{BARE_SUFFIX}"
        content = _kept(path)
        if content is not None:
            return _linked(name, content)
        announce_compiling(self._folder, self._text)
        with compiling_alone(path):
            content = _kept(path)  # another process may have compiled it meanwhile
            if content is not None:
                return _linked(name, content)
            content = self._compiled(function, arguments).written()
            linked = _linked(name, content)
            _keep(path, content if linked is not None else b"")
        return linked


def _linked(name: str, content: bytes) -> _Linked | None:
    """Return linked code; ``None`` if it cannot be linked here, for instance because it needs a library of Numba's."""
    if not content:
        return None
    try:
        return _Linked(name, Code.read(content))
    except (RuntimeError, AttributeError) as error:
        _LOG.info("%s is loaded with Numba: %s", name, error)
        return None


def _kept(path: Path) -> bytes | None:
    """Return the code in the cache; ``None`` if there is none."""
    try:
        return read_own(path)
    except OSError:
        return None


def _keep(path: Path, content: bytes) -> None:
    """Write code to the cache; an empty file says that there is none that can be linked."""
    with writing(path.parent), contextlib.suppress(OutputError), atomic_write_bytes(path) as out:
        out.write(content)
