"""How far the simulated policy `slurm` is from recorded runs of a real Slurm, and two policies that are not Slurm's.

Intervals are over blocks of neighbouring jobs, since what one job leaves to the next (a queue) stays together.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hdrl.base.seeding import stream
from hdrl.experiments import PROTOCOLS
from hdrl.experiments.findings import Finding, Place, finding_of_resamples, without_models
from hdrl.metrics.statistics import block_counts
from hdrl.slurm.fidelity import POLICIES, simulated_start_s
from hdrl.slurm.recorded import RecordedRun, read_run

Floats = NDArray[np.float64]

OURS, *OTHERS = POLICIES

FLOOR = 0.23
"""Percent of the pairs of jobs that two equal runs of Slurm start in another order, as whoever recorded them says."""

N_RESAMPLES = 10_000

ALL = "all runs"
PAIRS, WAIT, APART = "pairs in another order, %", "mean wait, ratio to Slurm's", "mean wait, distance to Slurm's, %"


@PROTOCOLS.register("slurm-fidelity")
@without_models
def slurm_fidelity(traces: Mapping[str, Path]) -> dict[Place, Finding]:
    """Return how far each policy is from each run and from all in the mean, and how much nearer `slurm` is than others.

    Parameters
    ----------
    traces
        The folders of the runs.
    """
    found: dict[str, dict[str, dict[str, Floats]]] = {}
    for name, folder in traces.items():
        run = read_run(folder)
        drawn = block_counts(len(run.start_s), stream(0, f"slurm-fidelity/{name}"), N_RESAMPLES)
        found[name] = {policy: _measured(run, policy, drawn) for policy in POLICIES}
    found[ALL] = {
        policy: {
            column: np.mean([found[name][policy][column] for name in traces], axis=0) for column in (PAIRS, WAIT, APART)
        }
        for policy in POLICIES
    }
    results: dict[Place, Finding] = {}
    for name, by_policy in found.items():
        for policy, columns in by_policy.items():
            results[f"{name}, {policy}", PAIRS] = finding_of_resamples(columns[PAIRS], null=FLOOR)
            results[f"{name}, {policy}", WAIT] = finding_of_resamples(columns[WAIT], null=1.0)
        for other in OTHERS:
            for column in (PAIRS, APART):
                nearer = by_policy[OURS][column] - by_policy[other][column]
                results[f"{name}, {OURS} less {other}", column] = finding_of_resamples(nearer, null=0.0)
    return results


def _measured(run: RecordedRun, policy: str, counts: NDArray[np.int64]) -> dict[str, Floats]:
    """Return the distance of a policy from a run by column, then that in each resample."""
    start_s = np.round(simulated_start_s(run, policy), 3)
    both = np.isfinite(start_s) & np.isfinite(run.start_s)
    start_s, true_s, eligible_s, counts = start_s[both], run.start_s[both], run.eligible_s[both], counts[both]
    order = np.sign(np.subtract.outer(start_s, start_s)) * np.sign(np.subtract.outer(true_s, true_s))
    n_swapped = np.zeros(counts.shape[1], dtype=np.int64)
    for first, second in np.argwhere(np.triu(order < 0)):
        n_swapped += counts[first] * counts[second]
    waited_s, true_waited_s = np.zeros(counts.shape[1]), np.zeros(counts.shape[1])
    for job, count in enumerate(counts):  # a fixed order of sums
        waited_s += count * (start_s[job] - eligible_s[job])
        true_waited_s += count * (true_s[job] - eligible_s[job])
    n_jobs = counts.sum(axis=0)
    ratio = waited_s / true_waited_s
    return {PAIRS: 100 * n_swapped / (n_jobs * (n_jobs - 1) / 2), WAIT: ratio, APART: 100 * np.abs(ratio - 1)}
