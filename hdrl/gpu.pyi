"""The public names of `hdrl.gpu`, and where they live: for type checkers, and for the module itself."""

from hdrl.settings.gpu.bounds import jct_bound_s
from hdrl.settings.gpu.cluster.machine import (
    NODE_DTYPE,
    GpuCluster,
    GpuType,
    read_cluster,
    shipped_clusters,
)
from hdrl.settings.gpu.cluster.throughputs import Throughputs, read_throughputs
from hdrl.settings.gpu.loads.gavel_jobs import gavel_load
from hdrl.settings.gpu.loads.load import JOB_DTYPE, GpuLoad, new_jobs
from hdrl.settings.gpu.loads.readers import read_trace
from hdrl.settings.gpu.loads.synthetic import (
    Poisson,
    at_offered_load,
    poisson_load,
)
from hdrl.settings.gpu.loads.values import JobValues, ValueTable, read_values
from hdrl.settings.gpu.metrics import compute_metrics
from hdrl.settings.gpu.policies.names import Policy, policy_names, read_policy
from hdrl.settings.gpu.policies.rules import Rules
from hdrl.settings.gpu.simulation.events import simulate
from hdrl.settings.gpu.simulation.fragmentation import arrivals, fill
from hdrl.settings.gpu.simulation.rounds import simulate_rounds

__all__ = [
    "GpuCluster",
    "GpuLoad",
    "GpuType",
    "JOB_DTYPE",
    "JobValues",
    "NODE_DTYPE",
    "Poisson",
    "Policy",
    "Rules",
    "Throughputs",
    "ValueTable",
    "arrivals",
    "at_offered_load",
    "compute_metrics",
    "fill",
    "gavel_load",
    "jct_bound_s",
    "new_jobs",
    "poisson_load",
    "policy_names",
    "read_cluster",
    "read_policy",
    "read_throughputs",
    "read_trace",
    "read_values",
    "shipped_clusters",
    "simulate",
    "simulate_rounds",
]
