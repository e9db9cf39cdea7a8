"""Optimisers that do not load torch's compiler.

Every step of an optimiser calls `torch._dynamo`, where compiled code has to be interrupted, and so loads it: 0.9 s of
processor time, more than a quarter of a short training, although nothing is compiled. So something stands in for it
that records these calls, and makes room as soon as anything else is wanted of it. Where a step of this
torch's optimisers wants more than it has, or does something else, it is withdrawn; to try that takes 0.1 ms.
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
    """Replacement of the compiler that optimisers import."""

    def __init__(self) -> None:
        super().__init__(_COMPILER, "Stands in for torch's compiler until it is needed.")
        self._not_compiled: list[Any] = []

    def graph_break(self, *_: object) -> None:
        """Do nothing: there is no compiled code to interrupt."""

    def disable(self, function: Callable[..., Any] | None = None, *arguments: Any, **named: Any) -> Any:
        """Return a function that is not to be compiled, for torch to keep until there is a compiler."""
        if function is None or named != {"wrapping": False}:  # not torch itself
            return self._compiler().disable(function, *arguments, **named)
        self._not_compiled.append(function)
        return function

    def withdraw(self) -> None:
        """Make room for the compiler."""
        if sys.modules.get(_COMPILER) is self:
            del sys.modules[_COMPILER]
            for function in self._not_compiled:
                vars(function).pop("__dynamo_disable", None)  # where torch keeps it
            if vars(torch).get("_dynamo") is self:
                del torch._dynamo  # noqa: SLF001 - torch finds it anew

    def _compiler(self) -> ModuleType:
        self.withdraw()
        return importlib.import_module(_COMPILER)

    def __getattr__(self, name: str) -> Any:
        """Return anything else from the compiler."""
        if name.startswith("__") and name != "__path__":  # a scan of all modules must not load it
            raise AttributeError(name)
        return getattr(self._compiler(), name)


def spare_compiler() -> None:
    """Let optimisers do without the compiler, unless it is there, or this torch's optimisers ask for more of it."""
    if _COMPILER in sys.modules:
        return
    stand_in = _StandIn()
    sys.modules[_COMPILER] = torch._dynamo = stand_in  # noqa: SLF001 - where optimisers look for it
    if not _is_enough(stand_in):
        stand_in.withdraw()


def _is_enough(stand_in: ModuleType) -> bool:
    """Return whether a step of an optimiser is as always, and leaves the compiler alone."""
    number = torch.zeros(1, requires_grad=True)
    number.grad = torch.ones(1)
    try:
        torch.optim.SGD([number], lr=1.0).step()
    except Exception:  # noqa: BLE001 - whatever another version makes of it
        return False
    return number.item() == -1.0 and sys.modules.get(_COMPILER) is stand_in
