"""Whole windows of loads under candidates of an index, or under other policies, in compiled code alone."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from hdrl.compiled.borrowed import Borrowed
from hdrl.metrics.formulas import summary
from hdrl.settings.gpu.cluster.machine import GpuCluster
from hdrl.settings.gpu.envs.loads import joined
from hdrl.settings.gpu.kernel import acting, codes, state
from hdrl.settings.gpu.loads.history import history_of
from hdrl.settings.gpu.loads.load import GpuLoad
from hdrl.settings.gpu.policies.names import BY_HAND, Policy, read_policy
from hdrl.settings.gpu.policies.rules import Rules, draw_restarts
from hdrl.settings.gpu.policies.weights import checked_weights
from hdrl.settings.gpu.simulation.events import columns_of, first_random, put_jobs, shared_arrays

Floats = NDArray[np.float64]

OBJECTIVES = ("mean_jct_s", "p99_jct_s", "mean_slowdown")
"""Objectives for weights, the same names as metrics; less is better."""


@dataclass(frozen=True)
class Outcomes:
    """Results of the jobs of windows under candidates."""

    # completion times, and times without GPUs, shape ``(n_candidates, n_windows, n_jobs)``; NaN behind the jobs of a
    # window that has fewer
    jct_s: Floats
    wait_s: Floats
    slowdown: Floats  # completion times over those alone on the fastest type

    def objective(self, name: str) -> Floats:
        """Return a metric of `OBJECTIVES` over all jobs, shape ``(n_candidates, n_windows)``."""
        statistic, _, kind = name.partition("_")
        values: Floats = getattr(self, kind)
        found = [[summary(row[np.isfinite(row)])[statistic] for row in rows] for rows in values]
        return np.array(found)


INDEX = read_policy(BY_HAND)
"""The policy that follows the index, with weights by hand."""


def index_policy(weights: Floats) -> Policy:
    """Return the policy that follows an index with some weights.

    Parameters
    ----------
    weights
        Shape ``(20,)``.
    """
    return replace(INDEX, weights=tuple(checked_weights(weights).tolist()))


def play(
    cluster: GpuCluster,
    windows: Sequence[GpuLoad],
    policy: Policy,
    candidates: Floats | None = None,
    *,
    rules: Rules | None = None,
    seed: int = 0,
    n_threads: int = 1,
) -> Outcomes:
    """Simulate windows under a policy, or under candidates of an index.

    Parameters
    ----------
    windows
        Windows of loads, which the cluster can run (`hdrl.settings.gpu.loads.load.check_runs_on`).
    candidates
        Weights instead of those of the policy, which is then an index, shape ``(n_candidates, 20)``; ``None``: the
        policy as it is.
    seed
        Seed of what is random: placements, ties, restarts.
    n_threads
        Number of threads that share the simulations; results do not depend on it.
    """
    rules = rules or Rules()
    weights = np.array([policy.weights]) if candidates is None else candidates
    whole = joined(windows)
    shared, job_class = shared_arrays(cluster, whole, policy, seed=seed, rules=rules, records=False)
    shared |= {"sizes": np.zeros(codes.N_SIZES, dtype=np.int64)}  # no agent
    most_jobs = max(one.n_items for one in windows)
    n_units = max(int(one.jobs["n_gpus"].sum()) for one in windows)
    histories = [history_of(one, cluster) for one in windows] if policy.learns else []
    n_rows, n_windows = len(weights) * len(windows), len(windows)
    world = state.new_world(
        shared,
        n_rows,
        most_jobs,
        n_units,
        max(int(one.jobs["user"].max()) for one in windows) + 2,
        1,
        1,
        n_groups=max((len(one.before) for one in histories), default=0),
        n_weights=weights.shape[1],
    )
    columns = columns_of(cluster, whole) | {"job_class": job_class}
    columns["arrival_s"] = np.concatenate([one.jobs["arrival_s"] for one in windows])  # each window's own dates
    columns["restart_s"] = np.concatenate([draw_restarts(rules, one.n_items, seed) for one in windows])
    firsts = np.cumsum([0, *(one.n_items for one in windows)])
    for row in range(n_rows):
        position = row % n_windows
        put_jobs(world, row, columns, int(firsts[position]), windows[position].n_items)
        world.random[row] = first_random(seed)
        if histories:
            one = histories[position]
            world.past.groups[row, : len(one.groups)] = one.groups
            world.past.history_before[row, : len(one.before)] = one.before
    world.past.weights[:] = np.repeat(weights, n_windows, axis=0)
    batch, rows = Borrowed(world), np.arange(n_rows)

    def run_share(member: int) -> None:
        acting.SERVED.call(batch, acting.RUN, rows % n_threads == member)

    if n_threads == 1:
        run_share(0)
    else:
        with ThreadPoolExecutor(n_threads) as pool:
            list(pool.map(run_share, range(n_threads)))
    jct_s = np.where(world.jobs.status > 0, world.jobs.end_s - world.jobs.arrival_s, np.nan)
    wait_s = np.maximum(0.0, jct_s - world.jobs.service_s)
    with np.errstate(divide="ignore", invalid="ignore"):
        slowdown = jct_s / (world.jobs.work / world.jobs.best_rate)
    shape = (len(weights), n_windows, most_jobs)
    return Outcomes(jct_s.reshape(shape), wait_s.reshape(shape), slowdown.reshape(shape))
