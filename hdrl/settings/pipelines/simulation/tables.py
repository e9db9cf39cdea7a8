"""Pipelines and loads as the flat tables that the compiled simulator reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hdrl.settings.pipelines.kernel.state import (
    CHOICE_DTYPE,
    INSTANCE_TABLE_DTYPE,
    KERNEL_DTYPE,
    MEMBER_DTYPE,
    PIPELINE_DTYPE,
    SETTINGS_DTYPE,
    UNIT_TABLE_DTYPE,
)
from hdrl.settings.pipelines.loads.load import PipelineLoad
from hdrl.settings.pipelines.loads.pipeline import NEVER, Pipeline
from hdrl.settings.pipelines.machine import CPU, GPU, Units

Plan = Mapping[int, Mapping[int, tuple[int, int]]]
"""A static mapping: for pipelines by number, for kernels by number with which something begins, the number of the
choice among those of the kernel, and the unit."""


def shared_tables(machine: Units, loads: Sequence[PipelineLoad], plan: Plan | None = None) -> dict[str, NDArray[Any]]:
    """Return the tables that all environments share, by name.

    They hold pipelines and instances of all loads, one load after the other; ``plan`` is a static mapping of the only
    load.
    """
    of_loads = tuple(load.pipelines for load in loads)
    tables, first_pipeline = _kept_tables(machine, of_loads) if plan is None else _tables(machine, of_loads, plan)
    instances = []
    n_positions = 0
    for load in loads:
        table = np.zeros(load.n_items, dtype=INSTANCE_TABLE_DTYPE)
        for name in ("release_us", "deadline_us", "tolerance_us", "period_us"):
            table[name] = load.instances[name]
        table["job"] = load.instances["pipeline"]
        table["pipeline"] = load.instances["pipeline"] + first_pipeline[load.pipelines]
        table["is_announced"] = not load.origin.get("spread", 0.0)
        table["first_place"] = load.first_kernels[:-1] + n_positions
        n_positions += int(load.first_kernels[-1])
        instances.append(table)
    return {**tables, "instances": np.concatenate(instances), "settings": np.zeros(1, dtype=SETTINGS_DTYPE)}


def _tables(
    machine: Units, of_loads: Sequence[tuple[Pipeline, ...]], plan: Plan
) -> tuple[dict[str, NDArray[Any]], dict[tuple[Pipeline, ...], int]]:
    """Return the tables of units and pipelines, and the number of the first pipeline of each load by its pipelines."""
    units = np.zeros(machine.n_units, dtype=UNIT_TABLE_DTYPE)
    units["kind"], units["ecu"] = machine.kinds, machine.ecus
    pipelines: list[tuple[int, ...]] = []
    kernels: list[tuple[int, ...]] = []
    successors: list[int] = []
    choices: list[tuple[int, ...]] = []
    members: list[tuple[int, ...]] = []
    first_pipeline: dict[tuple[Pipeline, ...], int] = {}
    for of_load in of_loads:
        if of_load in first_pipeline:  # loads that differ in their dates alone share their pipelines
            continue
        first_pipeline[of_load] = len(pipelines)
        for number, pipeline in enumerate(of_load):
            pipelines.append((len(kernels), len(pipeline.kernels), pipeline.ecu))
            _add_pipeline(pipeline, machine, plan.get(number, {}), kernels, successors, choices, members)
    tables = {
        "units": units,
        "pipelines": np.array(pipelines, dtype=PIPELINE_DTYPE),
        "kernels": np.array(kernels, dtype=KERNEL_DTYPE),
        "successors": np.array(successors or [0], dtype=np.int64),
        "choices": np.array(choices, dtype=CHOICE_DTYPE),
        "members": np.array(members, dtype=MEMBER_DTYPE),
    }
    return tables, first_pipeline


@lru_cache(maxsize=8)
def _kept_tables(
    machine: Units, of_loads: tuple[tuple[Pipeline, ...], ...]
) -> tuple[dict[str, NDArray[Any]], dict[tuple[Pipeline, ...], int]]:
    """Return `_tables` without a plan, once for all simulations of the same pipelines."""
    tables, first_pipeline = _tables(machine, of_loads, {})
    for table in tables.values():
        table.flags.writeable = False
    return tables, first_pipeline


def _add_pipeline(
    pipeline: Pipeline,
    machine: Units,
    plan: Mapping[int, tuple[int, int]],
    kernels: list[tuple[int, ...]],
    successors: list[int],
    choices: list[tuple[int, ...]],
    members: list[tuple[int, ...]],
) -> None:
    worst, best, mean = _times(pipeline, machine)
    tail, best_tail, rank = (_tails(pipeline, times) for times in (worst, best, mean))
    for number in range(len(pipeline.kernels)):
        first_successor, first_choice = len(successors), len(choices)
        successors.extend(pipeline.successors[number])
        for option in pipeline.choices[number]:
            _add_choice(pipeline, option, worst, tail, best_tail, choices, members)
        planned_choice, planned_unit = plan.get(number, (NEVER, NEVER))
        kernels.append(
            (
                worst[number],
                best[number],
                tail[number],
                best_tail[number],
                rank[number],
                len(pipeline.predecessors[number]),
                first_successor,
                len(pipeline.successors[number]),
                first_choice,
                len(pipeline.choices[number]),
                planned_choice,
                planned_unit,
            )
        )


def _times(pipeline: Pipeline, machine: Units) -> tuple[list[int], list[int], list[int]]:
    """Return the worst, the best and the mean time of each kernel alone over the units that may run it."""
    kinds = machine.kinds
    if pipeline.ecu != -1:
        kinds = tuple(kind for kind, ecu in zip(machine.kinds, machine.ecus, strict=True) if ecu == pipeline.ecu)
    worst, best, mean = [], [], []
    for kernel in pipeline.kernels:
        of_kind = kernel.times_us
        times = [of_kind[kind] for kind in kinds if of_kind[kind] != NEVER]
        worst.append(max(times))
        best.append(min(times))
        mean.append(sum(times) // len(times))
    return worst, best, mean


def _tails(pipeline: Pipeline, times: Sequence[int]) -> list[int]:
    """Return the longest path from the start of each kernel to the end."""
    if not pipeline.edges:
        return list(times)
    tails = [0] * len(times)
    for kernel in reversed(pipeline.order):
        tails[kernel] = times[kernel] + max((tails[after] for after in pipeline.successors[kernel]), default=0)
    return tails


def _add_choice(
    pipeline: Pipeline,
    option: int,
    worst: Sequence[int],
    tail: Sequence[int],
    best_tail: Sequence[int],
    choices: list[tuple[int, ...]],
    members: list[tuple[int, ...]],
) -> None:
    group = pipeline.options[option]
    inside = set(group.kernels)
    after = {one for kernel in group.kernels for one in pipeline.successors[kernel]} - inside
    alone = [pipeline.kernels[kernel].times_us for kernel in group.kernels]
    sums = [
        sum(times[kind] for times in alone) if all(times[kind] != NEVER for times in alone) else NEVER
        for kind in (CPU, GPU)
    ]
    choices.append(
        (
            *group.times_us,
            *sums,
            max((best_tail[one] for one in after), default=0),
            min(tail[kernel] - worst[kernel] for kernel in group.kernels),
            len(members),
            len(group.kernels),
        )
    )
    members += [
        (kernel, len(inside & set(pipeline.predecessors[kernel])), *pipeline.kernels[kernel].times_us)
        for kernel in group.kernels
    ]
