"""The public names of `hdrl.adaptation`, and where they live: for type checkers, and for the module itself."""

from hdrl.settings.adaptation.inputs import find_tables, shipped_tables
from hdrl.settings.adaptation.load import Jobs, jobs_of, poisson_jobs
from hdrl.settings.adaptation.machine import Device, read_device
from hdrl.settings.adaptation.metrics import compute_metrics
from hdrl.settings.adaptation.models import (
    DnnModel,
    Layer,
    find_model,
    model_of,
)
from hdrl.settings.adaptation.policies import make_advisor, read_policy
from hdrl.settings.adaptation.simulation import AdaptingJob, Advisor, simulate
from hdrl.settings.adaptation.table import Table, read_table

__all__ = [
    "Advisor",
    "Device",
    "AdaptingJob",
    "Jobs",
    "Layer",
    "DnnModel",
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
