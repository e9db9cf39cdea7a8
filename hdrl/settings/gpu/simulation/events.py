"""Simulating a load on a cluster under a policy: from arrays to a Trace."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hdrl.base.arguments import check_type
from hdrl.base.errors import OptionsError, SimulationError
from hdrl.base.seeding import stream
from hdrl.compiled.borrowed import Borrowed
from hdrl.compiled.cache import compile_once
from hdrl.compiled.codes import check_status
from hdrl.compiled.fields import arrays_of, doubled
from hdrl.settings.gpu.cluster.machine import NODE_DTYPE, GpuCluster, GpuType
from hdrl.settings.gpu.kernel import codes, entries, state
from hdrl.settings.gpu.kernel.jit import CACHE_FOLDER
from hdrl.settings.gpu.kernel.state import GpuState
from hdrl.settings.gpu.loads.history import history_of
from hdrl.settings.gpu.loads.load import GpuLoad, check_runs_on, new_jobs
from hdrl.settings.gpu.policies.advisors import NEVER, advise
from hdrl.settings.gpu.policies.names import PLACEMENTS, RULES, Policy, read_policy
from hdrl.settings.gpu.policies.rules import TIES, Rules, draw_restarts, levels_of, order_nodes
from hdrl.trace.model import STAY_DTYPE, TASK_DTYPE, DeferredSignals, Signal, TaskState, TaskTrace

STEPS_AT_ONCE = 200_000
"""After this many events a simulation returns to Python."""

TYPICAL_SHARE = 0.95
"""Typical jobs are the most frequent kinds that make up so much of all."""


def simulate(
    cluster: GpuCluster,
    load: GpuLoad,
    policy: Policy | str,
    *,
    seed: int = 0,
    rules: Rules | None = None,
    restart_s: NDArray[np.float64] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> TaskTrace:
    """Simulate a load on a cluster under a policy.

    Parameters
    ----------
    policy
        A policy or its name, see `read_policy`.
    seed
        Seed of what is random: placements, ties, restarts.
    restart_s
        Overhead of each job that resumes after a preemption, in seconds; ``None``: the rules draw it.
    progress
        Gets the numbers of finished jobs and of all jobs now and then.

    Raises
    ------
    WorkloadError
        If a job can never run.
    OptionsError
        If policy, rules and load do not go together.
    SimulationError
        If jobs wait forever.
    """
    rules = rules or Rules()
    check_runs_on(load, cluster)
    check_type("policy", policy, (Policy, str), "the name of a policy, or what hdrl.gpu.read_policy returns")
    policy = read_policy(policy) if isinstance(policy, str) else policy
    _check_adapts(load, policy, rules)
    world = new_world(cluster, load, policy, seed=seed, rules=rules, restart_s=restart_s, records=True)
    batch = Borrowed(world)
    entries.begin(batch.addresses)
    while True:
        why = entries.run(batch.addresses, STEPS_AT_ONCE)
        check_status(why, *codes.codes_of_rules(world.rules))
        if progress is not None:
            progress(int(world.counts[0, state.N_DONE]), load.n_items)
        if why == codes.FINISHED:
            trace = trace_of(cluster, load, world)
            return trace if load.values is None else advise(trace, _overheads_of(world), policy.advisor)
        if why == codes.NEEDS_ROOM:
            world = doubled(world)
            batch = Borrowed(world)
        elif why == codes.STUCK:
            waiting = int(world.counts[0, state.N_WAITING])
            raise SimulationError(
                f"{load.name}: deadlock: {waiting} jobs wait and none can start on {cluster.name} under {policy.name};"
                f" the first is job {int(world.queue.waiting[0, world.counts[0, state.QUEUE_HEAD]])}"
            )


def _check_adapts(load: GpuLoad, policy: Policy, rules: Rules) -> None:
    """Raise if a policy advises jobs that do not adapt, or jobs that do would forget what they were advised."""
    if load.values is None and policy.advisor != NEVER:
        raise OptionsError(
            f"policy {policy.name}: the jobs of {load.name} do not adapt, so that {policy.advisor} advises no job; give"
            " load.adapting, or leave it out"
        )
    if load.values is not None and rules.checkpoint_s > 0.0:
        raise OptionsError("rules.checkpoint_s does not go with load.adapting: jobs that adapt lose nothing")


def machine_arrays(cluster: GpuCluster, node_order: NDArray[np.int64]) -> dict[str, Any]:
    """Return the arrays of a world that follow from the cluster alone, its nodes in the order of ``node_order``."""
    nodes = cluster.nodes
    return {
        "node_type": np.ascontiguousarray(nodes["gpu_type"]),
        "node_first": np.cumsum(nodes["n_gpus"]) - nodes["n_gpus"],
        "node_gpus": np.ascontiguousarray(nodes["n_gpus"]),
        "node_cpu": np.ascontiguousarray(nodes["cpu_milli"]),
        "node_memory": np.ascontiguousarray(nodes["memory_mib"]),
        "node_order": np.ascontiguousarray(node_order, dtype=np.int64),
        "gpu_node": cluster.node_of_gpu.astype(np.int64),
        "type_gpus": cluster.gpus_of_type,
        "type_node": np.maximum(1, cluster.largest_node),
    }


def rank_types(rates: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return for each profile and type how many types are faster, shape ``(n_profiles, n_types)``."""
    together = rates[:, :, 0]
    return np.asarray((together[:, None, :] > together[:, :, None]).sum(axis=2), dtype=np.int64)


