"""Metrics of runs side by side."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from hdrl.report.style import PALETTE, canvas, colour, plain_numbers, shortened, si_unit, time_unit, verbatim
from hdrl.settings.batch.metrics import METRICS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHOWN = (
    "energy_j",
    "makespan_s",
    "max_slowdown",
    "max_turnaround_s",
    "max_wait_s",
    "mean_slowdown",
    "mean_turnaround_s",
    "mean_wait_s",
)
"""The metrics of the picture, in two rows of four."""


def metrics_bars(values: Mapping[str, Mapping[str, float]], names: Sequence[str] = SHOWN) -> Figure:
    """Draw a bar per run for each of eight metrics, in two rows of four.

    Parameters
    ----------
    values
        For each run by name its metrics by name.
    names
        Which metrics.

    Returns
    -------
    Figure
        The figure.
    """
    n_columns = min(4, len(names))
    n_rows = math.ceil(len(names) / n_columns)
    figure, axes = canvas(None, n_rows, n_columns, size_in=(2.9 * n_columns, 2.7 * n_rows + 0.5))
    for ax, name in zip(axes, names, strict=False):
        numbers = [metrics.get(name, math.nan) for metrics in values.values()]
        factor, unit = _unit([number for number in numbers if math.isfinite(number)], METRICS[name].unit)
        scaled = [number / factor for number in numbers]
        bars = ax.bar(range(len(scaled)), scaled, color=[colour(index) for index in range(len(scaled))], width=0.7)
        if len(scaled) <= 6:
            texts = [_text(number) for number in scaled]
            ax.bar_label(bars, labels=texts, fontsize=7, padding=1)
        words = name.removesuffix("_s").removesuffix("_j").removesuffix("_w").removesuffix("_js").replace("_", " ")
        ax.set_title(words, loc="left", fontsize=10, fontweight="bold")
        ax.set_ylabel("" if unit == "1" else unit)
        ax.set_xticks([])
        ax.grid(visible=False, axis="x")
        ax.margins(y=0.12)
        plain_numbers(ax.yaxis)
    for ax in axes[len(names) :]:
        ax.set_axis_off()
    from matplotlib.patches import Patch

    handles = [Patch(color=colour(i), label=verbatim(shortened(run))) for i, run in enumerate(values)]
    figure.legend(handles=handles, loc="outside lower center", ncols=min(len(PALETTE), len(handles)), frameon=False)
    return figure


def _text(number: float) -> str:
    if math.isnan(number):
        return "-"
    return f"{number:,.0f}" if abs(number) >= 1000 else f"{number:.4g}"


def _unit(numbers: list[float], unit: str) -> tuple[float, str]:
    largest = max(map(abs, numbers), default=0.0)
    if unit == "s":
        return time_unit(largest)
    return si_unit(largest, unit) if unit in {"J", "W", "J s"} else (1.0, unit)
