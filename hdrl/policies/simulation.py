"""One call from a platform, a workload and a policy to a Trace."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import TypeAlias

from hdrl.platform.model import Platform
from hdrl.policies.pairs import VOID, read_pair
from hdrl.simulation.decisions import Decision
from hdrl.simulation.embedded import EmbeddedSimulator, Progress
from hdrl.simulation.trace import Trace
from hdrl.simulation.view import View
from hdrl.workload.fit import check_fits
from hdrl.workload.model import Workload

PolicyFunction: TypeAlias = Callable[[View], Iterable[Decision]]
"""A policy in Python: it is shown a `View` at every message and returns decisions."""

PROGRESS_EVERY_S = 0.1


def start_nothing(view: View) -> list[Decision]:
    """Start nothing: the void policy.

    Parameters
    ----------
    view
        Not looked at.
    """
    del view
    return []


def simulate(
    platform: Platform,
    workload: Workload,
    policy: str | PolicyFunction = "shortest-high_gflops",
    *,
    seed: int = 0,
    energy: bool = True,
    compatibility: str | None = None,
    progress: Progress | None = None,
) -> Trace:
    """Simulate a workload on a platform under a policy, on the embedded simulator.

    Parameters
    ----------
    platform
        The machine.
    workload
        The jobs.
    policy
        The name of a policy (`hdrl.policies.policy_names`), or a function that is shown a
        `hdrl.simulation.View` whenever something happened and returns decisions.
    seed
        Seed of what is random in the policy.
    energy
        Account for energy.
    compatibility
        ``None``, or ``"hdeeprm-0.3.1"``; the platform and the workload must have been read in the same mode.
    progress
        Called with the numbers of finished and of all jobs, a few times a second.

    Returns
    -------
    Trace
        Everything that happened.

    Raises
    ------
    UnknownName
        If there is no such policy.
    WorkloadError
        If the platform can never run a job.
    DecisionError
        If a Python policy decides something impossible.
    SimulationError
        If jobs are waiting and nothing will ever happen again.
    """
    check_fits(workload, platform)
    simulator = EmbeddedSimulator(platform, workload, seed=seed, energy=energy, compatibility=compatibility)
    if isinstance(policy, str) and policy != VOID:
        pair = read_pair(policy)
        simulator.run_pair(pair.job_key, pair.core_key, progress=progress)
    else:
        _run_function(simulator, start_nothing if isinstance(policy, str) else policy, progress)
    return simulator.trace


def _run_function(simulator: EmbeddedSimulator, policy: PolicyFunction, progress: Progress | None) -> None:
    """Simulate under a policy in Python."""
    told_s = time.monotonic()
    view = simulator.reset()
    while not view.is_over:
        view = simulator.step(policy(view))
        if progress is not None and time.monotonic() - told_s > PROGRESS_EVERY_S:
            told_s = time.monotonic()
            progress(simulator.n_done, simulator.workload.n_jobs)
    if progress is not None:
        progress(simulator.n_done, simulator.workload.n_jobs)
