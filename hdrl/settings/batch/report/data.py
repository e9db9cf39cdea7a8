"""From a run to the numbers of its pictures: pure functions on arrays, without any library for drawing.

>>> from hdrl.settings.batch.report.data import queue_size, read_run  # doctest: +SKIP
>>> steps = queue_size(read_run("results"))  # doctest: +SKIP
>>> steps.binned(400).mean  # doctest: +SKIP
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from hdrl.base.errors import ReadError, UnknownName
from hdrl.base.files import read_json
from hdrl.figures.steps import Bins, FloatArray, StepFunction, cumulative_distribution, steps_of_changes
from hdrl.metrics.formulas import bounded_slowdown
from hdrl.settings.batch.report.runs import RunData, as_runs, read_run, read_runs, run_of_trace
from hdrl.settings.batch.simulation.readers import read_overutilizations

if TYPE_CHECKING:
    from pathlib import Path

    from hdrl.settings.batch.simulation.trace import OverUtilization

__all__ = [
    "JOB_VALUES",
    "Bars",
    "Bins",
    "RunData",
    "StepFunction",
    "as_runs",
    "busy_cores",
    "cumulative_distribution",
    "gantt_bars",
    "job_values",
    "n_processors",
    "over_utilization",
    "over_committed_spans",
    "power",
    "queue_size",
    "read_run",
    "read_runs",
    "run_of_trace",
    "steps_of_changes",
    "utilization",
]

IntArray = NDArray[np.int64]

MIN_POWER_SPAN_S = 1e-3
"""Rows of the energy log closer than this are one: energies with six decimals make no power of a shorter time."""

JOB_VALUES = {
    "bounded_slowdown": "bounded slowdown",
    "slowdown": "slowdown",
    "wait_s": "waiting time (s)",
    "turnaround_s": "turnaround time (s)",
    "run_s": "run time (s)",
    "energy_j": "energy (J)",
}
"""Names of `job_values`, each with its words for an axis."""


@dataclass(frozen=True, slots=True)
class Bars:
    """The rectangles of a Gantt chart: one per block of neighbouring cores of a job that started."""

    job: IntArray  # row of the job in its `RunData`, shape ``(n_bars,)``
    # dates; a job that still runs ends where the run ends
    start_s: FloatArray
    end_s: FloatArray
    # the cores
    first_core: IntArray
    n_cores: IntArray


def gantt_bars(run: RunData) -> Bars:
    """Return the rectangles of the Gantt chart of a run."""
    blocks = run.blocks
    start_s = run.start_s[blocks.job]
    end_s = np.where(run.has_ended, run.end_s, run.span_s[1])[blocks.job]
    drawn = np.isfinite(start_s)
    return Bars(blocks.job[drawn], start_s[drawn], end_s[drawn], blocks.first_core[drawn], blocks.n_cores[drawn])


def queue_size(run: RunData) -> StepFunction:
    """Return the number of waiting jobs over time.

    Rejected jobs are left out, since no file tells when they were rejected. A job that never started waits to the end.
    """
    waits = run.state != "REJECTED"
    starts = run.start_s[waits & np.isfinite(run.start_s)]
    submits = run.submit_s[waits]
    changes = np.concatenate((np.ones(len(submits)), -np.ones(len(starts))))
    return steps_of_changes(np.concatenate((submits, starts)), changes, run.span_s[1])


def busy_cores(run: RunData) -> StepFunction:
    """Return the number of cores that jobs hold, over time, from the first submission on."""
    bars = gantt_bars(run)
    begin_s, until_s = run.span_s
    dates = np.concatenate(([begin_s] if run.n_jobs else [], bars.start_s, bars.end_s))
    nothing = np.zeros(1 if run.n_jobs else 0)
    return steps_of_changes(dates, np.concatenate((nothing, bars.n_cores, -bars.n_cores)), until_s)


def utilization(run: RunData) -> StepFunction:
    """Return the share of the platform's cores that jobs hold, over time, from 0 to 1."""
    busy = busy_cores(run)
    return StepFunction(busy.edges_s, busy.values / run.n_cores)


