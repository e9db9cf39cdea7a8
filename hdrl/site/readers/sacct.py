"""What ``sacct -P`` prints: any columns in any order, of any version since 20.11."""

from __future__ import annotations

import functools
import io
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hdrl.base.errors import ReadError, quoted, suggest
from hdrl.base.files import open_bytes
from hdrl.base.textnumbers import float_of
from hdrl.settings.batch.site_rules.hostlist import n_of_ranges
from hdrl.settings.batch.site_rules.values import ABSENT, duration_s, gres_gpus, memory_of, minutes_s, resource
from hdrl.site.records import UNKNOWN, Dump, Parsed, State, integers, new_names, unknown_records
from hdrl.site.submitline import ask_text, read_submit_line
from hdrl.site.values import Clock

FloatArray = NDArray[np.float64]

COLUMNS = (
    *("JobID", "JobIDRaw", "Cluster", "User", "Account", "JobName", "Partition", "QOS", "Submit", "Eligible", "Start"),
    *("End", "Elapsed", "ElapsedRaw", "Timelimit", "TimelimitRaw", "AllocCPUS", "NCPUS", "ReqCPUS", "AllocNodes"),
    *("NNodes", "ReqNodes", "ReqMem", "ReqTRES", "AllocTRES", "AllocGRES", "ReqGRES", "State", "NodeList"),
    "SubmitLine",
)
"""The columns that are used; others are named on the page and left alone."""

EXPORT = (
    "sacct -a -X -P -D -S DATE -o JobID,JobIDRaw,User,Account,JobName,Partition,QOS,Submit,Eligible,Start,End,"
    "ElapsedRaw,TimelimitRaw,AllocCPUS,ReqCPUS,AllocNodes,ReqMem,ReqTRES,AllocTRES,State,NodeList,SubmitLine"
)
"""The command whose output holds most."""

STATES = {
    "COMPLETED": State.DONE,
    "FAILED": State.FAILED,
    "OUT_OF_MEMORY": State.FAILED,
    "CANCELLED": State.CANCELLED,
    "DEADLINE": State.CANCELLED,
    "REVOKED": State.CANCELLED,
    "TIMEOUT": State.TIMEOUT,
    "NODE_FAIL": State.STOPPED,
    "BOOT_FAIL": State.STOPPED,
    "PREEMPTED": State.STOPPED,
    "REQUEUED": State.STOPPED,
    "RUNNING": State.RUNNING,
    "SUSPENDED": State.RUNNING,
    "RESIZING": State.RUNNING,
    "COMPLETING": State.RUNNING,
    "PENDING": State.PENDING,
    "REQUEUE_HOLD": State.PENDING,
    "SPECIAL_EXIT": State.PENDING,
}

STEPS, BROKEN, NO_ID = "steps of jobs", "rows with more or fewer fields than columns", "rows without a job id"

_CHUNK_CHARACTERS = 2**23
_ID = re.compile(r"(\d{1,15})(?:_(?:(\d{1,15})|\[([^\]]*)\]?))?(?:\+(\d{1,6}))?")
_FIRST_JOB = re.compile(r"(?:^|\t)dependencies=.*?after\w*:(\d{1,15})(?:_(\d{1,15}))?")


@functools.lru_cache(maxsize=2**16)
def _asks_in(line: str) -> tuple[str, list[str]]:
    """Return what a line asks for as one text, and what of it is not understood; users submit the same again."""
    asks, problems = read_submit_line(line)
    return ask_text(asks), problems


def is_sacct(first_line: str) -> bool:
    """Tell whether a file begins as what ``sacct -P`` prints."""
    return _delimiter(first_line) is not None


def _delimiter(header: str) -> str | None:
    found = re.search(r"(?:^|[^A-Za-z])JobID(?:Raw)?([|,;\t^~#@!%&*\n])", f"{header.strip()}\n", re.IGNORECASE)
    if found is None:
        return None
    if found[1] != "\n":
        return found[1]
    before = re.search(r"([|,;\t^~#@!%&*])JobID(?:Raw)?$", header.strip(), re.IGNORECASE)
    return before[1] if before else None


