"""Record of a run of a real Slurm: the submissions and the events, as `hdrl.slurm.recorded` reads them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hdrl.base.files import atomic_write, write_json
from hdrl.slurm.cluster import RunOutcome, Submission, together
from hdrl.slurm.requests import KINDS, PlannedCommand

FOLDER = "slurm"
"""The folder within a run folder with what was recorded."""

JOBS, CONF, EVENTS, CYCLES = "jobs.json", "slurm.conf", "events.json", "cycles.json"
"""Its files with the submissions, the configuration, what users and administrators did, and when cycles began."""


def write_run(
    folder: Path,
    about: Mapping[str, Any],
    jobs: Sequence[Submission],
    events: Sequence[PlannedCommand],
    outcome: RunOutcome,
    conf: str,
) -> None:
    """Write the submissions, and the actions of users and administrators.

    Parameters
    ----------
    about
        Further facts about the run, by key.
    conf
        The text of ``slurm.conf`` without folders of this host.

    Raises
    ------
    OutputError
        If it cannot be written.
    """
    with atomic_write(folder / CONF) as out:
        out.write(conf)
    # The tasks of an array are recorded together, all other jobs one by one.
    recorded = [
        part
        for positions in together(jobs)
        for part in ([positions] if jobs[positions[0]].requests.first is not None else [[one] for one in positions])
    ]
    entry_of = {position: entry for entry, positions in enumerate(recorded) for position in positions}
    task_of = {position: task for positions in recorded for task, position in enumerate(positions)}

    def name_of(number: int) -> str:
        return f"{entry_of[number]}" + (f"_{task_of[number]}" if jobs[number].requests.first is not None else "")

    done = [
        {"kind": one.kind, "at": one.span_s[0] if one.span_s is not None else happened_s}
        | ({} if one.job is None else {"job": entry_of[one.job]})
        | ({} if one.span_s is None else _lasts(one.nodes, one.span_s))
        for one, happened_s in zip(events, outcome.happened, strict=True)
        if one.job is not None or one.span_s is not None
    ]
    if done:
        write_json(folder / EVENTS, done)
    if outcome.cycles_s:
        write_json(folder / CYCLES, outcome.cycles_s)
    rows = []
    for positions in recorded:
        job = jobs[positions[0]]
        after = (
            f"{KINDS[kind]}:{name_of(on)}" + (f"+{minutes}" * (minutes > 0)) for kind, on, minutes in job.requests.after
        )
        row: dict[str, Any] = {
            "id": outcome.keys[positions[0]][0],
            "partition": ",".join(job.partitions),
            "nice": job.nice,
            "account": job.account,
            "qos": job.qos,
            "array": len(positions) if job.requests.first is not None else None,
            "after": ",".join(after),
            **job.requests.recorded,
        }
        row = {name: value for name, value in row.items() if value}
        row |= {"het": entry_of[job.first]} if job.first is not None else {}
        request = {"at": job.at_s, "cores": job.cores, "run_s": job.run_s[-1], "limit_min": job.limit_min}
        rows.append(request | row)
    run = {"t0": outcome.epoch_s, "late_s": outcome.late_s, "end_s": outcome.end_s, "version": outcome.version}
    write_json(folder / JOBS, {**about, **run, "jobs": rows})


def _lasts(nodes: Sequence[str], span_s: tuple[float, float]) -> dict[str, Any]:
    return {"nodes": ",".join(nodes), "duration_min": (span_s[1] - span_s[0]) / 60}
