"""Run times of jobs if nothing slows them down and nothing ends them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hdrl.settings.batch.workload.model import StepKind, Workload


def run_times_at(workload: Workload, speed_flops: float) -> tuple[NDArray[np.float64], NDArray[np.int32]]:
    """Return the run time of each job on cores of a speed, in seconds, and its return code.

    ``speed_flops``: flop per second of every core.
    """
    steps, jobs = workload.steps, workload.jobs
    fixed_s = np.where(steps["kind"] == StepKind.DELAY, steps["amount"], 0.0)
    fixed_s += np.where(steps["kind"] == StepKind.COMPUTE, steps["amount"] / speed_flops, 0.0)
    shared_s = np.where(steps["kind"] == StepKind.COMPUTE_TOTAL, steps["amount"] / speed_flops, 0.0)
    first, n_steps = workload.first_step[:-1], len(steps)
    # A step with a return code ends its profile.
    fails = np.flatnonzero(steps["return_code"])
    position = np.searchsorted(fails, first)
    failed = np.append(fails, n_steps)[position]
    has_failed = failed < workload.first_step[1:]
    last = np.where(has_failed, failed + 1, workload.first_step[1:])
    codes_of = np.where(has_failed, np.append(steps["return_code"], 0)[failed], 0).astype(np.int32)
    profile = jobs["profile"]
    run_s = _sums(fixed_s, first, last)[profile] + _sums(shared_s, first, last)[profile] / jobs["cores"]
    return run_s, codes_of[profile]


def _sums(values: NDArray[np.float64], first: NDArray[np.int64], last: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the sum of each of some spans of values, in their order."""
    total = np.zeros(len(first))
    for step in range(int((last - first).max(initial=0))):
        inside = first + step < last
        total[inside] += values[(first + step)[inside]]
    return total
