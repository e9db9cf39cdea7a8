"""PyBatsim as an optional dependency: whether it is there, and which schedulers it brings."""

from __future__ import annotations

import importlib.util
import pkgutil
from types import ModuleType

from hdrl.base.errors import MissingExtra

INSTALL = "pip install 'hdrl[pybatsim]' && pip install --no-deps pybatsim==3.2.1"
"""Commands that install it; it requires a pyzmq that newer Pythons cannot build, so pip must ignore that."""

_HELPERS = ("common_pyss_adaptator", "intervalContainer")


class MissingPyBatsim(MissingExtra):
    """PyBatsim is not installed."""

    def __init__(self) -> None:
        super().__init__("PyBatsim 3.2.1", "pybatsim")
        self.msg = f"this needs PyBatsim 3.2.1: {INSTALL}"
        self.args = (self.msg,)


def require_pybatsim() -> ModuleType:
    """Return PyBatsim's module ``batsim.batsim``; raise MissingPyBatsim if it, or what it needs, is not installed."""
    try:
        import batsim.batsim
        import batsim.tools.launcher
    except ImportError:
        raise MissingPyBatsim from None
    module: ModuleType = batsim.batsim
    return module


def scheduler_names() -> list[str]:
    """Return the names of the schedulers that PyBatsim brings; raise MissingPyBatsim if PyBatsim is not installed."""
    require_pybatsim()
    spec = importlib.util.find_spec("schedulers")
    folders = spec.submodule_search_locations if spec is not None else None
    found = pkgutil.iter_modules(folders or [])
    return sorted(module.name for module in found if not module.ispkg and module.name not in _HELPERS)
