"""The columns of a site beside a log: what jobs ask for that the Standard Workload Format has no field for.

A log names the file in its header (``; SiteColumns: jobs.site.csv``). It has a row per job that asks for anything, and
only the columns that some job needs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hdrl.base.csvfiles import atomic_table, csv_rows
from hdrl.base.errors import ReadError, quoted, suggest
from hdrl.base.files import read_text
from hdrl.base.textnumbers import float_of, int_of
from hdrl.settings.batch.site_rules.model import (
    DEPENDENCY_DTYPE,
    UNLIMITED,
    DependencyKind,
    SiteJobs,
    SiteRules,
    undemanding_jobs,
)

HEADER_KEY = "SiteColumns"

WHOLE_NUMBERS = ("nodes", "gpus", "nice", "array", "array_limit", "het_group", "site_factor")
DATES = ("begin_s", "held_until_s", "cancelled_s")
COLUMNS = (
    *("job", "partitions", "exclusive", "features", "account", "association", *WHOLE_NUMBERS, *DATES),
    *("dependencies", "think_s"),
)
"""All columns.

``job`` its number in the log; ``partitions`` and ``features`` names, separated by commas; ``exclusive`` 1 for whole
nodes; ``association`` ACCOUNT/USER where the site limits this user in this account; ``dependencies`` as sbatch takes
them (``afterok:12:13,after:7+5``), with numbers of the log, and ``singleton:7`` with the last job that it waits for;
dates in the clock of the log; all else as `model.SITE_JOB_DTYPE` says. Jobs with the same ``het_group``, any number,
are the components of one het job; dependencies on it name its first component. ``think_s`` is field 18 of a log: the
job is submitted so long after the end of the one job that ``dependencies`` names.
"""

KINDS: Mapping[str, DependencyKind] = {
    "after": DependencyKind.AFTER,
    "afterok": DependencyKind.AFTER_OK,
    "afterany": DependencyKind.AFTER_ANY,
    "afternotok": DependencyKind.AFTER_NOT_OK,
    "aftercorr": DependencyKind.AFTER_OK,
    "singleton": DependencyKind.SINGLETON,
}
"""Kinds of dependencies as sbatch names them; ``aftercorr`` is made between tasks of the same index."""

NOT_BEFORE = "jobs whose preceding job is not before them in the log, which are submitted at the date that it says"

_LACKING = {
    "account": "jobs of an account that the site lacks, which have none",
    "association": "jobs of a user whom the site does not limit, with limits of the account",
}

MOST = 2**31 - 1
MOST_COMPONENTS = 128
"""Components of a het job that Slurm takes (MAX_HET_JOB_COMPS)."""


@dataclass(frozen=True, slots=True)
class SiteColumns:
    """A file of columns as it was read."""

    path: Path
    # line and cells of each row, by column; cells that are empty are left out
    rows: tuple[tuple[int, Mapping[str, str]], ...]

    def het_groups(self, numbers: NDArray[np.float64]) -> NDArray[np.int32]:
        """Return the het job of each job of a log, `UNLIMITED` where it is no component.

        Parameters
        ----------
        numbers
            The numbers of the jobs.

        Raises
        ------
        ReadError
            If a cell makes no sense.
        """
        groups: dict[float, int] = {}
        for line, cells in self.rows:
            try:
                if "het_group" in cells:
                    groups[_job_number(cells.get("job", ""))] = _group(cells["het_group"])
            except ValueError as error:
                raise ReadError(self.path, str(error), line=line) from None
        if not groups:
            return np.full(len(numbers), UNLIMITED, np.int32)
        return np.array([groups.get(number, UNLIMITED) for number in numbers.tolist()], dtype=np.int32)

    def of_jobs(self, numbers: Container[str]) -> SiteColumns:
        """Return the columns of some jobs, without their dependencies on others."""
        rows = []
        for line, cells in self.rows:
            if cells.get("job") not in numbers:
                continue
            known = []
            for part in filter(None, cells.get("dependencies", "").split(",")):
                kind, *others = part.split(":")
                kept = [other for other in others if other.partition("+")[0] in numbers]
                known += [":".join((kind, *kept))] if kept else []
            rows.append((line, {**cells, "dependencies": ",".join(known)}))
        return replace(self, rows=tuple(rows))


def read_columns(path: Path) -> SiteColumns:
    """Read the columns beside a log.

    Raises
    ------
    ReadError
        If it is no such table.
    """
    lines = csv_rows(path, read_text(path))
    _, header = next(lines, (1, []))
    for name in header:
        if name not in COLUMNS:
            raise ReadError(path, f"has the column {quoted(name)}; {suggest(name, COLUMNS)}", line=1)
    if "job" not in header:
        raise ReadError(path, f"has no column job, expected columns among {', '.join(COLUMNS)}", line=1)
    rows = []
    for line, cells in lines:
        if len(cells) != len(header):
            raise ReadError(path, f"has {len(cells)} cells, expected {len(header)}", line=line)
        rows.append((line, {name: cell for name, cell in zip(header, cells, strict=True) if cell}))
    return SiteColumns(path, tuple(rows))


def write_columns(path: Path, rows: list[dict[str, str]]) -> None:
    """Write columns beside a log: those that a row fills, in the order of `COLUMNS`.

    Raises
    ------
    OutputError
        If it cannot be written.
    """
    filled = {"job", *(name for row in rows for name, cell in row.items() if cell)}
    used = [name for name in COLUMNS if name in filled]
    with atomic_table(path, used) as write:
        for row in rows:
            write([row.get(name, "") for name in used])


def find_columns(log: Path, header: Mapping[str, str]) -> SiteColumns | None:
    """Read the columns that the header of a log names, ``None`` if it names none.

    Raises
    ------
    ReadError
        If the header names no file beside the log, or that cannot be read.
    """
    name = header.get(HEADER_KEY)
    if name is None:
        return None
    if Path(name).name != name or name in (".", ".."):
        raise ReadError(log, f"{HEADER_KEY} is {quoted(name)}, expected the name of a file in the same folder")
    return read_columns(log.with_name(name))


@dataclass(frozen=True, slots=True)
class LogFields:
    """Fields of the lines of a log, by job."""

    # fields 1, 12, 16 and 15, shape ``(n_jobs,)``
    numbers: NDArray[np.float64]
    users: NDArray[np.float64]
    partitions: NDArray[np.float64]
    queues: NDArray[np.float64]
    # names of partitions and QOS by their numbers
    partition_titles: Mapping[int, str]
    queue_titles: Mapping[int, str]
    # row of the job that each one follows by field 17 (-1: none; itself: none that is there), and field 18 (negative:
    # unknown, so that it is submitted at its own date and starts later)
    preceding: NDArray[np.int64]
    think_s: NDArray[np.float64]
    columns: SiteColumns | None  # the columns in the file beside the log
    origin_s: float  # date 0 of the log in seconds since 1970


def site_jobs(fields: LogFields, rules: SiteRules) -> tuple[SiteJobs, dict[str, int]]:
    """Return the requests of the jobs of a log to a site, and the number of jobs that name what it lacks, by reason.

    Jobs of a partition that the site lacks go to its default one.

    Raises
    ------
    ReadError
        If a cell of the columns makes no sense, or names a job that is not in the log.
    """
    jobs = undemanding_jobs(len(fields.numbers))
    lacking = {}
    position, n_lacking = _named(fields.partitions, fields.partition_titles, rules.partition_names)
    jobs["partitions"] = np.where(
        position >= 0, np.uint64(1) << np.maximum(position, 0).astype(np.uint64), np.uint64(0)
    )
    if n_lacking:
        lacking["jobs of partitions that the site lacks, which go to its default one"] = n_lacking
    if len(rules.qos_names):
        jobs["qos"], n_lacking = _named(fields.queues, fields.queue_titles, rules.qos_names)
        if n_lacking:
            lacking["jobs of a QOS that the site lacks, which have none"] = n_lacking
    jobs["user"] = np.clip(fields.users, -1, MOST)
    dependencies: list[tuple[int, int, int, float]] = []
    if fields.columns is not None:
        filling = _Filling(fields, rules, jobs)
        dependencies = filling.fill(fields.columns)
        lacking.update(filling.lacking)
        _check_het_jobs(fields.columns.path, jobs, fields.numbers)
    following = [one for one in dependencies if one[2] == DependencyKind.THINK]
    following += _of_fields(fields, {job for job, *_ in dependencies})
    known = [one for one in following if one[1] < one[0]]
    if len(known) < len(following):
        lacking[NOT_BEFORE] = len(following) - len(known)
    known += [one for one in dependencies if one[2] != DependencyKind.THINK]
    table = np.array(sorted(known), dtype=DEPENDENCY_DTYPE)
    return SiteJobs(jobs=jobs, dependencies=table, origin_s=fields.origin_s), lacking


def _of_fields(fields: LogFields, known: set[int]) -> Iterator[tuple[int, int, int, float]]:
    """Yield the dependencies by fields 17 and 18 of jobs whose columns name none."""
    chosen = np.flatnonzero(fields.preceding >= 0)
    for job, on, think_s in zip(
        chosen.tolist(), fields.preceding[chosen].tolist(), fields.think_s[chosen].tolist(), strict=True
    ):
        if job not in known:
            yield job, on, DependencyKind.AFTER_ANY if think_s < 0 else DependencyKind.THINK, max(think_s, 0.0)


def _check_het_jobs(path: Path, jobs: NDArray[np.void], numbers: NDArray[np.float64]) -> None:
    in_both = np.flatnonzero((jobs["het_group"] >= 0) & (jobs["array"] >= 0))
    if len(in_both):
        number = int(numbers[in_both[0]])
        raise ReadError(path, f"has job {number} in an array and in a het job, expected one of them")
    groups, counts = np.unique(jobs["het_group"][jobs["het_group"] >= 0], return_counts=True)
    if np.any(counts > MOST_COMPONENTS):
        group, count = groups[np.argmax(counts)], counts.max()
        raise ReadError(path, f"has {count:,} jobs with het_group {group}, expected at most {MOST_COMPONENTS}")


def _named(
    numbers: NDArray[np.float64], titles: Mapping[int, str], names: tuple[str, ...]
) -> tuple[NDArray[np.int64], int]:
    """Return the position of each job's name among those of the site, -1 if there is none, and how many lack one."""
    found = np.full(len(numbers), -1, dtype=np.int64)
    n_lacking = 0
    for number, title in titles.items():
        chosen = numbers == number
        if title in names:
            found[chosen] = names.index(title)
        else:
            n_lacking += int(np.count_nonzero(chosen))
    return found, n_lacking


