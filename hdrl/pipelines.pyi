"""The public names of `hdrl.pipelines`, and where they live: for type checkers, and for the module itself."""

from hdrl.settings.pipelines.analysis.guarantees import (
    fewest_misses,
    is_dispatch_safe,
    least_misses,
    unavoidable_misses,
)
from hdrl.settings.pipelines.analysis.mapping import Mapping, best_mapping
from hdrl.settings.pipelines.loads.generate import PipelineModel, generate
from hdrl.settings.pipelines.loads.load import PipelineLoad
from hdrl.settings.pipelines.loads.pipeline import (
    NEVER,
    Group,
    Kernel,
    Pipeline,
)
from hdrl.settings.pipelines.loads.readers import (
    PipelineSet,
    read_graph,
    read_set,
    write_set,
)
from hdrl.settings.pipelines.loads.releases import Context, release
from hdrl.settings.pipelines.machine import Units, read_machine, units
from hdrl.settings.pipelines.metrics import compute_metrics
from hdrl.settings.pipelines.simulation.policies import read_policy, simulate
from hdrl.settings.pipelines.simulation.trace import PipelineTrace
from hdrl.settings.pipelines.simulation.view import (
    DispatchView,
    KernelStart,
    ReadyView,
    UnitView,
    simulate_python,
)

__all__ = [
    "Context",
    "Group",
    "Kernel",
    "Mapping",
    "PipelineModel",
    "NEVER",
    "Pipeline",
    "PipelineLoad",
    "PipelineSet",
    "PipelineTrace",
    "ReadyView",
    "KernelStart",
    "UnitView",
    "Units",
    "DispatchView",
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
