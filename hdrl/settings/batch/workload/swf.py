"""The Standard Workload Format (SWF): reading and writing its files.

The format: https://www.cs.huji.ac.il/labs/parallel/workload/swf.html (18 fields per job, -1 for what is
unknown, comments after ``;``, the first of which are ``Key: value`` directives).
"""

from __future__ import annotations

import hashlib
import io
import itertools
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray

from hdrl.base.errors import OptionsError, ReadError
from hdrl.base.files import atomic_write, open_bytes
from hdrl.base.hashing import sha256_of_file
from hdrl.base.textnumbers import float_of
from hdrl.settings.batch.site_rules.columns import SiteColumns, find_columns
from hdrl.settings.batch.workload.build import MAX_VALUE

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

NAME_FIELDS = ("user", "group", "executable", "queue", "partition")
"""Fields whose numbers are names: they are not computed with, and some logs hold hashes of many digits there."""

UNKNOWN_VALUE = -1.0
_LARGEST_EXACT = 2.0**53
"""Up to here floats tell whole numbers from one another."""
_ROWS_AT_ONCE = 50_000
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
        Origin of the log; goes into the provenance of a workload.
    columns
        Requests of jobs to a site (`site_rules.columns`), from the file that the header names; ``None``: it names none.
    """

    name: str
    rows: NDArray[np.void]
    header: dict[str, str] = field(default_factory=dict)
    origin: dict[str, object] = field(default_factory=dict)
    columns: SiteColumns | None = None

    @property
    def n_rows(self) -> int:
        """Number of lines that describe a job."""
        return len(self.rows)

    @property
    def first_date_s(self) -> float:
        """Date 0 of the log in seconds since 1970; 0 where its header does not say it."""
        word = self.header.get("UnixStartTime", "").split()[:1]
        return float(word[0]) if word and word[0].isascii() and word[0].isdigit() and len(word[0]) < 12 else 0.0

    def titles(self, field: str) -> dict[int, str]:
        """Return the names of queues and partitions in the header: ``; Queue: 1 batch``.

        Parameters
        ----------
        field
            ``"queue"`` or ``"partition"``.
        """
        lines = self.header.get(field.title(), "").split("\n")
        found = [re.match(r"(\d{1,9})[\s:,]+(\S+)", line) for line in lines]
        return {int(one[1]): one[2] for one in found if one is not None}

    @property
    def n_dependent(self) -> int:
        """Number of jobs that name a job before them (fields 17 and 18)."""
        return int(np.count_nonzero(self.rows["preceding_job"] > 0))

    def dependencies(self, *, think_times: bool = False, has_rules: bool = False) -> str:
        """Return a sentence about the treatment of jobs that name a preceding job; empty if there are none.

        Parameters
        ----------
        think_times
            True if the think times of all of them are simulated.
        has_rules
            True if the machine has the rules of a site, so that the columns beside the log count.
        """
        waiting = [cells for _, cells in self.columns.rows if "dependencies" in cells] if self.columns else []
        n_following = sum("think_s" in cells for cells in waiting if has_rules)
        if think_times:
            n_following = int(np.count_nonzero((self.rows["preceding_job"] > 0) & (self.rows["think_s"] >= 0)))
        if n_following:
            return (
                f"{n_following:,} of {self.n_rows:,} jobs are submitted after the end of another one and a think time "
                "(fields 17 and 18): where a policy ends jobs earlier it also gets the next ones earlier, so the waits "
                "of policies are not those of the same submissions"
            )
        if self.n_dependent == 0 or (waiting and has_rules):
            return ""
        return (
            f"{self.n_dependent:,} of {self.n_rows:,} jobs name a preceding job and a think time (fields 17 and 18), "
            "which are ignored: every job is submitted at the date that the log says (--set workload.think_times=true "
            "simulates them)"
        )


def unknown_rows(n_rows: int) -> NDArray[np.void]:
    """Return lines that tell nothing, array of `SWF_DTYPE`."""
    rows = np.zeros(n_rows, dtype=SWF_DTYPE)
    for name in SWF_FIELDS:
        rows[name] = UNKNOWN_VALUE
    return rows


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
    (the others are ignored), a name that ends in ``.gz``. Names (`NAME_FIELDS`) may be of any length: those above 2**53
    get numbers just below it, a number for each name.

    Parameters
    ----------
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
    _shorten_names(path, rows)
    name = path.name.removesuffix(".gz").removesuffix(".swf")
    columns = find_columns(path, lines.header)
    origin: dict[str, object] = {"file": path.name, "sha256": digest}
    if columns is not None:
        origin["columns_sha256"] = sha256_of_file(columns.path)
    return SwfLog(name, rows, lines.header, origin, columns)


def _table(path: Path, lines: _Lines, max_rows: int | None) -> FloatArray:
    iterator = iter(lines)
    first = next(iterator, None)
    if first is None:
        raise ReadError(path, "holds no job, expected lines of 18 numbers")
    try:
        table: FloatArray = np.loadtxt(
            itertools.chain([first], iterator),
            comments=";",
            usecols=range(len(SWF_FIELDS)),
            ndmin=2,
            max_rows=max_rows,
            dtype=np.float64,
        )
    except ValueError as error:
        raise ReadError(path, _describe_line_error(lines.line, error), line=lines.number) from None
    if not np.all(np.isfinite(table)):
        row, column = np.argwhere(~np.isfinite(table))[0]
        raise ReadError(path, f"job {row + 1}: {SWF_FIELDS[column]} is {table[row, column]}, expected a finite number")
    numbers = [position for position, name in enumerate(SWF_FIELDS) if name not in NAME_FIELDS]
    if np.any(np.abs(table[:, numbers]) > MAX_VALUE):
        row, position = np.argwhere(np.abs(table[:, numbers]) > MAX_VALUE)[0]
        column = numbers[position]
        found = f"{SWF_FIELDS[column]} is {table[row, column]:g}"
        raise ReadError(path, f"job {row + 1}: {found}, expected a number between {-MAX_VALUE:g} and {MAX_VALUE:g}")
    return table


def _shorten_names(path: Path, rows: NDArray[np.void]) -> None:
    """Replace names that floats cannot tell apart, which are read again as text."""
    fields = [name for name in NAME_FIELDS if np.any(np.abs(rows[name]) > _LARGEST_EXACT)]
    if not fields:
        return
    with open_bytes(path) as stream:
        words = _Lines(io.TextIOWrapper(stream, encoding="utf-8-sig", errors="replace"))
        texts = [
            [line.split()[SWF_FIELDS.index(name)] for name in fields] for line, _ in zip(words, rows, strict=False)
        ]
    for position, name in enumerate(fields):
        is_long = np.flatnonzero(np.abs(rows[name]) > _LARGEST_EXACT)
        numbers: dict[str, float] = {}
        for row in is_long.tolist():
            text = texts[row][position]
            rows[name][row] = numbers.setdefault(text, _LARGEST_EXACT - 1 - len(numbers))


def _describe_line_error(line: str, error: ValueError) -> str:
    words = line.partition(";")[0].split()
    if len(words) < len(SWF_FIELDS):
        return f"{len(words)} fields, expected {len(SWF_FIELDS)}"
    for name, word in zip(SWF_FIELDS, words, strict=False):
        try:
            float_of(word)
        except ValueError:
            return f"{name} is {word[:40]!r}, expected a number"
    return f"cannot be parsed ({error})"


def write_swf(log: SwfLog, path: str | Path) -> None:
    """Write a log; whole numbers are written as such, so that a log that was read is written with the same values.

    Parameters
    ----------
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
        for first in range(0, log.n_rows, _ROWS_AT_ONCE):
            out.writelines(_lines_of(log.rows[first : first + _ROWS_AT_ONCE]))


def _lines_of(rows: NDArray[np.void]) -> Iterable[str]:
    """Return the lines of jobs; one format fills them all, with what all of them share in it."""
    words, columns = [], []
    for name in SWF_FIELDS:
        values = _printable(rows[name])
        is_shared = bool(np.all(rows[name] == rows[name][0]))
        words.append(str(values[0]) if is_shared else "%s")
        columns += [] if is_shared else [values]
    line = f"{' '.join(words)}\n"
    return map(line.__mod__, zip(*columns, strict=True)) if columns else itertools.repeat(line, len(rows))


def _printable(column: FloatArray) -> list[int] | list[str]:
    """Return numbers such that ``str`` shows whole ones as such."""
    if np.all((np.trunc(column) == column) & (np.abs(column) < 2.0**62)):
        whole: list[int] = column.astype(np.int64).tolist()
        return whole
    values, position = np.unique(column, return_inverse=True)
    texts = [str(int(value)) if value.is_integer() else repr(value) for value in values.tolist()]
    return list(map(texts.__getitem__, position.tolist()))
