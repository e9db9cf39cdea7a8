"""Reader of the output of ``sacct -P``: any columns in any order, of any version since 20.11."""

from __future__ import annotations

import csv
import functools
import io
import itertools
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hdrl.base.errors import ReadError, quoted, suggest
from hdrl.base.files import open_bytes
from hdrl.base.textnumbers import float_of
from hdrl.settings.batch.site_rules.hostlist import n_of_ranges
from hdrl.settings.batch.site_rules.values import ABSENT, duration_s, gres_gpus, memory_of, minutes_s, resource
from hdrl.site.records import UNKNOWN, AttemptState, Dump, Parsed, integers, new_names, unknown_records
from hdrl.site.submitline import component_line, options_of, program_of, read_submit_line, requests_text
from hdrl.site.values import Clock

FloatArray = NDArray[np.float64]

COLUMNS = (
    *("JobID", "JobIDRaw", "Cluster", "User", "Account", "JobName", "Partition", "QOS", "Submit", "Eligible", "Start"),
    *("End", "Elapsed", "ElapsedRaw", "Timelimit", "TimelimitRaw", "AllocCPUS", "NCPUS", "ReqCPUS", "AllocNodes"),
    *("NNodes", "ReqNodes", "ReqMem", "ReqTRES", "AllocTRES", "AllocGRES", "ReqGRES", "State", "NodeList"),
    "WorkDir",
    "SubmitLine",
)
"""The columns that are used; others are named on the page and left alone."""

EXPORT = (
    "sacct -a -X -P -D -S DATE -o JobID,JobIDRaw,User,Account,JobName,Partition,QOS,Submit,Eligible,Start,End,"
    "ElapsedRaw,TimelimitRaw,AllocCPUS,ReqCPUS,AllocNodes,ReqMem,ReqTRES,AllocTRES,State,NodeList,WorkDir,SubmitLine"
)
"""The command whose output holds most."""

STATES = {
    "COMPLETED": AttemptState.DONE,
    "FAILED": AttemptState.FAILED,
    "OUT_OF_MEMORY": AttemptState.FAILED,
    "CANCELLED": AttemptState.CANCELLED,
    "DEADLINE": AttemptState.CANCELLED,
    "REVOKED": AttemptState.CANCELLED,
    "TIMEOUT": AttemptState.TIMEOUT,
    "NODE_FAIL": AttemptState.STOPPED,
    "BOOT_FAIL": AttemptState.STOPPED,
    "LAUNCH_FAILED": AttemptState.STOPPED,
    "RECONFIG_FAIL": AttemptState.STOPPED,
    "PREEMPTED": AttemptState.STOPPED,
    "REQUEUED": AttemptState.STOPPED,
    "REQUEUE_FED": AttemptState.STOPPED,
    "EXPEDITING": AttemptState.STOPPED,
    "RUNNING": AttemptState.RUNNING,
    "SUSPENDED": AttemptState.RUNNING,
    "RESIZING": AttemptState.RESIZED,
    "COMPLETING": AttemptState.RUNNING,
    "CONFIGURING": AttemptState.RUNNING,
    "SIGNALING": AttemptState.RUNNING,
    "STAGE_OUT": AttemptState.RUNNING,
    "STOPPED": AttemptState.RUNNING,
    "PENDING": AttemptState.PENDING,
    "REQUEUE_HOLD": AttemptState.PENDING,
    "SPECIAL_EXIT": AttemptState.PENDING,
    "RESV_DEL_HOLD": AttemptState.PENDING,
}

STEPS, BROKEN, NO_ID = "steps of jobs", "rows with more or fewer fields than columns", "rows without a job id"

_CHUNK_CHARACTERS = 2**20
_OF_SPREADSHEETS, _OF_UNQUOTED, _IN_LAST = ",;\t", "\0", "\1"
"""Delimiters of tables whose fields may be quoted; what stands for them then, and in the last field of a row."""
_ID_DTYPE = np.dtype([("job", np.int64), ("task", np.int64), ("component", np.int32), ("n_tasks", np.int32)])
_ID = re.compile(r"(\d{1,15})(?:_(?:(\d{1,15})|\[([^\]]*)\]?))?(?:\+(\d{1,6}))?")
_FIRST_JOB = re.compile(r"(?:^|\t)dependencies=.*?after\w*:(\d{1,15})(?:_(\d{1,15}))?")


