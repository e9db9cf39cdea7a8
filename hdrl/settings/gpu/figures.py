"""What can be drawn of runs on GPU clusters: what can be drawn of all tables, and which job had which GPUs when."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hdrl.figures.figure import Figure, by_name
from hdrl.figures.rectangles import draw_rectangles
from hdrl.figures.style import WIDTH_IN, canvas, colour, rgb, run_label, time_axis
from hdrl.figures.tables import TABLE_FIGURES, TableRun

N_COLOURS = 8
"""Colours of jobs; every eighth job has the same."""

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


FIGURES = by_name(*TABLE_FIGURES.values(), Figure("gantt", "which job had which GPUs when", gantt, max_runs=6))
"""All of them by name."""
