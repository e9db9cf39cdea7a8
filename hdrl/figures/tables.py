"""Runs that are written as tables of tasks and stays: read for pictures and reports, and what can be drawn of all."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hdrl.figures.figure import Figure, ItemNumber, OnPage, Run, ScheduleChart, by_name
from hdrl.figures.folders import OPTIONS_FILE, PROVENANCE_FILE, get_nested, get_nested_text, read_numbers, read_object
from hdrl.figures.over_time import over_time
from hdrl.figures.steps import StepFunction
from hdrl.trace.files import read_tables

MOST_UNITS = 10**9
"""A folder that speaks of more units is damaged."""


@dataclass(frozen=True, slots=True)
class TableRun:
    """A run as its tables describe it."""

    name: str
    policy: str | None  # ``None`` if unknown
    n_units: int  # units of the machine that were used
    # see `hdrl.trace.Trace`
    tasks: NDArray[np.void]
    stays: NDArray[np.void]
    stay_units: NDArray[np.int32]

    @property
    def span_s(self) -> tuple[float, float]:
        """Its first release and its last end in seconds."""
        release_s, end_s = self.tasks["release_s"], self.tasks["end_s"]
        return float(np.min(release_s, initial=0.0)), float(np.max(end_s, initial=0.0))


def read_table_run(folder: Path, name: str | None = None, *, unit_word: str = "unit") -> Run:
    """Read a run folder with ``tasks.csv`` and ``stays.csv``."""
    tasks, stays, units = read_tables(folder)
    provenance = read_object(folder / PROVENANCE_FILE)
    platform = get_nested(provenance, "platform")
    sizes = {
        key.removeprefix("n_"): value
        for key, value in (platform.items() if isinstance(platform, Mapping) else ())
        if key.startswith("n_") and type(value) is int and 0 <= value <= MOST_UNITS
    }
    n_units = max(next(iter(sizes.values()), 0), int(np.max(units, initial=-1)) + 1)
    policy = get_nested_text(provenance, "agent", "policy") or get_nested_text(provenance, "agent", "name")
    data = TableRun(name or folder.name, policy, n_units, tasks, stays, units)
    return Run(
        name=data.name,
        folder=folder,
        policy=policy,
        workload=get_nested_text(provenance, "workload", "name"),
        platform=get_nested_text(provenance, "platform", "name"),
        metrics=read_numbers(folder),
        n_items=len(tasks),
        options=read_object(folder / OPTIONS_FILE),
        provenance=provenance,
        data=data,
        facts={**sizes, "jobs": len(tasks)},
        conditions={f"{part}s": get_nested_text(provenance, part, "sha256") for part in ("platform", "workload")},
        schedule=functools.partial(_schedule, data, unit_word),
    )


def _schedule(run: TableRun, unit_word: str) -> ScheduleChart | None:
    """Return a rectangle for each unit of each stay."""
    stays = run.stays[run.stays["end_s"] >= 0]
    if not len(stays):
        return None
    each = np.repeat(np.arange(len(stays)), stays["n_units"])
    positions = np.concatenate([np.arange(first, first + n) for first, n in stays[["first_unit", "n_units"]].tolist()])
    wait_s = np.maximum(0.0, stays["start_s"] - run.tasks["release_s"][stays["task"]])
    return ScheduleChart(
        item_word="job",
        unit_word=unit_word,
        n_units=run.n_units,
        ids=[str(task) for task in stays["task"].tolist()],
        start_s=stays["start_s"],
        end_s=stays["end_s"],
        numbers=(ItemNumber("the waiting time", "waited {}", "s", wait_s),),
        item=each.astype(np.int64),
        first_unit=run.stay_units[positions].astype(np.int64),
        n_held=np.ones(len(each), dtype=np.int64),
    )


def levels(up_s: NDArray[np.float64], down_s: NDArray[np.float64], weight: NDArray[np.float64]) -> StepFunction:
    """Return the sum of weights between pairs of dates."""
    dates = np.concatenate((up_s, down_s))
    order = np.argsort(dates, kind="stable")
    times_s, first = np.unique(dates[order], return_index=True)
    sums = np.cumsum(np.concatenate((weight, -weight))[order])
    last = np.append(first[1:], len(order)) - 1
    return StepFunction(times_s, sums[last][:-1])


def _waiting(run: TableRun) -> StepFunction:
    tasks = run.tasks
    until_s = np.where(tasks["start_s"] >= 0, tasks["start_s"], run.span_s[1])
    return levels(tasks["release_s"], until_s, np.ones(len(tasks)))


def _busy(run: TableRun) -> StepFunction:
    stays = run.stays
    end_s = np.where(stays["end_s"] >= 0, stays["end_s"], run.span_s[1])
    return levels(stays["start_s"], end_s, stays["n_units"].astype(np.float64))


def queue_size(runs: Sequence[TableRun], ax: Any = None, *, positions: Sequence[int] | None = None) -> Any:
    """Draw the number of waiting tasks over time."""
    steps = [_waiting(run) for run in runs]
    return over_time(runs, steps, title="Queue", quantity="waiting jobs", positions=positions, ax=ax)


def busy_units(runs: Sequence[TableRun], ax: Any = None, *, positions: Sequence[int] | None = None) -> Any:
    """Draw the number of held units over time."""
    steps = [_busy(run) for run in runs]
    return over_time(runs, steps, title="Units in use", quantity="units in use", positions=positions, ax=ax)


TABLE_FIGURES = by_name(
    Figure("queue_size", "waiting jobs over time", queue_size, on_page=(OnPage("Over time", "Queue"),)),
    Figure("busy_units", "units in use over time", busy_units, on_page=(OnPage("Over time", "Units in use"),)),
)
"""Figures of every run that is written as tables."""
