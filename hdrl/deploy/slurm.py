"""Slurm's commands: what is read of the queue, and what is written to it. All that they print is data.

Columns are read by their widths, and the one that users can name themselves, the name of a job, is not read.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from hdrl.base.errors import HdrlError, readable
from hdrl.deploy.files import Users
from hdrl.settings.batch.site_rules.values import duration_s

TIMEOUT_S = 60.0
MOST_BYTES = 256 * 2**20

PENDING, RUNNING, ENDED = "pending", "running", "ended"

_STATES = {
    **dict.fromkeys(("PD", "RH", "RQ", "RF", "RD", "SE"), PENDING),
    **dict.fromkeys(("R", "CG", "CF", "S", "ST", "SI", "SO", "RS"), RUNNING),
    **dict.fromkeys(("CD", "F", "TO", "CA", "NF", "OOM", "PR", "BF", "DL", "RV"), ENDED),
}

COLUMNS = {
    "JobID": 20,
    "StateCompact": 8,
    "NumCPUs": 20,
    "TimeLimit": 24,
    "SubmitTime": 24,
    "EligibleTime": 24,
    "StartTime": 24,
    "EndTime": 24,
    "Reason": 48,
    "UserName": 96,
    "Account": 96,
}
"""Fields of ``squeue -O`` and their requested widths."""

_COLUMN_OF_USERS: Mapping[Users, str] = {"user_name": "UserName", "account": "Account"}

CHUNK = 250
"""Updates that one ``scontrol`` gets."""

_OF_ARRAY = re.compile(r"\d+_\S+: (No error|Job is no longer pending execution|Job/step already complet.*)")
"""Messages about single tasks of an array: those that wait have changed."""

_OF_JOB = re.compile(r".* for job (\d{1,10})")
_NOT_OF_JOBS = ("denied", "invalid user id", "contact", "timed out", "connection", "load")
"""Words of what concerns no single job: rights, and a slurmctld that does not answer."""


class SlurmError(HdrlError):
    """A command of Slurm that failed."""


@dataclass(frozen=True, slots=True)
class QueuedJob:
    """A job as ``squeue`` shows it; dates in seconds since 1970, NaN where Slurm has none.

    Attributes
    ----------
    id
        Slurm's number; of an array, that of the tasks that still wait together.
    state
        `PENDING`, `RUNNING` or `ENDED`.
    limit_s
        The time limit, infinite if there is none.
    eligible_s
        From when it may start.
    """

    id: int
    state: str
    cores: int
    limit_s: float
    submit_s: float
    eligible_s: float
    start_s: float
    end_s: float
    reason: str
    user: str


@dataclass(frozen=True, slots=True)
class JobUpdate:
    """Change of a job.

    Attributes
    ----------
    factor
        Its SiteFactor; ``None``: as it is.
    start
        Its earliest start: ``"now"``, or ``"now+90"``; ``None``: as it is.
    """

    job: int
    factor: int | None = None
    start: str | None = None

    def line(self) -> str:
        """Return it as a command of scontrol."""
        words = [f"update jobid={self.job:d}"]
        if self.factor is not None:
            words.append(f"SiteFactor={self.factor:d}")
        if self.start is not None:
            words.append(f"StartTime={self.start}")
        return " ".join(words)


@dataclass(slots=True)
class Slurm:
    """The commands of the Slurm that the environment names (``SLURM_CONF``).

    Attributes
    ----------
    may_act
        True if `update` is allowed.
    users
        Field of a job that stands for its user.
    timeout_s
        Time to wait for an answer, in seconds.
    n_odd
        Number of lines of the last answer of squeue that could not be read.
    """

    may_act: bool = False
    users: Users = "user_name"
    timeout_s: float = TIMEOUT_S
    n_odd: int = field(default=0, init=False)

    def jobs(self) -> list[QueuedJob]:
        """Return the jobs that wait, run, or have ended lately.

        Raises
        ------
        SlurmError
            If squeue fails.
        """
        form = ",".join(f"{name}:{width}" for name, width in COLUMNS.items())
        text = self._printed(["squeue", "--noheader", "--all", "--states=all", f"--Format={form}"])
        found = []
        self.n_odd = 0
        for line in text.split(b"\n"):
            if not line.strip():
                continue
            job = _job(line, self.users)
            if job is None:
                self.n_odd += 1
            else:
                found.append(job)
        return found

    def free_cores(self) -> int:
        """Return the number of free cores of nodes that are up.

        Raises
        ------
        SlurmError
            If sinfo fails, or says something else.
        """
        text = self._printed(["sinfo", "--noheader", "--Node", "--Format=NodeList:64,CPUsState:48"])
        free = {}
        for line in text.split(b"\n"):
            counts = line[64:].decode("utf-8", "replace").strip().split("/")
            if len(counts) == 4 and all(re.fullmatch(r"\d{1,9}", one) for one in counts):
                free[line[:64].strip()] = int(counts[1])
        if not free and text.strip():
            raise SlurmError(f"sinfo: no cores in {readable(repr(text[:60]))}")
        return sum(free.values())

    def config(self) -> dict[str, str]:
        """Return Slurm's configuration.

        Raises
        ------
        SlurmError
            If scontrol fails.
        """
        text = self._printed(["scontrol", "show", "config"]).decode("utf-8", "replace")
        pairs = (line.partition("=") for line in text.split("\n") if "=" in line)
        return {name.strip(): value.strip() for name, _, value in pairs}

    def update(self, updates: Sequence[JobUpdate]) -> dict[int, str]:
        """Change jobs; return what Slurm said against it, by job.

        Raises
        ------
        SlurmError
            If scontrol cannot be run, may not change anything, or gets no answer.
        """
        if not self.may_act:
            raise SlurmError("scontrol: changes nothing in shadow mode")
        refused: dict[int, str] = {}
        for first in range(0, len(updates), CHUNK):
            lines = [one.line() for one in updates[first : first + CHUNK]]
            done = self._run(["scontrol"], "\n".join(lines) + "\n")
            refused |= _refused(done.stderr.decode("utf-8", "replace"))
        return refused

    def _run(self, words: Sequence[str], given: str = "") -> subprocess.CompletedProcess[bytes]:
        try:
            return subprocess.run(
                words,
                input=given.encode(),
                capture_output=True,
                timeout=self.timeout_s,
                env=_environment(),
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise SlurmError(f"{words[0]}: no answer within {self.timeout_s:g} s") from None
        except OSError as error:
            raise SlurmError(f"{words[0]}: cannot be run ({error.strerror}); is Slurm's client installed?") from None

    def _printed(self, words: Sequence[str]) -> bytes:
        done = self._run(words)
        if done.returncode:
            said = done.stderr.decode("utf-8", "replace").strip().split("\n")[0]
            raise SlurmError(f"{words[0]}: ended with code {done.returncode}: {readable(said, 200) or 'no message'}")
        if len(done.stdout) > MOST_BYTES:
            raise SlurmError(f"{words[0]}: printed more than {MOST_BYTES // 2**20} MiB")
        return done.stdout


def _refused(text: str) -> dict[int, str]:
    """Return scontrol's objections to changes, by job."""
    refused = {}
    for line in filter(None, map(str.strip, text.split("\n"))):
        if _OF_ARRAY.fullmatch(line):
            continue
        found = _OF_JOB.fullmatch(line)
        if found is None or any(word in line.lower() for word in _NOT_OF_JOBS):
            raise SlurmError(f"scontrol: {readable(line, 200)}")
        refused[int(found[1])] = readable(line, 200)
    return refused


