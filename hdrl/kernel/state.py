"""The kernel's state: flat structured arrays, with a leading environment axis.

`State` is what every kernel function takes: the arrays of *one* environment. A batch is the same
tuple with one axis more in front, but for what all environments share (`hdrl.kernel.batch`). The functions of
the kernel never allocate and never hold Python objects; what may grow (logs) is grown between two calls.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hdrl.kernel import bits, codes
from hdrl.kernel.records import record_dtype
from hdrl.platform.model import Platform
from hdrl.platform.pstates import IDLE, SERVING
from hdrl.workload.model import STEP_DTYPE, Workload

SCALAR_DTYPE = record_dtype(
    [
        # clock and engine
        ("now", np.float64),
        ("engine_s", np.float64),
        ("seq", np.int64),
        ("n_engine_steps", np.int64),
        ("n_sleeps", np.int64),
        ("n_tasks", np.int64),
        ("loopback_s", np.float64),
        # mailbox of the server: one transfer at a time, the rest queue
        ("box_head", np.int64),
        ("box_len", np.int64),
        ("transferring", np.int8),
        ("transfer_end_s", np.float64),
        ("transfer_seq", np.int64),
        ("n_late", np.int64),
        ("end_rank", np.int64),
        # exchange with the scheduler
        ("ready", np.int8),
        ("message_ready", np.int8),
        ("ended", np.int8),
        ("acknowledged", np.int8),
        ("n_events", np.int64),
        ("n_ops", np.int64),
        ("next_op", np.int64),
        ("n_pool", np.int64),
        ("reply_now_s", np.float64),
        ("message_s", np.float64),
        # counts
        ("n_submitted", np.int64),
        ("n_done", np.int64),
        ("n_running", np.int64),
        ("n_timers", np.int64),
        ("n_killers", np.int64),
        ("n_submitters_left", np.int64),
        ("n_idle", np.int64),
        ("n_computing", np.int64),
        ("n_grouped_switches", np.int64),
        ("n_machine_switches", np.int64),
        ("time_computing_s", np.float64),
        ("time_idle_s", np.float64),
        # energy
        ("energy", np.int8),
        ("flat_power", np.int8),
        ("energy_read", np.int8),
        ("swept_s", np.float64),
        ("energy_j", np.float64),
        ("energy_time_s", np.float64),
        ("power_w", np.float64),
        ("epsilon_w", np.float64),
        ("first_energy_j", np.float64),
        ("last_energy_j", np.float64),
        # logs
        ("logging", np.int8),
        ("n_machine_log", np.int64),
        ("n_pstate_log", np.int64),
        ("n_pstate_cores", np.int64),
        ("n_energy_log", np.int64),
        ("n_completed", np.int64),
        ("n_allocated", np.int64),
        ("n_core_fails", np.int64),
        ("n_memory_fails", np.int64),
        ("n_spans", np.int64),
        # decision system
        ("layer", np.int8),
        ("reference_flops", np.float64),
        ("compatible", np.int8),
        ("n_queue", np.int64),
        ("n_expected", np.int64),
        ("first_submit_s", np.float64),
        # conservative backfilling: events of the plan, whether it is up to date, until when something became free
        ("n_plan", np.int64),
        ("has_plan", np.int8),
        ("freed_s", np.float64),
        ("plans_nodes", np.int8),
        ("queue_key", np.int64),
        ("next_rank", np.int64),
        ("n_free_cores", np.int64),
        ("follows_progress", np.int8),
        ("news", np.int8),
        ("no_more_jobs", np.int8),
        ("n_decisions", np.int64),
        # what went wrong
        ("error", np.int64),
        ("error_job", np.int64),
        ("error_core", np.int64),
    ]
)

JOB_STATE_DTYPE = record_dtype(
    [
        # what is asked for
        ("submit_s", np.float64),
        ("walltime_s", np.float64),
        ("requested_time_s", np.float64),
        ("memory_mib", np.float64),
        ("bandwidth_gbps", np.float64),
        ("n_requested", np.int32),
        ("first_step", np.int64),
        ("end_step", np.int64),
        # what became of it
        ("state", np.int8),
        ("kill_asked", np.int8),
        ("sleep_kind", np.int8),
        ("return_code", np.int32),
        ("n_cores", np.int32),
        ("first_core", np.int64),
        ("start_s", np.float64),
        ("run_s", np.float64),
        ("energy_j", np.float64),
        # the running step
        ("step", np.int64),
        ("left_s", np.float64),
        ("step_start_s", np.float64),
        ("remaining", np.float64),
        ("rate", np.float64),
        ("updated_s", np.float64),
        ("retimed_by", np.int64),
        ("slowest_flops", np.float64),
        ("n_slowest", np.int64),
        # its place in the queue
        ("rank", np.int64),
        ("priority", np.float64),
        ("expected_end_s", np.float64),
        # its reservation (start -1: none), and its part of `planned_nodes` and `planned_cores`
        ("reserved_s", np.float64),
        ("reserved_end_s", np.float64),
        ("first_planned", np.int64),
        ("n_planned", np.int32),
        # the decision system's picture of its progress
        ("done_flop", np.float64),
        ("done_until_s", np.float64),
        ("pace_flops", np.float64),
        ("pace_known", np.int8),
    ]
)

CORE_DTYPE = record_dtype([("owner", np.int32), ("job", np.int32)])
"""A core: the job that the decision system has given it to, and the one that the simulated host runs; -1: none."""

HOST_DTYPE = record_dtype([("energy_j", np.float64), ("energy_time_s", np.float64), ("state_time_s", np.float64)])
"""What logs tell of a simulated host."""

RUNG_DTYPE = record_dtype(
    [
        ("speed_flops", np.float64),
        ("host_flops", np.float64),
        ("idle_w", np.float64),
        ("epsilon_w", np.float64),
        ("full_w", np.float64),
    ]
)
"""A P-state of one kind of core: its speed, that of its whole host, and its power idle, hardly loaded and loaded."""

PROCESSOR_DTYPE = record_dtype(
    [
        ("node", np.int32),
        ("first_core", np.int32),
        ("end_core", np.int32),
        ("bandwidth_gbps", np.float64),
        ("peak_gflops", np.float64),
        ("peak_power_w", np.float64),
    ]
)
"""A processor; nothing of it changes."""

DUE_PSTATE_DTYPE = record_dtype([("serving", np.int16), ("unused", np.int16)])
"""Of a processor: the P-states of cores that serve a job and of those that do not, as found when last looked for."""

OVERCOMMITMENT_DTYPE = record_dtype([("open_span", np.int64), ("last_span", np.int64), ("closed_s", np.float64)])
"""Of each processor: the span of over-commitment that goes on, the last one, and when that ended (-1: none)."""

NODE_DTYPE = record_dtype([("first_processor", np.int32), ("end_processor", np.int32), ("memory_mib", np.float64)])
"""A node; nothing of it changes."""

FORECAST_DTYPE = record_dtype(
    [
        ("slowest_gflops", np.float64),
        # what will be free when the first job of the queue can start, and how many of its cores then fit here
        ("shadow_cores", np.int32),
        ("shadow_memory_mib", np.float64),
        ("shadow_room", np.int64),
        # what is free at a date of the plan, at a later one, and at least between the two
        ("plan_cores", np.int32),
        ("plan_memory_mib", np.float64),
        ("later_cores", np.int32),
        ("later_memory_mib", np.float64),
        ("least_cores", np.int32),
        ("least_memory_mib", np.float64),
        ("n_chosen", np.int32),
    ]
)
"""Of each node: the speed of its slowest processor, and what backfilling finds out about dates to come."""

SLOT_DTYPE = record_dtype([("key", np.float64), ("seq", np.int64), ("position", np.int32), ("heap", np.int32)])
"""A row of an indexed heap: ``key`` and ``position`` belong to the slot of that index, ``heap`` is the heap."""

LETTER_DTYPE = record_dtype([("kind", np.int8), ("a", np.int64), ("b", np.int64), ("transfer_s", np.float64)])
EVENT_DTYPE = record_dtype([("kind", np.int8), ("subject", np.int64), ("time_s", np.float64)])
OP_DTYPE = record_dtype(
    [
        ("kind", np.int8),
        ("time_s", np.float64),
        ("subject", np.int64),
        ("first", np.int64),
        ("n", np.int64),
        ("value", np.float64),
    ]
)
SUBMITTER_DTYPE = record_dtype(
    [("next", np.int64), ("end", np.int64), ("batch", np.int64), ("woke_s", np.float64), ("phase", np.int8)]
)
FINISHED_DTYPE = record_dtype([("seq", np.int64), ("kind", np.int8), ("subject", np.int64)])
MACHINE_LOG_DTYPE = record_dtype([("time_s", np.float64), ("idle", np.int32), ("computing", np.int32)])
PSTATE_LOG_DTYPE = record_dtype(
    [("time_s", np.float64), ("first_core", np.int64), ("n_cores", np.int32), ("pstate", np.int32)]
)
ENERGY_LOG_DTYPE = record_dtype(
    [("time_s", np.float64), ("energy_j", np.float64), ("event", np.int8), ("epsilon_w", np.float64)]
)
SPAN_DTYPE = record_dtype([("processor", np.int32), ("start_s", np.float64), ("duration_s", np.float64)])


class State(NamedTuple):
    """The arrays of one environment (or of a batch: see `hdrl.kernel.batch`).

    ``n_jobs``, ``n_cores`` ... are the sizes of the workload and the platform.
    """

    scalars: NDArray[np.void]  # (1,) SCALAR_DTYPE
    jobs: NDArray[np.void]  # (n_jobs,) JOB_STATE_DTYPE
    steps: NDArray[np.void]  # (n_steps,) STEP_DTYPE
    order: NDArray[np.int64]  # (n_jobs,) submission order, one source after the other
    submitters: NDArray[np.void]  # (n_sources,) SUBMITTER_DTYPE
    cores: NDArray[np.void]  # (n_cores,) CORE_DTYPE
    hosts: NDArray[np.void]  # (n_cores,) HOST_DTYPE, or none without logs
    pstates: NDArray[np.int16]  # (n_cores,) of the simulated hosts
    idle: NDArray[np.uint64]  # a bit for each core: whether the simulated host runs no job
    processor_of: NDArray[np.int32]  # (n_cores,)
    first_rung_of: NDArray[np.int32]  # (n_cores,) where the P-states of a core's kind begin in `rungs`
    message_s: NDArray[np.float64]  # (n_cores,) how long a message of a core takes
    rungs: NDArray[np.void]  # (n_kinds_of_core * n_pstates,) RUNG_DTYPE, the P-states of one kind after the other
    free: NDArray[np.uint64]  # a bit for each core: whether no job holds it
    was_free: NDArray[np.uint64]  # the same when P-states were last asked for
    changed: NDArray[np.uint64]  # a bit for each core: whether it was found since then that its P-state is to change
    processors: NDArray[np.void]  # (n_processors,) PROCESSOR_DTYPE
    n_free: NDArray[np.int32]  # (n_processors,) how many cores of each processor no job holds
    free_bandwidth_gbps: NDArray[np.float64]  # (n_processors,) negative if over-committed
    due_pstates: NDArray[np.void]  # (n_processors,) DUE_PSTATE_DTYPE
    nodes: NDArray[np.void]  # (n_nodes,) NODE_DTYPE
    n_free_on: NDArray[np.int32]  # (n_nodes,) how many cores of each node no job holds
    free_memory_mib: NDArray[np.float64]  # (n_nodes,)
    forecasts: NDArray[np.void]  # (n_nodes,) FORECAST_DTYPE, scratch of backfilling
    overcommitments: NDArray[np.void]  # (n_processors,) OVERCOMMITMENT_DTYPE
    contention: NDArray[np.float64]  # (n_levels,) contended speeds, falling fractions of the peak
    by_speed: NDArray[np.int32]  # (n_processors,) processors, fastest first
    by_power: NDArray[np.int32]  # (n_processors,) processors, most frugal first
    sleeps: NDArray[np.void]  # (n_jobs + n_sources + 1 + n_timer_slots,) SLOT_DTYPE
    tasks: NDArray[np.void]  # (n_jobs,) SLOT_DTYPE
    box: NDArray[np.void]  # LETTER_DTYPE, a ring
    late: NDArray[np.int64]  # (n_jobs,) jobs whose last message is posted after everybody else's of the same date
    events: NDArray[np.void]  # EVENT_DTYPE, what the scheduler is about to be told
    ops: NDArray[np.void]  # OP_DTYPE, what it answered
    pool: NDArray[np.int32]  # cores (or jobs) named in the answer
    chosen: NDArray[np.uint64]  # a bit for each core: scratch for sorting
    finished: NDArray[np.void]  # FINISHED_DTYPE, scratch of one engine step
    queue: NDArray[np.int32]  # (n_jobs,) waiting jobs
    expected: NDArray[np.int32]  # (n_jobs,) jobs that hold cores, by expected end
    candidates: NDArray[np.int32]  # (n_jobs,) scratch of backfilling
    plan_s: NDArray[np.float64]  # (2 * n_jobs,) dates at which cores are expected to be taken or given back, ascending
    plan: NDArray[np.int32]  # (2 * n_jobs,) the job that takes them, or -1 - the job that gives them back
    plan_change: NDArray[np.int32]  # the same: cores that are given back (taken, if negative); 0: to be passed over
    planned_nodes: NDArray[np.int32]  # (sum of requested cores, or 0 without memory,) where jobs are expected to run
    planned_cores: NDArray[np.int32]  # the same: on how many cores of each node
    counts: NDArray[np.int32]  # (2 * a power of two >= n_nodes,) scratch of the core selection
    group_keys: NDArray[np.float64]  # (max(n_processors, n_nodes),) the same
    block_keys: NDArray[np.float64]  # the same
    switching: NDArray[np.int32]  # (n_pstates * (n_cores + 1),) scratch: cores that are to switch to each P-state
    n_switching: NDArray[np.int32]  # (n_pstates,) how many these are
    touched: NDArray[np.uint64]  # a bit for each processor: whether its use has changed since the last answer
    unseen: NDArray[np.uint64]  # a bit for each processor: whether it has since the last observation
    twister: NDArray[np.uint32]  # (625,) Mersenne twister, position last
    completed: NDArray[np.int64]  # (n_jobs,) jobs in the order in which they ended
    allocated: NDArray[np.int32]  # (sum of requested cores,) all allocations
    machine_log: NDArray[np.void]
    pstate_log: NDArray[np.void]
    pstate_cores: NDArray[np.int32]
    energy_log: NDArray[np.void]
    core_fails: NDArray[np.float64]
    memory_fails: NDArray[np.float64]
    spans: NDArray[np.void]


GROWING = ("machine_log", "pstate_log", "pstate_cores", "energy_log", "core_fails", "memory_fails", "spans")
"""Arrays of `State` that are enlarged between two calls when they are nearly full."""

N_TIMER_SLOTS = 256
"""Calls (timers) that may be pending at one time."""


def _rungs(platform: Platform) -> tuple[NDArray[np.void], NDArray[np.int64]]:
    """Return the P-states of the distinct kinds of cores, one kind after the other, and of which kind each core is."""
    host_flops = platform.speed_flops * platform.host_cores[:, None]
    all_rungs = np.stack(
        [platform.speed_flops, host_flops, platform.idle_w, platform.epsilon_w, platform.full_w], axis=2
    )
    flat = np.ascontiguousarray(all_rungs.reshape(platform.n_cores, -1))
    # `np.unique` compares rows as structures, while which NumPy turns Ctrl-C into a TypeError.
    order = np.lexsort(flat.T[::-1])
    ordered = flat[order]
    is_first = np.append(True, (ordered[1:] != ordered[:-1]).any(axis=1))
    kind = np.empty(platform.n_cores, dtype=np.int64)
    kind[order] = np.cumsum(is_first) - 1
    return ordered[is_first].reshape(-1).view(RUNG_DTYPE), kind


def _jobs(workload: Workload) -> NDArray[np.void]:
    """Return the job rows, before anything happened."""
    rows = np.zeros(workload.n_jobs, dtype=JOB_STATE_DTYPE)
    for name in ("submit_s", "walltime_s", "requested_time_s", "memory_mib", "bandwidth_gbps"):
        rows[name] = workload.jobs[name]
    rows["n_requested"] = workload.jobs["cores"]
    rows["first_step"] = workload.first_step[workload.jobs["profile"]]
    rows["end_step"] = workload.first_step[workload.jobs["profile"] + 1]
    rows["start_s"] = rows["run_s"] = rows["energy_j"] = rows["reserved_s"] = -1.0
    rows["return_code"] = -1
    return rows


def _cores(platform: Platform) -> NDArray[np.void]:
    """Return the core rows at date 0."""
    rows = np.zeros(platform.n_cores, dtype=CORE_DTYPE)
    rows["owner"] = rows["job"] = -1
    return rows


def _processors(platform: Platform) -> NDArray[np.void]:
    """Return the processor rows."""
    rows = np.zeros(platform.n_processors, dtype=PROCESSOR_DTYPE)
    rows["node"] = platform.node_of_processor
    rows["first_core"] = platform.first_core_of_processor[:-1]
    rows["end_core"] = platform.first_core_of_processor[1:]
    rows["bandwidth_gbps"] = platform.bandwidth_gbps
    rows["peak_gflops"] = platform.peak_flops / 1e9
    rows["peak_power_w"] = platform.peak_power_w
    return rows


def _nodes(platform: Platform) -> NDArray[np.void]:
    """Return the node rows."""
    rows = np.zeros(platform.n_nodes, dtype=NODE_DTYPE)
    rows["first_processor"] = platform.first_processor_of_node[:-1]
    rows["end_processor"] = platform.first_processor_of_node[1:]
    rows["memory_mib"] = platform.memory_mib
    return rows


def _forecasts(platform: Platform) -> NDArray[np.void]:
    """Return what backfilling knows of the nodes before it has looked at them."""
    rows = np.zeros(platform.n_nodes, dtype=FORECAST_DTYPE)
    rows["slowest_gflops"] = np.minimum.reduceat(platform.peak_flops / 1e9, platform.first_processor_of_node[:-1])
    return rows


def _overcommitments(platform: Platform) -> NDArray[np.void]:
    """Return that no processor has ever been over-committed."""
    rows = np.zeros(platform.n_processors, dtype=OVERCOMMITMENT_DTYPE)
    rows["open_span"] = rows["last_span"] = -1
    return rows


def _submitters(workload: Workload) -> tuple[NDArray[np.void], NDArray[np.int64]]:
    """Return one submitter per source, and the order in which they submit."""
    order = workload.submission_order()
    source = workload.jobs["source"][order]
    order = order[np.argsort(source, kind="stable")]
    rows = np.zeros(len(workload.sources), dtype=SUBMITTER_DTYPE)
    counts = np.bincount(workload.jobs["source"], minlength=len(workload.sources))
    rows["end"] = np.cumsum(counts)
    rows["next"] = rows["batch"] = rows["end"] - counts
    return rows, np.ascontiguousarray(order, dtype=np.int64)


def _slots(n: int) -> NDArray[np.void]:
    """Return an empty indexed heap of ``n`` slots."""
    rows = np.zeros(n, dtype=SLOT_DTYPE)
    rows["position"] = -1
    return rows


def _scalars(platform: Platform, *, energy: bool, compatible: bool, logging: bool) -> NDArray[np.void]:
    """Return the scalars at date 0."""
    rows = np.zeros(1, dtype=SCALAR_DTYPE)
    flat = (platform.idle_w == platform.full_w) & (platform.idle_w == platform.epsilon_w)
    first = np.arange(platform.n_cores), platform.initial_pstate
    rows["loopback_s"] = platform.loopback_s
    rows["transfer_end_s"] = np.inf
    rows["n_idle"] = rows["n_free_cores"] = platform.n_cores
    rows["energy"] = energy
    rows["flat_power"] = bool(flat.all())
    rows["power_w"] = platform.idle_w[:, 0].sum()
    rows["epsilon_w"] = platform.epsilon_w[first].sum()
    rows["logging"] = logging
    rows["layer"] = platform.rules is not None
    rows["reference_flops"] = platform.reference_gflops * 1e9
    rows["compatible"] = compatible
    rows["follows_progress"] = 1
    rows["queue_key"] = codes.QUEUE_BY_ARRIVAL
    return rows


def new_state(
    platform: Platform,
    workload: Workload,
    *,
    twister: NDArray[np.uint32],
    energy: bool = True,
    compatible: bool = False,
    logging: bool = True,
) -> State:
    """Return the state of one environment at date 0.

    Parameters
    ----------
    platform, workload
        What to simulate; every job must fit the platform.
    twister
        State of the Mersenne twister that random keys draw from, shape ``(625,)``.
    energy
        Account for energy.
    compatible
        Behave as HDeepRM 0.3.1 does, bugs included.
    logging
        Keep the machine-state, P-state and energy logs, and account for the energy of single jobs and for the time that
        hosts are busy (batches of environments do without).
    """
    rungs, kind = _rungs(platform)
    submitters, order = _submitters(workload)
    n_jobs, n_cores, n_sources = workload.n_jobs, platform.n_cores, len(workload.sources)
    processors = _processors(platform)
    due_pstates = np.zeros(platform.n_processors, dtype=DUE_PSTATE_DTYPE)
    due_pstates["serving"], due_pstates["unused"] = SERVING, IDLE
    n_free = np.diff(platform.first_core_of_processor).astype(np.int32)
    index = np.arange(platform.n_processors)
    n_slots = n_jobs + n_sources + 1 + N_TIMER_SLOTS
    n_groups = max(platform.n_processors, platform.n_nodes)
    log = 4 * n_jobs + 64 if logging else 0
    levels = () if platform.rules is None else platform.rules.contention.speed_factors
    scalars = _scalars(platform, energy=energy, compatible=compatible, logging=logging)
    scalars["n_submitters_left"] = n_sources
    # Without memory any free cores will do, and counting them is enough.
    n_places = int(workload.jobs["cores"].sum(dtype=np.int64))
    plans_nodes = bool(np.any(workload.jobs["memory_mib"] > 0))
    scalars["first_submit_s"] = workload.jobs["submit_s"].min() if n_jobs else 0.0
    return State(
        scalars=scalars,
        jobs=_jobs(workload),
        steps=np.array(workload.steps, dtype=STEP_DTYPE).view(record_dtype(STEP_DTYPE)),
        order=order,
        submitters=submitters,
        cores=_cores(platform),
        hosts=np.zeros(n_cores if logging else 0, dtype=HOST_DTYPE),
        pstates=np.array(platform.initial_pstate, dtype=np.int16),
        idle=bits.all_of(n_cores),
        processor_of=np.array(platform.processor_of_core, dtype=np.int32),
        first_rung_of=(kind * platform.n_pstates).astype(np.int32),
        message_s=np.array(platform.message_s, dtype=np.float64),
        rungs=rungs,
        free=bits.all_of(n_cores),
        was_free=bits.all_of(n_cores),
        changed=bits.none_of(n_cores),
        processors=processors,
        n_free=n_free,
        free_bandwidth_gbps=np.array(platform.bandwidth_gbps, dtype=np.float64),
        due_pstates=due_pstates,
        nodes=_nodes(platform),
        n_free_on=np.add.reduceat(n_free, platform.first_processor_of_node[:-1], dtype=np.int32),
        free_memory_mib=np.array(platform.memory_mib, dtype=np.float64),
        forecasts=_forecasts(platform),
        overcommitments=_overcommitments(platform),
        contention=np.array(levels, dtype=np.float64),
        by_speed=np.lexsort((index, -processors["peak_gflops"])).astype(np.int32),
        by_power=np.lexsort((index, processors["peak_power_w"])).astype(np.int32),
        sleeps=_slots(n_slots),
        tasks=_slots(n_jobs),
        box=np.zeros(n_slots + n_jobs + 8, dtype=LETTER_DTYPE),
        late=np.zeros(n_jobs, dtype=np.int64),
        events=np.zeros(4 * n_jobs + 4 * N_TIMER_SLOTS + 64, dtype=EVENT_DTYPE),
        ops=np.zeros(n_jobs + N_TIMER_SLOTS + 64, dtype=OP_DTYPE),
        # An answer may name all cores three times where the agent is asked again at once: P-states before the decision,
        # allocations, P-states after it.
        pool=np.zeros(3 * n_cores + n_jobs + 64, dtype=np.int32),
        chosen=bits.none_of(n_cores),
        finished=np.zeros(n_slots + n_jobs + 1, dtype=FINISHED_DTYPE),
        queue=np.zeros(n_jobs, dtype=np.int32),
        expected=np.zeros(n_jobs, dtype=np.int32),
        candidates=np.zeros(n_jobs, dtype=np.int32),
        plan_s=np.zeros(2 * n_jobs, dtype=np.float64),
        plan=np.zeros(2 * n_jobs, dtype=np.int32),
        plan_change=np.zeros(2 * n_jobs, dtype=np.int32),
        planned_nodes=np.zeros(n_places if plans_nodes else 0, dtype=np.int32),
        planned_cores=np.zeros(n_places if plans_nodes else 0, dtype=np.int32),
        counts=np.zeros(2 << (platform.n_nodes - 1).bit_length(), dtype=np.int32),
        group_keys=np.zeros(n_groups, dtype=np.float64),
        block_keys=np.zeros(n_groups, dtype=np.float64),
        switching=np.zeros(platform.n_pstates * (n_cores + 1), dtype=np.int32),
        n_switching=np.zeros(platform.n_pstates, dtype=np.int32),
        touched=bits.none_of(platform.n_processors),
        unseen=bits.none_of(platform.n_processors),
        twister=np.ascontiguousarray(twister, dtype=np.uint32).copy(),
        completed=np.zeros(n_jobs, dtype=np.int64),
        allocated=np.zeros(n_places, dtype=np.int32),
        machine_log=np.zeros(log, dtype=MACHINE_LOG_DTYPE),
        pstate_log=np.zeros(log if energy else 0, dtype=PSTATE_LOG_DTYPE),
        pstate_cores=np.zeros(2 * n_cores + log if logging and energy else 0, dtype=np.int32),
        energy_log=np.zeros(log if energy else 0, dtype=ENERGY_LOG_DTYPE),
        core_fails=np.zeros(log, dtype=np.float64),
        memory_fails=np.zeros(log, dtype=np.float64),
        spans=np.zeros(log, dtype=SPAN_DTYPE),
    )


def grown(state: State, *, margin: int) -> State:
    """Return the state with every log that is more than half full doubled.

    Parameters
    ----------
    state
        The state of one environment.
    margin
        Entries that must at least be free afterwards.
    """
    used = {
        "machine_log": "n_machine_log",
        "pstate_log": "n_pstate_log",
        "pstate_cores": "n_pstate_cores",
        "energy_log": "n_energy_log",
        "core_fails": "n_core_fails",
        "memory_fails": "n_memory_fails",
        "spans": "n_spans",
    }
    larger = {}
    for name in GROWING:
        old = getattr(state, name)
        n_used = int(state.scalars[used[name]][0])
        if len(old) and 2 * n_used + margin > len(old):
            new = np.zeros(2 * len(old) + margin, dtype=old.dtype)
            new[:n_used] = old[:n_used]
            larger[name] = new
    return state._replace(**larger)
