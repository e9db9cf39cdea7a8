"""Promises of simulation for a policy on a site: ratios to a stand-in for its own scheduler, and watched quantities."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hdrl.base import elementary
from hdrl.base.errors import ReadError
from hdrl.batch import (
    Platform,
    Workload,
    compute_metrics,
    fits,
    predictions_of,
    read_platform,
    read_swf,
    simulate,
    workload_from_swf,
)
from hdrl.deploy.drift import block_means, rings
from hdrl.deploy.folder import Promise, Ratio
from hdrl.deploy.policy import DeployedPolicy
from hdrl.deploy.simulated import simulate_deployed
from hdrl.experiment.compare.comparison import CompareProgress, run_comparison
from hdrl.experiment.run.inputs import make_sweep
from hdrl.metrics.statistics import Bootstrap
from hdrl.site.folder import LOG, PLATFORM, REPORT
from hdrl.site.machine import keeps_rules
from hdrl.site.page import read_report
from hdrl.site.replay import SLURM

FloatArray = NDArray[np.float64]

JUDGED_FROM = 0.7
LENGTHS = (1024, 512, 256)
USUAL_WINDOWS, FEWEST_WINDOWS = 20, 8
MOST_WINDOWS = 40

MOST_WATCHED = 20_000
WARM_UP_SHARE = 0.1
"""Jobs of the log that are simulated for the alarm, the last ones, and which share of them only fills the machine."""

SHORT_S = 10.0

METRICS = ["mean_bounded_slowdown", "mean_wait_s", "p99_wait_s", "max_wait_s"]


def simulated_name(policy: DeployedPolicy) -> str:
    """Return the simulated policy: with Slurm's kind of backfilling if it names none."""
    if policy.is_index or policy.pair.backfilling:
        return policy.name
    end = min((policy.name.find(mark) for mark in "@~" if mark in policy.name), default=len(policy.name))
    return f"{policy.name[:end]}+conservative{policy.name[end:]}"


def stand_in(site: Path) -> str:
    """Return the policy that is nearest to what the scheduler of a site did, as its import found.

    Slurm's own policy stands for it only where the site has rules.
    """
    try:
        nearest = read_report(site / REPORT)["replay"]["nearest"]
    except (ReadError, KeyError, TypeError):
        nearest = None
    is_known = isinstance(nearest, str) and (nearest != SLURM or keeps_rules(site / PLATFORM))
    return str(nearest) if is_known else "fcfs+conservative"


