"""Recorded runs of a real Slurm: the jobs and the machine that it got, and when it started which.

A recorded run is a folder with ``jobs.json`` (the submissions), ``jobcomp.txt`` (what happened) and ``slurm.conf``, as
simulator `slurm` leaves it in a run folder. ``events.json``, if it is there, says what users and administrators did;
``accounts.txt`` and ``qos.txt`` what the database knew. Each may be compressed (``jobcomp.txt.gz``).
"""

from __future__ import annotations

import argparse
import gzip
import re
import sys
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, RootModel

from hdrl.base.errors import HdrlError, ReadError, quoted, suggest
from hdrl.base.files import read_json, read_text
from hdrl.options.reading import checked
from hdrl.settings.batch.platform.conversion import build_platform
from hdrl.settings.batch.platform.model import Platform
from hdrl.settings.batch.site_rules.columns import SiteColumns
from hdrl.settings.batch.site_rules.conf import Downtime, SiteConf, read_associations, read_conf, read_qos
from hdrl.settings.batch.site_rules.machine import platform_of
from hdrl.settings.batch.site_rules.rules import rules_of
from hdrl.settings.batch.workload.build import MAX_VALUE
from hdrl.settings.batch.workload.model import Workload
from hdrl.settings.batch.workload.swf import SwfLog, unknown_rows
from hdrl.settings.batch.workload.swf_jobs import workload_from_swf
from hdrl.slurm.accounting import ACCOUNTS, QOS
from hdrl.slurm.jobcomp import Completion, read_jobcomp
from hdrl.slurm.recording import CONF, CYCLES, EVENTS, FOLDER, JOBS
from hdrl.slurm.requests import KINDS, LASTING
from hdrl.slurm.simulator import OWN_POLICY

_MOST_JOBS = 1_000_000
_DAY_S = 86400.0

_DEPENDENCY = re.compile(rf"({'|'.join(KINDS.values())}):(\d{{1,7}})(?:_(\d{{1,7}}))?(\+\d{{1,7}})?")

Seconds = Annotated[float, Field(ge=0, le=MAX_VALUE)]


