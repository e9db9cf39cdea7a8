"""The Trace of an episode on a machine of identical processors."""

from __future__ import annotations

import heapq
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from hdrl.base.errors import OptionsError
from hdrl.envs.episodes import Window
from hdrl.settings.batch.platform.model import Platform
from hdrl.settings.batch.simulation.trace import (
    ENERGY_DTYPE,
    MACHINE_STATE_DTYPE,
    PSTATE_CHANGE_DTYPE,
    RECORD_DTYPE,
    BatchTrace,
    JobState,
    OverUtilization,
)
from hdrl.settings.batch.workload.model import Workload

NEVER = -1.0
"""Date and run time of a job that was never run."""

SHORTEST_RUN_S = 1e-5
"""Run time that is recorded for a job that took no time."""


class EndedEpisodes:
    """Of each row what came of its last episode that has ended: the jobs, their starts, and how many decisions."""

    def __init__(self, n_rows: int) -> None:
        self._n_rows = n_rows
        self._last: dict[int, tuple[Window, NDArray[np.float64], int]] = {}

    def keep(self, row: int, window: Window, start_s: NDArray[np.float64], n_decisions: int) -> None:
        """Keep the outcome of an episode."""
        self._last[row] = (window, start_s, n_decisions)

    def last(self, row: int) -> tuple[Window, NDArray[np.float64], int]:
        """Return the outcome of the last episode of a row.

        Raises
        ------
        OptionsError
            If none has ended.
        """
        if row not in self._last:
            raise OptionsError(f"row {row}: no episode has ended; there are rows 0 to {self._n_rows - 1}")
        return self._last[row]


def _lowest_cores(
    start_s: NDArray[np.float64], end_s: NDArray[np.float64], cores: NDArray[np.int32], n_cores: int
) -> tuple[list[list[int]], NDArray[np.void]]:
    """Give each job the lowest free cores in the order of starts; return them, and how many cores were busy when."""
    # Of those that start at the same date, first those that take no time: the others leave room for all of them.
    by_start = np.lexsort((np.arange(len(start_s)), end_s > start_s, start_s)).tolist()
    by_end = np.lexsort((start_s, end_s)).tolist()  # jobs that take no time after those that end when they start
    free = list(range(n_cores))
    allocations: list[list[int]] = [[] for _ in by_start]
    states = np.zeros(2 * len(by_start), dtype=MACHINE_STATE_DTYPE)
    n_busy, n_ended, n_rows = 0, 0, 0

    def log(time_s: float) -> None:
        nonlocal n_rows
        states[n_rows] = (time_s, 0, 0, 0, n_cores - n_busy, n_busy)
        n_rows += 1

    def end_until(time_s: float) -> None:
        nonlocal n_busy, n_ended
        # What has not started has not ended either, should a job have taken no time.
        while n_ended < len(by_end) and end_s[by_end[n_ended]] <= time_s and allocations[by_end[n_ended]]:
            job = by_end[n_ended]
            for core in allocations[job]:
                heapq.heappush(free, core)
            n_busy -= len(allocations[job])
            n_ended += 1
            log(float(end_s[job]))

    for job in by_start:
        end_until(float(start_s[job]))
        allocations[job] = [heapq.heappop(free) for _ in range(int(cores[job]))]
        n_busy += int(cores[job])
        log(float(start_s[job]))
    end_until(np.inf)
    return allocations, states


def with_unrun(trace: BatchTrace, workload: Workload, was_run: NDArray[np.bool_]) -> BatchTrace:
    """Return a Trace with jobs that waited in vain beside those that were run.

    ``was_run``: which of them were run, shape ``(n_jobs,)``.
    """
    records = np.zeros(workload.n_jobs, dtype=RECORD_DTYPE)
    records["state"] = JobState.SUBMITTED
    records["start_s"] = records["run_s"] = records["energy_j"] = NEVER
    positions = np.flatnonzero(was_run)
    records[positions] = trace.records
    return replace(trace, workload=workload, records=records, completion_order=positions[trace.completion_order])


def pool_trace(
    platform: Platform,
    workload: Workload,
    start_s: NDArray[np.float64],
    run_s: NDArray[np.float64],
    *,
    is_killed: NDArray[np.bool_],
    n_decisions: int,
) -> BatchTrace:
    """Return the Trace of jobs that all have been started; each holds the lowest free cores."""
    cores = workload.jobs["cores"]
    allocations, machine_states = _lowest_cores(start_s, start_s + run_s, cores, platform.n_cores)
    run_s = np.maximum(run_s, SHORTEST_RUN_S)
    end_s = start_s + run_s
    records = np.zeros(workload.n_jobs, dtype=RECORD_DTYPE)
    records["state"] = np.where(is_killed, JobState.COMPLETED_WALLTIME_REACHED, JobState.COMPLETED_SUCCESSFULLY)
    records["start_s"] = start_s
    records["run_s"] = run_s
    records["energy_j"] = -1.0
    records["n_cores"] = workload.jobs["cores"]
    records["first_core"] = np.concatenate([[0], np.cumsum(records["n_cores"])[:-1]])
    none, first_s, last_s = np.zeros(0), float(workload.jobs["submit_s"].min()), float(end_s.max())
    busy_s = float(np.sum(run_s * workload.jobs["cores"]))
    return BatchTrace(
        platform=platform,
        workload=workload,
        records=records,
        completion_order=np.lexsort((np.arange(len(end_s)), end_s)).astype(np.int64),
        allocated_cores=np.concatenate([np.array(sorted(cores), dtype=np.int32) for cores in allocations]),
        machine_states=machine_states,
        pstate_changes=np.zeros(0, dtype=PSTATE_CHANGE_DTYPE),
        pstate_cores=np.zeros(0, dtype=np.int32),
        energy=np.zeros(0, dtype=ENERGY_DTYPE),
        overutilization=OverUtilization(none, none, np.zeros(0, dtype=np.int32), none, none),
        consumed_j=0.0,
        end_s=last_s,
        n_decisions=n_decisions,
        n_grouped_switches=0,
        n_machine_switches=0,
        time_in_state_s={"computing": busy_s, "idle": platform.n_cores * (last_s - first_s) - busy_s},
        info={"simulator": "pool"},
    )
