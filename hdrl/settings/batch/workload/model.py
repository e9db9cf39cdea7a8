"""The workload: one row per job and the profiles that say what the jobs do, both immutable."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from hdrl.base.errors import WorkloadError
from hdrl.base.hashing import columns, sha256_of
from hdrl.base.windows import check_window
from hdrl.compiled.records import of
from hdrl.settings.batch.site_rules.model import SiteJobs
from hdrl.settings.batch.workload.history import LogHistory

NO_WALLTIME = -1.0
UNKNOWN = -1

JOB_DTYPE = np.dtype(
    [
        ("submit_s", np.float64),
        ("cores", np.int32),
        *of(np.float64, "walltime_s", "requested_time_s"),
        ("profile", np.int32),
        *of(np.float64, "memory_mib", "bandwidth_gbps"),
        *of(np.int32, "user", "group", "executable", "queue", "partition", "priority", "source"),
    ]
)
"""One job.

``submit_s`` submission date; ``cores`` requested cores, at least 1; ``walltime_s`` the job is killed after
that time (`NO_WALLTIME`: never); ``requested_time_s`` the user's estimate, which policies may look at;
``profile`` index into the profiles; ``memory_mib`` and ``bandwidth_gbps`` memory in MiB and memory bandwidth in
GB/s that each of its cores takes; ``user`` ... ``priority`` numbers of the log, `UNKNOWN` if absent;
``source`` index into `Workload.sources` (Batsim's w0, w1, ...).
"""


class StepKind(IntEnum):
    """Kind of one step of a job."""

    DELAY = 0
    """Sleeps ``amount`` seconds; the cores draw idle power."""
    COMPUTE = 1
    """Computes ``amount`` flop on each core; the slowest core sets the pace of all."""
    COMPUTE_TOTAL = 2
    """Computes ``amount`` flop altogether, an equal share on each core."""
    RETURN = 3
    """Takes no time; ends the job with its return code (the end of a composed profile that fails)."""


STEP_DTYPE = np.dtype([("kind", np.int8), ("amount", np.float64), ("return_code", np.int32)])
"""One step of a profile; a return code other than 0 ends the job as failed after that step."""


@dataclass(frozen=True, slots=True)
class Workload:
    """Jobs and their profiles.

    Attributes
    ----------
    name
        Name of the workload, from its file or model.
    jobs
        Array of `JOB_DTYPE`, read-only. Jobs of one date are submitted in its order: that of the file, but for files of
        Batsim, which sorts by full id *as text* (``w0!10`` before ``w0!2``).
    job_ids
        Id of each job within its source, as text (Batsim's ``job_id`` without ``w0!``).
    steps, first_step
        The steps of all profiles (`STEP_DTYPE`) and where each profile begins, with one end entry more.
    profile_names
        Name of each profile; unique within a source.
    sources
        Names of the sources, ``("w0",)`` unless several files were read.
    n_dropped
        Numbers of rows of the source that were left out, by reason.
    origin
        Its source: file, hash, model and parameters; goes into the provenance of a run.
    extra
        Contents of a Batsim file beyond our fields: per job the description as read, per profile the description as
        read. Empty where the workload does not come from Batsim JSON.
    history, positions
        The log that the jobs come from, and which of its jobs they are: what predictions of run times learn from
        (`workload.history`). ``None`` where there is no log.
    nodes
        On how many nodes the cores of each job are to be, shape ``(n_jobs,)``; ``None`` where the workload does not
        say. Only policies that choose nodes obey (`policies.node_policies`).
    requested_energy_j
        The energy that each core of a job needs as its user says, in joules, shape ``(n_jobs,)``; ``None`` where the
        workload does not say. Only policies that use energies read it (`policies.node_policies_energy`).
    site
        Requests of the jobs to the site whose rules the machine has; ``None``: none.
    not_simulated
        Profiles that the embedded simulator cannot run, by index, and why; they have no steps. Batsim and the exact
        engine run them.
    """

    name: str
    jobs: NDArray[np.void]
    job_ids: tuple[str, ...]
    steps: NDArray[np.void]
    first_step: NDArray[np.int64]
    profile_names: tuple[str, ...]
    sources: tuple[str, ...] = ("w0",)
    n_dropped: dict[str, int] = field(default_factory=dict)
    origin: dict[str, object] = field(default_factory=dict)
    extra: dict[str, object] = field(default_factory=dict)
    history: LogHistory | None = None
    positions: NDArray[np.int64] | None = None
    nodes: NDArray[np.int32] | None = None
    requested_energy_j: NDArray[np.float64] | None = None
    site: SiteJobs | None = None
    not_simulated: Mapping[int, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        """Return one line instead of all arrays."""
        return f"<Workload {self.name}: {self.n_jobs:,} jobs>"

    @property
    def n_jobs(self) -> int:
        """Number of jobs."""
        return len(self.jobs)

    @property
    def n_items(self) -> int:
        """Number of jobs: what is released, waits and runs."""
        return len(self.jobs)

    def sha256(self) -> str:
        """Return the SHA-256 of the jobs and profiles; the name and the origin do not count."""
        arrays = [*columns(self.jobs), *columns(self.steps), ("first_step", self.first_step)]
        # What is not there must not change the hashes of workloads without it.
        optional_columns = (("nodes", self.nodes), ("requested_energy_j", self.requested_energy_j))
        arrays += [(name, optional) for name, optional in optional_columns if optional is not None]
        arrays += [] if self.site is None else self.site.columns()
        return sha256_of(arrays, [self.job_ids, self.profile_names, self.sources])

    def submission_order(self) -> NDArray[np.int64]:
        """Job indices in the order of submission: by date, those of one date in the order of `jobs`.

        Jobs of different sources are submitted by different submitters; the order holds within each source.
        """
        return np.argsort(self.jobs["submit_s"], kind="stable").astype(np.int64)

    def check_simulated(self) -> None:
        """Refuse jobs that the embedded simulator cannot run.

        Raises
        ------
        WorkloadError
            If there is one.
        """
        for profile, why in self.not_simulated.items():
            users = np.flatnonzero(self.jobs["profile"] == profile)
            if len(users):
                raise WorkloadError(f"{why} (job {self.job_ids[users[0]]!r})")

    def take(self, indices: NDArray[np.int64]) -> Workload:
        """Return a workload of some of the jobs; the profiles stay as they are."""
        jobs = self.jobs[indices]
        jobs.flags.writeable = False
        extra = dict(self.extra)
        described = extra.get("jobs")
        if isinstance(described, list):
            extra["jobs"] = [described[i] for i in indices]
        ids = tuple(self.job_ids[i] for i in indices)
        known = {name: getattr(self, name) for name in ("positions", "nodes", "requested_energy_j")}
        taken = {name: column[indices] for name, column in known.items() if column is not None}
        site = None if self.site is None else self.site.take(indices)
        return replace(self, jobs=jobs, job_ids=ids, extra=extra, site=site, **taken)

    def window(self, start: int, n_jobs: int, *, shift: bool = True) -> Workload:
        """Return consecutive jobs, in the order of submission.

        Parameters
        ----------
        start
            Number of jobs that are submitted before the window, not negative.
        n_jobs
            Number of jobs in it, at least 1.
        shift
            True if its first job is submitted at date 0.

        Raises
        ------
        WorkloadError
            If the workload has no such window.
        """
        check_window(self.name, start, n_jobs, self.n_jobs)
        window = self.take(self.submission_order()[start : start + n_jobs])
        jobs = window.jobs.copy()
        first_s = float(jobs["submit_s"].min()) if shift else 0.0
        jobs["submit_s"] -= first_s
        jobs.flags.writeable = False
        origin = {**self.origin, "window_start": start, "window_n_jobs": n_jobs}
        site = None if window.site is None else window.site.earlier(first_s)
        return replace(window, jobs=jobs, origin=origin, site=site)


def in_batsims_order(workload: Workload) -> Workload:
    """Return a workload of one source whose jobs are in Batsim's order: by date, then by id as text (10 before 2)."""
    dates_s, ids = workload.jobs["submit_s"].tolist(), workload.job_ids
    order = sorted(range(workload.n_jobs), key=lambda job: (dates_s[job], ids[job]))
    in_order = order == list(range(workload.n_jobs))
    return workload if in_order else workload.take(np.array(order, dtype=np.int64))
