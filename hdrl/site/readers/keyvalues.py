"""Accounting in lines of ``key=value``: PBS, and Slurm's ``jobcomp/filetxt``."""

from __future__ import annotations

import io
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import numpy as np

from hdrl.base.files import open_bytes
from hdrl.base.textnumbers import float_of, int_of
from hdrl.settings.batch.site_rules.values import duration_s, gres_gpus, memory_kb, minutes_s, resource
from hdrl.site.readers.rows import Attempt, Attempts
from hdrl.site.readers.sacct import state_of
from hdrl.site.records import AttemptState, Dump
from hdrl.site.values import Clock

_PBS_LINE = re.compile(r"\d\d/\d\d/\d{4} \d\d:\d\d:\d\d;[A-Za-z];")
ARRAYS = "records of arrays, whose tasks have records of their own"
_PBS_ID = re.compile(r"(\d{1,15})(?:\[(\d{1,15})?\])?")
_PAIR = re.compile(r'(\S+?)=("[^"]*"|.*?)(?=\s+[A-Za-z_][\w.\-]*=|\s*$)')


def is_pbs(first_line: str) -> bool:
    """Tell whether a file begins as the accounting of PBS."""
    return _PBS_LINE.match(first_line) is not None


def is_jobcomp(first_line: str) -> bool:
    """Tell whether a file begins as what Slurm's ``jobcomp/filetxt`` writes."""
    return first_line.startswith("JobId=")


def _lines(path: Path) -> Iterator[str]:
    with open_bytes(path) as stream:
        text = io.TextIOWrapper(stream, encoding="utf-8-sig", errors="replace")
        for line in text:
            if line.strip():
                yield line.strip()


def read_jobcomp(path: Path, clock: Clock) -> Dump:
    """Read a file of Slurm's ``jobcomp/filetxt``: a line for each attempt that ended."""
    found = Attempts("slurm-jobcomp")
    for line in _lines(path):
        values = dict(word.partition("=")[::2] for word in line.split() if "=" in word)
        with found.row() as attempt:
            _jobcomp(values, attempt, clock)
    dump = found.dump()
    clock.put_in_order([dump.records[column] for column in ("submit_s", "eligible_s", "start_s", "end_s")])
    return dump


def _jobcomp(values: Mapping[str, str], attempt: Attempt, clock: Clock) -> None:
    attempt["job"] = int_of(values["JobId"])
    if "HetJobOffset" in values:
        attempt["number"], attempt["job"] = attempt["job"], int_of(values.get("HetJobId", ""))
        attempt["component"] = int_of(values["HetJobOffset"])
    for name, key in (("submit_s", "SubmitTime"), ("eligible_s", "EligibleTime"), ("start_s", "StartTime")):
        attempt[name] = clock.second(values.get(key, ""))
    attempt["end_s"] = clock.second(values.get("EndTime", ""))
    attempt["limit_s"] = minutes_s(values.get("TimeLimit", ""))
    tres = values.get("Tres", values.get("tres", "")).removeprefix("tres=")
    attempt["cores"] = int_of(values.get("ProcCnt", "0"))
    attempt["nodes"] = int_of(values.get("NodeCnt", "0"))
    gpus = resource(tres, "gres/gpu")
    attempt["gpus"] = 0 if np.isnan(gpus) else int(gpus)
    attempt["state"] = state_of(values.get("JobState", ""))
    if attempt["state"] == AttemptState.CANCELLED and (
        values.get("NodeList", "(null)") == "(null)" or not attempt["cores"]
    ):
        attempt["start_s"] = np.nan
    attempt.name("user", values.get("UserId", "").partition("(")[0])
    for column, key in (("account", "Account"), ("name", "Name"), ("qos", "QOS"), ("partition", "Partition")):
        attempt.name(column, values.get(key, ""))
    attempt.name("node_list", values.get("NodeList", "").replace("(null)", ""))
    attempt.name("work_dir", values.get("WorkDir", ""))


def read_pbs(path: Path, clock: Clock) -> Dump:
    """Read the accounting of PBS: records of the ends of jobs, of those that still run or wait, and of reruns."""
    return _Pbs(clock).read(path)


