"""Jobs from lines in the Standard Workload Format, whose seconds become work, and lines from jobs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TypedDict, Unpack

import numpy as np
from numpy.typing import NDArray

from hdrl.base.errors import OptionsError, UnknownName, WorkloadError
from hdrl.base.seeding import stream
from hdrl.settings.batch.platform.model import Platform
from hdrl.settings.batch.site_rules.columns import LogFields, site_jobs
from hdrl.settings.batch.site_rules.model import components_of
from hdrl.settings.batch.workload.build import (
    MAX_INT32,
    NUMBER_FIELDS,
    compute_jobs,
    count_reasons,
    log_numbers,
    unique_ids,
)
from hdrl.settings.batch.workload.history import LogHistory
from hdrl.settings.batch.workload.model import NO_WALLTIME, Workload
from hdrl.settings.batch.workload.models import (
    BANDWIDTH_MODELS,
    ESTIMATE_MODELS,
    MEMORY_MODELS,
    RUN_TIME_MODELS,
    requested_times,
)
from hdrl.settings.batch.workload.statistics import reference_run_times
from hdrl.settings.batch.workload.swf import UNKNOWN_VALUE, SwfLog, unknown_rows

FloatArray = NDArray[np.float64]

PARTIAL_STATUSES = (2, 3, 4)
"""Statuses of lines that tell of one part of a job that was checkpointed; another line tells of the whole."""


class SwfChoices(TypedDict, total=False):
    """The keyword arguments of `workload_from_swf` that choose models; all have defaults."""

    run_time: str
    memory: str
    bandwidth: str
    estimates: str | None
    walltime: str | None
    walltime_factor: float
    shift: bool
    seed: int
    think_times: bool


def _droppable(rows: NDArray[np.void], run_s: FloatArray) -> dict[str, NDArray[np.bool_]]:
    """Return masks of the rows to leave out, by reason."""
    whole = np.isin(rows["status"], PARTIAL_STATUSES, invert=True)
    partial = ~whole
    if np.any(partial):
        partial &= np.isin(rows["job_number"], rows["job_number"][whole])
    return {
        "a line for the whole job": partial,
        "no submission date": rows["submit_s"] < 0,
        "no cores": requested_cores(rows) < 1,
        "no run time": ~(run_s > 0),
    }


def in_order_of_submission(rows: NDArray[np.void]) -> NDArray[np.void]:
    """Return the lines of a log by date of submission, those of one date in the order of the file."""
    if np.all(np.diff(rows["submit_s"]) >= 0):
        return rows
    return rows[np.argsort(rows["submit_s"], kind="stable")]


def with_whole_het_jobs(log: SwfLog) -> SwfLog:
    """Return a log in which the components of each het job are one job, for simulations without the rules of a site.

    It has the cores of all of them, and the longest run and requested time; else it is as the first one.

    Raises
    ------
    ReadError
        If the columns beside the log make no sense.
    """
    if log.columns is None:
        return log
    rows = log.rows
    first, _ = components_of(log.columns.het_groups(rows["job_number"]))
    others = np.flatnonzero((first >= 0) & (first != np.arange(len(first))))
    if len(others) == 0:
        return log
    rows = rows.copy()
    for name in ("processors", "requested_processors"):
        np.add.at(rows[name], first[others], np.maximum(rows[name][others], 0))
    for name in ("run_s", "requested_s", "requested_memory_kb"):
        np.maximum.at(rows[name], first[others], rows[name][others])
    return replace(log, rows=np.delete(rows, others), origin={**log.origin, "joined_components": len(others)})


def requested_cores(rows: NDArray[np.void]) -> FloatArray:
    """Return the processors that each job asks for; those that it got where the log does not say."""
    return np.where(rows["requested_processors"] > 0, rows["requested_processors"], rows["processors"])


def workload_from_swf(
    log: SwfLog,
    platform: Platform | float,
    *,
    n_jobs: int | None = None,
    start: int = 0,
    **choices: Unpack[SwfChoices],
) -> Workload:
    """Turn a log into the workload of a platform.

    A second of the log is the work that a core of the platform's mean speed (`Platform.reference_gflops`) does in
    it. Jobs of which the log does not tell enough are left out and counted in `Workload.n_dropped`. The others are in
    the order of their submission, whatever that of the lines; ``start`` and ``n_jobs`` count in it.

    Parameters
    ----------
    platform
        The platform, for its reference speed; or that speed in Gflop/s.
    n_jobs
        Largest number of jobs to keep, at least 1; ``None`` for all.
    start
        Number of usable jobs to skip first, not negative.
    **choices
        ``run_time`` a name of `RUN_TIME_MODELS` (default ``"trace"``); ``memory`` of `MEMORY_MODELS` (``"log"``);
        ``bandwidth`` of `BANDWIDTH_MODELS` (``"uniform"``); ``estimates`` of `ESTIMATE_MODELS` (``None`` is ``"log"``);
        ``walltime`` ``None`` (jobs are never killed) or ``"requested"`` (after ``walltime_factor`` times
        the requested time); ``shift`` whether the first job is submitted at date 0 (default: yes);
        ``seed`` of the draws (default: 0); ``think_times`` whether jobs are submitted after the end of the job in
        field 17 and the think time of field 18 (default: no), which only machines with rules have.

    Raises
    ------
    UnknownName
        If a model is unknown.
    OptionsError
        If ``n_jobs``, ``start``, ``seed`` or ``walltime_factor`` is out of range, or the machine has no think times.
    WorkloadError
        If no job is left, or one asks for more cores than can be counted.
    """
    if not isinstance(platform, Platform) or platform.site is None:
        log = with_whole_het_jobs(log)
        if choices.get("think_times"):
            raise OptionsError(
                f"think_times is true, but {log.name} is read for a machine without the rules of a site; expected "
                "with_plain_rules(platform)"
            )
    gflops = platform.reference_gflops if isinstance(platform, Platform) else platform
    machine = platform.name if isinstance(platform, Platform) else None
    seed = choices.get("seed", 0)
    _check_numbers(n_jobs, start, seed)
    names = {
        "run_time": choices.get("run_time", "trace"),
        "memory": choices.get("memory", "log"),
        "bandwidth": choices.get("bandwidth", "uniform"),
        "estimates": choices.get("estimates") or "log",
    }
    memory_model, bandwidth_model = MEMORY_MODELS[names["memory"]], BANDWIDTH_MODELS[names["bandwidth"]]
    estimate_model = ESTIMATE_MODELS[names["estimates"]]
    rows = in_order_of_submission(log.rows)
    run_s = RUN_TIME_MODELS[names["run_time"]](rows, stream(seed, "workload/run_time"))
    reasons = _droppable(rows, run_s)
    kept = np.flatnonzero(~np.logical_or.reduce(list(reasons.values())))
    last = len(kept) if n_jobs is None else min(len(kept), start + n_jobs)
    # Draws are made for all jobs up to the last: what a job gets does not depend on the window it is seen in.
    memory_mib = memory_model(rows[kept[:last]], stream(seed, "workload/memory"))[start:]
    bandwidth_gbps = bandwidth_model(rows[kept[:last]], stream(seed, "workload/bandwidth"))[start:]
    chosen = kept[start:last]
    complete = n_jobs is not None and len(chosen) == n_jobs
    n_dropped = count_reasons(reasons, int(chosen[-1]) + 1 if complete else log.n_rows)
    if len(chosen) == 0:
        shown = ", ".join(f"{count} with {reason}" for reason, count in n_dropped.items())
        raise WorkloadError(f"{log.name}: no usable job from job {start} on among {log.n_rows} ({shown or 'too few'})")
    numbers = log_numbers(rows)
    history = _history(rows, run_s, kept, names, numbers)
    whole = rows
    rows, run_s = rows[chosen], run_s[chosen]
    requested_s = estimate_model(rows, run_s, stream(seed, "workload/estimates"))
    submit_s = np.array(rows["submit_s"])
    first_s = float(submit_s.min()) if choices.get("shift", True) else 0.0
    submit_s -= first_s
    origin: dict[str, object] = {**log.origin, **names, **choices, "start": start, "n_jobs": len(chosen)}
    made = compute_jobs(
        name=log.name,
        job_ids=unique_ids(rows["job_number"]),
        submit_s=submit_s,
        cores=requested_cores(rows),
        walltime_s=_walltimes(requested_s, choices.get("walltime"), choices.get("walltime_factor", 1.0)),
        requested_time_s=requested_s,
        work_flop=run_s * gflops * 1e9,
        memory_mib=memory_mib,
        bandwidth_gbps=bandwidth_gbps,
        numbers={name: column[chosen] for name, column in numbers.items()},
        n_dropped=n_dropped,
        origin={**origin, "platform": machine},
    )
    if isinstance(platform, Platform) and platform.site is not None:
        fields = LogFields(
            numbers=whole["job_number"],
            users=whole["user"],
            partitions=whole["partition"],
            queues=whole["queue"],
            partition_titles=log.titles("partition"),
            queue_titles=log.titles("queue"),
            preceding=_preceding(whole, kept if choices.get("think_times") else kept[:0]),
            think_s=whole["think_s"],
            columns=log.columns,
            origin_s=log.first_date_s,
        )
        site, lacking = site_jobs(fields, platform.site)
        if lacking:
            made.origin["site"] = lacking
        made = replace(made, site=site.take(chosen).earlier(first_s))
    return made if history is None else replace(made, history=history, positions=np.arange(start, last))


def _preceding(rows: NDArray[np.void], kept: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the row of the job in field 17 of each of some lines, its own if that is not among them; -1: none."""
    found = np.full(len(rows), -1, dtype=np.int64)
    asking = kept[rows["preceding_job"][kept] > 0]
    if len(asking):
        numbers = rows["job_number"][kept]
        order = np.argsort(numbers, kind="stable")
        wanted = rows["preceding_job"][asking]
        position = order[np.minimum(np.searchsorted(numbers[order], wanted), len(kept) - 1)]
        found[asking] = np.where(numbers[position] == wanted, kept[position], asking)
    return found