def classes_of(cluster: GpuCluster, load: GpuLoad) -> tuple[NDArray[np.int64], dict[str, Any]]:
    """Return the class of each job for FGD, and the arrays of classes and of typical jobs."""
    jobs = load.jobs
    columns = [jobs["cpu_milli"], jobs["n_gpus"], jobs["gpu_milli"], load.allowed(cluster)]
    kinds, numbers, counts = np.unique(np.stack(columns, axis=1), axis=0, return_inverse=True, return_counts=True)
    arrays: dict[str, Any] = {
        f"class_{name}": np.ascontiguousarray(kinds[:, position])
        for position, name in enumerate(("cpu", "gpus", "milli"))
    }
    return numbers.reshape(-1).astype(np.int64), arrays | _typical_jobs(kinds, counts)


def _typical_jobs(kinds: NDArray[np.int64], counts: NDArray[np.int64]) -> dict[str, Any]:
    """Return the arrays of the most frequent ``(cores, GPUs, share, types)``: `TYPICAL_SHARE` of all jobs or more."""
    by_count = np.argsort(-counts, kind="stable")
    n = int(np.searchsorted(np.cumsum(counts[by_count]), TYPICAL_SHARE * counts.sum() - 1e-9)) + 1
    chosen = by_count[:n]
    arrays: dict[str, Any] = {
        f"typical_{name}": np.ascontiguousarray(kinds[chosen, position])
        for position, name in enumerate(("cpu", "gpus", "milli", "types"))
    }
    return arrays | {"typical_share": counts[chosen] / counts[chosen].sum()}


def no_classes() -> dict[str, Any]:
    """Return the arrays of classes and typical jobs where no placement looks at them."""
    names = ("class_cpu", "class_gpus", "class_milli", "typical_cpu", "typical_gpus", "typical_milli", "typical_types")
    arrays: dict[str, Any] = {name: np.zeros(1, dtype=np.int64) for name in names}
    return arrays | {"typical_share": np.zeros(1)}


def shared_arrays(
    cluster: GpuCluster,
    load: GpuLoad,
    policy: Policy,
    *,
    seed: int,
    rules: Rules,
    records: bool,
    typical: Any = None,
) -> tuple[dict[str, Any], NDArray[np.int64]]:
    """Return the arrays of a world that all of its simulations share, and the class of each job for FGD."""
    _, rates = load.profiles(cluster)
    bounds, keys = levels_of(rules, "" if policy.learns else policy.order, cluster, load)
    job_class, classes = np.zeros(load.n_items, dtype=np.int64), no_classes()
    if policy.placement == "fgd" or typical is not None:
        job_class, classes = classes_of(cluster, load)
    codes_of = np.zeros(codes.N_RULES, dtype=np.int64)
    codes_of[codes.ORDER] = policy.code
    codes_of[codes.PLACEMENT], codes_of[codes.RULE] = PLACEMENTS[policy.placement], RULES[policy.rule]
    codes_of[codes.PREEMPTS], codes_of[codes.TIE], codes_of[codes.RECORDS] = policy.preempts, TIES[rules.tie], records
    codes_of[codes.NEEDS_GPUS] = bool((load.jobs["n_gpus"] > 0).all())
    shared = machine_arrays(cluster, order_nodes(cluster, rules.node_order, seed))
    shared |= {"rates": rates, "type_rank": rank_types(rates), "level_bounds": bounds, "level_keys": keys}
    shared |= classes | (typical or {})
    shared |= {
        "rules": codes_of,
        "round_s": np.array([rules.round_s], dtype=np.float64),
        "checkpoint_s": np.array([rules.checkpoint_s], dtype=np.float64),
    }
    return shared, job_class


