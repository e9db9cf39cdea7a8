"""From a Trace to numbers: pure functions, each with its formula and source, and the statistics of comparisons."""

from hdrl.metrics.catalogue import MetricInfo, metrics_table, with_roles
from hdrl.metrics.formulas import (
    BOUND_S,
    bounded_slowdown,
    covered_s,
    energy_delay_product,
    per_processor_slowdown,
    ratio,
    slowdown,
    summary,
    turnaround,
    utilization,
)
from hdrl.metrics.tasks import TASK_METRICS, UNRUN, task_metrics

__all__ = [
    "BOUND_S",
    "MetricInfo",
    "TASK_METRICS",
    "UNRUN",
    "bounded_slowdown",
    "covered_s",
    "energy_delay_product",
    "metrics_table",
    "per_processor_slowdown",
    "ratio",
    "slowdown",
    "summary",
    "task_metrics",
    "turnaround",
    "utilization",
    "with_roles",
]
