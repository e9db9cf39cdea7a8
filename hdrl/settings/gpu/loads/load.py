"""The load: jobs as work, so that their run times follow from the GPUs that they get."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, Self, TypeAlias

import numpy as np
from numpy.lib.recfunctions import repack_fields
from numpy.typing import NDArray

from hdrl.base.arguments import check_type
from hdrl.base.errors import WorkloadError
from hdrl.base.windows import check_window
from hdrl.compiled.records import of
from hdrl.settings.gpu.cluster.machine import GpuCluster
from hdrl.settings.gpu.cluster.throughputs import Profile, Throughputs
from hdrl.settings.gpu.loads.groups import groups_of
from hdrl.settings.gpu.loads.values import JobValues
from hdrl.trace.model import repr_of_load

WHOLE_GPU = 1000
"""Shares of a GPU are counted in thousandths."""

JOB_DTYPE = np.dtype(
    [
        *of(np.float64, "arrival_s", "work"),
        *of(np.int64, "n_gpus", "gpu_milli", "cpu_milli", "memory_mib", "kind", "constraint", "user"),
        *of(np.float64, "priority", "requested_s", "deadline_s"),
        *of(np.int64, "group", "name"),
        ("wait_s", np.float64),
    ]
)
"""A job.

``work`` counts the steps of its kind where there is a table of throughputs, else seconds on GPUs of mean speed;
``gpu_milli`` is what it takes of each of its ``n_gpus`` (a share is of one GPU alone); ``cpu_milli`` and ``memory_mib``
are of the whole job; ``kind``, ``constraint``, ``user`` are numbers, -1 for none, and so are ``group``, a virtual
cluster or an account, and ``name``, what names of jobs begin with; ``requested_s`` is what its user says that it takes,
NaN if nothing; ``deadline_s`` is infinite without one; ``wait_s`` is how long it waited in the trace, 0 if unknown.
"""

_FOR_HISTORY = ("group", "name", "wait_s")
"""Columns that predictions alone use."""

Speeds: TypeAlias = Literal["flops", "equal"]
"""Speeds of types for jobs without throughputs: proportional to their FLOPS, or equal."""


@dataclass(frozen=True)
class GpuLoad:
    """Jobs in the order of their arrival.

    Attributes
    ----------
    name
        Name of the load.
    jobs
        Array of `JOB_DTYPE`.
    kinds, users
        Names of kinds of jobs and of users, by their numbers.
    constraints
        Names of the types of GPUs that jobs may run on, by the number of the constraint.
    throughputs
        Steps per second of kinds on types; ``None``: by the speeds of types.
    speeds
        Speeds of types where there are no throughputs.
    spread_speed
        Speed of gangs on more nodes than they would need, as a share, where there are no throughputs.
    n_dropped
        Numbers of items of the source that were left out, by reason.
    faults
        Faults of the source, a line each.
    origin
        Its source.
    values
        Values of jobs that adapt and are ended at their deadlines; ``None``: jobs run until they are done.
    whole, first
        The load that a window was cut from, and the position of its first job there: what came before is its history.
    """

    name: str
    jobs: NDArray[np.void]
    kinds: tuple[str, ...] = ()
    users: tuple[str, ...] = ()
    constraints: tuple[tuple[str, ...], ...] = ()
    throughputs: Throughputs | None = None
    speeds: Speeds = "flops"
    spread_speed: float = 1.0
    n_dropped: Mapping[str, int] = field(default_factory=dict)
    faults: Sequence[str] = ()
    origin: Mapping[str, Any] = field(default_factory=dict)
    values: JobValues | None = None
    whole: GpuLoad | None = None
    first: int = 0

    def __repr__(self) -> str:
        """Return one line, see `repr_of_load`."""
        return repr_of_load(self)

    def __post_init__(self) -> None:
        jobs = self.jobs
        if not len(jobs):
            raise WorkloadError(f"{self.name}: holds no job")
        if not 0.0 < self.spread_speed <= 1.0:
            raise WorkloadError(f"{self.name}: spread_speed is {self.spread_speed}, expected more than 0, at most 1")
        if np.any(np.diff(jobs["arrival_s"]) < 0):
            raise WorkloadError(f"{self.name}: jobs are not in the order of their arrival")
        is_wrong = (jobs["n_gpus"] < 0) | ~np.isfinite(jobs["arrival_s"]) | ~(jobs["work"] > 0)
        is_wrong |= (jobs["gpu_milli"] < 0) | (jobs["gpu_milli"] > WHOLE_GPU) | ~np.isfinite(jobs["work"])
        is_wrong |= (jobs["gpu_milli"] < WHOLE_GPU) & (jobs["n_gpus"] > 1)
        is_wrong |= (jobs["cpu_milli"] < 0) | (jobs["memory_mib"] < 0) | ~np.isfinite(jobs["priority"])
        if np.any(is_wrong):
            position = int(np.argmax(is_wrong))
            raise WorkloadError(f"{self.name}: job {position} has impossible values: {_shown(jobs[position])}")

    @property
    def n_items(self) -> int:
        """Number of jobs."""
        return len(self.jobs)

    def window(self, start: int, n_items: int) -> Self:
        """Return consecutive jobs; dates stay as they are. See `hdrl.trace.Load.window`."""
        check_window(self.name, start, n_items, len(self.jobs))
        if n_items == len(self.jobs):
            return self
        values = None if self.values is None else self.values.window(start, n_items)
        whole, first = self.whole or self, self.first + start
        return replace(self, jobs=self.jobs[start : start + n_items], values=values, whole=whole, first=first)

    def sha256(self) -> str:
        """Return the SHA-256 of all jobs and of what their run times follow from."""
        always = [name for name in JOB_DTYPE.names or () if name not in _FOR_HISTORY]
        digest = hashlib.sha256(repack_fields(self.jobs[always]).tobytes())
        if (self.jobs["group"] >= 0).any() or (self.jobs["name"] >= 0).any():
            digest.update(repack_fields(self.jobs[list(_FOR_HISTORY)]).tobytes())
        table = None if self.throughputs is None else self.throughputs.sha256()
        rest = [self.kinds, self.constraints, table, self.speeds, self.spread_speed]
        if self.values is not None:
            rest.append(self.values.sha256())
        digest.update(json.dumps(rest).encode())
        return digest.hexdigest()

    def profiles(self, cluster: GpuCluster) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return the profile of each job, and the work per second of each profile on the types of a cluster.

        The second array has shape ``(n_profiles, n_types, 2)``: together, spread.

        Raises
        ------
        WorkloadError
            If the throughputs say nothing about a kind or a type.
        """
        if self.throughputs is None:
            speeds = cluster.speeds if self.speeds == "flops" else np.ones(len(cluster.types))
            return np.zeros(len(self.jobs), dtype=np.int64), np.stack([speeds, speeds * self.spread_speed], axis=1)[
                None
            ]
        numbers, profiles = self.profiles_of()
        return numbers, self.throughputs.rates(cluster, profiles)

    def profiles_of(self) -> tuple[NDArray[np.int64], list[Profile]]:
        """Return for each job the number of its profile, and the profiles: kinds and numbers of GPUs.

        Raise WorkloadError if a job has no kind.
        """
        pairs = np.stack([self.jobs["kind"], self.jobs["n_gpus"]], axis=1)
        found, numbers = np.unique(pairs, axis=0, return_inverse=True)
        if found[0, 0] < 0:
            position, table = int(np.argmax(self.jobs["kind"] < 0)), self.throughputs
            name = "a table of throughputs" if table is None else table.name
            raise WorkloadError(f"{self.name}: job {position} has no kind, so that {name} is of no use")
        return numbers.reshape(-1).astype(np.int64), [(self.kinds[kind], int(size)) for kind, size in found.tolist()]

    @cached_property
    def groups(self) -> NDArray[np.int64]:
        """The groups of each job for predictions, see `hdrl.settings.gpu.loads.groups`."""
        return groups_of(self.jobs, -(-self.jobs["n_gpus"] * self.jobs["gpu_milli"] // WHOLE_GPU))

    def held_gpus(
        self, stays: NDArray[np.void], units: NDArray[np.int32], *, is_packed: bool = False
    ) -> NDArray[np.float64]:
        """Return the number of GPUs that each stay holds, see `hdrl.trace.model.TaskTrace`.

        With ``is_packed``, jobs may share GPUs as pairs do, whose stays begin together on the same GPUs; each holds a
        half.
        """
        share = self.jobs["gpu_milli"][stays["task"]] / WHOLE_GPU * stays["n_units"]
        if is_packed:
            where = np.column_stack([stays["start_s"], units[stays["first_unit"]]])
            _, each, counts = np.unique(where, axis=0, return_inverse=True, return_counts=True)
            share = share / counts[each.reshape(-1)]
        return np.asarray(share)

    def allowed(self, cluster: GpuCluster) -> NDArray[np.int64]:
        """Return for each job the types that it may run on, as bits; types that the cluster lacks are left out."""
        names = {one.name.lower(): number for number, one in enumerate(cluster.types)}
        masks = [sum(1 << names[name.lower()] for name in types if name.lower() in names) for types in self.constraints]
        masks.append((1 << len(cluster.types)) - 1)  # where -1 looks
        numbers, rates = self.profiles(cluster)
        is_fast = ((rates[:, :, 0] > 0) * (1 << np.arange(len(cluster.types)))).sum(axis=1)
        return np.asarray(np.array(masks, dtype=np.int64)[self.jobs["constraint"]] & is_fast[numbers])

    def best_rates(self, cluster: GpuCluster) -> NDArray[np.float64]:
        """Return the work per second of each job on the fastest type that it may run on; 0 if there is none."""
        numbers, rates = self.profiles(cluster)
        bits = (self.allowed(cluster)[:, None] >> np.arange(len(cluster.types))) & 1
        return np.asarray((rates[numbers, :, 0] * bits).max(axis=1))

    def isolated_s(self, cluster: GpuCluster) -> NDArray[np.float64]:
        """Return the time of each job on GPUs of its own of the fastest type that it may use; infinite without one."""
        with np.errstate(divide="ignore"):
            return np.asarray(self.jobs["work"] / self.best_rates(cluster))

    def mean_s(self, cluster: GpuCluster) -> NDArray[np.float64]:
        """Return the duration of each job at the mean speed of the GPUs that it may run on, in seconds."""
        numbers, rates = self.profiles(cluster)
        bits = (self.allowed(cluster)[:, None] >> np.arange(len(cluster.types))) & 1
        weights = bits * cluster.gpus_of_type
        with np.errstate(divide="ignore", invalid="ignore"):
            mean = (rates[numbers, :, 0] * weights).sum(axis=1) / weights.sum(axis=1)
            return np.asarray(self.jobs["work"] / mean)

    def gpu_seconds(self, cluster: GpuCluster) -> NDArray[np.float64]:
        """Return the GPU time of each job at the mean speed of the GPUs that it may run on."""
        return np.asarray(self.mean_s(cluster) * self.jobs["n_gpus"] * self.jobs["gpu_milli"] / WHOLE_GPU)

    def offered(self, cluster: GpuCluster) -> float | None:
        """Return the GPU time that arrives per time, as a share of all GPUs; ``None`` where all jobs come at once."""
        span_s = float(self.jobs["arrival_s"][-1] - self.jobs["arrival_s"][0])
        if span_s <= 0.0:
            return None
        return float(self.gpu_seconds(cluster).sum()) / (span_s * cluster.n_units)

    def scaled(self, cluster: GpuCluster, offered_load: float) -> GpuLoad:
        """Return the same jobs with arrivals stretched to an offered load of more than 0.

        Raises
        ------
        WorkloadError
            If the load has none, because all jobs come at once, or dates would exceed what numbers can hold.
        """
        now = self.offered(cluster)
        first = self.jobs["arrival_s"][0] if len(self.jobs) else 0.0
        factor = float(now) / float(offered_load) if now is not None and offered_load > 0.0 else math.inf
        if not math.isfinite(factor * float(self.jobs["arrival_s"].max(initial=0.0) - first)):
            raise WorkloadError(f"{self.name}: cannot be scaled to an offered load of {offered_load}")
        jobs = self.jobs.copy()
        jobs["arrival_s"] = first + (jobs["arrival_s"] - first) * factor
        jobs["deadline_s"] += jobs["arrival_s"] - self.jobs["arrival_s"]
        origin = {**self.origin, "offered_load": offered_load}
        return replace(self, jobs=jobs, origin=origin, whole=None, first=0)


_SHOWN = ("arrival_s", "work", "n_gpus", "gpu_milli", "cpu_milli", "memory_mib", "priority")


def _shown(job: NDArray[np.void]) -> str:
    return ", ".join(f"{name} {job[name]}" for name in _SHOWN)


def new_jobs(n: int) -> NDArray[np.void]:
    """Return jobs of one whole GPU each about which nothing else is said."""
    jobs = np.zeros(n, dtype=JOB_DTYPE)
    for name in ("kind", "constraint", "user", "group", "name"):
        jobs[name] = -1
    jobs["n_gpus"], jobs["gpu_milli"], jobs["work"], jobs["priority"] = 1, WHOLE_GPU, 1.0, 1.0
    jobs["requested_s"], jobs["deadline_s"] = np.nan, np.inf
    return jobs


def check_runs_on(load: GpuLoad, cluster: GpuCluster) -> None:
    """Refuse loads with a job that a cluster can never run.

    Raise WorkloadError if there is such a job: which one, its request, and the largest node.
    """
    check_type("load", load, GpuLoad, "what hdrl.gpu.read_trace returns")
    check_type("cluster", cluster, GpuCluster, "what hdrl.gpu.read_cluster returns")
    jobs, allowed = load.jobs, load.allowed(cluster)
    for position in np.flatnonzero(allowed == 0)[:1].tolist():
        types = load.constraints[jobs["constraint"][position]] if jobs["constraint"][position] >= 0 else ()
        raise WorkloadError(
            f"{load.name}: job {position} may run on {' or '.join(types) or 'no type'} alone,"
            f" {cluster.name} has {', '.join(cluster.unit_kinds)}"
        )
    wanted = np.stack([allowed, jobs["n_gpus"], jobs["cpu_milli"], jobs["memory_mib"]], axis=1)
    kinds, firsts = np.unique(wanted, axis=0, return_index=True)
    for kind, position in zip(kinds.tolist(), firsts.tolist(), strict=True):
        if not _fits_empty(cluster, *kind):
            has = ", ".join(f"{count} {name}" for name, count in cluster.unit_kinds.items())
            raise WorkloadError(
                f"{load.name}: job {position} asks for {kind[1]} GPUs, {kind[2] / 1000:g} cores and {kind[3]} MiB,"
                f" which {cluster.name} cannot give it even when it is empty: it has {has}, and a job's GPUs are of one"
                " type; load.unrunnable 'leave out' goes on without such jobs"
            )


def without_unrunnable(load: GpuLoad, cluster: GpuCluster) -> GpuLoad:
    """Return a load without the jobs that a cluster can never run, and with a line that says how many there were.

    Raise WorkloadError if no job is left.
    """
    jobs, allowed = load.jobs, load.allowed(cluster)
    wanted = np.stack([allowed, jobs["n_gpus"], jobs["cpu_milli"], jobs["memory_mib"]], axis=1)
    kinds, numbers = np.unique(wanted, axis=0, return_inverse=True)
    fits = np.array([bool(kind[0]) and _fits_empty(cluster, *kind) for kind in kinds.tolist()])[numbers.reshape(-1)]
    if fits.all():
        return load
    if not fits.any():
        raise WorkloadError(f"{load.name}: {cluster.name} can run none of its jobs, even when it is empty")
    n = int((~fits).sum())
    note = f"left out: {n:,} jobs that {cluster.name} can never run, the widest of {jobs['n_gpus'][~fits].max()} GPUs"
    dropped = {**load.n_dropped, "jobs that can never run": n}
    faults = (*load.faults, note)
    return replace(load, jobs=jobs[fits], n_dropped=dropped, faults=faults, whole=None, first=0)


def _fits_empty(cluster: GpuCluster, allowed: int, n_gpus: int, cpu_milli: int, memory_mib: int) -> bool:
    """Return whether some type has the GPUs, on nodes with cores and memory in proportion."""
    nodes = cluster.nodes
    for number in range(len(cluster.types)):
        if not allowed >> number & 1:
            continue
        mine = nodes[nodes["gpu_type"] == number]
        if n_gpus <= 1:
            usable = (mine["n_gpus"] >= n_gpus) & (mine["cpu_milli"] >= cpu_milli) & (mine["memory_mib"] >= memory_mib)
            if np.any(usable):
                return True
            continue
        per_gpu = -(-cpu_milli // n_gpus), -(-memory_mib // n_gpus)
        most = mine["n_gpus"].copy()
        for each, there in zip(per_gpu, (mine["cpu_milli"], mine["memory_mib"]), strict=True):
            if each > 0:
                most = np.minimum(most, there // each)
        if most.sum() >= n_gpus:
            return True
    return False