def _history(
    rows: NDArray[np.void],
    run_s: FloatArray,
    kept: NDArray[np.int64],
    names: Mapping[str, str],
    numbers: Mapping[str, NDArray[np.int32]],
) -> LogHistory | None:
    """Return the history of all usable jobs of the log; ``None`` if run or requested times are not the log's."""
    if names["run_time"] != "trace" or names["estimates"] != "log":
        return None
    # Column by column: the lines of a whole log are large.
    ended_s = np.where(rows["wait_s"] >= 0, rows["submit_s"] + rows["wait_s"] + run_s, np.inf)
    return LogHistory(
        submit_s=rows["submit_s"][kept],
        ended_s=ended_s[kept],
        run_s=run_s[kept],
        requested_time_s=requested_times(rows, run_s)[kept],
        user=numbers["user"][kept],
        cores=np.trunc(np.minimum(requested_cores(rows)[kept], MAX_INT32)).astype(np.int32),
        name=numbers["executable"][kept],
    )


def _check_numbers(n_jobs: int | None, start: int, seed: int) -> None:
    if n_jobs is not None and n_jobs < 1:
        raise OptionsError(f"n_jobs is {n_jobs}, expected at least 1")
    for name, value in (("start", start), ("seed", seed)):
        if value < 0:
            raise OptionsError(f"{name} is {value}, expected at least 0")


