"""What trainings on batch jobs leave in addition to losses and rewards: makespans, and actions with HDeepRM's names."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hdrl.base.files import read_json
from hdrl.figures import learning
from hdrl.figures.learning import learning_curves
from hdrl.figures.logs import Log
from hdrl.figures.style import Axes, Figure

MAKESPANS = Log("makespans", "makespans.log", "episodes.csv", "makespan_s")


def makespans(folders: object, ax: Axes | None = None, *, places: Sequence[int] | None = None) -> Figure:
    """Draw the makespan of each episode."""
    words = ("Makespan", "episode", "makespan")
    return learning_curves(folders, MAKESPANS, words, is_time=True, ax=ax, places=places)


def action_preferences(folders: object, ax: Axes | None = None) -> Figure:
    """Draw how probable each action was at the first decision of each run of a training."""
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
