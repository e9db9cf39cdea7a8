"""Results of jobs: all of them as a distribution, groups of them as boxes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hdrl.base.errors import OptionsError, UnknownName
from hdrl.figures.boxes import boxes
from hdrl.figures.distribution import distribution
from hdrl.figures.numbers import number_words
from hdrl.figures.style import Axes, Figure, write_title
from hdrl.settings.batch.report.data import JOB_VALUES, job_values
from hdrl.settings.batch.report.groups import OTHERS, UNKNOWN_LABEL, groups_of, labelled
from hdrl.settings.batch.report.runs import RunData, as_runs, in_common


def slowdown_cdf(
    runs: object, ax: Axes | None = None, *, of: str = "bounded_slowdown", positions: Sequence[int] | None = None
) -> Figure:
    """Draw the cumulative distribution of a number per job, by default of the bounded slowdown, on a logarithmic axis.

    ``of``: which number: a key of `hdrl.settings.batch.report.data.JOB_VALUES`.
    """
    if of not in JOB_VALUES:
        raise UnknownName("number of a job", of, JOB_VALUES)
    shown = as_runs(runs)
    return distribution(
        shown,
        [job_values(run, of) for run in shown],
        quantity=JOB_VALUES[of],
        items="jobs that ended",
        facts=in_common(shown),
        positions=positions,
        ax=ax,
    )


def medians(of: str) -> Callable[[Sequence[str], Sequence[RunData]], str]:
    """Return a function that puts the medians of runs into words."""

    def describe(names: Sequence[str], runs: Sequence[RunData]) -> str:
        values = [job_values(run, of) for run in runs]
        middles = [float(np.median(one)) if len(one) else math.nan for one in values]
        each = (f"{name} {number_words(median)}" for name, median in zip(names, middles, strict=True))
        return f"Share of the jobs whose {JOB_VALUES[of]} is not above each value. Medians: {'; '.join(each)}."

    return describe


LOGARITHMIC = frozenset({"bounded_slowdown", "slowdown", "energy_j"})


def groups(
    runs: object,
    ax: Axes | None = None,
    *,
    by: str = "size",
    of: str = "bounded_slowdown",
    workload: str | Path | None = None,
    positions: Sequence[int] | None = None,
) -> Figure:
    """Draw a box per group of jobs: quarter, median and three quarters; whiskers at 5 % and 95 %, a cross at the mean.

    Parameters
    ----------
    by
        Attribute that groups the jobs: one of `hdrl.settings.batch.report.groups.GROUPINGS`.
    of
        Number of the jobs: a key of `hdrl.settings.batch.report.data.JOB_VALUES`.
    workload
        The workload of the runs, if only it knows the groups and the runs do not find it.

    Raises
    ------
    UnknownName
        If one of the two is unknown.
    OptionsError
        If no job is in a group that is known, and ``positions`` are given.
    """
    if of not in JOB_VALUES:
        raise UnknownName("number of a job", of, JOB_VALUES)
    shown = as_runs(runs)
    by_run = [_values_by_group(run, by, of) for run in labelled(shown, by, workload)]
    names = _ordered({name for groups_of_run in by_run for name in groups_of_run})
    if positions is not None and names == [UNKNOWN_LABEL]:  # a page needs no box of all jobs
        raise OptionsError(f"{shown[0].name}: no job of the workload names its {by}")
    logarithmic = of in LOGARITHMIC
    figure, axes = boxes(shown, by_run, names, items="jobs", is_logarithmic=logarithmic, positions=positions, ax=ax)
    axes.set_xlabel({"size": "requested cores"}.get(by, by))
    axes.set_ylabel(JOB_VALUES[of])
    write_title(axes, f"{JOB_VALUES[of].partition(' (')[0].capitalize()} by {by}", shown, in_common(shown))
    return figure


def _values_by_group(run: RunData, by: str, of: str) -> dict[str, np.ndarray[Any, Any]]:
    grouped = groups_of(run, by)
    group, values = grouped.group[run.has_ended], job_values(run, of)
    found = {name: values[group == index] for index, name in enumerate(grouped.names)}
    return {name: kept for name, numbers in found.items() if len(kept := numbers[np.isfinite(numbers)])}


def _ordered(names: set[str]) -> list[str]:
    """Sort names by the first number in them, others last."""

    def position(name: str) -> tuple[bool, float, str]:
        digits = "".join(letter for letter in name.partition("-")[0] if letter.isdecimal())
        return name.endswith(OTHERS), float(digits or "inf"), name

    return sorted(names, key=position)
