"""A quantity over time, the runs over each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hdrl.figures.figure import Drawn
from hdrl.figures.numbers import si_unit
from hdrl.figures.steps import StepFunction
from hdrl.figures.style import (
    Axes,
    Figure,
    canvas,
    colour,
    common_span,
    legend,
    line_style,
    run_label,
    time_axis,
    whole_numbers,
    write_title,
)

N_BINS = 300
"""Bins of a long run: as many as the eye can tell apart."""

N_BINS_TOGETHER = 120
"""Number of bins of several long runs over each other; only their means are shown."""

MAX_STEPS = 600
"""Up to this many steps the function is drawn as it is."""


def over_time(
    runs: Sequence[Drawn],
    steps: Sequence[StepFunction],
    *,
    title: str,
    quantity: str,
    unit: str | None = None,
    facts: str = "",
    positions: Sequence[int] | None = None,
    ax: Axes | None = None,
) -> Figure:
    """Draw a function of time for each run, each from its beginning to its end.

    ``unit`` gets a prefix that suits; it is ``None`` for whole numbers and the like.
    """
    figure, (axes,) = canvas(ax)
    unit_s = time_axis(axes, runs)
    factor = 1.0
    if unit is not None:
        factor, name = si_unit(max((float(np.max(one.values, initial=0.0)) for one in steps), default=0.0), unit)
        quantity = f"{quantity} ({name})"
    low_s, high_s = common_span(runs)
    for position, run, one in zip(positions or range(len(runs)), runs, steps, strict=True):
        scaled = StepFunction(one.edges_s / unit_s, one.values / factor)
        _draw(axes, scaled, position, run_label(run, runs), (high_s - low_s) / unit_s, is_alone=len(runs) == 1)
    axes.set_ylim(bottom=0)
    axes.set_ylabel(quantity)
    if unit is None:
        whole_numbers(axes.yaxis)
    write_title(axes, title, runs, facts)
    legend(axes, len(runs), of_runs=True)
    return figure


def _draw(ax: Axes, steps: StepFunction, index: int, label: str, width: float, *, is_alone: bool) -> None:
    style: dict[str, Any] = {"color": colour(index), "linestyle": line_style(index), "linewidth": 1.5, "label": label}
    if len(steps.values) <= MAX_STEPS:
        ax.stairs(steps.values, steps.edges_s if len(steps.edges_s) else [0.0], baseline=None, **style)
        return
    own = float(steps.edges_s[-1] - steps.edges_s[0])
    n_bins = N_BINS if is_alone else N_BINS_TOGETHER
    bins = steps.binned(max(1, round(n_bins * own / width)))
    # The line is the mean of the bin, the band goes from its smallest to its largest value.
    if is_alone:
        ax.stairs(bins.high, bins.edges, baseline=bins.low, fill=True, color=colour(index), alpha=0.18, linewidth=0)
    ax.stairs(bins.mean, bins.edges, baseline=None, **style)