class _Filling:
    """Puts the cells of columns into the table of jobs."""

    def __init__(self, fields: LogFields, rules: SiteRules, jobs: NDArray[np.void]) -> None:
        self.lacking: Counter[str] = Counter()
        """Number of cells that name what the site lacks, by reason."""
        self._jobs = jobs
        self._rules = rules
        numbers = fields.numbers.tolist()
        self._positions: dict[float, int] = dict(zip(numbers, range(len(numbers)), strict=True))
        self._repeated: set[float] = set()
        if len(self._positions) < len(numbers):
            self._repeated.update(number for number, count in Counter(numbers).items() if count > 1)
        associations = {name: position for position, name in enumerate(rules.association_names)}
        self._parsers: dict[str, Callable[[str], float | int]] = {
            "partitions": lambda text: _bits(text, rules.partition_names, "partition"),
            "features": lambda text: _bits(text, rules.feature_names, "feature"),
            "account": lambda text: rules.account_names.index(text) if text in rules.account_names else -1,
            "association": lambda text: associations.get(text, -1),
            "exclusive": lambda text: int(_whole(text) != 0),
            **dict.fromkeys(WHOLE_NUMBERS, _whole),
            **dict.fromkeys(DATES, _date),
            "het_group": _group,
        }

    def fill(self, columns: SiteColumns) -> list[tuple[int, int, int, float]]:
        """Fill in all cells, and return the dependencies."""
        dependencies = []
        fields = {name: self._jobs["is_exclusive" if name == "exclusive" else name] for name in self._parsers}
        parsed: dict[tuple[str, str], float | int] = {}  # many jobs say the same
        for line, cells in columns.rows:
            try:
                position = self._place(cells.get("job", ""))
                for cell in cells.items():
                    name, text = cell
                    if name in fields:
                        value = parsed.get(cell)
                        if value is None:
                            value = parsed[cell] = self._parsers[name](text)
                        fields[name][position] = value
                if "dependencies" in cells:
                    found = list(self._dependencies(cells["dependencies"]))
                    if "think_s" in cells:
                        found = [_after_thinking(found, cells["think_s"])]
                    dependencies += [(position, *one) for one in found]
            except ValueError as error:
                raise ReadError(columns.path, str(error), line=line) from None
        for name, reason in _LACKING.items():
            unknown = {text for (column, text), value in parsed.items() if column == name and value < 0}
            if unknown:
                self.lacking[reason] = sum(cells.get(name) in unknown for _, cells in columns.rows)
        return dependencies

    def _place(self, text: str) -> int:
        number = _job_number(text)
        if number not in self._positions:
            raise ValueError(f"names job {text}, which the log does not have")
        if number in self._repeated:
            raise ValueError(f"names job {text}, which the log has more than once")
        return self._positions[number]

    def _dependencies(self, text: str) -> Iterator[tuple[int, int, float]]:
        for part in filter(None, text.split(",")):
            kind, *others = part.split(":")
            if kind not in KINDS or not others:
                raise ValueError(
                    f"dependencies has {quoted(part)}, expected for instance afterok:12; kinds: {', '.join(KINDS)}"
                )
            for other in others:
                number, _, minutes = other.partition("+")
                yield self._place(number), KINDS[kind], 60.0 * _whole(minutes) if minutes else 0.0


