"""Simulating Gavel's rounds: linear programs by `hdrl.settings.gpu.policies.shares`, all else compiled."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hdrl.base.arguments import check_type
from hdrl.base.errors import SimulationError, UnknownName, WorkloadError
from hdrl.compiled.codes import check_status
from hdrl.compiled.fields import grown, new_arrays
from hdrl.compiled.twister import N_TWISTER, python_twister_state
from hdrl.settings.gpu.cluster.machine import GpuCluster
from hdrl.settings.gpu.kernel import rounds as kernel
from hdrl.settings.gpu.loads.gavel_jobs import TYPE_SEED
from hdrl.settings.gpu.loads.load import WHOLE_GPU, GpuLoad, check_runs_on
from hdrl.settings.gpu.policies.pairs import Packing
from hdrl.settings.gpu.policies.shares import SHARES, SharePolicy
from hdrl.settings.gpu.policies.situation import ShareSituation
from hdrl.settings.gpu.simulation.events import signals_of
from hdrl.trace.model import STAY_DTYPE, TASK_DTYPE, DeferredSignals, TaskState, TaskTrace

ROUND_S = 360.0
"""Length of a round unless the rules say so."""

RESET_S = 1920.0
"""Shares are computed anew after this time at the earliest."""


def simulate_rounds(
    cluster: GpuCluster,
    load: GpuLoad,
    policy: str,
    *,
    seed: int = 0,
    round_s: float = 0.0,
    reset_s: float = RESET_S,
    window: tuple[int, int] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> TaskTrace:
    """Simulate a load in Gavel's rounds.

    Parameters
    ----------
    policy
        A name of `hdrl.settings.gpu.policies.shares.SHARES`.
    seed
        Gavel's seed: of the types that FIFO draws, and of the order of types.
    round_s
        Length of a round; 0: Gavel's.
    reset_s
        Shares are computed anew after this time at the earliest.
    window
        Jobs (first, and one after the last) that have to end; all by default.
    progress
        Gets the numbers of finished jobs and of all jobs now and then.

    Raises
    ------
    UnknownName
        If there is no such policy.
    WorkloadError
        If jobs take shares of GPUs, or can never run, or nothing says how fast pairs are that a policy would pack.
    SimulationError
        If no job runs any more.
    """
    check_type("policy", policy, str, "the name of a policy")
    if policy not in SHARES:
        raise UnknownName("policy of shares", policy, SHARES)
    _check_jobs(load, cluster)
    chosen = SHARES[policy]
    free_types = [one.name for one in cluster.types if one.usd_per_hour <= 0.0]
    if chosen.uses_prices and free_types:
        raise WorkloadError(
            f"{policy} needs the prices of GPUs: {cluster.name} has no usd_per_hour of {', '.join(free_types)}"
        )
    state, names = _new(cluster, load, chosen, seed, round_s or ROUND_S, reset_s, window)
    packing = Packing(*_pair_rates(cluster, load, names)) if chosen.packs else None
    shares = None if chosen.make is None else chosen.make(seed)
    prices = np.array([one.usd_per_hour for one in cluster.types])[names]
    has_new = False
    while True:
        why = kernel.run(state, has_new)
        check_status(why, (kernel.SHARES, int(state.scalars["shares"][0])))
        has_new = why == kernel.NEEDS_SHARES
        if why == kernel.DONE:
            return _trace(cluster, load, state, names)
        if why == kernel.NEEDS_ROOM:
            state = grown(state, margin=kernel.STAYS_PER_GPU * cluster.n_units)
        elif has_new:
            state = _reset(state, shares, load, prices, packing)
        elif why == kernel.STUCK:
            raise SimulationError(f"{load.name}: no job comes or runs any more, and the window has not ended")
        if progress is not None:
            progress(int((state.end_s >= 0).sum()), load.n_items)


def _check_jobs(load: GpuLoad, cluster: GpuCluster) -> None:
    """Refuse jobs that policies in rounds do not know."""
    check_runs_on(load, cluster)
    if load.values is not None:
        raise WorkloadError(
            f"{load.name}: policies in rounds do not support jobs that adapt and end at their deadlines"
        )
    if np.any((load.jobs["gpu_milli"] < WHOLE_GPU) | (load.jobs["n_gpus"] < 1)):
        raise WorkloadError(
            f"{load.name}: policies in rounds only allocate whole GPUs; some jobs request shares, or none"
        )
    if np.any(load.jobs["n_gpus"] > cluster.gpus_of_type.max()):
        raise WorkloadError(f"{load.name}: a job is wider than every type of {cluster.name}")


def _new(
    cluster: GpuCluster,
    load: GpuLoad,
    policy: SharePolicy,
    seed: int,
    round_s: float,
    reset_s: float,
    window: tuple[int, int] | None,
) -> tuple[kernel.Rounds, NDArray[np.int64]]:
    """Return the arrays of a simulation, and the types of the cluster in the order of their names."""
    names = np.array(sorted(range(len(cluster.types)), key=lambda t: cluster.types[t].name), dtype=np.int64)
    n, n_types = load.n_items, len(names)
    numbers, rates = load.profiles(cluster)
    bits = (load.allowed(cluster)[:, None] >> np.arange(n_types)) & 1
    gpus = cluster.gpus_of_type[names]
    size = np.ascontiguousarray(load.jobs["n_gpus"])
    first, last = window or (0, n)
    scalars = np.zeros(1, dtype=kernel.SCALAR_DTYPE)
    scalars["round_s"], scalars["reset_s"], scalars["n_left"] = round_s, reset_s, last - first
    scalars["shares"], scalars["is_shuffled"] = policy.code, not policy.uses_rates
    rates = (rates[numbers, :, 0] * bits)[:, names]
    given = {
        "scalars": scalars,
        "type_first": np.cumsum(gpus) - gpus,
        "type_gpus": gpus,
        "order_draws": python_twister_state(seed + TYPE_SEED),
        "type_draws": python_twister_state(seed),
        "arrival_s": load.jobs["arrival_s"],
        "size": size,
        "is_counted": ((np.arange(n) >= first) & (np.arange(n) < last)).astype(np.int64),
        "first_unit": np.cumsum(size) - size,
        "left": np.ceil(load.jobs["work"]) if load.throughputs is not None else load.jobs["work"].copy(),
        "start_s": np.full(n, -1.0),
        "end_s": np.full(n, -1.0),
        "held_type": np.full(n, -1, dtype=np.int64),
        "member": np.column_stack([np.arange(n), np.full(n, -1)]),
        "rates": np.stack([rates, np.zeros_like(rates)], axis=2),
        "on_type": np.full(n, -1, dtype=np.int64),
    }
    total = int(size.sum())
    sizes = {
        **{"one": 1, "two": 2, "n_twister": N_TWISTER, "n_types": n_types, "n_gpus": cluster.n_units},
        **{"n_jobs": n, "n_rows": n, "n_asked": total},
        **{"n_log": 2 * n + 64, "n_log_units": 2 * total + 4 * cluster.n_units + 64},
    }
    state = new_arrays(kernel.Rounds, sizes, given)
    return state, names


def _pair_rates(
    cluster: GpuCluster, load: GpuLoad, names: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the profile of each job, and how fast pairs of them are, see `ShareSituation`."""
    if load.throughputs is None:
        raise WorkloadError(
            f"{load.name}: says nothing about pairs of jobs on one GPU; policies that pack need load.throughputs"
        )
    numbers, known = load.profiles_of()
    types = [cluster.types[t].name for t in names.tolist()]
    return numbers, load.throughputs.pair_rates(types, known)


