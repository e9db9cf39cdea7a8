"""A run as a log in the Standard Workload Format."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from hdrl.base.errors import ReadError
from hdrl.settings.batch.report.groups import jobs_of_workload
from hdrl.settings.batch.report.runs import RunData, as_runs
from hdrl.settings.batch.workload.build import NUMBER_FIELDS
from hdrl.settings.batch.workload.export import schedule_log
from hdrl.settings.batch.workload.swf import SwfLog, write_swf
from hdrl.version import VERSION


def swf_of_run(run: RunData, *, workload: str | Path | None = None, whole_seconds: bool = False) -> SwfLog:
    """Return the schedule of a run as a log; users, groups and estimates are those of its workload where it is found.

    Parameters
    ----------
    workload
        The workload of the run, a file or the name of a shipped one; by default what the run's options name.
    whole_seconds
        True to round all dates to seconds.

    Raises
    ------
    ReadError
        If a workload was given and is not there.
    OptionsError
        If it is not that of the run.
    WorkloadError
        If it cannot be read, or the run has no job.
    """
    used = np.bincount(run.blocks.job, weights=run.blocks.n_cores, minlength=run.n_jobs).astype(np.int64)
    return schedule_log(
        run.workload or run.name,
        run.job_id.tolist(),
        {"submit": run.submit_s, "start": run.start_s, "end": run.end_s},
        {"requested": run.cores, "used": used},
        run.state.tolist(),
        known=_known(run, workload),
        header=_header(run),
        whole_seconds=whole_seconds,
    )


def export_swf(
    run: object, path: str | Path, *, workload: str | Path | None = None, whole_seconds: bool = False
) -> SwfLog:
    """Write the schedule of a run as a log.

    Parameters
    ----------
    run
        A run folder, a Trace or a `RunData`.
    path
        The file; a name that ends in ``.gz`` is compressed.
    """
    runs = as_runs(run)
    if len(runs) != 1:
        raise ReadError(str(run), f"holds {len(runs)} runs, expected one: name it, for instance {runs[0].name}")
    log = swf_of_run(runs[0], workload=workload, whole_seconds=whole_seconds)
    write_swf(log, path)
    return log


def _known(run: RunData, workload: str | Path | None) -> dict[str, np.ndarray]:
    try:
        jobs = jobs_of_workload(run, workload)
    except ReadError:
        if workload is not None:
            raise
        return {}  # the folder alone does not tell these
    memory_kb = np.where(jobs["memory_mib"] > 0, jobs["memory_mib"] * 1024, -1.0)
    columns = {name: jobs[name].astype(float) for name in NUMBER_FIELDS}
    return {"requested_s": jobs["requested_time_s"], "requested_memory_kb": memory_kb, **columns}


def _header(run: RunData) -> dict[str, str]:
    lines = [f"Schedule by hdrl {VERSION}" + (f", policy {run.policy}" if run.policy else "")]
    if run.workload:
        lines.append(f"Workload {run.workload}")
    lines.append("Dates are seconds of the simulation. Status 0: failed or stopped at its walltime,")
    lines.append("5: killed or rejected by the policy, -1: not ended.")
    return {
        "Computer": run.platform or "unknown",
        "Preemption": "No",
        "MaxProcs": str(run.n_cores),
        "Note": "\n".join(" ".join(line.split()) for line in lines),
    }
