"""A Trace as columns and as data frames of pandas or polars."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hdrl.errors import MissingExtra, UnknownName
from hdrl.metrics.formulas import bounded_slowdown, slowdown
from hdrl.simulation.texts import allocation_texts
from hdrl.simulation.trace import JobState
from hdrl.workload.model import JOB_DTYPE

if TYPE_CHECKING:
    from hdrl.simulation.trace import Trace

LIBRARIES = ("pandas", "polars")
"""Libraries that `jobs_frame` knows."""

_INDEX_FIELDS = frozenset({"profile", "source"})


def _objects(texts: tuple[str, ...] | list[str]) -> NDArray[np.object_]:
    # Objects, not fixed-width text: one long allocation would widen every row.
    array = np.empty(len(texts), dtype=object)
    array[:] = texts
    return array


def jobs_arrays(trace: Trace) -> dict[str, NDArray[Any]]:
    """Return a row per job of the workload, in its order, as an array per column.

    Parameters
    ----------
    trace
        What happened.

    Returns
    -------
    dict[str, NDArray]
        ``job_id``, ``source``, ``profile`` (texts); the other fields of `hdrl.workload.model.JOB_DTYPE`; ``state``
        (name of a `JobState`); ``start_s``, ``run_s``, ``end_s``, ``wait_s``, ``turnaround_s``, ``slowdown``,
        ``bounded_slowdown``, ``energy_j``; ``return_code``; ``n_cores_used`` and ``allocation`` (``"0-3 8"``). NaN
        where a number does not exist: no walltime, never started, never ended, no energy.
    """
    workload, records = trace.workload, trace.records
    jobs = workload.jobs
    columns: dict[str, NDArray[Any]] = {
        "job_id": _objects(workload.job_ids),
        "source": _objects(workload.sources)[jobs["source"]],
        "profile": _objects(workload.profile_names)[jobs["profile"]],
    }
    columns |= {name: jobs[name].copy() for name in JOB_DTYPE.names or () if name not in _INDEX_FIELDS}
    has_started, has_ended = records["start_s"] >= 0, records["run_s"] >= 0
    start_s = np.where(has_started, records["start_s"], np.nan)
    run_s = np.where(has_started & has_ended, records["run_s"], np.nan)
    wait_s = start_s - jobs["submit_s"]
    columns["walltime_s"] = np.where(jobs["walltime_s"] >= 0, jobs["walltime_s"], np.nan)
    columns |= {
        "state": _objects([state.name for state in JobState])[records["state"]],
        "start_s": start_s,
        "run_s": run_s,
        "end_s": start_s + run_s,
        "wait_s": wait_s,
        "turnaround_s": wait_s + run_s,
        "slowdown": slowdown(wait_s, run_s),
        "bounded_slowdown": bounded_slowdown(wait_s, run_s),
        "energy_j": np.where(records["energy_j"] >= 0, records["energy_j"], np.nan),
        "return_code": records["return_code"].copy(),
        "n_cores_used": records["n_cores"].copy(),
        "allocation": _objects(allocation_texts(trace)),
    }
    return columns


def jobs_frame(trace: Trace, library: str = "pandas") -> Any:
    """Return the columns of `jobs_arrays` as a data frame.

    Parameters
    ----------
    trace
        What happened.
    library
        One of `LIBRARIES`.

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
    if library not in LIBRARIES:
        raise UnknownName("data frame library", library, LIBRARIES)
    try:
        module = importlib.import_module(library)
    except ImportError:
        raise MissingExtra(library, "frames") from None
    columns: dict[str, Any] = dict(jobs_arrays(trace))
    if library == "polars":  # takes arrays of objects for opaque, lists of str for text
        columns = {name: list(values) if values.dtype == object else values for name, values in columns.items()}
    return module.DataFrame(columns)
