"""All that a simulation holds: tables shared by all environments, and arrays with a leading axis."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hdrl.compiled.jit import jit

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class World(NamedTuple):
    """Arrays of a batch of simulations; the first axis of those from ``n_jobs`` on is the environment.

    Nodes ``n``, GPUs ``g``, types ``t``, profiles ``p``, jobs ``j``, users ``u``; ``typical_*`` are the typical jobs
    that fragmentation is measured by.
    """

    rules: Ints
    round_s: Floats
    checkpoint_s: Floats
    node_type: Ints
    node_first: Ints
    node_gpus: Ints
    node_cpu: Ints
    node_memory: Ints
    node_order: Ints
    gpu_node: Ints
    type_gpus: Ints
    type_node: Ints
    rates: Floats
    type_rank: Ints
    level_bounds: Floats
    level_keys: Floats
    typical_cpu: Ints
    typical_gpus: Ints
    typical_milli: Ints
    typical_types: Ints
    typical_share: Floats
    class_cpu: Ints
    class_gpus: Ints
    class_milli: Ints
    # of each environment: jobs
    n_jobs: Ints
    arrival_s: Floats
    work: Floats
    estimate: Floats
    n_gpus: Ints
    milli: Ints
    cpu: Ints
    memory: Ints
    profile: Ints
    allowed: Ints
    priority: Floats
    user: Ints
    restart_s: Floats
    limit_s: Floats
    job_class: Ints
    first_unit: Ints
    best_rate: Floats
    # and their state
    status: Ints
    key: Floats
    done: Floats
    start_s: Floats
    end_s: Floats
    since_s: Floats
    overhead_s: Floats
    rate: Floats
    service_s: Floats
    level: Ints
    n_starts: Ints
    held_node: Ints
    is_spread: Ints
    units: Ints
    event_s: Floats
    heap: Ints
    heap_place: Ints
    queue: Ints
    running: Ints
    running_place: Ints
    # and the cluster's
    now_s: Floats
    counts: Ints
    sums: Floats
    gpu_free: Ints
    node_idle: Ints
    node_left: Ints
    node_most: Ints
    node_cpu_left: Ints
    node_memory_left: Ints
    node_version: Ints
    node_kinds: Ints
    type_idle: Ints
    user_use: Floats
    random: Ints
    fgd_score: Ints
    fgd_unit: Ints
    fgd_version: Ints
    picked: Ints
    scratch: Ints
    gang: Ints
    sort_key: Floats
    # the log of stays
    stay_job: Ints
    stay_first: Ints
    stay_start_s: Floats
    stay_end_s: Floats
    stay_rate: Floats
    stay_overhead_s: Floats
    stay_units: Ints


# Places in ``counts``.
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

# Places in ``sums``: integrals over time, and sums over jobs that are done.
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
    TOLD,
    N_SUMS,
) = range(16)


@jit
def fits(w, e, n, j):
    """Tell whether a job that needs one node fits on a node now."""
    if (w.allowed[e, j] >> w.node_type[n]) & 1 == 0:
        return False
    if w.node_cpu_left[e, n] < w.cpu[e, j] or w.node_memory_left[e, n] < w.memory[e, j]:
        return False
    if w.n_gpus[e, j] == 0:
        return True
    if w.milli[e, j] < 1000:
        return w.node_most[e, n] >= w.milli[e, j]
    return w.node_idle[e, n] >= w.n_gpus[e, j]


@jit
def part_of(total, taken, n):
    """Return what a node gives of the cores or the memory of a job that has some of its GPUs there."""
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
def note_node(w, e, n):
    """Bring what is known of a node up to date with its GPUs."""
    idle, left, most = 0, 0, 0
    for g in range(w.node_first[n], w.node_first[n] + w.node_gpus[n]):
        free = w.gpu_free[e, g]
        left += free
        idle += free == 1000
        most = max(most, free)
    w.type_idle[e, w.node_type[n]] += idle - w.node_idle[e, n]
    w.node_idle[e, n], w.node_left[e, n], w.node_most[e, n] = idle, left, most
    w.node_version[e, n] += 1


@jit
def move(w, e, j, sign):
    """Take what a job holds from its nodes (``sign`` -1), or give it back (1)."""
    n, milli, first = w.n_gpus[e, j], w.milli[e, j], w.first_unit[e, j]
    kind = kind_of(n, milli)
    share = sign * n * milli / 1000.0
    w.sums[e, BUSY_NOW] -= share
    w.user_use[e, w.user[e, j], 0] -= share
    w.user_use[e, w.user[e, j], 1] -= sign * w.cpu[e, j]
    w.user_use[e, w.user[e, j], 2] -= sign * w.memory[e, j]
    if n == 0:
        node = w.held_node[e, j]
        w.node_cpu_left[e, node] += sign * w.cpu[e, j]
        w.node_memory_left[e, node] += sign * w.memory[e, j]
        w.node_version[e, node] += 1
        return
    place = first
    while place < first + n:
        node = w.gpu_node[w.units[e, place]]
        taken = 0
        while place < first + n and w.gpu_node[w.units[e, place]] == node:
            w.gpu_free[e, w.units[e, place]] += sign * milli
            taken += 1
            place += 1
        w.node_cpu_left[e, node] += sign * part_of(w.cpu[e, j], taken, n)
        w.node_memory_left[e, node] += sign * part_of(w.memory[e, j], taken, n)
        w.node_kinds[e, node, kind] -= sign
        note_node(w, e, node)


@jit
def _empty(w, e):
    """Empty the nodes of an environment."""
    for n in range(len(w.node_type)):
        for g in range(w.node_first[n], w.node_first[n] + w.node_gpus[n]):
            w.gpu_free[e, g] = 1000
        w.node_cpu_left[e, n], w.node_memory_left[e, n] = w.node_cpu[n], w.node_memory[n]
        for kind in range(6):
            w.node_kinds[e, n, kind] = 0
        note_node(w, e, n)
    for u in range(w.user_use.shape[1]):
        for i in range(w.user_use.shape[2]):
            w.user_use[e, u, i] = 0.0


@jit
def _best_rate(w, e, j):
    best = 0.0
    for t in range(w.rates.shape[1]):
        if (w.allowed[e, j] >> t) & 1:
            best = max(best, w.rates[w.profile[e, j], t, 0])
    return best


@jit
def clear(w, e):
    """Empty the cluster and forget what became of the jobs."""
    _empty(w, e)
    for i in range(N_COUNTS):
        w.counts[e, i] = 0
    for i in range(N_SUMS):
        w.sums[e, i] = 0.0
    first = 0
    for j in range(w.n_jobs[e]):
        w.first_unit[e, j] = first
        first += w.n_gpus[e, j]
        w.status[e, j] = 0
        w.heap_place[e, j] = w.running_place[e, j] = -1
        w.done[e, j] = w.service_s[e, j] = w.overhead_s[e, j] = w.rate[e, j] = 0.0
        w.level[e, j] = w.n_starts[e, j] = w.is_spread[e, j] = 0
        w.held_node[e, j] = -1
        w.start_s[e, j] = w.end_s[e, j] = w.since_s[e, j] = w.event_s[e, j] = -1.0
        w.best_rate[e, j] = _best_rate(w, e, j)
    w.now_s[e] = w.sums[e, LAST_S] = w.arrival_s[e, 0] if w.n_jobs[e] > 0 else 0.0


def blank(
    shared: dict[str, Any], n_envs: int, n_jobs: int, n_units: int, n_users: int, room: int, room_units: int
) -> World:
    """Return a world whose environments have no jobs yet.

    Parameters
    ----------
    shared
        The arrays that have no environment axis.
    n_envs, n_jobs, n_units, n_users
        How many environments; the most jobs, units held over all jobs, and users of each.
    room, room_units
        Room for stays, and for their units, of the first environment.
    """
    n_nodes, n_gpus = len(shared["node_type"]), len(shared["gpu_node"])
    n_types, n_classes = shared["rates"].shape[1], len(shared["class_cpu"])
    of_job_f = "arrival_s work estimate priority restart_s limit_s best_rate key done start_s end_s since_s overhead_s"
    of_job_i = "n_gpus milli cpu memory profile allowed user job_class first_unit status level n_starts held_node"
    arrays: dict[str, NDArray[Any]] = dict(shared)
    for name in (of_job_f + " rate service_s event_s sort_key").split():
        arrays[name] = np.zeros((n_envs, n_jobs))
    for name in (of_job_i + " is_spread heap heap_place queue running running_place").split():
        arrays[name] = np.zeros((n_envs, n_jobs), dtype=np.int64)
    for name in ("node_idle", "node_left", "node_most", "node_cpu_left", "node_memory_left", "node_version"):
        arrays[name] = np.zeros((n_envs, n_nodes), dtype=np.int64)
    for name in ("fgd_score", "fgd_unit"):
        arrays[name] = np.zeros((n_envs, n_classes, n_nodes), dtype=np.int64)
    arrays |= {
        "n_jobs": np.zeros(n_envs, dtype=np.int64),
        "units": np.zeros((n_envs, max(1, n_units)), dtype=np.int64),
        "now_s": np.zeros(n_envs),
        "counts": np.zeros((n_envs, N_COUNTS), dtype=np.int64),
        "sums": np.zeros((n_envs, N_SUMS)),
        "gpu_free": np.zeros((n_envs, n_gpus), dtype=np.int64),
        "node_kinds": np.zeros((n_envs, n_nodes, 6), dtype=np.int64),
        "type_idle": np.zeros((n_envs, n_types), dtype=np.int64),
        "user_use": np.zeros((n_envs, max(1, n_users), 5)),
        "random": np.ones(n_envs, dtype=np.int64),
        "fgd_version": np.full((n_envs, n_classes, n_nodes), -1, dtype=np.int64),
        "picked": np.zeros((n_envs, n_gpus + n_nodes), dtype=np.int64),
        "scratch": np.zeros((n_envs, n_jobs), dtype=np.int64),
        "gang": np.zeros((n_envs, n_nodes), dtype=np.int64),
        "stay_job": np.zeros(room, dtype=np.int64),
        "stay_first": np.zeros(room, dtype=np.int64),
        "stay_start_s": np.zeros(room),
        "stay_end_s": np.zeros(room),
        "stay_rate": np.zeros(room),
        "stay_overhead_s": np.zeros(room),
        "stay_units": np.zeros(room_units, dtype=np.int64),
    }
    return World(**arrays)
