"""Files of a run folder: instances and runs in whole microseconds, and rlschedsim's history."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from hdrl.base.csvfiles import atomic_table, read_table
from hdrl.base.errors import ReadError
from hdrl.base.files import atomic_write
from hdrl.settings.pipelines.machine import KINDS
from hdrl.settings.pipelines.simulation.trace import PipelineTrace
from hdrl.trace.files import TraceFile, write_tables

INSTANCES_FILE, RUNS_FILE, HISTORY_FILE = "instances.csv", "runs.csv", "task_set_history.stats"

INSTANCE_COLUMNS = (
    *("instance", "pipeline", "name", "release_us", "deadline_us", "tolerance_us"),
    *("start_us", "end_us", "late_us", "missed"),
)
RUN_COLUMNS = ("instance", "pipeline", "kernels", "unit", "label", "start_us", "end_us", "worst_us")


def _write_instances(trace: PipelineTrace, folder: Path) -> None:
    """Write a row for each instance."""
    table = trace.load.instances
    with atomic_table(folder / INSTANCES_FILE, INSTANCE_COLUMNS) as write_row:
        for number, one in enumerate(table.tolist()):
            pipeline, release_us, deadline_us, tolerance_us, _ = one
            name = trace.load.pipelines[pipeline].name
            ends = int(trace.start_us[number]), int(trace.end_us[number]), int(trace.late_us[number])
            missed = int(trace.is_missed[number])
            write_row([number, pipeline, name, release_us, deadline_us, tolerance_us, *ends, missed])


def _write_runs(trace: PipelineTrace, folder: Path) -> None:
    """Write a row for each kernel that was started, alone or fused."""
    labels, pipelines = trace.machine.labels, trace.load.instances["pipeline"]
    with atomic_table(folder / RUNS_FILE, RUN_COLUMNS) as write_row:
        for instance, option, unit, start_us, end_us, worst_us in trace.runs.tolist():
            pipeline = int(pipelines[instance])
            kernels = "-".join(map(str, trace.load.pipelines[pipeline].options[option].kernels))
            write_row([instance, pipeline, kernels, unit, labels[unit], start_us, end_us, worst_us])


def write_history(trace: PipelineTrace, folder: Path) -> None:
    """Write rlschedsim's ``task_set_history.stats``.

    A line is instance, pipeline, kernels, kind of unit, number of the unit among its kind, start and end in
    milliseconds, and whether it was the last of its instance.
    """
    numbers = [trace.machine.kinds[:unit].count(kind) for unit, kind in enumerate(trace.machine.kinds)]
    with atomic_write(folder / HISTORY_FILE) as out:
        for instance, option, unit, start_us, end_us, _ in trace.runs.tolist():
            pipeline = int(trace.load.instances["pipeline"][instance])
            group = trace.load.pipelines[pipeline].options[option]
            inside = set(group.kernels)
            after = {v for k in inside for v in trace.load.pipelines[pipeline].successors[k]} - inside
            fields = (
                *(instance, pipeline, "-".join(map(str, group.kernels))),
                *(KINDS[trace.machine.kinds[unit]], numbers[unit], start_us / 1000, end_us / 1000, int(not after)),
            )
            out.write(",".join(map(str, fields)) + "\n")


def read_tables(folder: Path) -> tuple[list[dict[str, str]], list[dict[str, str]]]:
    """Read the files of `write_instances` and `write_runs`: rows by column, as text.

    Raise ReadError if a file is missing or of another form.
    """
    return _rows(folder / INSTANCES_FILE, INSTANCE_COLUMNS), _rows(folder / RUNS_FILE, RUN_COLUMNS)


def _rows(path: Path, columns: Sequence[str]) -> list[dict[str, str]]:
    if not path.is_file():
        raise ReadError(path, "no such file")
    return [dict(zip(columns, row, strict=True)) for row in read_table(path, columns)]


FILES = (
    TraceFile((INSTANCES_FILE,), _write_instances, "instances with their deadlines, in microseconds"),
    TraceFile((RUNS_FILE,), _write_runs, "which kernels ran where and when, in microseconds"),
    TraceFile((HISTORY_FILE,), write_history, "the same as rlschedsim writes it"),
    TraceFile(("tasks.csv", "stays.csv"), write_tables, "the tables that all settings have"),
)
