"""From a Trace to numbers: pure functions, each with its formula and source."""

from hdrl.metrics.catalogue import ENERGY_METRICS, METRICS, MetricInfo, metrics_table
from hdrl.metrics.compute import compute_metrics
from hdrl.metrics.formulas import (
    BOUND_S,
    bounded_slowdown,
    covered_s,
    energy_delay_product,
    ratio,
    slowdown,
    summary,
    turnaround,
    utilization,
)

__all__ = [
    "BOUND_S",
    "ENERGY_METRICS",
    "METRICS",
    "MetricInfo",
    "bounded_slowdown",
    "compute_metrics",
    "covered_s",
    "energy_delay_product",
    "metrics_table",
    "ratio",
    "slowdown",
    "summary",
    "turnaround",
    "utilization",
]
