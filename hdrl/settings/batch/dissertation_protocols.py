"""The table of a dissertation on scheduling by PPO: with the errors of its baselines, without, and under proper EASY.

It judged by five windows of 10,000 jobs. They were not drawn: the first begins where the first 60 % of the log end, the
others 15,000 jobs apart. With them its published numbers for smallest and SJF on SDSC-BLUE come out; those for FCFS and
F1 depend on what it drew.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from hdrl.errors import WorkloadError
from hdrl.setting import Place, Playable
from hdrl.settings.batch.protocols import PROTOCOLS

if TYPE_CHECKING:
    from hdrl.envs.episodes import Window
    from hdrl.settings.batch.envs.dissertation import NodeJobs

SDSC_BLUE = "SDSC-BLUE-2000-4.2-cln.swf.gz"

BASELINES = {"FCFS": "fcfs", "SJF": "sjf", "smallest": "smallest", "F1": "f1"}
"""The baselines of its table, and their names here."""

PUBLISHED = {"PPO": 95.9, "smallest": 289.5, "SJF": 498.0, "FCFS": 2727.0, "F1": 3085.0}
"""Mean bounded slowdown on SDSC-BLUE, from its files with a line for each job."""

JUDGED_FROM, N_WINDOWS, WINDOW_JOBS, STRIDE = 0.6, 5, 10_000, 15_000


def judged_windows(n_jobs: int, name: str = "workload") -> list[Window]:
    """Return the windows that it judged by.

    Parameters
    ----------
    n_jobs
        Jobs of the log.
    name
        What the log is called, for messages.

    Raises
    ------
    WorkloadError
        If the log is too short.
    """
    from hdrl.envs.episodes import Window

    first = int(JUDGED_FROM * n_jobs)
    last = first + (N_WINDOWS - 1) * STRIDE + WINDOW_JOBS
    if last > n_jobs:
        raise WorkloadError(f"{name}: {n_jobs} jobs, but the windows of this table end with job {last}")
    return [Window(0, first + STRIDE * number, WINDOW_JOBS) for number in range(N_WINDOWS)]


@PROTOCOLS.register("dissertation-sdsc-blue")
def dissertation_sdsc_blue(traces: Mapping[str, Path], models: Sequence[Playable]) -> dict[Place, float]:
    """Return mean bounded slowdowns of the dissertation's baselines on SDSC-BLUE, beside what it published.

    Parameters
    ----------
    traces
        Holds ``SDSC-BLUE-2000-4.2-cln.swf.gz``.
    models
        Not used: a protocol of fixed priorities.

    References
    ----------
    LANNDS18/DeepRLScheduler, ``result_analysis/csv_logs/stage-4/SDSC-BLUE``.
    """
    del models
    from hdrl.settings.batch.envs.dissertation import ERRORS, node_jobs

    jobs = node_jobs(traces[SDSC_BLUE])
    windows = judged_windows(jobs.n_jobs, jobs.name)
    busy = [error for error in ERRORS if error != "skip_row_first"]
    found: dict[Place, float] = {(name, "published"): value for name, value in PUBLISHED.items()}
    found |= _played(jobs, windows, "with its errors", list(ERRORS))
    found |= _played(jobs, windows, "without the skip row", busy)
    found |= _played(jobs, windows, "without any error", [])
    found |= _played(jobs, windows, "without any error, its backfilling", [], backfills=True)
    found |= _under_easy(jobs, windows)
    return found


def _played(
    jobs: NodeJobs, windows: Sequence[Window], column: str, errors: Sequence[str], *, backfills: bool = False
) -> dict[Place, float]:
    """Return the mean over the jobs of all windows, and how many of them were never run if some were not."""
    from hdrl.settings.batch.envs.dissertation import play_baseline

    found: dict[Place, float] = {}
    for title, baseline in BASELINES.items():
        outcomes = play_baseline(jobs, windows, baseline, errors=errors, backfills=backfills)
        n_run = [outcome.n_run for outcome in outcomes]
        slowdowns = [outcome.scores["mean_bounded_slowdown"] for outcome in outcomes]
        found[title, column] = float(np.average(slowdowns, weights=n_run))
        n_left = sum(window.n_jobs for window in windows) - sum(n_run)
        if n_left:
            found[title, f"jobs never run, {column}"] = float(n_left)
    return found


def _under_easy(jobs: NodeJobs, windows: Sequence[Window]) -> dict[Place, float]:
    """Return the same under EASY with whole nodes: a queue that is sorted at every event, and a reservation."""
    from hdrl.settings.batch.envs.dissertation import whole_nodes
    from hdrl.settings.batch.envs.job_pick import JobPickVectorEnv

    platform, workload = whole_nodes(jobs)
    env = JobPickVectorEnv(1, workload=workload, platform=platform, n_jobs="all", backfilling="easy")
    results = env.run_priorities(list(BASELINES.values()), windows)
    env.close()
    return {
        (title, "EASY"): float(results[baseline]["mean_bounded_slowdown"].mean())
        for title, baseline in BASELINES.items()
    }
