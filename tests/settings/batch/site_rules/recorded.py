"""Recorded runs of a real Slurm as a platform with rules, a workload with columns, and the true starts."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from hdrl.batch import Platform, SwfLog, Workload, build_platform, unknown_rows, workload_from_swf
from hdrl.settings.batch.site_rules.columns import SiteColumns
from hdrl.settings.batch.site_rules.conf import Downtime, read_conf
from hdrl.settings.batch.site_rules.rules import rules_of
from hdrl.site.machine import platform_of
from hdrl.site.readers import Choices, read_dump
from hdrl.site.values import Clock

RECORDED = Path(__file__).parents[5] / "shared" / "slurm" / "runs"

BEGAN_S = 1767225600.0  # 2026-01-01, when each recording began


@dataclass(frozen=True)
class RecordedRun:
    """A recorded run; ``start_s`` is NaN of jobs that never started, in seconds of the workload."""

    platform: Platform
    workload: Workload
    start_s: np.ndarray


def recorded_run(name: str) -> RecordedRun:
    """Return what Slurm was asked for in a run, and what it did.

    Jobs ask for what they asked for; they run as long as they really did, launch included. A job that never started
    runs as long as it would have.
    """
    folder = RECORDED / name
    asked = json.loads((folder / "jobs.json").read_text())
    events = json.loads((folder / "events.json").read_text())
    t0_s = asked["t0"]
    conf = read_conf(folder / "slurm.conf")
    maintenance = [
        Downtime(_date(t0_s + one["at"]), _date(t0_s + one["at"] + 60 * one["duration_min"]), one["nodes"])
        for one in events
        if one["kind"] == "reservation"
    ]
    conf = replace(conf, downtimes=tuple(maintenance))
    platform = replace(build_platform(platform_of(conf), name=name), site=rules_of(conf))
    dump = read_dump(folder / "jobcomp.txt", Choices(Clock(None)))
    happened: dict[str, list[Any]] = {}
    texts = dump.names["name"].texts()
    for record in np.sort(dump.records, order="start_s"):
        happened.setdefault(texts[record["name"]], []).append(record)
    when = {(one["kind"], one.get("job")): t0_s + one["at"] - BEGAN_S for one in events}
    return _run(name, asked["jobs"], happened, when, t0_s - BEGAN_S, platform)


def _run(
    name: str,
    asked: list[dict[str, Any]],
    happened: dict[str, list[Any]],
    when: dict[tuple[str, int | None], float],
    t0_s: float,
    platform: Platform,
) -> RecordedRun:
    partitions = platform.site.partition_names if platform.site is not None else ()
    lines: list[tuple[float, ...]] = []
    cells: list[tuple[int, dict[str, str]]] = []
    starts: list[float] = []
    first_number: dict[int, int] = {}
    for index, job in enumerate(asked):
        attempts = happened.get(f"j{index}", [])
        first_number[index] = len(lines) + 1
        for task in range(job.get("array", 1)):
            number = len(lines) + 1
            record = attempts[task] if task < len(attempts) else None
            started = record is not None and np.isfinite(record["start_s"])
            run_s = record["end_s"] - record["start_s"] if started else min(job["run_s"], 60 * job["limit_min"])
            submit_s = t0_s + job["at"] if record is None else record["submit_s"] - BEGAN_S
            partition = partitions.index(job["partition"]) if "partition" in job else -1
            lines.append((number, submit_s, max(run_s, 1.0), job["cores"], 60 * job["limit_min"], partition))
            starts.append(record["start_s"] - BEGAN_S if started else np.nan)
            cell = _cell(job, index, number, submit_s, when)
            if "after" in job:
                cell["dependencies"] = f"afterany:{first_number[job['after']]}"
            if len(cell) > 1:
                cells.append((number, cell))
    rows = unknown_rows(len(lines))
    columns = ("job_number", "submit_s", "run_s", "requested_processors", "requested_s", "partition")
    for column, values in zip(columns, zip(*lines, strict=True), strict=True):
        rows[column] = values
    header = {
        "UnixStartTime": str(int(BEGAN_S)),
        "Partition": "\n".join(f"{number} {partition}" for number, partition in enumerate(partitions)),
    }
    log = SwfLog(name, rows, header, columns=SiteColumns(Path(f"{name}.csv"), tuple(cells)))
    workload = workload_from_swf(log, platform, bandwidth="none", shift=False)
    order = np.argsort(rows["submit_s"], kind="stable")
    return RecordedRun(platform, workload, np.array(starts)[order])


def _cell(
    job: dict[str, Any], index: int, number: int, submit_s: float, when: dict[tuple[str, int | None], float]
) -> dict[str, str]:
    cell = {"job": str(number)}
    if "begin_s" in job:
        cell["begin_s"] = repr(float(submit_s + job["begin_s"]))
    if "nice" in job:
        cell["nice"] = str(job["nice"])
    if job.get("exclusive"):
        cell["exclusive"] = "1"
    if "array" in job:
        cell |= {"array": str(index), "array_limit": str(job["throttle"])}
    for kind, column in (("release", "held_until_s"), ("cancel", "cancelled_s")):
        if (kind, index) in when:
            cell[column] = repr(when[kind, index])
    return cell


def _date(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat()
