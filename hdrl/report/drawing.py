"""The figures by name, and one function that reads what they are made of, draws them and saves a file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hdrl.base.errors import OptionsError, OutputError, UnknownName
from hdrl.figures.figure import SUMMARY, Figure, OnPage, by_name
from hdrl.figures.folders import distinct_names
from hdrl.figures.learning import action_preferences, losses, rewards
from hdrl.figures.logs import LOSSES, PROBABILITIES_FILE, REWARDS
from hdrl.figures.style import check_format, default_look, save
from hdrl.report.intervals import comparison
from hdrl.report.ranking import critical_difference, profile
from hdrl.report.runs import folders_of_runs, setting_of
from hdrl.report.side_by_side import bars
from hdrl.setting import SETTINGS, Setting

LEARNING = "Learning"
"""Title of the tab of learning curves."""

GENERIC = by_name(
    Figure(
        "rewards",
        "sum of the rewards of each episode of a training",
        rewards,
        "trainings",
        needs=REWARDS.files,
        on_page=(OnPage(SUMMARY, "Return of the episodes"), OnPage(LEARNING, "Return of the episodes")),
    ),
    Figure(
        "losses",
        "loss of each update of a training",
        losses,
        "trainings",
        needs=LOSSES.files,
        on_page=(OnPage(LEARNING, "Loss of the updates"),),
    ),
    Figure(
        "action_preferences",
        "probability of each action during a training",
        action_preferences,
        "trainings",
        1,
        needs=("training.csv", PROBABILITIES_FILE),
    ),
    Figure("bars", "metrics of runs, a bar for each run", bars, "metrics"),
    Figure("comparison", "metrics of a comparison with their intervals", comparison, "comparison", 1, {"of": ()}),
    Figure("profile", "share of windows within each ratio to the baseline", profile, "comparison", 1, {"of": ()}),
    Figure(
        "critical_difference",
        "mean ranks of a comparison, joined where no difference is shown",
        critical_difference,
        "comparison",
        1,
        {"of": ()},
    ),
)
"""Figures of any setting."""


def figures_of(setting: Setting) -> Mapping[str, Figure]:
    """Return the figures of a setting, and those that every setting has."""
    own = setting.view.figures
    return {**own, **GENERIC, **own}  # a setting may better a generic figure


def all_figures() -> dict[str, Figure]:
    """Return the figures of all settings by name; a name that several have is that of the first."""
    found: dict[str, Figure] = {}
    for name in SETTINGS:
        found = {**figures_of(SETTINGS[name]), **found}
    return found


def draw(name: str, folders: Sequence[str | Path], *, names: Sequence[str] = (), **choices: str | Path | None) -> Any:
    """Return a figure.

    Parameters
    ----------
    folders
        Folders of runs, of trainings, or of one comparison; at least one.
    names
        A name for each run; those of the folders by default.
    **choices
        Choices of the figure (`hdrl.figures.figure.Figure.choices`); ``None`` counts as not chosen.
    """
    if not folders:
        raise OptionsError(f"{name} needs a folder to show")
    if name not in (known := all_figures()) and not Path(folders[0]).exists():
        raise UnknownName("kind of picture", name, known)  # the two may be swapped
    offered = figures_of(setting_of(folders[0]))
    if name not in offered:
        elsewhere = f" of {folders[0]}" if name in all_figures() else ""
        raise UnknownName(f"kind of picture{elsewhere}", name, offered)
    figure = offered[name]
    chosen = {option: value for option, value in choices.items() if value is not None}
    _check_choices(figure, offered, chosen)
    with default_look():
        return figure.draw(_subject(figure, folders, names), **chosen)


def _check_choices(figure: Figure, offered: Mapping[str, Figure], chosen: Mapping[str, Any]) -> None:
    for option, value in chosen.items():
        if option not in figure.choices:
            takers = ", ".join(other for other, one in offered.items() if option in one.choices)
            raise OptionsError(f"{figure.name} takes no --{option}; these do: {takers}")
        known = figure.choices[option]
        if known and value not in known:
            raise UnknownName(f"choice of --{option}", str(value), known)


def _subject(figure: Figure, folders: Sequence[str | Path], names: Sequence[str]) -> Any:
    """Return the data of a figure."""
    if figure.reads in ("trainings", "comparison"):
        if names:
            raise OptionsError(f"{figure.name} takes no names")
        _check_number(figure, len(folders))
        paths = [Path(folder) for folder in folders]
        return paths if figure.reads == "trainings" else paths[0]
    paths = folders_of_runs(folders)
    _check_number(figure, len(paths))
    if names and len(names) != len(paths):
        raise OptionsError(f"number of names: {len(names)}, of runs: {len(paths)}; expected a name for each run")
    if len(set(names)) != len(names):
        raise OptionsError("two runs have the same name, expected different ones")
    shown = names or distinct_names(paths)
    view = setting_of(paths[0]).view
    runs = [view.read(path, run) for path, run in zip(paths, shown, strict=True)]
    return runs if figure.reads == "metrics" else [run.data for run in runs]


def plot(name: str, folders: Sequence[str | Path], out: str | Path | None = None, **choices: Any) -> Path:
    """Draw runs and save the picture.

    Parameters
    ----------
    name
        Name of the figure, see `figures_of`.
    out
        The file; its name asks for the format (png, svg, pdf), and it is replaced if it is there. By default
        ``<name>.png`` in the current folder, which must be new.
    """
    path = Path(f"{name}.png" if out is None else out)
    check_format(path)
    if out is None and path.exists():
        raise OutputError(f"{path}: exists already, and only a file that is named (-s FILE) is replaced")
    figure = draw(name, folders, **choices)
    save(figure, path)
    return path


def _check_number(figure: Figure, n_runs: int) -> None:
    if n_runs > figure.max_runs:
        runs = f"{figure.max_runs} run{'s' * (figure.max_runs > 1)}"
        raise OptionsError(f"{figure.name} shows at most {runs}, not {n_runs}")
