"""Pictures of pipelines: kernels on units, with releases and deadlines; misses by pipeline."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hdrl.figures.figure import SUMMARY, Figure, OnPage, by_name
from hdrl.figures.style import ALARM, FAINT, PALETTE, Axes, canvas, legend
from hdrl.figures.style import Figure as Canvas
from hdrl.settings.pipelines.metrics import wilson
from hdrl.settings.pipelines.runs import PipelineRun, run_of_trace
from hdrl.settings.pipelines.simulation.trace import PipelineTrace

WIDTH_IN = 11.0

MAX_LABELS = 200
"""Largest number of runs that get labels."""

MOST_PIPELINES = 24
"""Largest number of pipelines that get a row or a bar of their own."""

MOST_UPRIGHT = 9
"""Largest number of names that are drawn side by side without rotation."""

Runs = PipelineTrace | PipelineRun | Sequence[PipelineTrace | PipelineRun]


def gantt(runs: Runs, ax: Axes | None = None, *, labels: bool = True, positions: Sequence[int] = ()) -> Canvas:
    """Draw the kernels on each unit, and below it releases and deadlines of every pipeline; a part for each run.

    A colour stands for a pipeline, a number in a bar for the kernels that it ran. Triangles up are releases, triangles
    down deadlines, red where they were missed; the end of an instance that was missed is a red cross. Of many
    pipelines, those that miss most deadlines have rows.

    Parameters
    ----------
    labels
        True if bars that are wide enough say which kernels they ran.
    """
    del positions
    shown = _runs(runs)
    heights = [1.2 + 0.4 * (len(run.units) + len(_most_missed([run]))) for run in shown]
    figure, axes = canvas(ax, len(shown), size_in=(WIDTH_IN, sum(heights)))
    for part, run in zip(axes, shown, strict=True):
        _draw_gantt(part, run, labels=labels)
    return figure


def _draw_gantt(ax: Any, run: PipelineRun, *, labels: bool) -> None:
    n_units = len(run.units)
    first_s, last_s = run.span_s
    ax.set_xlim(first_s, last_s)
    owners = run.pipeline[run.run_instance]
    for unit in range(n_units):
        own = run.run_unit == unit
        spans = np.column_stack([run.run_start_us[own], run.run_end_us[own] - run.run_start_us[own]]) / 1e6
        colours = [PALETTE[number % len(PALETTE)] for number in owners[own].tolist()]
        edge = 0.5 if len(spans) <= MAX_LABELS else 0.0  # many edges would hide the colours
        ax.broken_barh(spans.tolist(), (unit - 0.4, 0.8), facecolors=colours, edgecolors="white", linewidth=edge)
    if labels:
        _label(ax, run, last_s - first_s)
    numbers = _most_missed([run])
    for row, number in enumerate(numbers, n_units):
        _mark(ax, run, number, row)
    names = [*run.units, *(run.pipelines[number] for number in numbers)]
    ax.set_yticks(range(len(names)), names, fontsize=8 if len(names) > MOST_UPRIGHT else None)
    ax.set_ylim(len(names) - 0.4, -0.6)
    ax.set_xlabel("time (s)")
    title = f"{run.name}: {int(run.is_missed.sum())} of {len(run.is_missed)} deadlines missed"
    ax.set_title(title, loc="left", fontsize=10)


def _label(ax: Any, run: PipelineRun, span_s: float) -> None:
    widths = (run.run_end_us - run.run_start_us) / 1e6
    for position in np.argsort(-widths, kind="stable")[:MAX_LABELS].tolist():
        first, _, rest = run.run_kernels[position].partition("-")
        text = f"{first}-{rest.rpartition('-')[2]}" if rest else first
        if widths[position] < 0.012 * len(text) * span_s:
            continue
        middle = (run.run_start_us[position] + run.run_end_us[position]) / 2e6
        ax.text(middle, run.run_unit[position], text, ha="center", va="center", fontsize=7, color="white", clip_on=True)


def _mark(ax: Any, run: PipelineRun, number: int, row: int) -> None:
    own = run.pipeline == number
    colour, missed = PALETTE[number % len(PALETTE)], run.is_missed[own]
    releases = run.release_us[own] / 1e6
    ax.plot(releases, np.full(len(releases), row + 0.15), "^", color=colour, markersize=5)
    for is_missed, shade in ((False, colour), (True, ALARM)):
        dates = run.deadline_us[own][missed == is_missed] / 1e6
        ax.plot(dates, np.full(len(dates), row - 0.15), "v", color=shade, markersize=5)
    ends = run.end_us[own][missed] / 1e6
    ax.plot(ends, np.full(len(ends), row), "x", color=ALARM, markersize=5)


def misses(runs: Runs, ax: Axes | None = None, *, positions: Sequence[int] = ()) -> Canvas:
    """Draw the share of deadlines that each pipeline misses in each run, with its 95 % interval.

    Of many pipelines, those that miss most have bars, and the others have one together.
    """
    shown = _runs(runs)
    numbers = _most_missed(shown)
    names = [shown[0].pipelines[number] for number in numbers]
    n_others = len(shown[0].pipelines) - len(numbers)
    if n_others:
        names.append(f"{n_others:,} others")
    figure, (only,) = canvas(ax, size_in=(WIDTH_IN, 3.6))
    width = 0.8 / len(shown)
    for position, run in enumerate(shown):
        parts = [run.pipeline == number for number in numbers]
        if n_others:
            parts.append(~np.isin(run.pipeline, numbers))
        counts = [(int(run.is_missed[own].sum()), int(own.sum())) for own in parts]
        shares = np.array([n_missed / max(n, 1) for n_missed, n in counts])
        low, high = np.array([wilson(*one) if one[1] else (0.0, 0.0) for one in counts]).T
        x = np.arange(len(counts)) + (position - (len(shown) - 1) / 2) * width
        colour = PALETTE[(positions[position] if positions else position) % len(PALETTE)]
        only.bar(x, shares, width, color=colour, label=run.name)
        only.errorbar(x, shares, (shares - low, high - shares), fmt="none", ecolor=FAINT, elinewidth=0.8)
    only.set_xticks(range(len(names)), names, rotation=0 if len(names) <= MOST_UPRIGHT else 90)
    only.set_ylabel("share of deadlines missed")
    legend(only, len(shown), of_runs=True)
    return figure


def _most_missed(runs: Sequence[PipelineRun]) -> list[int]:
    """Return all pipelines of the runs, or those that miss most deadlines where there are too many, in their order."""
    n = len(runs[0].pipelines)
    missed = sum(np.bincount(run.pipeline[run.is_missed], minlength=n) for run in runs)
    released = sum(np.bincount(run.pipeline, minlength=n) for run in runs)
    first = np.lexsort((np.arange(n), -np.asarray(released), -np.asarray(missed)))
    return sorted(first[:MOST_PIPELINES].tolist())


def _runs(runs: Runs) -> list[PipelineRun]:
    given = [runs] if isinstance(runs, (PipelineTrace, PipelineRun)) else list(runs)
    return [run_of_trace(one) if isinstance(one, PipelineTrace) else one for one in given]


FIGURES = by_name(
    Figure(
        "gantt",
        "kernels on each unit over time, with releases and deadlines",
        gantt,
        max_runs=6,
        on_page=(OnPage("Schedule", "Units and deadlines"),),
    ),
    Figure(
        "misses",
        "share of deadlines that each pipeline misses",
        misses,
        on_page=(OnPage(SUMMARY, "Deadlines missed by pipeline"),),
    ),
)
"""Figures of runs, by name."""
