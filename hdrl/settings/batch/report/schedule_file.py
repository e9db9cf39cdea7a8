"""A single ``out_schedule.csv``: what is known of a run of which nothing else was kept."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from hdrl.metrics import energy_delay_product, ratio
from hdrl.settings.batch.simulation.readers import read_out_schedule

_SAME = {
    "nb_jobs": "n_jobs",
    "nb_jobs_finished": "n_finished",
    "nb_jobs_rejected": "n_rejected",
    "nb_jobs_success": "n_successful",
    "makespan": "makespan_s",
    "max_slowdown": "max_slowdown",
    "max_turnaround_time": "max_turnaround_s",
    "max_waiting_time": "max_wait_s",
}
"""Columns, and the metrics that they are."""

_MEANS = {
    "mean_slowdown": "mean_slowdown",
    "mean_turnaround_time": "mean_turnaround_s",
    "mean_waiting_time": "mean_wait_s",
}
"""Means, which Batsim divides by all jobs, rejected ones included."""


@dataclass(frozen=True, slots=True)
class ScheduleFile:
    """A run by its ``out_schedule.csv`` alone.

    Attributes
    ----------
    name
        Name of the run.
    values
        Columns of the file that are numbers.
    """

    name: str
    values: dict[str, float]
    workload: str | None = None
    platform: str | None = None

    @property
    def n_cores(self) -> int | None:
        """Cores of the platform, ``None`` if the file does not say."""
        known = self.values.get("nb_computing_machines")
        return None if known is None else int(known)

    def metrics_by_name(self) -> dict[str, float]:
        """Return what the file tells, by the names of `hdrl.settings.batch.metrics`.

        The makespan counts from date 0, and means are over the jobs that ran.
        """
        values = self.values
        result = {metric: values[column] for column, metric in _SAME.items() if column in values}
        result["batsim_makespan_s"] = result["makespan_s"]
        n_jobs, n_finished = (values.get(name, math.nan) for name in ("nb_jobs", "nb_jobs_finished"))
        ran = 1.0 if math.isnan(n_jobs + n_finished) else ratio(n_finished, n_jobs)
        result |= {metric: ratio(values[column], ran) for column, metric in _MEANS.items()}
        energy_j = values["consumed_joules"]
        if energy_j > 0:
            result["energy_j"] = energy_j
            result["energy_delay_product_js"] = energy_delay_product(energy_j, result["makespan_s"])
        return result


def read_schedule_file(path: str | Path, name: str | None = None) -> ScheduleFile:
    """Read an ``out_schedule.csv`` of this project, of Batsim or of HDeepRM.

    Raises
    ------
    ReadError
        If it is no such file.
    """
    path = Path(path)
    numbers = {key: float(value) for key, value in read_out_schedule(path).items() if not isinstance(value, str)}
    return ScheduleFile(name or path.resolve().parent.name, numbers)
