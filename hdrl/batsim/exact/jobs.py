"""Jobs, the workloads they belong to, and the tasks that a running job goes through."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hdrl.base.errors import WorkloadError, suggest
from hdrl.base.files import read_json
from hdrl.batsim.exact.extended import Extended
from hdrl.batsim.exact.hashing import hash_order
from hdrl.batsim.exact.profiles import Composed, Profile, parse_profile
from hdrl.batsim.exact.rapidjson import read_double, reread

if TYPE_CHECKING:
    from hdrl.batsim.exact.activities import Execution
    from hdrl.batsim.exact.actors import Actor

NOT_SUBMITTED = "NOT_SUBMITTED"
SUBMITTED = "SUBMITTED"
RUNNING = "RUNNING"
SUCCEEDED = "COMPLETED_SUCCESSFULLY"
FAILED = "COMPLETED_FAILED"
WALLTIME_REACHED = "COMPLETED_WALLTIME_REACHED"
KILLED = "COMPLETED_KILLED"
REJECTED = "REJECTED"

SHORTEST_RUN_S = 1e-5
"""The reported stretch of a job that took no time; Batsim has the number in 80 bits."""

_DEEPEST_COMPOSITION = 100

ENDED = frozenset({SUCCEEDED, FAILED, WALLTIME_REACHED, KILLED, REJECTED})


class ExactTask:
    """A profile that a job is going through.

    Parameters
    ----------
    io
        Transfers that the scheduler has added to it.

    Attributes
    ----------
    part, index
        Present part of a composed profile, and the number of parts before it, all repetitions counted; -1 before.
    execution
        The parallel task, once it has been started.
    began_s, needed_s
        Start and length of a delay, ``began_s`` -1 before.
    progress
        Part of it that was done when the job was killed.
    """

    __slots__ = ("began_s", "execution", "index", "io", "needed_s", "part", "profile", "progress")

    def __init__(self, profile: Profile, io: Profile | None = None) -> None:
        self.profile = profile
        self.io = io
        self.part: ExactTask | None = None
        self.index = -1
        self.execution: Execution | None = None
        self.began_s = -1.0
        self.needed_s = 0.0
        self.progress = 0.0

    def leaf(self) -> ExactTask:
        """Return the task that is really running."""
        task = self
        while task.part is not None:
            task = task.part
        return task

    def report(self) -> dict[str, Any]:
        """Return its report in JOB_KILLED."""
        name = self.profile.name
        if self.execution is not None or self.began_s >= 0:
            return {"profile_name": name, "progress": float(self.progress)}
        if self.part is not None:
            return {"profile_name": name, "current_task_index": self.index, "current_task": self.part.report()}
        return {"profile_name": name, "current_task_index": -1}


class ExactJob:
    """A job.

    Attributes
    ----------
    id
        ``"workload!name"``.
    submission_s, walltime_s, n_requested
        From the description; ``walltime_s`` -1 if there is none.
    state
        One of Batsim's states.
    start_s, run_s, end_s, energy_j, return_code, allocation, allocation_text
        Its outcome; -1 and empty before.
    before_j
        The energy of its machines when it started.
    metadata
        A text attached by the scheduler.
    messages
        Messages of the scheduler that it has not taken.
    kill_requested
        True if a kill has been requested.
    actors
        Those that run it.
    task
        Its present task.
    timed_out
        Parallel tasks that reached the walltime and go on until the job's actor ends.
    """

    def __init__(self, workload: ExactWorkload, name: str, profile: Profile, description: Mapping[str, Any]) -> None:
        self.workload = workload
        self.name = name
        self.id = f"{workload.name}!{name}"
        self.profile = profile
        self.description = description
        self.submission_s = float(description["subtime"])
        self.walltime_s = float(description.get("walltime", -1))
        self.n_requested = int(description["res"])
        self.state = NOT_SUBMITTED
        self.start_s = -1.0
        self.run_s = -1.0
        self.end_s = -1.0
        self.energy_j = -1.0
        self.before_j: Extended = (-1.0, 0.0)
        self.return_code = -1
        self.allocation: list[int] = []
        self.allocation_text = ""
        self.metadata = ""
        self.messages: list[str] = []
        self.kill_requested = False
        self.actors: list[Actor] = []
        self.task: ExactTask | None = None
        self.timed_out: list[Execution] = []


class ExactWorkload:
    """Jobs and profiles that share a name.

    Parameters
    ----------
    name
        Its name: ``w0``, ``w1``, ... for files.
    path
        The file it was read from, or ``None`` if the scheduler made it.

    Attributes
    ----------
    jobs
        Jobs that Batsim still holds, by full id.
    profiles
        Profiles by name; ``None`` for one that has been dropped.
    """

    def __init__(self, name: str, path: Path | None = None) -> None:
        self.name = name
        self.path = path
        self.n_machines = 0
        self.jobs: dict[str, ExactJob] = {}
        self.profiles: dict[str, Profile | None] = {}
        self._parts: dict[str, Profile] = {}
        self._met: set[str] = set()

    @property
    def folder(self) -> Path:
        """The folder that file names in profiles refer to."""
        return self.path.parent if self.path is not None else Path()

    def profile(self, name: str, where: str) -> Profile:
        """Return a profile; raise `WorkloadError` if it does not exist, or no longer."""
        if name not in self.profiles:
            raise WorkloadError(f"{where}: profile {name!r} does not exist; {suggest(name, self.profiles)}")
        found = self.profiles[name]
        if found is None:
            raise WorkloadError(
                f"{where}: profile {name!r} existed some time ago but is no longer accessible: Batsim drops a profile "
                "with the first job that completes with it, unless --enable-profile-reuse is given"
            )
        return found

    def part(self, name: str, where: str) -> Profile:
        """Return a profile that another one is composed of: those keep what they are composed of."""
        found = self._parts.get(name)
        if found is None:
            raise WorkloadError(f"{where}: profile {name!r} does not exist; {suggest(name, self._parts)}")
        return found

    def add_profile(self, name: str, description: object, where: str) -> None:
        """Add a profile; one that exists is kept as it is."""
        if name not in self.profiles:
            profile = parse_profile(name, description, where, self.folder)
            self.profiles[name] = self._parts[name] = profile

    def check_composition(self, where: str, *, complete: bool) -> None:
        """Refuse composed profiles that contain themselves, for they would never end.

        With ``complete``, refuse also those composed of profiles that do not exist.
        """
        done: set[str] = set()

        def visit(name: str, above: tuple[str, ...]) -> None:
            if name in above or len(above) > _DEEPEST_COMPOSITION:
                raise WorkloadError(f"{where}: profile {name!r} is composed of itself, or too deeply")
            profile = self.part(name, where) if complete else self._parts.get(name)
            if isinstance(profile, Composed) and name not in done:
                for part in profile.sequence:
                    visit(part, (*above, name))
            done.add(name)

        for name in self.profiles:
            visit(name, ())

    def drop_profile(self, name: str) -> None:
        """Drop a profile, and those that it is composed of."""
        profile = self.profiles.get(name)
        if profile is not None:
            self.profiles[name] = None
            if isinstance(profile, Composed):
                for part in profile.sequence:
                    self.drop_profile(part)

    def add_job(self, description: object, where: str) -> ExactJob:
        """Add a job from its JSON description; raise `WorkloadError` if it is wrong."""
        if not isinstance(description, dict):
            raise WorkloadError(f"{where}: {str(description)[:40]!r} is not a job, expected an object")
        name = self._job_name(description.get("id"), where)
        where = f"{where}: job {name!r}"
        _check_numbers(description, where)
        profile_name = description.get("profile")
        if not isinstance(profile_name, str):
            raise WorkloadError(f"{where}: 'profile' is {profile_name!r}, expected a string")
        job = ExactJob(self, name, self.profile(profile_name, where), description)
        if job.id in self._met:
            raise WorkloadError(f"{where}: there is already a job with this id")
        self._met.add(job.id)
        self.jobs[job.id] = job
        return job

    def has_met(self, job_id: str) -> bool:
        """Return whether there is, or ever was, a job with this full id."""
        return job_id in self._met

    def described_profiles(self) -> dict[str, Mapping[str, Any]]:
        """Return the descriptions of the profiles that Batsim keeps, in its order."""
        parts = {
            name: profile.sequence if isinstance(profile, Composed) else ()
            for name, profile in self.profiles.items()
            if profile is not None
        }
        kept = kept_profiles((job.profile.name for job in self.jobs.values()), parts)
        return {name: reread(profile.description) for name in kept if (profile := self.profiles[name]) is not None}

    def _job_name(self, value: object, where: str) -> str:
        if isinstance(value, bool) or not isinstance(value, int | str):
            raise WorkloadError(f"{where}: a job has id {value!r}, expected a string or an integer")
        text = str(value)
        if self.name not in text:
            if "!" in text:
                raise WorkloadError(f"{where}: job id {text!r} contains '!', expected '{self.name}!NAME' or NAME")
            return text
        # Batsim takes any id in which the workload's name occurs for a full id
        parts = text.split("!")
        if len(parts) != 2 or parts[0] != self.name:
            raise WorkloadError(
                f"{where}: job id {text!r} contains the workload's name {self.name!r}, so Batsim expects "
                f"'{self.name}!NAME' and would stop here"
            )
        return parts[1]


def kept_profiles(used: Iterable[str], parts: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the names of the profiles that Batsim keeps when it has read a workload, in its order.

    It goes through them once and forgets those that no job and no profile that it still knows refers to: what only
    a forgotten profile is composed of stays if it came before.
    """
    n_users = Counter(used)
    for names in parts.values():
        n_users.update(names)
    kept = []
    for name in hash_order(parts):
        if n_users[name]:
            kept.append(name)
        else:
            n_users.subtract(parts[name])
    return kept


