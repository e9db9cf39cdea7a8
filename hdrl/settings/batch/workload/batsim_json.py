"""Batsim's JSON workloads, and HDeepRM's additions to them: reading.

The format: https://batsim.readthedocs.io/en/v4.2.0/input-workload.html. HDeepRM adds to each profile ``req_time`` (s),
``req_ops`` (flop), ``mem`` (per core; MiB here) and ``mem_bw`` (GB/s per core). The same keys in a job, and
``user``, ``group``, ``executable``, ``queue``, ``partition`` (numbers or texts) and ``priority`` there, are ours:
Batsim passes them on to the scheduler; a job's own value comes before its profile's.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hdrl.base.errors import ReadError, WorkloadError, suggest
from hdrl.base.files import read_json
from hdrl.base.hashing import sha256_of_file
from hdrl.settings.batch.platform.model import Platform
from hdrl.settings.batch.workload.batsim5_document import document_of_batsim5, is_of_batsim5
from hdrl.settings.batch.workload.batsim_profiles import ProfileReader, Step, checked_number, checked_whole, shown
from hdrl.settings.batch.workload.build import MAX_INT32, NUMBER_FIELDS, is_plain_name, numbered, read_only
from hdrl.settings.batch.workload.hdeeprm import reference_gflops
from hdrl.settings.batch.workload.model import (
    JOB_DTYPE,
    NO_WALLTIME,
    STEP_DTYPE,
    UNKNOWN,
    Workload,
    in_batsims_order,
)

_REQUIRED_JOB_KEYS = ("id", "subtime", "res", "profile")
NUMBER_KEYS = (*NUMBER_FIELDS, "priority")


def _is_unicode(text: str) -> bool:
    """Tell whether a text can be written; JSON may hold halves of characters."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


class _JobReader:
    """Turns the job descriptions of one file into rows."""

    def __init__(self, path: Path, source: str, profiles: dict[str, Any]) -> None:
        self.path = path
        self.source = source
        self.profiles = profiles
        self.index_of_profile = {name: i for i, name in enumerate(profiles)}

    def fail(self, where: str, problem: str) -> ReadError:
        return ReadError(self.path, f"{where}: {problem}")

    def job_id(self, index: int, job: object) -> str:
        """Return the id of a job without the name of its source."""
        where = f"jobs[{index}]"
        if not isinstance(job, dict):
            raise self.fail(where, f"is {shown(job)}, expected an object")
        for key in _REQUIRED_JOB_KEYS:
            if key not in job:
                raise self.fail(where, f"has no {key!r}")
        given = job["id"]
        if not isinstance(given, (str, int)) or isinstance(given, bool) or given == "":
            raise self.fail(where, f"'id' is {shown(given)}, expected text or a whole number")
        text = str(given)
        if not _is_unicode(text):
            raise self.fail(where, f"'id' is {shown(given)}, expected valid Unicode")
        prefix = f"{self.source}!"
        plain = text.removeprefix(prefix)
        if "!" in plain or not plain or (plain == text and self.source in text):
            raise self.fail(
                where, f"'id' is {shown(given)}: '!' and {self.source!r} may only come as {prefix + '...'!r}"
            )
        return plain

    def row(self, job_id: str, job: dict[str, Any]) -> tuple[Any, ...]:
        """Return the values of a job in the order of `JOB_DTYPE`."""
        fail = partial(self.fail, f"job {job_id!r}")
        cores, name = job["res"], job["profile"]
        if not isinstance(cores, int) or isinstance(cores, bool) or not 1 <= cores <= MAX_INT32:
            raise fail(f"'res' is {shown(cores)}, expected a whole number of at least 1")
        if not isinstance(name, str) or name not in self.profiles:
            raise fail(f"'profile' is {shown(name)}: no such profile; {suggest(str(name), self.profiles)}")
        walltime_s = checked_number(job.get("walltime", NO_WALLTIME), "walltime", fail)
        if walltime_s != NO_WALLTIME and walltime_s <= 0:
            raise fail(f"'walltime' is {walltime_s:g}, expected a positive number, or -1 for none")
        both = self.profiles[name] | job
        requested_s = both.get("req_time", walltime_s if walltime_s > 0 else float(UNKNOWN))
        return (
            checked_number(job["subtime"], "subtime", fail, low=0.0),
            cores,
            walltime_s,
            checked_number(requested_s, "req_time", fail, low=-1.0),
            self.index_of_profile[name],
            checked_number(both.get("mem", 0.0), "mem", fail, low=0.0),
            checked_number(both.get("mem_bw", 0.0), "mem_bw", fail, low=0.0),
            *(UNKNOWN for _ in NUMBER_FIELDS),
            checked_whole(job.get("priority", UNKNOWN), "priority", fail),
            0,
        )

    def names(self, ids: Sequence[str], jobs: Sequence[dict[str, Any]], key: str) -> NDArray[np.int32]:
        """Return whose jobs they are (in which group, queue...), as numbers."""
        names = [job.get(key, UNKNOWN) for job in jobs]
        for job_id, name in zip(ids, names, strict=True):
            if not is_plain_name(name) and not (isinstance(name, str) or (isinstance(name, int) and name > 1)):
                problem = f"{key!r} is {shown(name)}, expected a whole number or text"
                raise self.fail(f"job {job_id!r}", problem)
        return numbered(names)


