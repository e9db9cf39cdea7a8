"""Candidates of a comparison by their ranks, and how often each is within a factor of the baseline."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from hdrl.errors import ReadError
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
MOST_RANKED = 20
"""Candidates that are drawn: the best ones and the baseline."""


def profile(folder: str | Path, ax: Axes | None = None, *, of: str | None = None) -> Figure:
    """Draw in which share of the windows each candidate is within a factor of the baseline (a performance profile).

    Parameters
    ----------
    folder
        Folder of the comparison.
    ax
        Where to draw; a new figure by default.
    of
        The metric; the one by which the comparison decides by default.

    Raises
    ------
    ReadError
        If the folder holds no comparison, or there is no window with ratios.
    UnknownName
        If it has no such metric.
    """
    compared = read_compared(folder, of)
    names, table = _table(compared, MOST_CURVES)
    base = table[:, names.index(compared.result.baseline)]
    others = [place for place, name in enumerate(names) if name != compared.result.baseline]
    is_positive = (table > 0).all(axis=1)
    if not is_positive.any() or not others:
        raise ReadError(compared.folder, f"has no ratios of {compared.metric} to draw")
    table, base = table[is_positive], base[is_positive]
    ratios = table[:, others] / base[:, np.newaxis]
    less = compared.less_is_better(compared.metric)
    low, high = min(0.9, float(ratios.min()) * 0.95), max(1.1, float(ratios.max()) * 1.05)
    thresholds = np.geomspace(low, high, 400)
    figure, (axes,) = canvas(ax)
    axes.axvline(1.0, color=INK, linewidth=0.9, linestyle="--")
    for number, place in enumerate(others):
        shares = performance_profile(table[:, place], base, thresholds, lower_is_better=less)
        label = verbatim(shortened(names[place]))
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
    """Draw the mean ranks of candidates, and join those between which no difference is shown.

    Parameters
    ----------
    folder, ax, of
        As in `profile`.

    Raises
    ------
    ReadError
        If the folder holds no comparison, or no window in which all candidates have a number.
    UnknownName
        If it has no such metric.
    """
    compared = read_compared(folder, of)
    names, table = _table(compared, MOST_RANKED)
    less = compared.less_is_better(compared.metric)
    ranks = mean_ranks(table, lower_is_better=less)
    order = np.argsort(ranks, kind="stable").tolist()
    joined = cliques(table, lower_is_better=less, level=round(1 - compared.confidence, 12))
    n_levels = (len(order) + 1) // 2
    figure, (axes,) = canvas(ax, 1, 1, size_in=(8.0, 1.6 + 0.25 * n_levels + 0.12 * len(joined)))
    bars = 0.35 * len(joined)
    for row, clique in enumerate(joined):
        ends = [float(ranks[place]) for place in clique]
        axes.plot([min(ends) - 0.03, max(ends) + 0.03], [-0.35 - 0.35 * row] * 2, color=INK, linewidth=4)
    for place, which in enumerate(order):
        # The better half is named on the left, the worse one on the right.
        is_left = place < n_levels
        level = -bars - 0.6 - (place if is_left else len(order) - 1 - place)
        edge = 1 - 0.02 * len(order) if is_left else len(order) + 0.02 * len(order)
        shade = INK if names[which] == compared.result.baseline else colour(place)
        axes.plot([ranks[which], ranks[which], edge], [0, level, level], color=shade, linewidth=1.2)
        label = f"{verbatim(shortened(names[which]))}  {ranks[which]:.2f}"
        axes.annotate(
            label,
            (edge, level),
            (-4 if is_left else 4, 0),
            textcoords="offset points",
            ha="right" if is_left else "left",
            va="center",
            fontsize=9,
        )
    axes.set_xlim(1, max(2, len(order)))
    axes.set_ylim(-bars - 0.8 - n_levels, 0)
    axes.xaxis.tick_top()
    axes.set_yticks([])
    axes.grid(visible=False)
    axes.spines[["left", "right", "bottom"]].set_visible(False)
    axes.spines["top"].set_visible(True)
    axes.set_title(
        f"{metric_words(compared.metric).capitalize()}: mean ranks", loc="left", fontsize=12, fontweight="bold", pad=32
    )
    below_title(axes, f"{len(table):,} windows, 1 is the best; joined: no difference shown (Wilcoxon, Holm)")
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
