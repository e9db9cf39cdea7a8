"""The table of jobs that all environments of a batch share, and what is known of ended jobs when an episode begins."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hdrl.settings.batch.identical_cores.codes import N_TEMPLATE
from hdrl.settings.batch.identical_cores.observe import CAP
from hdrl.settings.batch.identical_cores.state import JOB_DTYPE, OrderState
from hdrl.settings.batch.kernel.beginning import first_sums
from hdrl.settings.batch.workload.history import Past, past_of
from hdrl.settings.batch.workload.model import Workload

FloatArray = NDArray[np.float64]

_ABSENT = 1.0  # the value of a column that is missing in the log

# Where the fixed scale of a column is one half.
_HALF_REQUEST_S = 3600.0
_HALF_MEMORY_MIB = 1024.0
_HALF_NUMBER = 100.0

_NAMES = ("requested_time_s", "memory_mib", "user", "group", "executable")
_PLACES = (1, 3, 4, 5, 6)
_HALVES = (_HALF_REQUEST_S, _HALF_MEMORY_MIB, _HALF_NUMBER, _HALF_NUMBER, _HALF_NUMBER)


@dataclass(frozen=True, slots=True)
class JobColumns:
    """Jobs in the order of submission, each column of shape ``(n_jobs,)``."""

    # submission date, how long the job really runs, and how long its user says, in seconds
    submit_s: FloatArray
    run_s: FloatArray
    requested_time_s: FloatArray
    n_requested: NDArray[np.int32]  # processors
    # demand of each core; they serve job keys and the observation
    memory_mib: FloatArray
    bandwidth_gbps: FloatArray
    # numbers of the log, negative if absent
    user: NDArray[np.int32]
    group: NDArray[np.int32]
    executable: NDArray[np.int32]


def job_table(columns: JobColumns) -> NDArray[np.void]:
    """Return the table, an array of `identical_cores.state.JOB_DTYPE`."""
    table = np.zeros(len(columns.submit_s), dtype=JOB_DTYPE)
    for name in ("submit_s", "run_s", "n_requested", "memory_mib", "bandwidth_gbps"):
        table[name] = getattr(columns, name)
    table["requested_time_s"] = np.maximum(columns.requested_time_s, 0.0)  # as in the kernel
    table["rank"] = np.arange(len(table))
    return table


def _by_largest(name: str, values: FloatArray, columns: JobColumns) -> FloatArray:
    """Return values divided by the largest of all jobs: requested times by the longest run time."""
    largest = float((columns.run_s if name == "requested_time_s" else values).max(initial=0.0))
    return values / largest if largest > 0 else np.zeros(len(values))


def _absent(name: str, values: FloatArray) -> NDArray[np.bool_]:
    return values <= 0 if name == "memory_mib" else values < 0


def row_templates(
    columns: JobColumns, n_procs: int | NDArray[np.int64], *, is_scaled: bool = True, by_largest: bool = False
) -> NDArray[np.float32]:
    """Return the constant part of each job's row of the observation, shape ``(n_jobs, 8)``, float32.

    Processors are divided by those of the machine. Each other number x is x / (x + c) with a constant c, so that it
    depends on nothing but the job; what is absent is 1.

    - ``n_procs``: processors of the machine, or of the machine of each job.
    - ``is_scaled``: whether the columns say anything; else all are 1, as if the log had no numbers.
    - ``by_largest``: whether numbers are divided by their maxima instead, requested times by the longest run time, as
      RLScheduler does: jobs that are still to come change what is seen of the others.
    """
    rows = np.zeros((len(columns.submit_s), N_TEMPLATE), dtype=np.float32)
    if not is_scaled:
        rows[:, 1 : N_TEMPLATE - 1] = _ABSENT
        return rows
    rows[:, 2] = np.minimum(columns.n_requested / n_procs, CAP)
    for position, name, half in zip(_PLACES, _NAMES, _HALVES, strict=True):
        values = np.asarray(getattr(columns, name), dtype=np.float64)
        absent = _absent(name, values)
        numbers = np.where(absent, 0.0, values)
        scaled = _by_largest(name, values, columns) if by_largest else numbers / (numbers + half)
        rows[:, position] = np.where(absent, _ABSENT, np.minimum(scaled, CAP))
    return rows


@dataclass(frozen=True, eq=False)
class PoolPast:
    """Ended jobs of workloads, for the windows that are cut from them."""

    workloads: tuple[Workload, ...]
    orders: tuple[NDArray[np.int64], ...]  # for each, the indices of its jobs in the order of submission

    def write(self, pool: OrderState, row: int, workload: int, start: int, n_jobs: int) -> None:
        """Write the history at the beginning of a window to the arrays of an environment."""
        past = self._past(workload, start, n_jobs)
        sums = first_sums(past)
        pool.groups[row, :n_jobs] = past.groups
        pool.sums[row, : len(sums)] = sums

    def _past(self, workload: int, start: int, n_jobs: int) -> Past:
        load, order = self.workloads[workload], self.orders[workload]
        chosen = order[start : start + n_jobs]
        positions = None if load.positions is None else load.positions[chosen]
        return past_of(load.jobs[chosen], load.history, positions)


def most_groups(n_jobs: int) -> int:
    """Return the largest number of groups of a window: one of all jobs, and at most one each of the other levels."""
    return 1 + 4 * n_jobs