def read_batsim_json(path: str | Path, *, source: str = "w0") -> Workload:
    """Read a workload of Batsim.

    Composed profiles are written out into their steps. A job's estimate is its ``req_time`` or its profile's,
    else its walltime, else `UNKNOWN`. Profiles may be of any type; which of them the embedded simulator cannot run is
    in `Workload.not_simulated`. Files of Batsim 5 are read as those of Batsim 4 that say the same.

    Parameters
    ----------
    path
        The file; a name that ends in ``.gz`` is decompressed.
    source
        What Batsim calls the file: ``w0`` for the first one, ``w1`` for the second.

    Raises
    ------
    ReadError
        If it cannot be read, or is no valid workload.
    """
    path = Path(path)
    return workload_of_document(read_json(path), path, source)


def workload_of_document(document: object, path: Path, source: str, *, by_text: bool = True) -> Workload:
    """Return the workload that a document of Batsim describes.

    Parameters
    ----------
    by_text
        True if jobs of one date are submitted in the order of their ids as text, as Batsim does it; else in that of the
        file.

    Raises
    ------
    ReadError
        If it is no valid workload.
    """
    return _workload(path, source, _checked(document, path), by_text=by_text)


def _checked(document: object, path: Path) -> dict[str, Any]:
    if not isinstance(document, dict):
        raise ReadError(path, f"is {shown(document)}, expected an object with 'jobs' and 'profiles'")
    for key, kind, expected in (("jobs", list, "a list"), ("profiles", dict, "an object")):
        if key not in document:
            raise ReadError(path, f"has no {key!r}; {suggest(key, document)}" if document else f"has no {key!r}")
        if not isinstance(document[key], kind):
            raise ReadError(path, f"{key!r} is {shown(document[key])}, expected {expected}")
    if not document["jobs"]:
        raise ReadError(path, "'jobs' is empty, expected at least one job")
    for name, profile in document["profiles"].items():
        if not _is_unicode(name):
            raise ReadError(path, f"profile {shown(name)}: expected a name of valid Unicode")
        if not isinstance(profile, dict):
            raise ReadError(path, f"profile {name!r}: is {shown(profile)}, expected an object")
    return document_of_batsim5(document) if is_of_batsim5(document) else document


def _workload(path: Path, source: str, document: dict[str, Any], *, by_text: bool = True) -> Workload:
    described: dict[str, Any] = document["profiles"]
    jobs: list[dict[str, Any]] = document["jobs"]
    reader = _JobReader(path, source, described)
    ids = [reader.job_id(i, job) for i, job in enumerate(jobs)]
    if len(set(ids)) < len(ids):
        seen: set[str] = set()
        twice = next(i for i in ids if i in seen or seen.add(i))  # type: ignore[func-returns-value]
        raise ReadError(path, f"job {twice!r} appears twice")
    rows = np.array([reader.row(job_id, job) for job_id, job in zip(ids, jobs, strict=True)], dtype=JOB_DTYPE)
    for key in NUMBER_FIELDS:
        rows[key] = reader.names(ids, jobs, key)
    steps, first_step, not_simulated = _runnable(ProfileReader(path, described), rows, list(described))
    others = {key: value for key, value in document.items() if key not in ("jobs", "profiles")}
    workload = Workload(
        name=path.name.removesuffix(".gz").removesuffix(".json"),
        jobs=read_only(rows),
        job_ids=tuple(ids),
        steps=steps,
        first_step=first_step,
        profile_names=tuple(described),
        sources=(source,),
        origin={"file": path.name, "sha256": sha256_of_file(path)},
        extra={"jobs": jobs, "profiles": {source: described}, "files": {source: others}},
        not_simulated=not_simulated,
    )
    return in_batsims_order(workload) if by_text else workload


def _runnable(
    profiles: ProfileReader, rows: np.ndarray[Any, np.dtype[np.void]], names: Sequence[str]
) -> tuple[NDArray[np.void], NDArray[np.int64], dict[int, str]]:
    """Write out the profiles that jobs use, and say which cannot be simulated; these and the others have no step."""
    used = set(rows["profile"].tolist())
    written: list[list[Step]] = []
    not_simulated: dict[int, str] = {}
    for index, name in enumerate(names):
        try:
            written.append(profiles.steps(name) if index in used else [])
        except WorkloadError as error:
            written.append([])
            not_simulated[index] = str(error)
    steps = np.array([step for steps in written for step in steps], dtype=STEP_DTYPE)
    first_step = np.concatenate([[0], np.cumsum([len(steps) for steps in written])]).astype(np.int64)
    first_step.flags.writeable = False
    return read_only(steps), first_step, not_simulated


