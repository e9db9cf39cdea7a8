"""When the memory bandwidth of which processor was over-committed."""

from __future__ import annotations

import numpy as np

from hdrl.figures.rectangles import draw_rectangles
from hdrl.figures.style import PALETTE, Axes, Figure, canvas, entitle, rgb, time_axis, whole_numbers
from hdrl.settings.batch.report.data import n_processors, over_committed_spans
from hdrl.settings.batch.report.runs import as_runs, in_common


def mem_bw_overutilization(runs: object, ax: Axes | None = None) -> Figure:
    """Draw the spans in which jobs wanted more memory bandwidth than a processor has; a part of the figure per run.

    Parameters
    ----------
    runs
        What to draw, see `hdrl.settings.batch.report.runs.as_runs`.
    ax
        Where to draw one run; a new figure by default.
    """
    shown = as_runs(runs)
    spans = [over_committed_spans(run) for run in shown]
    figure, axes = canvas(ax, len(shown), size_in=(11.0, 1.6 + 3.2 * len(shown)))
    for part, run, (processor, start_s, end_s) in zip(axes, shown, spans, strict=True):
        unit_s = time_axis(part, shown)
        part.set_ylim(0, max(int(np.max(processor, initial=0)) + 1, n_processors(run)))
        part.set_ylabel("processor")
        whole_numbers(part.yaxis)
        part.grid(visible=False)
        colour = np.zeros(len(processor), dtype=np.int64)
        rows = processor.astype(float)
        x = start_s / unit_s, end_s / unit_s
        draw_rectangles(part, x, (rows, rows + 1), colour, rgb(PALETTE[1:2]), n_parts=len(shown), borders=False)
        entitle(part, "Over-committed memory bandwidth", [run], in_common([run]))
        if not len(processor):
            part.text(0.5, 0.5, "never", transform=part.transAxes, ha="center", va="center", fontsize=12)
        if part is not axes[-1]:
            part.set_xlabel("")
    return figure
