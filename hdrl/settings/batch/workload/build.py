"""Making workloads out of columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from hdrl.base.errors import WorkloadError
from hdrl.settings.batch.workload.model import JOB_DTYPE, STEP_DTYPE, UNKNOWN, StepKind, Workload

FloatArray = NDArray[np.float64]

NUMBER_FIELDS = ("user", "group", "executable", "queue", "partition")
"""Columns of jobs whose numbers are names."""
MAX_INT32 = int(np.iinfo(np.int32).max)

MAX_VALUE = 1e15
"""Largest number that a log or a job may hold (30 million years in seconds); sums of larger ones would overflow."""

MAX_AMOUNT = 1e30
"""Largest amount of work of a profile, in flop."""


def read_only(array: NDArray[np.void]) -> NDArray[np.void]:
    """Return the array itself, made read-only."""
    array.flags.writeable = False
    return array


def unique_ids(numbers: FloatArray) -> tuple[str, ...]:
    """Return the job numbers of a log as text; the second use of number 7 becomes ``7_2``."""
    if np.all((np.trunc(numbers) == numbers) & (np.abs(numbers) < 2.0**62)):
        texts = list(map(str, numbers.astype(np.int64).tolist()))
    else:
        texts = [str(int(number)) if number.is_integer() else repr(number) for number in numbers.tolist()]
    if len(set(texts)) == len(texts):
        return tuple(texts)
    seen: dict[str, int] = {}
    result = []
    for text in texts:
        seen[text] = seen.get(text, 0) + 1
        result.append(text if seen[text] == 1 else f"{text}_{seen[text]}")
    return tuple(result)


def log_numbers(rows: NDArray[np.void]) -> dict[str, NDArray[np.int32]]:
    """Return user, group, executable, queue and partition of the lines of a log, see `log_number`."""
    return {name: log_number(rows[name]) for name in NUMBER_FIELDS}


def log_number(column: FloatArray) -> NDArray[np.int32]:
    """Return a column of names of a log as 32-bit integers, `UNKNOWN` where there is none.

    They only tell one user (group, queue...) from another. Those that do not fit, hashes for instance, get the smallest
    numbers that the column leaves free, in their order: what has more than 32 bits, and what is below -1, which alone
    stands for an absent name in the standard workload format.

    ``column``: numbers of the whole log, shape ``(n_jobs,)``: what a large one becomes depends on the others.
    """
    values = np.trunc(column)
    is_other = (values > MAX_INT32) | (values < UNKNOWN)
    numbers = np.where(is_other, UNKNOWN, values).astype(np.int32)
    if np.any(is_other):
        names, position = np.unique(values[is_other], return_inverse=True)
        numbers[is_other] = free_numbers(numbers, len(names))[position]
    return numbers


def is_plain_name(name: object) -> bool:
    """Tell whether a name is a number of at most 32 bits, which stands for itself."""
    return isinstance(name, int) and not isinstance(name, bool) and abs(name) <= MAX_INT32


def numbered(names: Sequence[int | str]) -> NDArray[np.int32]:
    """Return names as numbers: texts and numbers above 32 bits get the smallest ones that are free, as they come."""
    others = list(dict.fromkeys(name for name in names if not is_plain_name(name)))
    taken = np.array([name for name in names if is_plain_name(name)], dtype=np.int32)
    number_of = dict(zip(others, free_numbers(taken, len(others)).tolist(), strict=True))
    return np.array([number_of.get(name, name) for name in names], dtype=np.int32)


def free_numbers(taken: NDArray[np.int32], n_numbers: int) -> NDArray[np.int32]:
    """Return the smallest numbers, from 0 on, that are not taken."""
    candidates = np.arange(n_numbers + np.size(taken), dtype=np.int32)
    return np.setdiff1d(candidates, taken)[:n_numbers]


def count_reasons(reasons: dict[str, NDArray[np.bool_]], n_rows: int) -> dict[str, int]:
    """Return the number of the first lines that are left out by each reason; a line counts for its first one."""
    left = np.ones(n_rows, dtype=bool)
    counts = {}
    for reason, bad in reasons.items():
        n_bad = int(np.count_nonzero(left & bad[:n_rows]))
        if n_bad:
            counts[reason] = n_bad
        left &= ~bad[:n_rows]
    return counts


def compute_jobs(
    *,
    name: str,
    job_ids: tuple[str, ...],
    submit_s: FloatArray,
    cores: FloatArray,
    walltime_s: FloatArray,
    requested_time_s: FloatArray,
    work_flop: FloatArray,
    memory_mib: FloatArray,
    bandwidth_gbps: FloatArray,
    numbers: Mapping[str, NDArray[np.int32]],
    n_dropped: dict[str, int],
    origin: dict[str, object],
    profile: NDArray[np.int32] | None = None,
    profile_names: tuple[str, ...] | None = None,
) -> Workload:
    """Make a workload of jobs that compute and do nothing else.

    Parameters
    ----------
    submit_s, cores, walltime_s, requested_time_s, memory_mib, bandwidth_gbps
        See `JOB_DTYPE`; shape ``(n_jobs,)``. Cores are rounded down.
    work_flop
        Work of each profile in flop per core, shape ``(n_profiles,)``.
    numbers
        Columns of `JOB_DTYPE` beyond these.
    profile, profile_names
        Profile of each job, and the names of the profiles; without them each job has its own, named after it.

    Raises
    ------
    WorkloadError
        If a job asks for more cores than can be counted.
    """
    n_jobs = len(job_ids)
    if np.any(cores > MAX_INT32):
        worst = int(np.argmax(cores))
        raise WorkloadError(
            f"{name}: job {job_ids[worst]} asks for {cores[worst]:.0f} cores, expected at most {MAX_INT32}"
        )
    jobs = np.empty(n_jobs, dtype=JOB_DTYPE)
    jobs["submit_s"] = submit_s
    jobs["cores"] = np.trunc(cores)
    jobs["walltime_s"] = walltime_s
    jobs["requested_time_s"] = requested_time_s
    jobs["profile"] = np.arange(n_jobs) if profile is None else profile
    jobs["memory_mib"] = memory_mib
    jobs["bandwidth_gbps"] = bandwidth_gbps
    for column in (*NUMBER_FIELDS, "priority"):
        jobs[column] = numbers.get(column, UNKNOWN)
    jobs["source"] = 0
    steps = np.zeros(len(work_flop), dtype=STEP_DTYPE)
    steps["kind"] = StepKind.COMPUTE
    steps["amount"] = work_flop
    first_step = np.arange(len(work_flop) + 1, dtype=np.int64)
    first_step.flags.writeable = False
    if profile_names is None:
        profile_names = tuple(f"job_{job_id}" for job_id in job_ids)
    return Workload(
        name=name,
        jobs=read_only(jobs),
        job_ids=job_ids,
        steps=read_only(steps),
        first_step=first_step,
        profile_names=profile_names,
        n_dropped=n_dropped,
        origin=origin,
    )
