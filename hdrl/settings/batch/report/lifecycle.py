"""The life of each job: how long it waited, and how long it ran."""

from __future__ import annotations

import numpy as np

from hdrl.figures.rectangles import draw_rectangles
from hdrl.figures.style import PALETTE, Axes, Figure, canvas, entitle, legend, rgb, time_axis, whole_numbers
from hdrl.settings.batch.report.runs import RunData, as_runs, in_common

WAITING, RUNNING = PALETTE[4], PALETTE[0]


def lifecycle(runs: object, ax: Axes | None = None) -> Figure:
    """Draw a line per job in the order of submission: waiting, then running; a part of the figure per run.

    Parameters
    ----------
    runs
        What to draw, see `hdrl.settings.batch.report.runs.as_runs`.
    ax
        Where to draw one run; a new figure by default.
    """
    shown = as_runs(runs)
    figure, axes = canvas(ax, len(shown), size_in=(11.0, 1.6 + 3.6 * len(shown)))
    for part, run in zip(axes, shown, strict=True):
        _draw(part, run, shown)
        if part is not axes[-1]:
            part.set_xlabel("")
    return figure


def _draw(ax: Axes, run: RunData, runs: list[RunData]) -> None:
    from matplotlib.patches import Patch

    unit_s = time_axis(ax, runs)
    ax.set_ylim(max(1, run.n_jobs), 0)
    ax.set_ylabel("job, in order of submission")
    whole_numbers(ax.yaxis)
    ax.grid(visible=False)
    row = np.empty(run.n_jobs)
    row[np.argsort(run.submit_s, kind="stable")] = np.arange(run.n_jobs)
    until_s = run.span_s[1]
    rejected = run.state == "REJECTED"
    waits_until = np.where(np.isfinite(run.start_s), run.start_s, np.where(rejected, run.submit_s, until_s))
    runs_until = np.where(run.has_ended, run.end_s, np.where(np.isfinite(run.start_s), until_s, waits_until))
    begin = np.concatenate((run.submit_s, waits_until)) / unit_s
    end = np.concatenate((waits_until, runs_until)) / unit_s
    rows = np.concatenate((row, row))
    colour = np.repeat(np.arange(2), run.n_jobs)
    seen = end > begin
    draw_rectangles(
        ax,
        (begin[seen], end[seen]),
        (rows[seen], rows[seen] + 1),
        colour[seen],
        rgb([WAITING, RUNNING]),
        n_parts=len(runs),
        borders=False,
        min_opacity=0.6,
    )
    legend(ax, 2, handles=[Patch(color=WAITING, label="waits"), Patch(color=RUNNING, label="runs")])
    entitle(ax, "Life of the jobs", [run], in_common([run]))
