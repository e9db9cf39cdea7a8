"""A schedule in the Standard Workload Format: the jobs with the waits and run times that they had."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from hdrl.base.errors import WorkloadError
from hdrl.settings.batch.workload.swf import UNKNOWN_VALUE, SwfLog, unknown_rows

FloatArray = NDArray[np.float64]

COMPLETED, FAILED, CANCELLED = 1, 0, 5

SWF_STATUS = {
    "COMPLETED_SUCCESSFULLY": COMPLETED,
    "COMPLETED_FAILED": FAILED,
    "COMPLETED_WALLTIME_REACHED": FAILED,
    "COMPLETED_KILLED": CANCELLED,
    "REJECTED": CANCELLED,
}
"""Status in the log of each final state of a job; of a job that has none it is -1. What a limit or an error of its own
stopped failed; what the scheduler stopped or refused was cancelled."""

_FROM_LOG = ("requested_s", "requested_memory_kb", "user", "group", "executable", "queue", "partition")


def schedule_log(
    name: str,
    job_ids: Sequence[str],
    times_s: Mapping[str, FloatArray],
    cores: Mapping[str, NDArray[np.int64]],
    states: Sequence[str],
    *,
    known: Mapping[str, NDArray[np.float64]] | None = None,
    header: Mapping[str, str] | None = None,
    whole_seconds: bool = False,
) -> SwfLog:
    """Return a schedule as a log, its jobs in the order of their submission.

    The log keeps the job ids if all are whole numbers and differ, else jobs are numbered from 1.

    Parameters
    ----------
    times_s
        ``submit``, ``start`` and ``end`` of each job, NaN where a job never started or ended; shape ``(n_jobs,)``.
    cores
        Cores that each job ``requested`` and ``used``, 0 if it used none; same shape.
    states
        Final state of each job, a key of `SWF_STATUS` or anything else.
    known
        Further known values of the jobs: columns among ``requested_s``, ``requested_memory_kb``, ``user``, ``group``,
        ``executable``, ``queue`` and ``partition``; negative or NaN where it is not.
    header
        Directives to write besides those that follow from the jobs.
    whole_seconds
        True to round all dates, for programs that read whole seconds only; a job then may seem to run 0 s.

    Raises
    ------
    WorkloadError
        If there is no job, or a column is none of a log.
    """
    n_jobs = len(job_ids)
    if n_jobs == 0:
        raise WorkloadError(f"{name}: no job to export")
    submit_s, start_s, end_s = (np.asarray(times_s[key], dtype=np.float64) for key in ("submit", "start", "end"))
    if whole_seconds:
        submit_s, start_s, end_s = np.round(submit_s), np.round(start_s), np.round(end_s)
    rows = unknown_rows(n_jobs)
    rows["submit_s"] = submit_s
    rows["wait_s"] = _known(np.maximum(0.0, start_s - submit_s))
    rows["run_s"] = _known(end_s - start_s)
    rows["processors"] = np.where(cores["used"] > 0, cores["used"], UNKNOWN_VALUE)
    rows["requested_processors"] = cores["requested"]
    rows["status"] = [SWF_STATUS.get(state, UNKNOWN_VALUE) for state in states]
    for field, values in (known or {}).items():
        if field not in _FROM_LOG:
            raise WorkloadError(f"{name}: {field!r} is not a column that a schedule leaves open")
        rows[field] = _known(np.asarray(values, dtype=np.float64))
    order = np.argsort(rows["submit_s"], kind="stable")
    rows = rows[order]
    rows["job_number"] = _numbers([job_ids[index] for index in order.tolist()])
    directives = {"Version": "2.2", **(header or {}), "MaxJobs": str(n_jobs), "MaxRecords": str(n_jobs)}
    return SwfLog(name, rows, directives)


def _known(values: FloatArray) -> FloatArray:
    """Return values to the microsecond that files tell, and -1 for what is unknown."""
    return np.where(values >= 0, np.round(values, 6), UNKNOWN_VALUE)


def _numbers(job_ids: Sequence[str]) -> FloatArray:
    are_numbers = all(text.isascii() and text.isdigit() and len(text) < 16 for text in job_ids)
    numbers = [float(text) for text in job_ids] if are_numbers else []
    return np.array(numbers if len(set(numbers)) == len(job_ids) else range(1, len(job_ids) + 1), dtype=np.float64)
