"""Rules of a site and requests of its jobs, as flat arrays, both immutable.

`SiteRules` belongs to a platform, `SiteJobs` to a workload. Terms and defaults are those of Slurm's slurm.conf.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from hdrl.base.hashing import columns, sha256_of
from hdrl.compiled.records import of

UNLIMITED = -1
"""Value of whole numbers for "no limit"; dates and durations have infinity."""

NODE_DTYPE = np.dtype(
    [("cores", np.int32), ("memory_mib", np.float64), ("gpus", np.int32), ("features", np.uint64), ("weight", np.int64)]
)
"""A node: its cores, memory and GPUs, a bit per feature that it has, and Slurm's weight (low ones are taken first)."""

PARTITION_DTYPE = np.dtype(
    [
        *of(np.int32, "tier", "job_factor"),
        *of(np.float64, "max_time_s", "default_time_s"),
        *of(np.int32, "min_nodes", "max_nodes"),
        *of(np.int8, "is_exclusive", "preempt_mode"),
        ("grace_s", np.float64),
        ("qos", np.int32),
    ]
)
"""A partition: PriorityTier, PriorityJobFactor, MaxTime, DefaultTime, MinNodes, MaxNodes, OverSubscribe=EXCLUSIVE,
PreemptMode (`PreemptMode`), GraceTime, the QOS whose limits hold for all its jobs (`UNLIMITED`: none)."""

RESERVATION_DTYPE = np.dtype([("start_s", np.float64), ("end_s", np.float64)])
"""A reservation or maintenance window: its nodes start no job that by its limit would end within it."""

OUTAGE_DTYPE = np.dtype([("node", np.int32), ("start_s", np.float64), ("end_s", np.float64), ("is_drain", np.int8)])
"""A node that fails (its jobs are requeued) or is drained (they end in peace), and when it is back."""

QOS_DTYPE = np.dtype(
    [
        ("priority", np.int32),
        ("preempts", np.uint64),
        ("preempt_mode", np.int8),
        *of(np.float64, "grace_s", "exempt_s", "max_time_s"),
        *of(np.int64, "group_cores", "group_gpus", "job_cores", "job_gpus", "user_cores", "user_gpus"),
        *of(np.int32, "group_jobs", "group_submitted", "user_jobs", "user_submitted"),
        ("is_over_partition", np.int8),
    ]
)
"""A QOS: Priority, a bit per QOS that it preempts, PreemptMode, GraceTime, PreemptExemptTime (NaN: that of the site),
MaxWall; GrpTRES=cpu and =gres/gpu, MaxTRES of each job, MaxTRESPerUser; GrpJobs, GrpSubmitJobs, MaxJobsPerUser,
MaxSubmitJobsPerUser; Flags=OverPartQOS."""

ACCOUNT_DTYPE = np.dtype(
    [
        *of(np.int32, "parent", "shares"),
        ("max_time_s", np.float64),
        *of(np.int64, "group_cores", "group_gpus", "job_cores", "job_gpus"),
        *of(np.int32, "group_jobs", "group_submitted", "user_jobs", "user_submitted"),
    ]
)
"""An account, or a user in an account: its parent (-1: the root), Fairshare, MaxWall (NaN: that of the parent);
GrpTRES=cpu and =gres/gpu, MaxTRES of each job; GrpJobs, GrpSubmitJobs, MaxJobs and MaxSubmitJobs of each user.
Limits of each job and of each user are those of the parent where there is none, limits of a group hold as well."""

SITE_JOB_DTYPE = np.dtype(
    [
        ("partitions", np.uint64),
        ("nodes", np.int32),
        ("is_exclusive", np.int8),
        ("features", np.uint64),
        ("gpus", np.int32),
        *of(np.float64, "begin_s", "held_until_s", "cancelled_s"),
        *of(np.int32, "nice", "qos", "account", "association", "user", "array", "array_limit", "het_group"),
        ("site_factor", np.int64),
    ]
)
"""Requests of a job to a site beyond cores and time.

``partitions`` a bit per partition that it may run in (several: the first that fits, in the site's order; 0: the
default one); ``nodes`` the least number of nodes (`UNLIMITED`: as many as its cores need); ``features`` all of these;
``gpus`` on each node; ``begin_s`` and ``held_until_s`` earliest dates, in the clock of ``submit_s`` (minus infinity:
none); ``cancelled_s`` date at which its user cancels it (infinity: never); ``association`` its user in its account,
where the site limits that one; ``array`` index of its array and
``array_limit`` number of its tasks that may run at once; ``het_group`` jobs of one number are the components of a het
job: they start together, the one with the lowest row is the first. `UNLIMITED` where there is none.
"""