def power(run: RunData) -> StepFunction:
    """Return the power of all hosts in watts, over time."""
    if run.trace is not None:
        time_s, energy_j = run.trace.energy["time_s"], run.trace.energy["energy_j"]
        where: str | Path = run.name
    else:
        where = run.path_of("out_consumed_energy.csv")
        time_s, energy_j = _read_columns(where, ("time", "energy"))
    if len(time_s) < 2:
        raise ReadError(where, "has no energy")
    kept = [0, *_last_of_groups(time_s, MIN_POWER_SPAN_S)]
    edges_s, joules = time_s[kept], energy_j[kept]
    return StepFunction(edges_s, np.diff(joules) / np.diff(edges_s))


def _last_of_groups(time_s: FloatArray, gap_s: float) -> list[int]:
    """Return the last row of each group of rows that are not more than a gap apart, the first group left out."""
    last_of_group = np.flatnonzero(np.diff(time_s, append=np.inf) > gap_s)
    return [int(row) for row in last_of_group[time_s[last_of_group] > time_s[0] + gap_s]]


def _read_columns(path: Path, names: tuple[str, ...]) -> list[FloatArray]:
    """Return columns of a CSV file of numbers, ascending in the first."""
    try:
        with path.open(encoding="utf-8") as lines:
            header = lines.readline().rstrip("\n").split(",")
            missing = [name for name in names if name not in header]
            if missing:
                raise ReadError(path, f"has no column {missing[0]!r}", line=1)
            columns = [header.index(name) for name in names]
            table = np.loadtxt(lines, delimiter=",", usecols=columns, ndmin=2, comments=None)
    except (OSError, UnicodeDecodeError) as error:
        raise ReadError(path, f"cannot be read ({error})") from None
    except ValueError as error:
        raise ReadError(path, f"is not a table of numbers: {' '.join(str(error).split())}") from None
    if not np.all(np.isfinite(table)) or np.any(np.diff(table[:, 0]) < 0):
        raise ReadError(path, "must hold finite numbers with ascending dates")
    return [table[:, index] for index in range(len(names))]


def job_values(run: RunData, name: str = "bounded_slowdown") -> FloatArray:
    """Return a number per job that ended."""
    ended = run.has_ended
    run_s = (run.end_s - run.start_s)[ended]
    wait_s = np.maximum(0.0, (run.start_s - run.submit_s)[ended])
    if name == "bounded_slowdown":
        return bounded_slowdown(wait_s, run_s)
    if name == "slowdown":
        return (wait_s + run_s) / np.maximum(run_s, 1e-6)
    values = {"wait_s": wait_s, "turnaround_s": wait_s + run_s, "run_s": run_s, "energy_j": run.energy_j[ended]}
    if name not in values:
        raise UnknownName("number of a job", name, JOB_VALUES)
    return values[name]


def over_utilization(run: RunData) -> OverUtilization:
    """Return the dates of shortages of cores, memory and memory bandwidth."""
    if run.trace is not None:
        return run.trace.overutilization
    return read_overutilizations(run.path_of("overutilizations.json"))


def n_processors(run: RunData) -> int:
    """Return the number of processors of the platform."""
    if run.trace is not None:
        return run.trace.platform.n_processors
    path = run.path_of("overutilizations.json")
    data = read_json(path)
    number = data.get("mem_bw", {}).get("nb_procs") if isinstance(data, dict) else None
    if not isinstance(number, int) or number < 1:
        raise ReadError(path, "mem_bw must hold nb_procs, the number of processors")
    return number


def over_committed_spans(run: RunData) -> tuple[IntArray, FloatArray, FloatArray]:
    """Return the spans in which the memory bandwidth of a processor was over-committed: processor, start and end.

    A span that was still open ends with the run.
    """
    log = over_utilization(run)
    start_s = log.bandwidth_start_s
    is_open = log.bandwidth_duration_s < 0
    end_s = np.where(is_open, max(run.span_s[1], 0.0), start_s + log.bandwidth_duration_s)
    return log.bandwidth_processor.astype(np.int64), start_s, np.maximum(end_s, start_s)
