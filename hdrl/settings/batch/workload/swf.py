"""The Standard Workload Format (SWF): reading, writing, and turning its seconds into work.

The format: https://www.cs.huji.ac.il/labs/parallel/workload/swf.html (18 fields per job, -1 for what is
unknown, comments after ``;``, the first of which are ``Key: value`` directives).
"""

from __future__ import annotations

import hashlib
import io
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, TypedDict, Unpack

import numpy as np
from numpy.typing import NDArray

from hdrl.errors import OptionsError, ReadError, UnknownName, WorkloadError
from hdrl.files import atomic_write, open_bytes
from hdrl.seeding import stream
from hdrl.settings.batch.platform.model import Platform
from hdrl.settings.batch.workload.build import MAX_INT32, MAX_VALUE, compute_jobs, log_number, log_numbers, unique_ids
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

FloatArray = NDArray[np.float64]

SWF_FIELDS = (
    "job_number",
    "submit_s",
    "wait_s",
    "run_s",
    "processors",
    "cpu_s",
    "memory_kb",
    "requested_processors",
    "requested_s",
    "requested_memory_kb",
    "status",
    "user",
    "group",
    "executable",
    "queue",
    "partition",
    "preceding_job",
    "think_s",
)
"""The 18 fields in their order. Memory is in kilobytes (1024 bytes) per processor."""

SWF_DTYPE = np.dtype([(name, np.float64) for name in SWF_FIELDS])
"""One line of a log; all fields are floats since real logs hold fractions in any of them."""

UNKNOWN_VALUE = -1.0
PARTIAL_STATUSES = (2, 3, 4)
"""Statuses of lines that tell of one part of a job that was checkpointed; another line tells of the whole."""

_DIRECTIVE = re.compile(r"\s*([A-Z][A-Za-z]*)\s*:\s*(.*)")


@dataclass(frozen=True, slots=True)
class SwfLog:
    """A log as it was read: nothing is dropped, reordered or converted.

    Attributes
    ----------
    name
        Name of the log, from its file or model.
    rows
        Array of `SWF_DTYPE`, in the order of the file.
    header
        Directives by key; the values of a repeated key are lines of one value. Comments without a key
        continue the directive above them, or are kept under ``Note``.
    origin
        Where it comes from; goes into the provenance of a workload.
    """

    name: str
    rows: NDArray[np.void]
    header: dict[str, str] = field(default_factory=dict)
    origin: dict[str, object] = field(default_factory=dict)

    @property
    def n_rows(self) -> int:
        """Number of lines that describe a job."""
        return len(self.rows)


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


class _Lines:
    """The job lines of a log; keeps the comments and remembers where it is."""

    def __init__(self, stream: IO[str]) -> None:
        self.header: dict[str, str] = {}
        self.number = 0
        self.line = ""
        self._stream = stream
        self._key = "Note"

    def __iter__(self) -> Iterator[str]:
        for number, line in enumerate(self._stream, start=1):
            first = line.lstrip()[:1]
            if first == ";":
                self._comment(line.lstrip()[1:].rstrip())
            elif first:
                self.number, self.line = number, line
                yield line

    def _comment(self, text: str) -> None:
        match = _DIRECTIVE.fullmatch(text)
        if match:
            self._key, text = match[1], match[2]
        elif not text.strip():
            self._key = "Note"
            return
        text = text.strip()
        known = self.header.get(self._key)
        self.header[self._key] = text if known is None else f"{known}\n{text}"


def read_swf(path: str | Path, *, max_rows: int | None = None) -> SwfLog:
    """Read a log in the Standard Workload Format.

    Tolerated: a missing header, comments and blank lines anywhere, tabs, CRLF, fractions, more than 18 fields
    (the others are ignored), a name that ends in ``.gz``.

    Parameters
    ----------
    path
        The file.
    max_rows
        Stop after that many jobs, at least 1; ``None`` reads all.

    Raises
    ------
    OptionsError
        If ``max_rows`` is less than 1.
    ReadError
        If it cannot be read, holds no job, or a line does not begin with 18 numbers.
    """
    path = Path(path)
    if max_rows is not None and max_rows < 1:
        raise OptionsError(f"max_rows is {max_rows}, expected at least 1")
    with open_bytes(path) as stream, path.open("rb") as packed:
        lines = _Lines(io.TextIOWrapper(stream, encoding="utf-8-sig", errors="replace"))
        table = _table(path, lines, max_rows)
        digest = hashlib.file_digest(packed, "sha256").hexdigest()
    rows = table.view(SWF_DTYPE)[:, 0]
    name = path.name.removesuffix(".gz").removesuffix(".swf")
    return SwfLog(name, rows, lines.header, {"file": path.name, "sha256": digest})


