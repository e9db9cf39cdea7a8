"""Compiling what Python calls: with all its parts (`hdrl.compiled.fast.parts`), if this Numba is as they need it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numba
from numba.core import types
from numba.core.caching import FunctionCache, IndexDataCacheFile
from numba.core.compiler_lock import global_compiler_lock
from numba.core.registry import cpu_target
from numba.core.runtime import rtsys
from numba.core.types.containers import BaseTuple
from numba.core.types.misc import unliteral

from hdrl.compiled.bare import Code, kind_of
from hdrl.compiled.cache import announce_compiling
from hdrl.compiled.fast.calls import RETURNED, BareCall
from hdrl.compiled.fast.known import check
from hdrl.compiled.fast.parts import PART, Whole
from hdrl.compiled.intact import writing

_NUMBERS = {"bool": types.boolean, "int": types.int64, "float": types.float64}


@global_compiler_lock  # type: ignore[untyped-decorator]
def bare_code(function: Any, arguments: tuple[Any, ...], options: dict[str, Any]) -> Code:
    """Return the machine code of what Python calls (`hdrl.compiled.fast.calls`), with the function and all its parts.

    Parameters
    ----------
    options
        Arguments of ``numba.njit`` for all functions.

    Raises
    ------
    TypeError
        If it returns anything but numbers of 64 bits.
    """
    # Two threads may get here for two functions. Numba itself takes the lock only around parts of this, and what it
    # loads before that breaks in two threads at once ("generator already executing").
    check()
    dispatcher = numba.njit(**options, **PART)(function)
    takes = tuple(_NUMBERS.get(kind_of(one)) or numba.typeof(one) for one in arguments)
    dispatcher.compile(takes)
    compiled = dispatcher.overloads[takes]
    returned = compiled.signature.return_type
    results = returned if isinstance(returned, BaseTuple) else [] if returned == types.none else [returned]
    if not {*map(unliteral, results)} <= RETURNED.keys():
        raise TypeError(f"{function.__qualname__} returns {returned}, expected numbers of 64 bits")
    context = cpu_target.target_context
    whole = Whole(context.codegen(), "bare")
    whole.enable_object_caching()
    module = whole.create_ir_module("bare")
    symbol = f"bare.{compiled.fndesc.llvm_func_name}"
    BareCall(context, module, symbol, compiled).build()
    whole.add_ir_module(module)
    whole.add_linking_library(compiled.library)
    whole.finalize()
    return Code(symbol, whole._compiled_object)  # noqa: SLF001 - what is cached


class EntryCache(FunctionCache):  # type: ignore[misc]
    """Numba's cache, in a folder that is named after the sources.

    So neither the path nor the date of the file of the function counts: every installation with the same sources finds
    what another has compiled. And it looks into the folder before it loads all that Numba knows how to compile, SciPy
    included, which would take a quarter of the time of a short simulation; who compiles loads it anyway.

    ``text``: what is said before it takes long to compile.
    """

    def __init__(self, function: Any, folder: Path, text: str) -> None:
        super().__init__(function)
        self._folder = folder
        self._text = text
        self._cache_path = str(folder)
        self._cache_file = IndexDataCacheFile(self._cache_path, self._impl.filename_base, "named after the sources")

    def load_overload(self, signature: Any, target_context: Any) -> Any:
        """Return compiled code, or ``None`` if there is none."""
        rtsys.initialize(target_context)
        found = None
        with self._guard_against_spurious_io_errors():
            found = self._load_overload(signature, target_context)
        if found is None:
            announce_compiling(self._folder, self._text)
            check()
        return found

    def save_overload(self, signature: Any, compiled: Any) -> None:
        """Keep compiled code, and its checksum."""
        with writing(self._folder):
            super().save_overload(signature, compiled)
