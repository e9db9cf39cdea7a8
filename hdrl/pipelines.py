"""Public names of pipelines: machines, sets, releases, policies, simulations, and what can be said without one.

Scripts and policy files import them from here; each is loaded when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hdrl.base.lazy import load_name

if TYPE_CHECKING:
    from hdrl.settings.pipelines.analysis.guarantees import (
        fewest_misses,
        is_dispatch_safe,
        least_misses,
        unavoidable_misses,
    )
    from hdrl.settings.pipelines.analysis.mapping import Mapping, best_mapping
    from hdrl.settings.pipelines.loads.generate import Model, generate
    from hdrl.settings.pipelines.loads.load import PipelineLoad
    from hdrl.settings.pipelines.loads.pipeline import NEVER, Group, Kernel, Pipeline
    from hdrl.settings.pipelines.loads.readers import PipelineSet, read_graph, read_set, write_set
    from hdrl.settings.pipelines.loads.releases import Context, release
    from hdrl.settings.pipelines.machine import Units, read_machine, units
    from hdrl.settings.pipelines.metrics import compute_metrics
    from hdrl.settings.pipelines.simulation.policies import read_policy, simulate
    from hdrl.settings.pipelines.simulation.trace import PipelineTrace
    from hdrl.settings.pipelines.simulation.view import ReadyView, Start, UnitView, View, simulate_python

_HOMES = {
    "hdrl.settings.pipelines.analysis.guarantees": (
        "fewest_misses",
        "is_dispatch_safe",
        "least_misses",
        "unavoidable_misses",
    ),
    "hdrl.settings.pipelines.analysis.mapping": (
        "Mapping",
        "best_mapping",
    ),
    "hdrl.settings.pipelines.loads.generate": (
        "Model",
        "generate",
    ),
    "hdrl.settings.pipelines.loads.load": ("PipelineLoad",),
    "hdrl.settings.pipelines.loads.pipeline": (
        "Group",
        "Kernel",
        "NEVER",
        "Pipeline",
    ),
    "hdrl.settings.pipelines.loads.readers": (
        "PipelineSet",
        "read_graph",
        "read_set",
        "write_set",
    ),
    "hdrl.settings.pipelines.loads.releases": (
        "Context",
        "release",
    ),
    "hdrl.settings.pipelines.machine": (
        "Units",
        "read_machine",
        "units",
    ),
    "hdrl.settings.pipelines.metrics": ("compute_metrics",),
    "hdrl.settings.pipelines.simulation.policies": (
        "read_policy",
        "simulate",
    ),
    "hdrl.settings.pipelines.simulation.trace": ("PipelineTrace",),
    "hdrl.settings.pipelines.simulation.view": (
        "ReadyView",
        "Start",
        "UnitView",
        "View",
        "simulate_python",
    ),
}

__all__ = [
    "Context",
    "Group",
    "Kernel",
    "Mapping",
    "Model",
    "NEVER",
    "Pipeline",
    "PipelineLoad",
    "PipelineSet",
    "PipelineTrace",
    "ReadyView",
    "Start",
    "UnitView",
    "Units",
    "View",
    "best_mapping",
    "compute_metrics",
    "fewest_misses",
    "generate",
    "is_dispatch_safe",
    "least_misses",
    "read_graph",
    "read_machine",
    "read_policy",
    "read_set",
    "release",
    "simulate",
    "simulate_python",
    "unavoidable_misses",
    "units",
    "write_set",
]


def __getattr__(name: str) -> Any:
    """Load a public name from where it lives."""
    return load_name(__name__, _HOMES, name)
