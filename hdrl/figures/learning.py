"""Progress of training, one number after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hdrl.base.errors import OptionsError
from hdrl.figures.folders import distinct_names
from hdrl.figures.logs import LOSSES, REWARDS, LearningLog, action_probabilities, learning_log
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
"""From this many numbers on, a running mean is drawn over them."""


def losses(folders: object, ax: Axes | None = None, *, positions: Sequence[int] | None = None) -> Figure:
    """Draw the loss of each update."""
    return learning_curves(folders, LOSSES, ("Loss", "update", "loss"), ax=ax, positions=positions)


def rewards(folders: object, ax: Axes | None = None, *, positions: Sequence[int] | None = None) -> Figure:
    """Draw the sum of the rewards of each episode."""
    return learning_curves(folders, REWARDS, ("Reward", "episode", "sum of rewards"), ax=ax, positions=positions)


def as_folders(folders: object) -> list[Path]:
    """Return folders given as one or as several."""
    if isinstance(folders, list | tuple):
        return [Path(folder) for folder in folders]
    return [Path(str(folders))]


def running_mean(values: NDArray[np.float64], width: int) -> NDArray[np.float64]:
    """Return the mean of each number and those around it; fewer at either end."""
    total = np.concatenate(([0.0], np.cumsum(values)))
    position = np.arange(len(values))
    low, high = np.maximum(0, position - (width - 1) // 2), np.minimum(len(values), position + width // 2 + 1)
    return np.asarray((total[high] - total[low]) / (high - low))


def learning_curves(
    folders: object,
    log: LearningLog,
    words: tuple[str, str, str],
    *,
    is_time: bool = False,
    ax: Axes | None = None,
    positions: Sequence[int] | None = None,
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
    for position, name, values in zip(positions or range(len(paths)), names, logs, strict=True):
        x = np.arange(1, len(values) + 1)
        style: dict[str, Any] = {"color": colour(position), "linestyle": line_style(position)}
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


MAX_LINES = 8
"""Up to this many actions get a line each; more are rows of a map."""


def action_preferences(
    folders: object, ax: Axes | None = None, *, names_of: Callable[[Path], Sequence[str]] | None = None
) -> Figure:
    """Draw the probability of each action at the first decision of each run of a training."""
    paths = as_folders(folders)
    if len(paths) != 1:
        raise OptionsError(f"action_preferences shows one training, not {len(paths)}")
    table, found = action_probabilities(paths[0])
    n_actions, n_runs = table.shape
    names = found or (list(names_of(paths[0])) if names_of is not None else [])
    if len(names) != n_actions:
        names = [f"action {index}" for index in range(n_actions)]
    figure, (axes,) = canvas(ax, size_in=(10.0, max(4.6, 1.6 + 0.19 * n_actions) if n_actions > MAX_LINES else 4.6))
    if n_runs == 1:
        _bars(axes, table[:, 0], names)
    elif n_actions <= MAX_LINES:
        _lines(axes, table, names)
    else:
        _map(figure, axes, table, names)
    name = verbatim(shortened(distinct_names(paths)[0]))
    axes.set_title(f"Preferences at the first decision: {name}", loc="left", fontsize=12, fontweight="bold")
    return figure


def _bars(ax: Axes, values: NDArray[np.float64], names: list[str]) -> None:
    ax.barh(range(len(values)), 100 * values, color=colour(0))
    ax.set_yticks(range(len(values)), names, fontsize=8)
    ax.set_ylim(len(values) - 0.5, -0.5)
    ax.set_xlabel("probability (%)")
    ax.grid(visible=False, axis="y")


def _lines(ax: Axes, table: NDArray[np.float64], names: list[str]) -> None:
    for index, (row, name) in enumerate(zip(table, names, strict=True)):
        ax.plot(
            np.arange(1, len(row) + 1), 100 * row, color=colour(index), linestyle=line_style(index), label=name, lw=1.6
        )
    ax.set_ylim(0, 101)
    ax.set_xlabel("run")
    ax.set_ylabel("probability (%)")
    ax.margins(x=0.01)
    legend(ax, len(names))


def _map(figure: Figure, ax: Axes, table: NDArray[np.float64], names: list[str]) -> None:
    ax.grid(visible=False)
    image = ax.imshow(
        100 * table,
        aspect="auto",
        cmap="viridis",
        vmin=0,
        interpolation="nearest",
        extent=(0.5, table.shape[1] + 0.5, len(table) - 0.5, -0.5),
    )
    ax.set_yticks(range(len(names)), names, fontsize=7)
    ax.set_xlabel("run")
    figure.colorbar(image, ax=ax, label="probability (%)", pad=0.01)