def promise_of(
    policy: DeployedPolicy,
    site: Path,
    platform: Platform,
    workload: Workload,
    folder: Path,
    *,
    interval_s: float,
    bound_s: float,
    n_workers: int | None = None,
    progress: CompareProgress | None = None,
) -> Promise:
    """Simulate a policy on the log of a site.

    Parameters
    ----------
    folder
        Folder of the comparison.
    interval_s, bound_s
        Time between two looks of the daemon, and the wait after which a job is first, in seconds.

    Raises
    ------
    HdrlError
        If it cannot be simulated.
    """
    name, baseline = simulated_name(policy), stand_in(site)
    verdict, ratios = _compared(name, baseline, site, workload, folder, n_workers, progress)
    watched = _watched(policy, name, platform, workload)
    halves = {what: (values[: len(values) // 2], values[len(values) // 2 :]) for what, values in watched.items()}
    return Promise(
        policy=name,
        baseline=baseline,
        verdict=verdict,
        ratios=ratios,
        by_rules=_by_rules(policy, site, interval_s, bound_s, progress),
        blocks={what: sorted(block_means(values)) for what, values in watched.items()},
        rings={what: rings(first, then) for what, (first, then) in halves.items()},
    )


def _compared(
    name: str,
    baseline: str,
    site: Path,
    workload: Workload,
    folder: Path,
    n_workers: int | None,
    progress: CompareProgress | None,
) -> tuple[str, list[Ratio]]:
    length, n_windows = _windows(workload.n_jobs)
    if n_windows < FEWEST_WINDOWS:
        least = round(FEWEST_WINDOWS * LENGTHS[-1] / (1 - JUDGED_FROM))
        return (
            f"The log has {workload.n_jobs:,} jobs; a comparison takes {least:,} at least, so nothing is promised.",
            [],
        )
    sweep = make_sweep(
        {
            "platform": str((site / PLATFORM).resolve()),
            "workloads": [str((site / LOG).resolve())],
            "candidates": [str(Path(name).resolve()) if name.endswith(".pt") else name],
            "baseline": baseline,
            "metrics": METRICS,
            "range": [JUDGED_FROM, 1.0],
            "windows": {"length": length, "count": n_windows},
            "workload": {"memory": "none", "bandwidth": "none"},
        },
        where="deploy",
        folder=folder,
    )
    found = run_comparison(sweep, out=folder, n_workers=n_workers, progress=progress)
    rows = [row for row in found.rows if row.candidate != found.baseline]
    return found.verdict, [
        Ratio(metric=row.metric, value=_finite(row.ratio), low=_finite(row.ratio_low), high=_finite(row.ratio_high))
        for row in rows
    ]


def _windows(n_jobs: int) -> tuple[int, int]:
    """Return length and number of the windows of the judged end of a log."""
    n_judged = round(n_jobs * (1 - JUDGED_FROM))
    length = next((one for one in LENGTHS if n_judged // one >= USUAL_WINDOWS), LENGTHS[-1])
    return length, min(n_judged // length, MOST_WINDOWS)


def _by_rules(
    policy: DeployedPolicy, site: Path, interval_s: float, bound_s: float, progress: CompareProgress | None
) -> list[Ratio]:
    """Return the effects of Lua and daemon under Slurm's scheduler and the rules of the site, in the last windows."""
    platform = read_platform(site / PLATFORM)
    workload = workload_from_swf(read_swf(site / LOG), platform, bandwidth="none", memory="none")
    workload = workload.take(np.flatnonzero(fits(workload, platform)))
    length, n_windows = _windows(workload.n_jobs)
    if n_windows < FEWEST_WINDOWS:
        return []
    if progress is not None:
        progress.message(f"simulating {n_windows} windows under Slurm's rules")
    judged = workload.window(workload.n_jobs - n_windows * length, n_windows * length, shift=False)
    windows = [judged.window(number * length, length) for number in range(n_windows)]
    measured = [
        [
            compute_metrics(simulate_deployed(one, platform, jobs, interval_s=interval_s, bound_s=bound_s))
            for jobs in windows
        ]
        for one in (policy, None)
    ]
    bootstrap, rows = Bootstrap(np.zeros(n_windows)), []
    for metric in METRICS:
        pair = [np.array([one[metric] for one in found]) for found in measured]
        value, low, high = map(_finite, bootstrap.ratio(*pair))
        rows.append(Ratio(metric=metric, value=value, low=low, high=high))
    return rows


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def _watched(policy: DeployedPolicy, name: str, platform: Platform, workload: Workload) -> Mapping[str, list[float]]:
    """Return the watched quantities of each job of the end of a log, see `drift.WATCHED`."""
    order = workload.submission_order()
    part = workload.window(max(0, len(order) - MOST_WATCHED), min(len(order), MOST_WATCHED))
    simulated: Any = policy.pair if policy.is_index else name
    trace = simulate(platform, part, simulated, energy=False)
    rows = part.submission_order()
    rows = rows[round(WARM_UP_SHARE * len(rows)) :]
    submit_s, requested_s = part.jobs["submit_s"], part.jobs["requested_time_s"]
    start_s, run_s = trace.records["start_s"], trace.records["run_s"]
    predicted_s = requested_s
    if part.history is not None and part.positions is not None and policy.predictor != "requested":
        predicted_s = predictions_of(part.history, (policy.predictor,))[policy.predictor][part.positions]
    n_started = np.searchsorted(np.sort(start_s), submit_s[rows], side="right")
    n_submitted = np.searchsorted(np.sort(submit_s), submit_s[rows], side="left")
    by_end = rows[np.argsort((start_s + run_s)[rows], kind="stable")]
    return {
        "queue": elementary.log(1.0 + np.maximum(n_submitted - n_started, 0)).tolist(),
        "predictions": log_error(run_s[by_end], predicted_s[by_end]).tolist(),
        "results": log_slowdown(start_s[by_end] - submit_s[by_end], run_s[by_end]).tolist(),
    }


def log_error(run_s: FloatArray, predicted_s: FloatArray) -> FloatArray:
    """Return log(run time / predicted), both at least a second."""
    return elementary.log(np.maximum(run_s, 1.0)) - elementary.log(np.maximum(predicted_s, 1.0))


def log_slowdown(wait_s: FloatArray, run_s: FloatArray) -> FloatArray:
    """Return the logarithm of the bounded slowdown."""
    served_s = np.maximum(run_s, SHORT_S)
    return elementary.log(np.maximum((np.maximum(wait_s, 0.0) + run_s) / served_s, 1.0))