@functools.lru_cache(maxsize=2**16)
def _requests_in(line: str) -> tuple[str, tuple[int, int] | None, list[str]]:
    """Return the requests in a line as one text, the first job that it waits for, and its unsupported options."""
    requests, problems = read_submit_line(line)
    text = requests_text(requests)
    found = _FIRST_JOB.search(text)
    return text, None if found is None else (int(found[1]), int(found[2] or UNKNOWN)), problems


def _ids(texts: list[str]) -> tuple[NDArray[np.void], NDArray[np.bool_]]:
    """Return the ids in texts such as ``7``, ``7_3``, ``7_[4-9%2]`` or ``7+1``, and which texts are ids."""
    ids = np.full(len(texts), np.array((UNKNOWN, UNKNOWN, UNKNOWN, 1), dtype=_ID_DTYPE))
    is_id = _are_numbers(texts)
    ids["job"][is_id] = np.fromiter(map(int, itertools.compress(texts, is_id)), np.int64)
    for position in np.flatnonzero(~is_id).tolist():
        found = _ID.fullmatch(texts[position])
        if found is not None:
            n_tasks = 1 if found[3] is None else _n_tasks(found[3])
            ids[position] = (int(found[1]), int(found[2] or UNKNOWN), int(found[4] or UNKNOWN), n_tasks)
            is_id[position] = True
    return ids, is_id


def _are_numbers(texts: Sequence[str]) -> NDArray[np.bool_]:
    """Return which texts are whole numbers that 64 bits hold."""
    n_characters = list(map(len, texts))
    if min(n_characters, default=0) > 0 and max(n_characters) < 16 and "".join(texts).isdecimal():
        return np.ones(len(texts), dtype=np.bool_)
    return np.array([text.isdecimal() and len(text) < 16 for text in texts], dtype=np.bool_)


def _is_step(text: str) -> bool:
    """Tell whether an id such as ``7.batch`` is that of a step; ``7_[1-3,...]`` are tasks of a long array."""
    before, _, tasks = text.partition("[")
    return "." in before or "." in tasks.partition("]")[2]


def is_sacct(first_line: str) -> bool:
    """Tell whether a file begins as what ``sacct -P`` prints."""
    return _delimiter(first_line) is not None


def _delimiter(header: str) -> str | None:
    header = header.replace('"', "")
    found = re.search(r"(?:^|[^A-Za-z])JobID(?:Raw)?([|,;\t^~#@!%&*\n])", f"{header.strip()}\n", re.IGNORECASE)
    if found is None:
        return None
    if found[1] != "\n":
        return found[1]
    before = re.search(r"([|,;\t^~#@!%&*])JobID(?:Raw)?$", header.strip(), re.IGNORECASE)
    return before[1] if before else None