def _job_number(text: str) -> float:
    """Return the number of a job, which may be larger than other whole numbers: those of federations are."""
    return float(text) if text.isascii() and text.isdecimal() else float(_whole(text))


def _whole(text: str) -> int:
    try:
        number = int_of(text)
    except ValueError:
        number = MOST + 1
    if abs(number) > MOST:
        raise ValueError(f"has {quoted(text)}, expected a whole number of at most {MOST:,}")
    return number


def _after_thinking(dependencies: list[tuple[int, int, float]], text: str) -> tuple[int, int, float]:
    """Return the dependency of a job that is submitted a think time after the end of another one."""
    think_s = _date(text)
    if think_s < 0 or len(dependencies) != 1:
        raise ValueError(
            f"has the think_s {quoted(text)} and {len(dependencies)} dependencies, expected at least 0 seconds and one"
        )
    return dependencies[0][0], DependencyKind.THINK, think_s


def _group(text: str) -> int:
    number = _whole(text)
    if number < 0:
        raise ValueError(f"has the het_group {quoted(text)}, expected a whole number, at least 0")
    return number


def _date(text: str) -> float:
    try:
        number = float_of(text)
    except ValueError:
        number = np.nan
    if not np.isfinite(number):
        raise ValueError(f"has the date {quoted(text)}, expected seconds in the clock of the log")
    return number


def _bits(text: str, names: tuple[str, ...], what: str) -> int:
    bits = 0
    for word in filter(None, text.split(",")):
        if word not in names:
            raise ValueError(f"names the {what} {quoted(word)}, which the site lacks; {suggest(word, names)}")
        bits |= 1 << names.index(word)
    return bits