SITE_RECORD_DTYPE = np.dtype(
    [
        ("partition", np.int32),
        *of(np.float64, "eligible_s", "planned_s", "waited_s", "suspended_s", "lost_core_s"),
        ("n_restarts", np.int32),
    ]
)
"""Outcome of a job at a site, beside `simulation.trace.RECORD_DTYPE`.

``partition`` of its last run (-1: never); ``eligible_s`` last date from which it could start (-1: never);
``planned_s`` the first date that a plan gave it (-1: none); ``waited_s`` its waits from eligibility, those after
restarts included; ``suspended_s`` within its run; ``lost_core_s`` core seconds that it computed in vain, as it was
requeued or cancelled for others or its node failed.
"""


class DependencyKind(IntEnum):
    """Conditions on which a job that depends on another may start."""

    AFTER = 0
    """Once the other has started or was cancelled."""
    AFTER_OK = 1
    """Once it has ended well; else never."""
    AFTER_ANY = 2
    """Once it has ended, however."""
    AFTER_NOT_OK = 3
    """Once it has failed; else never."""
    SINGLETON = 4
    """Once all earlier jobs of its user and name have ended (``on`` is the last one of them)."""
    THINK = 5
    """Its user submits it ``delay_s`` after the other has ended, however; its date in the workload does not count."""


DEPENDENCY_DTYPE = np.dtype([("job", np.int32), ("on", np.int32), ("kind", np.int8), ("delay_s", np.float64)])
"""A dependency: rows of the workload, and how long after the other's date (``after:ID+minutes``, a think time)."""


class PreemptMode(IntEnum):
    """Fates of a job whose nodes another one takes."""

    OFF = 0
    REQUEUE = 1
    CANCEL = 2
    SUSPEND = 3


class HetjobPrio(IntEnum):
    """Priority of a het job in the backfill cycle, computed from the priorities of its components: bf_hetjob_prio."""

    OFF = 0
    """Each component has its own."""
    MIN = 1
    AVG = 2
    MAX = 3


