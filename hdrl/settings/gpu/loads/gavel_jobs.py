"""Gavel's generator of jobs, job by job as its simulator makes them (Narayanan et al., OSDI 2020)."""

from __future__ import annotations

import math
import random  # noqa: TID251 - Gavel's jobs are draws of Python's own generator

from hdrl.base.errors import WorkloadError
from hdrl.settings.gpu.cluster.throughputs import Throughputs
from hdrl.settings.gpu.loads.load import GpuLoad, new_jobs

JOB_SEED, ARRIVAL_SEED, TYPE_SEED = 2, 3, 5
"""Offsets that Gavel adds to its seed for jobs, arrivals, and the order of types that policies without throughputs
use."""

REFERENCE_TYPE = "v100"
"""The type of GPUs that durations refer to."""

TEMPLATES: tuple[tuple[str, bool], ...] = (
    *((f"ResNet-18 (batch size {size})", True) for size in (16, 32, 64, 128, 256)),
    *((f"ResNet-50 (batch size {size})", True) for size in (16, 32, 64, 128)),
    *((f"Transformer (batch size {size})", True) for size in (16, 32, 64, 128, 256)),
    *((f"LM (batch size {size})", True) for size in (5, 10, 20, 40, 80)),
    *((f"Recommendation (batch size {size})", False) for size in (512, 1024, 2048, 4096, 8192)),
    ("A3C", False),
    ("CycleGAN", False),
)
"""Kinds of jobs, and whether they can run on several GPUs."""


def gavel_load(
    throughputs: Throughputs,
    n_jobs: int,
    *,
    jobs_per_hour: float,
    seed: int = 0,
    multi_gpu: bool = False,
    multi_priority: bool = False,
) -> GpuLoad:
    """Return Gavel's jobs.

    Parameters
    ----------
    throughputs
        Steps per second, with `REFERENCE_TYPE` among the types.
    jobs_per_hour
        Mean rate of the Poisson arrivals, more than 0; infinite: all at once.
    multi_gpu
        True if some jobs take 2, 4 or 8 GPUs.
    multi_priority
        True if a fifth of the jobs have a priority of 5.
    """
    if n_jobs < 1 or not jobs_per_hour > 0.0:
        raise WorkloadError(f"{n_jobs} jobs at {jobs_per_hour} per hour, expected at least 1, and a rate above 0")
    draws, arrivals = random.Random(seed + JOB_SEED), random.Random(seed + ARRIVAL_SEED)
    mean_gap_s = 3600.0 / jobs_per_hour
    kinds = [name for name, _ in TEMPLATES]
    jobs, date_s = new_jobs(n_jobs), 0.0
    for job in jobs:
        size, duration_s = _size(draws), _duration_s(draws)
        if not multi_gpu:
            size = 1
        while True:
            name, can_spread = draws.choice(TEMPLATES)
            if size == 1 or can_spread:
                break
        job["kind"], job["n_gpus"], job["arrival_s"] = kinds.index(name), size, date_s
        job["work"] = max(1, int(duration_s * throughputs.rate(REFERENCE_TYPE, (name, size))))
        if multi_priority and draws.uniform(0, 1) <= 0.2:
            job["priority"] = 5.0
        date_s += -math.log(1.0 - arrivals.random()) * mean_gap_s
    origin = {
        "model": "gavel",
        "seed": seed,
        "jobs_per_hour": jobs_per_hour,
        "multi_gpu": multi_gpu,
        "multi_priority": multi_priority,
    }
    return GpuLoad("gavel", jobs, kinds=tuple(kinds), throughputs=throughputs, origin=origin)


def _size(draws: random.Random) -> int:
    """Return a number of GPUs by Philly's distribution, as Gavel has it."""
    value = draws.uniform(0, 1)
    if value >= 0.95:
        return 4 if value == 0.95 else 8
    if value > 0.8:
        return 4
    return 2 if value >= 0.7 else 1


def _duration_s(draws: random.Random) -> float:
    """Return a run time on the reference type by Philly's distribution, as Gavel has it."""
    if draws.random() >= 0.8:
        return float(60 * (10 ** draws.uniform(3, 4)))
    return float(60 * (10 ** draws.uniform(1.5, 3)))
