"""Loading compiled code without the compiler.

Numba takes longer to load than a short simulation takes: a quarter of a classic run on 10,000 jobs (0.18 of 0.75 s of
processor time). So what such a run calls is kept as bare machine code, which llvmlite, the library beneath Numba, links
in some milliseconds. Bare code knows nothing of Python: it takes the address of the places of a state
(`hdrl.compiled.lend`) and numbers, and returns numbers.

Code is only loaded where it was made: for this processor, by these versions of Numba and llvmlite, with the same
settings of Numba. Where bare code is not tried (not on Linux, not in the fast way), or cannot be linked, the entry is
compiled and cached as all others are.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import logging
import os
import sys
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args, get_type_hints

from hdrl.compiled.cache import CHOSEN_VARIABLE, announce_compiling
from hdrl.compiled.intact import BARE_SUFFIX, writing
from hdrl.compiled.ways import IS_FAST, NUMBA_VERSION
from hdrl.errors import OutputError, SimulationError
from hdrl.files import atomic_write_bytes

if TYPE_CHECKING:
    from hdrl.compiled.lend import Lent

_LOG = logging.getLogger(__name__)

IS_TRIED = IS_FAST and sys.platform == "linux"
"""Whether bare code is loaded at all; it has been tried nowhere else."""

_C_TYPES: dict[type, Any] = {int: ctypes.c_int64, float: ctypes.c_double}

_RETURNED = (0, -2)
"""What compiled code says when it has returned something, or nothing; all else is an error."""


@dataclass(frozen=True)
class Signature:
    """What a bare function takes besides the places, and what it returns.

    Parameters
    ----------
    numbers, results
        ``int`` or ``float`` for each number.
    is_tuple
        Whether the results are a tuple.
    """

    numbers: tuple[type, ...]
    results: tuple[type, ...]
    is_tuple: bool

    @classmethod
    def of(cls, function: Callable[..., Any]) -> Signature:
        """Return what the annotations of a function say.

        Parameters
        ----------
        function
            The function; its first parameter is that of the places.

        Raises
        ------
        TypeError
            If they name anything but whole and real numbers.
        """
        hints = get_type_hints(function)
        returned = hints.pop("return", type(None))
        numbers = tuple(hints.values())[1:]
        results = get_args(returned) if get_args(returned) else () if returned is type(None) else (returned,)
        if not {*numbers, *results} <= _C_TYPES.keys():
            raise TypeError(f"{function.__qualname__} takes or returns more than whole and real numbers")
        return cls(numbers, results, bool(get_args(returned)))


@dataclass(frozen=True)
class Code:
    """Machine code of a bare function.

    Parameters
    ----------
    symbol
        What the function is called in it.
    machine
        An object file.
    """

    symbol: str
    machine: bytes

    def written(self) -> bytes:
        """Return it as it is kept in a file."""
        return self.symbol.encode() + b"\n" + self.machine

    @classmethod
    def read(cls, content: bytes) -> Code:
        """Return what a file holds.

        Parameters
        ----------
        content
            The file's.
        """
        symbol, _, machine = content.partition(b"\n")
        return cls(symbol.decode(), machine)


@cache
def _linker() -> Any:
    from llvmlite import binding

    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    return binding.create_lljit_compiler()


@cache
def made_for() -> str:
    """Return a hash of what machine code depends on besides its sources."""
    import llvmlite
    from llvmlite import binding

    settings = sorted(
        (name, value) for name, value in os.environ.items() if name.startswith("NUMBA_") and name != CHOSEN_VARIABLE
    )
    processor = binding.get_host_cpu_name(), binding.get_host_cpu_features().flatten()
    facts = NUMBA_VERSION, llvmlite.__version__, *processor, settings
    return hashlib.sha256(repr(facts).encode()).hexdigest()[:12]


class _Linked:
    """Machine code, ready to be called; it stays in memory as long as this does."""

    def __init__(self, name: str, code: Code, signature: Signature) -> None:
        from llvmlite import binding

        builder = binding.JITLibraryBuilder().add_object_img(code.machine).add_current_process()
        self._owner = builder.export_symbol(code.symbol).link(_linker(), f"{name}-{uuid.uuid4()}")
        takes = [_C_TYPES[kind] for kind in signature.numbers]
        kind = ctypes.CFUNCTYPE(ctypes.c_int32, *3 * [ctypes.c_void_p], *takes)
        self._function = kind(self._owner[code.symbol])
        self._name = name
        names = [f"f{place}" for place in range(len(signature.results))]
        fields = [(name, _C_TYPES[kind]) for name, kind in zip(names, signature.results, strict=True)]
        self._result = type("Result", (ctypes.Structure,), {"_fields_": fields or [("unused", ctypes.c_int64)]})
        self._values: Callable[[Any], Any] = attrgetter(*names) if names else _nothing
        if signature.is_tuple and len(names) == 1:
            raise TypeError(f"{name} returns a tuple of one")

    def __call__(self, lent: Lent[Any], *numbers: float) -> Any:
        result, error = self._result(), ctypes.c_void_p()
        status = self._function(ctypes.byref(result), ctypes.byref(error), lent.address, *numbers)
        if status not in _RETURNED:
            raise SimulationError(f"{self._name}: compiled code stopped with status {status}")
        return self._values(result)


def _nothing(result: object) -> None:
    del result


class BareEntry:
    """A compiled function that Python calls, loaded without Numba where that is possible.

    Parameters
    ----------
    function
        The function; see `hdrl.compiled.jit.bare_entry_in`.
    folder
        The folder of the cache.
    usual
        The same as all other entries are compiled.
    compiled
        Returns the machine code of a bare function.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        folder: Path,
        usual: Callable[..., Any],
        compiled: Callable[[Callable[..., Any], Signature], Code],
    ) -> None:
        self._function = function
        self._folder = folder
        self._usual = usual
        self._compiled = compiled
        self._linked: Callable[..., Any] | None = None

    def __call__(self, lent: Lent[Any], *numbers: float) -> Any:
        """Call the function with arrays and numbers."""
        if self._linked is None:
            self._linked = self._found() if IS_TRIED else self._by_places
        return self._linked(lent, *numbers)

    def _by_places(self, lent: Lent[Any], *numbers: float) -> Any:
        return self._usual(lent.places, *numbers)

    def _found(self) -> Callable[..., Any]:
        """Return the code on disk, or else compile it."""
        function = self._function
        name = f"{function.__module__.rpartition('.')[2]}.{function.__qualname__}-{made_for()}"
        path, signature = self._folder / f"{name}{BARE_SUFFIX}", Signature.of(function)
        try:
            content = path.read_bytes()
        except OSError:
            announce_compiling(self._folder)
            content = self._compiled(function, signature).written()
            is_new = True
        else:
            is_new = False
        linked = _linked(name, content, signature)
        if is_new:
            _keep(path, content if linked is not None else b"")
        return self._by_places if linked is None else linked


def _linked(name: str, content: bytes, signature: Signature) -> _Linked | None:
    """Return linked code; ``None`` if it cannot be linked here, for instance because it needs a library of Numba's."""
    if not content:
        return None
    try:
        return _Linked(name, Code.read(content), signature)
    except (RuntimeError, AttributeError) as error:
        _LOG.info("%s is loaded with Numba: %s", name, error)
        return None


def _keep(path: Path, content: bytes) -> None:
    """Write code to the cache; an empty file says that there is none that can be linked."""
    with writing(path.parent), contextlib.suppress(OutputError), atomic_write_bytes(path) as out:
        out.write(content)
