"""Curves: waiting jobs, share of cores in use and power over time; makespans and actions of trainings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from hdrl.base.files import read_json
from hdrl.figures import learning
from hdrl.figures.learning import learning_curves
from hdrl.figures.logs import LearningLog
from hdrl.figures.numbers import number_words
from hdrl.figures.over_time import over_time
from hdrl.figures.steps import StepFunction
from hdrl.figures.style import Axes, Figure
from hdrl.settings.batch.report import data
from hdrl.settings.batch.report.runs import RunData, as_runs, in_common


def queue_size(runs: object, ax: Axes | None = None, *, positions: Sequence[int] | None = None) -> Figure:
    """Draw the number of waiting jobs over time."""
    return _drawn(as_runs(runs), data.queue_size, "Waiting jobs", "waiting jobs", ax=ax, positions=positions)


def utilization(runs: object, ax: Axes | None = None, *, positions: Sequence[int] | None = None) -> Figure:
    """Draw the share of the cores that jobs hold, over time."""
    figure = _drawn(as_runs(runs), percent, "Utilisation", "cores in use (%)", ax=ax, positions=positions)
    axes = ax if ax is not None else figure.axes[0]
    axes.set_ylim(0, max(103.0, axes.get_ylim()[1]))
    return figure


def power(runs: object, ax: Axes | None = None, *, positions: Sequence[int] | None = None) -> Figure:
    """Draw the power of all hosts, over time."""
    return _drawn(as_runs(runs), data.power, "Power of all hosts", "power", unit="W", ax=ax, positions=positions)


def percent(run: RunData) -> StepFunction:
    """Return the share of the cores that jobs hold in percent, over time."""
    share = data.utilization(run)
    return StepFunction(share.edges_s, 100 * share.values)


def means(quantity: Callable[[RunData], StepFunction], words: str) -> Callable[[Sequence[str], Sequence[RunData]], str]:
    """Return a function that puts the means over time of runs into words."""

    def describe(names: Sequence[str], runs: Sequence[RunData]) -> str:
        each = (f"{name} {number_words(quantity(run).mean)}" for name, run in zip(names, runs, strict=True))
        return f"{words} over time. Means: {'; '.join(each)}."

    return describe


def _drawn(
    runs: list[RunData],
    quantity: Callable[[RunData], StepFunction],
    title: str,
    words: str,
    *,
    unit: str | None = None,
    ax: Axes | None,
    positions: Sequence[int] | None,
) -> Figure:
    steps = [quantity(run) for run in runs]
    return over_time(
        runs, steps, title=title, quantity=words, unit=unit, facts=in_common(runs), positions=positions, ax=ax
    )


MAKESPANS = LearningLog("makespans", "makespans.log", "episodes.csv", "makespan_s")


def makespans(folders: object, ax: Axes | None = None, *, positions: Sequence[int] | None = None) -> Figure:
    """Draw the makespan of each episode."""
    words = ("Makespan", "episode", "makespan")
    return learning_curves(folders, MAKESPANS, words, is_time=True, ax=ax, positions=positions)


def action_preferences(folders: object, ax: Axes | None = None) -> Figure:
    """Draw the probability of each action at the first decision of each run of a training."""
    return learning.action_preferences(folders, ax, names_of=action_names)


def action_names(folder: Path) -> list[str]:
    """Return the names of the actions, as the options of the run have them; none where they do not tell."""
    for file in ("options.resolved.json", "options.json"):
        if (folder / file).is_file() and (names := _selected(read_json(folder / file))):
            return names
    return []


def _selected(options: Any) -> list[str]:
    try:
        actions = options["pybatsim"]["env"]["actions"]
        pairs = [f"{job}-{core}" for entry in actions["selection"] for job, cores in entry.items() for core in cores]
        return [*pairs, "void"] if actions.get("void") else pairs
    except (KeyError, TypeError, AttributeError):
        return []
