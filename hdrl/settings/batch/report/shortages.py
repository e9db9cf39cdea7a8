"""Shortages of cores, memory and memory bandwidth over time."""

from __future__ import annotations

import numpy as np

from hdrl.figures.rectangles import draw_rectangles
from hdrl.figures.style import (
    PALETTE,
    Axes,
    Figure,
    canvas,
    colour,
    common_span,
    legend,
    rgb,
    run_label,
    time_axis,
    whole_numbers,
    write_title,
)
from hdrl.settings.batch.report.data import n_processors, over_committed_spans, over_utilization
from hdrl.settings.batch.report.runs import as_runs, in_common

N_BINS = 60
LARGEST_PT2 = 500.0
"""Area of the largest bubble in square points."""


def core_bubbles(runs: object, ax: Axes | None = None) -> Figure:
    """Draw the shortages of cores: a bubble per interval of time and run for jobs that found too few."""
    return _bubbles(runs, ax, "core_s", "Too few free cores")


def mem_bubbles(runs: object, ax: Axes | None = None) -> Figure:
    """Draw the shortages of memory: a bubble per interval of time and run for jobs that found too little."""
    return _bubbles(runs, ax, "memory_s", "Too little memory")


def _bubbles(runs: object, ax: Axes | None, field: str, title: str) -> Figure:
    from matplotlib.patches import Patch

    shown = as_runs(runs)
    dates = [np.asarray(getattr(over_utilization(run), field)) for run in shown]
    figure, (axes,) = canvas(ax)
    unit_s = time_axis(axes, shown)
    low_s, high_s = common_span(shown)
    edges_s = np.linspace(low_s, max(high_s, low_s + 1e-9), N_BINS + 1)
    counts = [np.histogram(of_run, edges_s)[0] for of_run in dates]
    largest = max(1, *(int(count.max()) for count in counts))
    middle = (edges_s[:-1] + edges_s[1:]) / 2 / unit_s
    labels = [f"{run_label(run, shown)}: {len(of_run):,}" for run, of_run in zip(shown, dates, strict=True)]
    for index, count in enumerate(counts):
        seen = count > 0
        axes.scatter(
            middle[seen],
            count[seen],
            s=8 + LARGEST_PT2 * count[seen] / largest,
            color=colour(index),
            alpha=0.55,
            linewidths=0.8,
            edgecolors="white",
        )
    axes.set_ylim(0, largest * 1.15)
    whole_numbers(axes.yaxis)
    unit = axes.get_xlabel().rpartition("(")[2].rstrip(")")
    axes.set_ylabel(f"times per {(edges_s[1] - edges_s[0]) / unit_s:.2g} {unit}")
    write_title(axes, f"{title} for the job chosen next", shown, in_common(shown))
    legend(axes, len(shown), handles=[Patch(color=colour(i), label=label) for i, label in enumerate(labels)])
    if largest == 1 and not any(count.any() for count in counts):
        axes.text(0.5, 0.5, "never", transform=axes.transAxes, ha="center", va="center", fontsize=12)
    return figure


def mem_bw_overutilization(runs: object, ax: Axes | None = None) -> Figure:
    """Draw the spans in which jobs wanted more memory bandwidth than a processor has; a part of the figure per run."""
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
        write_title(part, "Over-committed memory bandwidth", [run], in_common([run]))
        if not len(processor):
            part.text(0.5, 0.5, "never", transform=part.transAxes, ha="center", va="center", fontsize=12)
        if part is not axes[-1]:
            part.set_xlabel("")
    return figure
