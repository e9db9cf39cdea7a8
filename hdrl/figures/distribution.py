"""Cumulative distribution: the share of items that are not above each value."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hdrl.figures.figure import Drawn
from hdrl.figures.steps import FloatArray, cumulative_distribution
from hdrl.figures.style import Axes, Figure, canvas, colour, legend, line_style, plain_numbers, run_label, write_title


def distribution(
    runs: Sequence[Drawn],
    values: Sequence[FloatArray],
    *,
    quantity: str,
    items: str,
    facts: str = "",
    positions: Sequence[int] | None = None,
    ax: Axes | None = None,
) -> Figure:
    """Draw the cumulative distribution of a number per item, on a logarithmic axis.

    ``items`` is for the vertical axis, ``facts`` says what was simulated.
    """
    figure, (axes,) = canvas(ax)
    has_zero, largest = False, 0.0
    for position, run, numbers in zip(positions or range(len(runs)), runs, values, strict=True):
        distinct, share = cumulative_distribution(numbers)
        if not len(distinct):
            continue
        has_zero |= bool(distinct[0] <= 0)
        largest = max(largest, float(distinct[-1]))
        axes.step(
            np.concatenate((distinct[:1], distinct)),
            100 * np.concatenate(([0.0], share)),
            where="post",
            color=colour(position),
            linestyle=line_style(position),
            linewidth=1.5,
            label=run_label(run, runs),
        )
    # Zeros have no place on a logarithmic axis: up to 1 it is linear.
    if has_zero:
        axes.set_xscale("symlog", linthresh=1.0, linscale=0.4)
        axes.set_xlim(left=0)
    elif largest > 0:
        axes.set_xscale("log")
    plain_numbers(axes.xaxis)
    axes.set_ylim(0, 102)
    axes.set_xlabel(quantity)
    axes.set_ylabel(f"{items} (%)")
    write_title(axes, f"Distribution of the {quantity.partition(' (')[0]}", runs, facts)
    legend(axes, len(runs), of_runs=True)
    return figure
