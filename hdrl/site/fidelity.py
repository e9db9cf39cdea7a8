"""Recorded runs of a real Slurm, and how far policies are from them, beside how far Slurm is from itself.

A recorded run is a folder with ``jobs.json`` (what was asked), ``jobcomp.txt`` (what happened) and ``slurm.conf``, as
simulator `slurm` leaves it in a run folder.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from hdrl.base.errors import OptionsError, ReadError
from hdrl.base.files import read_json
from hdrl.metrics.orders import Distance, distance_between
from hdrl.options.problems import problem_of
from hdrl.settings.batch.platform.conversion import build_platform
from hdrl.settings.batch.platform.homogeneous import PREFIX
from hdrl.settings.batch.platform.model import Platform
from hdrl.settings.batch.platform.reader import read_platform
from hdrl.settings.batch.policies import normalise_policy_name, simulate
from hdrl.settings.batch.policies.on_sites import SITE_POLICIES
from hdrl.settings.batch.site_rules.conf import read_conf
from hdrl.settings.batch.site_rules.rules import rules_of
from hdrl.settings.batch.workload.build import MAX_VALUE
from hdrl.settings.batch.workload.swf import SwfLog, unknown_rows
from hdrl.settings.batch.workload.swf_jobs import workload_from_swf
from hdrl.site.machine import n_cores, platform_of
from hdrl.slurm.jobcomp import read_jobcomp
from hdrl.slurm.simulator import FOLDER

POLICIES = ("slurm", "fcfs+easy", "fcfs+conservative")
"""Policies that are compared unless others are named."""

_MOST_JOBS = 1_000_000


class _Recorded(BaseModel):
    """What both kinds of blocks have in common: unknown keys are kept, since they change what a run means."""

    model_config = ConfigDict(extra="allow", frozen=True, allow_inf_nan=False)


class _Job(_Recorded):
    at: float = Field(ge=0, le=MAX_VALUE)
    cores: int = Field(ge=1, le=10**6)
    run_s: float = Field(ge=0, le=MAX_VALUE)
    limit_min: int | None = Field(default=None, ge=1, le=10**8)
    id: int = Field(ge=1)


class _Run(_Recorded):
    t0: float = Field(ge=0, le=MAX_VALUE)
    node_cores: list[int] | None = None
    nodes: int | None = Field(default=None, ge=1, le=2**17)
    cpus: int | None = Field(default=None, ge=1, le=2**16)
    jobs: list[_Job] = Field(min_length=2, max_length=_MOST_JOBS)


@dataclass(frozen=True, slots=True)
class RecordedRun:
    """A recorded run.

    Attributes
    ----------
    folder
        Where it is.
    n_cores
        Cores of the machine.
    asked
        What was asked: submission in seconds, cores, run time in seconds, limit in minutes (0: none); a row per job.
    start_s, ran_s
        When each job started, in seconds after date 0, and how long it ran, launching and ending included.
    conf
        ``slurm.conf`` without what is different in each run.
    """

    folder: Path
    n_cores: int
    asked: NDArray[np.float64]
    start_s: NDArray[np.float64]
    ran_s: NDArray[np.float64]
    conf: str

    def is_repeated_by(self, other: RecordedRun) -> bool:
        """Return whether another run is of the same jobs on the same machine with the same configuration."""
        same = (self.n_cores, self.conf) == (other.n_cores, other.conf)
        return same and np.array_equal(self.asked, other.asked)


def read_run(folder: Path) -> RecordedRun:
    """Read a recorded run.

    Parameters
    ----------
    folder
        A folder with the three files, or a run folder that holds one.

    Raises
    ------
    ReadError
        If it is none, or has jobs that ask for more than cores and time.
    """
    folder = folder / FOLDER if (folder / FOLDER).is_dir() else folder
    path = folder / "jobs.json"
    try:
        found = _Run.model_validate(read_json(path))
    except ValidationError as error:
        raise ReadError(path, str(problem_of(_Run, error))) from None
    if found.node_cores is None and (found.nodes is None or found.cpus is None):
        raise ReadError(path, "has no node_cores, expected the cores of each node")
    for number, job in enumerate(found.jobs):
        if job.model_extra:
            asked = ", ".join(job.model_extra)
            raise ReadError(path, f"jobs.{number} asks for {asked}, which needs the rules of a site")
    all_cores = sum(found.node_cores) if found.node_cores is not None else (found.nodes or 0) * (found.cpus or 0)
    ended = {one.job_id: one for one in read_jobcomp(folder / "jobcomp.txt")}
    spans = []
    for job in found.jobs:
        start_s = ended[job.id].start_s if job.id in ended else None
        if start_s is None:
            raise ReadError(folder / "jobcomp.txt", f"says nothing of a start of job {job.id}")
        # Slurm's dates are whole seconds, so that a job could seem to start before its submission.
        spans.append((max(start_s - found.t0, job.at), max(ended[job.id].end_s - start_s, 1.0)))
    asked_rows = [(job.at, job.cores, job.run_s, job.limit_min or 0) for job in found.jobs]
    conf_file = folder / "slurm.conf"
    conf = conf_file.read_text(encoding="utf-8", errors="replace") if conf_file.is_file() else ""
    start_s, ran_s = np.array(spans).T
    return RecordedRun(folder, all_cores, np.array(asked_rows, float), start_s, ran_s, _lasting(conf))


def _lasting(conf: str) -> str:
    """Return a ``slurm.conf`` without the host and the ports, which are other ones in each run."""
    own = ("SlurmctldHost=", "SlurmctldPort=", "SlurmUser=", "SlurmdUser=")
    lines = [line for line in conf.splitlines() if not line.startswith(own)]
    words = [[word for word in line.split() if not word.startswith(("Port=", "NodeHostname="))] for line in lines]
    return "\n".join(map(" ".join, words))


@dataclass(frozen=True, slots=True)
class Fidelity:
    """How far policies are from recorded runs.

    Attributes
    ----------
    runs
        The runs.
    floor
        The distances of runs from each other that repeat each other; none if nothing was repeated.
    distances
        By policy, its distance from each run.
    """

    runs: tuple[RecordedRun, ...]
    floor: tuple[Distance, ...]
    distances: dict[str, tuple[Distance, ...]]


def fidelity(runs: Sequence[RecordedRun], policies: Iterable[str], message: Callable[[str], None]) -> Fidelity:
    """Simulate the jobs of recorded runs under policies, and compare.

    Parameters
    ----------
    policies
        Their names. The jobs run as long as they did; Slurm's own policy follows the run's ``slurm.conf``, all others
        have identical cores.
    message
        Called with what is done next.

    Raises
    ------
    OptionsError
        If there is no run.
    HdrlError
        If there is no such policy.
    """
    if not runs:
        raise OptionsError("no recorded run is given, expected at least one folder")
    names = [normalise_policy_name(name) for name in policies]
    floor = [
        distance_between(first.asked[:, 0], first.start_s, second.start_s)
        for first, second in itertools.combinations(runs, 2)
        if first.is_repeated_by(second)
    ]
    distances = {}
    for name in names:
        message(f"simulating {len(runs)} recorded runs under {name}")
        distances[name] = tuple(_distance_of(run, name) for run in runs)
    return Fidelity(tuple(runs), tuple(floor), distances)


def _distance_of(run: RecordedRun, policy: str) -> Distance:
    at_s, cores, _, limit_min = run.asked.T
    rows = unknown_rows(len(at_s))
    rows["job_number"], rows["submit_s"] = np.arange(1, len(at_s) + 1), at_s
    rows["processors"] = rows["requested_processors"] = cores
    rows["requested_s"] = np.where(limit_min > 0, limit_min * 60.0, run.ran_s)
    rows["run_s"] = run.ran_s
    platform = _site(run) if policy in SITE_POLICIES else read_platform(f"{PREFIX}{run.n_cores}")
    workload = workload_from_swf(SwfLog(run.folder.name, rows, {}), platform, bandwidth="none", shift=False)
    trace = simulate(platform, workload, policy, energy=False)
    return distance_between(at_s, run.start_s, trace.records["start_s"])


def _site(run: RecordedRun) -> Platform:
    """Return the machine of a run with the rules of its ``slurm.conf``.

    Raises
    ------
    ReadError
        If that is of another machine.
    """
    path = run.folder / "slurm.conf"
    conf = read_conf(path)
    if n_cores(conf) != run.n_cores:
        raise ReadError(path, f"names nodes with {n_cores(conf):,} cores, expected {run.n_cores:,} as in jobs.json")
    return replace(build_platform(platform_of(conf), name=run.folder.name), site=rules_of(conf))


def fidelity_text(found: Fidelity) -> str:
    """Return the comparison as a table, with the floor beside it."""
    n_jobs = sum(len(run.asked) for run in found.runs)
    rows = [("", "pairs in another order", "mean wait, ratio")]
    rows += [(name, *_means(distances)) for name, distances in found.distances.items()]
    if found.floor:
        rows.append(("Slurm itself (the floor)", *_means(found.floor, is_floor=True)))
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    lines = [f"{len(found.runs)} recorded runs, {n_jobs:,} jobs; means over runs, against what Slurm did"]
    lines += [f"{a:<{widths[0]}}  {b:>{widths[1]}}  {c:>{widths[2]}}" for a, b, c in rows]
    if not found.floor:
        lines.append("no run repeats another, so that the floor is unknown: give two runs of the same jobs")
    return "\n".join(lines)


def _means(distances: Sequence[Distance], *, is_floor: bool = False) -> tuple[str, str]:
    ratios = np.array([one.wait_ratio for one in distances])
    if is_floor:  # which of two equal runs comes first is arbitrary
        ratios = np.maximum(ratios, 1 / ratios)
    return f"{np.mean([one.discordant_share for one in distances]):.2%}", f"{np.mean(ratios):.3f}"
