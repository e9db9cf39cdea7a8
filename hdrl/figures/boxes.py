"""Results of groups of items: boxes side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hdrl.figures.figure import Drawn
from hdrl.figures.steps import FloatArray
from hdrl.figures.style import INK, Axes, Figure, canvas, colour, legend, plain_numbers, run_label


def boxes(
    runs: Sequence[Drawn],
    values: Sequence[Mapping[str, FloatArray]],
    groups: Sequence[str],
    *,
    items: str,
    is_logarithmic: bool,
    positions: Sequence[int] | None = None,
    ax: Axes | None = None,
) -> tuple[Figure, Axes]:
    """Draw a box per group: quarter, median and three quarters; whiskers at 5 % and 95 %, a cross at the mean.

    Groups without any number are left out; ``items`` are counted below each. With ``is_logarithmic`` all numbers are
    above 0, else at most 1. Return the figure, and the axes for titles and names.
    """
    figure, (axes,) = canvas(ax, size_in=(11.0, 4.8))
    width = 0.8 / len(runs)
    handles = []
    for index, (run, numbers) in enumerate(zip(runs, values, strict=True)):
        at = [
            position + (index - (len(runs) - 1) / 2) * width for position, name in enumerate(groups) if name in numbers
        ]
        face = colour(index if positions is None else positions[index])
        drawn = _boxes(axes, [numbers[name] for name in groups if name in numbers], at, width * 0.85, face)
        handles.append((drawn, run_label(run, runs)))
    n_items = {name: max(len(numbers.get(name, ())) for numbers in values) for name in groups}
    axes.set_xticks(range(len(groups)), [f"{name}\n{n_items[name]:,} {items}" for name in groups], fontsize=8)
    if len(groups) > 9:
        axes.tick_params("x", rotation=90)
    axes.grid(visible=False, axis="x")
    axes.set_yscale("log" if is_logarithmic else "symlog")
    if not is_logarithmic:
        axes.set_ylim(bottom=0)
    plain_numbers(axes.yaxis)
    _legend(axes, handles)
    return figure, axes


def _boxes(ax: Axes, values: list[FloatArray], at: list[float], width: float, face: str) -> Any:
    statistics = []
    for numbers in values:
        low, quarter, median, three_quarters, high = np.percentile(numbers, (5, 25, 50, 75, 95))
        statistics.append(
            {"whislo": low, "q1": quarter, "med": median, "q3": three_quarters, "whishi": high, "mean": numbers.mean()}
        )
    drawn = ax.bxp(
        statistics,
        positions=at,
        widths=width,
        showfliers=False,
        showmeans=True,
        patch_artist=True,
        manage_ticks=False,
        boxprops={"facecolor": face, "alpha": 0.55, "edgecolor": face},
        medianprops={"color": INK, "linewidth": 1.4},
        whiskerprops={"color": face},
        capprops={"color": face},
        meanprops={"marker": "x", "markeredgecolor": INK, "markersize": 5},
    )
    return drawn["boxes"][0] if drawn["boxes"] else None


def _legend(ax: Axes, handles: list[tuple[Any, str]]) -> None:
    for patch, label in handles:
        if patch is not None:
            patch.set_label(label)
    legend(ax, len(handles), of_runs=True, handles=[patch for patch, _ in handles if patch is not None])
