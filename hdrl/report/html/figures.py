"""The interactive figures of a report: which arrays they need, and what the browser is told about them."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hdrl.errors import ReadError
from hdrl.report.data import (
    Bars,
    Steps,
    cumulative_distribution,
    gantt_bars,
    job_values,
    power,
    queue_size,
    utilization,
)
from hdrl.report.html.packing import Pack, packed_text
from hdrl.report.html.sources import Run
from hdrl.report.learning import LOG_FILES, TABLES, learning_log

FloatArray = NDArray[np.float64]

MOST_STEPS = 24_000
"""A curve with more steps becomes one of means over this many spans."""

MOST_BARS = 40_000
"""A Gantt chart with more bars has the gaps within jobs closed, the narrowest first."""

MOST_QUANTILES = 2_000


@dataclass(slots=True)
class Figures:
    """All figures of a report.

    Attributes
    ----------
    charts
        What the browser is told: one entry per figure.
    packs
        The arrays by the id of the element that holds them.
    directory
        Where each array is within its pack, by the same id.
    """

    charts: list[dict[str, Any]] = field(default_factory=list)
    packs: dict[str, str] = field(default_factory=dict)
    directory: dict[str, Any] = field(default_factory=dict)

    def add_pack(self, name: str, pack: Pack, **texts: list[str]) -> None:
        """Add the arrays of one figure.

        Parameters
        ----------
        name
            Id of the pack.
        pack
            The arrays.
        texts
            Lists of texts by name, stored beside them.
        """
        self.packs[name] = pack.text()
        self.directory[name] = pack.arrays
        for key, values in texts.items():
            self.packs[f"{name}-{key}"] = packed_text(json.dumps(values))


def time_unit(span_s: float) -> tuple[float, str]:
    """Return the seconds and the name of the unit that suits an axis.

    Parameters
    ----------
    span_s
        Length of the axis in seconds.
    """
    for divisor, name in ((86400.0, "d"), (3600.0, "h"), (60.0, "min")):
        if span_s >= 3 * divisor:
            return divisor, name
    return 1.0, "s"


def figures_of_runs(runs: Sequence[Run]) -> Figures:
    """Return the figures of some runs.

    Parameters
    ----------
    runs
        The runs.
    """
    figures = Figures()
    spans = [run.data.span_s for run in runs]
    divisor, unit = time_unit(max(end - begin for begin, end in spans))
    for index, run in enumerate(runs):
        _add_gantt(figures, index, run, divisor)
    time_axis = {"title": f"time ({unit})"}
    for name, title, axis, steps_of in (
        ("utilization", "Utilisation", {"title": "busy cores (%)", "from0": True}, _utilization_percent),
        ("queue", "Queue", {"title": "waiting jobs", "from0": True}, lambda run: queue_size(run.data)),
        ("power", "Power", {"title": "power of all hosts (kW)"}, _power_kw),
    ):
        _add_steps(figures, runs, name=name, title=title, x=time_axis, y=axis, steps_of=steps_of, divisor=divisor)
    for name, title, words in (
        ("bounded_slowdown", "Bounded slowdown of the jobs", "bounded slowdown"),
        ("wait_s", "Waiting time of the jobs", "waiting time (s), 1 s and less at the left border"),
    ):
        _add_distribution(figures, runs, value=name, title=title, words=words)
    _add_learning(figures, runs)
    return figures


def _utilization_percent(run: Run) -> Steps:
    steps = utilization(run.data)
    return Steps(steps.edges_s, steps.values * 100)


def _power_kw(run: Run) -> Steps | None:
    try:
        steps = power(run.data)
    except ReadError:  # no energy was accounted for
        return None
    return Steps(steps.edges_s, steps.values / 1e3)


def _add_steps(
    figures: Figures,
    runs: Sequence[Run],
    *,
    name: str,
    title: str,
    x: dict[str, Any],
    y: dict[str, Any],
    steps_of: Callable[[Run], Steps | None],
    divisor: float,
) -> None:
    series = []
    means = []
    for index, run in enumerate(runs):
        steps = steps_of(run)
        if steps is None or not len(steps.values):
            continue
        edges, values = _thinned(steps)
        pack = Pack()
        pack.add("x", edges / divisor)
        pack.add("y", np.append(values, values[-1]))
        figures.add_pack(f"{name}-{index}", pack)
        series.append({"run": index, "pack": f"{name}-{index}"})
        means.append(f"{run.name} {steps.mean:.4g}")
    if series:
        figures.charts.append(
            {
                "id": name,
                "panel": "time",
                "title": title,
                "alt": f"{title} over time, {y['title']}. Mean by time: {'; '.join(means)}.",
                "shape": "hv",
                "means": True,
                "x": x,
                "y": y,
                "series": series,
            }
        )


def _thinned(steps: Steps) -> tuple[FloatArray, FloatArray]:
    """Return edges and values of a step function; of one with more than `MOST_STEPS`, means over equal spans."""
    if len(steps.values) <= MOST_STEPS:
        return steps.edges_s, steps.values
    bins = steps.binned(MOST_STEPS)
    return bins.edges, bins.mean


def _add_distribution(figures: Figures, runs: Sequence[Run], *, value: str, title: str, words: str) -> None:
    series = []
    medians = []
    for index, run in enumerate(runs):
        numbers = job_values(run.data, value)
        if not len(numbers):
            continue
        values, shares = _fewer(*cumulative_distribution(np.maximum(numbers, 1.0)))
        pack = Pack()
        pack.add("x", np.log10(values))
        pack.add("y", shares * 100)
        figures.add_pack(f"{value}-{index}", pack)
        series.append({"run": index, "pack": f"{value}-{index}"})
        medians.append(f"{run.name} {float(np.median(numbers)):.4g}")
    if series:
        figures.charts.append(
            {
                "id": value,
                "panel": "distribution",
                "title": title,
                "alt": f"{title}: share of the jobs that is not above each value. Medians: {'; '.join(medians)}.",
                "shape": "hv",
                "x": {"title": words, "log": True},
                "y": {"title": "jobs not above (%)", "range": [0, 100]},
                "series": series,
            }
        )


def _fewer(values: FloatArray, shares: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return a distribution at fewer places: evenly by share, and every value of its tail."""
    if len(values) <= MOST_QUANTILES:
        return values, shares
    wanted = np.searchsorted(shares, np.linspace(0, 1, MOST_QUANTILES), side="left")
    kept = np.unique(np.concatenate((wanted, np.arange(len(values) - 200, len(values)))).clip(0, len(values) - 1))
    return values[kept], shares[kept]