class _Job(BaseModel):
    """A submission. Unknown keys are refused, since they change what a run means."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    at: Seconds
    cores: int = Field(ge=1, le=10**6)
    run_s: Seconds
    limit_min: int | None = Field(default=None, ge=1, le=10**8)
    id: int = Field(ge=1)
    partition: str | None = None
    account: str | None = None
    qos: str | None = None
    after: Annotated[int, Field(ge=0)] | str | None = None
    begin_s: Seconds | None = None
    array: int | None = Field(default=None, ge=1, le=_MOST_JOBS)
    throttle: int | None = Field(default=None, ge=1)
    nodes: int | None = Field(default=None, ge=1)
    features: str | None = None
    nice: int | None = Field(default=None, ge=-(2**31), lt=2**31)
    exclusive: bool = False
    cancel_after_s: Seconds | None = None
    hold_s: Seconds | None = None
    het: int | None = Field(default=None, ge=0)


class _Run(BaseModel):
    """All submissions; what else a recorder says of itself is not needed."""

    model_config = ConfigDict(frozen=True, allow_inf_nan=False)

    t0: Seconds
    late_s: Seconds = 0.0
    policy: str = OWN_POLICY
    node_cores: list[int] | None = None
    nodes: int | None = Field(default=None, ge=1, le=2**17)
    cpus: int | None = Field(default=None, ge=1, le=2**16)
    jobs: list[_Job] = Field(min_length=2, max_length=_MOST_JOBS)


class _Event(BaseModel):
    """Action of a user or an administrator while the jobs ran, ``at`` seconds after ``t0``."""

    model_config = ConfigDict(frozen=True, allow_inf_nan=False)

    kind: Literal["reservation", "failure", "drain", "cancel", "release"]
    at: Seconds
    job: int | None = Field(default=None, ge=0)
    duration_min: float | None = Field(default=None, gt=0, le=10**8)
    nodes: str = ""


class _Events(RootModel[list[_Event]]):
    """The whole of ``events.json``."""


@dataclass(frozen=True, slots=True)
class RecordedRun:
    """A recorded run.

    Attributes
    ----------
    folder
        Its folder.
    platform
        The machine, with the rules of its ``slurm.conf`` and its reservations.
    workload
        The submitted jobs. Each runs as long as it did, launching and ending included; one that never started as
        long as it would have; one that was preempted as long as it did the last time. Date 0 is the midnight (UTC)
        before the run.
    t0_s
        Date in seconds at which the recorder began to count.
    eligible_s, start_s
        Dates since which each job could start, and at which it did for the last time, in seconds, shape ``(n_jobs,)``;
        NaN of a job that never did. All dates are in the clock of the workload.
    job_requests
        ``jobs.json`` without what is different in each run: a line per submission.
    conf
        ``slurm.conf`` without what is different in each run.
    policy
        The policy whose order it was.
    late_s
        Largest delay of a submission, in seconds of the run's clock.
    """

    folder: Path
    platform: Platform
    workload: Workload
    t0_s: float
    eligible_s: NDArray[np.float64]
    start_s: NDArray[np.float64]
    job_requests: tuple[str, ...]
    conf: str
    policy: str
    late_s: float

    def is_repeated_by(self, other: RecordedRun) -> bool:
        """Return whether another run is of the same jobs on the same machine with the same configuration."""
        first, second = ((one.platform.n_cores, one.conf, one.job_requests, one.policy) for one in (self, other))
        return first == second and len(self.start_s) == len(other.start_s)

    def start_s_of(self, other: RecordedRun) -> NDArray[np.float64]:
        """Return when a run that repeats this one started the jobs, in the clock of this one."""
        return other.start_s + (self.t0_s - other.t0_s)


_NEEDED = (JOBS, "jobcomp.txt", CONF)
FILES = (*_NEEDED, EVENTS, CYCLES, ACCOUNTS, QOS)


def keep_run(folder: Path, place: Path) -> None:
    """Write the files of a run folder that `read_run` needs into a new folder, compressed, always to the same bytes."""
    place.mkdir(parents=True)
    for name in FILES:
        source = folder / FOLDER / name
        if source.is_file():
            (place / f"{name}.gz").write_bytes(gzip.compress(source.read_bytes(), mtime=0))


def print_progress(parser: argparse.ArgumentParser, lines: Iterable[str]) -> None:
    """Print the lines of a recorder as they come; leave with exit code 2 and a line if it fails."""
    try:
        for line in lines:
            sys.stdout.write(f"{line}\n")
            sys.stdout.flush()
    except HdrlError as error:
        parser.exit(2, f"{error}\n")


def read_run(folder: Path) -> RecordedRun:
    """Read a recorded run.

    Parameters
    ----------
    folder
        A folder with the files, or a run folder that holds one.

    Raises
    ------
    ReadError
        If it is none, or its jobs make no sense.
    """
    folder = folder / FOLDER if (folder / FOLDER).is_dir() else folder
    _check_files(folder)
    path = _file(folder, "jobs.json")
    found = checked(_Run, read_json(path), path)
    events = _events(_file(folder, EVENTS), len(found.jobs))
    began_s = found.t0 - found.t0 % _DAY_S
    conf = _conf(folder)
    platform = _machine(folder, found, conf, events)
    _check_jobs(path, found.jobs, conf, {(one.kind, one.job) for one in events})
    completions = _file(folder, "jobcomp.txt")
    log, eligible_s, start_s = _log(path, completions, found, events, began_s, list(conf.qos))
    if np.count_nonzero(np.isfinite(start_s)) < 2:
        raise ReadError(completions, "has start times of fewer than two jobs")
    order = np.argsort(log.rows["submit_s"], kind="stable")
    return RecordedRun(
        folder=folder,
        platform=platform,
        workload=workload_from_swf(log, platform, bandwidth="none", shift=False),
        t0_s=found.t0 - began_s,
        eligible_s=eligible_s[order],
        start_s=start_s[order],
        job_requests=tuple(job.model_dump_json(exclude={"id"}) for job in found.jobs),
        conf=_lasting(read_text(_file(folder, "slurm.conf"))),
        policy=found.policy,
        late_s=found.late_s,
    )


def _check_files(folder: Path) -> None:
    """Check that a folder holds the files that every recorded run has."""
    if not folder.is_dir():
        raise ReadError(folder, "no such folder, expected a recorded run of a real Slurm")
    lacking = [name for name in _NEEDED if not _file(folder, name).is_file()]
    if lacking:
        raise ReadError(
            folder,
            f"is not a recorded run of a real Slurm: it has no {', '.join(lacking)}; a run with --simulator slurm "
            "writes these files into the folder slurm of its results",
        )


def _file(folder: Path, name: str) -> Path:
    """Return the path of a file of a run, compressed or not."""
    path = folder / name
    return path if path.is_file() or not (packed := folder / f"{name}.gz").is_file() else packed


def _conf(folder: Path) -> SiteConf:
    """Return the description of the site: ``slurm.conf``, and the QOS and accounts of its database."""
    conf = read_conf(_file(folder, "slurm.conf"))
    qos, accounts = _file(folder, QOS), _file(folder, ACCOUNTS)
    return replace(
        conf,
        qos=read_qos(qos) if qos.is_file() else {},
        accounts=read_associations(accounts).accounts if accounts.is_file() else {},
    )


def _events(path: Path, n_jobs: int) -> list[_Event]:
    if not path.is_file():
        return []
    events = checked(_Events, read_json(path), path).root
    for number, one in enumerate(events):
        if one.kind in LASTING and one.duration_min is None:
            raise ReadError(path, f"[{number}] has no duration_min, expected the minutes of the {one.kind}")
        if one.kind not in LASTING and (one.job is None or one.job >= n_jobs):
            raise ReadError(path, f"[{number}].job is {one.job}, expected the index of a job, 0 to {n_jobs - 1}")
    return events


def _machine(folder: Path, found: _Run, conf: SiteConf, events: Sequence[_Event]) -> Platform:
    """Return the machine of a run with the rules of its ``slurm.conf`` and its reservations."""
    if found.node_cores is None and (found.nodes is None or found.cpus is None):
        raise ReadError(folder / "jobs.json", "has no node_cores, expected the cores of each node")
    n_cores = sum(found.node_cores) if found.node_cores is not None else (found.nodes or 0) * (found.cpus or 0)
    in_conf = sum(one.count * one.cores for one in conf.nodes)
    if in_conf != n_cores:
        raise ReadError(
            folder / "slurm.conf", f"names nodes with {in_conf:,} cores, expected {n_cores:,} as in jobs.json"
        )
    closed = [
        Downtime(_date(found.t0 + one.at), _date(found.t0 + one.at + 60 * (one.duration_min or 0)), one.nodes, one.kind)
        for one in events
        if one.kind in LASTING
    ]
    conf = replace(conf, downtimes=tuple(closed))
    return replace(build_platform(platform_of(conf), name=folder.name), site=rules_of(conf))


def _date(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat()


def _check_jobs(path: Path, jobs: Sequence[_Job], conf: SiteConf, happened: Container[tuple[str, int | None]]) -> None:
    for number, job in enumerate(jobs):
        for kind, delay_s in (("release", job.hold_s), ("cancel", job.cancel_after_s)):
            if delay_s is not None and (kind, number) not in happened:
                raise ReadError(path.with_name(EVENTS), f"has no {kind} of job {number}, expected one")
        for one in _dependencies(path, number, job):
            if one.other >= number or (one.task is not None and one.task >= (jobs[one.other].array or 0)):
                raise ReadError(path, f"jobs.{number}.after is {job.after}, expected the index of an earlier job")
        if job.het is not None and (job.het > number or jobs[job.het].het != job.het):
            raise ReadError(path, f"jobs.{number}.het is {job.het}, expected the index of the first component")
        named: list[tuple[str, str, Iterable[str]]] = [
            ("partition", name, conf.partitions) for name in (job.partition or "").split(",")
        ]
        named += [("account", job.account or "", conf.accounts), ("QOS", job.qos or "", conf.qos)]
        for what, name, known in named:
            if name and name not in known:
                raise ReadError(path, f"jobs.{number} names the {what} {quoted(name)}; {suggest(name, known)}")
    if sum(job.array or 1 for job in jobs) > _MOST_JOBS:
        raise ReadError(path, f"has more than {_MOST_JOBS:,} jobs and tasks of arrays")


@dataclass(frozen=True, slots=True)
class _Dependency:
    """A dependency of a recorded job: its kind, the index of the other job, its task, and ``+`` with minutes."""

    kind: str
    other: int
    task: int | None
    delay: str

    def text(self, numbers: Sequence[Sequence[int]]) -> str:
        """Return it as a cell of `site_rules.columns` has it, given the numbers of the tasks of each job.

        Whether the other job ended well is known: a job that waited for it in vain is cancelled then.
        """
        kind = "afterany" if self.kind in ("afterok", "afternotok") else self.kind
        others = numbers[self.other] if self.task is None else [numbers[self.other][self.task]]
        return ":".join((kind, *(f"{other}{self.delay}" for other in others)))


def _dependencies(path: Path, number: int, job: _Job) -> list[_Dependency]:
    """Return the dependencies of a job; an index alone is that of a job which must have ended."""
    text = f"afterany:{job.after}" if isinstance(job.after, int) else job.after or ""
    found = []
    for part in filter(None, text.split(",")):
        match = _DEPENDENCY.fullmatch(part)
        if match is None:
            raise ReadError(path, f"jobs.{number}.after has {quoted(part)}, expected for instance afterok:3")
        kind, other, task, delay = match.groups()
        found.append(_Dependency(kind, int(other), None if task is None else int(task), delay or ""))
    return found


def _log(
    path: Path, ended: Path, found: _Run, events: Sequence[_Event], began_s: float, qos: Sequence[str]
) -> tuple[SwfLog, NDArray[np.float64], NDArray[np.float64]]:
    """Return the log of the jobs, the dates since which each could start, and their starts, in the order of the log."""
    by_key = {one.key: one for one in _whole(read_jobcomp(ended))}
    when: dict[tuple[str, int | None], float] = {(one.kind, one.job): found.t0 + one.at - began_s for one in events}
    lines: list[tuple[float, ...]] = []
    cells: list[tuple[int, dict[str, str]]] = []
    dates: list[tuple[float, float]] = []
    numbers: list[range] = []
    queues: list[int] = []
    for place, job in enumerate(found.jobs):
        tasks = _tasks(ended, job, by_key)
        numbers.append(range(len(lines) + 1, len(lines) + 1 + len(tasks)))
        for task in tasks:
            number, submit_s = len(lines) + 1, task.submit_s - began_s
            limit_s = 60.0 * job.limit_min if job.limit_min is not None else None
            if task.start_s is None:
                run_s, start_s = min(job.run_s, limit_s or job.run_s), np.nan
            else:
                run_s, start_s = task.end_s - task.start_s, task.start_s - began_s
            run_s = max(run_s, 1.0)
            lines.append((number, submit_s, run_s, job.cores, job.cores, limit_s or run_s))
            dates.append((task.eligible_s - began_s, start_s))
            queues.append(-1 if job.qos is None else qos.index(job.qos))
            cell = _cell(job, place, number, submit_s, when)
            waits_for = _dependencies(path, place, job)
            if waits_for:
                cell["dependencies"] = ",".join(one.text(numbers) for one in waits_for)
                if task.start_s is None:
                    cell.setdefault("cancelled_s", str(task.end_s - began_s))
            if len(cell) > 1:
                cells.append((number, cell))
    rows = unknown_rows(len(lines))
    columns = ("job_number", "submit_s", "run_s", "processors", "requested_processors", "requested_s")
    for column, values in zip(columns, zip(*lines, strict=True), strict=True):
        rows[column] = values
    header = {"UnixStartTime": str(int(began_s)), "Queue": "\n".join(f"{n} {name}" for n, name in enumerate(qos))}
    rows["user"] = 1  # who submitted all of them
    rows["queue"] = queues
    eligible_s, start_s = np.array(dates).T
    site_columns = SiteColumns(path, tuple(cells))
    return SwfLog(path.parent.name, rows, header, columns=site_columns), eligible_s, start_s


def _tasks(ended: Path, job: _Job, by_key: Mapping[tuple[int, int], Completion]) -> list[Completion]:
    """Return the completion of a job, or of each task of an array."""
    whole = by_key.get((job.id, -1))
    if job.array is None:
        if whole is None:
            raise ReadError(ended, f"has no entry for job {job.id}")
        return [whole]
    found = [by_key[job.id, task] for task in range(job.array) if (job.id, task) in by_key]
    if whole is not None and whole.start_s is None:  # one line about all tasks that never started
        found = [by_key.get((job.id, task), whole) for task in range(job.array)]
    if len(found) != job.array:
        raise ReadError(ended, f"has {len(found)} tasks of array {job.id}, expected {job.array}")
    return found


def _whole(completions: Sequence[Completion]) -> list[Completion]:
    """Return jobs in the order in which they ended; those that began anew with the dates at which they came first."""
    found: dict[tuple[int, int], Completion] = {}
    for one in completions:
        first = found.pop(one.key, one)
        found[one.key] = replace(one, submit_s=first.submit_s, eligible_s=first.eligible_s)
    return list(found.values())


def _cell(
    job: _Job,
    place: int,
    number: int,
    submit_s: float,
    when: Mapping[tuple[str, int | None], float],
) -> dict[str, str]:
    """Return the requests of a job to a site, by column of `site_rules.columns`."""
    found: dict[str, Any] = {
        "partitions": job.partition,
        "account": job.account,
        "exclusive": 1 if job.exclusive else None,
        "nice": job.nice,
        "begin_s": None if job.begin_s is None else repr(submit_s + job.begin_s),
        "array": None if job.array is None else place,
        "array_limit": job.throttle,
        "het_group": job.het,
        "nodes": job.nodes,
        "features": job.features,
        "held_until_s": when.get(("release", place)),
        "cancelled_s": when.get(("cancel", place)),
    }
    return {"job": str(number)} | {column: str(value) for column, value in found.items() if value is not None}


def _lasting(conf: str) -> str:
    """Return a ``slurm.conf`` without the host and the ports, which are other ones in each run."""
    own = ("SlurmctldHost=", "SlurmctldPort=", "SlurmUser=", "SlurmdUser=", "AccountingStoragePort=")
    lines = [line for line in conf.splitlines() if not line.startswith(own)]
    words = [[word for word in line.split() if not word.startswith(("Port=", "NodeHostname="))] for line in lines]
    return "\n".join(map(" ".join, words))
