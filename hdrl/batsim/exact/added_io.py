"""Transfers that a scheduler adds to a job as it starts it (``additional_io_job``): one parallel task does both."""

from __future__ import annotations

from dataclasses import dataclass

from hdrl.base.errors import BatsimError
from hdrl.batsim.exact.context import ExactContext
from hdrl.batsim.exact.flows import Work, transfers_of_matrix
from hdrl.batsim.exact.jobs import ExactJob
from hdrl.batsim.exact.profiles import Composed, Homogeneous, Parallel, Profile
from hdrl.batsim.exact.ptasks import amounts, check_computation

_STOP = "Batsim would stop here"


@dataclass(slots=True, eq=False, repr=False)
class JobIo:
    """The profile of what is transferred, and the machines that take part, ascending."""

    profile: Profile
    machines: list[int]


def job_io(job: ExactJob, name: str, machines: list[int], where: str) -> JobIo:
    """Return the I/O to add to a job, by the name of a profile of its workload.

    Raise BatsimError if it cannot be merged with what the job does, WorkloadError if there is no such profile.
    """
    io = job.workload.part(name, where)
    _check_parts(job, job.profile, io, where)
    return JobIo(io, machines)


def _check_parts(job: ExactJob, profile: Profile, io: Profile, where: str) -> None:
    """Refuse profiles without like parts: Batsim would stop, or read beyond its lists."""
    if isinstance(io, Composed) != isinstance(profile, Composed):
        raise BatsimError(
            f"{where}: additional_io_job {io.name!r} and the job's profile {profile.name!r} must both be composed "
            f"or neither: {_STOP}"
        )
    if isinstance(io, Composed) and isinstance(profile, Composed):
        if len(io.sequence) != len(profile.sequence):
            raise BatsimError(
                f"{where}: additional_io_job {io.name!r} has {len(io.sequence)} parts, the job's profile "
                f"{profile.name!r} has {len(profile.sequence)}: {_STOP}"
            )
        for part, io_part in zip(profile.sequence, io.sequence, strict=True):
            _check_parts(job, job.workload.part(part, where), job.workload.part(io_part, where), where)


def task_with_io(context: ExactContext, job: ExactJob, profile: Profile, io: Profile, io_machines: list[int]) -> Work:
    """Return the parallel task of a job's profile and of what is added to it, on the machines of both."""
    machines = sorted({*job.allocation, *io_machines})
    position = {machine: k for k, machine in enumerate(machines)}
    n = len(machines)
    flops, sizes = [0.0] * n, [0.0] * n**2
    for part, part_machines in ((profile, job.allocation), (io, io_machines)):
        if not isinstance(part, Parallel | Homogeneous):
            raise BatsimError(
                f"job {job.id!r}: additional_io_job: profile {part.name!r} is of type "
                f"{part.description.get('type')!r}, expected parallel, parallel_homogeneous or "
                "parallel_homogeneous_total on both sides"
            )
        at = [position[machine] for machine in part_machines]
        part_flops, transfers = amounts(job, part, len(at))
        for k, amount in zip(at, part_flops, strict=True):
            flops[k] += amount
        for source, target, size in transfers:
            sizes[at[source] * n + at[target]] += size
    check_computation(context, job, machines, flops)
    cpus = [context.machines[machine].cpu for machine in machines]
    between = transfers_of_matrix(n, sizes) if n > 1 else []
    return Work(context.network, cpus, flops, between)