class PreemptBy(IntEnum):
    """Criterion by which jobs may take the nodes of others: PreemptType."""

    NOTHING = 0
    PARTITION = 1
    QOS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Preemption:
    """Preemption at a site: its criterion, its exemptions and its cost."""

    by: PreemptBy = PreemptBy.NOTHING  # PreemptType
    exempt_s: float = 0.0  # PreemptExemptTime: run time before a job can be requeued or cancelled
    # PreemptParameters=youngest_first: among equals the job that started last, not that with the fewest nodes
    is_youngest_first: bool = False
    is_within: bool = False  # PreemptMode has WITHIN or PRIORITY somewhere, which nothing simulates
    # prolongation of a requeued job by each restart: no key of Slurm, measured at a site
    restart_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerParameters:
    """Parameters of Slurm's scheduling: the keys of SchedulerParameters in slurm.conf, in seconds.

    Defaults are Slurm's (22.05 to 25.05).
    """

    sched_interval_s: float = 60.0
    default_queue_depth: int = 100
    partition_job_depth: int = 0
    bf_interval_s: float = 30.0
    bf_resolution_s: float = 60.0
    bf_window_s: float = 1440.0 * 60.0
    bf_max_job_test: int = 500
    bf_max_job_user: int = 0
    bf_max_job_part: int = 0
    bf_continue: bool = False
    bf_min_age_reserve_s: float = 0.0
    bf_min_prio_reserve: int = 0
    bf_busy_nodes: bool = False
    bf_hetjob_prio: HetjobPrio = HetjobPrio.OFF
    launch_s: float = 0.0
    """Time from the decision to the start of a job: none in Slurm's own files, measured at a site."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PriorityWeights:
    """The multifactor priority; the keys PriorityWeight... of slurm.conf. All zero: first come, first served."""

    age: int = 0
    max_age_s: float = 7 * 86400.0
    fairshare: int = 0
    is_fair_tree: bool = True
    half_life_s: float = 7 * 86400.0
    calc_period_s: float = 300.0
    job_size: int = 0
    favor_small: bool = False
    is_relative_to_time: bool = False
    partition: int = 0
    qos: int = 0
    is_basic: bool = False
    """PriorityType=priority/basic: in the order of submission."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SiteRules:
    """The rules of a machine; names are in the order of what they name."""

    nodes: NDArray[np.void]  # array of `NODE_DTYPE`, in the order of the platform's nodes
    node_names: tuple[str, ...]
    partitions: NDArray[np.void]  # array of `PARTITION_DTYPE`
    partition_names: tuple[str, ...]
    partition_nodes: NDArray[np.bool_]  # the nodes of each, shape ``(n_partitions, n_nodes)``
    default_partition: int = 0  # the partition of jobs that name none
    feature_names: tuple[str, ...] = ()
    # array of `RESERVATION_DTYPE`, and the nodes of each, shape ``(n_reservations, n_nodes)``. Dates of reservations
    # and outages are those of the rules' own clock, see `SiteJobs.origin_s`
    reservations: NDArray[np.void] = field(default_factory=lambda: np.zeros(0, RESERVATION_DTYPE))
    reservation_nodes: NDArray[np.bool_] = field(default_factory=lambda: np.zeros((0, 0), np.bool_))
    outages: NDArray[np.void] = field(default_factory=lambda: np.zeros(0, OUTAGE_DTYPE))
    qos: NDArray[np.void] = field(default_factory=lambda: np.zeros(0, QOS_DTYPE))
    qos_names: tuple[str, ...] = ()
    accounts: NDArray[np.void] = field(default_factory=lambda: np.zeros(0, ACCOUNT_DTYPE))
    account_names: tuple[str, ...] = ()
    # users in accounts with limits or shares of their own, array of `ACCOUNT_DTYPE`, and what jobs call them
    associations: NDArray[np.void] = field(default_factory=lambda: np.zeros(0, ACCOUNT_DTYPE))
    association_names: tuple[str, ...] = ()
    # parameters of Slurm's scheduling, weights of priorities, and preemption
    scheduler: SchedulerParameters = SchedulerParameters()
    weights: PriorityWeights = PriorityWeights()
    preemption: Preemption = Preemption()
    over_time_limit_s: float = 0.0  # time that a job may run beyond its limit
    kill_wait_s: float = 0.0  # time that it then takes to end
    counts_memory: bool = False  # True if nodes give memory to jobs (CR_Core_Memory and its like)

    def sha256(self) -> str:
        """Return the SHA-256 of all that a simulation depends on, names included."""
        tables = ("nodes", "partitions", "reservations", "outages", "qos", "accounts", "associations")
        arrays = [(f"{name}.{column}", part) for name in tables for column, part in columns(getattr(self, name))]
        arrays += [(name, getattr(self, name)) for name in ("partition_nodes", "reservation_nodes")]
        kinds = ("node", "partition", "feature", "qos", "account", "association")
        names = [getattr(self, f"{kind}_names") for kind in kinds]
        rest = [self.default_partition, self.kill_wait_s, self.over_time_limit_s, self.counts_memory]
        return sha256_of(arrays, [*names, *rest, asdict(self.scheduler), asdict(self.weights), asdict(self.preemption)])

    def __eq__(self, other: object) -> bool:
        """Tell whether all fields are equal."""
        return self.sha256() == other.sha256() if isinstance(other, SiteRules) else NotImplemented

    def __hash__(self) -> int:
        """Return a hash that equal rules share."""
        return hash((self.node_names, self.partition_names))


