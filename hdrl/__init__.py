"""hdrl finds out whether learned scheduling policies beat the classic ones on a heterogeneous cluster.

The names of this module are what most scripts need; each is loaded when it is first used, so that importing hdrl
costs nothing.

>>> import hdrl
>>> platform = hdrl.read_platform("learning")
>>> workload = hdrl.read_workload("learning", platform, custom=True)
>>> trace = hdrl.simulate(platform, workload, "shortest-high_gflops")
>>> round(hdrl.compute_metrics(trace)["makespan_s"], 2)
6.36
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hdrl.base.checkout import find_checkout_packages
from hdrl.base.gymnasium_ids import register_with_gymnasium
from hdrl.base.lazy import load_name
from hdrl.base.moved import MOVED, install_former_names, load
from hdrl.version import VERSION as __version__

if TYPE_CHECKING:
    from hdrl.settings.batch.metrics import compute_metrics
    from hdrl.settings.batch.platform import Platform, build_platform, read_platform
    from hdrl.settings.batch.policies import policy_names, simulate
    from hdrl.settings.batch.simulation import BatchTrace, EmbeddedSimulator, View
    from hdrl.settings.batch.workload import Workload, check_fits, read_workload

_MODULES = {
    "hdrl.settings.batch.metrics": ("compute_metrics",),
    "hdrl.settings.batch.platform": ("Platform", "build_platform", "read_platform"),
    "hdrl.settings.batch.policies": ("policy_names", "simulate"),
    "hdrl.settings.batch.simulation": ("EmbeddedSimulator", "BatchTrace", "View"),
    "hdrl.settings.batch.workload": ("Workload", "check_fits", "read_workload"),
}

__all__ = [
    "EmbeddedSimulator",
    "Platform",
    "BatchTrace",
    "View",
    "Workload",
    "__version__",
    "build_platform",
    "check_fits",
    "compute_metrics",
    "policy_names",
    "read_platform",
    "read_workload",
    "simulate",
]


def __getattr__(name: str) -> Any:
    """Load a public name from where it lives."""
    if f"hdrl.{name}" in MOVED:
        return load(f"hdrl.{name}", stacklevel=2)
    return load_name(__name__, _MODULES, name)


def __dir__() -> list[str]:
    """Return the public names."""
    return __all__


register_with_gymnasium()
find_checkout_packages()
install_former_names()
