"""Which share of the jobs fared at least how well."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from hdrl.base.errors import UnknownName
from hdrl.figures.distribution import distribution
from hdrl.figures.numbers import number_words
from hdrl.figures.style import Axes, Figure
from hdrl.settings.batch.report.data import JOB_VALUES, job_values
from hdrl.settings.batch.report.runs import RunData, as_runs, in_common


def slowdown_cdf(
    runs: object, ax: Axes | None = None, *, of: str = "bounded_slowdown", places: Sequence[int] | None = None
) -> Figure:
    """Draw the cumulative distribution of a number per job, by default of the bounded slowdown, on a logarithmic axis.

    Parameters
    ----------
    runs
        What to draw, see `hdrl.settings.batch.report.runs.as_runs`.
    ax
        Where to draw; a new figure by default.
    of
        Which number: a key of `hdrl.settings.batch.report.data.JOB_VALUES`.
    places
        Positions of the runs among all, for their colours.

    Raises
    ------
    UnknownName
        If there is no such number.
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
        places=places,
        ax=ax,
    )


def medians(of: str) -> Callable[[Sequence[str], Sequence[RunData]], str]:
    """Return what says the medians of runs in words."""

    def describe(names: Sequence[str], runs: Sequence[RunData]) -> str:
        values = [job_values(run, of) for run in runs]
        middles = [float(np.median(one)) if len(one) else math.nan for one in values]
        each = (f"{name} {number_words(median)}" for name, median in zip(names, middles, strict=True))
        return f"Share of the jobs of which the {JOB_VALUES[of]} is not above each value. Medians: {'; '.join(each)}."

    return describe
