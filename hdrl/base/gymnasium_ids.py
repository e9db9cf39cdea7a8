"""Registering hdrl's environments with Gymnasium when both are loaded, in whichever order.

``import hdrl`` loads nothing heavy, so that it does not load Gymnasium, either; Gymnasium has no entry points for
environments.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType

_REGISTERS = "hdrl.envs"


def register_with_gymnasium() -> None:
    """Register the environments now if Gymnasium is loaded, else as soon as it is."""
    if "gymnasium" in sys.modules:
        import_module(_REGISTERS)
    else:
        sys.meta_path.insert(0, _Finder())


class _Finder(MetaPathFinder):
    """Waits for the import of Gymnasium."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return Gymnasium's own spec, whose loader also registers; nothing for other modules."""
        del path, target
        if fullname != "gymnasium":
            return None
        sys.meta_path.remove(self)
        spec = find_spec(fullname)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader)
        return spec


class _Loader(Loader):
    """Loads as another loader does, and registers hdrl's environments afterwards."""

    def __init__(self, own: Loader) -> None:
        self._own = own

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """Create the module as its own loader does."""
        return self._own.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        """Load the module, give it its own loader back, and register."""
        self._own.exec_module(module)
        if module.__spec__ is not None:
            module.__spec__.loader = self._own
        module.__loader__ = self._own
        import_module(_REGISTERS)
