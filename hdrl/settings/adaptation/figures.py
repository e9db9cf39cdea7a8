"""What can be drawn of adaptations: accuracy and regret as time goes by, and ranks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from hdrl.figures.figure import Figure, OnPage
from hdrl.figures.over_time import over_time
from hdrl.figures.steps import Steps
from hdrl.figures.style import WIDTH_IN, canvas, colour, legend, run_label
from hdrl.figures.tables import TABLE_FIGURES
from hdrl.settings.adaptation.files import AdaptationRun
from hdrl.settings.adaptation.metrics import regret_so_far


def anytime(runs: Sequence[AdaptationRun], ax: Any = None, *, places: Sequence[int] | None = None) -> Any:
    """Draw the mean regret of all jobs so far over the time of the device, search included.

    Parameters
    ----------
    runs
        The runs.
    ax
        Axes to draw on; new ones by default.
    places
        For each run its position among all of a page, for its colour.
    """
    steps = []
    for run in runs:
        end_s = run.tasks["end_s"]
        regret = regret_so_far(end_s, run.outcomes["best"] - run.outcomes["expected"])
        steps.append(Steps(end_s, regret[:-1]))
    return over_time(runs, steps, title="Regret so far", quantity="mean regret (accuracy)", places=places, ax=ax)


def accuracies(runs: Sequence[AdaptationRun], ax: Any = None, *, places: Sequence[int] | None = None) -> Any:
    """Draw the mean accuracy on each table, a point for each run, with the best and its standard deviation.

    Parameters
    ----------
    runs
        The runs.
    ax
        Axes to draw on; new ones by default.
    places
        For each run its position among all of a page, for its colour.
    """
    figure, (part,) = canvas(ax, 1, size_in=(WIDTH_IN, 3.4))
    names = sorted({name for run in runs for name in run.job_tables})
    for number, run in enumerate(runs):
        on = np.array(run.job_tables)
        means = [float(run.outcomes["test"][on == name].mean()) if (on == name).any() else np.nan for name in names]
        spread = [float(run.outcomes["test"][on == name].std()) if (on == name).any() else np.nan for name in names]
        x = np.arange(len(names)) + 0.6 * ((number + 0.5) / len(runs) - 0.5)
        shade = colour(number if places is None else places[number])
        part.errorbar(x, means, yerr=spread, fmt="o", markersize=4, color=shade, label=run_label(run, runs))
    for place, name in enumerate(names):
        best = max(float(run.outcomes["best"][np.array(run.job_tables) == name].max(initial=0.0)) for run in runs)
        part.hlines(best, place - 0.4, place + 0.4, colors="0.6", linewidth=1, zorder=0)
    part.set_xticks(range(len(names)), names, rotation=20, ha="right", fontsize=8)
    part.set_ylabel("test accuracy")
    part.set_title("Accuracy; lines: the best sequence in the mean", loc="left", fontsize=10)
    legend(part, len(runs))
    return figure


def ranks(runs: Sequence[AdaptationRun], ax: Any = None, *, places: Sequence[int] | None = None) -> Any:
    """Draw which share of the jobs got a rank among all sequences that is at least as good.

    Parameters
    ----------
    runs
        The runs.
    ax
        Axes to draw on; new ones by default.
    places
        For each run its position among all of a page, for its colour.
    """
    figure, (part,) = canvas(ax, 1, size_in=(WIDTH_IN, 3.2))
    for number, run in enumerate(runs):
        rank = np.sort(run.outcomes["rank"])
        shares = np.arange(1, len(rank) + 1) / len(rank)
        shade = colour(number if places is None else places[number])
        part.step(rank, shares, where="post", color=shade, label=run_label(run, runs))
    part.set_xlabel("rank of the sequence")
    part.set_ylabel("share of jobs")
    part.set_ylim(0.0, 1.02)
    part.set_title("Ranks", loc="left", fontsize=10)
    legend(part, len(runs))
    return figure


FIGURES: Mapping[str, Figure] = MappingProxyType(
    {
        "anytime": Figure(
            "anytime", "mean regret of the jobs so far over time", anytime, on_page=(OnPage("Regret", "Regret so far"),)
        ),
        "accuracies": Figure(
            "accuracies", "accuracy on each table", accuracies, on_page=(OnPage("Accuracy", "Accuracy on each table"),)
        ),
        "ranks": Figure("ranks", "ranks among all sequences", ranks, on_page=(OnPage("Accuracy", "Ranks"),)),
        **TABLE_FIGURES,
    }
)
"""All of them by name."""
