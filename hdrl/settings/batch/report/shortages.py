"""When the job chosen next found too few free cores, or too little memory."""

from __future__ import annotations

import numpy as np

from hdrl.figures.style import (
    Axes,
    Figure,
    canvas,
    colour,
    common_span,
    entitle,
    legend,
    run_label,
    time_axis,
    whole_numbers,
)
from hdrl.settings.batch.report.data import over_utilization
from hdrl.settings.batch.report.runs import as_runs, in_common

N_BINS = 60
LARGEST_PT2 = 500.0
"""Area of the largest bubble in square points."""


def core_bubbles(runs: object, ax: Axes | None = None) -> Figure:
    """Draw how often the job chosen next found too few free cores: a bubble per interval of time and run.

    Parameters
    ----------
    runs
        What to draw, see `hdrl.settings.batch.report.runs.as_runs`.
    ax
        Where to draw; a new figure by default.
    """
    return _bubbles(runs, ax, "core_s", "Too few free cores")


def mem_bubbles(runs: object, ax: Axes | None = None) -> Figure:
    """Draw how often the job chosen next found too little memory: a bubble per interval of time and run.

    Parameters
    ----------
    runs
        What to draw, see `hdrl.settings.batch.report.runs.as_runs`.
    ax
        Where to draw; a new figure by default.
    """
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
    entitle(axes, f"{title} for the job chosen next", shown, in_common(shown))
    legend(axes, len(shown), handles=[Patch(color=colour(i), label=label) for i, label in enumerate(labels)])
    if largest == 1 and not any(count.any() for count in counts):
        axes.text(0.5, 0.5, "never", transform=axes.transAxes, ha="center", va="center", fontsize=12)
    return figure
