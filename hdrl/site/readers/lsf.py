"""LSF's ``lsb.acct``: a record for each job that ended."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from hdrl.base.errors import ReadError
from hdrl.base.files import open_bytes
from hdrl.base.textnumbers import int_of
from hdrl.site.readers.rows import UNREADABLE, Attempt, Attempts
from hdrl.site.records import AttemptState, Dump

_DONE = 64
"""Bit of the status of a job that ended well."""
_N_RUSAGE = 19
OTHER_RECORDS = "records of other kinds than JOB_FINISH"


def is_lsf(first_line: str) -> bool:
    """Tell whether a file begins as ``lsb.acct``."""
    return first_line.startswith(('"JOB_FINISH"', '"EVENT_ADRSV_FINISH"', '"JOB_RESIZE"', '"JOB_STARTLIMIT"'))


def read_lsf(path: Path) -> Dump:
    """Read ``lsb.acct`` of any version: what its records have in common, up to the project.

    Raises
    ------
    ReadError
        If it is no such table.
    """
    found = Attempts("lsf")
    with open_bytes(path) as stream:
        text = io.TextIOWrapper(stream, encoding="utf-8-sig", errors="replace", newline="")
        rows = csv.reader(text, delimiter=" ", quotechar='"', doublequote=True, skipinitialspace=True)
        try:
            for row in rows:
                if not row:
                    continue
                with found.row() as attempt:
                    if row[0] != "JOB_FINISH":
                        attempt.skip(OTHER_RECORDS)
                    elif len(row) < 30:
                        attempt.skip(UNREADABLE)
                    else:
                        _finish(row, attempt)
        except csv.Error as error:
            raise ReadError(path, f"is not a table of words: {error}", line=rows.line_num) from None
    found.notes.append("lsb.acct has no limits in a field common to all versions: requested times are run times")
    return found.dump()


def _finish(row: Sequence[str], attempt: Attempt) -> None:
    """Read the fields of a JOB_FINISH record; the lists of hosts shift what follows them."""
    event_s, job = int_of(row[2]), int_of(row[3])
    n_requested, submit_s, begin_s, start_s = (int_of(row[position]) for position in (6, 7, 8, 10))
    n_requested = int_of(row[22])
    position = 23 + n_requested
    n_hosts = int_of(row[position])
    hosts = row[position + 1 : position + 1 + n_hosts]
    if n_requested < 0 or n_hosts < 0 or len(hosts) < n_hosts:
        raise ValueError("lists of hosts are cut off")
    position += 1 + n_hosts
    status, _, name, _ = row[position : position + 4]
    position += 4 + _N_RUSAGE
    attempt["job"], attempt["submit_s"] = job, submit_s
    attempt["eligible_s"] = max(submit_s, begin_s)
    attempt["start_s"] = start_s if start_s > 0 else np.nan
    attempt["end_s"] = event_s
    counts = _slots(hosts)
    attempt["cores"] = sum(counts.values()) or n_requested
    attempt["requested_cores"] = n_requested
    attempt["nodes"] = len(counts)
    attempt["gpus"] = 0
    code = int_of(status)
    attempt["state"] = (
        AttemptState.DONE if code & _DONE else AttemptState.FAILED if start_s > 0 else AttemptState.CANCELLED
    )
    attempt.name("user", row[11])
    attempt.name("partition", row[12])
    attempt.name("name", name)
    attempt.name("node_list", ",".join(sorted(counts)))
    if len(row) > position + 6:
        attempt.name("account", row[position + 1])  # project, after the mail user
        index = int_of(row[position + 6])
        attempt["task"] = index if index > 0 else -1


def _slots(hosts: Sequence[str]) -> Counter[str]:
    """Return the slots on each host: named once for each, or as ``4*host``."""
    counts: Counter[str] = Counter()
    for host in hosts:
        number, star, name = host.partition("*")
        if star and number.isascii() and number.isdigit() and len(number) < 9:
            counts[name] += int(number)
        else:
            counts[host] += 1
    return counts
