"""Quantities over time, the runs over each other: waiting jobs, share of cores in use, power."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from hdrl.report.data import RunData, Steps, as_runs
from hdrl.report.data import power as power_of
from hdrl.report.data import queue_size as queue_size_of
from hdrl.report.data import utilization as utilization_of
from hdrl.report.style import (
    canvas,
    colour,
    common_span,
    entitle,
    legend,
    line_style,
    run_label,
    si_unit,
    time_axis,
    whole_numbers,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

N_BINS = 300
"""Bins of a long run: as many as the eye can tell apart."""

N_BINS_TOGETHER = 120
"""Bins of several long runs over each other, of which only means are shown."""

MAX_STEPS = 600
"""Up to so many steps the function is drawn as it is."""


def queue_size(runs: object, ax: Axes | None = None) -> Figure:
    """Draw how many submitted jobs wait, over time.

    Parameters
    ----------
    runs
        What to draw, see `hdrl.report.data.as_runs`.
    ax
        Where to draw; a new figure by default.

    Returns
    -------
    Figure
        The figure.
    """
    return _over_time(as_runs(runs), ax, queue_size_of, "Waiting jobs", ("waiting jobs", None))


def utilization(runs: object, ax: Axes | None = None) -> Figure:
    """Draw the share of the cores that jobs hold, over time.

    Parameters
    ----------
    runs
        What to draw, see `hdrl.report.data.as_runs`.
    ax
        Where to draw; a new figure by default.

    Returns
    -------
    Figure
        The figure.
    """

    def percent(run: RunData) -> Steps:
        share = utilization_of(run)
        return Steps(share.edges_s, 100 * share.values)

    figure = _over_time(as_runs(runs), ax, percent, "Utilisation", ("cores in use (%)", None))
    axes = ax if ax is not None else figure.axes[0]
    axes.set_ylim(0, max(103.0, axes.get_ylim()[1]))
    return figure


def power(runs: object, ax: Axes | None = None) -> Figure:
    """Draw the power of all hosts, over time.

    Parameters
    ----------
    runs
        What to draw, see `hdrl.report.data.as_runs`.
    ax
        Where to draw; a new figure by default.

    Returns
    -------
    Figure
        The figure.
    """
    return _over_time(as_runs(runs), ax, power_of, "Power of all hosts", ("power", "W"))


def _over_time(
    runs: list[RunData],
    ax: Axes | None,
    quantity: Callable[[RunData], Steps],
    title: str,
    unit: tuple[str, str | None],
) -> Figure:
    all_steps = [quantity(run) for run in runs]
    figure, (axes,) = canvas(ax)
    unit_s = time_axis(axes, runs)
    words, base = unit
    factor = 1.0
    if base is not None:
        largest = max((float(np.max(steps.values, initial=0.0)) for steps in all_steps), default=0.0)
        factor, name = si_unit(largest, base)
        words = f"{words} ({name})"
    span_s = common_span(runs)
    for index, (run, steps) in enumerate(zip(runs, all_steps, strict=True)):
        label = run_label(run, runs)
        scaled = Steps(steps.edges_s / unit_s, steps.values / factor)
        _draw(axes, scaled, index, label, (span_s[1] - span_s[0]) / unit_s, is_alone=len(runs) == 1)
    axes.set_ylim(bottom=0)
    axes.set_ylabel(words)
    if base is None:
        whole_numbers(axes.yaxis)
    entitle(axes, title, runs)
    legend(axes, len(runs))
    return figure


def _draw(ax: Axes, steps: Steps, index: int, label: str, width: float, *, is_alone: bool) -> None:
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
