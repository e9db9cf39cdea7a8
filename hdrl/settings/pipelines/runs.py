"""Runs as pictures and reports need them, from a Trace or from the files of a folder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hdrl.base.errors import ReadError
from hdrl.base.textnumbers import int_of
from hdrl.figures.figure import ItemNumber, Run, ScheduleChart
from hdrl.figures.folders import OPTIONS_FILE, PROVENANCE_FILE, get_nested_text, read_numbers, read_object
from hdrl.settings.pipelines.files import INSTANCES_FILE, RUNS_FILE, read_tables
from hdrl.settings.pipelines.loads.releases import MAX_INSTANCES
from hdrl.settings.pipelines.machine import MAX_UNITS
from hdrl.settings.pipelines.simulation.trace import PipelineTrace

IntArray = NDArray[np.int64]


@dataclass(frozen=True)
class PipelineRun:
    """Data of a run for figures."""

    name: str
    policy: str | None  # policy that decided; ``None`` if unknown
    units: tuple[str, ...]  # names of the units
    pipelines: tuple[str, ...]
    # of each instance: its pipeline and dates
    pipeline: IntArray
    release_us: IntArray
    deadline_us: IntArray
    end_us: IntArray
    is_missed: NDArray[np.bool_]  # True where the instance was missed
    # of each kernel that ran, alone or fused: the instance, the unit, and dates
    run_instance: IntArray
    run_unit: IntArray
    run_start_us: IntArray
    run_end_us: IntArray
    run_kernels: tuple[str, ...]  # kernels of the run: ``"0-1-2"``

    @property
    def span_s(self) -> tuple[float, float]:
        """First release, and the last end or deadline, in seconds."""
        return float(self.release_us.min()) / 1e6, float(max(self.end_us.max(), self.deadline_us.max())) / 1e6


def run_of_trace(trace: PipelineTrace, name: str | None = None) -> PipelineRun:
    """Return the run of a Trace, named after its policy by default."""
    policy, table = trace.info.get("policy"), trace.load.instances
    options = [[group.kernels for group in one.options] for one in trace.load.pipelines]
    owners = table["pipeline"][trace.runs["instance"]].tolist()
    return PipelineRun(
        name=name or policy or trace.load.name,
        policy=policy,
        units=trace.machine.labels,
        pipelines=tuple(one.name for one in trace.load.pipelines),
        pipeline=table["pipeline"],
        release_us=table["release_us"],
        deadline_us=table["deadline_us"],
        end_us=trace.end_us,
        is_missed=trace.is_missed,
        run_instance=trace.runs["instance"],
        run_unit=trace.runs["unit"],
        run_start_us=trace.runs["start_us"],
        run_end_us=trace.runs["end_us"],
        run_kernels=tuple(
            "-".join(map(str, options[owner][option]))
            for owner, option in zip(owners, trace.runs["option"].tolist(), strict=True)
        ),
    )


def read_run(folder: Path, name: str | None = None) -> Run:
    """Read a run folder with ``instances.csv`` and ``runs.csv``, named after the folder by default."""
    instances, runs = read_tables(folder)
    provenance = read_object(folder / PROVENANCE_FILE)
    policy = get_nested_text(provenance, "agent", "policy")
    run_instance = _integers(runs, "instance", folder, len(instances))
    run_unit, pipeline = (
        _integers(runs, "unit", folder, MAX_UNITS),
        _integers(instances, "pipeline", folder, MAX_INSTANCES),
    )
    units = dict(zip(run_unit.tolist(), (row["label"] for row in runs), strict=True))
    names = dict(zip(pipeline.tolist(), (row["name"] for row in instances), strict=True))
    data = PipelineRun(
        name=name or folder.resolve().name,
        policy=policy,
        units=tuple(units.get(number, f"unit {number}") for number in range(max(units, default=-1) + 1)),
        pipelines=tuple(names.get(number, f"pipeline {number}") for number in range(max(names, default=-1) + 1)),
        pipeline=pipeline,
        release_us=_integers(instances, "release_us", folder),
        deadline_us=_integers(instances, "deadline_us", folder),
        end_us=_integers(instances, "end_us", folder),
        is_missed=_integers(instances, "missed", folder) > 0,
        run_instance=run_instance,
        run_unit=run_unit,
        run_start_us=_integers(runs, "start_us", folder),
        run_end_us=_integers(runs, "end_us", folder),
        run_kernels=tuple(row["kernels"] for row in runs),
    )
    return Run(
        name=data.name,
        folder=folder,
        policy=policy,
        workload=get_nested_text(provenance, "workload", "name"),
        platform=get_nested_text(provenance, "platform", "name"),
        metrics=read_numbers(folder),
        options=read_object(folder / OPTIONS_FILE),
        provenance=provenance,
        data=data,
        n_items=len(data.pipeline),
        facts={"units": float(len(data.units)), "instances": float(len(data.pipeline))},
        schedule=lambda: schedule_of(data),
    )


def schedule_of(run: PipelineRun) -> ScheduleChart:
    """Return the kernels on each unit over time."""
    late_s = np.maximum(run.end_us - run.deadline_us, 0)[run.run_instance] / 1e6
    owners = run.pipeline[run.run_instance]
    n = len(run.run_instance)
    return ScheduleChart(
        item_word="kernel",
        unit_word="unit",
        n_units=len(run.units),
        ids=[
            f"{run.pipelines[owner]} {instance}: {kernels}"
            for owner, instance, kernels in zip(
                owners.tolist(), run.run_instance.tolist(), run.run_kernels, strict=True
            )
        ],
        start_s=run.run_start_us / 1e6,
        end_s=run.run_end_us / 1e6,
        numbers=(ItemNumber("how late its instance ended", "its instance ended {} late", "s", late_s),),
        item=np.arange(n),
        first_unit=np.asarray(run.run_unit),
        n_held=np.ones(n, dtype=np.int64),
    )


_LARGEST = 2**53


def _integers(rows: list[dict[str, str]], column: str, folder: Path, n: int | None = None) -> IntArray:
    """Return a column of whole numbers, from 0 to less than ``n`` if that is given."""
    try:
        numbers = [int_of(row[column]) for row in rows]
        least, most = (-_LARGEST, _LARGEST) if n is None else (0, n - 1)
        if numbers and not least <= min(numbers) <= max(numbers) <= most:
            raise ValueError
        return np.array(numbers, dtype=np.int64)
    except ValueError:
        file = INSTANCES_FILE if "name" in (rows or [{}])[0] else RUNS_FILE
        expected = "whole numbers" if n is None else f"whole numbers from 0 to {n - 1}"
        raise ReadError(folder / file, f"{column} holds something else than {expected}") from None
