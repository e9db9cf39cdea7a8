"""Figures of runs on GPU clusters: the figures of all tables, and the GPUs of each job over time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hdrl.base.csvfiles import read_records
from hdrl.base.errors import ReadError
from hdrl.base.textnumbers import float_of
from hdrl.figures.boxes import boxes
from hdrl.figures.distribution import distribution
from hdrl.figures.figure import SUMMARY, Figure, OnPage, Run, by_name
from hdrl.figures.numbers import time_unit
from hdrl.figures.over_time import over_time
from hdrl.figures.rectangles import draw_rectangles
from hdrl.figures.steps import StepFunction
from hdrl.figures.style import (
    WIDTH_IN,
    canvas,
    colour,
    legend,
    line_style,
    plain_numbers,
    rgb,
    run_label,
    time_axis,
    write_title,
)
from hdrl.figures.tables import TABLE_FIGURES, TableRun, levels
from hdrl.metrics.tasks import is_finished
from hdrl.setting import RunView
from hdrl.settings.gpu.files import GPUS_FILE, JOBS_FILE

N_COLOURS = 8
"""Colours of jobs; every eighth job has the same."""

N_BINS = 20
"""Number of bins of arrival dates; a mean is drawn of each."""

MOST_IN = 12.0
"""Height of a chart in inches at most."""


GROUPS = {"priority": "priority", "user": "user_id", "gpus": "gpus"}
"""Groupings of jobs: each name with its column in the job log."""

JOB_TIMES = {"jct_s": ("jct", "job completion time (s)"), "wait_s": ("wait_time", "time without GPUs (s)")}
"""Times of jobs: their columns in the job log, and words."""

MOST_GROUPS = 12
"""The largest groups that are drawn side by side."""


@dataclass(frozen=True, slots=True)
class GpuRun(TableRun):
    """A run as its tables describe it, and where the other files of it are."""

    folder: Path = Path()


class GpuView(RunView):
    """Pictures of runs on GPU clusters."""

    def read(self, folder: Path, name: str | None = None) -> Run:
        """Read a run folder."""
        run = super().read(folder, name)
        parts = {one.name: getattr(run.data, one.name) for one in fields(run.data)}
        return replace(run, data=GpuRun(**parts, folder=folder))


def gantt(runs: Sequence[TableRun], ax: Any = None, *, positions: Sequence[int] | None = None) -> Any:
    """Draw the GPUs of each job over time, a row for each GPU and a part for each run.

    Neighbouring jobs have different colours. A job that was preempted has several rectangles of its colour.
    """
    del positions
    palette = rgb([colour(number) for number in range(N_COLOURS)])
    height_in = min(MOST_IN, sum(1.2 + 0.06 * run.n_units for run in runs))
    figure, axes = canvas(ax, len(runs), size_in=(WIDTH_IN, max(3.0, height_in)))
    for part, run in zip(axes, runs, strict=True):
        unit_s = time_axis(part, [run])
        first_s, last_s = run.span_s
        part.set_xlim(first_s / unit_s, last_s / unit_s)
        part.set_ylim(run.n_units - 0.5, -0.5)
        stays = run.stays
        end_s = np.where(stays["end_s"] >= 0, stays["end_s"], last_s)
        each = np.repeat(np.arange(len(stays)), stays["n_units"])
        begins = np.cumsum(stays["n_units"]) - stays["n_units"]
        units = run.stay_units[stays["first_unit"][each] + np.arange(len(each)) - begins[each]].astype(np.float64)
        draw_rectangles(
            part,
            (stays["start_s"][each] / unit_s, end_s[each] / unit_s),
            (units - 0.5, units + 0.5),
            (stays["task"][each] % N_COLOURS).astype(np.int64),
            palette,
            n_parts=len(runs),
            borders=False,
        )
        part.grid(visible=False)
        part.set_ylabel("GPU")
        part.set_title(run_label(run, runs), loc="left", fontsize=10)
    return figure


def jct_cdf(runs: Sequence[TableRun], ax: Any = None, *, positions: Sequence[int] | None = None) -> Any:
    """Draw the cumulative distribution of the completion times of finished jobs."""
    values = [_jct_s(run) for run in runs]
    return distribution(
        runs, values, quantity="job completion time (s)", items="finished jobs", positions=positions, ax=ax
    )


def wait_cdf(runs: Sequence[TableRun], ax: Any = None, *, positions: Sequence[int] | None = None) -> Any:
    """Draw the cumulative distribution of the time that finished jobs spent without GPUs, pauses included."""
    values = [_wait_s(run) for run in runs]
    return distribution(
        runs, values, quantity="time without GPUs (s)", items="finished jobs", positions=positions, ax=ax
    )


def jct_by_arrival(runs: Sequence[TableRun], ax: Any = None, *, positions: Sequence[int] | None = None) -> Any:
    """Draw completion times over arrival dates: a point for each finished job, and a line of binned means."""
    figure, (part,) = canvas(ax)
    unit_s = time_axis(part, runs)
    jct_unit_s, jct_unit = time_unit(max((one.max() for run in runs if len(one := _jct_s(run))), default=0.0))
    for position, run in zip(positions or range(len(runs)), runs, strict=True):
        jct_s, release_s = _jct_s(run), run.tasks["release_s"][is_finished(run.tasks["state"])]
        if not len(jct_s):
            continue
        edges_s = np.linspace(release_s.min(), release_s.max(), N_BINS + 1)
        counts, _ = np.histogram(release_s, edges_s)
        sums, _ = np.histogram(release_s, edges_s, weights=jct_s)
        holds = counts > 0
        middles_s = (edges_s[:-1] + edges_s[1:]) / 2
        style: dict[str, Any] = {"color": colour(position)}
        part.plot(release_s / unit_s, jct_s / jct_unit_s, ".", markersize=3, alpha=0.35, rasterized=True, **style)
        part.plot(
            middles_s[holds] / unit_s,
            sums[holds] / counts[holds] / jct_unit_s,
            linestyle=line_style(position),
            label=run_label(run, runs),
            **style,
        )
    part.set_ylim(bottom=0)
    plain_numbers(part.yaxis)
    part.set_xlabel(part.get_xlabel().replace("time", "arrival"))
    part.set_ylabel(f"job completion time ({jct_unit})")
    write_title(part, "Completion times by arrival; lines: means of stretches", runs)
    legend(part, len(runs), of_runs=True)
    return figure


def groups(
    runs: Sequence[GpuRun],
    ax: Any = None,
    *,
    by: str = "priority",
    of: str = "jct_s",
    positions: Sequence[int] | None = None,
) -> Any:
    """Draw the times of finished jobs: a box for each priority, user or number of GPUs.

    Parameters
    ----------
    by
        A name of `GROUPS`.
    of
        A name of `JOB_TIMES`.
    """
    del positions
    column, words = JOB_TIMES[of]
    tables = [read_records(run.folder / JOBS_FILE) for run in runs]
    values: list[dict[str, NDArray[np.float64]]] = []
    for run, rows in zip(runs, tables, strict=True):
        keys = np.array([_cell(run, row, GROUPS[by]) for row in rows])
        times_s = np.array([_number(run, JOBS_FILE, row, column) for row in rows])
        values.append({name: times_s[keys == name] for name in np.unique(keys).tolist()})
    names = sorted({name for one in values for name in one}, key=_by_number)
    largest = sorted(names, key=lambda name: -max(len(one.get(name, ())) for one in values))[:MOST_GROUPS]
    shown = [name for name in names if name in largest]
    is_logarithmic = all(one[name].min() > 0 for one in values for name in shown if name in one)
    figure, part = boxes(runs, values, shown, items="jobs", is_logarithmic=is_logarithmic, ax=ax)
    part.set_xlabel(by)
    part.set_ylabel(words)
    write_title(part, f"{words[0].upper()}{words[1:].partition(' (')[0]} by {by}", runs)
    return figure


def utilization(
    runs: Sequence[GpuRun], ax: Any = None, *, of: str = "gpus", positions: Sequence[int] | None = None
) -> Any:
    """Draw the share of the GPUs, or of their FLOPS, that jobs hold over time."""
    steps = [_share_held(run, is_weighted=of == "flops") for run in runs]
    words = "share of the FLOPS in use" if of == "flops" else "share of the GPUs in use"
    return over_time(
        runs, steps, title=words[0].upper() + words[1:], quantity=words, unit="%", positions=positions, ax=ax
    )


def _share_held(run: GpuRun, *, is_weighted: bool) -> StepFunction:
    """Return the share that jobs hold, in percent; one that takes a part of a GPU holds that part."""
    rows = read_records(run.folder / GPUS_FILE)
    weights = np.array([_number(run, GPUS_FILE, row, "flops") if is_weighted else 1.0 for row in rows])
    if len(weights) < run.n_units:
        raise ReadError(run.folder / GPUS_FILE, f"holds {len(weights)} GPUs, expected {run.n_units}")
    part = np.ones(len(run.tasks))
    for row in read_records(run.folder / JOBS_FILE):
        number = _number(run, JOBS_FILE, row, "job_id")
        if not 0 <= number < len(part):
            raise ReadError(run.folder / JOBS_FILE, f"job_id {number:g} is not a job of the run")
        part[int(number)] = _number(run, JOBS_FILE, row, "gpu_milli") / 1000.0
    stays = run.stays[run.stays["n_units"] > 0]
    # All GPUs of a stay are of one type.
    held = stays["n_units"] * weights[run.stay_units[stays["first_unit"]]] * part[stays["task"]]
    end_s = np.where(stays["end_s"] >= 0, stays["end_s"], run.span_s[1])
    return levels(stays["start_s"], end_s, 100.0 * held / weights.sum())


def _cell(run: GpuRun, row: Mapping[str, Any], column: str) -> str:
    if row.get(column) is None:
        raise ReadError(run.folder / JOBS_FILE, f"has no column {column!r}")
    return str(row[column]) or "none"


def _number(run: GpuRun, file: str, row: Mapping[str, Any], column: str) -> float:
    try:
        return float_of(row[column])
    except (KeyError, TypeError, ValueError):
        raise ReadError(run.folder / file, f"{column} is {row.get(column)!r}, expected a number") from None


def _by_number(name: str) -> tuple[float, str]:
    try:
        return float_of(name), name
    except ValueError:
        return np.inf, name


def _jct_s(run: TableRun) -> NDArray[np.float64]:
    done = run.tasks[is_finished(run.tasks["state"])]
    return np.asarray(done["end_s"] - done["release_s"], dtype=np.float64)


def _wait_s(run: TableRun) -> NDArray[np.float64]:
    stays, held_s = run.stays[run.stays["end_s"] >= 0], np.zeros(len(run.tasks))
    np.add.at(held_s, stays["task"], stays["end_s"] - stays["start_s"])
    return np.maximum(0.0, _jct_s(run) - held_s[is_finished(run.tasks["state"])])


FIGURES = by_name(
    *TABLE_FIGURES.values(),
    Figure("gantt", "GPUs of each job over time", gantt, max_runs=6),
    Figure(
        "jct_cdf",
        "cumulative distribution of completion times",
        jct_cdf,
        on_page=(OnPage(SUMMARY, "Completion times"),),
    ),
    Figure(
        "wait_cdf",
        "cumulative distribution of the times of jobs without GPUs",
        wait_cdf,
        on_page=(OnPage("Jobs", "Waiting times"),),
    ),
    Figure(
        "groups",
        "boxes of the times of finished jobs by priority, user or GPUs",
        groups,
        max_runs=6,
        choices={"by": tuple(GROUPS), "of": tuple(JOB_TIMES)},
        needs=(JOBS_FILE,),
    ),
    Figure(
        "utilization",
        "share of the GPUs, or of their FLOPS, in use over time",
        utilization,
        choices={"of": ("gpus", "flops")},
        needs=(GPUS_FILE,),
        on_page=(OnPage("Over time", "FLOPS in use", choices={"of": "flops"}),),
    ),
    Figure(
        "jct_by_arrival",
        "completion times of jobs by arrival",
        jct_by_arrival,
        on_page=(OnPage("Jobs", "Completion times by arrival"),),
    ),
)
"""All of them by name."""
