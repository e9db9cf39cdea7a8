"""Optimisers that do not load torch's compiler.

Every step of an optimiser tells `torch._dynamo` where compiled code has to be interrupted, and so loads it: 0.9 s of
processor time, more than a quarter of a short training, although nothing is compiled. So something stands in for it
that takes note of what it is told, and makes room as soon as anything else is wanted of it.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import torch

_COMPILER = "torch._dynamo"


class _StandIn(ModuleType):
    """What optimisers find in place of the compiler."""

    def __init__(self) -> None:
        super().__init__(_COMPILER, "Stands in for torch's compiler until it is needed.")
        self._not_compiled: list[Any] = []

    def graph_break(self, *_: object) -> None:
        """Interrupt compiled code, of which there is none."""

    def disable(self, function: Callable[..., Any] | None = None, *arguments: Any, **named: Any) -> Any:
        """Return a function that is not to be compiled, for torch to keep until there is a compiler."""
        if function is None or named != {"wrapping": False}:  # not torch itself
            return self._compiler().disable(function, *arguments, **named)
        self._not_compiled.append(function)
        return function

    def _compiler(self) -> ModuleType:
        if sys.modules.get(_COMPILER) is self:
            del sys.modules[_COMPILER]
            for function in self._not_compiled:
                vars(function).pop("__dynamo_disable", None)  # where torch keeps it
        return importlib.import_module(_COMPILER)

    def __getattr__(self, name: str) -> Any:
        """Return anything else from the compiler."""
        if name.startswith("__") and name != "__path__":  # who looks through all modules does not want it
            raise AttributeError(name)
        return getattr(self._compiler(), name)


def spare_compiler() -> None:
    """Let optimisers do without the compiler, unless it is there."""
    if _COMPILER not in sys.modules:
        sys.modules[_COMPILER] = torch._dynamo = _StandIn()  # noqa: SLF001 - where optimisers look for it