def read_sacct(path: Path, clock: Clock) -> Dump:
    """Read what ``sacct -P`` printed, in pieces.

    Parameters
    ----------
    path
        The file, packed by gzip or not.

    Raises
    ------
    ReadError
        If it is no such file, or lacks a column without which nothing can be said.
    """
    with open_bytes(path) as stream:
        text = io.TextIOWrapper(stream, encoding="utf-8-sig", errors="replace", newline="")
        header, number = "", 0
        for number, line in enumerate(text, start=1):  # noqa: B007
            header = line.strip("\r\n")
            if header.strip():
                break
        delimiter = _delimiter(header)
        if delimiter is None:
            raise ReadError(path, f"has no column JobID in its first row; export it by {EXPORT}", line=max(number, 1))
        table = _Table(path, header.split(delimiter), clock, number)
        while lines := text.readlines(_CHUNK_CHARACTERS):
            table.add([line.rstrip("\r\n") for line in lines], delimiter)
    return table.dump()


class _Table:
    """The columns of one file, filled piece by piece."""

    def __init__(self, path: Path, header: Sequence[str], clock: Clock, line: int) -> None:
        known = {name.lower(): name for name in COLUMNS}
        self._places: dict[str, int] = {}
        others = []
        for place, title in enumerate(header):
            name = known.get(title.strip().lower())
            if name is None:
                others += [title.strip()] if title.strip() else []
            else:
                self._places.setdefault(name, place)
        self._n_columns = len(header)
        self._clock = clock
        self._names = new_names()
        self._states = Parsed(state_of, State.DONE)
        self._parsed: dict[str, Parsed] = {}
        self._pieces: list[NDArray[np.void]] = []
        self._n_rows = 0
        self._skipped: Counter[str] = Counter()
        self._unreadable: Counter[str] = Counter()
        self._not_understood: Counter[str] = Counter()
        self._notes = [f"columns not used: {', '.join(others)}"] if others else []
        self._check(path, line)

    def _check(self, path: Path, line: int) -> None:
        needs = (
            ("Submit", "Eligible"),
            ("Start",),
            ("End", "ElapsedRaw", "Elapsed"),
            ("AllocCPUS", "NCPUS", "AllocTRES", "ReqCPUS", "ReqTRES"),
        )
        for names in needs:
            if not any(name in self._places for name in names):
                near = suggest(names[0], self._places) if self._places else ""
                raise ReadError(path, f"has no column {' or '.join(names)} ({near}); export it by {EXPORT}", line=line)

    def add(self, lines: list[str], delimiter: str) -> None:
        """Take some lines of the file."""
        rows = [line.split(delimiter) for line in lines if line]
        self._n_rows += len(rows)
        rows = [row for row in map(self._whole, rows) if row is not None]
        id_place = self._places.get("JobID", self._places.get("JobIDRaw", 0))
        jobs = [row for row in rows if "." not in row[id_place]]
        self._count(STEPS, len(rows) - len(jobs))
        ids = [_ID.fullmatch(row[id_place].strip()) for row in jobs]
        if not all(ids):
            kept = [(row, found) for row, found in zip(jobs, ids, strict=True) if found is not None]
            self._count(NO_ID, len(jobs) - len(kept))
            jobs, ids = [row for row, _ in kept], [found for _, found in kept]
        if jobs:
            columns = dict(zip(self._places, (list(column) for column in self._columns(jobs)), strict=True))
            self._pieces.append(self._records([found for found in ids if found is not None], columns))

    def _columns(self, rows: list[list[str]]) -> Iterator[Sequence[str]]:
        whole = list(zip(*rows, strict=True))
        return (whole[place] for place in self._places.values())

    def _count(self, reason: str, n_rows: int) -> None:
        if n_rows:
            self._skipped[reason] += n_rows

    def _whole(self, row: list[str]) -> list[str] | None:
        """Return a row with a field for each column; the last column may hold the delimiter itself."""
        if len(row) == self._n_columns:
            return row
        if len(row) > self._n_columns and self._places.get("SubmitLine") == self._n_columns - 1:
            return [*row[: self._n_columns - 1], "|".join(row[self._n_columns - 1 :])]
        self._skipped[BROKEN] += 1
        return None

    def _records(self, ids: list[re.Match[str]], columns: Mapping[str, list[str]]) -> NDArray[np.void]:
        records = unknown_records(len(ids))
        records["job"] = [int(found[1]) for found in ids]
        records["task"] = [int(found[2] or UNKNOWN) for found in ids]
        records["component"] = [int(found[4] or UNKNOWN) for found in ids]
        ranges = {place: found[3] for place, found in enumerate(ids) if found[3] is not None}
        for place, text in ranges.items():
            records["n_tasks"][place] = _n_tasks(text)
        if "JobIDRaw" in columns:
            records["number"] = integers(self._numbers("JobIDRaw", float_of, columns["JobIDRaw"]))
        for field, column in _NAMES.items():
            if column in columns:
                records[field] = self._names[field].numbers(columns[column], len(ids))
        for field, column in _DATES.items():
            if column in columns:
                records[field], is_bad = self._clock.seconds(columns[column])
                self._fault(column, int(np.count_nonzero(is_bad)))
        records["state"] = State.DONE
        if "State" in columns:
            records["state"] = self._states.values_of(columns["State"])
        records["limit_s"] = self._first(columns, {"TimelimitRaw": minutes_s, "Timelimit": duration_s})
        records["run_s"] = self._first(columns, {"ElapsedRaw": duration_s, "Elapsed": duration_s})
        self._sizes(records, columns)
        if "SubmitLine" in columns:
            self._asks(records, columns["SubmitLine"])
        return records

    def _sizes(self, records: NDArray[np.void], columns: Mapping[str, list[str]]) -> None:
        """Fill in cores, nodes, GPUs and memory."""
        allocated = {
            "AllocCPUS": _amount,
            "NCPUS": _amount,
            "AllocTRES": lambda text: resource(text, "cpu"),
        }
        cores = self._first(columns, allocated)
        requested = self._first(columns, {"ReqCPUS": _amount, "ReqTRES": lambda text: resource(text, "cpu")})
        records["cores"] = integers(np.where(cores > 0, cores, np.nan))
        records["requested_cores"] = integers(requested)
        nodes = self._first(
            columns,
            {
                "AllocNodes": _amount,
                "NNodes": _amount,
                "AllocTRES": lambda text: resource(text, "node"),
                "ReqNodes": _amount,
            },
        )
        records["nodes"] = integers(nodes)
        gpus = self._first(
            columns,
            {
                "AllocTRES": lambda text: resource(text, "gres/gpu"),
                "AllocGRES": gres_gpus,
                "ReqTRES": lambda text: resource(text, "gres/gpu"),
                "ReqGRES": gres_gpus,
            },
        )
        records["gpus"] = integers(np.where(np.isnan(gpus), 0.0, gpus))
        if "ReqMem" in columns:
            counts = np.where(cores > 0, cores, np.where(requested > 0, requested, 1.0))
            amount = self._numbers("ReqMem", lambda text: memory_of(text)[0], columns["ReqMem"])
            kind = np.array([text[-1:] for text in columns["ReqMem"]])
            per_node = amount * np.where(nodes > 0, nodes, 1.0) / counts
            records["memory_kb"] = np.where(kind == "c", amount, np.where(kind == "n", per_node, amount / counts))

    def _asks(self, records: NDArray[np.void], lines: Sequence[str]) -> None:
        """Note what jobs asked for beyond what the other columns say."""
        numbers, asks_column = self._names["asks"], np.full(len(lines), UNKNOWN, dtype=np.int32)
        for place, line in enumerate(lines):
            text, problems = _asks_in(line)
            if problems:
                self._not_understood.update(problems)
            if not text:
                continue
            asks_column[place] = numbers[text]
            found = _FIRST_JOB.search(text)
            if found is not None:
                records["after"][place], records["after_task"][place] = int(found[1]), int(found[2] or UNKNOWN)
        records["asks"] = asks_column

    def _first(self, columns: Mapping[str, list[str]], parsers: Mapping[str, Callable[[str], float]]) -> FloatArray:
        """Return the numbers of the first column of several that says one."""
        result: FloatArray | None = None
        for column, parse in parsers.items():
            if column in columns and (result is None or np.any(np.isnan(result))):
                values = self._numbers(column, parse, columns[column])
                result = values if result is None else np.where(np.isnan(result), values, result)
        return np.full(len(next(iter(columns.values()))), np.nan) if result is None else result

    def _numbers(self, column: str, parse: Callable[[str], float], texts: Sequence[str]) -> FloatArray:
        key = f"{column} {getattr(parse, '__code__', parse)}"
        parsed = self._parsed.get(key)
        if parsed is None:
            parsed = self._parsed[key] = Parsed(lambda text: np.nan if text in ABSENT else parse(text), np.nan)
        return parsed.values_of(texts)

    def _fault(self, column: str, n_values: int) -> None:
        if n_values:
            self._unreadable[column] += n_values

    def dump(self) -> Dump:
        """Return all that was read."""
        records = np.concatenate(self._pieces) if self._pieces else unknown_records(0)
        notes = list(self._notes)
        notes += [f"{n:,} unreadable values of {column} count as unknown" for column, n in self._unreadable.items()]
        notes += [f"SubmitLine: {n:,} {what}, left out" for what, n in self._not_understood.items()]
        for key, parsed in self._parsed.items():
            if parsed.faulty:
                shown = ", ".join(map(quoted, sorted(parsed.faulty)[:3]))
                notes.append(f"unreadable values of {key.split()[0]} count as unknown: {shown}")
        if self._states.faulty:
            shown = ", ".join(map(quoted, sorted(self._states.faulty)[:5]))
            notes.append(f"unknown states count as ended: {shown}")
        if "Eligible" not in self._places:
            notes.append("no column Eligible: waits count from the submission, holds and dependencies included")
        if "TimelimitRaw" not in self._places and "Timelimit" not in self._places:
            notes.append("no column Timelimit: what users requested is unknown, run times stand for it")
        return Dump("sacct", records, self._names, self._n_rows, self._skipped, list(dict.fromkeys(notes)))