def new_world(
    cluster: GpuCluster,
    load: GpuLoad,
    policy: Policy,
    *,
    seed: int,
    rules: Rules,
    records: bool,
    restart_s: NDArray[np.float64] | None = None,
    typical: Any = None,
) -> GpuState:
    """Return the world of one simulation.

    Parameters
    ----------
    typical
        Arrays of typical jobs instead of the load's own.
    """
    shared, job_class = shared_arrays(cluster, load, policy, seed=seed, rules=rules, records=records, typical=typical)
    n_units = int(load.jobs["n_gpus"].sum())
    n_users = int(load.jobs["user"].max()) + 2
    room = (load.n_items + 16, n_units + 2 * cluster.n_units + load.n_items + 16) if records else (1, 1)
    history = history_of(load, cluster) if policy.learns else None
    n_groups = 0 if history is None else len(history.before)
    n_weights = len(policy.weights)
    world = state.new_world(shared, 1, load.n_items, n_units, n_users, *room, n_groups=n_groups, n_weights=n_weights)
    world.past.weights[0] = policy.weights
    if history is not None:
        world.past.groups[0], world.past.history_before[0] = history.groups, history.before
    drawn = draw_restarts(rules, load.n_items, seed) if restart_s is None else restart_s
    columns = {"restart_s": drawn, "job_class": job_class}
    put_jobs(world, 0, columns_of(cluster, load) | columns, 0, load.n_items)
    world.random[0] = first_random(seed)
    return world


def first_random(seed: int) -> int:
    """Return the initial state of the draws of placements and ties."""
    return int(stream(seed, "gpu-placement").integers(1, 2147483646))


def columns_of(cluster: GpuCluster, load: GpuLoad) -> dict[str, NDArray[Any]]:
    """Return the arrays of a world that describe jobs, each of shape ``(n_jobs,)``."""
    jobs = load.jobs
    same = ("arrival_s", "work", "n_gpus", "priority")
    columns = {name: np.ascontiguousarray(jobs[name]) for name in same}
    for name, column in (("milli", "gpu_milli"), ("cpu", "cpu_milli"), ("memory", "memory_mib")):
        columns[name] = np.ascontiguousarray(jobs[column])
    requested = jobs["requested_s"] * load.best_rates(cluster)
    limit_s = np.full(load.n_items, np.inf) if load.values is None else np.ascontiguousarray(jobs["deadline_s"])
    return columns | {
        "limit_s": limit_s,
        "user": jobs["user"] + 1,
        "profile": load.profiles(cluster)[0],
        "allowed": load.allowed(cluster),
        "estimate": np.where(np.isfinite(jobs["requested_s"]), requested, jobs["work"]),
    }


def put_jobs(world: GpuState, row: int, columns: Mapping[str, NDArray[Any]], first: int, n: int) -> None:
    """Write ``n`` jobs from the ``first`` one on into an environment, from what `columns_of` returned."""
    arrays = arrays_of(world)
    world.jobs.n_jobs[row] = n
    for name, column in columns.items():
        arrays[name][row, :n] = column[first : first + n]


def trace_of(cluster: GpuCluster, load: GpuLoad, world: GpuState) -> TaskTrace:
    """Return the Trace of a simulation that has ended."""
    n = load.n_items
    tasks = np.zeros(n, dtype=TASK_DTYPE)
    tasks["release_s"], tasks["deadline_s"] = load.jobs["arrival_s"], load.jobs["deadline_s"]
    tasks["start_s"], tasks["end_s"] = world.jobs.start_s[0, :n], world.jobs.end_s[0, :n]
    status = world.jobs.status[0, :n]
    never_ran = (status == codes.OVERRAN) & (tasks["start_s"] < 0.0)
    tasks["state"], tasks["end_s"][never_ran] = np.where(never_ran, TaskState.WAITING, status), -1.0
    tasks["requested_s"], tasks["user"], tasks["kind"] = (load.jobs[name] for name in ("requested_s", "user", "kind"))
    stays, units = _stays_of(world)
    counts, sums = world.counts[0], world.sums[0]
    end_s = float(world.now_s[0, 0])
    return TaskTrace(
        machine=cluster,
        load=load,
        tasks=tasks,
        stays=stays,
        stay_units=units,
        signals=DeferredSignals(partial(signals_of, cluster, load, tasks, stays, units)),
        counts={
            "n_preemptions": float(counts[state.N_PREEMPTIONS]),
            "n_migrations": float(counts[state.N_MIGRATIONS]),
            "lost_gpu_s": float(sums[state.LOST_S]),
            "busy_gpu_s": float(sums[state.BUSY_S]),
        },
        end_s=end_s,
        n_decisions=int(counts[state.N_DECISIONS]),
    )


