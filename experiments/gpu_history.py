"""Value of predictions from history on GPU clusters: on Philly's trace, and on synthetic users who repeat jobs.

A part of the trace was looked at while predictions were developed; the last part only judges. Each window comes at all
offered loads, so that intervals are over windows. What is compared are geometric means over windows of ratios of mean
completion times, of their 99th percentiles, and of the longest times without GPUs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hdrl.base import elementary
from hdrl.base.cores import usable_cores
from hdrl.base.seeding import stream
from hdrl.experiments import PROTOCOLS
from hdrl.experiments.findings import Finding, Place, without_models
from hdrl.settings.gpu.cluster.machine import GpuCluster, read_cluster
from hdrl.settings.gpu.loads.load import GpuLoad, without_unrunnable
from hdrl.settings.gpu.loads.readers import read_trace
from hdrl.settings.gpu.loads.synthetic import Poisson, poisson_load
from hdrl.settings.gpu.policies.names import BY_HAND, read_policy
from hdrl.settings.gpu.policies.rules import Rules
from hdrl.settings.gpu.simulation.index import play

Floats = NDArray[np.float64]

TRACE = "philly_sia.csv.gz"

RULES = Rules(restart_s=(10.0, 60.0))

LOOKED_AT, LAST = (0.7, 0.9), (0.9, 1.0)
"""Shares of the trace."""

OFFERED = (0.7, 0.85, 0.95)

N_JOBS, N_BEFORE, N_COUNTED = 600, 100, 400
"""Jobs of a window, how many of the first do not count, and how many of the following count."""

LEAST_WAIT_S = 60.0
"""Shorter longest waits count as this, so that their ratios mean something."""

REPEATED = Poisson(n_users=20, n_names=5, runtime_std_s=6000.0)
"""Synthetic users, each with a few kinds of jobs."""

N_LOADS, N_WARM = 12, 1400
"""Synthetic loads, and how many of their jobs come before the window."""

BASELINE, REFERENCE = "las-2d", "srsf+history"

POLICIES = (BASELINE, REFERENCE, "gittins+history", BY_HAND, "qssf+skip", "fifo+skip", "las", "gittins", "srsf")
"""Policies to play; the last one knows the durations of jobs: the bound for those that predict them."""

METRICS = ("mean_jct_s", "p99_jct_s", "longest wait")
"""Compared metrics of the counted jobs of a window."""


@PROTOCOLS.register("gpu-history")
@without_models
def gpu_history(traces: Mapping[str, Path]) -> dict[Place, Finding]:
    """Return the comparison of policies with 2D-LAS, and of the index by hand with SRSF by the same predictions.

    Parameters
    ----------
    traces
        Philly's trace as Sia's artifact has it.
    """
    sia, drl = read_cluster("sia"), read_cluster("drl-gpu")
    load = without_unrunnable(read_trace(traces[TRACE]), sia)
    found = {}
    for part, cluster, windows in (
        ("looked-at part", sia, windows_of(load, sia, LOOKED_AT, 24)),
        ("last part", sia, windows_of(load, sia, LAST, 12)),
        ("synthetic users", drl, synthetic_windows(drl)),
    ):
        numbers = {name: log_metrics(cluster, windows, name)[:, 0] for name in POLICIES}
        pairs = [(name, BASELINE) for name in POLICIES[1:]] + [(BY_HAND, REFERENCE)]
        for name, reference in pairs:
            for position, metric in enumerate(METRICS):
                column = f"{metric}, to {reference}"
                found[f"{name}, {part}", column] = ratio_of(
                    numbers[name][position], numbers[reference][position], f"{name}, {part}, {column}"
                )
    return found


def windows_of(load: GpuLoad, cluster: GpuCluster, shares: tuple[float, float], n_windows: int) -> list[GpuLoad]:
    """Return windows spread evenly over a part of a load, each at all offered loads before the next one.

    Parameters
    ----------
    shares
        The part, as shares of the jobs.
    """
    low, high = (round(share * load.n_items) for share in shares)
    firsts = np.linspace(low, high - N_JOBS, n_windows).astype(np.int64).tolist()
    stretched = [load.scaled(cluster, offered) for offered in OFFERED]
    return [one.window(first, N_JOBS) for first in firsts for one in stretched]


def synthetic_windows(cluster: GpuCluster) -> list[GpuLoad]:
    """Return a window of each synthetic load, at all offered loads before the next one."""
    loads = [poisson_load(REPEATED, N_WARM + N_JOBS, seed) for seed in range(N_LOADS)]
    return [one.scaled(cluster, offered).window(N_WARM, N_JOBS) for one in loads for offered in OFFERED]


def log_metrics(cluster: GpuCluster, windows: Sequence[GpuLoad], name: str, candidates: Floats | None = None) -> Floats:
    """Return the logarithm of each of `METRICS`, shape ``(n_metrics, n_candidates, n_windows, n_offered)``.

    Parameters
    ----------
    name
        A policy.
    candidates
        Weights instead of those of the policy, if it is an index, shape ``(n_candidates, 20)``.
    """
    outcomes = play(cluster, windows, read_policy(name), candidates, rules=RULES, n_threads=usable_cores())
    counted = slice(N_BEFORE, N_BEFORE + N_COUNTED)
    jct_s, wait_s = outcomes.jct_s[:, :, counted], outcomes.wait_s[:, :, counted]
    longest_s = np.maximum(wait_s.max(axis=2), LEAST_WAIT_S)
    numbers = np.stack([jct_s.mean(axis=2), np.percentile(jct_s, 99, axis=2), longest_s])
    return elementary.log(numbers).reshape(*numbers.shape[:2], -1, len(OFFERED))


def ratio_of(candidate_values: Floats, reference_values: Floats, what: str) -> Finding:
    """Return the geometric mean of ratios, with an interval (95 %) over windows drawn again.

    Parameters
    ----------
    candidate_values, reference_values
        Logarithms, shape ``(n_windows, n_offered)``.
    what
        Its name.
    """
    logs = (candidate_values - reference_values).mean(axis=1)
    positions = stream(0, f"bootstrap of {what}").integers(0, len(logs), (10_000, len(logs)))
    low, high = elementary.exp(np.percentile(logs[positions].mean(axis=1), (2.5, 97.5))).tolist()
    return Finding(float(elementary.exp(logs.mean())), low, high, null=1.0)
