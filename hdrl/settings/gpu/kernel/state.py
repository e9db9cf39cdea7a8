"""State of a simulation, one line of `GpuState` for each array."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hdrl.compiled.fields import Role, fields_of, log, new_arrays, own, shared, sizes_of
from hdrl.compiled.heap import SLOT_DTYPE
from hdrl.compiled.jit import jit
from hdrl.settings.gpu.kernel.codes import N_RULES, N_SIZES

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class ClusterArrays(NamedTuple):
    """Constant data of the cluster: its nodes, GPUs and types, and their speeds."""

    node_type: Annotated[Ints, shared(np.int64, "n_nodes")]
    node_first: Annotated[Ints, shared(np.int64, "n_nodes")]
    node_gpus: Annotated[Ints, shared(np.int64, "n_nodes")]
    node_cpu: Annotated[Ints, shared(np.int64, "n_nodes")]
    node_memory: Annotated[Ints, shared(np.int64, "n_nodes")]
    node_order: Annotated[Ints, shared(np.int64, "n_nodes")]
    gpu_node: Annotated[Ints, shared(np.int64, "n_machine_gpus")]
    type_gpus: Annotated[Ints, shared(np.int64, "n_types")]
    type_node: Annotated[Ints, shared(np.int64, "n_types")]
    rates: Annotated[Floats, shared(np.float64, "n_profiles", "n_types", "two")]
    type_rank: Annotated[Ints, shared(np.int64, "n_profiles", "n_types")]


class FreeArrays(NamedTuple):
    """Free resources of each node and type, and the GPUs that users hold."""

    gpu_free: Annotated[Ints, own(np.int64, "n_machine_gpus")]
    node_idle: Annotated[Ints, own(np.int64, "n_nodes")]
    node_left: Annotated[Ints, own(np.int64, "n_nodes")]
    node_most: Annotated[Ints, own(np.int64, "n_nodes")]
    node_cpu_left: Annotated[Ints, own(np.int64, "n_nodes")]
    node_memory_left: Annotated[Ints, own(np.int64, "n_nodes")]
    node_version: Annotated[Ints, own(np.int64, "n_nodes")]
    node_kinds: Annotated[Ints, own(np.int64, "n_nodes", "n_kinds")]
    type_idle: Annotated[Ints, own(np.int64, "n_types")]
    user_use: Annotated[Floats, own(np.float64, "n_users", "n_uses")]


class TypicalJobs(NamedTuple):
    """Typical jobs, by which fragmentation is measured.

    Classes hold jobs that are alike; ``fgd_*`` is the fragmentation of each class on each node, as of which version.
    """

    typical_cpu: Annotated[Ints, shared(np.int64, "n_typical")]
    typical_gpus: Annotated[Ints, shared(np.int64, "n_typical")]
    typical_milli: Annotated[Ints, shared(np.int64, "n_typical")]
    typical_types: Annotated[Ints, shared(np.int64, "n_typical")]
    typical_share: Annotated[Floats, shared(np.float64, "n_typical")]
    class_cpu: Annotated[Ints, shared(np.int64, "n_classes")]
    class_gpus: Annotated[Ints, shared(np.int64, "n_classes")]
    class_milli: Annotated[Ints, shared(np.int64, "n_classes")]
    fgd_score: Annotated[Ints, own(np.int64, "n_classes", "n_nodes")]
    fgd_unit: Annotated[Ints, own(np.int64, "n_classes", "n_nodes")]
    fgd_version: Annotated[Ints, own(np.int64, "n_classes", "n_nodes")]


class JobArrays(NamedTuple):
    """Requests of jobs, and their progress."""

    n_jobs: Annotated[Ints, own(np.int64, "one")]
    arrival_s: Annotated[Floats, own(np.float64, "n_jobs")]
    work: Annotated[Floats, own(np.float64, "n_jobs")]
    estimate: Annotated[Floats, own(np.float64, "n_jobs")]
    n_gpus: Annotated[Ints, own(np.int64, "n_jobs")]
    milli: Annotated[Ints, own(np.int64, "n_jobs")]
    cpu: Annotated[Ints, own(np.int64, "n_jobs")]
    memory: Annotated[Ints, own(np.int64, "n_jobs")]
    profile: Annotated[Ints, own(np.int64, "n_jobs")]
    allowed: Annotated[Ints, own(np.int64, "n_jobs")]
    priority: Annotated[Floats, own(np.float64, "n_jobs")]
    user: Annotated[Ints, own(np.int64, "n_jobs")]
    restart_s: Annotated[Floats, own(np.float64, "n_jobs")]
    limit_s: Annotated[Floats, own(np.float64, "n_jobs")]
    job_class: Annotated[Ints, own(np.int64, "n_jobs")]
    first_unit: Annotated[Ints, own(np.int64, "n_jobs")]
    best_rate: Annotated[Floats, own(np.float64, "n_jobs")]
    status: Annotated[Ints, own(np.int64, "n_jobs")]
    key: Annotated[Floats, own(np.float64, "n_jobs")]
    done: Annotated[Floats, own(np.float64, "n_jobs")]
    start_s: Annotated[Floats, own(np.float64, "n_jobs")]
    end_s: Annotated[Floats, own(np.float64, "n_jobs")]
    since_s: Annotated[Floats, own(np.float64, "n_jobs")]
    overhead_s: Annotated[Floats, own(np.float64, "n_jobs")]
    rate: Annotated[Floats, own(np.float64, "n_jobs")]
    service_s: Annotated[Floats, own(np.float64, "n_jobs")]
    level: Annotated[Ints, own(np.int64, "n_jobs")]
    n_starts: Annotated[Ints, own(np.int64, "n_jobs")]
    held_node: Annotated[Ints, own(np.int64, "n_jobs")]
    is_spread: Annotated[Ints, own(np.int64, "n_jobs")]
    units: Annotated[Ints, own(np.int64, "n_units")]


class PastArrays(NamedTuple):
    """Predictions from past jobs (`history`): groups ``h``, and for an index its weights (`index`)."""

    bucket_end_s: Annotated[Floats, shared(np.float64, "n_buckets")]
    level_memory: Annotated[Floats, shared(np.float64, "n_levels", "two")]
    groups: Annotated[Ints, own(np.int64, "n_known_jobs", "n_levels")]
    history: Annotated[Floats, own(np.float64, "n_groups", "n_of_group")]
    history_before: Annotated[Floats, own(np.float64, "n_groups", "n_of_group")]
    predicted: Annotated[Floats, own(np.float64, "n_known_jobs", "n_predicted")]
    predicted_at: Annotated[Ints, own(np.int64, "n_known_jobs")]
    shares: Annotated[Floats, own(np.float64, "n_buckets")]
    weights: Annotated[Floats, own(np.float64, "n_weights")]
    type_order: Annotated[Ints, own(np.int64, "n_types")]
    type_score: Annotated[Floats, own(np.float64, "n_types")]


class QueueArrays(NamedTuple):
    """The jobs that wait and run, and the next event of each."""

    events: Annotated[NDArray[np.void], own(SLOT_DTYPE, "n_jobs", is_heap=True)]  # the next event of each job
    waiting: Annotated[Ints, own(np.int64, "n_jobs")]
    running: Annotated[Ints, own(np.int64, "n_jobs")]
    running_place: Annotated[Ints, own(np.int64, "n_jobs")]


class ScratchArrays(NamedTuple):
    """Scratch space; its contents do not outlive a decision."""

    picked: Annotated[Ints, own(np.int64, "n_picked")]
    ordered: Annotated[Ints, own(np.int64, "n_jobs")]
    gang: Annotated[Ints, own(np.int64, "n_nodes")]
    sort_key: Annotated[Floats, own(np.float64, "n_jobs")]


class StayLog(NamedTuple):
    """The stays of jobs; batches of more than one environment keep none."""

    stay_job: Annotated[Ints, log(np.int64, "n_stays", counted_by="N_STAYS")]
    stay_first: Annotated[Ints, log(np.int64, "n_stays", counted_by="N_STAYS")]
    stay_start_s: Annotated[Floats, log(np.float64, "n_stays", counted_by="N_STAYS")]
    stay_end_s: Annotated[Floats, log(np.float64, "n_stays", counted_by="N_STAYS")]
    stay_rate: Annotated[Floats, log(np.float64, "n_stays", counted_by="N_STAYS")]
    stay_overhead_s: Annotated[Floats, log(np.float64, "n_stays", counted_by="N_STAYS")]
    stay_units: Annotated[Ints, log(np.int64, "n_stay_units", counted_by="N_UNITS")]


class AgentArrays(NamedTuple):
    """The agent, if there is one: sizes (`acting`), its placements, in what unit it is paid, and what it is shown."""

    sizes: Annotated[Ints, shared(np.int64, "n_sizes")]
    placements: Annotated[Ints, shared(np.int64, "n_placements")]
    unit: Annotated[Floats, own(np.float64, "one")]
    observations: Annotated[NDArray[np.float32], own(np.float32, "n_rows", "n_columns", is_output=True)]
    row_masks: Annotated[NDArray[np.int8], own(np.int8, "n_rows", is_output=True)]


class GpuState(NamedTuple):
    """The arrays of a batch of simulations, or without the leading axis those of one.

    Nodes ``n``, GPUs ``g``, types ``t``, profiles ``p``, jobs ``j``, users ``u``.
    """

    rules: Annotated[Ints, shared(np.int64, "n_rules")]
    round_s: Annotated[Floats, shared(np.float64, "one")]
    checkpoint_s: Annotated[Floats, shared(np.float64, "one")]
    level_bounds: Annotated[Floats, shared(np.float64, "n_bounds")]
    level_keys: Annotated[Floats, shared(np.float64, "n_keys")]
    now_s: Annotated[Floats, own(np.float64, "one")]
    counts: Annotated[Ints, own(np.int64, "n_counts")]
    sums: Annotated[Floats, own(np.float64, "n_sums")]
    random: Annotated[Ints, own(np.int64, "one")]
    machine: ClusterArrays
    free: FreeArrays
    typical: TypicalJobs
    jobs: JobArrays
    past: PastArrays
    queue: QueueArrays
    scratch: ScratchArrays
    log: StayLog
    agent: AgentArrays


# Positions in ``counts``.
(
    NEXT_JOB,
    N_WAITING,
    N_RUNNING,
    N_EVENTS,
    N_DONE,
    N_STAYS,
    N_UNITS,
    N_DECISIONS,
    N_PREEMPTIONS,
    N_MIGRATIONS,
    NEEDS_DECISION,
    QUEUE_HEAD,
    PAGE,
    PAGES_TURNED,
    N_COUNTS,
) = range(15)

# Positions in ``sums``: integrals over time, and sums over jobs that are done.
(
    BUSY_S,
    WAITING_S,
    SYSTEM_S,
    JCT_S,
    SLOWDOWN,
    PRIORITY_JCT_S,
    LOST_S,
    LAST_S,
    PRIORITY_DONE,
    BUSY_NOW,
    SLOW_NOW,
    SLOW_S,
    PRIORITY_NOW,
    PRIORITY_S,
    REWARDED,
    DECIDED_S,
    QUEUED_GPUS,
    N_SUMS,
) = range(18)


N_KINDS, N_USES = 6, 5
"""Kinds of jobs (`kind_of`), and what there is of each user: GPUs, cores, memory, and two marks of `deciding`."""


N_BUCKETS = 28
"""Half octaves of times that histograms of groups have: the first up to 11 s, the last without end."""

BUCKET_END_S = np.array([8.0 * 2.0 ** (k // 2) * (math.sqrt(2.0) if k % 2 else 1.0) for k in range(1, N_BUCKETS + 1)])
"""Upper edges of the buckets, in seconds."""

MEMORY = np.array([(0.999, 1), (0.995, 10), (0.98, 5), (0.95, 5), (0.98, 5), (0.95, 5), (0.9, 2)])
"""Of each level of groups, from all jobs to those of the same user and name (`hdrl.settings.gpu.loads.history.LEVELS`):
what is kept at an end, and how many jobs the coarser level counts as."""

# Positions in the row of a group behind its buckets: how many jobs, less what has been forgotten, the sum of the
# logarithms of their times, and those of the last two.
SEEN, SUM_OF_LOGS, LAST_LOG, LOG_BEFORE, N_OF_GROUP = range(N_BUCKETS, N_BUCKETS + 5)

# Positions in what is predicted of a job: logarithms of Gittins' index and of the mean time that is left, the mean
# logarithm of that time, and of the whole; how much its smallest group has seen, the mean of its last two jobs, and
# what the job had done.
LOG_GITTINS, LOG_MEAN, MEAN_LOG, LOG_WHOLE, N_SEEN, LAST_TWO, DONE_S, N_PREDICTED = range(8)


@jit
def fits(w, n, j):
    """Return whether a job that needs one node fits on a node now."""
    if (w.jobs.allowed[j] >> w.machine.node_type[n]) & 1 == 0:
        return False
    if w.free.node_cpu_left[n] < w.jobs.cpu[j] or w.free.node_memory_left[n] < w.jobs.memory[j]:
        return False
    if w.jobs.n_gpus[j] == 0:
        return True
    if w.jobs.milli[j] < 1000:
        return w.free.node_most[n] >= w.jobs.milli[j]
    return w.free.node_idle[n] >= w.jobs.n_gpus[j]


@jit
def part_of(total, taken, n):
    """Return a node's part of the cores or the memory of a job that has some of its GPUs there."""
    return total if taken >= n else -((-total * taken) // n)


@jit
def kind_of(n_gpus, milli):
    """Return the kind by which jobs are clustered: shares, and 1, 2, 4, 8 or other numbers of GPUs."""
    if milli < 1000:
        return 0
    if n_gpus == 1:
        return 1
    if n_gpus == 2:
        return 2
    if n_gpus == 4:
        return 3
    return 4 if n_gpus == 8 else 5


@jit
def note_node(w, n):
    """Update the records of a node from its GPUs."""
    idle, left, most = 0, 0, 0
    for g in range(w.machine.node_first[n], w.machine.node_first[n] + w.machine.node_gpus[n]):
        free = w.free.gpu_free[g]
        left += free
        idle += free == 1000
        most = max(most, free)
    w.free.type_idle[w.machine.node_type[n]] += idle - w.free.node_idle[n]
    w.free.node_idle[n], w.free.node_left[n], w.free.node_most[n] = idle, left, most
    w.free.node_version[n] += 1


@jit
def move(w, j, sign):
    """Take the resources of a job from its nodes (``sign`` -1), or give them back (1)."""
    n, milli, first = w.jobs.n_gpus[j], w.jobs.milli[j], w.jobs.first_unit[j]
    kind = kind_of(n, milli)
    share = sign * n * milli / 1000.0
    w.sums[BUSY_NOW] -= share
    w.free.user_use[w.jobs.user[j], 0] -= share
    w.free.user_use[w.jobs.user[j], 1] -= sign * w.jobs.cpu[j]
    w.free.user_use[w.jobs.user[j], 2] -= sign * w.jobs.memory[j]
    if n == 0:
        node = w.jobs.held_node[j]
        w.free.node_cpu_left[node] += sign * w.jobs.cpu[j]
        w.free.node_memory_left[node] += sign * w.jobs.memory[j]
        w.free.node_version[node] += 1
        return
    position = first
    while position < first + n:
        node = w.machine.gpu_node[w.jobs.units[position]]
        taken = 0
        while position < first + n and w.machine.gpu_node[w.jobs.units[position]] == node:
            w.free.gpu_free[w.jobs.units[position]] += sign * milli
            taken += 1
            position += 1
        w.free.node_cpu_left[node] += sign * part_of(w.jobs.cpu[j], taken, n)
        w.free.node_memory_left[node] += sign * part_of(w.jobs.memory[j], taken, n)
        w.free.node_kinds[node, kind] -= sign
        note_node(w, node)


@jit
def _empty(w):
    """Empty the nodes of an environment."""
    for n in range(len(w.machine.node_type)):
        for g in range(w.machine.node_first[n], w.machine.node_first[n] + w.machine.node_gpus[n]):
            w.free.gpu_free[g] = 1000
        w.free.node_cpu_left[n], w.free.node_memory_left[n] = w.machine.node_cpu[n], w.machine.node_memory[n]
        for kind in range(N_KINDS):
            w.free.node_kinds[n, kind] = 0
        note_node(w, n)
    for u in range(w.free.user_use.shape[0]):
        for i in range(w.free.user_use.shape[1]):
            w.free.user_use[u, i] = 0.0


@jit
def _best_rate(w, j):
    best = 0.0
    for t in range(w.machine.rates.shape[1]):
        if (w.jobs.allowed[j] >> t) & 1:
            best = max(best, w.machine.rates[w.jobs.profile[j], t, 0])
    return best


@jit
def clear(w):
    """Empty the cluster and forget what became of the jobs."""
    _empty(w)
    for i in range(N_COUNTS):
        w.counts[i] = 0
    for i in range(N_SUMS):
        w.sums[i] = 0.0
    first = 0
    for j in range(w.jobs.n_jobs[0]):
        w.jobs.first_unit[j] = first
        first += w.jobs.n_gpus[j]
        w.jobs.status[j] = 0
        w.queue.events[j].position = w.queue.running_place[j] = -1
        w.jobs.done[j] = w.jobs.service_s[j] = w.jobs.overhead_s[j] = w.jobs.rate[j] = 0.0
        w.jobs.level[j] = w.jobs.n_starts[j] = w.jobs.is_spread[j] = 0
        w.jobs.held_node[j] = -1
        w.jobs.start_s[j] = w.jobs.end_s[j] = w.jobs.since_s[j] = w.queue.events[j].key = -1.0
        w.jobs.best_rate[j] = _best_rate(w, j)
    for j in range(len(w.past.predicted_at)):
        w.past.predicted_at[j] = -1
    for g in range(w.past.history.shape[0]):
        for i in range(w.past.history.shape[1]):
            w.past.history[g, i] = w.past.history_before[g, i]
    w.now_s[0] = w.sums[LAST_S] = w.jobs.arrival_s[0] if w.jobs.n_jobs[0] > 0 else 0.0


def new_world(
    given: Mapping[str, NDArray[Any]],
    n_envs: int,
    n_jobs: int,
    n_units: int,
    n_users: int,
    room: int,
    room_units: int,
    *,
    n_groups: int = 0,
    n_weights: int = 0,
) -> GpuState:
    """Return a world whose environments have no jobs yet.

    Parameters
    ----------
    given
        The arrays that all environments share, and those that an agent is shown, if there is one.
    n_envs, n_jobs, n_units, n_users
        Number of environments; the most jobs, units held over all jobs, and users of each.
    room, room_units
        Room for stays, and for their units, of each environment.
    n_groups
        Groups of jobs for predictions; 0: there are none.
    """
    given = {"bucket_end_s": BUCKET_END_S, "level_memory": MEMORY, **given}
    n_nodes, n_gpus = len(given["node_type"]), len(given["gpu_node"])
    sizes = {
        "one": 1,
        "two": 2,
        "n_rules": N_RULES,
        "n_nodes": n_nodes,
        "n_machine_gpus": n_gpus,
        "n_jobs": n_jobs,
        "n_units": max(1, n_units),
        "n_counts": N_COUNTS,
        "n_sums": N_SUMS,
        "n_kinds": N_KINDS,
        "n_users": max(1, n_users),
        "n_uses": N_USES,
        # Also counts GPUs by type, and a file may name more types than it has nodes and GPUs.
        "n_picked": n_gpus + max(n_nodes, len(given["type_gpus"])),
        "n_stays": room,
        "n_stay_units": room_units,
        "n_sizes": 0,
        "n_placements": 0,
        "n_rows": 0,
        "n_columns": 0,
        "n_known_jobs": n_jobs if n_groups else 0,
        "n_groups": n_groups,
        "n_of_group": N_OF_GROUP,
        "n_predicted": N_PREDICTED,
        "n_weights": n_weights,
    }
    batch = new_arrays(GpuState, sizes | sizes_of(GpuState, given), given, n_envs)
    batch.random[:] = 1
    batch.typical.fgd_version[:] = -1
    batch.agent.unit[:] = 1.0
    return batch


def smallest_world() -> GpuState:
    """Return a world of one GPU and one job; its arrays are of the types of all worlds'."""
    names = [name for name, field in fields_of(GpuState).items() if field.role is Role.SHARED]
    given = {
        name: np.zeros([1] * len(fields_of(GpuState)[name].lengths), fields_of(GpuState)[name].dtype) for name in names
    }
    given |= {"rules": np.zeros(N_RULES, dtype=np.int64), "rates": np.ones((1, 1, 2)), "level_memory": np.ones((1, 2))}
    given |= {"sizes": np.zeros(N_SIZES, dtype=np.int64)}
    return new_world(given, 1, 1, 1, 1, 1, 1)