def _stays_of(world: GpuState) -> tuple[NDArray[np.void], NDArray[np.int32]]:
    n, n_units = int(world.counts[0, state.N_STAYS]), int(world.counts[0, state.N_UNITS])
    stays = np.zeros(n, dtype=STAY_DTYPE)
    jobs = world.log.stay_job[0, :n]
    stays["task"], stays["start_s"], stays["end_s"] = jobs, world.log.stay_start_s[0, :n], world.log.stay_end_s[0, :n]
    stays["first_unit"], stays["n_units"] = world.log.stay_first[0, :n], world.jobs.n_gpus[0, jobs]
    stays["pace"] = world.log.stay_rate[0, :n] / world.jobs.best_rate[0, jobs]
    by_start = np.argsort(stays["start_s"], kind="stable")
    return stays.take(by_start), world.log.stay_units[0, :n_units].astype(np.int32)


def _overheads_of(world: GpuState) -> NDArray[np.float64]:
    """Return the overhead of each stay of `_stays_of` before its job went on, in seconds."""
    n = int(world.counts[0, state.N_STAYS])
    return np.asarray(world.log.stay_overhead_s[0, :n][np.argsort(world.log.stay_start_s[0, :n], kind="stable")])


def signals_of(
    cluster: GpuCluster,
    load: GpuLoad,
    tasks: NDArray[np.void],
    stays: NDArray[np.void],
    units: NDArray[np.int32],
    *,
    is_packed: bool = False,
) -> dict[str, Signal]:
    """Return the number of waiting jobs, and of busy GPUs of each type, over time."""
    left_s = tasks["end_s"][tasks["end_s"] >= 0]
    if load.values is not None:  # jobs that never ran left the queue at the deadline
        left_s = np.concatenate([left_s, tasks["deadline_s"][tasks["state"] == TaskState.WAITING]])
    times = np.concatenate([tasks["release_s"], stays["start_s"], stays["end_s"], left_s])
    n, n_stays = len(tasks), len(stays)
    queue = np.concatenate([np.ones(n), -np.ones(n_stays), np.ones(n_stays), -np.ones(len(times) - n - 2 * n_stays)])
    signals = {"queue": _steps(times, queue)}
    share = load.held_gpus(stays, units, is_packed=is_packed)
    has_units = stays["n_units"] > 0
    kinds = np.full(n_stays, -1)
    kinds[has_units] = cluster.type_of_gpu[units[stays["first_unit"][has_units]]]
    for number, one in enumerate(cluster.types):
        mine = kinds == number
        both = np.concatenate([stays["start_s"][mine], stays["end_s"][mine]])
        signals[f"busy_{one.name}"] = _steps(both, np.concatenate([share[mine], -share[mine]]))
    return signals


def _steps(times: NDArray[np.float64], changes: NDArray[np.float64]) -> Signal:
    # With the index, NumPy sorts by merging: ten times as fast here, where sorted dates follow sorted dates.
    dates, _, positions = np.unique(times, return_index=True, return_inverse=True)
    return Signal(dates, np.cumsum(np.bincount(positions.reshape(-1), weights=changes, minlength=len(dates))))


def warm_up(message: Callable[[str], None]) -> None:
    """Compile the simulator if it has never been compiled here, after a message; later processes load the cache."""
    compile_once(
        CACHE_FOLDER,
        "compiled",
        "compiling the simulator of GPU clusters (the first time only, about half a minute)",
        _simulate_once,
        message,
    )


def _simulate_once() -> None:
    nodes = np.array([(0, 1, 0, 0)], dtype=NODE_DTYPE)
    simulate(GpuCluster("c", (GpuType("t"),), nodes), GpuLoad("l", new_jobs(1)), Policy("fifo"))
