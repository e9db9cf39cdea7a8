"""Modules and names under their former names: the same objects, with a DeprecationWarning.

The finder is the last one, so that Python calls it only for missing modules; the one that waits for Gymnasium
(`hdrl.base.gymnasium_ids`) must stand before them, and goes when it is done.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import InspectLoader, Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import CodeType, ModuleType

MOVED = {
    "hdrl.agents.hdeeprm": "hdrl.compat.hdeeprm.bases",
    "hdrl.cores": "hdrl.base.cores",
    "hdrl.csvfiles": "hdrl.base.csvfiles",
    "hdrl.elementary": "hdrl.base.elementary",
    "hdrl.errors": "hdrl.base.errors",
    "hdrl.files": "hdrl.base.files",
    "hdrl.hashing": "hdrl.base.hashing",
    "hdrl.plainnet": "hdrl.base.plainnet",
    "hdrl.platform": "hdrl.batch",
    "hdrl.policies": "hdrl.batch",
    "hdrl.predict": "hdrl.batch",
    "hdrl.pybatsim": "hdrl.batsim.pybatsim",
    "hdrl.pyfiles": "hdrl.base.pyfiles",
    "hdrl.registry": "hdrl.base.registry",
    "hdrl.rowspace": "hdrl.base.rowspace",
    "hdrl.seeding": "hdrl.base.seeding",
    "hdrl.simulation": "hdrl.batch",
    "hdrl.textnumbers": "hdrl.base.textnumbers",
    "hdrl.windows": "hdrl.base.windows",
    "hdrl.workload": "hdrl.batch",
}
"""Former names of public modules, and where they are now."""

_FINDINGS = "hdrl.experiments.findings"

MOVED_NAMES = {
    "hdrl": {"Trace": "hdrl.BatchTrace"},
    "hdrl.adaptation": {"Job": "hdrl.adaptation.AdaptingJob", "Model": "hdrl.adaptation.DnnModel"},
    "hdrl.batch": {"Trace": "hdrl.batch.BatchTrace"},
    "hdrl.gpu": {"Cluster": "hdrl.gpu.GpuCluster"},
    "hdrl.pipelines": {
        "Model": "hdrl.pipelines.PipelineModel",
        "Start": "hdrl.pipelines.KernelStart",
        "View": "hdrl.pipelines.DispatchView",
    },
    "hdrl.setting": {
        **{
            name: f"{_FINDINGS}.{name}"
            for name in ("Finding", "Place", "Playable", "ReproduceProtocol", "Results", "without_models")
        },
        "View": "hdrl.setting.RunView",
    },
    "hdrl.settings.pipelines.simulation.view": {"Start": "hdrl.pipelines.KernelStart"},
    "hdrl.testing": {"Job": "hdrl.testing.JobSpec"},
}
"""Public names by the module that had them, each with its name of today."""


def install_former_names() -> None:
    """Let imports find what has moved."""
    sys.meta_path.append(_Finder())


def load(name: str, stacklevel: int) -> ModuleType:
    """Load a module under its former name, and warn."""
    _warn(name, stacklevel + 1)
    return sys.modules.setdefault(name, import_module(MOVED[name]))


def load_moved(module: str, name: str, stacklevel: int = 1) -> object:
    """Resolve a former name of a module, and warn: a module's ``__getattr__`` calls it."""
    today = MOVED_NAMES.get(module, {}).get(name)
    if today is None:
        raise AttributeError(f"module {module!r} has no attribute {name!r}")
    warnings.warn(f"{module}.{name} is now {today}", DeprecationWarning, stacklevel=stacklevel + 2)
    home, _, current = today.rpartition(".")
    return getattr(import_module(home), current)


def _warn(name: str, stacklevel: int) -> None:
    warnings.warn(f"{name} is now {MOVED[name]}", DeprecationWarning, stacklevel=stacklevel + 1)


class _Finder(MetaPathFinder):
    """Finds former names."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return a spec that leads to the module of today; nothing for other names."""
        del path, target
        if fullname not in MOVED:
            return None
        _warn(fullname, 2)
        return ModuleSpec(fullname, _Loader(MOVED[fullname]))


class _Loader(Loader):
    """Hands out a module that has another name."""

    def __init__(self, name: str) -> None:
        self._name = name

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """Load the module of today, which is the module of the former name, too."""
        del spec
        module = import_module(self._name)
        self._own = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Give the module back what says where it is from."""
        module.__spec__ = self._own

    def get_code(self, name: str) -> CodeType | None:
        """Return the code of a package for ``python -m``."""
        del name
        spec = find_spec(f"{self._name}.__main__")
        return spec.loader.get_code(spec.name) if spec is not None and isinstance(spec.loader, InspectLoader) else None