def read_sacct(path: Path, clock: Clock, *, has_lines: bool = False) -> Dump:
    """Read the output of ``sacct -P``, in pieces.

    Parameters
    ----------
    path
        The file, packed by gzip or not.
    has_lines
        True to keep the programs that submit lines run.

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
        table = _Table(path, header.replace('"', "").split(delimiter), clock, number, has_lines=has_lines)
        while lines := text.readlines(_CHUNK_CHARACTERS):
            table.add([line.rstrip("\r\n") for line in lines], delimiter)
    return table.dump()


class _Table:
    """The columns of one file, filled piece by piece."""

    def __init__(self, path: Path, header: Sequence[str], clock: Clock, line: int, *, has_lines: bool) -> None:
        known = {name.lower(): name for name in COLUMNS}
        self._positions: dict[str, int] = {}
        others = []
        for position, title in enumerate(header):
            name = known.get(title.strip().lower())
            if name is None:
                others += [title.strip()] if title.strip() else []
            else:
                self._positions.setdefault(name, position)
        self._path = path
        self._n_columns = len(header)
        self._clock = clock
        self._has_lines = has_lines
        self._names = new_names()
        self._states = Parsed(state_of, AttemptState.DONE)
        self._parsed: dict[str, Parsed] = {}
        self._pieces: list[NDArray[np.void]] = []
        self._n_rows = 0
        self._skipped: Counter[str] = Counter()
        self._n_cut = 0
        self._unreadable: dict[str, tuple[int, str]] = {}
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
            if not any(name in self._positions for name in names):
                near = suggest(names[0], self._positions) if self._positions else ""
                raise ReadError(path, f"has no column {' or '.join(names)} ({near}); export it by {EXPORT}", line=line)

    def add(self, lines: list[str], delimiter: str) -> None:
        """Take some lines of the file."""
        lines = [line for line in lines if line]
        self._n_rows += len(lines)
        if delimiter in _OF_SPREADSHEETS and any('"' in line for line in lines):
            lines, delimiter = self._unquoted(lines, delimiter), _OF_UNQUOTED
        has_more = {line.count(delimiter) for line in lines} - {self._n_columns - 1}
        if has_more:
            lines = [whole for line in lines if (whole := self._whole(line, delimiter)) is not None]
        id_column = self._positions.get("JobID", self._positions.get("JobIDRaw", 0))
        fields = delimiter.join(lines).split(delimiter)
        if "." in "".join(fields[id_column :: self._n_columns]):
            texts = [line.split(delimiter, id_column + 1)[id_column] for line in lines]
            jobs = [line for line, text in zip(lines, texts, strict=True) if not _is_step(text)]
            self._count(STEPS, len(lines) - len(jobs))
            self._n_cut += sum("..." in text for text in texts)
            lines, fields = jobs, delimiter.join(jobs).split(delimiter)
        texts = [text.strip() for text in fields[id_column :: self._n_columns]] if lines else []
        ids, is_id = _ids(texts)
        if not np.all(is_id):
            self._count(NO_ID, int(np.count_nonzero(~is_id)))
            lines, ids = list(itertools.compress(lines, is_id.tolist())), ids[is_id]
            fields = delimiter.join(lines).split(delimiter)
        if lines:
            columns = {name: fields[position :: self._n_columns] for name, position in self._positions.items()}
            if has_more and "SubmitLine" in columns:
                columns["SubmitLine"] = [text.replace(_IN_LAST, delimiter) for text in columns["SubmitLine"]]
            self._pieces.append(self._records(ids, columns))

    def _count(self, reason: str, n_rows: int) -> None:
        if n_rows:
            self._skipped[reason] += n_rows

    def _whole(self, line: str, delimiter: str) -> str | None:
        """Return a line with a field for each column; the last column may hold the delimiter itself."""
        n_missing = self._n_columns - 1 - line.count(delimiter)
        if n_missing == 0:
            return line
        if n_missing < 0 and self._positions.get("SubmitLine") == self._n_columns - 1:
            *first, last = line.split(delimiter, self._n_columns - 1)
            return delimiter.join([*first, last.replace(delimiter, _IN_LAST)])
        self._skipped[BROKEN] += 1
        return None

    def _unquoted(self, lines: list[str], delimiter: str) -> list[str]:
        """Return the rows of a spreadsheet, whose fields may be quoted, with another delimiter."""
        rows = csv.reader(lines, delimiter=delimiter)
        try:
            return [_OF_UNQUOTED.join(row) for row in rows]
        except csv.Error as error:
            raise ReadError(self._path, f"is not a table in CSV: {error}") from None

    def _records(self, ids: NDArray[np.void], columns: Mapping[str, list[str]]) -> NDArray[np.void]:
        records = unknown_records(len(ids))
        for field in _ID_DTYPE.names or ():
            records[field] = ids[field]
        if "JobIDRaw" in columns:
            records["number"] = self._job_numbers(columns["JobIDRaw"])
        for field, column in _NAMES.items():
            if column in columns:
                records[field] = self._names[field].numbers(columns[column], len(ids))
        for field, column in _DATES.items():
            if column in columns:
                records[field], is_bad = self._clock.seconds(columns[column])
                self._note_unreadable(column, is_bad, columns[column])
        self._clock.put_in_order([records[field] for field in _DATES])
        records["state"] = AttemptState.DONE
        if "State" in columns:
            records["state"] = self._states.values_of(columns["State"])
        records["limit_s"] = self._first(columns, {"TimelimitRaw": minutes_s, "Timelimit": duration_s})
        records["run_s"] = self._first(columns, {"ElapsedRaw": duration_s, "Elapsed": duration_s})
        self._sizes(records, columns)
        # Slurm before 21.08 says the date of the cancellation instead of none.
        never = (records["state"] == AttemptState.CANCELLED) & (records["run_s"] == 0)
        if "NodeList" in columns and np.any(never):
            records["start_s"][never & np.isin(columns["NodeList"], ("None assigned", "(null)"))] = np.nan
        if "SubmitLine" in columns:
            self._store_requests(records, columns["SubmitLine"])
        return records

    def _job_numbers(self, texts: Sequence[str]) -> NDArray[np.int64]:
        """Return the numbers of jobs: each is there once, so that none is worth remembering."""
        if np.all(_are_numbers(texts)):
            return np.fromiter(map(int, texts), np.int64, len(texts))
        return integers(self._numbers("JobIDRaw", float_of, texts))

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
            },
        )
        # Jobs that wait have 0 nodes.
        if not np.all(nodes > 0):
            wanted = self._first(columns, {"ReqNodes": _amount, "ReqTRES": lambda text: resource(text, "node")})
            nodes = np.where(nodes > 0, nodes, wanted)
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
            kind = self._numbers("ReqMem", _memory_kind, columns["ReqMem"])
            per_node = amount * np.where(nodes > 0, nodes, 1.0) / counts
            records["memory_kb"] = np.where(kind == 1, amount, np.where(kind == 2, per_node, amount / counts))

    def _store_requests(self, records: NDArray[np.void], lines: Sequence[str]) -> None:
        """Store the requests of jobs beyond those in the other columns."""
        numbers, requests_column = self._names["requests"], np.full(len(lines), UNKNOWN, dtype=np.int32)
        if np.any(records["component"] > 0):
            lines = list(map(component_line, lines, records["component"].tolist()))
        for position, options in enumerate(map(options_of, lines)):
            text, after, problems = _requests_in(options)
            if problems:
                self._not_understood.update(problems)
            if text:
                requests_column[position] = numbers[text]
            if after is not None:
                records["after"][position], records["after_task"][position] = after
        records["requests"] = requests_column
        if self._has_lines:
            records["submit_line"] = self._names["submit_line"].numbers(map(program_of, lines), len(lines))

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

    def _note_unreadable(self, column: str, is_bad: NDArray[np.bool_], texts: Sequence[str]) -> None:
        n_values = int(np.count_nonzero(is_bad))
        if n_values:
            n_before, example = self._unreadable.get(column, (0, texts[int(np.argmax(is_bad))]))
            self._unreadable[column] = (n_before + n_values, example)

    def dump(self) -> Dump:
        """Return the dump of all rows."""
        records = np.concatenate(self._pieces) if self._pieces else unknown_records(0)
        notes = list(self._notes)
        notes += [
            f"{n:,} unreadable values of {column} count as unknown, such as {quoted(example)}"
            for column, (n, example) in self._unreadable.items()
        ]
        if self._n_cut:
            notes.append(
                f"the lists of waiting tasks of {self._n_cut:,} arrays are cut off by '...', so tasks are missing: "
                "export with SLURM_BITSTR_LEN=0"
            )
        notes += [f"SubmitLine: {n:,} {what}, left out" for what, n in self._not_understood.items()]
        for key, parsed in self._parsed.items():
            if parsed.faulty:
                shown = ", ".join(map(quoted, sorted(parsed.faulty)[:3]))
                notes.append(f"unreadable values of {key.split()[0]} count as unknown: {shown}")
        if self._states.faulty:
            shown = ", ".join(map(quoted, sorted(self._states.faulty)[:5]))
            notes.append(f"unknown states count as ended: {shown}")
        if "Eligible" not in self._positions:
            notes.append("no column Eligible: waits count from the submission, holds and dependencies included")
        if "TimelimitRaw" not in self._positions and "Timelimit" not in self._positions:
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
    "work_dir": "WorkDir",
}
_DATES = {"submit_s": "Submit", "eligible_s": "Eligible", "start_s": "Start", "end_s": "End"}


def _amount(text: str) -> float:
    """Return a count, such as ``8`` or ``8K``."""
    scale = {"K": 1024.0, "M": 1024.0**2}.get(text[-1:], 1.0)
    return float_of(text[:-1] if scale > 1 else text) * scale


def _memory_kind(text: str) -> float:
    """Return 1 for memory of a core, 2 for that of a node, else 0."""
    return {"c": 1.0, "n": 2.0}.get(text[-1:], 0.0)


def state_of(text: str) -> float:
    """Return the `AttemptState` of a word such as ``CANCELLED by 1000`` or ``COMPLETED+``.

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
    """Return the number of waiting tasks in ``4-9%2``; tasks cut off by ``...`` are not counted."""
    ranges = text.partition("%")[0].removesuffix("...").rstrip(",")
    try:
        return max(1, min(n_of_ranges(ranges), 2**31 - 1))
    except ValueError:
        return 1
