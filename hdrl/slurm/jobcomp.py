"""What Slurm's ``jobcomp/filetxt`` writes: a line of words ``Key=Value`` for each job that has ended."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from hdrl.base.errors import ReadError, quoted
from hdrl.base.files import read_text
from hdrl.base.textnumbers import int_of

_WORD = re.compile(r"(?:^|\s)([A-Za-z]+)=(\S*)")
_WANTED = ("JobId", "JobState", "StartTime", "EndTime", "SubmitTime", "ProcCnt", "NodeList")
_MOST = 2**31

BEGINS_ANEW = "PREEMPTED"
"""The state of a job that is requeued for another one, where that is what becomes of preempted jobs."""


@dataclass(frozen=True, slots=True)
class Completion:
    """One job that has ended.

    Attributes
    ----------
    job_id
        Slurm's number; each task of an array has one of its own.
    name
        Its name, which all tasks of an array share.
    state
        Slurm's name, for instance ``COMPLETED`` or ``TIMEOUT``.
    submit_s, eligible_s, start_s, end_s
        Dates in seconds since 1970; a start is ``None`` for a job that never started, and a job whose line does not say
        since when it may start has been eligible since its submission.
    cores
        How many cores it had.
    nodes
        List of nodes as Slurm writes it.
    """

    job_id: int
    name: str
    state: str
    submit_s: float
    eligible_s: float
    start_s: float | None
    end_s: float
    cores: int
    nodes: str


def read_jobcomp(path: Path) -> list[Completion]:
    """Return the jobs in the order in which they ended.

    Raises
    ------
    ReadError
        If a line is not one of jobcomp/filetxt.
    """
    found = []
    for number, line in enumerate(read_text(path).splitlines(), start=1):
        if not line.strip():
            continue
        words = dict(_WORD.findall(line))
        missing = [key for key in _WANTED if key not in words]
        if missing:
            raise ReadError(path, f"has no {missing[0]}=, expected a line of jobcomp/filetxt", line=number)
        try:
            found.append(_completion(words))
        except ValueError as error:
            raise ReadError(path, str(error), line=number) from None
    return found


def _completion(words: dict[str, str]) -> Completion:
    start_s = _date_s(words["StartTime"])
    submit_s, end_s = _date_s(words["SubmitTime"]), _date_s(words["EndTime"])
    eligible_s = _date_s(words.get("EligibleTime", "Unknown"))
    if submit_s is None or end_s is None:
        raise ValueError("SubmitTime or EndTime is no date")
    return Completion(
        job_id=_count(words["JobId"]),
        name=words.get("Name", ""),
        state=words["JobState"],
        submit_s=submit_s,
        eligible_s=submit_s if eligible_s is None else max(eligible_s, submit_s),
        start_s=start_s,
        end_s=end_s,
        cores=_count(words["ProcCnt"]),
        nodes=words["NodeList"],
    )


def _count(text: str) -> int:
    value = int_of(text)
    if not 0 <= value < _MOST:
        raise ValueError(f"holds {quoted(text)}, expected a whole number")
    return value


def _date_s(text: str) -> float | None:
    if text in ("Unknown", "None", "1969-12-31T23:59:59"):
        return None
    try:
        return datetime.strptime(text, "%Y-%m-%dT%H:%M:%S").replace(tzinfo=UTC).timestamp()
    except ValueError:
        raise ValueError(f"holds {quoted(text)}, expected a date such as 2026-01-01T00:20:41") from None
