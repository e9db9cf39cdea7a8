"""Metrics of runs side by side, read by name."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hdrl.figures.folders import OPTIONS_FILE, read_object
from hdrl.figures.metrics_bars import MOST_BARS
from hdrl.metrics import energy_delay_product, ratio, summary
from hdrl.metrics.side_by_side import SideBySide, check_metrics
from hdrl.settings.batch.metrics import METRICS
from hdrl.settings.batch.report.data import job_values
from hdrl.settings.batch.report.runs import JOBS_FILE, RunData, read_run, runs_in, unique_names
from hdrl.settings.batch.simulation.readers import read_out_schedule
from hdrl.settings.batch.simulators import floor_of
from hdrl.settings.batch.site_rules.metrics import own_infos, read_site_metrics

ALWAYS = ("n_jobs", "n_finished", "n_rejected", "n_unfinished", "n_not_started")
"""Without these no mean can be compared."""

USUAL = (
    *ALWAYS,
    "makespan_s",
    "utilization",
    "mean_wait_s",
    "max_wait_s",
    "mean_turnaround_s",
    "max_turnaround_s",
    "mean_slowdown",
    "max_slowdown",
    "mean_bounded_slowdown",
    "max_bounded_slowdown",
    "energy_j",
    "energy_delay_product_js",
)


DRAWN = (
    "energy_j",
    "makespan_s",
    "max_slowdown",
    "max_turnaround_s",
    "max_wait_s",
    "mean_slowdown",
    "mean_turnaround_s",
    "mean_wait_s",
)
"""The metrics of the picture, in two rows of four."""


def side_by_side(
    folders: Sequence[str | Path], *, names: Sequence[str] = (), metrics: Sequence[str] = USUAL
) -> SideBySide:
    """Read the metrics of runs.

    Parameters
    ----------
    folders
        Run folders, of this project or others that hold ``out_jobs.csv``, or files that are an ``out_schedule.csv``.
    names
        A name for each run, "" where it keeps its own; those of the folders by default.
    metrics
        Metrics; the number of jobs that did not run is always among them.
    """
    runs = _read(folders, names)
    tables = [run.metrics_by_name() if isinstance(run, ScheduleFile) else run_metrics(run) for run in runs]
    own = own_infos(name for table in tables for name in table)
    infos = {**METRICS, **own}
    check_metrics(metrics, infos)
    chosen = list(dict.fromkeys((*ALWAYS, *metrics, *(own if set(metrics) >= set(USUAL) else ()))))
    values = {name: [table.get(name, math.nan) for table in tables] for name in chosen}
    drawn = DRAWN if set(DRAWN) <= values.keys() else tuple(name for name in chosen if name not in ALWAYS)[:MOST_BARS]
    return SideBySide(tuple(run.name for run in runs), infos, values, drawn, tuple(_differences(runs, values)))


def _read(paths: Sequence[str | Path], names: Sequence[str]) -> list[RunData | ScheduleFile]:
    """Return runs by name, whether folders or single files tell of them."""
    found: list[Path] = []
    for path in map(Path, paths):
        found += [path] if path.is_file() else runs_in([path], JOBS_FILE)
    own = unique_names([path.parent if path.is_file() else path for path in found], names)
    return [
        read_schedule_file(path, name) if path.is_file() else read_run(path, name)
        for path, name in zip(found, own, strict=True)
    ]


def run_metrics(run: RunData) -> dict[str, float]:
    """Return the metrics of a run: as its folder tells them, else computed from its jobs.

    ``run``: the run; one of other programs has no ``metrics.json``, and its energy is read in ``out_schedule.csv``.
    """
    if run.metrics:
        return {**run.metrics, **({} if run.folder is None else read_site_metrics(run.folder))}
    ended, rejected = run.has_ended, run.state == "REJECTED"
    result = {
        "n_jobs": float(run.n_jobs),
        "n_finished": float(np.count_nonzero(ended)),
        "n_rejected": float(np.count_nonzero(rejected)),
        "n_successful": float(np.count_nonzero(run.state == "COMPLETED_SUCCESSFULLY")),
    }
    if not ended.any():
        return result
    makespan_s = float(np.max(run.end_s[ended]) - np.min(run.submit_s))
    area = float(np.sum((run.blocks.n_cores * (run.end_s - run.start_s)[run.blocks.job])[ended[run.blocks.job]]))
    result["makespan_s"] = makespan_s
    result["batsim_makespan_s"] = float(np.max(run.end_s[ended]))
    result["utilization"] = ratio(area, run.n_cores * makespan_s)
    for kind, suffix in (("wait", "_s"), ("turnaround", "_s"), ("slowdown", ""), ("bounded_slowdown", "")):
        numbers: dict[str, Any] = summary(job_values(run, f"{kind}{suffix}"))
        result |= {f"{statistic}_{kind}{suffix}": value for statistic, value in numbers.items()}
    energy_j = _consumed_j(run)
    if energy_j > 0:
        result |= {"energy_j": energy_j, "mean_power_w": ratio(energy_j, makespan_s)}
        result["energy_delay_product_js"] = energy_delay_product(energy_j, makespan_s)
    return result


def _consumed_j(run: RunData) -> float:
    path = run.folder / "out_schedule.csv" if run.folder is not None else None
    return float(read_out_schedule(path)["consumed_joules"]) if path is not None and path.is_file() else 0.0


def _differences(runs: Sequence[RunData | ScheduleFile], values: dict[str, list[float]]) -> list[str]:
    said = []
    for what in ("workload", "platform"):
        found = {getattr(run, what) for run in runs} - {None}
        if len(found) > 1:
            said.append(f"the runs differ in their {what}: {', '.join(sorted(found))}")
    if len({run.n_cores for run in runs}) > 1 and not any("platform" in text for text in said):
        said.append("the runs differ in the number of cores")
    if len(set(values["n_jobs"])) > 1:
        said.append("the runs differ in the number of jobs")
    files = [run.name for run in runs if isinstance(run, ScheduleFile)]
    if 0 < len(files) < len(runs):
        said.append(f"the makespan of {', '.join(files)} counts from date 0, not from the first submission")
    for position, run in enumerate(runs):
        unrun = sum(values[name][position] for name in ALWAYS[2:] if math.isfinite(values[name][position]))
        if unrun:
            said.append(f"{run.name} left {int(unrun):,} jobs unrun: its means are those of the others")
    folders = [run.folder for run in runs if isinstance(run, RunData) and run.folder is not None]
    floors = [floor_of(read_object(folder / OPTIONS_FILE).get("simulator")) for folder in folders]
    return said + list(dict.fromkeys(filter(None, floors if len(runs) > 1 else [])))


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
    """A run by its ``out_schedule.csv`` alone."""

    name: str  # name of the run
    values: dict[str, float]  # columns of the file that are numbers
    workload: str | None = None
    platform: str | None = None

    @property
    def n_cores(self) -> int | None:
        """Cores of the platform, ``None`` if the file does not say."""
        known = self.values.get("nb_computing_machines")
        return None if known is None else int(known)

    def metrics_by_name(self) -> dict[str, float]:
        """Return the numbers of the file, by the names of `hdrl.settings.batch.metrics`.

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
    """Read an ``out_schedule.csv`` of this project, of Batsim or of HDeepRM."""
    path = Path(path)
    numbers = {key: float(value) for key, value in read_out_schedule(path).items() if not isinstance(value, str)}
    return ScheduleFile(name or path.resolve().parent.name, numbers)
