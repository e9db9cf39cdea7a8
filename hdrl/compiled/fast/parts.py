"""Linking of compiled functions: once, in the entry that Python calls.

Numba makes every inner function complete: it links all that the function calls, optimises that and makes machine code
of it, for the entry to do the same again with everything. But for tests, nothing else than entries calls the kernel's
functions, so that they remain *parts*, which are put together in one *whole*. That compiles more than twice as fast;
and as nothing else can call a part, the compiler may do with it what it likes, which makes faster code.
"""

from __future__ import annotations

from typing import Any

from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler


class _NoEnvironments:
    """Stand-in for the objects with which Numba passes Python objects to machine code: parts have none."""

    @staticmethod
    def set_env(name: str, environment: Any) -> None:
        """Do nothing."""


class Part(JITCodeLibrary):  # type: ignore[misc]
    """The code of an inner function, without what it calls."""

    @property
    def codegen(self) -> type[_NoEnvironments]:
        """The class that would register the Python objects of a function; this one does nothing."""
        return _NoEnvironments

    @property
    def module(self) -> Any:
        """The code."""
        return self._final_module

    @property
    def linked(self) -> list[Any]:
        """Libraries of the functions that it calls."""
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


class Whole(JITCodeLibrary):  # type: ignore[misc]
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


def _parts_and_others(linked: list[Any]) -> tuple[list[Part], list[Any]]:
    """Return the parts among libraries, and among those that they link, however far away; and what is no part."""
    parts: dict[Part, None] = {}
    others: dict[Any, None] = {}
    to_look_at = list(linked)
    while to_look_at:
        library = to_look_at.pop()
        if not isinstance(library, Part):
            others[library] = None
        elif library not in parts:
            parts[library] = None
            to_look_at.extend(library.linked)
    return list(parts), list(others)


class PartCompiler(Compiler):  # type: ignore[misc]
    """Compiles an inner function: ``numba.njit(pipeline_class=PartCompiler)``."""

    def __init__(self, typing_context: Any, target_context: Any, library: Any, *arguments: Any) -> None:
        super().__init__(typing_context, target_context, library, *arguments)
        self.state.library = Part(target_context.codegen(), "part")


class WholeCompiler(Compiler):  # type: ignore[misc]
    """Compiles an entry: ``numba.njit(pipeline_class=WholeCompiler)``."""

    def __init__(self, typing_context: Any, target_context: Any, library: Any, *arguments: Any) -> None:
        super().__init__(typing_context, target_context, library, *arguments)
        self.state.library = Whole(target_context.codegen(), "whole")
        self.state.library.enable_object_caching()  # else nothing could be kept on disk


PART: dict[str, Any] = {
    "no_cpython_wrapper": True,
    "no_cfunc_wrapper": True,
    "_nrt": False,
    "pipeline_class": PartCompiler,
}
"""Arguments of ``numba.njit`` for an inner function."""

WHOLE: dict[str, Any] = {"pipeline_class": WholeCompiler}
"""Arguments of ``numba.njit`` for an entry."""
