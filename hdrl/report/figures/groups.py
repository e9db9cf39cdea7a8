"""How groups of jobs fared: by size, user, priority, ..."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from hdrl.errors import UnknownName
from hdrl.report.data import JOB_VALUES, RunData, as_runs, job_values
from hdrl.report.groups import OTHERS, groups_of
from hdrl.report.style import canvas, colour, entitle, legend, plain_numbers, run_label

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LOGARITHMIC = frozenset({"bounded_slowdown", "slowdown", "energy_j"})


def groups(runs: object, ax: Axes | None = None, *, by: str = "size", of: str = "bounded_slowdown") -> Figure:
    """Draw a box per group of jobs: quarter, median and three quarters; whiskers at 5 % and 95 %, a cross at the mean.

    Parameters
    ----------
    runs
        What to draw, see `hdrl.report.data.as_runs`.
    ax
        Where to draw; a new figure by default.
    by
        What groups the jobs: one of `hdrl.report.groups.GROUPINGS`.
    of
        Which number of the jobs: a key of `hdrl.report.data.JOB_VALUES`.

    Returns
    -------
    Figure
        The figure.

    Raises
    ------
    UnknownName
        If one of the two is unknown.
    """
    if of not in JOB_VALUES:
        raise UnknownName("number of a job", of, JOB_VALUES)
    shown = as_runs(runs)
    by_run = [_values_by_group(run, by, of) for run in shown]
    names = _ordered({name for groups_of_run in by_run for name in groups_of_run})
    figure, (axes,) = canvas(ax, size_in=(11.0, 4.8))
    width = 0.8 / len(shown)
    handles = []
    for index, (run, values) in enumerate(zip(shown, by_run, strict=True)):
        at = [place + (index - (len(shown) - 1) / 2) * width for place, name in enumerate(names) if name in values]
        drawn = _boxes(axes, [values[name] for name in names if name in values], at, width * 0.85, colour(index))
        handles.append((drawn, run_label(run, shown)))
    n_jobs = {name: max(len(values.get(name, ())) for values in by_run) for name in names}
    axes.set_xticks(range(len(names)), [f"{name}\n{n_jobs[name]:,} jobs" for name in names], fontsize=8)
    if len(names) > 9:
        axes.tick_params("x", rotation=35)
    axes.grid(visible=False, axis="x")
    axes.set_yscale("log" if of in LOGARITHMIC else "symlog")
    if of not in LOGARITHMIC:
        axes.set_ylim(bottom=0)
    plain_numbers(axes.yaxis)
    axes.set_xlabel({"size": "requested cores"}.get(by, by))
    axes.set_ylabel(JOB_VALUES[of])
    entitle(axes, f"{JOB_VALUES[of].partition(' (')[0].capitalize()} by {by}", shown)
    _legend(axes, handles)
    return figure


def _values_by_group(run: RunData, by: str, of: str) -> dict[str, np.ndarray[Any, Any]]:
    grouped = groups_of(run, by)
    group, values = grouped.group[run.has_ended], job_values(run, of)
    found = {name: values[group == index] for index, name in enumerate(grouped.names)}
    return {name: kept for name, numbers in found.items() if len(kept := numbers[np.isfinite(numbers)])}


def _ordered(names: set[str]) -> list[str]:
    """Sort names by the first number in them, others last."""

    def place(name: str) -> tuple[bool, float, str]:
        digits = "".join(letter for letter in name.partition("-")[0] if letter.isdigit())
        return name.endswith(OTHERS), float(digits or "inf"), name

    return sorted(names, key=place)


def _boxes(ax: Axes, values: list[np.ndarray[Any, Any]], at: list[float], width: float, face: str) -> Any:
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
        medianprops={"color": "black", "linewidth": 1.4},
        whiskerprops={"color": face},
        capprops={"color": face},
        meanprops={"marker": "x", "markeredgecolor": "black", "markersize": 5},
    )
    return drawn["boxes"][0] if drawn["boxes"] else None


def _legend(ax: Axes, handles: list[tuple[Any, str]]) -> None:
    for patch, label in handles:
        if patch is not None:
            patch.set_label(label)
    legend(ax, len(handles), handles=[patch for patch, _ in handles if patch is not None])