def unlimited(dtype: np.dtype[np.void], n: int) -> NDArray[np.void]:
    """Return QOS (`QOS_DTYPE`), or accounts (`ACCOUNT_DTYPE`) below the root with a share each, without any limit."""
    rows = np.zeros(n, dtype=dtype)
    for name in dtype.names or ():
        if name.startswith(("group_", "job_", "user_")) or name == "parent":
            rows[name] = UNLIMITED
    if dtype == QOS_DTYPE:
        rows["max_time_s"], rows["exempt_s"] = np.inf, np.nan
    else:
        rows["max_time_s"], rows["shares"] = np.nan, 1
    return rows


def undemanding_jobs(n_jobs: int) -> NDArray[np.void]:
    """Return jobs that ask a site for nothing beyond cores and time, array of `SITE_JOB_DTYPE`."""
    jobs = np.zeros(n_jobs, dtype=SITE_JOB_DTYPE)
    for name in ("nodes", "qos", "account", "association", "user", "array", "array_limit", "het_group"):
        jobs[name] = UNLIMITED
    jobs["begin_s"] = jobs["held_until_s"] = -np.inf
    jobs["cancelled_s"] = np.inf
    return jobs


def components_of(groups: NDArray[np.int32]) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Return the first component of the het job of each job, and the next one; the only one of its number is no such.

    Parameters
    ----------
    groups
        Jobs of one number, at least 0, are components of one het job; the one with the lowest row is the first.
    """
    first = np.full(len(groups), UNLIMITED, np.int32)
    after = first.copy()
    parts = np.flatnonzero(groups >= 0)
    parts = parts[np.argsort(groups[parts], kind="stable")]
    _, begins, counts = np.unique(groups[parts], return_index=True, return_counts=True)
    is_alone = np.repeat(counts == 1, counts)
    first[parts] = np.where(is_alone, UNLIMITED, np.repeat(parts[begins], counts))
    same = groups[parts[1:]] == groups[parts[:-1]]
    after[parts[:-1][same]] = parts[1:][same]
    return first, after


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SiteJobs:
    """Requests of the jobs of a workload to a site."""

    jobs: NDArray[np.void]  # array of `SITE_JOB_DTYPE`, a row per row of the workload
    # array of `DEPENDENCY_DTYPE`, ordered by ``job``
    dependencies: NDArray[np.void] = field(default_factory=lambda: np.zeros(0, DEPENDENCY_DTYPE))
    # date 0 of the workload in the clock of the rules: 1970 in files. Reservations and outages are so much earlier in
    # the clock of the jobs
    origin_s: float = 0.0

    @property
    def has_think_times(self) -> bool:
        """True if jobs are submitted after the ends of others."""
        return bool(np.any(self.dependencies["kind"] == DependencyKind.THINK))

    def columns(self) -> list[tuple[str, NDArray[np.generic]]]:
        """Return all inputs of a simulation, by name."""
        origin = ("origin_s", np.array([self.origin_s]))
        return [
            *columns(self.jobs),
            *((f"dependency {name}", part) for name, part in columns(self.dependencies)),
            origin,
        ]

    def earlier(self, by_s: float) -> SiteJobs:
        """Return the same jobs for a workload whose dates are earlier by some seconds, as those of a window."""
        jobs = self.jobs.copy()
        for name in ("begin_s", "held_until_s", "cancelled_s"):
            jobs[name] -= by_s
        return replace(self, jobs=jobs, origin_s=self.origin_s + by_s)

    def take(self, indices: NDArray[np.int64]) -> SiteJobs:
        """Return the requests of some of the jobs; dependencies on jobs that are not among them are fulfilled.

        A job that was to follow such a job is submitted at its date in the workload.

        Parameters
        ----------
        indices
            Rows of these jobs, in their new order.
        """
        new = np.full(len(self.jobs), -1, np.int64)
        new[indices] = np.arange(len(indices))
        kept = self.dependencies[(new[self.dependencies["job"]] >= 0) & (new[self.dependencies["on"]] >= 0)].copy()
        kept["job"], kept["on"] = new[kept["job"]], new[kept["on"]]
        return replace(self, jobs=self.jobs[indices], dependencies=kept[np.argsort(kept["job"], kind="stable")])