_NAMES = {
    "user": "User",
    "account": "Account",
    "name": "JobName",
    "qos": "QOS",
    "partition": "Partition",
    "cluster": "Cluster",
    "node_list": "NodeList",
}
_DATES = {"submit_s": "Submit", "eligible_s": "Eligible", "start_s": "Start", "end_s": "End"}


def _amount(text: str) -> float:
    """Return a count, such as ``8`` or ``8K``."""
    scale = {"K": 1024.0, "M": 1024.0**2}.get(text[-1:], 1.0)
    return float_of(text[:-1] if scale > 1 else text) * scale


def state_of(text: str) -> float:
    """Return the `State` of a word such as ``CANCELLED by 1000`` or ``COMPLETED+``.

    Raises
    ------
    ValueError
        If there is no such state.
    """
    words = text.upper().split()
    word = words[0].rstrip("+") if words else "COMPLETED"
    found = STATES.get(word)
    if found is None:
        cut = [state for name, state in STATES.items() if len(word) > 5 and name.startswith(word)]
        if not cut:
            raise ValueError(text)
        found = cut[0]
    return float(found)


def _n_tasks(text: str) -> int:
    """Return how many waiting tasks ``4-9%2`` stands for; what was cut off by ``...`` is not counted."""
    ranges = text.partition("%")[0].removesuffix("...").rstrip(",")
    try:
        return max(1, min(n_of_ranges(ranges), 2**31 - 1))
    except ValueError:
        return 1
