"""What happened while an agent learnt, one number after the other."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hdrl.figures.folders import distinct_names
from hdrl.figures.logs import LOSSES, REWARDS, Log, learning_log
from hdrl.figures.numbers import time_unit
from hdrl.figures.style import (
    Axes,
    Figure,
    canvas,
    colour,
    legend,
    line_style,
    plain_numbers,
    shortened,
    verbatim,
    whole_numbers,
)

MIN_SMOOTHED = 40
"""From so many numbers on a running mean is drawn over them."""


def losses(folders: object, ax: Axes | None = None, *, places: Sequence[int] | None = None) -> Figure:
    """Draw the loss of each update."""
    return learning_curves(folders, LOSSES, ("Loss", "update", "loss"), ax=ax, places=places)


def rewards(folders: object, ax: Axes | None = None, *, places: Sequence[int] | None = None) -> Figure:
    """Draw the sum of the rewards of each episode."""
    return learning_curves(folders, REWARDS, ("Reward", "episode", "sum of rewards"), ax=ax, places=places)


def as_folders(folders: object) -> list[Path]:
    """Return folders given as one or as several."""
    if isinstance(folders, list | tuple):
        return [Path(folder) for folder in folders]
    return [Path(str(folders))]


def running_mean(values: NDArray[np.float64], width: int) -> NDArray[np.float64]:
    """Return the mean of each number and those around it; fewer at either end."""
    total = np.concatenate(([0.0], np.cumsum(values)))
    place = np.arange(len(values))
    low, high = np.maximum(0, place - (width - 1) // 2), np.minimum(len(values), place + width // 2 + 1)
    return np.asarray((total[high] - total[low]) / (high - low))


def learning_curves(
    folders: object,
    log: Log,
    words: tuple[str, str, str],
    *,
    is_time: bool = False,
    ax: Axes | None = None,
    places: Sequence[int] | None = None,
) -> Figure:
    """Draw the numbers of a log of trainings, one after the other; many are smoothed.

    ``words`` are the title and what the two axes show. With ``is_time``, numbers are seconds, shown in a unit that
    suits.
    """
    paths = as_folders(folders)
    logs = [learning_log(path, log) for path in paths]
    names = [verbatim(shortened(name)) for name in distinct_names(paths)]
    title, unit, quantity = words
    if is_time:
        seconds, time = time_unit(max(float(np.max(values)) for values in logs))
        logs, quantity = [values / seconds for values in logs], f"{quantity} ({time})"
    figure, (axes,) = canvas(ax)
    for place, name, values in zip(places or range(len(paths)), names, logs, strict=True):
        x = np.arange(1, len(values) + 1)
        style: dict[str, Any] = {"color": colour(place), "linestyle": line_style(place)}
        if len(values) < MIN_SMOOTHED:
            axes.plot(x, values, linewidth=1.4, marker="o", markersize=3, label=name, **style)
            continue
        axes.plot(x, values, linewidth=0.6, alpha=0.3, **style)
        axes.plot(x, running_mean(values, max(3, len(values) // 50)), linewidth=1.8, label=name, **style)
    axes.set_xlabel(unit)
    axes.set_ylabel(quantity)
    axes.margins(x=0.01)
    if max(map(len, logs)) > 1:
        whole_numbers(axes.xaxis)
    plain_numbers(axes.yaxis)
    of_one = f": {names[0]}" if len(names) == 1 else ""
    axes.set_title(f"{title} while learning{of_one}", loc="left", fontsize=12, fontweight="bold")
    legend(axes, len(names), of_runs=True)
    return figure
