"""Workloads: the jobs of a simulation, and where they come from."""

from hdrl.settings.batch.workload.archive import ArchiveLog, FetchedLog, archive_logs, copy_log, fetch_folder, fetch_log
from hdrl.settings.batch.workload.batsim5 import write_batsim5_json
from hdrl.settings.batch.workload.batsim_description import describe_for_batsim, write_batsim_json
from hdrl.settings.batch.workload.batsim_json import merge, read_batsim_json, read_custom_workload
from hdrl.settings.batch.workload.estimates import tsafrir_estimates
from hdrl.settings.batch.workload.fit import check_fits, fits, max_cores
from hdrl.settings.batch.workload.hdeeprm import hdeeprm_workload
from hdrl.settings.batch.workload.lublin import lublin_log, lublin_workload
from hdrl.settings.batch.workload.model import JOB_DTYPE, NO_WALLTIME, STEP_DTYPE, UNKNOWN, StepKind, Workload
from hdrl.settings.batch.workload.models import BANDWIDTH_MODELS, ESTIMATE_MODELS, MEMORY_MODELS, RUN_TIME_MODELS
from hdrl.settings.batch.workload.read import file_format, find_workload, read_workload, shipped_workloads
from hdrl.settings.batch.workload.statistics import (
    Distribution,
    WorkloadStatistics,
    offered_load,
    reference_run_times,
    workload_statistics,
)
from hdrl.settings.batch.workload.swf import SwfLog, read_swf, unknown_rows, write_swf
from hdrl.settings.batch.workload.swf_jobs import swf_from_workload, workload_from_swf

__all__ = [
    "BANDWIDTH_MODELS",
    "ESTIMATE_MODELS",
    "JOB_DTYPE",
    "MEMORY_MODELS",
    "NO_WALLTIME",
    "RUN_TIME_MODELS",
    "STEP_DTYPE",
    "UNKNOWN",
    "ArchiveLog",
    "Distribution",
    "FetchedLog",
    "StepKind",
    "SwfLog",
    "Workload",
    "WorkloadStatistics",
    "archive_logs",
    "check_fits",
    "copy_log",
    "describe_for_batsim",
    "fetch_folder",
    "fetch_log",
    "file_format",
    "find_workload",
    "fits",
    "hdeeprm_workload",
    "lublin_log",
    "lublin_workload",
    "max_cores",
    "merge",
    "offered_load",
    "read_batsim_json",
    "read_custom_workload",
    "read_swf",
    "read_workload",
    "reference_run_times",
    "shipped_workloads",
    "swf_from_workload",
    "tsafrir_estimates",
    "unknown_rows",
    "workload_from_swf",
    "workload_statistics",
    "write_batsim5_json",
    "write_batsim_json",
    "write_swf",
]
