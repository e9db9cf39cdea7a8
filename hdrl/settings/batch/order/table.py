"""The table of jobs that all environments of a batch share."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hdrl.settings.batch.order.codes import N_TEMPLATE
from hdrl.settings.batch.order.observe import CAP
from hdrl.settings.batch.order.state import JOB_DTYPE

FloatArray = NDArray[np.float64]

_ABSENT = 1.0  # the value of a column of which the log tells nothing


@dataclass(frozen=True, slots=True)
class JobColumns:
    """Jobs in the order of submission, each column of shape ``(n_jobs,)``.

    Attributes
    ----------
    submit_s, run_s, requested_time_s
        Submission date, how long the job really runs, and how long its user says, in seconds.
    n_requested
        Processors.
    memory_mib, bandwidth_gbps
        What each core takes; they serve job keys and the observation.
    user, group, executable
        Numbers of the log, negative if absent.
    """

    submit_s: FloatArray
    run_s: FloatArray
    requested_time_s: FloatArray
    n_requested: NDArray[np.int32]
    memory_mib: FloatArray
    bandwidth_gbps: FloatArray
    user: NDArray[np.int32]
    group: NDArray[np.int32]
    executable: NDArray[np.int32]


def job_table(columns: JobColumns) -> NDArray[np.void]:
    """Return the table, an array of `order.state.JOB_DTYPE`."""
    table = np.zeros(len(columns.submit_s), dtype=JOB_DTYPE)
    for name in ("submit_s", "run_s", "requested_time_s", "n_requested", "memory_mib", "bandwidth_gbps"):
        table[name] = getattr(columns, name)
    table["rank"] = np.arange(len(table))
    return table


def _by_maximum(values: NDArray[np.generic], largest: float, absent: NDArray[np.bool_]) -> FloatArray:
    numbers = values.astype(np.float64)
    scaled = np.minimum(numbers / largest, CAP) if largest > 0 else np.zeros(len(numbers))
    return np.where(absent, _ABSENT, scaled)


def row_templates(
    columns: JobColumns, n_procs: int | NDArray[np.int64], *, is_scaled: bool = True
) -> NDArray[np.float32]:
    """Return what does not change in each job's row of the observation, shape ``(n_jobs, 8)``, float32.

    The requested time is divided by the longest run time, processors by those of the machine, the others by their
    maxima; what is absent is 1.

    Parameters
    ----------
    columns
        The jobs.
    n_procs
        Processors of the machine, or of the machine of each job.
    is_scaled
        Whether the columns say anything; else all are 1, as if the log told nothing.
    """
    rows = np.zeros((len(columns.submit_s), N_TEMPLATE), dtype=np.float32)
    if not is_scaled:
        rows[:, 1 : N_TEMPLATE - 1] = _ABSENT
        return rows
    present = np.zeros(len(rows), dtype=np.bool_)
    rows[:, 1] = _by_maximum(columns.requested_time_s, float(columns.run_s.max(initial=0.0)), present)
    rows[:, 2] = np.minimum(columns.n_requested / n_procs, CAP)
    for column, name in enumerate(("memory_mib", "user", "group", "executable"), start=3):
        values = getattr(columns, name)
        absent = values <= 0 if name == "memory_mib" else values < 0
        rows[:, column] = _by_maximum(values, float(values.max(initial=0)), absent)
    return rows