def _add_learning(figures: Figures, runs: Sequence[Run]) -> None:
    for kind, title, words in (
        ("rewards", "Return of the episodes", "return"),
        ("makespans", "Makespan of the episodes", "makespan (s)"),
        ("losses", "Loss of the updates", "loss"),
    ):
        series = []
        names = []
        for index, run in enumerate(runs):
            values = _log(run, kind)
            if not len(values):
                continue
            pack = Pack()
            pack.add("x", np.arange(1, len(values) + 1))
            pack.add("y", values)
            figures.add_pack(f"{kind}-{index}", pack)
            series.append({"run": index, "pack": f"{kind}-{index}"})
            names.append(run.name)
        if series:
            figures.charts.append(
                {
                    "id": kind,
                    "panel": "learning",
                    "title": title,
                    "alt": f"{title} during training: {', '.join(names)}.",
                    "shape": "linear",
                    "means": True,
                    "x": {"title": "update" if kind == "losses" else "episode"},
                    "y": {"title": words},
                    "series": series,
                }
            )


def _log(run: Run, kind: str) -> FloatArray:
    """Return a log of a training; nothing for a run that did not learn."""
    files = (LOG_FILES[kind], TABLES[kind][0])
    if not any((run.folder / file).is_file() for file in files):
        return np.zeros(0)
    try:
        return learning_log(run.folder, kind)
    except ReadError:
        return np.zeros(0)


def _add_gantt(figures: Figures, index: int, run: Run, divisor: float) -> None:
    data = run.data
    bars, closed = _closed(gantt_bars(data))
    started = np.isfinite(data.start_s)
    row = np.cumsum(started) - 1
    ends = np.where(data.has_ended, data.end_s, data.span_s[1])
    pack = Pack()
    pack.add("start", data.start_s[started] / divisor)
    pack.add("end", ends[started] / divisor)
    pack.add("wait", np.maximum(0.0, data.start_s - data.submit_s)[started])
    pack.add("cores", data.cores[started])
    pack.add("job", row[bars.job])
    pack.add("first", bars.first_core)
    pack.add("n", bars.n_cores)
    figures.add_pack(f"gantt-{index}", pack, ids=[str(text) for text in data.job_id[started]])
    figures.directory[f"gantt-{index}"]["closed"] = closed


def _closed(bars: Bars) -> tuple[Bars, int]:
    """Return few enough bars, and how many free cores between two blocks of one job were drawn as its own for that."""
    closed = 0
    most = max(MOST_BARS, 2 * len(np.unique(bars.job)))
    while len(bars.job) > most and closed < 2**30:
        closed = max(1, 2 * closed)
        order = np.lexsort((bars.first_core, bars.job))
        job, first, last = bars.job[order], bars.first_core[order], (bars.first_core + bars.n_cores)[order]
        begins = np.ones(len(job), dtype=bool)
        begins[1:] = (job[1:] != job[:-1]) | (first[1:] - last[:-1] > closed)
        if begins.all() and closed >= 2**20:
            break
        where = np.flatnonzero(begins)
        stop = np.append(where[1:], len(job)) - 1
        bars = Bars(
            job[where],
            bars.start_s[order][where],
            bars.end_s[order][where],
            first[where],
            last[stop] - first[where],
        )
    return bars, closed
