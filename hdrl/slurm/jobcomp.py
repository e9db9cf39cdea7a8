"""Files of Slurm's ``jobcomp/filetxt``: a line of words ``Key=Value`` for each job that has ended."""

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

BEGINS_ANEW = ("PREEMPTED", "NODE_FAIL")
"""The states of a job that is requeued for another one or as its node failed, where that is what becomes of them."""

_NO_NODES = "(null)"


@dataclass(frozen=True, slots=True)
class Completion:
    """One job that has ended.

    Attributes
    ----------
    job_id
        Slurm's number; each task of an array has one of its own, and the last one to start has that of the array.
    array_id, task
        The number of its array and its own in it; -1 of a job that is no task, and of those tasks of an array that
        never started: one line is about all of them.
    name
        Its name, which all tasks of an array share.
    state
        Slurm's name, for instance ``COMPLETED`` or ``TIMEOUT``.
    submit_s, eligible_s, start_s, end_s
        Dates in seconds since 1970; a start is ``None`` for a job that never started, and a job whose line does not say
        since when it may start has been eligible since its submission.
    cores
        Number of its cores.
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
    array_id: int = -1
    task: int = -1

    @property
    def key(self) -> tuple[int, int]:
        """The number that sbatch gave, and the number of a task in its array."""
        return (self.job_id, -1) if self.task < 0 else (self.array_id, self.task)


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
    # A job that is cancelled while it waits starts and ends at that date, on no nodes.
    start_s = None if words["NodeList"] == _NO_NODES else _date_s(words["StartTime"])
    submit_s, end_s = _date_s(words["SubmitTime"]), _date_s(words["EndTime"])
    eligible_s = _date_s(words.get("EligibleTime", "Unknown"))
    if submit_s is None or end_s is None:
        raise ValueError("SubmitTime or EndTime is not a date")
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
        array_id=_count(words["ArrayJobId"]) if "ArrayJobId" in words else -1,
        task=_count(words["ArrayTaskId"]) if "ArrayTaskId" in words else -1,
    )


def _count(text: str) -> int:
    value = int_of(text)
    if not 0 <= value < _MOST:
        raise ValueError(f"holds {quoted(text)}, expected a whole number")
    return value


def _date_s(text: str) -> float | None:
    if text.lower() in ("unknown", "none") or text == "1969-12-31T23:59:59":
        return None
    try:
        return datetime.strptime(text, "%Y-%m-%dT%H:%M:%S").replace(tzinfo=UTC).timestamp()
    except ValueError:
        raise ValueError(f"holds {quoted(text)}, expected a date such as 2026-01-01T00:20:41") from None
