"""From a run to the numbers of its pictures: pure functions on arrays, without any library for drawing.

>>> from hdrl.report.data import queue_size, read_run  # doctest: +SKIP
>>> steps = queue_size(read_run("results"))  # doctest: +SKIP
>>> steps.binned(400).mean  # doctest: +SKIP
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from hdrl.errors import ReadError, UnknownName
from hdrl.files import read_json
from hdrl.metrics.formulas import bounded_slowdown
from hdrl.report.runs import RunData, as_runs, read_run, read_runs, run_folders, run_of_trace
from hdrl.simulation.readers import read_overutilizations

if TYPE_CHECKING:
    from pathlib import Path

    from hdrl.simulation.trace import OverUtilization

__all__ = [
    "JOB_VALUES",
    "Bars",
    "Bins",
    "RunData",
    "Steps",
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
    "run_folders",
    "run_of_trace",
    "steps_of_changes",
    "utilization",
]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

DATE_DECIMALS = 6
"""Dates are rounded to what the files hold: a job that starts 1e-10 s after its submission has not waited."""

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
"""What `job_values` knows, with the words for an axis."""


@dataclass(frozen=True, slots=True)
class Bins:
    """A step function seen through bins of equal width.

    Attributes
    ----------
    edges
        Their borders, shape ``(n_bins + 1,)``, ascending.
    mean, low, high
        Mean by time, smallest and largest value in each bin, shape ``(n_bins,)``.
    """

    edges: FloatArray
    mean: FloatArray
    low: FloatArray
    high: FloatArray


@dataclass(frozen=True, slots=True)
class Steps:
    """A function of time that is constant between some dates.

    Attributes
    ----------
    edges_s
        The dates, ascending, shape ``(n + 1,)``; one or none for a function that is defined nowhere.
    values
        The value from each date to the next, shape ``(n,)``.
    """

    edges_s: FloatArray
    values: FloatArray

    @property
    def mean(self) -> float:
        """Mean by time; NaN if it is defined nowhere."""
        if not len(self.values):
            return float("nan")
        span_s = float(self.edges_s[-1] - self.edges_s[0])
        return float(np.sum(self.values * np.diff(self.edges_s))) / span_s

    def binned(self, n_bins: int, span_s: tuple[float, float] | None = None) -> Bins:
        """Return what a picture of some width can show of it; peaks and means are kept exactly.

        Parameters
        ----------
        n_bins
            How many bins, at least 1.
        span_s
            From when to when; all of it by default. Outside of its dates the function is 0.
        """
        low_s, high_s = span_s if span_s is not None else (float(self.edges_s[0]), float(self.edges_s[-1]))
        edges = np.linspace(low_s, high_s, n_bins + 1)
        if not len(self.values) or not high_s > low_s:
            nothing = np.zeros(n_bins)
            return Bins(edges, nothing, nothing, nothing)
        total = np.concatenate(([0.0], np.cumsum(self.values * np.diff(self.edges_s))))
        mean = np.diff(np.interp(edges, self.edges_s, total)) / np.diff(edges)
        dates = np.concatenate(([-np.inf], self.edges_s))
        values = np.concatenate(([0.0], self.values, [0.0]))
        first = np.searchsorted(dates, edges[:-1], side="right") - 1  # the step that each bin begins in
        last = np.maximum(np.searchsorted(dates, edges[1:], side="left"), first + 1)  # first step beyond its end
        # Pairs of (first, last): reduceat works on every second slice.
        slices = np.column_stack((first, last)).ravel()
        padded = np.append(values, 0.0)
        return Bins(edges, mean, np.minimum.reduceat(padded, slices)[::2], np.maximum.reduceat(padded, slices)[::2])


@dataclass(frozen=True, slots=True)
class Bars:
    """The rectangles of a Gantt chart: one per block of neighbouring cores of a job that started.

    Attributes
    ----------
    job
        Row of the job in its `RunData`, shape ``(n_bars,)``.
    start_s, end_s
        Dates; a job that still runs ends where the run ends.
    first_core, n_cores
        The cores.
    """

    job: IntArray
    start_s: FloatArray
    end_s: FloatArray
    first_core: IntArray
    n_cores: IntArray


def gantt_bars(run: RunData) -> Bars:
    """Return the rectangles of the Gantt chart of a run.

    Parameters
    ----------
    run
        The run.
    """
    blocks = run.blocks
    start_s = run.start_s[blocks.job]
    end_s = np.where(run.has_ended, run.end_s, run.span_s[1])[blocks.job]
    drawn = np.isfinite(start_s)
    return Bars(blocks.job[drawn], start_s[drawn], end_s[drawn], blocks.first_core[drawn], blocks.n_cores[drawn])


def steps_of_changes(dates_s: FloatArray, changes: FloatArray, until_s: float | None = None) -> Steps:
    """Return the step function that begins at 0 and changes at some dates.

    Parameters
    ----------
    dates_s, changes
        When and by how much, shape ``(n,)``, in any order; what happens at one date is added up.
    until_s
        Where it ends; the last date by default.
    """
    if not len(dates_s):
        return Steps(np.zeros(0), np.zeros(0))
    dates, position = np.unique(np.round(dates_s, DATE_DECIMALS), return_inverse=True)
    values = np.cumsum(np.bincount(position, weights=changes, minlength=len(dates)))
    if until_s is not None and until_s > dates[-1]:
        dates, values = np.append(dates, until_s), np.append(values, 0.0)
    return Steps(dates, np.round(values[:-1], 9))


def queue_size(run: RunData) -> Steps:
    """Return how many submitted jobs wait, over time.

    Rejected jobs are left out, since no file tells when they were rejected. A job that never started waits to the end.

    Parameters
    ----------
    run
        The run.
    """
    waits = run.state != "REJECTED"
    starts = run.start_s[waits & np.isfinite(run.start_s)]
    submits = run.submit_s[waits]
    changes = np.concatenate((np.ones(len(submits)), -np.ones(len(starts))))
    return steps_of_changes(np.concatenate((submits, starts)), changes, run.span_s[1])


def busy_cores(run: RunData) -> Steps:
    """Return how many cores jobs hold, over time, from the first submission on.

    Parameters
    ----------
    run
        The run.
    """
    bars = gantt_bars(run)
    begin_s, until_s = run.span_s
    dates = np.concatenate(([begin_s] if run.n_jobs else [], bars.start_s, bars.end_s))
    nothing = np.zeros(1 if run.n_jobs else 0)
    return steps_of_changes(dates, np.concatenate((nothing, bars.n_cores, -bars.n_cores)), until_s)


def utilization(run: RunData) -> Steps:
    """Return the share of the platform's cores that jobs hold, over time, from 0 to 1.

    Parameters
    ----------
    run
        The run.
    """
    busy = busy_cores(run)
    return Steps(busy.edges_s, busy.values / run.n_cores)


def power(run: RunData) -> Steps:
    """Return the power of all hosts in watts, over time.

    Parameters
    ----------
    run
        The run.

    Raises
    ------
    ReadError
        If no energy was accounted for, or its file is missing or damaged.
    """
    if run.trace is not None:
        time_s, energy_j = run.trace.energy["time_s"], run.trace.energy["energy_j"]
        where: str | Path = run.name
    else:
        where = run.path_of("out_consumed_energy.csv")
        time_s, energy_j = _read_columns(where, ("time", "energy"))
    if len(time_s) < 2:
        raise ReadError(where, "tells no energy")
    kept = [0, *_apart(time_s, MIN_POWER_SPAN_S)]
    edges_s, joules = time_s[kept], energy_j[kept]
    return Steps(edges_s, np.diff(joules) / np.diff(edges_s))


def _apart(time_s: FloatArray, gap_s: float) -> list[int]:
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
        raise ReadError(path, f"is no table of numbers: {' '.join(str(error).split())}") from None
    if not np.all(np.isfinite(table)) or np.any(np.diff(table[:, 0]) < 0):
        raise ReadError(path, "must hold finite numbers with ascending dates")
    return [table[:, index] for index in range(len(names))]


def job_values(run: RunData, name: str = "bounded_slowdown") -> FloatArray:
    """Return a number per job that ended.

    Parameters
    ----------
    run
        The run.
    name
        A key of `JOB_VALUES`.

    Raises
    ------
    UnknownName
        If it is none.
    """
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


def cumulative_distribution(values: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the distinct values, ascending, and the share of all that is not above each.

    Parameters
    ----------
    values
        The values, NaN left out.
    """
    distinct, counts = np.unique(values[np.isfinite(values)], return_counts=True)
    return distinct, np.cumsum(counts) / max(1, counts.sum())


def over_utilization(run: RunData) -> OverUtilization:
    """Return when cores, memory and memory bandwidth did not suffice.

    Parameters
    ----------
    run
        The run.

    Raises
    ------
    ReadError
        If the file is missing or damaged.
    """
    if run.trace is not None:
        return run.trace.overutilization
    return read_overutilizations(run.path_of("overutilizations.json"))


def n_processors(run: RunData) -> int:
    """Return the number of processors of the platform.

    Parameters
    ----------
    run
        The run.

    Raises
    ------
    ReadError
        If the file that tells it is missing or damaged.
    """
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

    Parameters
    ----------
    run
        The run.

    Raises
    ------
    ReadError
        If the file is missing or damaged.
    """
    log = over_utilization(run)
    start_s = log.bandwidth_start_s
    is_open = log.bandwidth_duration_s < 0
    end_s = np.where(is_open, max(run.span_s[1], 0.0), start_s + log.bandwidth_duration_s)
    return log.bandwidth_processor.astype(np.int64), start_s, np.maximum(end_s, start_s)
