"""Jobs as a dissertation on batch scheduling reads them (LANNDS18/DeepRLScheduler): on whole nodes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hdrl.base.errors import OptionsError, WorkloadError
from hdrl.envs.requests import checked_count
from hdrl.settings.batch.envs.machines import (
    DEFAULT_N_JOBS,
    DEFAULT_N_PROCS,
    DEFAULT_SEED,
    WorkloadLike,
    number_in_header,
)
from hdrl.settings.batch.platform import read_platform
from hdrl.settings.batch.platform.homogeneous import PREFIX
from hdrl.settings.batch.platform.model import Platform
from hdrl.settings.batch.workload import file_format, lublin_log, read_swf, read_workload, workload_from_swf
from hdrl.settings.batch.workload.model import Workload
from hdrl.settings.batch.workload.read import find_workload
from hdrl.settings.batch.workload.swf import SwfLog, unknown_rows
from hdrl.settings.batch.workload.swf_jobs import swf_from_workload

FloatArray = NDArray[np.float64]

SHORTEST_S = 10.0
"""Shortest run time of a bounded slowdown, and that of jobs whose run time is negative in the log."""


@dataclass(frozen=True, slots=True)
class NodeJobs:
    """Jobs on whole nodes, in the order of the log."""

    name: str  # name of the log
    # nodes and processors of the machine
    n_nodes: int
    n_procs: int
    # dates of the log, how long each job runs, and how long its user says, in seconds
    submit_s: FloatArray
    run_s: FloatArray
    requested_s: FloatArray
    # processors that it asks for, and the nodes that it gets, at least one
    procs: FloatArray
    nodes: NDArray[np.int64]
    numbers: FloatArray  # its number in the log
    # as in the log, negative if absent
    memory: FloatArray
    user: FloatArray
    group: FloatArray
    # 100 % of the shares: longest run time of the log, and largest of date, number, memory, user and group
    longest_s: float
    largest: Mapping[str, float]

    @property
    def n_jobs(self) -> int:
        """Number of jobs."""
        return len(self.submit_s)


def node_jobs(
    workload: WorkloadLike | None,
    platform: Platform | None = None,
    *,
    n_procs: int | None = None,
    n_nodes: int | None = None,
) -> NodeJobs:
    """Return the jobs of a log as the original reads them, on whole nodes.

    The size of a job is the larger of its requested and its allocated processors. Requested times of -1 are run times,
    negative run times are 10 s, and jobs that took no time are left out. No job is killed.

    Raise OptionsError if nothing says how many nodes there are, WorkloadError if no job is left, or one needs more
    nodes than there are, ReadError if a file cannot be read.

    Parameters
    ----------
    workload
        A log, a Batsim file, the name of a shipped one, or a workload; ``None``: 4,096 jobs of the Lublin-Feitelson
        model on 256 processors in 64 nodes.
    platform
        The machine of a workload that has been read, or of a file that names none.
    n_procs, n_nodes
        Processors and nodes; ``None``: what the header of a log says (``MaxProcs``, ``MaxNodes``), or the platform has.
    """
    log, machine = _log_of(workload, platform)
    in_header = {name: number_in_header(log.header, name) for name in ("MaxNodes", "MaxProcs")}
    n_nodes = n_nodes or in_header["MaxNodes"] or (None if machine is None else machine.n_nodes)
    if n_nodes is None:
        raise OptionsError(f"n_nodes is missing, and {log.name} does not name it (MaxNodes)")
    n_nodes = checked_count("n_nodes", n_nodes)
    n_procs = n_procs or in_header["MaxProcs"] or (n_nodes if machine is None else machine.n_cores)
    n_procs = checked_count("n_procs", n_procs)
    if n_procs < n_nodes:
        raise OptionsError(f"n_procs is {n_procs}, fewer than the {n_nodes} nodes")
    return _jobs_of(log, n_nodes, n_procs)


def _log_of(workload: WorkloadLike | None, platform: Platform | None) -> tuple[SwfLog, Platform | None]:
    """Return the log that a user named, and the machine where that says more than the log's header."""
    if workload is None:
        log = lublin_log(DEFAULT_N_JOBS, DEFAULT_N_PROCS, seed=DEFAULT_SEED)
        return SwfLog(
            log.name, log.rows, {"MaxNodes": str(DEFAULT_N_PROCS // 4), "MaxProcs": str(DEFAULT_N_PROCS)}
        ), None
    if not isinstance(workload, Workload):
        path = find_workload(str(workload))
        if file_format(path) == "swf":
            log = read_swf(path)
            return log if platform is None else SwfLog(log.name, log.rows), platform
    if platform is None:
        raise OptionsError("platform is missing: only the header of a log holds the number of nodes")
    read = workload if isinstance(workload, Workload) else read_workload(workload, platform)
    return swf_from_workload(read, platform), platform


def _jobs_of(log: SwfLog, n_nodes: int, n_procs: int) -> NodeJobs:
    rows = log.rows[np.argsort(log.rows["job_number"], kind="stable")]
    run_s = np.where(rows["run_s"] < 0, SHORTEST_S, rows["run_s"])
    kept = run_s > 0
    if not kept.any():
        raise WorkloadError(f"{log.name}: no job has a run time")
    procs = np.maximum(rows["processors"], rows["requested_processors"])[kept]
    nodes = np.ceil(np.maximum(procs, 1.0) / (n_procs / n_nodes)).astype(np.int64)
    for position in np.flatnonzero(nodes > n_nodes)[:1]:
        number, requested = int(rows["job_number"][kept][position]), int(procs[position])
        raise WorkloadError(f"{log.name}: job {number} asks for {requested} processors, {n_nodes} nodes have {n_procs}")
    submit_s = rows["submit_s"][kept]
    if np.any(np.diff(submit_s) < 0):
        raise WorkloadError(f"{log.name}: jobs are not in the order of their submission")
    columns = {"memory": "requested_memory_kb", "user": "user", "group": "group"}
    largest = {name: float(rows[column].max()) for name, column in columns.items()}
    largest |= {"date": float(rows["submit_s"].max()), "number": float(rows["job_number"].max())}
    requested_s = np.where(rows["requested_s"] == -1, rows["run_s"], rows["requested_s"])[kept]
    return NodeJobs(
        name=log.name,
        n_nodes=n_nodes,
        n_procs=n_procs,
        submit_s=submit_s,
        run_s=run_s[kept],
        requested_s=requested_s,
        procs=procs,
        nodes=nodes,
        numbers=rows["job_number"][kept],
        longest_s=float(rows["run_s"].max()),
        largest=largest,
        **{name: rows[column][kept] for name, column in columns.items()},
    )


def whole_nodes(jobs: NodeJobs) -> tuple[Platform, Workload]:
    """Return the same jobs for simulators of identical processors, each of which stands for a whole node."""
    rows = unknown_rows(jobs.n_jobs)
    rows["job_number"], rows["submit_s"], rows["run_s"] = jobs.numbers, jobs.submit_s, jobs.run_s
    rows["requested_processors"], rows["requested_s"] = jobs.nodes, jobs.requested_s
    rows["user"], rows["group"] = jobs.user, jobs.group
    platform = read_platform(f"{PREFIX}{jobs.n_nodes}")
    log = SwfLog(jobs.name, rows)
    return platform, workload_from_swf(log, platform, memory="none", bandwidth="none", shift=False)