def _table(path: Path, lines: _Lines, max_rows: int | None) -> FloatArray:
    iterator = iter(lines)
    first = next(iterator, None)
    if first is None:
        raise ReadError(path, "holds no job, expected lines of 18 numbers")

    def chain() -> Iterator[str]:
        yield first
        yield from iterator

    try:
        table: FloatArray = np.loadtxt(
            chain(), comments=";", usecols=range(len(SWF_FIELDS)), ndmin=2, max_rows=max_rows, dtype=np.float64
        )
    except ValueError as error:
        raise ReadError(path, _what_is_wrong(lines.line, error), line=lines.number) from None
    if not np.all(np.isfinite(table)):
        row, column = np.argwhere(~np.isfinite(table))[0]
        raise ReadError(path, f"job {row + 1}: {SWF_FIELDS[column]} is {table[row, column]}, expected a finite number")
    if np.any(np.abs(table) > MAX_VALUE):
        row, column = np.argwhere(np.abs(table) > MAX_VALUE)[0]
        found = f"{SWF_FIELDS[column]} is {table[row, column]:g}"
        raise ReadError(path, f"job {row + 1}: {found}, expected a number between {-MAX_VALUE:g} and {MAX_VALUE:g}")
    return table


def _what_is_wrong(line: str, error: ValueError) -> str:
    words = line.partition(";")[0].split()
    if len(words) < len(SWF_FIELDS):
        return f"{len(words)} fields, expected {len(SWF_FIELDS)}"
    for name, word in zip(SWF_FIELDS, words, strict=False):
        try:
            float(word)
        except ValueError:
            return f"{name} is {word[:40]!r}, expected a number"
    return f"cannot be parsed ({error})"


def write_swf(log: SwfLog, path: str | Path) -> None:
    """Write a log; whole numbers are written as such, so that a log that was read is written with the same values.

    Parameters
    ----------
    log
        The log.
    path
        The file; a name that ends in ``.gz`` is compressed.

    Raises
    ------
    OutputError
        If it cannot be written.
    """
    with atomic_write(path) as out:
        for key, value in log.header.items():
            for line in value.split("\n"):
                out.write(f"; {key}: {line}\n")
        for row in log.rows.tolist():
            out.write(" ".join(str(int(value)) if value.is_integer() else repr(value) for value in row))
            out.write("\n")


def _droppable(rows: NDArray[np.void], run_s: FloatArray) -> dict[str, NDArray[np.bool_]]:
    """Return who must go, by reason."""
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


