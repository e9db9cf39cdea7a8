"""The jobs of a site as a log in the Standard Workload Format, with a table of the names behind its numbers."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hdrl.base.errors import OptionsError, ReadError
from hdrl.batch import SwfLog, unknown_rows
from hdrl.settings.batch.site_rules.columns import HEADER_KEY, SiteColumns
from hdrl.settings.batch.site_rules.conf import SiteConf
from hdrl.site.folder import COLUMNS
from hdrl.site.joining import JoinedJobs
from hdrl.site.log_requests import LogRequests, requests_of_log
from hdrl.site.machine import n_cores
from hdrl.site.records import UNKNOWN, AttemptState, Dump, Names
from hdrl.site.submitline import without_numbers

FloatArray = NDArray[np.float64]

FIELDS = {"user": "user", "account": "group", "name": "executable", "qos": "queue", "partition": "partition"}
"""Columns of records and the fields of the log that hold their numbers."""

SECRET = ("user", "account", "name")
"""Names that `--anonymize` hashes."""

NEVER_WRITTEN = ("work_dir", "submit_line")
"""Names that are hashed in any case."""

_STATUS = {
    AttemptState.DONE: 1,
    AttemptState.FAILED: 0,
    AttemptState.CANCELLED: 5,
    AttemptState.TIMEOUT: 0,
    AttemptState.STOPPED: 0,
    AttemptState.RUNNING: -1,
}

UNLIMITED_S = 365 * 86400.0
"""Time limit in seconds that Slurm assumes for a job without one."""

_LEAST_KEY_BYTES = 16


def read_key(path: Path) -> bytes:
    """Return the key that names are hashed with.

    Raises
    ------
    ReadError
        If the file cannot be read.
    OptionsError
        If it is too short to be a key.
    """
    try:
        key = path.read_bytes() if path.is_file() else None
    except OSError as error:
        raise ReadError(path, f"cannot be read ({error.strerror})") from None
    if key is None:
        raise ReadError(path, "no such file; make a key by 'head -c 32 /dev/urandom > KEY_FILE'")
    if len(key) < _LEAST_KEY_BYTES:
        raise OptionsError(f"{path}: holds {len(key)} bytes, expected a key of at least {_LEAST_KEY_BYTES}")
    return key


@dataclass(frozen=True, slots=True)
class SiteLog:
    """A log and the meaning of its numbers."""

    log: SwfLog  # the log: a row for each job, in the order of eligibility
    names: dict[str, list[str]]  # the names behind the numbers of each field, by position
    first_s: float  # the date that is 0 in the log, in seconds since 1970
    start_s: FloatArray  # date of each job's start, in seconds of the log
    # jobs without a limit, and of which no request is known
    n_without_limit: int
    n_without_request: int
    notes: tuple[str, ...]  # changes made, a sentence each
    requests: LogRequests | None = None  # further requests of jobs to the site; ``None`` where the site says no rules


def log_of(
    dump: Dump,
    jobs: JoinedJobs,
    conf: SiteConf,
    name: str,
    zone: str,
    key: bytes | None,
    *,
    similar: Sequence[str] = (),
    has_rules: bool = False,
    by_dependencies: bool = False,
) -> SiteLog:
    """Return the log of the jobs of a site.

    The submission date of the log is the date from which a job could start (Slurm's Eligible): waits count from there.

    Parameters
    ----------
    key
        Key that secret names are hashed with; ``None``: they stay.
    similar
        Columns of `records.SIMILAR_COLUMNS` that jobs must have in common to get one number as their executable; none:
        their names as they are.
    has_rules
        True if the site has rules, for which columns stand beside the log.
    by_dependencies
        True if jobs are submitted when they were, and wait for what they waited for, instead of at the date from which
        they could start.
    """
    records = jobs.records
    submit_s = records["submit_s" if by_dependencies else "eligible_s"]
    first_s = float(np.floor(np.min(submit_s))) if jobs.n_jobs else 0.0
    rows = unknown_rows(jobs.n_jobs)
    numbers, notes = _numbers(jobs, is_secret=key is not None)
    rows["job_number"] = numbers
    rows["submit_s"] = submit_s - first_s
    rows["wait_s"] = records["start_s"] - submit_s
    rows["run_s"] = records["run_s"]
    rows["processors"] = rows["requested_processors"] = records["cores"]
    limits, n_without_limit = _limits(dump, jobs, conf)
    rows["requested_s"] = limits
    if conf.counts_memory:
        rows["requested_memory_kb"] = np.where(records["memory_kb"] > 0, records["memory_kb"], UNKNOWN)
    status = np.full(max(AttemptState) + 1, -1)
    for state, number in _STATUS.items():
        status[state] = number
    rows["status"] = status[records["state"]]
    names = {}
    for column, field in FIELDS.items():
        used, rows[field] = _renumbered(records[column])
        texts = dump.names[column].texts()
        found = [texts[number] for number in used.tolist()]
        names[field] = found if key is None or column not in SECRET else [hashed(key, column, one) for one in found]
    if similar:
        rows["executable"], names["executable"] = _groups(dump, records, similar, key)
        notes.append(f"field 14 of the log numbers {len(names['executable']):,} groups of equal {', '.join(similar)}")
    _preceding(rows, jobs, numbers)
    header = {
        "Version": "2.2",
        "Computer": conf.name or "unknown",
        "UnixStartTime": str(int(first_s)),
        "TimeZoneString": zone,
        "MaxJobs": str(jobs.n_jobs),
        "MaxRecords": str(jobs.n_jobs),
        "MaxProcs": str(n_cores(conf)),
        "MaxNodes": str(sum(one.count for one in conf.nodes)),
        "Note": "Submission dates are the dates from which jobs could start (eligible).",
    }
    if by_dependencies:
        header["Note"] = "Submission dates are those of the accounting; waits hold those for other jobs and for dates."
    for field in ("queue", "partition"):
        if names[field]:
            header[field.title()] = "\n".join(f"{number} {text}" for number, text in enumerate(names[field]))
    requests = None
    if has_rules:
        accounts, users = (
            [one if key is None else hashed(key, kind, one) for one in dump.names[kind].texts()]
            for kind in ("account", "user")
        )
        requests = requests_of_log(dump, jobs, conf, numbers, first_s, accounts, users, by_dependencies=by_dependencies)
    columns = None
    if requests is not None and requests.rows:
        header[HEADER_KEY] = COLUMNS
        columns = SiteColumns(Path(COLUMNS), tuple(enumerate(requests.rows, start=2)))
    return SiteLog(
        SwfLog(name, rows, header, columns=columns),
        names,
        first_s,
        records["start_s"] - first_s,
        n_without_limit,
        int(np.count_nonzero(rows["requested_s"] < 0)),
        tuple(notes),
        requests,
    )


def _numbers(jobs: JoinedJobs, *, is_secret: bool) -> tuple[FloatArray, list[str]]:
    """Return a number for each job: its number in the accounting data if no two share one."""
    own = np.where(jobs.records["number"] >= 0, jobs.records["number"], jobs.records["job"])
    ascending = np.sort(own)
    if not is_secret and np.all(ascending[1:] > ascending[:-1]) and np.all((own >= 0) & (own < 2**53)):
        return own.astype(np.float64), []
    numbers = np.arange(1, jobs.n_jobs + 1, dtype=np.float64)
    return numbers, ["jobs are numbered from 1 in the order of eligibility"]


def longest_times(records: NDArray[np.void], dump: Dump, conf: SiteConf) -> FloatArray:
    """Return the longest time of jobs in the partitions of each job in seconds; infinite: no limit, NaN: unknown."""
    texts = dump.names["partition"].texts()
    # No name, and with it the number -1, has no limit of its own.
    most = np.full(len(texts) + 1, np.nan)
    for number, text in enumerate(texts):
        known = [conf.partitions[one] for one in text.split(",") if one in conf.partitions]
        most[number] = max((np.inf if one.max_time_s is None else one.max_time_s for one in known), default=np.nan)
    return np.asarray(most[records["partition"]], dtype=np.float64)


def limits_of(records: NDArray[np.void], dump: Dump, conf: SiteConf) -> FloatArray:
    """Return the time limits of jobs, where they have none that of their partition; infinite: none, NaN: unknown."""
    limits = np.array(records["limit_s"])
    of_partition = longest_times(records, dump, conf)
    if np.all(np.isnan(limits)):  # the accounting has none: no limit stands for the request of a job
        of_partition[np.isinf(of_partition)] = np.nan
    return np.where(np.isfinite(limits), limits, np.where(np.isnan(of_partition), limits, of_partition))


def _limits(dump: Dump, jobs: JoinedJobs, conf: SiteConf) -> tuple[FloatArray, int]:
    """Return the requested times: a year where neither jobs nor their partitions have a limit."""
    limits = limits_of(jobs.records, dump, conf)
    is_endless = np.isinf(limits)
    limits[is_endless] = UNLIMITED_S
    return np.where(limits > 0, limits, float(UNKNOWN)), int(np.count_nonzero(is_endless))


def _renumbered(numbers: NDArray[np.int32]) -> tuple[NDArray[np.int32], FloatArray]:
    """Return the numbers that are used, and each job's position among them."""
    is_used = np.bincount(numbers + 1) > 0  # small numbers, from -1 on: no sort is needed
    used, position = np.flatnonzero(is_used).astype(np.int32) - 1, (np.cumsum(is_used) - 1)[numbers + 1]
    if len(used) and used[0] == UNKNOWN:
        return used[1:], position.astype(np.float64) - 1
    return used, position.astype(np.float64)


def _groups(
    dump: Dump, records: NDArray[np.void], similar: Sequence[str], key: bytes | None
) -> tuple[FloatArray, list[str]]:
    """Return the group of each job, equal in some columns up to numbers in names, and what the groups are called."""
    columns, shown = [], []
    for column in similar:
        found = Names()
        texts = dump.names[column].texts()
        texts = texts if column == "account" else list(map(without_numbers, texts))
        # No text has the number -1, the last place.
        of_name = np.array([*(found[text] for text in texts), UNKNOWN], dtype=np.int32)
        columns.append(of_name[records[column]])
        is_hidden = key is not None or column in NEVER_WRITTEN
        shown.append([*(hashed(key or b"", column, one) if is_hidden else one for one in found), ""])
    groups, position = np.unique(np.stack(columns, axis=1), axis=0, return_inverse=True)
    is_known = (groups != UNKNOWN).any(axis=1)
    # What is unknown in every column sorts first, and is no group.
    called = [" ".join(texts[number] for texts, number in zip(shown, row, strict=True)) for row in groups[is_known]]
    return position.reshape(-1).astype(np.float64) - np.count_nonzero(~is_known), called


def _preceding(rows: NDArray[np.void], jobs: JoinedJobs, numbers: FloatArray) -> None:
    """Fill in fields 17 and 18: the job that one waited for, and how long after its end it could start."""
    records = jobs.records
    waiting = np.flatnonzero(records["after"] >= 0)
    if len(waiting) == 0:
        return
    row_of: Mapping[tuple[int, int], int] = {
        (job, task): position
        for position, (job, task, component) in enumerate(
            zip(*(records[name].tolist() for name in ("job", "task", "component")), strict=True)
        )
        if component <= 0  # the first stands for a het job
    }
    for position in waiting.tolist():
        other = row_of.get((int(records["after"][position]), int(records["after_task"][position])))
        if other is not None and other != position:
            rows["preceding_job"][position] = numbers[other]
            think_s = records["think_s"][position]
            if np.isnan(think_s):
                think_s = max(
                    records["eligible_s"][position] - records["start_s"][other] - records["run_s"][other], 0.0
                )
            rows["think_s"][position] = think_s


def hashed(key: bytes, kind: str, text: str) -> str:
    """Return the substitute of a secret name: a keyed hash (HMAC-SHA-256).

    Parameters
    ----------
    kind
        Column of the name: the same text is another name in another column.
    """
    return hmac.new(key, f"{kind}\0{text}".encode(), hashlib.sha256).hexdigest()[:16]