def _walltimes(requested_s: FloatArray, walltime: str | None, factor: float) -> FloatArray:
    if walltime is None:
        return np.full(len(requested_s), NO_WALLTIME)
    if walltime != "requested":
        raise UnknownName("walltime rule", walltime, ("requested",))
    if not 0 < factor < np.inf:
        raise OptionsError(f"walltime_factor is {factor}, expected a positive number")
    return requested_s * factor


def swf_from_workload(workload: Workload, platform: Platform) -> SwfLog:
    """Turn a workload into a log: the inverse of `workload_from_swf`.

    Run times are those on cores of the platform's mean speed. The log keeps the job ids if all are whole numbers,
    else jobs are numbered from 1.

    Parameters
    ----------
    platform
        The platform, for its reference speed.
    """
    jobs = workload.jobs
    rows = unknown_rows(workload.n_jobs)
    numeric = len(workload.sources) == 1 and all(i.isascii() and i.isdigit() for i in workload.job_ids)
    rows["job_number"] = [float(i) for i in workload.job_ids] if numeric else np.arange(1, workload.n_jobs + 1)
    rows["submit_s"] = jobs["submit_s"]
    rows["run_s"] = np.round(reference_run_times(workload, platform), 6)  # no noise from seconds to flop and back
    rows["processors"] = rows["requested_processors"] = jobs["cores"]
    rows["requested_s"] = jobs["requested_time_s"]
    rows["requested_memory_kb"] = np.where(jobs["memory_mib"] > 0, jobs["memory_mib"] * 1024, UNKNOWN_VALUE)
    rows["status"] = 1
    for name in NUMBER_FIELDS:
        rows[name] = jobs[name]
    header = {"Version": "2.2", "MaxJobs": str(workload.n_jobs), "MaxProcs": str(platform.n_cores)}
    return SwfLog(workload.name, rows, header, dict(workload.origin))