def read_workload(path: Path, name: str) -> ExactWorkload:
    """Return a workload from a Batsim JSON file.

    Raise ReadError if the file cannot be read or is no JSON, WorkloadError if what it holds is wrong.
    """
    data = read_json(path, read_float=read_double)
    where = str(path)
    if not isinstance(data, dict):
        raise WorkloadError(f"{where}: expected an object with 'jobs' and 'profiles'")
    profiles, jobs = data.get("profiles"), data.get("jobs")
    if not isinstance(profiles, dict):
        raise WorkloadError(f"{where}: 'profiles' is missing or no object")
    if not isinstance(jobs, list):
        raise WorkloadError(f"{where}: 'jobs' is missing or no array")
    workload = ExactWorkload(name, path)
    n_machines = data.get("nb_res", 0)
    if isinstance(n_machines, bool) or not isinstance(n_machines, int) or n_machines < 0:
        raise WorkloadError(f"{where}: 'nb_res' is {n_machines!r}, expected an integer of at least 0")
    workload.n_machines = n_machines
    for profile_name, description in profiles.items():
        workload.add_profile(profile_name, description, where)
    workload.check_composition(where, complete=True)
    for description in jobs:
        workload.add_job(description, where)
    return workload


def _check_numbers(description: Mapping[str, Any], where: str) -> None:
    submission_s = _number(description.get("subtime"))
    if not 0 <= submission_s < math.inf:
        raise WorkloadError(f"{where}: 'subtime' is {description.get('subtime')!r}, expected a number of at least 0")
    walltime_s = _number(description.get("walltime", -1))
    if not (walltime_s == -1 or 0 < walltime_s < math.inf):
        raise WorkloadError(
            f"{where}: 'walltime' is {description['walltime']!r}, expected a positive number, or -1 for none"
        )
    n_requested = description.get("res")
    if isinstance(n_requested, bool) or not isinstance(n_requested, int) or not 0 <= n_requested < 2**31:
        raise WorkloadError(f"{where}: 'res' is {n_requested!r}, expected an integer of at least 0")


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.nan