def _reset(
    state: kernel.Rounds, shares: Any, load: GpuLoad, prices: NDArray[np.float64], packing: Packing | None
) -> Any:
    """Compute new shares of the active jobs, whose rows are in ``state.sorted``, and return the state."""
    scalars = state.scalars
    rows, now_s = state.sorted[: scalars["n_active"][0]], scalars["now_s"][0]
    jobs = rows[rows < load.n_items]
    if not len(jobs):
        return state
    situation = ShareSituation(
        jobs=jobs,
        rates=state.rates[jobs, :, 0],
        sizes=state.size[jobs],
        priorities=load.jobs["priority"][jobs],
        steps_left=state.left[jobs],
        waited_s=now_s - state.arrival_s[jobs],
        gpus=state.type_gpus,
        prices=prices,
    )
    if packing is not None:
        situation = replace(situation, profiles=packing.profiles[jobs], pair_rates=packing.pair_rates)
    found = shares(situation)
    state.has_share[jobs] = 1
    if packing is None:
        state.share[jobs] = found
        return state
    state.share[jobs] = found.alone
    return packing.assign_rows(state, jobs, found)


def _trace(cluster: GpuCluster, load: GpuLoad, state: kernel.Rounds, names: NDArray[np.int64]) -> TaskTrace:
    s = state.scalars[0]
    logged = state.stays[: s.n_stays]
    tasks = np.zeros(load.n_items, dtype=TASK_DTYPE)
    tasks["release_s"], tasks["deadline_s"] = load.jobs["arrival_s"], load.jobs["deadline_s"]
    tasks["start_s"], tasks["end_s"] = state.start_s, state.end_s
    rows = state.active[: s.n_active]
    on_gpus = state.member[rows[state.on_type[rows] >= 0]]
    running = np.full(load.n_items, TaskState.WAITING)
    running[on_gpus[on_gpus >= 0]] = TaskState.RUNNING
    tasks["state"] = np.where(state.end_s >= 0, TaskState.DONE, running)
    tasks["requested_s"], tasks["user"], tasks["kind"] = (load.jobs[name] for name in ("requested_s", "user", "kind"))
    stays = np.zeros(len(logged), dtype=STAY_DTYPE)
    jobs = logged["job"]
    stays["task"], stays["start_s"], stays["end_s"] = jobs, logged["start_s"], logged["end_s"]
    stays["first_unit"], stays["n_units"] = logged["first"], state.size[jobs]
    best = state.rates[: load.n_items, :, 0].max(axis=1)
    stays["pace"] = logged["rate"] / best[jobs]
    by_start = np.argsort(stays["start_s"], kind="stable")
    # Units are counted by the names of types there, by nodes here.
    of_type = [np.flatnonzero(cluster.type_of_gpu == t) for t in names.tolist()]
    units = np.concatenate(of_type)[state.stay_units[: s.n_units]].astype(np.int32)
    stays = stays.take(by_start)
    return TaskTrace(
        machine=cluster,
        load=load,
        tasks=tasks,
        stays=stays,
        stay_units=units,
        signals=DeferredSignals(partial(signals_of, cluster, load, tasks, stays, units, is_packed=s.n_packed > 0)),
        counts={
            "n_preemptions": float(s.n_preemptions),
            "n_migrations": float(s.n_migrations),
            "lost_gpu_s": 0.0,
            "busy_gpu_s": float(s.busy_s),
            "n_packed": float(s.n_packed),
        },
        end_s=float(s.now_s),
        n_decisions=int(s.n_rounds),
    )


def mean_jct_s(trace: TaskTrace, first: int, last: int) -> float:
    """Return the mean completion time of the jobs from ``first`` to before ``last``, as Gavel measures it."""
    jobs = trace.tasks[first:last]
    return float((jobs["end_s"] - jobs["release_s"]).mean())