def _job(line: bytes, users: Users) -> QueuedJob | None:
    """Return the job of a line of squeue, ``None`` if it is none."""
    words, at = {}, 0
    for name, width in COLUMNS.items():
        words[name] = line[at : at + width].decode("utf-8", "replace").strip()
        at += width
    state = _STATES.get(words["StateCompact"])
    if state is None or not all(re.fullmatch(r"\d{1,10}", words[name]) for name in ("JobID", "NumCPUs")):
        return None
    try:
        limit_s = duration_s(words["TimeLimit"])
    except ValueError:
        limit_s = np.inf
    return QueuedJob(
        id=int(words["JobID"]),
        state=state,
        cores=max(1, int(words["NumCPUs"])),
        limit_s=limit_s if limit_s > 0 else np.inf,
        submit_s=_date(words["SubmitTime"]),
        eligible_s=_date(words["EligibleTime"]),
        start_s=_date(words["StartTime"]),
        end_s=_date(words["EndTime"]),
        reason=words["Reason"],
        user=words[_COLUMN_OF_USERS[users]],
    )


def _date(text: str) -> float:
    return float(text) if re.fullmatch(r"\d{1,12}", text) else np.nan


def _environment() -> dict[str, str]:
    """Return the environment without what changes what Slurm's commands print."""
    begins = ("SQUEUE_", "SINFO_", "SCONTROL_", "SLURM_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(begins) or name == "SLURM_CONF"}
    return {**kept, "SLURM_TIME_FORMAT": "%s", "LC_ALL": "C"}


def total_weight(config: Mapping[str, str]) -> float:
    """Return the largest sum of all terms of Slurm's multifactor priority, site factor and nice left out.

    Parameters
    ----------
    config
        What `Slurm.config` returns, or the keys of ``slurm.conf``.
    """
    return sum(_weights(config.items()))


def _weights(pairs: Iterable[tuple[str, str]]) -> Iterable[float]:
    for name, value in pairs:
        if not name.lower().startswith("priorityweight"):
            continue
        for part in value.split(","):
            number = part.rpartition("=")[2].strip()
            if re.fullmatch(r"\d{1,12}(\.\d{1,6})?", number):
                yield float(number)
