"""How compiled functions are put together: once, in the entry that Python calls.

Numba makes every inner function complete: it links all that the function calls, optimises that and makes machine code
of it, for the entry to do the same again with everything. But for tests, nothing else than entries calls the kernel's
functions, so that they remain *parts*, which are put together in one *whole*. That compiles more than twice as fast;
and as nothing else can call a part, the compiler may do with it what it likes, which makes faster code.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numba
from numba.core import types
from numba.core.caching import FunctionCache, IndexDataCacheFile
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.compiler_lock import global_compiler_lock
from numba.core.registry import cpu_target
from numba.core.runtime import rtsys
from numba.core.types.containers import BaseTuple
from numba.core.types.misc import unliteral

from hdrl.compiled.bare import Code, kind_of
from hdrl.compiled.cache import announce_compiling
from hdrl.compiled.fast.calls import RETURNED, BareCall
from hdrl.compiled.intact import writing


class _NoEnvironments:
    """Stands where Python objects are handed to machine code: parts have neither."""

    @staticmethod
    def set_env(name: str, environment: Any) -> None:
        """Do nothing."""


class _Part(JITCodeLibrary):  # type: ignore[misc]
    """The code of an inner function, without what it calls."""

    @property
    def codegen(self) -> type[_NoEnvironments]:
        """Who is told of the Python objects of a function: nobody."""
        return _NoEnvironments

    @property
    def module(self) -> Any:
        """The code."""
        return self._final_module

    @property
    def linked(self) -> list[Any]:
        """What the function calls."""
        return self._linking_libraries  # type: ignore[no-any-return]

    def finalize(self) -> None:
        """Leave the code as it is: the whole makes machine code of it."""
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        """Return that there is no machine code."""
        del name
        return 0

    def _get_module_for_linking(self) -> Any:
        """Return the code with all that it calls, for functions that are compiled in Numba's own way (tests do so)."""
        module = self._final_module.clone()
        parts, others = _parts_and_others([self])
        for part in parts:
            if part is not self:
                module.link_in(part.module, preserve=True)
        for other in others:
            module.link_in(other._get_module_for_linking(), preserve=True)  # noqa: SLF001 - what Numba itself calls
        for function in _defined_in(module):
            # Another function may bring the same.
            function.linkage = "linkonce_odr"
        return module


class _Whole(JITCodeLibrary):  # type: ignore[misc]
    """The code of an entry and of all parts that it is made of."""

    def finalize(self) -> None:
        """Put the parts together, and make machine code of them."""
        parts, others = _parts_and_others(self._linking_libraries)
        for part in parts:
            self._final_module.link_in(part.module, preserve=True)
        for part in parts:
            for name in [function.name for function in _defined_in(part.module)]:
                function = self._final_module.get_function(name)
                function.linkage = "internal"
                # Its arguments may be changed: what calls the function of its name elsewhere must not find it.
                function.name = f"{name}.part"
        self._linking_libraries: list[Any] = others
        super().finalize()


def _defined_in(module: Any) -> list[Any]:
    """Return the functions whose code is in a module."""
    return [function for function in module.functions if not function.is_declaration]


def _parts_and_others(linked: list[Any]) -> tuple[list[_Part], list[Any]]:
    """Return the parts among libraries, and among those that they link, however far away; and what is no part."""
    parts: dict[_Part, None] = {}
    others: dict[Any, None] = {}
    to_look_at = list(linked)
    while to_look_at:
        library = to_look_at.pop()
        if not isinstance(library, _Part):
            others[library] = None
        elif library not in parts:
            parts[library] = None
            to_look_at.extend(library.linked)
    return list(parts), list(others)


class PartCompiler(Compiler):  # type: ignore[misc]
    """Compiles an inner function: ``numba.njit(pipeline_class=PartCompiler)``."""

    def __init__(self, typing_context: Any, target_context: Any, library: Any, *arguments: Any) -> None:
        super().__init__(typing_context, target_context, library, *arguments)
        self.state.library = _Part(target_context.codegen(), "part")


class WholeCompiler(Compiler):  # type: ignore[misc]
    """Compiles an entry: ``numba.njit(pipeline_class=WholeCompiler)``."""

    def __init__(self, typing_context: Any, target_context: Any, library: Any, *arguments: Any) -> None:
        super().__init__(typing_context, target_context, library, *arguments)
        self.state.library = _Whole(target_context.codegen(), "whole")
        self.state.library.enable_object_caching()  # else nothing could be kept on disk


PART: dict[str, Any] = {
    "no_cpython_wrapper": True,
    "no_cfunc_wrapper": True,
    "_nrt": False,
    "pipeline_class": PartCompiler,
}
"""What is said to ``numba.njit`` of an inner function."""

WHOLE: dict[str, Any] = {"pipeline_class": WholeCompiler}
"""What is said of an entry."""


def _check_numba() -> None:
    """Look whether this Numba is as all of this needs it, before anything is compiled."""
    from hdrl.compiled.fast import known  # which compiles with what is here

    known.check()


_NUMBERS = {"bool": types.boolean, "int": types.int64, "float": types.float64}


def bare_code(function: Any, arguments: tuple[Any, ...], options: dict[str, Any]) -> Code:
    """Return the machine code of what Python calls (`hdrl.compiled.fast.calls`), with the function and all its parts.

    Parameters
    ----------
    options
        What is said to ``numba.njit`` of all functions.

    Raises
    ------
    TypeError
        If it returns anything but numbers of 64 bits.
    """
    _check_numba()
    dispatcher = numba.njit(**options, **PART)(function)
    takes = tuple(_NUMBERS.get(kind_of(one)) or numba.typeof(one) for one in arguments)
    dispatcher.compile(takes)
    compiled = dispatcher.overloads[takes]
    returned = compiled.signature.return_type
    results = returned if isinstance(returned, BaseTuple) else [] if returned == types.none else [returned]
    if not {*map(unliteral, results)} <= RETURNED.keys():
        raise TypeError(f"{function.__qualname__} returns {returned}, expected numbers of 64 bits")
    context = cpu_target.target_context
    whole = _Whole(context.codegen(), "bare")
    whole.enable_object_caching()
    module = whole.create_ir_module("bare")
    symbol = f"bare.{compiled.fndesc.llvm_func_name}"
    BareCall(context, module, symbol, compiled).build()
    whole.add_ir_module(module)
    whole.add_linking_library(compiled.library)
    with global_compiler_lock:
        whole.finalize()
    return Code(symbol, whole._compiled_object)  # noqa: SLF001 - what is cached


class EntryCache(FunctionCache):  # type: ignore[misc]
    """Numba's cache, in a folder that is named after the sources.

    So neither the place nor the date of the file of the function counts: every installation with the same sources finds
    what another has compiled. And it looks into the folder before it loads all that Numba knows how to compile, SciPy
    included, which would take a quarter of the time of a short simulation; who compiles loads it anyway.

    Parameters
    ----------
    text
        What is said before it takes long to compile.
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
            _check_numba()
        return found

    def save_overload(self, signature: Any, compiled: Any) -> None:
        """Keep compiled code, and its checksum."""
        with writing(self._folder):
            super().save_overload(signature, compiled)
