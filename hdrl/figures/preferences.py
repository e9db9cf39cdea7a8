"""Which actions an agent preferred, and how that changed while it learnt."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hdrl.base.errors import OptionsError
from hdrl.figures.folders import distinct_names
from hdrl.figures.learning import as_folders
from hdrl.figures.logs import action_probabilities
from hdrl.figures.style import Axes, Figure, canvas, colour, legend, line_style, shortened, verbatim

MAX_LINES = 8
"""Up to so many actions get a line each; more are rows of a map."""


def action_preferences(
    folders: object, ax: Axes | None = None, *, names_of: Callable[[Path], Sequence[str]] | None = None
) -> Figure:
    """Draw how probable each action was at the first decision of each run of a training."""
    paths = as_folders(folders)
    if len(paths) != 1:
        raise OptionsError(f"action_preferences shows one training, not {len(paths)}")
    table, told = action_probabilities(paths[0])
    n_actions, n_runs = table.shape
    names = told or (list(names_of(paths[0])) if names_of is not None else [])
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
