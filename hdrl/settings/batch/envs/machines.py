"""From what users name (a workload, a platform, a number of processors) to the jobs of a pool of processors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hdrl.base.arguments import listed
from hdrl.base.errors import OptionsError, PlatformError, suggest
from hdrl.envs.episodes import Part
from hdrl.envs.requests import check_flags, checked_count
from hdrl.settings.batch.identical_cores.table import JobColumns
from hdrl.settings.batch.kernel.energy import MB_PER_GB
from hdrl.settings.batch.platform import read_platform
from hdrl.settings.batch.platform.homogeneous import PREFIX
from hdrl.settings.batch.platform.model import Platform
from hdrl.settings.batch.platform.reader import given_platform
from hdrl.settings.batch.workload import check_fits, file_format, lublin_log, read_swf, read_workload, workload_from_swf
from hdrl.settings.batch.workload.model import NO_WALLTIME, Workload
from hdrl.settings.batch.workload.read import find_workload
from hdrl.settings.batch.workload.statistics import known_or_requested_times, reference_run_times
from hdrl.settings.batch.workload.swf_jobs import SwfChoices

WorkloadLike: TypeAlias = Workload | str | Path

_SAME_COLUMNS = ("submit_s", "requested_time_s", "memory_mib", "bandwidth_gbps", "user", "group", "executable")
"""Columns of the jobs of a workload that a pool takes as they are."""

_HEADER_PROCESSORS = ("MaxProcs", "MaxNodes")

DEFAULT_N_JOBS = 4096
DEFAULT_N_PROCS = 256
DEFAULT_SEED = 2009


@dataclass(frozen=True, slots=True)
class PoolInputs:
    """The machine and the jobs of one or more workloads, one after the other."""

    platforms: tuple[Platform, ...]  # the machine of each workload; all cores of one are equally fast
    workloads: tuple[Workload, ...]
    orders: tuple[NDArray[np.int64], ...]  # for each, the indices of its jobs in the order of submission
    first_jobs: tuple[int, ...]  # position of the first job of each workload in the columns
    columns: JobColumns
    is_killed: NDArray[np.bool_]  # True where the walltime ends the job

    @property
    def platform(self) -> Platform:
        """The machine of the first workload."""
        return self.platforms[0]

    @property
    def n_procs(self) -> NDArray[np.int64]:
        """Number of processors of the machine of each job."""
        sizes = [one.n_jobs for one in self.workloads]
        return np.repeat([one.n_cores for one in self.platforms], sizes).astype(np.int64)

    def with_logs(self, logs: Sequence[WorkloadLike]) -> PoolInputs:
        """Return the same and further logs, each on as many identical processors as its header says.

        Raises
        ------
        HdrlError
            If one cannot be read, or does not tell its processors.
        """
        every = [self, *(pool_inputs(one, None, None) for one in logs)]
        columns = [[getattr(one.columns, part.name) for one in every] for part in fields(JobColumns)]
        sizes = [one.n_jobs for inputs in every for one in inputs.workloads]
        return PoolInputs(
            platforms=tuple(platform for one in every for platform in one.platforms),
            workloads=tuple(workload for one in every for workload in one.workloads),
            orders=tuple(order for one in every for order in one.orders),
            first_jobs=tuple(np.cumsum([0, *sizes[:-1]]).tolist()),
            columns=JobColumns(*(np.concatenate(column) for column in columns)),
            is_killed=np.concatenate([one.is_killed for one in every]),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolSource:
    """Source of the machine and the jobs of a pool, see `envs.job_pick.JobPickVectorEnv`."""

    workload: WorkloadLike | Sequence[WorkloadLike] | None = None
    platform: Platform | str | Path | None = None
    n_procs: int | None = None
    more_logs: Sequence[str] = ()
    kill: bool | None = None

    def __post_init__(self) -> None:
        if self.kill is not None:
            check_flags(kill=self.kill)

    def inputs(self, part: Part, *, keeps_dates: bool, **reading: Any) -> tuple[PoolInputs, Part]:
        """Return the machine and the jobs, and a part of the first workload as it means the same of further ones.

        Raises
        ------
        HdrlError
            As `pool_inputs`; and if jobs would be killed that are not to be.
        """
        found = pool_inputs(self.workload, self.platform, self.n_procs, keeps_dates=keeps_dates, **reading)
        if self.more_logs:
            part = same_shares(part, found.workloads[0].n_jobs)
            found = found.with_logs(self.more_logs)
        if self.kill is False and found.is_killed.any():
            raise OptionsError("kill is False, but walltimes end jobs of the workload; read it without walltimes")
        return found, part


def check_choices(choices: Iterable[str], arguments: Iterable[str]) -> None:
    """Refuse unknown arguments."""
    for name in choices:
        if name not in SwfChoices.__annotations__:
            known = {*SwfChoices.__annotations__, *arguments}
            raise OptionsError(f"no argument or workload option {name!r}; {suggest(name, known)}")


def same_shares(part: Part, n_jobs: int) -> Part:
    """Return a part of a workload as shares of its jobs, which mean the same of other workloads."""
    if isinstance(part, str):
        return part
    first, last = part
    is_positions = isinstance(first, int) and isinstance(last, int)
    return (first / n_jobs, last / n_jobs) if is_positions else part


def pool_inputs(
    workload: WorkloadLike | Sequence[WorkloadLike] | None,
    platform: Platform | str | Path | None,
    n_procs: int | None,
    *,
    needs_identical: bool = True,
    needs_run_times: bool = True,
    keeps_dates: bool = False,
    **choices: Any,
) -> PoolInputs:
    """Return the jobs of workloads on a machine of identical processors; jobs are killed at their walltimes.

    Parameters
    ----------
    workload
        A workload, a file, the name of a shipped one, or several of these; ``None``: jobs of the Lublin-Feitelson
        model.
    n_procs
        The number of processors instead of a platform; ``None``: what the header of a log says.
    needs_identical
        True if all cores must be equally fast.
    needs_run_times
        True if jobs that only other simulators run are refused, since nothing says how long they take.
    keeps_dates
        True if a log that is read here keeps its dates, unless ``choices`` say something else.
    **choices
        Choices for reading logs, see `workload.workload_from_swf`; by default without bandwidth.

    Raises
    ------
    OptionsError
        If the machine is unknown, or contradicts itself; or if a workload that has been read is to be read
        otherwise.
    PlatformError
        If its cores are not equally fast.
    WorkloadError
        If it can never run a job.
    """
    expected = "a name, a file, or what hdrl.read_workload returns"
    given = [None] if workload is None else listed("workload", workload, (Workload, str, Path), expected)
    if choices and any(isinstance(one, Workload) for one in given):
        raise OptionsError(f"{next(iter(choices))}: it applies to logs, but a Workload has been read already")
    machine = _machine(given, platform, n_procs)
    if needs_identical and len(np.unique(machine.peak_flops)) > 1:
        raise PlatformError(f"{machine.name}: its cores differ in speed, expected identical ones")
    choices = {"bandwidth": "none", **({"shift": False} if keeps_dates else {})} | choices
    workloads = tuple(check_fits(_read(one, machine, choices), machine) for one in given)
    orders = tuple(np.argsort(one.jobs["submit_s"], kind="stable").astype(np.int64) for one in workloads)
    sizes = [one.n_jobs for one in workloads]
    jobs = np.concatenate([one.jobs[order] for one, order in zip(workloads, orders, strict=True)])
    run_times = reference_run_times if needs_run_times else known_or_requested_times
    run_s = np.concatenate([run_times(one, machine)[order] for one, order in zip(workloads, orders, strict=True)])
    is_killed = (jobs["walltime_s"] != NO_WALLTIME) & (jobs["walltime_s"] < run_s)
    columns = JobColumns(
        run_s=np.where(is_killed, jobs["walltime_s"], run_s),
        n_requested=jobs["cores"],
        **{name: jobs[name] for name in _SAME_COLUMNS},
    )
    firsts = tuple(np.cumsum([0, *sizes[:-1]]).tolist())
    return PoolInputs((machine,) * len(workloads), workloads, orders, firsts, columns, np.asarray(is_killed))


def _machine(
    workloads: Sequence[WorkloadLike | None], platform: Platform | str | Path | None, n_procs: int | None
) -> Platform:
    if platform is not None:
        machine = given_platform(platform)
        if n_procs is not None and n_procs != machine.n_cores:
            raise OptionsError(f"n_procs is {n_procs}, but platform {machine.name} has {machine.n_cores} cores")
        return machine
    if any(isinstance(one, Workload) for one in workloads):
        raise OptionsError("platform is missing: a Workload needs the one that it was made for")
    n = _processors_of(workloads[0]) if n_procs is None else n_procs
    return read_platform(f"{PREFIX}{checked_count('n_procs', n)}")


def _processors_of(workload: WorkloadLike | None) -> int:
    """Return the number of processors in the header of a log."""
    if workload is None:
        return DEFAULT_N_PROCS
    path = find_workload(str(workload))
    if file_format(path) == "swf":
        header = read_swf(path, max_rows=1).header
        for name in _HEADER_PROCESSORS:
            if (number := number_in_header(header, name)) is not None:
                return number
    raise OptionsError(f"n_procs is missing, and {path} does not name it ({' or '.join(_HEADER_PROCESSORS)})")


def number_in_header(header: Mapping[str, str], name: str) -> int | None:
    """Return the number that the header of a log says, ``None`` if it says none above 0."""
    text = header.get(name, "").strip()
    return int(text) if text.isdecimal() and len(text) < 10 and int(text) > 0 else None


def _read(workload: WorkloadLike | None, machine: Platform, choices: dict[str, Any]) -> Workload:
    if isinstance(workload, Workload):
        return workload
    if workload is None:
        log = lublin_log(DEFAULT_N_JOBS, machine.n_cores, seed=DEFAULT_SEED)
        return workload_from_swf(log, machine, **choices)
    return read_workload(workload, machine, **choices)


def unpoolable_reason(platform: Platform, workload: Workload) -> str | None:
    """Return why a pool of processors does not simulate a machine and jobs exactly; ``None`` if it does.

    A pool knows processors of one speed, and walltimes. Whether memory and bandwidth matter depends on what is decided;
    what could matter counts.
    """
    if platform.site is not None:
        return f"{platform.name} has the rules of a site (site_rules=false leaves them out)"
    if len(np.unique(platform.peak_flops)) > 1:
        return f"the cores of {platform.name} differ in speed"
    most_mib, most_gbps = (float(workload.jobs[name].max(initial=0.0)) for name in ("memory_mib", "bandwidth_gbps"))
    cores_of_processor = np.bincount(platform.processor_of_core, minlength=platform.n_processors)
    cores_of_node = np.bincount(platform.node_of_processor[platform.processor_of_core], minlength=platform.n_nodes)
    if np.any(most_mib * cores_of_node > platform.memory_mib):
        return f"jobs of {workload.name} take up to {most_mib:g} MiB per core, so that nodes may run short of memory"
    curved = len(platform.curves) > 0
    has_contention = curved or (platform.rules is not None and len(platform.rules.contention.speed_factors) > 0)
    capacity_gbps = platform.curves[:, 1] / MB_PER_GB if curved else platform.bandwidth_gbps
    if platform.is_fitted:
        return f"the cores of {platform.name} slow each other down by fits, whatever they demand"
    if has_contention and np.any(most_gbps * cores_of_processor > capacity_gbps):
        return f"jobs of {workload.name} take up to {most_gbps:g} GB/s per core, so that they may slow each other down"
    return None