class _Pbs:
    """The records of one file of PBS."""

    def __init__(self, clock: Clock) -> None:
        self._found = Attempts("pbs")
        self._clock = clock
        self._open: dict[str, tuple[str, dict[str, str], float]] = {}
        self._kinds: Counter[str] = Counter()

    def read(self, path: Path) -> Dump:
        handlers: dict[str, Callable[[str, dict[str, str], float], None]] = {
            "E": self._ended,
            "R": self._rerun,
            "S": self._note_waiting,
            "Q": self._note_waiting,
            "D": self._deleted,
            "A": self._deleted,
        }
        for line in _lines(path):
            date, kind, job, *rest = line.split(";", 3) if line.count(";") >= 2 else ("", "", "")
            with self._found.row() as attempt:
                when_s = self._clock.second(_iso(date))
                values = {key: text.strip('"') for key, text in _PAIR.findall(rest[0] if rest else "")}
                handler = handlers.get(kind)
                if handler is None or not _PBS_ID.match(job):
                    attempt.skip("records of another kind than the course of a job")
                    continue
                if kind == "E" and job.partition(".")[0].endswith("[]"):
                    attempt.skip(ARRAYS)
                    self._open.pop(job, None)
                    continue
                attempt.skip("records that a later one of the same job completes")
                handler(job, values, when_s)
        for job, (kind, values, when_s) in self._open.items():
            self._put(job, values, when_s, AttemptState.RUNNING if kind == "S" else AttemptState.PENDING)
        return self._found.dump()

    def _note_waiting(self, job: str, values: dict[str, str], when_s: float) -> None:
        kind = "S" if "start" in values else "Q"
        before = self._open.get(job)
        if before is not None and before[0] == "S" and kind == "Q":
            return
        self._open[job] = (kind, values, when_s)

    def _ended(self, job: str, values: dict[str, str], when_s: float) -> None:
        self._open.pop(job, None)
        code = values.get("Exit_status", "0")
        state = AttemptState.DONE if code == "0" else AttemptState.TIMEOUT if code == "-29" else AttemptState.FAILED
        self._put(job, values, when_s, state)

    def _rerun(self, job: str, values: dict[str, str], when_s: float) -> None:
        before = self._open.pop(job, None)
        known = {**(before[1] if before else {}), **values}
        if "start" in known:
            self._put(job, known, when_s, AttemptState.STOPPED)

    def _deleted(self, job: str, values: dict[str, str], when_s: float) -> None:
        before = self._open.get(job)
        if before is not None and before[0] == "S":
            return  # its end follows
        self._open.pop(job, None)
        self._put(job, {**(before[1] if before else {}), **values}, when_s, AttemptState.CANCELLED)

    def _put(self, job: str, values: Mapping[str, str], when_s: float, state: AttemptState) -> None:
        with self._found.more() as attempt:
            number = _PBS_ID.match(job)
            if number is None:
                raise ValueError(job)
            attempt["job"], attempt["task"] = int(number[1]), int(number[2] or -1)
            attempt["state"] = state
            second = self._clock.second
            attempt["submit_s"] = second(values.get("ctime", values.get("qtime", "")))
            attempt["eligible_s"] = second(values.get("etime", values.get("qtime", "")))
            attempt["start_s"] = second(values.get("start", ""))
            attempt["end_s"] = second(values.get("end", "")) if state != AttemptState.STOPPED else when_s
            if np.isnan(attempt["submit_s"]) and state in (AttemptState.PENDING, AttemptState.CANCELLED):
                attempt["submit_s"] = when_s
            if state == AttemptState.STOPPED and attempt["start_s"] > when_s:
                attempt["start_s"] = when_s
            attempt["limit_s"] = duration_s(values.get("Resource_List.walltime", ""))
            _pbs_sizes(values, attempt)
            attempt.name("user", values.get("user", ""))
            attempt.name("account", values.get("account", values.get("project", values.get("group", ""))))
            attempt.name("name", values.get("jobname", ""))
            attempt.name("partition", values.get("queue", ""))
            hosts = {host.partition("/")[0] for host in values.get("exec_host", "").split("+")} - {""}
            attempt.name("node_list", ",".join(sorted(hosts)))


def _iso(date: str) -> str:
    """Return ``MM/DD/YYYY hh:mm:ss`` as ISO 8601."""
    return f"{date[6:10]}-{date[:2]}-{date[3:5]}T{date[11:]}"


def _pbs_sizes(values: Mapping[str, str], attempt: Attempt) -> None:
    """Fill in cores, nodes, GPUs and memory: ``exec_vnode`` if the job ran, else what it requested."""
    cores = int_of(values.get("Resource_List.ncpus", "0"))
    gpus = int_of(values.get("Resource_List.ngpus", "0"))
    used = re.findall(r"ncpus=(\d{1,9})", values.get("exec_vnode", ""))
    allocated = sum(map(int, used)) if used else 0
    if not cores and "exec_host" in values:  # Torque: a host for each core
        parts = [part.partition("/")[2] for part in values["exec_host"].split("+")]
        allocated = allocated or sum(_n_slots(part) for part in parts)
    attempt["cores"] = allocated or cores
    attempt["requested_cores"] = cores or allocated
    attempt["nodes"] = int_of(values.get("Resource_List.nodect", "1"))
    attempt["gpus"] = gpus or int(np.nan_to_num(gres_gpus(values.get("Resource_List.gres", ""))))
    memory = values.get("Resource_List.mem", "")
    if memory:
        total_kb = memory_kb(re.sub(r"(?i)b$", "", memory).upper())
        if re.fullmatch(r"(?i)\d+b", memory):
            total_kb = float_of(memory[:-1]) / 1024
        attempt["memory_kb"] = total_kb / max(attempt["cores"], 1)


def _n_slots(text: str) -> int:
    """Return the number of slots in ``0-3*2``, ``0,2`` or ``5*4`` of a host."""
    if "*" in text:
        return int_of(text.rpartition("*")[2])
    ends = [part.partition("-")[::2] for part in text.split(",")]
    return sum(int_of(last or first) - int_of(first) + 1 for first, last in ends if first)
