"""Files of a run folder: tables of all settings, the job log and the tables by priority."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from hdrl.base.csvfiles import atomic_table
from hdrl.base.sequences import words_of
from hdrl.metrics.formulas import summary
from hdrl.metrics.tasks import is_finished
from hdrl.trace.files import STAYS_FILE, TASKS_FILE, TraceFile, write_tables
from hdrl.trace.model import OutcomeTrace, TaskTrace

JOBS_FILE, PRIORITY_FILE, VALUES_FILE, GPUS_FILE = "jobs.csv", "per_priority.csv", "values.csv", "gpus.csv"

JOB_COLUMNS = (
    *("job_id", "user_id", "arrival_time", "start_time", "finish_time", "runtime", "gpus", "gpu_milli"),
    *("priority", "jct", "wait_time", "allocation"),
)
"""Columns of the job log: as in HenryAJX/DRL_Scheduler, times in seconds, and the share of each GPU."""


VALUE_COLUMNS = ("job", "table", "draw", "actions", "granted", "value", "expected", "best", "best_whole")
"""Columns of what jobs are worth; ``actions`` are those that a job came to, a digit for each."""


def _write_jobs(trace: TaskTrace, folder: Path) -> None:
    """Write a row for each finished job; ``allocation`` counts its GPUs by type on its last stay."""
    cluster, load = trace.machine, trace.load
    kinds = cluster.type_of_gpu  # type: ignore[attr-defined]
    names = [one.name for one in cluster.types]  # type: ignore[attr-defined]
    jobs, users = load.jobs, load.users  # type: ignore[attr-defined]
    held_s, last = np.zeros(len(jobs)), np.full(len(jobs), -1)
    np.add.at(held_s, trace.stays["task"], trace.stays["end_s"] - trace.stays["start_s"])
    last[trace.stays["task"]] = np.arange(len(trace.stays))
    with atomic_table(folder / JOBS_FILE, JOB_COLUMNS) as write_row:
        for number in np.flatnonzero(is_finished(trace.tasks["state"])).tolist():
            job, task, stay = jobs[number], trace.tasks[number], trace.stays[last[number]]
            units = trace.stay_units[stay["first_unit"] : stay["first_unit"] + stay["n_units"]]
            counts = np.bincount(kinds[units], minlength=len(names))
            jct_s = float(task["end_s"] - task["release_s"])
            user = users[job["user"]] if 0 <= job["user"] < len(users) else ""
            where = " ".join(f"{name}:{count}" for name, count in zip(names, counts.tolist(), strict=True) if count)
            times = (float(task["release_s"]), float(task["start_s"]), float(task["end_s"]), float(held_s[number]))
            sizes = (int(job["n_gpus"]), int(job["gpu_milli"]), float(job["priority"]))
            write_row([number, user, *times, *sizes, jct_s, max(0.0, jct_s - float(held_s[number])), where])


def _write_gpus(trace: TaskTrace, folder: Path) -> None:
    """Write node, type and speed of each GPU: ``stays.csv`` names GPUs by their numbers."""
    cluster = trace.machine
    nodes = cluster.node_of_gpu  # type: ignore[attr-defined]
    kinds, types = cluster.type_of_gpu, cluster.types  # type: ignore[attr-defined]
    with atomic_table(folder / GPUS_FILE, ("gpu", "node", "type", "flops")) as write_row:
        for number, (node, kind) in enumerate(zip(nodes.tolist(), kinds.tolist(), strict=True)):
            write_row([number, node, types[kind].name, float(types[kind].flops)])


def _write_priorities(trace: TaskTrace, folder: Path) -> None:
    """Write the completion times of finished jobs by priority."""
    priority = trace.load.jobs["priority"]  # type: ignore[attr-defined]
    finished = is_finished(trace.tasks["state"])
    jct_s = trace.tasks["end_s"] - trace.tasks["release_s"]
    statistics = ("mean", "median", "p95", "p99", "max")
    columns = ("priority", "n_jobs", "n_finished", *(f"{name}_jct_s" for name in statistics))
    with atomic_table(folder / PRIORITY_FILE, columns) as write_row:
        for one in np.unique(priority).tolist():
            mine = priority == one
            numbers = summary(jct_s[mine & finished])
            write_row([one, int(mine.sum()), int((mine & finished).sum()), *(numbers[name] for name in statistics)])


def write_values(trace: TaskTrace, folder: Path) -> None:
    """Write ``values.csv``: what adapting jobs were granted, how they were adapted, and their values.

    Write nothing for other jobs.
    """
    if not isinstance(trace, OutcomeTrace):
        return
    values = trace.load.values  # type: ignore[attr-defined]
    with atomic_table(folder / VALUES_FILE, VALUE_COLUMNS) as write_row:
        for job, outcome in enumerate(trace.outcomes):
            table = values.tables[values.table[job]]
            done = table.actions(int(outcome["sequence"]))[: outcome["n_decisions"]]
            numbers = [float(outcome[name]) for name in VALUE_COLUMNS[4:]]
            write_row([job, table.name, int(values.draw[job]), words_of(done, table.n_actions), *numbers])


FILES = (
    TraceFile((TASKS_FILE, STAYS_FILE), write_tables, "jobs and their stays on GPUs"),
    TraceFile((JOBS_FILE,), _write_jobs, "the log of finished jobs"),
    TraceFile((GPUS_FILE,), _write_gpus, "node, type and speed of each GPU"),
    TraceFile((PRIORITY_FILE,), _write_priorities, "completion times by priority"),
    TraceFile((VALUES_FILE,), write_values, "granted budgets and values of jobs that adapt", is_of_few=True),
)
"""Files of a run folder that are written from a Trace."""