def read_custom_workload(path: str | Path, platform: Platform, *, source: str = "w0") -> Workload:
    """Read a custom workload of HDeepRM: its profiles say how long they take, and the platform how much work that is.

    The work of every profile that has a ``req_time`` is set to reference speed times ``req_time`` (``cpu`` and
    ``req_ops`` in flop per core), whatever the file says.

    Raises
    ------
    ReadError
        If it cannot be read, is no valid workload, or a profile has no ``req_time``.
    """
    path = Path(path)
    document = _checked(read_json(path), path)
    gflops = reference_gflops(platform)
    for name, profile in document["profiles"].items():
        fail = partial(ProfileReader(path, document["profiles"]).fail, name)
        seconds = checked_number(profile.get("req_time"), "req_time", fail, low=0.0)
        profile["req_ops"] = profile["cpu"] = gflops * seconds * 1e9
    workload = _workload(path, source, document)
    workload.origin.update({"custom": True, "platform": platform.name})
    return workload


def merge(workloads: Iterable[Workload]) -> Workload:
    """Join workloads; each becomes sources of the result, renamed w0, w1, ... in their order.

    Raises
    ------
    WorkloadError
        If there is none.
    """
    parts = list(workloads)
    if not parts:
        raise WorkloadError("no workload to join")
    if len(parts) == 1:
        return parts[0]
    if any(part.site is not None for part in parts):
        raise WorkloadError("several workloads cannot be joined on a machine with the rules of a site")
    jobs, first_steps = [], [np.zeros(1, dtype=np.int64)]
    sources: list[str] = []
    n_profiles = n_steps = 0
    extra: dict[str, Any] = {"jobs": [], "profiles": {}, "files": {}}
    not_simulated: dict[int, str] = {}
    for part in parts:
        rows = part.jobs.copy()
        rows["source"] += len(sources)
        rows["profile"] += n_profiles
        not_simulated |= {profile + n_profiles: why for profile, why in part.not_simulated.items()}
        jobs.append(rows)
        first_steps.append(part.first_step[1:] + n_steps)
        n_profiles += len(part.profile_names)
        n_steps += len(part.steps)
        for old in part.sources:
            new = f"w{len(sources)}"
            sources.append(new)
            for key in ("profiles", "files"):
                extra[key][new] = mapping(part.extra.get(key)).get(old, {})
        described = part.extra.get("jobs")
        extra["jobs"] += described if isinstance(described, list) else [{}] * part.n_jobs
    first_step = np.concatenate(first_steps)
    first_step.flags.writeable = False
    nodes = [np.ones(part.n_jobs, np.int32) if part.nodes is None else part.nodes for part in parts]
    energies_j = [part.requested_energy_j for part in parts if part.requested_energy_j is not None]
    dropped = {f"{part.name}: {reason}": n for part in parts for reason, n in part.n_dropped.items()}
    return Workload(
        name="+".join(part.name for part in parts),
        jobs=read_only(_with_names_of(np.concatenate(jobs), extra["jobs"])),
        job_ids=tuple(job_id for part in parts for job_id in part.job_ids),
        steps=read_only(np.concatenate([part.steps for part in parts])),
        first_step=first_step,
        profile_names=tuple(name for part in parts for name in part.profile_names),
        sources=tuple(sources),
        n_dropped=dropped,
        origin={"parts": [part.origin for part in parts]},
        extra=extra if any(part.extra for part in parts) else {},
        nodes=None if all(part.nodes is None for part in parts) else np.concatenate(nodes),
        requested_energy_j=np.concatenate(energies_j) if len(energies_j) == len(parts) else None,
        not_simulated=not_simulated,
    )


def _with_names_of(rows: NDArray[np.void], described: Sequence[dict[str, Any]]) -> NDArray[np.void]:
    """Renumber users, groups and so on of several files that are texts: each file has numbered its own from 0 on."""
    for key in NUMBER_FIELDS:
        if any(not is_plain_name(job.get(key, UNKNOWN)) for job in described):
            known = zip(rows[key].tolist(), (job.get(key, UNKNOWN) for job in described), strict=True)
            rows[key] = numbered([number if is_plain_name(name) else name for number, name in known])
    return rows


def mapping(value: object) -> dict[str, Any]:
    """Return a value that should be an object; an empty one if it is none."""
    return value if isinstance(value, dict) else {}
