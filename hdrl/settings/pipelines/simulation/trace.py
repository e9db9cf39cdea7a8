"""Trace of a simulation: whole microseconds inside, and the common interface of all settings' traces outside."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from hdrl.compiled.records import of
from hdrl.settings.pipelines.kernel.state import PipelinesState
from hdrl.settings.pipelines.loads.load import PipelineLoad
from hdrl.settings.pipelines.machine import KINDS, Units
from hdrl.trace.model import STAY_DTYPE, TASK_DTYPE, Signal, TaskState, repr_of_trace

RUN_DTYPE = np.dtype(of(np.int64, "instance", "option", "unit", "start_us", "end_us", "worst_us"))
"""A kernel, alone or fused, on a unit: the instance, the option (a number in ``pipeline.options``), the unit, dates,
and its worst-case time there."""


@dataclass(frozen=True)
class PipelineTrace:
    """Everything that happened in one simulation; see also `hdrl.trace.Trace`.

    Attributes
    ----------
    start_us, end_us
        First start and end of each instance, shape ``(n_instances,)``.
    runs
        Array of `RUN_DTYPE`, by start, of the same start by unit.
    n_decisions
        Number of decisions of the policy.
    """

    machine: Units
    load: PipelineLoad
    start_us: NDArray[np.int64]
    end_us: NDArray[np.int64]
    runs: NDArray[np.void]
    n_decisions: int = 0
    info: Mapping[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        """Return one line, see `repr_of_trace`."""
        return repr_of_trace(self)

    @cached_property
    def late_us(self) -> NDArray[np.int64]:
        """Lateness of each instance in microseconds; negative if it ended before its deadline."""
        return np.asarray(self.end_us - self.load.instances["deadline_us"])

    @cached_property
    def is_missed(self) -> NDArray[np.bool_]:
        """True for each instance that ended later than its deadline and its tolerance."""
        return np.asarray(self.late_us > self.load.instances["tolerance_us"])

    @cached_property
    def tasks(self) -> NDArray[np.void]:
        """The instances as tasks: ``kind`` is the number of the pipeline."""
        table, tasks = self.load.instances, np.zeros(self.load.n_items, dtype=TASK_DTYPE)
        tasks["release_s"], tasks["deadline_s"] = table["release_us"] / 1e6, table["deadline_us"] / 1e6
        tasks["start_s"], tasks["end_s"] = self.start_us / 1e6, self.end_us / 1e6
        tasks["state"] = TaskState.DONE
        tasks["requested_s"], tasks["user"], tasks["kind"] = np.nan, -1, table["pipeline"]
        return tasks

    @cached_property
    def stays(self) -> NDArray[np.void]:
        """The runs as stays on one unit each; ``pace`` is 1."""
        stays = np.zeros(len(self.runs), dtype=STAY_DTYPE)
        stays["task"], stays["first_unit"] = self.runs["instance"], np.arange(len(self.runs))
        stays["start_s"], stays["end_s"] = self.runs["start_us"] / 1e6, self.runs["end_us"] / 1e6
        stays["n_units"], stays["pace"] = 1, 1.0
        return stays

    @cached_property
    def stay_units(self) -> NDArray[np.int32]:
        """The unit of each run."""
        return np.asarray(self.runs["unit"], dtype=np.int32)

    @cached_property
    def signals(self) -> Mapping[str, Signal]:
        """Busy units by kind, and instances that are released and have not ended."""
        kinds = np.array(self.machine.kinds)[self.runs["unit"]]
        found = {}
        for kind, name in enumerate(KINDS):
            if kind in self.machine.kinds:
                own = self.runs[kinds == kind]
                found[f"busy_{name}"] = _steps(own["start_us"], own["end_us"])
        found["instances"] = _steps(self.load.instances["release_us"], self.end_us)
        return found

    @property
    def counts(self) -> Mapping[str, float]:
        """Instances that were missed, and kernels that were started, fused ones as one."""
        return {"missed": float(self.is_missed.sum()), "started": float(len(self.runs))}

    @property
    def end_s(self) -> float:
        """The date at which the last instance ended."""
        return float(self.end_us.max()) / 1e6

    def part(self, first: int, n_items: int) -> Self:
        """Return the Trace of some consecutive instances."""
        last = first + n_items
        if n_items == self.load.n_items:
            return self
        runs = self.runs[(self.runs["instance"] >= first) & (self.runs["instance"] < last)].copy()
        runs["instance"] -= first
        load = self.load.window(first, n_items)
        return replace(self, load=load, start_us=self.start_us[first:last], end_us=self.end_us[first:last], runs=runs)


def _steps(begin_us: NDArray[np.int64], end_us: NDArray[np.int64]) -> Signal:
    """Return the number of spans that include each date."""
    dates = np.concatenate([begin_us, end_us])
    changes = np.concatenate([np.ones(len(begin_us)), -np.ones(len(end_us))])
    found, positions = np.unique(dates, return_inverse=True)
    return Signal(found / 1e6, np.cumsum(np.bincount(positions, weights=changes, minlength=len(found))))


def trace_of(
    state: PipelinesState, row: int, machine: Units, load: PipelineLoad, info: Mapping[str, Any] | None = None
) -> PipelineTrace:
    """Return the trace of an environment of a batch whose episode has ended."""
    scalars = state.scalars[row, 0]
    stays = np.asarray(state.stays[row, : int(scalars["n_stays"])])
    runs = np.zeros(len(stays), dtype=RUN_DTYPE)
    for name in ("instance", "unit", "start_us", "end_us", "worst_us"):
        runs[name] = stays[name]
    # The choices of all pipelines of a load lie in the table one after the other, kernel by kernel.
    of_first = int(state.instances[int(scalars["first_instance"])]["pipeline"]) - int(load.instances["pipeline"][0])
    first = int(state.kernels[int(state.pipelines[of_first]["first_kernel"])]["first_choice"])
    options = [one for pipeline in load.pipelines for choices in pipeline.choices for one in choices]
    runs["option"] = np.array(options)[stays["choice"] - first]
    progress = state.progress[row, : load.n_items]
    return PipelineTrace(
        machine,
        load,
        np.array(progress["start_us"]),
        np.array(progress["end_us"]),
        runs.take(np.lexsort((runs["unit"], runs["start_us"]))),
        n_decisions=int(scalars["n_decisions"]),
        info=info or {},
    )
