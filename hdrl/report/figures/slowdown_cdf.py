"""Which share of the jobs fared at least how well."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hdrl.errors import UnknownName
from hdrl.report.data import JOB_VALUES, as_runs, cumulative_distribution, job_values
from hdrl.report.style import canvas, colour, entitle, legend, line_style, plain_numbers, run_label

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def slowdown_cdf(runs: object, ax: Axes | None = None, *, of: str = "bounded_slowdown") -> Figure:
    """Draw the cumulative distribution of a number per job, by default of the bounded slowdown, on a logarithmic axis.

    Parameters
    ----------
    runs
        What to draw, see `hdrl.report.data.as_runs`.
    ax
        Where to draw; a new figure by default.
    of
        Which number: a key of `hdrl.report.data.JOB_VALUES`.

    Returns
    -------
    Figure
        The figure.

    Raises
    ------
    UnknownName
        If there is no such number.
    """
    if of not in JOB_VALUES:
        raise UnknownName("number of a job", of, JOB_VALUES)
    shown = as_runs(runs)
    figure, (axes,) = canvas(ax)
    has_zero, largest = False, 0.0
    for index, run in enumerate(shown):
        values, share = cumulative_distribution(job_values(run, of))
        if not len(values):
            continue
        has_zero |= bool(values[0] <= 0)
        largest = max(largest, float(values[-1]))
        axes.step(
            np.concatenate((values[:1], values)),
            100 * np.concatenate(([0.0], share)),
            where="post",
            color=colour(index),
            linestyle=line_style(index),
            linewidth=1.5,
            label=run_label(run, shown),
        )
    # Waits of zero have no place on a logarithmic axis: up to 1 it is linear.
    if has_zero:
        axes.set_xscale("symlog", linthresh=1.0, linscale=0.4)
        axes.set_xlim(left=0)
    elif largest > 0:
        axes.set_xscale("log")
    plain_numbers(axes.xaxis)
    axes.set_ylim(0, 102)
    axes.set_xlabel(JOB_VALUES[of])
    axes.set_ylabel("jobs that ended (%)")
    entitle(axes, f"Distribution of the {JOB_VALUES[of].partition(' (')[0]}", shown)
    legend(axes, len(shown))
    return figure
