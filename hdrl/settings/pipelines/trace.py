"""What happened in a simulation, in whole microseconds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hdrl.settings.pipelines.kernel.state import State
from hdrl.settings.pipelines.load import PipelineLoad
from hdrl.settings.pipelines.machine import Units

RUN_DTYPE = np.dtype(
    [
        ("instance", np.int64),
        ("option", np.int64),
        ("unit", np.int64),
        ("start_us", np.int64),
        ("end_us", np.int64),
        ("worst_us", np.int64),
    ]
)
"""A kernel, alone or fused, on a unit: the instance, the option (a number in ``pipeline.options``), the unit, dates,
and its worst-case time there."""


@dataclass(frozen=True)
class PipelineTrace:
    """Everything that happened in one simulation.

    Attributes
    ----------
    machine, load
        What was simulated.
    start_us, end_us
        First start and end of each instance, shape ``(n_instances,)``.
    runs
        Array of `RUN_DTYPE`, by start, of the same start by unit.
    n_decisions
        How many times the policy was asked.
    info
        Facts about the run that are not part of its result.
    """

    machine: Units
    load: PipelineLoad
    start_us: NDArray[np.int64]
    end_us: NDArray[np.int64]
    runs: NDArray[np.void]
    n_decisions: int = 0
    info: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def late_us(self) -> NDArray[np.int64]:
        """How much later than its deadline each instance ended; negative if before."""
        return np.asarray(self.end_us - self.load.instances["deadline_us"])

    @cached_property
    def is_missed(self) -> NDArray[np.bool_]:
        """Whether each instance ended later than its deadline and its tolerance."""
        return np.asarray(self.late_us > self.load.instances["tolerance_us"])


def trace_of(state: State, machine: Units, load: PipelineLoad, info: Mapping[str, Any] | None = None) -> PipelineTrace:
    """Return what happened in the first environment of a batch, whose episode has ended.

    Parameters
    ----------
    state
        The batch.
    machine, load
        What was simulated.
    info
        Facts about the run.
    """
    return row_trace(state, 0, machine, load, info)


def row_trace(
    state: State, row: int, machine: Units, load: PipelineLoad, info: Mapping[str, Any] | None = None
) -> PipelineTrace:
    """Return what happened in an environment of a batch, whose episode has ended.

    Parameters
    ----------
    state
        The batch.
    row
        Which environment.
    machine, load
        What was simulated.
    info
        Facts about the run.
    """
    scalars, n = state.scalars[row, 0], load.n_items
    stays = np.asarray(state.stays[row, : int(scalars["n_stays"])])
    runs = np.zeros(len(stays), dtype=RUN_DTYPE)
    for name in ("instance", "unit", "start_us", "end_us", "worst_us"):
        runs[name] = stays[name]
    firsts = _first_choices(state, load, int(scalars["first_instance"]))
    numbers = _option_numbers(load)
    for number, pipeline in enumerate(load.instances["pipeline"][stays["instance"]].tolist()):
        runs["option"][number] = numbers[pipeline][int(stays["choice"][number]) - firsts[pipeline]]
    progress = state.progress[row, :n]
    return PipelineTrace(
        machine,
        load,
        np.array(progress["start_us"]),
        np.array(progress["end_us"]),
        runs[np.lexsort((runs["unit"], runs["start_us"]))],
        n_decisions=int(scalars["n_decisions"]),
        info=info or {},
    )


def _first_choices(state: State, load: PipelineLoad, first_instance: int) -> dict[int, int]:
    """Return the place of each pipeline's first choice in the table."""
    found: dict[int, int] = {}
    for place, number in enumerate(load.instances["pipeline"].tolist()):
        if number not in found:
            pipeline = state.pipelines[int(state.instances[first_instance + place]["pipeline"])]
            found[number] = int(state.kernels[int(pipeline["first_kernel"])]["first_choice"])
    return found


def _option_numbers(load: PipelineLoad) -> list[list[int]]:
    """Return for each pipeline the numbers of its options in the order of the table of choices."""
    return [[option for choices in one.choices for option in choices] for one in load.pipelines]
