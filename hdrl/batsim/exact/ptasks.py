"""Parallel tasks: which executors compute how much, and exchange how many bytes, for each kind of profile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hdrl.base.errors import BatsimError
from hdrl.batsim.exact.context import ExactContext
from hdrl.batsim.exact.flows import Cpu, Work, transfers_of_matrix
from hdrl.batsim.exact.jobs import ExactJob
from hdrl.batsim.exact.machines import BatsimMachine
from hdrl.batsim.exact.profiles import DataStaging, Homogeneous, Parallel, ParallelStorage, Profile

Transfers = list[tuple[int, int, float]]
_NO_COMPUTATION_FLOP = 1e-10
"""A storage host may have this much to compute: Batsim takes it for nothing."""


def parallel_task(
    context: ExactContext, job: ExactJob, profile: Profile, cpus: list[Cpu], storage_mapping: Mapping[str, int]
) -> Work:
    """Return the parallel task of a profile on the host of each executor, with the machines of storage labels."""
    if isinstance(profile, Parallel | Homogeneous):
        flops, transfers = amounts(job, profile, len(cpus))
        check_computation(context, job, job.allocation, flops)
        # SimGrid takes a task of one executor for a plain computation, whatever bytes it has
        return Work(context.network, cpus, flops, transfers if len(cpus) > 1 else [])
    if isinstance(profile, ParallelStorage):
        return _with_storage(context, job, profile, cpus, storage_mapping)
    if isinstance(profile, DataStaging):
        ends = [
            _mapped(context, job, label, profile, storage_mapping).cpu for label in (profile.source, profile.target)
        ]
        return Work(context.network, ends, (0.0, 0.0), [(0, 1, profile.n_bytes)] if profile.n_bytes > 0 else [])
    raise AssertionError(profile)


def amounts(job: ExactJob, profile: Parallel | Homogeneous, n: int) -> tuple[Sequence[float], Transfers]:
    """Return the flop of each of ``n`` executors, and the bytes between them.

    Raise BatsimError if the profile is for another number of executors.
    """
    if isinstance(profile, Parallel):
        if n != len(profile.flops):
            raise BatsimError(
                f"job {job.id!r} has {n} executors, its profile {profile.name!r} is for {len(profile.flops)}: "
                "Batsim would stop here"
            )
        return profile.flops, transfers_of_matrix(n, profile.transfer_bytes)
    flops, size = profile.flops, profile.transfer_bytes
    if profile.total:
        flops, size = flops / n, size / n
    transfers = [(k, other, size) for k in range(n) for other in range(n) if other != k] if size > 0 else []
    return [flops] * n, transfers


def check_computation(context: ExactContext, job: ExactJob, machines: Sequence[int], flops: Sequence[float]) -> None:
    """Refuse computation on storage hosts, executor by executor in the order of the machines, as Batsim looks."""
    if not context.machines.storage:
        return
    for machine, amount in zip(machines, flops, strict=False):
        if context.machines[machine].is_storage and amount > _NO_COMPUTATION_FLOP:
            raise BatsimError(
                f"job {job.id!r}: {amount:g} flop on machine {machine} ({context.machines[machine].name}), which is a "
                "storage host: Batsim would stop here"
            )


def _with_storage(
    context: ExactContext,
    job: ExactJob,
    profile: ParallelStorage,
    executors: list[Cpu],
    storage_mapping: Mapping[str, int],
) -> Work:
    if storage_mapping:
        storage = _mapped(context, job, profile.storage, profile, storage_mapping)
    elif len(context.machines.storage) == 1:
        storage = context.machines.storage[0]
    else:
        raise BatsimError(
            f"job {job.id!r}: the scheduler gave no storage_mapping, and the platform has "
            f"{len(context.machines.storage)} storage hosts: Batsim would stop here"
        )
    cpus = [*executors, storage.cpu]
    last = len(cpus) - 1
    transfers: Transfers = []
    if profile.write_bytes > 0:
        transfers += [(k, last, profile.write_bytes) for k in range(last)]
    if profile.read_bytes > 0:
        transfers += [(last, k, profile.read_bytes) for k in range(last)]
    return Work(context.network, cpus, [0.0] * len(cpus), transfers)


def _mapped(
    context: ExactContext, job: ExactJob, label: str, profile: Profile, storage_mapping: Mapping[str, int]
) -> BatsimMachine:
    machine_id = storage_mapping.get(label)
    if machine_id is None:
        raise BatsimError(
            f"job {job.id!r}: storage_mapping has no {label!r}, which profile {profile.name!r} needs: "
            "Batsim would stop here"
        )
    if not 0 <= machine_id < len(context.machines) or not context.machines[machine_id].is_storage:
        raise BatsimError(f"job {job.id!r}: storage_mapping: machine {machine_id} is not a storage host")
    return context.machines[machine_id]
