"""Numbers that describe a workload."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hdrl.base.errors import OptionsError, UnknownName, WorkloadError
from hdrl.settings.batch.platform.model import Platform
from hdrl.settings.batch.workload.model import Workload
from hdrl.settings.batch.workload.run_times import run_times_at

FloatArray = NDArray[np.float64]

_RUN_TIME = "run_time"


@dataclass(frozen=True, slots=True)
class Distribution:
    """Summary of a column in six numbers; percentiles interpolate linearly."""

    min: float
    mean: float
    median: float
    p95: float
    p99: float
    max: float

    @classmethod
    def of(cls, values: NDArray[np.float64] | NDArray[np.int32]) -> Distribution:
        """Describe the values."""
        median, p95, p99 = np.percentile(values, [50, 95, 99])
        return cls(
            float(np.min(values)), float(np.mean(values)), float(median), float(p95), float(p99), float(np.max(values))
        )


STATISTICS = ("min", "mean", "median", "p95", "p99", "max")
"""Names of the numbers of a `Distribution`."""


@dataclass(frozen=True, slots=True)
class WorkloadStatistics:
    """A workload in numbers.

    Attributes
    ----------
    n_jobs
        Number of jobs.
    span_s
        Seconds from the first submission to the last one.
    columns
        ``req_time`` (s), ``size`` (cores), ``mem`` (MiB per core), ``mem_bw`` (GB/s per core), ``interarrival`` (s;
        only for two jobs or more), and with a platform ``run_time`` (s on cores of its mean speed).
    offered_load
        Work that arrives per unit of time as a share of what the platform can do: the sum of run time x cores
        over span x cores of the platform. ``None`` without a platform or a span.
    """

    n_jobs: int
    span_s: float
    columns: dict[str, Distribution]
    offered_load: float | None

    def number(self, column: str, statistic: str) -> float:
        """Return one number.

        Parameters
        ----------
        column
            A key of ``columns``.

        Raises
        ------
        UnknownName
            If one of them is unknown.
        OptionsError
            If the column needs a platform, and the numbers were computed without one.
        """
        if column == _RUN_TIME and column not in self.columns:
            raise OptionsError(f"{column} needs --platform, and profiles that the embedded simulator supports")
        if column not in self.columns:
            raise UnknownName("column of a workload", column, self.columns)
        if statistic not in STATISTICS:
            raise UnknownName("statistic", statistic, STATISTICS)
        return float(getattr(self.columns[column], statistic))


def reference_run_times(workload: Workload, platform: Platform) -> FloatArray:
    """Return the run time of each job on cores of the platform's mean speed, in seconds; walltimes are ignored.

    Raises
    ------
    WorkloadError
        If nothing says how long a job runs alone: it communicates, or replays a trace.
    """
    workload.check_simulated()
    return run_times_at(workload, platform.reference_gflops * 1e9)[0]


def known_or_requested_times(workload: Workload, platform: Platform) -> FloatArray:
    """Return run times as `reference_run_times` does; of jobs without one, the requested times (0: unknown)."""
    run_s = run_times_at(workload, platform.reference_gflops * 1e9)[0]
    is_unknown = np.isin(workload.jobs["profile"], list(workload.not_simulated))
    return np.where(is_unknown, np.maximum(workload.jobs["requested_time_s"], 0.0), run_s)


def offered_load(workload: Workload, platform: Platform) -> float | None:
    """Return the offered load, see `WorkloadStatistics`.

    ``None`` if all jobs are submitted at the same date, or some communicate, so that nothing says how long they take.
    """
    jobs = workload.jobs
    if not _has_run_times(workload):
        return None
    return offered_load_of_jobs(
        jobs["submit_s"], reference_run_times(workload, platform), jobs["cores"], platform.n_cores
    )


def _has_run_times(workload: Workload) -> bool:
    return set(workload.jobs["profile"].tolist()).isdisjoint(workload.not_simulated)


def offered_load_of_jobs(
    submit_s: FloatArray, run_s: FloatArray, cores: NDArray[np.integer], n_cores: int
) -> float | None:
    """Return the offered load of jobs whose run times are known.

    ``submit_s``, ``run_s``, ``cores``: dates, run times and cores of the jobs, shape ``(n_jobs,)``; without a run time
    (NaN) a job does not count.
    """
    span_s = float(submit_s.max() - submit_s.min()) if len(submit_s) else 0.0
    if span_s == 0:
        return None
    return float(np.nansum(run_s * cores)) / (span_s * n_cores)


def workload_statistics(workload: Workload, platform: Platform | None = None) -> WorkloadStatistics:
    """Describe a workload in numbers.

    Parameters
    ----------
    platform
        The platform it is meant for; needed for run times and the offered load, which are left out if jobs communicate.

    Raises
    ------
    WorkloadError
        If it has no job.
    """
    if workload.n_jobs == 0:
        raise WorkloadError(f"{workload.name}: no job to describe")
    jobs = workload.jobs
    submit_s = np.sort(jobs["submit_s"])
    columns = {
        "req_time": Distribution.of(jobs["requested_time_s"]),
        "size": Distribution.of(jobs["cores"]),
        "mem": Distribution.of(jobs["memory_mib"]),
        "mem_bw": Distribution.of(jobs["bandwidth_gbps"]),
    }
    if workload.n_jobs > 1:
        columns["interarrival"] = Distribution.of(np.diff(submit_s))
    if platform is not None and _has_run_times(workload):
        columns[_RUN_TIME] = Distribution.of(reference_run_times(workload, platform))
    load = None if platform is None else offered_load(workload, platform)
    return WorkloadStatistics(workload.n_jobs, float(submit_s[-1] - submit_s[0]), columns, load)