def requested_cores(rows: NDArray[np.void]) -> FloatArray:
    """Return the processors that each job asks for; those that it got where the log does not say.

    Parameters
    ----------
    rows
        Array of `SWF_DTYPE`.
    """
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
    it. Jobs of which the log does not tell enough are left out and counted in `Workload.n_dropped`.

    Parameters
    ----------
    log
        The log.
    platform
        The platform, for its reference speed; or that speed in Gflop/s.
    n_jobs
        How many jobs to keep at most, at least 1; ``None`` for all.
    start
        How many usable jobs to skip first, not negative.
    **choices
        ``run_time`` a name of `RUN_TIME_MODELS` (default ``"trace"``); ``memory`` of `MEMORY_MODELS` (``"log"``);
        ``bandwidth`` of `BANDWIDTH_MODELS` (``"uniform"``); ``estimates`` of `ESTIMATE_MODELS` (``None`` is ``"log"``);
        ``walltime`` ``None`` (jobs are never killed) or ``"requested"`` (after ``walltime_factor`` times
        the requested time); ``shift`` whether the first job is submitted at date 0 (default: yes);
        ``seed`` of the draws (default: 0).

    Raises
    ------
    UnknownName
        If a model is unknown.
    OptionsError
        If ``n_jobs``, ``start``, ``seed`` or ``walltime_factor`` is out of range.
    WorkloadError
        If no job is left, or one asks for more cores than can be counted.
    """
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
    rows = log.rows
    run_s = RUN_TIME_MODELS[names["run_time"]](rows, stream(seed, "workload/run_time"))
    reasons = _droppable(rows, run_s)
    kept = np.flatnonzero(~np.logical_or.reduce(list(reasons.values())))
    last = len(kept) if n_jobs is None else min(len(kept), start + n_jobs)
    # Draws are made for all jobs up to the last: what a job gets does not depend on the window it is seen in.
    memory_mib = memory_model(rows[kept[:last]], stream(seed, "workload/memory"))[start:]
    bandwidth_gbps = bandwidth_model(rows[kept[:last]], stream(seed, "workload/bandwidth"))[start:]
    chosen = kept[start:last]
    complete = n_jobs is not None and len(chosen) == n_jobs
    n_dropped = _count(reasons, int(chosen[-1]) + 1 if complete else log.n_rows)
    if len(chosen) == 0:
        shown = ", ".join(f"{count} with {reason}" for reason, count in n_dropped.items())
        raise WorkloadError(f"{log.name}: no usable job from job {start} on among {log.n_rows} ({shown or 'too few'})")
    history = _history(rows, run_s, kept, names)
    rows, run_s = rows[chosen], run_s[chosen]
    requested_s = estimate_model(rows, run_s, stream(seed, "workload/estimates"))
    submit_s = np.array(rows["submit_s"])
    if choices.get("shift", True):
        submit_s -= submit_s.min()
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
        numbers=log_numbers(rows),
        n_dropped=n_dropped,
        origin={**log.origin, **names, **choices, "start": start, "n_jobs": len(chosen), "platform": machine},
    )
    return made if history is None else replace(made, history=history, places=np.arange(start, last))


def _history(
    rows: NDArray[np.void], run_s: FloatArray, kept: NDArray[np.int64], names: Mapping[str, str]
) -> LogHistory | None:
    """Return what the log tells of all its usable jobs; ``None`` if run or requested times are not the log's."""
    if names["run_time"] != "trace" or names["estimates"] != "log":
        return None
    # Column by column: the lines of a whole log are large.
    ended_s = np.where(rows["wait_s"] >= 0, rows["submit_s"] + rows["wait_s"] + run_s, np.inf)
    return LogHistory(
        submit_s=rows["submit_s"][kept],
        ended_s=ended_s[kept],
        run_s=run_s[kept],
        requested_time_s=requested_times(rows, run_s)[kept],
        user=log_number(rows["user"])[kept],
        cores=np.trunc(np.minimum(requested_cores(rows)[kept], MAX_INT32)).astype(np.int32),
    )


def _check_numbers(n_jobs: int | None, start: int, seed: int) -> None:
    if n_jobs is not None and n_jobs < 1:
        raise OptionsError(f"n_jobs is {n_jobs}, expected at least 1")
    for name, value in (("start", start), ("seed", seed)):
        if value < 0:
            raise OptionsError(f"{name} is {value}, expected at least 0")


def _count(reasons: dict[str, NDArray[np.bool_]], n_rows: int) -> dict[str, int]:
    """Return how many of the first lines are left out, each by its first reason."""
    left = np.ones(n_rows, dtype=bool)
    counts = {}
    for reason, bad in reasons.items():
        n_bad = int(np.count_nonzero(left & bad[:n_rows]))
        if n_bad:
            counts[reason] = n_bad
        left &= ~bad[:n_rows]
    return counts


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
    workload
        The workload.
    platform
        The platform, for its reference speed.
    """
    jobs = workload.jobs
    rows = np.full(workload.n_jobs, UNKNOWN_VALUE, dtype=SWF_DTYPE)
    for name in SWF_FIELDS:
        rows[name] = UNKNOWN_VALUE
    numeric = len(workload.sources) == 1 and all(i.isascii() and i.isdigit() for i in workload.job_ids)
    rows["job_number"] = [float(i) for i in workload.job_ids] if numeric else np.arange(1, workload.n_jobs + 1)
    rows["submit_s"] = jobs["submit_s"]
    rows["run_s"] = np.round(reference_run_times(workload, platform), 6)  # no noise from seconds to flop and back
    rows["processors"] = rows["requested_processors"] = jobs["cores"]
    rows["requested_s"] = jobs["requested_time_s"]
    rows["requested_memory_kb"] = np.where(jobs["memory_mib"] > 0, jobs["memory_mib"] * 1024, UNKNOWN_VALUE)
    rows["status"] = 1
    for name in ("user", "group", "executable", "queue", "partition"):
        rows[name] = jobs[name]
    header = {"Version": "2.2", "MaxJobs": str(workload.n_jobs), "MaxProcs": str(platform.n_cores)}
    return SwfLog(workload.name, rows, header, dict(workload.origin))
