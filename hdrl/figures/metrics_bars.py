"""Metrics of runs side by side."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

from hdrl.base.errors import OptionsError
from hdrl.figures.numbers import metric_words, number_words, si_unit, time_unit
from hdrl.figures.style import (
    PALETTE,
    Figure,
    canvas,
    check_format,
    colour,
    default_look,
    plain_numbers,
    save,
    shortened,
    verbatim,
)
from hdrl.metrics.catalogue import MetricInfo
from hdrl.metrics.side_by_side import SideBySide

MOST_BARS = 8
"""Metrics of a picture at most, in two rows of four."""


def save_bars(table: SideBySide, path: str | Path) -> None:
    """Save metrics of runs side by side as bars."""
    check_format(Path(path))
    if not table.drawn:
        raise OptionsError("no metric to draw was chosen")
    with default_look():
        save(metrics_bars(table.by_run, {name: table.infos[name] for name in table.drawn}), path)


def metrics_bars(values: Mapping[str, Mapping[str, float]], metrics: Mapping[str, MetricInfo]) -> Figure:
    """Draw a bar per run for each of some metrics, four in a row."""
    n_columns = min(4, len(metrics))
    n_rows = math.ceil(len(metrics) / n_columns)
    figure, axes = canvas(None, n_rows, n_columns, size_in=(2.9 * n_columns, 2.7 * n_rows + 0.5))
    for ax, (name, info) in zip(axes, metrics.items(), strict=False):
        numbers = [of_run.get(name, math.nan) for of_run in values.values()]
        factor, unit = _unit([number for number in numbers if math.isfinite(number)], info.unit)
        scaled = [number / factor for number in numbers]
        bars = ax.bar(range(len(scaled)), scaled, color=[colour(index) for index in range(len(scaled))], width=0.7)
        if len(scaled) <= 6:
            texts = [number_words(number) for number in scaled]
            ax.bar_label(bars, labels=texts, fontsize=7, padding=1)
        ax.set_title(metric_words(name), loc="left", fontsize=10, fontweight="bold")
        ax.set_ylabel("" if unit == "1" else unit)
        ax.set_xticks([])
        ax.grid(visible=False, axis="x")
        ax.margins(y=0.12)
        plain_numbers(ax.yaxis)
    for ax in axes[len(metrics) :]:
        ax.set_axis_off()
    from matplotlib.patches import Patch

    handles = [Patch(color=colour(i), label=verbatim(shortened(run))) for i, run in enumerate(values)]
    figure.legend(handles=handles, loc="outside lower center", ncols=min(len(PALETTE), len(handles)), frameon=False)
    return figure


def _unit(numbers: list[float], unit: str) -> tuple[float, str]:
    largest = max(map(abs, numbers), default=0.0)
    if unit == "s":
        return time_unit(largest)
    return si_unit(largest, unit) if unit in {"J", "W", "J s"} else (1.0, unit)
