"""Candidates of a comparison with their intervals: means, and ratios to the baseline."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hdrl.report.intervals import Compared, read_summary
from hdrl.report.style import FAINT, INK, PALETTE, canvas, plain_numbers, shortened, verbatim

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BETTER, WORSE, OPEN, BASELINE = PALETTE[2], PALETTE[1], "#8c8c8c", INK
SIGNIFICANT = 0.05
MAX_ROWS = 60


def comparison(folder: str | Path, ax: Axes | None = None, *, of: str | None = None) -> Figure:
    """Draw each candidate's mean and its ratio to the baseline, with the intervals that the comparison found.

    Parameters
    ----------
    folder
        Folder of the comparison.
    ax
        Where to draw the ratios alone; a new figure of both by default.
    of
        The metric; the one by which the comparison decides by default.

    Returns
    -------
    Figure
        The figure.

    Raises
    ------
    ReadError
        If the folder holds no comparison.
    UnknownName
        If it has no such metric.
    """
    from hdrl.settings.batch.metrics import METRICS

    rows = read_summary(folder, of)
    info = METRICS.get(rows[0].metric)
    less_is_better = info is None or info.lower_is_better is not False
    rows = sorted(rows, key=lambda row: _place(row, less_is_better=less_is_better))[:MAX_ROWS]
    size = (11.0, 1.9 + 0.3 * len(rows))
    figure, axes = canvas(ax, 1, 2 if ax is None else 1, size_in=size)
    colours = [_colour(row, less_is_better=less_is_better) for row in rows]
    words = rows[0].metric.replace("_", " ")
    if ax is None:
        _panel(axes[0], [(row.mean, row.mean_low, row.mean_high) for row in rows], colours)
        axes[0].set_xlabel(f"mean over the windows{'' if rows[0].unit == '1' else f' ({rows[0].unit})'}")
        axes[1].sharey(axes[0])
        axes[1].tick_params(labelleft=False)
    ratios = axes[-1]
    _panel(ratios, [(row.ratio, row.ratio_low, row.ratio_high) for row in rows], colours)
    baseline = next((row.candidate for row in rows if row.is_baseline), "the baseline")
    ratios.axvline(1.0, color=INK, linewidth=0.9, linestyle="--")
    ratios.set_xlabel(f"ratio to {verbatim(shortened(baseline))}")
    names = [verbatim(shortened(row.candidate)) + (" †" if row.n_unfinished else "") for row in rows]
    axes[0].set_yticks(range(len(rows)), names)
    axes[0].set_ylim(len(rows) - 0.4, -0.6)
    _entitle(axes[0], words, rows, less_is_better=less_is_better)
    return figure


def _place(row: Compared, *, less_is_better: bool) -> tuple[bool, float]:
    value = row.ratio if math.isfinite(row.ratio) else row.mean
    return not math.isfinite(value), value if less_is_better else -value


def _colour(row: Compared, *, less_is_better: bool) -> str:
    if row.is_baseline:
        return BASELINE
    if not row.p_holm < SIGNIFICANT or not (row.ratio_low > 1 or row.ratio_high < 1):
        return OPEN
    return BETTER if (row.ratio < 1) == less_is_better else WORSE


def _panel(ax: Axes, values: Sequence[tuple[float, float, float]], colours: Sequence[str]) -> None:
    for place, ((value, low, high), colour) in enumerate(zip(values, colours, strict=True)):
        if math.isfinite(low) and math.isfinite(high):
            ax.plot([low, high], [place, place], color=colour, linewidth=2.2, solid_capstyle="butt")
        ax.plot([value], [place], marker="o", markersize=6, color=colour)
    known = [number for row in values for number in row if math.isfinite(number)]
    if known and min(known) > 0 and max(known) > 4 * min(known):
        ax.set_xscale("log")
        plain_numbers(ax.xaxis)
        _ticks(ax, max(known) / min(known))
    ax.grid(visible=False, axis="y")


def _ticks(ax: Axes, spread: float) -> None:
    """Name more than powers of ten where the axis has too few of them."""
    if spread > 100:
        return
    from matplotlib.ticker import LogLocator, NullFormatter

    ax.xaxis.set_major_locator(LogLocator(10.0, subs=(1.0, 2.0, 5.0)))
    ax.xaxis.set_minor_formatter(NullFormatter())


def _entitle(ax: Axes, words: str, rows: Sequence[Compared], *, less_is_better: bool) -> None:
    windows = max(row.n_windows for row in rows)
    facts = [
        f"{windows:,} window{'s' * (windows != 1)}, {'less' if less_is_better else 'more'} is better",
        "green: shown to be better, orange: worse, grey: not shown",
    ]
    if any(row.n_unfinished for row in rows):
        facts.append("†: left jobs unrun")
    ax.set_title(words, loc="left", fontsize=12, fontweight="bold", pad=22)
    note = ax.annotate(
        "; ".join(facts),
        (0, 1),
        (0, 7),
        xycoords="axes fraction",
        textcoords="offset points",
        fontsize=9,
        color=FAINT,
        annotation_clip=False,
    )
    note.set_in_layout(False)  # it may reach over the other axes
