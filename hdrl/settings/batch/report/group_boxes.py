"""How groups of jobs fared: by size, user, priority, ..."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hdrl.base.errors import OptionsError, UnknownName
from hdrl.figures.boxes import boxes
from hdrl.figures.style import Axes, Figure, entitle
from hdrl.settings.batch.report.data import JOB_VALUES, job_values
from hdrl.settings.batch.report.groups import OTHERS, UNKNOWN_LABEL, groups_of, labelled
from hdrl.settings.batch.report.runs import RunData, as_runs, in_common

LOGARITHMIC = frozenset({"bounded_slowdown", "slowdown", "energy_j"})


def groups(
    runs: object,
    ax: Axes | None = None,
    *,
    by: str = "size",
    of: str = "bounded_slowdown",
    workload: str | Path | None = None,
    places: Sequence[int] | None = None,
) -> Figure:
    """Draw a box per group of jobs: quarter, median and three quarters; whiskers at 5 % and 95 %, a cross at the mean.

    Parameters
    ----------
    runs
        What to draw, see `hdrl.settings.batch.report.runs.as_runs`.
    ax
        Where to draw; a new figure by default.
    by
        What groups the jobs: one of `hdrl.settings.batch.report.groups.GROUPINGS`.
    of
        Which number of the jobs: a key of `hdrl.settings.batch.report.data.JOB_VALUES`.
    workload
        The workload of the runs, if only it knows the groups and the runs do not find it.
    places
        Positions of the runs among all, for their colours.

    Raises
    ------
    UnknownName
        If one of the two is unknown.
    OptionsError
        If no job is in a group that is known, and ``places`` are given.
    """
    if of not in JOB_VALUES:
        raise UnknownName("number of a job", of, JOB_VALUES)
    shown = as_runs(runs)
    by_run = [_values_by_group(run, by, of) for run in labelled(shown, by, workload)]
    names = _ordered({name for groups_of_run in by_run for name in groups_of_run})
    if places is not None and names == [UNKNOWN_LABEL]:  # a page needs no box of all jobs
        raise OptionsError(f"{shown[0].name}: no job of the workload names its {by}")
    logarithmic = of in LOGARITHMIC
    figure, axes = boxes(shown, by_run, names, items="jobs", is_logarithmic=logarithmic, places=places, ax=ax)
    axes.set_xlabel({"size": "requested cores"}.get(by, by))
    axes.set_ylabel(JOB_VALUES[of])
    entitle(axes, f"{JOB_VALUES[of].partition(' (')[0].capitalize()} by {by}", shown, in_common(shown))
    return figure


def _values_by_group(run: RunData, by: str, of: str) -> dict[str, np.ndarray[Any, Any]]:
    grouped = groups_of(run, by)
    group, values = grouped.group[run.has_ended], job_values(run, of)
    found = {name: values[group == index] for index, name in enumerate(grouped.names)}
    return {name: kept for name, numbers in found.items() if len(kept := numbers[np.isfinite(numbers)])}


def _ordered(names: set[str]) -> list[str]:
    """Sort names by the first number in them, others last."""

    def place(name: str) -> tuple[bool, float, str]:
        digits = "".join(letter for letter in name.partition("-")[0] if letter.isdecimal())
        return name.endswith(OTHERS), float(digits or "inf"), name

    return sorted(names, key=place)
