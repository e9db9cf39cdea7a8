"""Public names of jobs that adapt: devices, models, tables, loads, policies, simulations.

Scripts and policy files import them from here; each is loaded when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hdrl.base.lazy import load_name

if TYPE_CHECKING:
    from hdrl.settings.adaptation.inputs import find_tables, shipped_tables
    from hdrl.settings.adaptation.load import Jobs, jobs_of, poisson_jobs
    from hdrl.settings.adaptation.machine import Device, read_device
    from hdrl.settings.adaptation.metrics import compute_metrics
    from hdrl.settings.adaptation.models import Layer, Model, find_model, model_of
    from hdrl.settings.adaptation.policies import make_advisor, read_policy
    from hdrl.settings.adaptation.simulation import Advisor, Job, simulate
    from hdrl.settings.adaptation.table import Table, read_table

_HOMES = {
    "hdrl.settings.adaptation.inputs": (
        "find_tables",
        "shipped_tables",
    ),
    "hdrl.settings.adaptation.load": (
        "Jobs",
        "jobs_of",
        "poisson_jobs",
    ),
    "hdrl.settings.adaptation.machine": (
        "Device",
        "read_device",
    ),
    "hdrl.settings.adaptation.metrics": ("compute_metrics",),
    "hdrl.settings.adaptation.models": (
        "Layer",
        "Model",
        "find_model",
        "model_of",
    ),
    "hdrl.settings.adaptation.policies": (
        "make_advisor",
        "read_policy",
    ),
    "hdrl.settings.adaptation.simulation": (
        "Advisor",
        "Job",
        "simulate",
    ),
    "hdrl.settings.adaptation.table": (
        "Table",
        "read_table",
    ),
}

__all__ = [
    "Advisor",
    "Device",
    "Job",
    "Jobs",
    "Layer",
    "Model",
    "Table",
    "compute_metrics",
    "find_model",
    "find_tables",
    "jobs_of",
    "make_advisor",
    "model_of",
    "poisson_jobs",
    "read_device",
    "read_policy",
    "read_table",
    "shipped_tables",
    "simulate",
]


def __getattr__(name: str) -> Any:
    """Load a public name from where it lives."""
    return load_name(__name__, _HOMES, name)
