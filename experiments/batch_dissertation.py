"""The table of a dissertation on scheduling by PPO: with the errors of its baselines, without, and under proper EASY.

It judged by five windows of 10,000 jobs. They were not drawn: the first begins where the first 60 % of the log end, the
others 15,000 jobs apart. With them its published numbers for smallest and SJF on SDSC-BLUE come out; those for FCFS and
F1 depend on what it drew.

Agents that hdrl trains in its world are judged by more and shorter windows, beside priorities under the same rules.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hdrl.base import elementary
from hdrl.base.errors import SimulationError, WorkloadError
from hdrl.base.windows import range_of_shares, side_by_side
from hdrl.compat.dissertation.env import DissertationVectorEnv
from hdrl.compat.dissertation.jobs import NodeJobs, node_jobs, whole_nodes
from hdrl.compat.dissertation.playing import ERRORS, GUIDES, play_baseline, play_order, shared_arrays
from hdrl.envs.episodes import Window
from hdrl.experiments import PROTOCOLS
from hdrl.experiments.batch_learned import first_episodes
from hdrl.experiments.findings import Finding, Place, Playable, without_models
from hdrl.metrics.statistics import Bootstrap
from hdrl.settings.batch.envs.job_pick import JobPickVectorEnv
from hdrl.settings.batch.platform.model import Platform
from hdrl.settings.batch.platform.reader import read_platform
from hdrl.settings.batch.workload.model import Workload
from hdrl.settings.batch.workload.read import read_workload

SDSC_BLUE = "SDSC-BLUE-2000-4.2-cln.swf.gz"
SDSC_BLUE_PROCS, SDSC_BLUE_NODES = 1152, 144

BASELINES = {"FCFS": "fcfs", "SJF": "sjf", "smallest": "smallest", "F1": "f1"}
"""The baselines of its table, and their names here."""

HPC2N = "HPC2N-2002-2.2-cln.swf.gz"

JUDGED_FROM, N_WINDOWS, WINDOW_JOBS, STRIDE = 0.6, 5, 10_000, 15_000


def judged_windows(n_jobs: int, name: str = "workload") -> list[Window]:
    """Return the windows that it judged by.

    Parameters
    ----------
    n_jobs
        Jobs of the log.
    name
        Name of the log, for messages.

    Raises
    ------
    WorkloadError
        If the log is too short.
    """
    first = int(JUDGED_FROM * n_jobs)
    last = first + (N_WINDOWS - 1) * STRIDE + WINDOW_JOBS
    if last > n_jobs:
        raise WorkloadError(f"{name}: {n_jobs} jobs, but the windows of this table end with job {last}")
    return [Window(0, first + STRIDE * number, WINDOW_JOBS) for number in range(N_WINDOWS)]


@PROTOCOLS.register("dissertation-sdsc-blue")
@without_models
def dissertation_sdsc_blue(traces: Mapping[str, Path]) -> dict[Place, float]:
    """Return mean bounded slowdowns of the dissertation's baselines on SDSC-BLUE.

    References
    ----------
    LANNDS18/DeepRLScheduler, ``result_analysis/csv_logs/stage-4/SDSC-BLUE``.
    """
    return _table(traces[SDSC_BLUE])


@PROTOCOLS.register("dissertation-hpc2n")
@without_models
def dissertation_hpc2n(traces: Mapping[str, Path]) -> dict[Place, float]:
    """Return the same as `dissertation_sdsc_blue` on HPC2N.

    References
    ----------
    LANNDS18/DeepRLScheduler, ``result_analysis/csv_logs``, files of HPC2N.
    """
    return _table(traces[HPC2N], tests_backfilling=True)


def _table(log: Path, *, tests_backfilling: bool = False) -> dict[Place, float]:
    """Return its table of a log, without and perhaps with the backfilling of its test."""
    jobs = node_jobs(log)
    windows = judged_windows(jobs.n_jobs, jobs.name)
    busy = [error for error in ERRORS if error != "skip_row_first"]
    found = _played(jobs, windows, "with its errors", list(ERRORS))
    if tests_backfilling:
        found |= _played(jobs, windows, "with its errors, its backfilling", list(ERRORS), backfills=True)
    found |= _played(jobs, windows, "without the skip row", busy)
    found |= _played(jobs, windows, "without any error", [])
    found |= _played(jobs, windows, "without any error, its backfilling", [], backfills=True)
    found |= _under_easy(jobs, windows)
    return found


def _played(
    jobs: NodeJobs, windows: Sequence[Window], column: str, errors: Sequence[str], *, backfills: bool = False
) -> dict[Place, float]:
    """Return the mean over the jobs of all windows, and how many of them were never run if some were not."""
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
    platform, workload = whole_nodes(jobs)
    env = JobPickVectorEnv.of(1, workload=workload, platform=platform, n_jobs="all", backfilling="easy")
    results = env.run_priorities(list(BASELINES.values()), windows)
    env.close()
    return {
        (title, "EASY"): float(results[baseline]["mean_bounded_slowdown"].mean())
        for title, baseline in BASELINES.items()
    }


CHOSEN_UNTIL, HELD_OUT_JOBS, N_HELD_OUT = 0.5, 512, 48
"""Share of the log on which the opponent is chosen; jobs of a window, and windows of each part."""


@PROTOCOLS.register("dissertation-held-out")
def dissertation_held_out(traces: Mapping[str, Path], models: Sequence[Playable]) -> dict[Place, float | Finding]:
    """Return the results of models of the dissertation's world on the last 40 % of SDSC-BLUE, beside fair priorities.

    Priorities choose among all waiting jobs, a chosen job blocks the machine, and none overtakes: the same for all. The
    opponent is that which is best on windows of the first half. Ratios are geometric means over windows, with intervals
    over windows and trainings; of each row but the first there is one to the trainings of the first.

    Parameters
    ----------
    traces
        Holds ``SDSC-BLUE-2000-4.2-cln.swf.gz``.
    models
        Models of its world, of each row one for each seed.
    """
    platform = read_platform(f"homogeneous:{SDSC_BLUE_PROCS}")
    log = read_workload(traces[SDSC_BLUE], platform, memory="none", bandwidth="none", estimates="log")
    jobs = node_jobs(log, platform, n_nodes=SDSC_BLUE_NODES)
    shared = shared_arrays(jobs, frozenset())

    def values_of(order: int, windows: Sequence[Window]) -> NDArray[np.float64]:
        return np.array([one.scores["mean_bounded_slowdown"] for one in play_order(jobs, windows, order, shared)])

    early, late = (_side_by_side(jobs.n_jobs, part) for part in ((0.0, CHOSEN_UNTIL), (JUDGED_FROM, 1.0)))
    opponent = min(GUIDES, key=lambda name: float(elementary.log(values_of(GUIDES[name], early)).mean()))
    by_row: dict[str, list[NDArray[np.float64]]] = {}
    for model in models:
        by_row.setdefault(model.row, []).append(_values_of_model(model, log, platform, late))
    tables = {row: np.column_stack(values) for row, values in by_row.items()}
    others = {name: values_of(order, late) for name, order in GUIDES.items()}
    bootstrap = Bootstrap(np.zeros(len(late), dtype=np.int64))
    first = next(iter(tables))
    found: dict[Place, float | Finding] = {}
    for row, own in tables.items():
        each = own.mean(axis=0)
        found[row, "mean_bounded_slowdown"] = Finding(float(each.mean()), trainings=tuple(each.tolist()))
        references = {
            f"ratio to {opponent}, best on the first half": others[opponent][:, np.newaxis],
            "ratio to the best of each window": np.min(list(others.values()), axis=0)[:, np.newaxis],
        }
        if row != first:
            references[f"ratio to {first}"] = tables[first]
        for column, reference in references.items():
            ratios = elementary.exp(elementary.log(own).mean(axis=0) - elementary.log(reference).mean())
            interval = bootstrap.ratio(own, reference)
            found[row, column] = Finding(*interval, trainings=tuple(ratios.tolist()), null=1.0)
    return found | {(name, "mean_bounded_slowdown"): float(values.mean()) for name, values in others.items()}


def _side_by_side(n_jobs: int, part: tuple[float, float]) -> list[Window]:
    """Return windows of a part, spread evenly."""
    positions = range_of_shares(part, n_jobs, what="part", items="jobs")
    return [Window(0, start, HELD_OUT_JOBS) for start in side_by_side(positions, HELD_OUT_JOBS, N_HELD_OUT)]


def _values_of_model(
    model: Playable, log: Workload, platform: Platform, windows: Sequence[Window]
) -> NDArray[np.float64]:
    """Return the mean bounded slowdown of each window under a model, which takes its best actions."""
    from hdrl.learn.threads import torch_threads

    arguments = {name: value for name, value in model.environment["arguments"].items() if name != "compatibility"}
    starts = [window.start for window in windows]
    envs = DissertationVectorEnv(
        len(windows), workload=log, platform=platform, n_jobs=HELD_OUT_JOBS, start=starts, **arguments
    )
    with torch_threads(1):  # products this small are slower with more
        episodes = {"episode": np.arange(len(windows))}
        values = first_episodes(model, envs, episodes, lambda row, info: _reported(info, row))
    envs.close()
    return np.array(values)


def _reported(info: Mapping[str, Any], row: int) -> float:
    """Return the mean bounded slowdown of an episode that has ended, in which every job was run."""
    episode = info["results"]
    if episode["n_run"][row] != HELD_OUT_JOBS:
        raise SimulationError(f"{HELD_OUT_JOBS - episode['n_run'][row]:g} of {HELD_OUT_JOBS} jobs were never run")
    return float(episode["mean_bounded_slowdown"][row])
