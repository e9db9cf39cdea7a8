"""A Poisson generator of jobs: by default the one of the DRL scheduler for GPU clusters (HenryAJX/DRL_Scheduler)."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

from hdrl.base import elementary
from hdrl.base.errors import WorkloadError
from hdrl.base.seeding import stream
from hdrl.settings.gpu.cluster.machine import GpuCluster
from hdrl.settings.gpu.loads.load import GpuLoad, Speeds, new_jobs

REPEATED_DEVIATION = 0.3
"""Standard deviation of the logarithm of run times of jobs of the same user and name."""


@dataclass(frozen=True, slots=True)
class Poisson:
    """Model of generated jobs.

    Attributes
    ----------
    jobs_per_s
        Mean rate of arrivals.
    runtime_mean_s, runtime_std_s
        Of the normal distribution of run times on GPUs of mean speed.
    runtime_min_s
        Shorter draws become this.
    min_gpus, max_gpus
        GPUs are drawn evenly from these.
    priorities
        Priorities are drawn evenly from these.
    n_users
        Users are drawn evenly from this many.
    n_names
        Each user has jobs of this many names, and those of one name take much the same; 0: jobs have no names.
    speeds
        True if run times follow the FLOPS of types.
    """

    jobs_per_s: float = 2.5
    runtime_mean_s: float = 3000.0
    runtime_std_s: float = 2500.0
    runtime_min_s: float = 1.0
    min_gpus: int = 1
    max_gpus: int = 8
    priorities: tuple[float, ...] = (0.5, 1.0, 2.5, 5.0)
    n_users: int = 3
    n_names: int = 0
    speeds: Speeds = "flops"

    def __post_init__(self) -> None:
        for name in ("jobs_per_s", "runtime_mean_s", "runtime_min_s"):
            if not getattr(self, name) > 0.0:
                raise WorkloadError(f"generated jobs: {name} is {getattr(self, name)}, expected more than 0")
        if not 1 <= self.min_gpus <= self.max_gpus:
            raise WorkloadError(
                f"generated jobs: {self.min_gpus} to {self.max_gpus} GPUs, expected 1 or more, ascending"
            )
        if self.runtime_std_s < 0.0 or self.n_users < 1 or self.n_names < 0 or not self.priorities:
            raise WorkloadError("generated jobs: expected runtime_std_s from 0 on, a user and a priority at least")


def poisson_load(model: Poisson, n_jobs: int, seed: int) -> GpuLoad:
    """Return generated jobs; the first arrives at 0."""
    if n_jobs < 1:
        raise WorkloadError(f"{n_jobs} generated jobs, expected at least 1")
    draws = stream(seed, "gpu-poisson")
    jobs = new_jobs(n_jobs)
    jobs["arrival_s"] = np.cumsum(draws.exponential(1.0 / model.jobs_per_s, n_jobs))
    jobs["arrival_s"] -= jobs["arrival_s"][0]
    jobs["work"] = np.maximum(model.runtime_min_s, draws.normal(model.runtime_mean_s, model.runtime_std_s, n_jobs))
    jobs["n_gpus"] = draws.integers(model.min_gpus, model.max_gpus, n_jobs, endpoint=True)
    jobs["priority"] = draws.choice(np.array(model.priorities), n_jobs)
    jobs["user"] = draws.integers(0, model.n_users, n_jobs)
    if model.n_names:
        _repeat(jobs, model, draws)
    users = tuple(f"user{number}" for number in range(model.n_users))
    described = asdict(model)
    if not model.n_names:
        del described["n_names"]
    origin = {"model": "poisson", "seed": seed, **described}
    return GpuLoad("poisson", jobs, users=users, speeds=model.speeds, origin=origin)


def _repeat(jobs: NDArray[np.void], model: Poisson, draws: np.random.Generator) -> None:
    """Give jobs names, and run times and numbers of GPUs that those of the same user and name share.

    What is drawn for the first job of a user and name counts for all; its time varies by `REPEATED_DEVIATION`.
    """
    names = jobs["user"] * model.n_names + draws.integers(0, model.n_names, len(jobs))
    _, firsts, positions = np.unique(names, return_index=True, return_inverse=True)
    varied = elementary.exp(draws.normal(0.0, REPEATED_DEVIATION, len(jobs)))
    jobs["name"] = positions
    jobs["n_gpus"] = jobs["n_gpus"][firsts][positions]
    jobs["work"] = np.maximum(model.runtime_min_s, jobs["work"][firsts][positions] * varied)


def at_offered_load(model: Poisson, n_jobs: int, cluster: GpuCluster, offered_load: float, seed: int) -> GpuLoad:
    """Return generated jobs that arrive as fast as an offered load of the cluster needs."""
    return poisson_load(model, n_jobs, seed).scaled(cluster, offered_load)
