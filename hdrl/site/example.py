"""A made-up site of any size: what ``sacct`` and ``slurm.conf`` would say of it, to try an import on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hdrl.base.files import atomic_write
from hdrl.base.seeding import stream
from hdrl.batch import build_platform, lublin_log, simulate, workload_from_swf
from hdrl.experiment.run.folder import new_folder
from hdrl.settings.batch.site_rules.conf import Nodes, SiteConf
from hdrl.settings.batch.site_rules.machine import platform_of
from hdrl.site.machine import n_cores

ACCOUNTING, CONF, QUEUE = "sacct.txt", "slurm.conf", "queue.txt"

N_NODES, CORES_PER_NODE = 64, 16
POLICY = "fcfs+conservative"
"""Policy of the made-up site."""

_BEGIN = np.datetime64("2025-01-06T00:00:00")
_COLUMNS = (
    "JobID|JobIDRaw|User|Account|JobName|Partition|QOS|Submit|Eligible|Start|End|ElapsedRaw|TimelimitRaw|AllocCPUS|"
    "ReqCPUS|AllocNodes|ReqMem|AllocTRES|State|NodeList"
)
_CONF = f"""\
ClusterName=example
SchedulerType=sched/backfill
SchedulerParameters=bf_interval=30,bf_resolution=60,bf_window=2880
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
PriorityType=priority/multifactor
PriorityWeightAge=1000
NodeName=n[01-{N_NODES}] CPUs={CORES_PER_NODE} RealMemory=64000 State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES MaxTime=7-00:00:00 State=UP
PartitionName=short Nodes=ALL MaxTime=60 PriorityTier=2 State=UP
"""


def write_example(folder: Path, n_jobs: int, seed: int = 0) -> None:
    """Write the accounting of a made-up site of 1,024 cores: generated jobs, scheduled by `POLICY`.

    One job in a hundred was cancelled while it waited, some were requeued once, the last one still waits.

    Raises
    ------
    OutputError
        If the folder is there already and not empty, or cannot be written.
    """
    conf = SiteConf("example", (Nodes(f"n[01-{N_NODES}]", N_NODES, CORES_PER_NODE),))
    cores = n_cores(conf)
    log = lublin_log(n_jobs, cores, seed=seed, load=0.7, estimates="tsafrir", n_users=40, n_executables=10)
    log.rows["submit_s"] = np.floor(log.rows["submit_s"])
    log.rows["run_s"] = np.maximum(np.round(log.rows["run_s"]), 1)
    platform = build_platform(platform_of(conf), name="example")
    workload = workload_from_swf(log, platform, bandwidth="none", memory="none", shift=False)
    trace = simulate(platform, workload, POLICY, energy=False)
    start_s = np.round(trace.records["start_s"])
    lines = _rows(log.rows, start_s, stream(seed, "site/example"))
    with new_folder(folder) as filled:
        with atomic_write(filled / CONF) as file:
            file.write(_CONF)
        with atomic_write(filled / ACCOUNTING) as file:
            file.write(f"{_COLUMNS}\n")
            file.writelines(lines)
        with atomic_write(filled / QUEUE) as file:
            file.write(f"{_COLUMNS}\n")
            file.writelines(_queue(log.rows, start_s))


def _queue(rows: NDArray[np.void], start_s: NDArray[np.float64]) -> Iterator[str]:
    """Yield the running and waiting jobs when the last job arrives that has to wait."""
    waited = np.flatnonzero(start_s > rows["submit_s"])
    now_s = rows["submit_s"][waited[-1] if len(waited) else -1]
    is_there = (rows["submit_s"] <= now_s) & (start_s + rows["run_s"] > now_s)
    submit, start = _dates(rows["submit_s"]), _dates(start_s)
    for job in np.flatnonzero(is_there).tolist():
        row, number = rows[job], job + 1
        size, limit = int(row["requested_processors"]), max(int(np.ceil(row["requested_s"] / 60)), 1)
        runs = start_s[job] <= now_s
        who = f"user{int(row['user'])}|group{int(row['user']) % 5}|app{int(row['user']) % 7}"
        partition = "short" if limit <= 60 else "main"
        begun, state = (start[job], "RUNNING") if runs else ("Unknown", "PENDING")
        elapsed_s = int(now_s - start_s[job]) if runs else 0
        got = f"{size}|{size}|{-(-size // CORES_PER_NODE)}" if runs else f"0|{size}|0"
        yield (
            f"{number}|{number}|{who}|{partition}|normal|{submit[job]}|{submit[job]}|{begun}|Unknown|{elapsed_s}|"
            f"{limit}|{got}|1000M||{state}|\n"
        )


def _dates(seconds: NDArray[np.float64]) -> list[str]:
    return [str(one) for one in np.datetime_as_string(_BEGIN + seconds.astype(np.int64))]


def _rows(rows: NDArray[np.void], start_s: NDArray[np.float64], draws: np.random.Generator) -> list[str]:
    n_jobs = len(rows)
    kinds = draws.random(n_jobs)
    submit, start, end = _dates(rows["submit_s"]), _dates(start_s), _dates(start_s + rows["run_s"])
    limits = np.maximum(np.ceil(rows["requested_s"] / 60), 1).astype(np.int64).tolist()
    run, cores = rows["run_s"].astype(np.int64).tolist(), rows["requested_processors"].astype(np.int64).tolist()
    users = rows["user"].astype(np.int64).tolist()
    lines = []
    for job in range(n_jobs):
        number, size, limit = job + 1, cores[job], limits[job]
        nodes = -(-size // CORES_PER_NODE)
        partition = "short" if limit <= 60 else "main"
        who = f"{number}|{number}|user{users[job]}|group{users[job] % 5}|app{users[job] % 7}|{partition}|normal"
        columns = f"{limit}|{{}}|{size}|{{}}|1000M"
        waiting = f"{who}|{submit[job]}|{submit[job]}|{{}}|0|{columns.format(0, 0)}||{{}}|None assigned\n"
        if job == n_jobs - 1:
            lines.append(waiting.format("Unknown|Unknown", "PENDING"))
            continue
        if kinds[job] < 0.01:
            lines.append(waiting.format(f"None|{submit[job]}", "CANCELLED by 1000"))
            continue
        was_requeued = kinds[job] < 0.02 and start[job] != submit[job]
        if was_requeued:
            lines.append(
                f"{who}|{submit[job]}|{submit[job]}|{start[job]}|{start[job]}|0|{columns.format(size, nodes)}|"
                f"cpu={size},node={nodes}|NODE_FAIL|\n"
            )
        again = start[job] if was_requeued else submit[job]
        state = "FAILED" if kinds[job] > 0.95 else "COMPLETED"
        lines.append(
            f"{who}|{again}|{again}|{start[job]}|{end[job]}|{run[job]}|{columns.format(size, nodes)}|"
            f"billing={size},cpu={size},mem=1000M,node={nodes}|{state}|\n"
        )
    return lines
