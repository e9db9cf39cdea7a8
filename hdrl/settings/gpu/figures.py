"""What can be drawn of runs on GPU clusters: what can be drawn of all tables, and which job had which GPUs when."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hdrl.figures.distribution import distribution
from hdrl.figures.figure import SUMMARY, Figure, OnPage, by_name
from hdrl.figures.rectangles import draw_rectangles
from hdrl.figures.style import (
    WIDTH_IN,
    canvas,
    colour,
    entitle,
    legend,
    line_style,
    plain_numbers,
    rgb,
    run_label,
    time_axis,
)
from hdrl.figures.tables import TABLE_FIGURES, TableRun
from hdrl.metrics.tasks import is_finished

N_COLOURS = 8
"""Colours of jobs; every eighth job has the same."""

N_BINS = 20
"""Stretches of arrival dates of which a mean is drawn."""

MOST_IN = 12.0
"""Height of a chart in inches at most."""


def gantt(runs: Sequence[TableRun], ax: Any = None, *, places: Sequence[int] | None = None) -> Any:
    """Draw which job had which GPUs when, a row for each GPU and a part for each run.

    Colours tell neighbouring jobs apart. A job that was preempted has several rectangles of its colour.

    Parameters
    ----------
    ax
        Axes to draw one run on; new ones by default.
    places
        Not looked at: colours are those of jobs.
    """
    del places
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


def jct_cdf(runs: Sequence[TableRun], ax: Any = None, *, places: Sequence[int] | None = None) -> Any:
    """Draw which share of the finished jobs was done within which time of their arrival.

    Parameters
    ----------
    ax
        Axes to draw on; new ones by default.
    places
        For each run its position among all of a page, for its colour.
    """
    values = [_jct_s(run) for run in runs]
    return distribution(runs, values, quantity="job completion time (s)", items="finished jobs", places=places, ax=ax)


def wait_cdf(runs: Sequence[TableRun], ax: Any = None, *, places: Sequence[int] | None = None) -> Any:
    """Draw which share of the finished jobs was without GPUs for how long, pauses included.

    Parameters
    ----------
    runs, ax, places
        As in `jct_cdf`.
    """
    values = [_wait_s(run) for run in runs]
    return distribution(runs, values, quantity="time without GPUs (s)", items="finished jobs", places=places, ax=ax)


def jct_by_arrival(runs: Sequence[TableRun], ax: Any = None, *, places: Sequence[int] | None = None) -> Any:
    """Draw completion times over arrival dates: a point for each finished job, and a line through means of stretches.

    Parameters
    ----------
    runs, ax, places
        As in `jct_cdf`.
    """
    figure, (part,) = canvas(ax)
    unit_s = time_axis(part, runs)
    for place, run in zip(places or range(len(runs)), runs, strict=True):
        jct_s, release_s = _jct_s(run), run.tasks["release_s"][is_finished(run.tasks["state"])]
        if not len(jct_s):
            continue
        edges_s = np.linspace(release_s.min(), release_s.max(), N_BINS + 1)
        counts, _ = np.histogram(release_s, edges_s)
        sums, _ = np.histogram(release_s, edges_s, weights=jct_s)
        holds = counts > 0
        middles_s = (edges_s[:-1] + edges_s[1:]) / 2
        style: dict[str, Any] = {"color": colour(place)}
        part.plot(release_s / unit_s, jct_s, ".", markersize=3, alpha=0.35, rasterized=True, **style)
        part.plot(
            middles_s[holds] / unit_s,
            sums[holds] / counts[holds],
            linestyle=line_style(place),
            label=run_label(run, runs),
            **style,
        )
    part.set_ylim(bottom=0)
    plain_numbers(part.yaxis)
    part.set_xlabel(part.get_xlabel().replace("time", "arrival"))
    part.set_ylabel("job completion time (s)")
    entitle(part, "Completion times by arrival; lines: means of stretches", runs)
    legend(part, len(runs), of_runs=True)
    return figure


def _jct_s(run: TableRun) -> NDArray[np.float64]:
    done = run.tasks[is_finished(run.tasks["state"])]
    return np.asarray(done["end_s"] - done["release_s"], dtype=np.float64)


def _wait_s(run: TableRun) -> NDArray[np.float64]:
    stays, held_s = run.stays[run.stays["end_s"] >= 0], np.zeros(len(run.tasks))
    np.add.at(held_s, stays["task"], stays["end_s"] - stays["start_s"])
    return np.maximum(0.0, _jct_s(run) - held_s[is_finished(run.tasks["state"])])


FIGURES = by_name(
    *TABLE_FIGURES.values(),
    Figure("gantt", "which job had which GPUs when", gantt, max_runs=6),
    Figure("jct_cdf", "completion times of jobs, cumulated", jct_cdf, on_page=(OnPage(SUMMARY, "Completion times"),)),
    Figure("wait_cdf", "times of jobs without GPUs, cumulated", wait_cdf, on_page=(OnPage("Jobs", "Waiting times"),)),
    Figure(
        "jct_by_arrival",
        "completion times of jobs by arrival",
        jct_by_arrival,
        on_page=(OnPage("Jobs", "Completion times by arrival"),),
    ),
)
"""All of them by name."""
