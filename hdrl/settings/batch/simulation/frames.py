"""A Trace as columns and as data frames of pandas or polars."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hdrl.base.errors import MissingExtra, UnknownName
from hdrl.metrics.formulas import bounded_slowdown, per_processor_slowdown, slowdown
from hdrl.settings.batch.simulation.hosts import hosts_arrays
from hdrl.settings.batch.simulation.texts import allocation_texts, interval_texts, text_array
from hdrl.settings.batch.simulation.trace import JobState
from hdrl.settings.batch.workload.model import JOB_DTYPE

if TYPE_CHECKING:
    from hdrl.settings.batch.simulation.trace import BatchTrace

LIBRARIES = ("pandas", "polars")
"""Libraries that `trace_frame` knows."""

_INDEX_FIELDS = frozenset({"profile", "source"})


def jobs_arrays(trace: BatchTrace) -> dict[str, NDArray[Any]]:
    """Return a row per job of the workload, in its order, as an array per column.

    Returns
    -------
    dict[str, NDArray]
        ``job_id``, ``source``, ``profile`` (texts); the other fields of `workload.model.JOB_DTYPE`; ``state``
        (name of a `JobState`); ``start_s``, ``run_s``, ``end_s``, ``wait_s``, ``turnaround_s``, ``slowdown``,
        ``bounded_slowdown``, ``per_processor_slowdown``, ``energy_j``; ``return_code``;
        ``n_cores_used`` and ``allocation`` (``"0-3 8"``). NaN where a number does not exist: no walltime, never
        started, never ended, no energy.
    """
    workload, records = trace.workload, trace.records
    jobs = workload.jobs
    columns: dict[str, NDArray[Any]] = {
        "job_id": text_array(workload.job_ids),
        "source": text_array(workload.sources)[jobs["source"]],
        "profile": text_array(workload.profile_names)[jobs["profile"]],
    }
    columns |= {name: jobs[name].copy() for name in JOB_DTYPE.names or () if name not in _INDEX_FIELDS}
    has_started, has_ended = records["start_s"] >= 0, records["run_s"] >= 0
    start_s = np.where(has_started, records["start_s"], np.nan)
    run_s = np.where(has_started & has_ended, records["run_s"], np.nan)
    wait_s = start_s - jobs["submit_s"]
    columns["walltime_s"] = np.where(jobs["walltime_s"] >= 0, jobs["walltime_s"], np.nan)
    columns |= {
        "state": text_array([state.name for state in JobState])[records["state"]],
        "start_s": start_s,
        "run_s": run_s,
        "end_s": start_s + run_s,
        "wait_s": wait_s,
        "turnaround_s": wait_s + run_s,
        "slowdown": slowdown(wait_s, run_s),
        "bounded_slowdown": bounded_slowdown(wait_s, run_s),
        "per_processor_slowdown": per_processor_slowdown(wait_s, run_s, np.maximum(records["n_cores"], 1)),
        "energy_j": np.where(records["energy_j"] >= 0, records["energy_j"], np.nan),
        "return_code": records["return_code"].copy(),
        "n_cores_used": records["n_cores"].copy(),
        "allocation": text_array(allocation_texts(trace)),
    }
    return columns


def table_arrays(trace: BatchTrace, table: str) -> dict[str, NDArray[Any]]:
    """Return one of the tables of a trace as an array per column.

    Parameters
    ----------
    table
        One of `TABLES`: ``"jobs"``, see `jobs_arrays`; ``"hosts"``, see `hosts.hosts_arrays`;
        ``"machine_states"``, ``"pstate_changes"`` and ``"energy"``, the rows of `simulation.trace`, the cores of
        P-state changes as ``allocation`` (``"0-3 8"``); or
        ``"over_utilization"``, a row per shortage or span with ``kind`` (``"core"``, ``"memory"`` or ``"bandwidth"``),
        ``time_s``, ``processor`` (-1 where it is not one) and ``duration_s`` (0 for a shortage, NaN for a span that
        was still open at the end).

    Raises
    ------
    UnknownName
        If there is no such table.
    """
    if table not in TABLES:
        raise UnknownName("table of a trace", table, TABLES)
    return TABLES[table](trace)


def _copied(rows: NDArray[np.void], *names: str) -> dict[str, NDArray[Any]]:
    return {name: rows[name].copy() for name in names or rows.dtype.names or ()}


def _pstate_changes(trace: BatchTrace) -> dict[str, NDArray[Any]]:
    changes = trace.pstate_changes
    return {
        **_copied(changes, "time_s", "pstate", "n_cores"),
        "allocation": text_array(interval_texts(trace.pstate_cores, changes["first_core"], changes["n_cores"])),
    }


def _energy(trace: BatchTrace) -> dict[str, NDArray[Any]]:
    log = trace.energy
    return {
        **_copied(log, "time_s", "energy_j"),
        "event": text_array(log["event"].astype("U1").tolist()),
        **_copied(log, "epsilon_w"),
    }


def _over_utilization(trace: BatchTrace) -> dict[str, NDArray[Any]]:
    log = trace.overutilization
    n_core, n_memory, n_spans = len(log.core_s), len(log.memory_s), len(log.bandwidth_start_s)
    n_shortages = n_core + n_memory
    duration_s = np.where(log.bandwidth_duration_s >= 0, log.bandwidth_duration_s, np.nan)
    return {
        "kind": text_array(["core"] * n_core + ["memory"] * n_memory + ["bandwidth"] * n_spans),
        "time_s": np.concatenate((log.core_s, log.memory_s, log.bandwidth_start_s)),
        "processor": np.concatenate((np.full(n_shortages, -1), log.bandwidth_processor)).astype(np.int32),
        "duration_s": np.concatenate((np.zeros(n_shortages), duration_s)),
    }


TABLES: dict[str, Callable[[BatchTrace], dict[str, NDArray[Any]]]] = {
    "jobs": jobs_arrays,
    "hosts": hosts_arrays,
    "machine_states": lambda trace: _copied(trace.machine_states),
    "pstate_changes": _pstate_changes,
    "energy": _energy,
    "over_utilization": _over_utilization,
}
"""The tables of a trace by name."""


def trace_frame(trace: BatchTrace, table: str = "jobs", library: str = "pandas") -> Any:
    """Return a table of a trace as a data frame.

    Returns
    -------
    pandas.DataFrame or polars.DataFrame
        The columns of `table_arrays`.

    Raises
    ------
    UnknownName
        If there is no such table, or the library is not one of `LIBRARIES`.
    MissingExtra
        If it is not installed.
    """
    if library not in LIBRARIES:
        raise UnknownName("data frame library", library, LIBRARIES)
    arrays = table_arrays(trace, table)
    try:
        module = importlib.import_module(library)
    except ImportError:
        raise MissingExtra(library, "frames") from None
    columns: dict[str, Any] = dict(arrays)
    if library == "polars":  # takes arrays of objects for opaque, lists of str for text
        columns = {name: list(values) if values.dtype == object else values for name, values in columns.items()}
    return module.DataFrame(columns)


def jobs_frame(trace: BatchTrace, library: str = "pandas") -> Any:
    """Return the columns of `jobs_arrays` as a data frame.

    Returns
    -------
    pandas.DataFrame or polars.DataFrame
        A row per job.

    Raises
    ------
    UnknownName
        If the library is not one of `LIBRARIES`.
    MissingExtra
        If it is not installed.
    """
    return trace_frame(trace, "jobs", library)
