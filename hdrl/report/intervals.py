"""Candidates of a comparison with their intervals, and window by window."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from hdrl.experiment.compare.summary import SummaryRow
from hdrl.figures.numbers import metric_form, metric_words
from hdrl.figures.style import (
    FAINT,
    INK,
    PALETTE,
    Axes,
    Axis,
    Figure,
    below_title,
    canvas,
    colour,
    legend,
    plain_numbers,
    shortened,
    verbatim,
    whole_numbers,
)
from hdrl.metrics.catalogue import MetricInfo
from hdrl.report.comparison import Compared, read_compared

BETTER, WORSE, OPEN, BASELINE = PALETTE[2], PALETTE[1], "#8c8c8c", INK
MAX_ROWS = 60
LEARNED = "\N{BLACK DIAMOND}"
"""Mark of a candidate that was trained."""


ROOM = 0.12
"""Share of the width of a picture that a word needs."""


def comparison(folder: str | Path, ax: Axes | None = None, *, of: str | None = None) -> Figure:
    """Draw each candidate's mean and its ratio to the baseline, with the intervals that the comparison found.

    ``ax`` gets the ratios alone; without it, a new figure shows both.
    """
    compared = read_compared(folder, of)
    rows = compared.rows(compared.metric)[:MAX_ROWS]
    figure, axes = canvas(ax, 1, 2 if ax is None else 1, size_in=(11.0, 2.1 + 0.3 * len(rows)))
    if ax is None:
        form = metric_form(compared.metric, compared.infos[compared.metric], [row.mean for row in rows])
        means = [(row.mean, row.mean_low, row.mean_high) for row in rows]
        scaled = [tuple(number / form.divisor for number in numbers) for numbers in means]
        _panel(axes[0], compared, rows, scaled)
        axes[0].set_xlabel(f"mean over the windows{f' ({form.unit})' if form.unit else ''}")
        axes[1].sharey(axes[0])
        axes[1].tick_params(labelleft=False)
    ratios = axes[-1]
    _panel(ratios, compared, rows, [(row.ratio, row.ratio_low, row.ratio_high) for row in rows])
    ratios.axvline(1.0, color=INK, linewidth=0.9, linestyle="--")
    ratios.set_xlabel(f"ratio to {verbatim(shortened(compared.result.baseline))}")
    _sides(ratios, compared.infos[compared.metric])
    axes[0].set_yticks(range(len(rows)), [_name(compared, row) for row in rows])
    axes[0].set_ylim(len(rows) - 0.4, -0.9)
    _write_title(axes[0], compared, rows)
    return figure


def windows(
    compared: Compared, candidates: Sequence[str], ax: Axes | None = None, *, positions: Sequence[int] | None = None
) -> Figure:
    """Draw the ratio to the baseline in each window.

    ``positions`` are positions of the candidates among all, for their colours.
    """
    means = compared.means_of_windows()
    base = means[compared.result.baseline]
    figure, (axes,) = canvas(ax)
    axes.axhline(1.0, color=INK, linewidth=0.9, linestyle="--")
    for position, name in zip(positions or range(len(candidates)), candidates, strict=True):
        mine = means[name]
        known = (mine > 0) & (base > 0)
        label = verbatim(shortened(name))
        window = np.flatnonzero(known) + 1
        axes.plot(window, mine[known] / base[known], "o", markersize=6, color=colour(position), label=label)
    axes.set_yscale("log")
    plain_numbers(axes.yaxis)
    _ticks(axes.yaxis, axes.get_ylim())
    whole_numbers(axes.xaxis)
    axes.set_xlabel("window")
    axes.set_ylabel(f"ratio to {verbatim(shortened(compared.result.baseline))}")
    axes.set_title(f"{_words(compared)} in each window", loc="left", fontsize=12, fontweight="bold")
    legend(axes, len(candidates), of_runs=True)
    return figure


def _name(compared: Compared, row: SummaryRow) -> str:
    name = verbatim(shortened(row.candidate)) + (" †" if row.n_unfinished else "")
    return f"{LEARNED} {name}" if compared.is_learned(row.candidate) else name


def _colour(compared: Compared, row: SummaryRow) -> str:
    if row.is_baseline:
        return BASELINE
    better = compared.is_better(row)
    return OPEN if better is None else BETTER if better else WORSE


def _panel(ax: Axes, compared: Compared, rows: Sequence[SummaryRow], values: Sequence[tuple[float, ...]]) -> None:
    for position, (row, (value, low, high)) in enumerate(zip(rows, values, strict=True)):
        shade = _colour(compared, row)
        if math.isfinite(low) and math.isfinite(high):
            ax.plot([low, high], [position, position], color=shade, linewidth=2.2, solid_capstyle="butt")
        marker = "D" if compared.is_learned(row.candidate) else "o"
        ax.plot([value], [position], marker=marker, markersize=6, color=shade)
    known = [number for numbers in values for number in numbers if math.isfinite(number)]
    if known and min(known) > 0 and max(known) > 4 * min(known):
        ax.set_xscale("log")
        plain_numbers(ax.xaxis)
        _ticks(ax.xaxis, (min(known), max(known)))
    ax.grid(visible=False, axis="y")


def _ticks(axis: Axis, span: tuple[float, float]) -> None:
    """Name more than powers of ten where a logarithmic axis has too few of them."""
    if span[1] > 100 * span[0]:
        return
    from matplotlib.ticker import LogLocator, NullFormatter

    axis.set_major_locator(LogLocator(10.0, subs=(1.0, 2.0, 5.0)))
    axis.set_minor_formatter(NullFormatter())


def _sides(ax: Axes, info: MetricInfo) -> None:
    """Write on which side of 1 the better candidates are."""
    _make_room(ax)
    words = info.side(0.5), info.side(2.0)
    for text, side in zip(words, (-1, 1), strict=True):
        ax.annotate(
            text,
            (1.0, 1.0),
            (6 * side, -2),
            xycoords=("data", "axes fraction"),
            textcoords="offset points",
            ha="right" if side < 0 else "left",
            va="top",
            fontsize=9,
            color=FAINT,
            annotation_clip=False,
        ).set_in_layout(False)


def _make_room(ax: Axes) -> None:
    """Widen an axis until there is room for a word on each side of 1."""
    scale = ax.xaxis.get_transform()
    low, high, one = scale.transform([*ax.get_xlim(), 1.0])
    low = min(low, (one - ROOM * high) / (1 - ROOM))
    high = max(high, (one - ROOM * low) / (1 - ROOM))
    ax.set_xlim(*scale.inverted().transform([low, high]))


def _words(compared: Compared) -> str:
    return metric_words(compared.metric).capitalize()


def _write_title(ax: Axes, compared: Compared, rows: Sequence[SummaryRow]) -> None:
    n_windows = max(row.n_windows for row in rows)
    info = compared.infos[compared.metric]
    facts = [f"{n_windows:,} window{'s' * (n_windows != 1)}, {info.preference}"]
    if info.lower_is_better is not None:
        facts.append("green: shown to be better, orange: worse, grey: not shown")
    if any(compared.is_learned(row.candidate) for row in rows):
        facts.append(f"{LEARNED}: learned")
    if any(row.n_unfinished for row in rows):
        facts.append("†: left jobs unrun")
    ax.set_title(_words(compared), loc="left", fontsize=12, fontweight="bold", pad=22)
    below_title(ax, "; ".join(facts))
