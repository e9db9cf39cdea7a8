"""Cores of each job over time: pictures, the schedule for the page of a report, and the names of cores."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hdrl.base.errors import HdrlError
from hdrl.figures.figure import ItemNumber, ScheduleChart, Span
from hdrl.figures.folders import OPTIONS_FILE, PROVENANCE_FILE, read_object
from hdrl.figures.rectangles import draw_rectangles
from hdrl.figures.style import (
    FAINT,
    PALETTE,
    Axes,
    Figure,
    canvas,
    legend,
    rgb,
    shortened,
    time_axis,
    verbatim,
    whole_numbers,
    write_title,
)
from hdrl.settings.batch.node_power import NodePower
from hdrl.settings.batch.platform.model import Platform
from hdrl.settings.batch.platform.pstates import pstate_rules
from hdrl.settings.batch.platform.reader import file_and_name, read_platform
from hdrl.settings.batch.report.data import Bars, gantt_bars
from hdrl.settings.batch.report.groups import groups_of, labelled
from hdrl.settings.batch.report.runs import RunData, as_runs, in_common

MAX_LABELS = 200
MAX_NODES = 24
"""Up to this many nodes are named in a picture of one run; of more, only their clusters."""

MIN_NAME_GAP = 0.035
"""Least distance of two names, as a share of the height of a picture of one run."""


def gantt(
    runs: object,
    ax: Axes | None = None,
    *,
    by: str = "job",
    labels: bool = True,
    workload: str | Path | None = None,
) -> Figure:
    """Draw the cores that jobs held over time; a part of the figure per run.

    - ``by``: what colours mean: ``"job"`` (only to tell neighbours apart), ``"size"``, or a number of the log:
      ``"user"``.
    - ``labels``: whether to write the ids of jobs into rectangles that are large enough.
    - ``workload``: the workload of the runs, if only it knows what colours mean and the runs do not find it.
    """
    shown = labelled(as_runs(runs), by, workload)
    figure, axes = canvas(
        ax, len(shown), size_in=(11.0, 1.6 + 4.2 * len(shown) if len(shown) < 3 else 3.0 * len(shown))
    )
    for part, run in zip(axes, shown, strict=True):
        _draw(part, run, by, labels=labels, span_of=shown, n_parts=len(shown))
        if part is not axes[-1]:
            part.set_xlabel("")
    return figure


def gantt_no_label(
    runs: object, ax: Axes | None = None, *, by: str = "job", workload: str | Path | None = None
) -> Figure:
    """Draw `gantt` without the ids of jobs."""
    return gantt(runs, ax, by=by, labels=False, workload=workload)


def _draw(ax: Axes, run: RunData, by: str, *, labels: bool, span_of: list[RunData], n_parts: int) -> None:
    bars = gantt_bars(run)
    unit_s = time_axis(ax, span_of)
    ax.set_ylim(0, run.n_cores)
    ax.set_ylabel("core")
    whole_numbers(ax.yaxis)
    ax.grid(visible=False)
    has_names = _name_units(ax, run, n_parts)
    colour, palette = _colours(ax, run, bars, by, beside=1.18 if has_names else 1.01)
    x = bars.start_s / unit_s, bars.end_s / unit_s
    y = bars.first_core, bars.first_core + bars.n_cores
    draw_rectangles(ax, x, y, colour, palette, n_parts=n_parts)
    if labels:
        _label(ax, run, bars, unit_s, n_parts)
    write_title(ax, "Gantt chart", [run], in_common([run]))


def _name_units(ax: Axes, run: RunData, n_parts: int) -> bool:
    """Write the names of nodes, or of clusters where there are too many, on the right; tell whether there are any."""
    platform = platform_of(run)
    if platform is None:
        return False
    nodes = named_nodes(platform)
    spans = nodes if len(nodes) <= MAX_NODES // n_parts else named_groups(platform)
    if len(spans) < 2:
        return False
    beside = ax.secondary_yaxis("right")
    borders = [span.first for span in spans[1:]]
    beside.set_yticks(borders, [""] * len(borders))
    middles, names, free = [], [], -1.0
    for span in spans:
        middle = span.first + span.n_units / 2
        if middle - free >= MIN_NAME_GAP * n_parts * run.n_cores:  # names must not cover each other
            middles.append(middle)
            names.append(verbatim(shortened(span.name, 24)))
            free = middle
    beside.set_yticks(middles, names, minor=True)
    beside.tick_params(axis="y", which="minor", length=0, labelsize=8, labelcolor=FAINT)
    beside.tick_params(axis="y", which="major", color=FAINT)
    beside.spines["right"].set_visible(False)
    return True


def _colours(
    ax: Axes, run: RunData, bars: Bars, by: str, *, beside: float
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    if by == "job":
        # By order of start: neighbours in time get different colours.
        order = np.empty(run.n_jobs, dtype=np.int64)
        order[np.argsort(run.start_s, kind="stable")] = np.arange(run.n_jobs)
        return order[bars.job] % (len(PALETTE) - 1), rgb(PALETTE[:-1])
    from matplotlib.patches import Patch

    grouped = groups_of(run, by, max_groups=len(PALETTE))
    handles = [Patch(color=PALETTE[index], label=name) for index, name in enumerate(grouped.names)]
    legend(ax, 2, title=grouped.title, handles=handles, beside=beside)
    return grouped.group[bars.job], rgb(PALETTE)


def _label(ax: Axes, run: RunData, bars: Bars, unit_s: float, n_parts: int) -> None:
    """Write ids into the rectangles that are wide and high enough, the largest first."""
    (low, high), n_cores = ax.get_xlim(), run.n_cores
    fits = np.flatnonzero(bars.n_cores >= 0.028 * n_parts * n_cores)
    width = (bars.end_s - bars.start_s)[fits] / unit_s / max(high - low, 1e-12)
    needed = np.array([0.004 + 0.0065 * len(str(run.job_id[job])) for job in bars.job[fits].tolist()])
    area = width * bars.n_cores[fits]
    fits, area = fits[width >= needed], area[width >= needed]
    for bar in fits[np.argsort(-area, kind="stable")][:MAX_LABELS].tolist():
        ax.text(
            (bars.start_s[bar] + bars.end_s[bar]) / 2 / unit_s,
            bars.first_core[bar] + bars.n_cores[bar] / 2,
            verbatim(str(run.job_id[bars.job[bar]])),
            ha="center",
            va="center",
            fontsize=7,
            color="white",
            clip_on=True,
        )


WAITING, RUNNING = PALETTE[4], PALETTE[0]


def lifecycle(runs: object, ax: Axes | None = None) -> Figure:
    """Draw a line per job in the order of submission: waiting, then running; a part of the figure per run."""
    shown = as_runs(runs)
    figure, axes = canvas(ax, len(shown), size_in=(11.0, 1.6 + 3.6 * len(shown)))
    for part, run in zip(axes, shown, strict=True):
        _draw_lives(part, run, shown)
        if part is not axes[-1]:
            part.set_xlabel("")
    return figure


def _draw_lives(ax: Axes, run: RunData, runs: list[RunData]) -> None:
    from matplotlib.patches import Patch

    unit_s = time_axis(ax, runs)
    ax.set_ylim(max(1, run.n_jobs), 0)
    ax.set_ylabel("job, in order of submission")
    whole_numbers(ax.yaxis)
    ax.grid(visible=False)
    row = np.empty(run.n_jobs)
    row[np.argsort(run.submit_s, kind="stable")] = np.arange(run.n_jobs)
    until_s = run.span_s[1]
    rejected = run.state == "REJECTED"
    waits_until = np.where(np.isfinite(run.start_s), run.start_s, np.where(rejected, run.submit_s, until_s))
    runs_until = np.where(run.has_ended, run.end_s, np.where(np.isfinite(run.start_s), until_s, waits_until))
    begin = np.concatenate((run.submit_s, waits_until)) / unit_s
    end = np.concatenate((waits_until, runs_until)) / unit_s
    rows = np.concatenate((row, row))
    colour = np.repeat(np.arange(2), run.n_jobs)
    seen = end > begin
    draw_rectangles(
        ax,
        (begin[seen], end[seen]),
        (rows[seen], rows[seen] + 1),
        colour[seen],
        rgb([WAITING, RUNNING]),
        n_parts=len(runs),
        borders=False,
        min_opacity=0.6,
    )
    legend(ax, 2, handles=[Patch(color=WAITING, label="waits"), Patch(color=RUNNING, label="runs")])
    write_title(ax, "Life of the jobs", [run], in_common([run]))


def schedule_of(run: RunData) -> ScheduleChart:
    """Return the cores of each job over time."""
    bars = gantt_bars(run)
    started = np.isfinite(run.start_s)
    row = np.cumsum(started) - 1
    ends = np.where(run.has_ended, run.end_s, run.span_s[1])
    platform = platform_of(run)
    return ScheduleChart(
        item_word="job",
        unit_word="core",
        n_units=run.n_cores,
        ids=[str(text) for text in run.job_id[started]],
        start_s=run.start_s[started],
        end_s=ends[started],
        numbers=(
            ItemNumber("the waiting time", "waited {}", "s", np.maximum(0.0, run.start_s - run.submit_s)[started]),
            ItemNumber("the number of cores", "{} cores", "", run.cores[started].astype(np.float64)),
        ),
        item=row[bars.job],
        first_unit=bars.first_core,
        n_held=bars.n_cores,
        groups=() if platform is None else named_groups(platform),
        parts=() if platform is None else named_nodes(platform),
    )


def platform_of(run: RunData) -> Platform | None:
    """Return the platform of a run: that of its Trace, or the one that its options name if it is still the same."""
    if run.trace is not None:
        return run.trace.platform
    if run.folder is None:
        return None
    options = read_object(run.folder / OPTIONS_FILE)
    named = options.get("platform_file_path")
    known = read_object(run.folder / PROVENANCE_FILE).get("platform")
    wanted = known.get("sha256") if isinstance(known, dict) else None
    if not isinstance(named, str) or wanted is None:
        return None
    is_file = "/" in named or "." in named
    try:
        power = options.get("node_power")
        rules = pstate_rules(
            options.get("contention", "step"),
            compatibility=options.get("compatibility"),
            node_power=None if power is None else NodePower.read(power),
        )
        for source in (run.folder / named, run.folder.parent / named) if is_file else (named,):
            if not isinstance(source, Path) or file_and_name(source)[0].is_file():
                platform = read_platform(source, rules=rules)
                if platform.sha256() == wanted:
                    return platform
    except HdrlError:  # names are a help, no need
        return None
    return None


def named_groups(platform: Platform) -> tuple[Span, ...]:
    """Return the clusters of a platform, and their parts of equal nodes where they have several."""
    first = _first_cores(platform)
    groups = []
    node = 0
    for cluster in platform.clusters:
        for group in cluster.groups:
            parts = [cluster.id] if len(platform.clusters) > 1 or len(cluster.groups) == 1 else []
            name = " ".join([*parts, *([group.type.name] if len(cluster.groups) > 1 else [])])
            groups.append(Span(name, int(first[node]), int(first[node + group.number] - first[node])))
            node += group.number
    return tuple(groups)


def named_nodes(platform: Platform) -> tuple[Span, ...]:
    """Return the nodes of a platform, numbered from 0 on."""
    borders = itertools.pairwise(_first_cores(platform).tolist())
    return tuple(Span(f"node {node}", low, high - low) for node, (low, high) in enumerate(borders))


def _first_cores(platform: Platform) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Return the first core of each node, and one entry more."""
    first: np.ndarray[tuple[int], np.dtype[np.int64]] = platform.first_core_of_processor.astype(np.int64)[
        platform.first_processor_of_node.astype(np.int64)
    ]
    return first
