"""The world of the DRL scheduler for GPU clusters (HenryAJX/DRL_Scheduler), with its errors, each of which is a switch.

It steps by seconds and starts at most one job in each, whatever its GPUs are; baselines choose from the whole queue.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hdrl.base.errors import UnknownName, WorkloadError
from hdrl.base.seeding import stream
from hdrl.compat.drl_gpu import world as kernel
from hdrl.compiled.borrowed import Borrowed
from hdrl.envs.requests import chosen_errors
from hdrl.settings.gpu.cluster.machine import GpuCluster
from hdrl.settings.gpu.loads.load import GpuLoad
from hdrl.settings.gpu.loads.readers import read_trace
from hdrl.settings.gpu.simulation.events import signals_of
from hdrl.trace.model import STAY_DTYPE, TASK_DTYPE, DeferredSignals, TaskState, TaskTrace

COMPATIBILITY = "drl-gpu"
"""The compatibility mode."""

ERRORS: Mapping[str, str] = MappingProxyType(
    {
        "first_16_alone": "a baseline's choice behind the first 16 jobs starts nothing, so that it starves",
        "priority_order": "the queue is in the order of priorities, so that FCFS is not first come, first served",
        "one_type_fits": "baselines want all GPUs of a job to be of one type, though jobs may be split",
        "one_start_per_second": "at most one job starts in a second, and a second later than it could",
        "equal_speeds": "jobs take as long on a T4 as on an A100",
        "large_observations": "FLOPS of traces and long queues are far above 1 in what an agent sees",
        "no_gpu_jobs": "jobs that ask for 0 GPUs count like others",
        "utilization_from_0": "utilisation counts from date 0 on, though traces begin at 10 million seconds",
        "finished_alone": "the mean completion time is that of the jobs that ended, however few",
    }
)
"""Errors of the original, by name."""

_FLAGS: Mapping[str, int] = MappingProxyType(
    {
        "first_16_alone": kernel.FIRST_16,
        "priority_order": kernel.PRIORITY_ORDER,
        "one_type_fits": kernel.ONE_TYPE,
        "one_start_per_second": kernel.ONE_PER_SECOND,
        "equal_speeds": kernel.EQUAL_SPEEDS,
        "large_observations": kernel.LARGE_SEEN,
    }
)

BASELINES: Mapping[str, int] = MappingProxyType({"fcfs": kernel.FCFS, "sjf": kernel.SJF, "first_fit": kernel.FCFS})
"""Its baselines; first fit is the same as FCFS there."""

FLOPS_PER_GPU_S = 1e12
"""Floating-point operations of a traced job on a GPU per second."""


@dataclass(frozen=True, slots=True)
class SecondsOutcome:
    """Table row of a run."""

    # numbers of jobs, and of those that ended
    n_jobs: int
    n_done: int
    # mean completion time: of those that ended, or of all that arrived, up to the end of the run where they did not
    mean_jct_s: float
    utilization: float  # share of the GPU time that jobs that ended held
    makespan_s: float  # end of the last job, in seconds


def read_errors(errors: Iterable[str] | None) -> frozenset[str]:
    """Return the errors to reproduce, names of `ERRORS`; ``None``: all."""
    return frozenset(chosen_errors(errors, ERRORS, ERRORS))


def read_cut_trace(path: Path, *, errors: Iterable[str] | None = None) -> GpuLoad:
    """Read a cut trace of the original as it reads it: with jobs that ask for no GPU, unless that error is off.

    Raise ReadError if it cannot be read, or is of another form.
    """
    form = "drl-gpu-whole" if "no_gpu_jobs" in read_errors(errors) else COMPATIBILITY
    return read_trace(path, form=form)


def check_can_be_split(load: GpuLoad, cluster: GpuCluster) -> None:
    """Refuse loads with a job that needs more GPUs than there are, of whatever types."""
    for position in np.flatnonzero(load.jobs["n_gpus"] > cluster.n_units)[:1].tolist():
        n_gpus = int(load.jobs["n_gpus"][position])
        raise WorkloadError(f"{load.name}: job {position} asks for {n_gpus} GPUs, {cluster.name} has {cluster.n_units}")


def shared_arrays(cluster: GpuCluster, errors: frozenset[str]) -> dict[str, NDArray[Any]]:
    """Return the arrays of a world that follow from the cluster and the errors."""
    flags = np.zeros(kernel.N_FLAGS, dtype=np.int64)
    for name, position in _FLAGS.items():
        flags[position] = name in errors
    by_speed = np.argsort(-cluster.speeds, kind="stable")
    return {
        "flags": flags,
        "type_gpus": np.ascontiguousarray(cluster.gpus_of_type[by_speed]),
        "type_speed": np.ascontiguousarray(cluster.speeds[by_speed]),
    }


def put_jobs(world: kernel.Seconds, row: int, load: GpuLoad, flops: NDArray[np.float64]) -> None:
    """Write the jobs of a load into an environment."""
    n, jobs = load.n_items, load.jobs
    world.n_jobs[row] = n
    world.arrival_s[row, :n], world.runtime_s[row, :n] = jobs["arrival_s"], jobs["work"]
    world.gpus[row, :n], world.priority[row, :n], world.flops[row, :n] = jobs["n_gpus"], jobs["priority"], flops


def flops_of(load: GpuLoad) -> NDArray[np.float64]:
    """Return the work of each job in FLOP: of a trace by its GPU time, of generated jobs drawn, as in the original."""
    if "file" in load.origin:
        return np.asarray(load.jobs["work"] * load.jobs["n_gpus"] * FLOPS_PER_GPU_S)
    return np.maximum(1e9, stream(0, "gpu-flops").normal(1e12, 5e11, load.n_items))


def play_baseline(
    cluster: GpuCluster,
    load: GpuLoad,
    baseline: str,
    *,
    errors: Iterable[str] | None = None,
    until_s: float = math.inf,
) -> SecondsOutcome:
    """Run a baseline of the original.

    Raise UnknownName if there is no such baseline, WorkloadError if a job needs more GPUs than there are.

    ``until_s``: when the run ends, by the dates of the file; the original stopped at 15 million seconds.
    """
    if baseline not in BASELINES:
        raise UnknownName("baseline of the DRL scheduler", baseline, BASELINES)
    chosen = read_errors(errors)
    check_can_be_split(load, cluster)
    world = kernel.new_seconds(shared_arrays(cluster, chosen), 1, load.n_items)
    put_jobs(world, 0, load, flops_of(load))
    first_s = float(load.origin.get("first_date_s", 0.0))
    world.until_s[0] = until_s - first_s
    order = BASELINES[baseline]
    kernel.SERVED.call(Borrowed(world), kernel.PLAY, np.ones(1, dtype=np.bool_), np.array([order], dtype=np.int64))
    return _outcome_of(cluster, load, world, chosen)


def _outcome_of(cluster: GpuCluster, load: GpuLoad, world: kernel.Seconds, errors: frozenset[str]) -> SecondsOutcome:
    """Return the outcome of the jobs of the first environment."""
    n, now_s = load.n_items, float(world.now_s[0, 0])
    arrivals_s, starts_s, ends_s = load.jobs["arrival_s"], world.start_s[0, :n], world.end_s[0, :n]
    ended = world.is_done[0, :n] > 0
    has_arrived = arrivals_s < now_s
    last_s = float(ends_s[ended].max()) if ended.any() else 0.0
    jcts_s = np.where(ended, ends_s, now_s) - arrivals_s
    counted = ended if "finished_alone" in errors else has_arrived
    first_s = float(load.origin.get("first_date_s", 0.0))
    span_s = last_s + first_s if "utilization_from_0" in errors else last_s - float(arrivals_s[0])
    held_s = float(((ends_s - starts_s) * load.jobs["n_gpus"])[ended].sum())
    return SecondsOutcome(
        n_jobs=n,
        n_done=int(ended.sum()),
        mean_jct_s=float(jcts_s[counted].mean()) if counted.any() else math.nan,
        utilization=held_s / (cluster.n_units * span_s) if span_s > 0 else 0.0,
        makespan_s=last_s + first_s,
    )


def trace_of_seconds(cluster: GpuCluster, load: GpuLoad, world: kernel.Seconds, n_decisions: int = 0) -> TaskTrace:
    """Return the Trace of the first environment; jobs without GPUs have stays without units."""
    n, now_s = load.n_items, float(world.now_s[0, 0])
    is_done, has_started = world.is_done[0, :n] > 0, world.start_s[0, :n] >= 0
    tasks = np.zeros(n, dtype=TASK_DTYPE)
    tasks["release_s"], tasks["deadline_s"] = load.jobs["arrival_s"], load.jobs["deadline_s"]
    tasks["start_s"], tasks["end_s"] = world.start_s[0, :n], np.where(is_done, world.end_s[0, :n], -1.0)
    has_arrived = np.arange(n) < world.counts[0, kernel.NEXT_JOB]
    tasks["state"] = np.select(
        [is_done, has_started, has_arrived],
        [int(TaskState.DONE), int(TaskState.RUNNING), int(TaskState.WAITING)],
        int(TaskState.NOT_RELEASED),
    )
    tasks["requested_s"], tasks["user"], tasks["kind"] = (load.jobs[name] for name in ("requested_s", "user", "kind"))
    started = np.flatnonzero(has_started)
    started = started[np.argsort(tasks["start_s"][started], kind="stable")]
    stays = np.zeros(len(started), dtype=STAY_DTYPE)
    stays["task"], stays["start_s"], stays["pace"] = started, tasks["start_s"][started], 1.0
    stays["end_s"] = np.where(is_done[started], world.end_s[0, started], now_s)
    stays["n_units"] = load.jobs["n_gpus"][started]
    stays["first_unit"] = np.cumsum(stays["n_units"]) - stays["n_units"]
    units = _units_of(cluster, stays, world.held[0])
    held_s = float(((stays["end_s"] - stays["start_s"]) * stays["n_units"]).sum())
    return TaskTrace(
        machine=cluster,
        load=load,
        tasks=tasks,
        stays=stays,
        stay_units=units,
        signals=DeferredSignals(partial(signals_of, cluster, load, tasks, stays, units)),
        counts={"n_preemptions": 0.0, "n_migrations": 0.0, "lost_gpu_s": 0.0, "busy_gpu_s": held_s},
        end_s=now_s,
        n_decisions=n_decisions,
    )


def _units_of(cluster: GpuCluster, stays: NDArray[np.void], held: NDArray[np.int64]) -> NDArray[np.int32]:
    """Return the GPUs of each stay: the first idle ones of each type; the stay itself has only counts."""
    by_speed = np.argsort(-cluster.speeds, kind="stable")
    idle = [np.flatnonzero(cluster.type_of_gpu == one).tolist() for one in by_speed]
    running: list[tuple[float, int, list[tuple[int, int]]]] = []
    units: list[int] = []
    for number, stay in enumerate(stays):
        while running and running[0][0] <= stay["start_s"]:
            for position, unit in heapq.heappop(running)[2]:
                heapq.heappush(idle[position], unit)
        counts = held[stay["task"]]
        mine = [
            (position, heapq.heappop(idle[position])) for position in range(len(idle)) for _ in range(counts[position])
        ]
        heapq.heappush(running, (float(stay["end_s"]), number, mine))
        units += [unit for _, unit in mine]
    return np.array(units, dtype=np.int32)
