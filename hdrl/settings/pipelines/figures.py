"""Pictures of pipelines: who ran where, with releases and deadlines; misses by configuration; by utilisation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hdrl.errors import MissingExtra
from hdrl.settings.pipelines.metrics import wilson
from hdrl.settings.pipelines.trace import PipelineTrace

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442", "#6a6a6a")
"""Colours that everybody can tell apart, one for each pipeline in turn."""

MISSED = "#b00020"

MAX_LABELS = 200
"""How many runs are labelled at most."""


def gantt(trace: PipelineTrace, ax: Axes | None = None, *, labels: bool = True) -> Figure:
    """Draw what ran on which unit, and below it releases and deadlines of every pipeline.

    A colour stands for a pipeline, a number in a bar for the kernels that it ran. Arrows up are releases, arrows down
    deadlines, red where they were missed; the end of an instance that missed its deadline is a red cross.

    Parameters
    ----------
    trace
        What happened.
    ax
        Where to draw; a new figure by default.
    labels
        Whether bars that are wide enough say which kernels they ran.

    Returns
    -------
    Figure
        The figure.
    """
    machine, load = trace.machine, trace.load
    n_units, n_pipelines = machine.n_units, len(load.pipelines)
    figure, ax = _axes(ax, 1.2 + 0.45 * (n_units + n_pipelines))
    first_us = int(load.instances["release_us"].min())
    last_us = int(max(trace.end_us.max(), load.instances["deadline_us"].max()))
    ax.set_xlim(first_us / 1e6, last_us / 1e6)
    pipelines = load.instances["pipeline"][trace.runs["instance"]]
    for unit in range(n_units):
        own = trace.runs["unit"] == unit
        spans = np.column_stack([trace.runs["start_us"][own], trace.runs["end_us"][own] - trace.runs["start_us"][own]])
        colours = [COLOURS[number % len(COLOURS)] for number in pipelines[own].tolist()]
        ax.broken_barh((spans / 1e6).tolist(), (unit - 0.4, 0.8), facecolors=colours, edgecolors="white", linewidth=0.5)
    if labels:
        _label(ax, trace, pipelines, last_us - first_us)
    for number in range(n_pipelines):
        _arrows(ax, trace, number, n_units + number)
    ax.set_yticks(range(n_units + n_pipelines), [*machine.labels, *(one.name for one in load.pipelines)])
    ax.set_ylim(n_units + n_pipelines - 0.4, -0.6)
    ax.set_xlabel("time (s)")
    n_missed = int(trace.is_missed.sum())
    who = f"{trace.info['policy']}: " if "policy" in trace.info else ""
    ax.set_title(f"{who}{n_missed} of {load.n_items} deadlines missed, {load.name}", loc="left", fontsize=10)
    return figure


def _label(ax: Axes, trace: PipelineTrace, pipelines: NDArray[Any], span_us: int) -> None:
    widths = trace.runs["end_us"] - trace.runs["start_us"]
    for place in np.argsort(-widths, kind="stable")[:MAX_LABELS].tolist():
        one = trace.runs[place]
        members = trace.load.pipelines[int(pipelines[place])].options[int(one["option"])].kernels
        text = str(members[0]) if len(members) == 1 else f"{members[0]}-{members[-1]}"
        if widths[place] < 0.012 * len(text) * span_us:
            continue
        middle = (one["start_us"] + one["end_us"]) / 2e6
        ax.text(middle, one["unit"], text, ha="center", va="center", fontsize=7, color="white", clip_on=True)


def _arrows(ax: Axes, trace: PipelineTrace, number: int, row: int) -> None:
    own = trace.load.instances["pipeline"] == number
    table, colour = trace.load.instances[own], COLOURS[number % len(COLOURS)]
    missed = trace.is_missed[own]
    ax.plot(table["release_us"] / 1e6, np.full(len(table), row + 0.15), "^", color=colour, markersize=5)
    for is_missed, shade in ((False, colour), (True, MISSED)):
        dates = table["deadline_us"][missed == is_missed] / 1e6
        ax.plot(dates, np.full(len(dates), row - 0.15), "v", color=shade, markersize=5)
    ends = trace.end_us[own][missed] / 1e6
    ax.plot(ends, np.full(len(ends), row), "x", color=MISSED, markersize=5)


def by_configuration(misses: Mapping[str, Sequence[tuple[int, int]]], ax: Axes | None = None) -> Figure:
    """Draw the share of deadlines that policies miss in each configuration.

    Parameters
    ----------
    misses
        For each policy, missed and released instances of each configuration.
    ax
        Where to draw; a new figure by default.

    Returns
    -------
    Figure
        The figure.
    """
    figure, ax = _axes(ax, 3.6)
    for place, (name, counts) in enumerate(misses.items()):
        shares = [n_missed / n for n_missed, n in counts]
        ax.step(range(len(shares)), shares, where="mid", label=name, color=COLOURS[place % len(COLOURS)])
    ax.set_xlabel("configuration")
    ax.set_ylabel("share of deadlines missed")
    ax.set_ylim(-0.02, 1.02)
    ax.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), fontsize=8, frameon=False)
    return figure


def by_utilization(misses: Mapping[str, Mapping[float, tuple[int, int]]], ax: Axes | None = None) -> Figure:
    """Draw the share of deadlines that policies miss on generated sets over their utilisation, with 95 % intervals.

    Parameters
    ----------
    misses
        For each policy, missed and released instances by utilisation.
    ax
        Where to draw; a new figure by default.

    Returns
    -------
    Figure
        The figure.
    """
    figure, ax = _axes(ax, 3.6)
    for place, (name, found) in enumerate(misses.items()):
        x = sorted(found)
        shares = np.array([found[one][0] / found[one][1] for one in x])
        low, high = np.array([wilson(*found[one]) for one in x]).T
        colour = COLOURS[place % len(COLOURS)]
        ax.plot(x, shares, marker="o", markersize=3, label=name, color=colour)
        ax.fill_between(x, low, high, alpha=0.15, color=colour, linewidth=0)
    ax.set_xlabel("utilisation (least unit time needed / unit time)")
    ax.set_ylabel("share of deadlines missed")
    ax.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), fontsize=8, frameon=False)
    return figure


def _axes(ax: Axes | None, height_in: float) -> tuple[Figure, Axes]:
    if ax is not None:
        whole: Any = ax.figure
        return whole, ax
    try:
        from matplotlib.figure import Figure as New
    except ImportError:
        raise MissingExtra("matplotlib", "report") from None
    figure = New(figsize=(11.0, height_in), layout="constrained")
    only: Any = figure.subplots()
    return figure, only
