"""Candidates of a comparison by their ranks, and how often each is within a factor of the baseline."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from hdrl.base.errors import ReadError
from hdrl.figures.numbers import metric_words
from hdrl.figures.style import (
    INK,
    Axes,
    Figure,
    below_title,
    canvas,
    colour,
    legend,
    plain_numbers,
    shortened,
    verbatim,
)
from hdrl.metrics.statistics import cliques, mean_ranks, performance_profile
from hdrl.metrics.tables import FloatArray
from hdrl.report.comparison import Compared, read_compared

MOST_CURVES = 8
"""Candidates that a profile shows: the best ones."""

FARTHEST = 10.0
"""Ratio up to which a profile is drawn."""

MOST_RANKED = 20
"""Candidates that are drawn: the best ones and the baseline."""


def profile(folder: str | Path, ax: Axes | None = None, *, of: str | None = None) -> Figure:
    """Draw in which share of the windows each candidate is within a factor of the baseline (a performance profile)."""
    return profile_of(read_compared(folder, of), ax)


def profile_of(compared: Compared, ax: Axes | None = None) -> Figure:
    """Draw the figure of `profile`, of a comparison that was read."""
    names, table = _table(compared, MOST_CURVES)
    others = [position for position, name in enumerate(names) if name != compared.result.baseline]
    is_positive = (table > 0).all(axis=1)
    if not is_positive.any() or not others or len(others) == len(names):
        raise ReadError(compared.folder, f"has no ratios of {compared.metric} to draw")
    table = table[is_positive]
    base = table[:, names.index(compared.result.baseline)]
    ratios = table[:, others] / base[:, np.newaxis]
    less = compared.infos[compared.metric].lower_is_better is not False
    low = min(0.9, max(1 / FARTHEST, float(ratios.min()) * 0.95))
    high = max(1.1, min(FARTHEST, float(ratios.max()) * 1.05))
    thresholds = np.geomspace(low, high, 400)
    figure, (axes,) = canvas(ax)
    axes.axvline(1.0, color=INK, linewidth=0.9, linestyle="--")
    for number, position in enumerate(others):
        shares = performance_profile(table[:, position], base, thresholds, lower_is_better=less)
        label = verbatim(shortened(names[position]))
        axes.step(thresholds, shares, where="post", color=colour(number), linewidth=1.8, label=label)
    axes.set_xscale("log")
    plain_numbers(axes.xaxis)
    axes.set_ylim(0, 1.02)
    bound = "at most" if less else "at least"
    axes.set_xlabel(f"ratio to {verbatim(shortened(compared.result.baseline))}")
    axes.set_ylabel(f"share of windows with {bound} this ratio")
    axes.set_title(f"{metric_words(compared.metric).capitalize()}: profile", loc="left", fontsize=12, fontweight="bold")
    legend(axes, len(others), of_runs=True)
    return figure


def critical_difference(folder: str | Path, ax: Axes | None = None, *, of: str | None = None) -> Figure:
    """Draw the mean ranks of candidates, and join those between which no difference is shown."""
    return ranks_of(read_compared(folder, of), ax)


def ranks_of(compared: Compared, ax: Axes | None = None) -> Figure:
    """Draw the figure of `critical_difference`, of a comparison that was read."""
    names, table = _table(compared, MOST_RANKED)
    return drawn_ranks(
        names,
        table,
        ax,
        marked=compared.result.baseline,
        what=metric_words(compared.metric),
        lower_is_better=compared.infos[compared.metric].lower_is_better is not False,
        level=round(1 - compared.confidence, 12),
    )


def drawn_ranks(
    names: Sequence[str],
    table: FloatArray,
    ax: Axes | None = None,
    *,
    marked: str = "",
    what: str,
    lower_is_better: bool,
    level: float,
) -> Figure:
    """Draw the mean ranks of a table, and join those between which no difference is shown.

    ``table`` has a row per window and a column per name; ``what`` is the metric in words.
    """
    ranks = mean_ranks(table, lower_is_better=lower_is_better)
    order = np.argsort(ranks, kind="stable").tolist()
    joined = cliques(table, lower_is_better=lower_is_better, level=level)
    figure, (axes,) = canvas(ax, 1, 1, size_in=(9.0, 2.0 + 0.3 * len(order)))
    for position, which in enumerate(order):
        shade = INK if names[which] == marked else colour(0)
        axes.plot([ranks[which]], [position], "o", markersize=7, color=shade)
        axes.annotate(
            f"{ranks[which]:.2f}", (ranks[which], position), (8, 0), textcoords="offset points", va="center", fontsize=9
        )
    rightmost = float(ranks.max()) + 0.14 * len(order)
    for number, clique in enumerate(joined):
        rows = [order.index(which) for which in clique]
        level = rightmost + 0.04 * len(order) * (number + 1)
        axes.plot([level, level], [min(rows) - 0.2, max(rows) + 0.2], color=INK, linewidth=4, solid_capstyle="butt")
    axes.set_yticks(range(len(order)), [verbatim(shortened(names[which])) for which in order])
    axes.set_ylim(len(order) - 0.4, -0.6)
    axes.set_xlim(0.8, rightmost + 0.04 * len(order) * (len(joined) + 1))
    axes.grid(visible=False, axis="y")
    axes.set_xlabel("mean rank (1: best)")
    title = f"{what.capitalize()}: mean ranks"
    axes.set_title(title, loc="left", fontsize=12, fontweight="bold", pad=22)
    below_title(axes, f"{len(table):,} windows; bars join those between which no difference is shown")
    return figure


def _table(compared: Compared, most: int) -> tuple[list[str], FloatArray]:
    """Return the best candidates and the baseline, and their means in the windows in which all have one."""
    means = compared.means_of_windows()
    rows = [row for row in compared.rows(compared.metric) if row.candidate in means]
    names = [row.candidate for row in rows][:most]
    if compared.result.baseline not in names and compared.result.baseline in means:
        names[-1:] = [compared.result.baseline]
    n_windows = max((len(means[name]) for name in names), default=0)
    names = [name for name in names if len(means[name]) == n_windows and not np.isnan(means[name]).all()]
    if not names:
        raise ReadError(compared.folder, "has no results of single windows")
    table = np.stack([means[name] for name in names], axis=1)
    table = table[~np.isnan(table).any(axis=1)]
    if not len(table):
        raise ReadError(compared.folder, "has no window in which all candidates have a number")
    return names, table
