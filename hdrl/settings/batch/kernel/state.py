"""The kernel's state: flat structured arrays, with a leading environment axis.

`BatchState` is what every kernel function takes: the arrays of *one* environment. A batch is the same tuple with one
axis more in front, but for what all environments share. The functions of the kernel never allocate and never hold
Python objects; what may grow (logs) is grown between two calls. One line of `BatchState` describes an array;
`hdrl.compiled.fields` makes batches, copies and new episodes of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hdrl.compiled import bits
from hdrl.compiled.fields import Role, fields_of, log, new_arrays, own, scratch, shared
from hdrl.compiled.heap import SLOT_DTYPE
from hdrl.compiled.twister import N_TWISTER, twister_state
from hdrl.settings.batch.kernel import beginning
from hdrl.settings.batch.kernel.beginning import NO_RULE, PolicyRule, arrays_of
from hdrl.settings.batch.kernel.dtypes import (
    CORE_DTYPE,
    CURVE_DTYPE,
    DUE_PSTATE_DTYPE,
    ENERGY_LOG_DTYPE,
    EVENT_DTYPE,
    FINISHED_DTYPE,
    FIT_DTYPE,
    FORECAST_DTYPE,
    HOST_DTYPE,
    JOB_STATE_DTYPE,
    MACHINE_LOG_DTYPE,
    NODE_DTYPE,
    NODE_POWER_DTYPE,
    OP_DTYPE,
    OVERCOMMITMENT_DTYPE,
    PROCESSOR_DTYPE,
    PSTATE_LOG_DTYPE,
    RUNG_DTYPE,
    SCALAR_DTYPE,
    SERVER_MESSAGE_DTYPE,
    SLEEP_STATE_DTYPE,
    SPAN_DTYPE,
    STEP_DTYPE,
    SUBMITTER_DTYPE,
)
from hdrl.settings.batch.kernel.groups import N_LEVELS, N_NEURONS, SUMS_DTYPE
from hdrl.settings.batch.kernel.history import PREDICTION_DTYPE
from hdrl.settings.batch.kernel.keys import N_FEATURES
from hdrl.settings.batch.kernel.plan import RESERVATION_DTYPE
from hdrl.settings.batch.kernel.plan_nodes import N_SNAPSHOTS
from hdrl.settings.batch.kernel.reexamining import N_KINDS
from hdrl.settings.batch.platform import read_platform
from hdrl.settings.batch.platform.model import Platform
from hdrl.settings.batch.workload.model import JOB_DTYPE, NO_WALLTIME, Workload

Rows: TypeAlias = NDArray[np.void]
Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int32]
Bits: TypeAlias = NDArray[np.uint64]

N_TIMER_SLOTS = 256
"""Calls (timers) that may be pending at one time."""

MOST_TIMEOUTS = 8
"""Times without a job after which nodes are switched off, of which a decision system may choose one or the other."""

LOGGED_PER_JOB = 16
"""Rows that logs have room for at first: few simulations need more, and what is never written takes no memory."""


class BatchState(NamedTuple):
    """The arrays of one environment (or of a batch: see `hdrl.compiled.fields`); `sizes_of` tells their lengths."""

    scalars: Annotated[Rows, own(SCALAR_DTYPE, "one", is_restored=True)]
    jobs: Annotated[Rows, own(JOB_STATE_DTYPE, "n_jobs")]
    steps: Annotated[Rows, shared(STEP_DTYPE, "n_steps")]
    order: Annotated[NDArray[np.int64], own(np.int64, "n_jobs")]  # submission order, one source after the other
    submitters: Annotated[Rows, own(SUBMITTER_DTYPE, "n_sources")]
    cores: Annotated[Rows, own(CORE_DTYPE, "n_cores", is_restored=True)]
    hosts: Annotated[Rows, own(HOST_DTYPE, "n_hosts")]  # none without logs
    pstates: Annotated[NDArray[np.int16], own(np.int16, "n_cores", is_restored=True)]  # of the simulated hosts
    # A bit for each core: whether the simulated host runs no job
    idle: Annotated[Bits, own(np.uint64, "n_core_words", is_restored=True)]
    processor_of: Annotated[Ints, shared(np.int32, "n_cores")]
    first_rung_of: Annotated[Ints, shared(np.int32, "n_cores")]  # first P-state of a core's kind in `rungs`
    message_s: Annotated[Floats, shared(np.float64, "n_cores")]  # duration of a message of a core
    rungs: Annotated[Rows, shared(RUNG_DTYPE, "n_rungs")]  # the P-states of one kind after the other
    # A bit for each core: whether no job holds it
    free: Annotated[Bits, own(np.uint64, "n_core_words", is_restored=True)]
    # The same when P-states were last requested
    was_free: Annotated[Bits, own(np.uint64, "n_core_words", is_restored=True)]
    # A bit for each core: whether it was found since then that its P-state is to change
    changed: Annotated[Bits, own(np.uint64, "n_core_words", is_restored=True)]
    processors: Annotated[Rows, shared(PROCESSOR_DTYPE, "n_processors")]
    # How many cores of each processor no job holds
    n_free: Annotated[Ints, own(np.int32, "n_processors", is_restored=True)]
    # Negative if over-committed
    free_bandwidth_gbps: Annotated[Floats, own(np.float64, "n_processors", is_restored=True)]
    due_pstates: Annotated[Rows, own(DUE_PSTATE_DTYPE, "n_processors", is_restored=True)]
    nodes: Annotated[Rows, shared(NODE_DTYPE, "n_nodes")]
    n_free_on: Annotated[Ints, own(np.int32, "n_nodes", is_restored=True)]  # number of free cores of each node
    free_memory_mib: Annotated[Floats, own(np.float64, "n_nodes", is_restored=True)]
    forecasts: Annotated[Rows, scratch(FORECAST_DTYPE, "n_nodes")]  # scratch of backfilling
    # Nodes that can be switched off (none where they cannot); in which order they are booted; scratch of backfilling:
    # those that are not on, by the date at which they can be
    node_power: Annotated[Rows, own(NODE_POWER_DTYPE, "n_switchable", is_restored=True)]
    # What they can be switched to: of each node, one sleep state after another
    sleep_states: Annotated[Rows, shared(SLEEP_STATE_DTYPE, "n_sleep_states")]
    boot_order: Annotated[Ints, shared(np.int32, "n_switchable")]
    coming: Annotated[Ints, scratch(np.int32, "n_switchable")]
    # When the calls are due that were requested to switch nodes off, infinite where there is none: one of each timeout
    calls_s: Annotated[Floats, own(np.float64, "n_calls", is_restored=True)]
    overcommitments: Annotated[Rows, own(OVERCOMMITMENT_DTYPE, "n_processors")]
    contention: Annotated[Floats, shared(np.float64, "n_levels")]  # contended speeds, falling fractions of the peak
    # Where contention follows curves instead: those of the processors, and the speed of each core as a fraction of that
    # of its P-state
    curves: Annotated[Rows, shared(CURVE_DTYPE, "n_curves")]
    fits: Annotated[Rows, shared(FIT_DTYPE, "n_fits")]
    paces: Annotated[Floats, own(np.float64, "n_paces", is_restored=True)]
    watts: Annotated[Floats, own(np.float64, "n_watts", is_restored=True)]  # power of each core, where fits define it
    by_speed: Annotated[Ints, shared(np.int32, "n_processors")]  # processors, fastest first
    by_power: Annotated[Ints, shared(np.int32, "n_processors")]  # processors, most frugal first
    sleeps: Annotated[Rows, own(SLOT_DTYPE, "n_slots", is_heap=True)]
    # A slot for the computation of each job, and one for the switch of each core where nodes can be switched off
    tasks: Annotated[Rows, own(SLOT_DTYPE, "n_tasks", is_heap=True)]
    box: Annotated[Rows, own(SERVER_MESSAGE_DTYPE, "n_server_messages")]  # a ring
    # Jobs whose last message is sent after all others of the same date
    late: Annotated[NDArray[np.int64], own(np.int64, "n_jobs")]
    events: Annotated[Rows, scratch(EVENT_DTYPE, "n_events")]  # events of the next message to the scheduler
    ops: Annotated[Rows, own(OP_DTYPE, "n_ops")]  # its answer
    pool: Annotated[Ints, own(np.int32, "n_named")]  # cores (or jobs) named in the answer
    chosen: Annotated[Bits, scratch(np.uint64, "n_core_words")]  # a bit for each core: scratch for sorting
    finished: Annotated[Rows, scratch(FINISHED_DTYPE, "n_endings")]  # scratch of one engine step
    queue: Annotated[Ints, own(np.int32, "n_jobs")]  # waiting jobs
    expected: Annotated[Ints, own(np.int32, "n_jobs")]  # jobs that hold cores, by expected end
    candidates: Annotated[Ints, scratch(np.int32, "n_jobs")]  # scratch of backfilling
    reservations: Annotated[Rows, own(RESERVATION_DTYPE, "n_jobs")]  # of each job
    # The plan: dates at which cores are expected to be taken or given back, ascending (`kernel.plan`)
    plan_s: Annotated[Floats, own(np.float64, "n_planned_events")]
    # The job that takes them, or -1 - the job that gives them back
    plan: Annotated[Ints, own(np.int32, "n_planned_events")]
    plan_free: Annotated[Ints, own(np.int32, "n_planned_events")]  # number of free cores behind each event
    # Speeds of nodes, which are as fast as their slowest processors, fastest first, and which of them is whose
    node_gflops: Annotated[Floats, shared(np.float64, "n_speeds")]
    speed_of: Annotated[Ints, shared(np.int32, "n_nodes")]
    # What is free on each node at some dates of the plan (`kernel.plan_nodes`)
    snapshot_s: Annotated[Floats, scratch(np.float64, "n_snapshots")]
    snapshot_cores: Annotated[Ints, scratch(np.int32, "n_snapshot_nodes")]
    snapshot_memory_mib: Annotated[Floats, scratch(np.float64, "n_snapshot_nodes")]
    # Scratch: the same at one date, and at least for a time, how many cores of a job fit there, and how many it gets
    plan_cores: Annotated[Ints, scratch(np.int32, "n_nodes")]
    plan_memory_mib: Annotated[Floats, scratch(np.float64, "n_nodes")]
    least_cores: Annotated[Ints, scratch(np.int32, "n_nodes")]
    least_memory_mib: Annotated[Floats, scratch(np.float64, "n_nodes")]
    room: Annotated[Ints, scratch(np.int32, "n_nodes")]
    n_chosen: Annotated[Ints, scratch(np.int32, "n_nodes")]
    # Of each kind of jobs: how often something had been given back when something last was that could make room for
    # them, and from when on there may be some (`kernel.reexamining`)
    given_at: Annotated[NDArray[np.int64], own(np.int64, "n_kinds")]
    given_from_s: Annotated[Floats, scratch(np.float64, "n_kinds")]
    planned_nodes: Annotated[Ints, own(np.int32, "n_planned")]  # nodes on which jobs are expected to run
    planned_cores: Annotated[Ints, own(np.int32, "n_planned")]  # the same: on how many cores of each node
    counts: Annotated[Ints, scratch(np.int32, "n_counts")]  # scratch of the core selection
    group_keys: Annotated[Floats, scratch(np.float64, "n_groups")]  # the same
    block_keys: Annotated[Floats, scratch(np.float64, "n_groups")]  # the same
    switching: Annotated[Ints, scratch(np.int32, "n_switching")]  # scratch: cores that are to switch to each P-state
    n_switching: Annotated[Ints, scratch(np.int32, "n_pstates")]  # number of these cores
    # A bit for each processor: whether its use has changed since the last answer
    touched: Annotated[Bits, own(np.uint64, "n_processor_words", is_restored=True)]
    # A bit for each processor: whether it has since the last observation
    unseen: Annotated[Bits, own(np.uint64, "n_processor_words", is_restored=True)]
    # What predicts run times (empty if nothing does): of each job its groups, sums of the groups, what is predicted
    job_groups: Annotated[Ints, shared(np.int32, "n_predicted", "n_levels_of_groups")]
    sums: Annotated[Rows, own(SUMS_DTYPE, "n_sums")]
    predictions: Annotated[Rows, own(PREDICTION_DTYPE, "n_predicted")]
    weights: Annotated[Floats, shared(np.float64, "n_weights")]  # of the index and the gate
    features: Annotated[Floats, scratch(np.float64, "n_features")]  # of a job, for the index
    network: Annotated[Floats, shared(np.float64, "n_network")]  # that predicts run times, and its neurons
    neurons: Annotated[Floats, scratch(np.float64, "n_neurons")]
    twister: Annotated[NDArray[np.uint32], own(np.uint32, "n_twister")]  # Mersenne twister, position last
    completed: Annotated[NDArray[np.int64], own(np.int64, "n_jobs")]  # jobs in the order in which they ended
    allocated: Annotated[Ints, own(np.int32, "n_positions")]  # all allocations
    machine_log: Annotated[Rows, log(MACHINE_LOG_DTYPE, "n_log", counted_by="n_machine_log")]
    pstate_log: Annotated[Rows, log(PSTATE_LOG_DTYPE, "n_energy_log", counted_by="n_pstate_log")]
    pstate_cores: Annotated[Ints, log(np.int32, "n_logged_cores", counted_by="n_pstate_cores")]
    energy_log: Annotated[Rows, log(ENERGY_LOG_DTYPE, "n_energy_log", counted_by="n_energy_log")]
    core_fails: Annotated[Floats, log(np.float64, "n_log", counted_by="n_core_fails")]
    memory_fails: Annotated[Floats, log(np.float64, "n_log", counted_by="n_memory_fails")]
    spans: Annotated[Rows, log(SPAN_DTYPE, "n_log", counted_by="n_spans")]


def sizes_of(
    platform: Platform,
    workload: Workload,
    given: Mapping[str, NDArray[Any]],
    *,
    energy: bool,
    logging: bool,
) -> dict[str, int]:
    """Return the sizes that the fields of `BatchState` name.

    ``given``: the arrays that the platform and a rule define.
    """
    n_jobs, n_cores, n_sources = workload.n_jobs, platform.n_cores, len(workload.sources)
    n_sleep_states = sum(map(len, platform.sleep_states_of_node)) if energy else 0
    n_switchable = platform.n_nodes if n_sleep_states else 0
    n_switched_cores = n_cores if n_switchable else 0
    n_slots = n_jobs + n_sources + 1 + N_TIMER_SLOTS
    n_log = LOGGED_PER_JOB * n_jobs + 64 if logging else 0
    # Without memory any free cores will do, and counting them is enough.
    n_positions = int(workload.jobs["cores"].sum(dtype=np.int64))
    plans_nodes = bool(np.any(workload.jobs["memory_mib"] > 0))
    return {
        "one": 1,
        "n_jobs": n_jobs,
        "n_steps": len(workload.steps),
        "n_sources": n_sources,
        "n_cores": n_cores,
        "n_core_words": len(bits.none_of(n_cores)),
        "n_hosts": n_cores if logging else 0,
        "n_rungs": len(given["rungs"]),
        "n_pstates": platform.n_pstates,
        "n_processors": platform.n_processors,
        "n_processor_words": len(bits.none_of(platform.n_processors)),
        "n_nodes": platform.n_nodes,
        "n_switchable": n_switchable,
        "n_sleep_states": n_sleep_states,
        "n_calls": MOST_TIMEOUTS if n_switchable else 0,
        "n_groups": max(platform.n_processors, platform.n_nodes),
        "n_levels": 0 if platform.rules is None else len(platform.rules.contention.speed_factors),
        "n_curves": 0 if platform.is_fitted else len(platform.curves),
        "n_fits": len(platform.curves) if platform.is_fitted else 0,
        "n_watts": platform.n_cores if platform.is_fitted else 0,
        "n_paces": platform.n_cores if len(platform.curves) else 0,
        "n_counts": 2 << (platform.n_nodes - 1).bit_length(),  # twice a power of two that is at least n_nodes
        "n_switching": platform.n_pstates * (n_cores + 1),
        "n_slots": n_slots,
        "n_tasks": n_jobs + n_switched_cores,
        "n_server_messages": n_slots + n_jobs + n_switched_cores + 8,
        "n_events": 4 * n_jobs + 4 * N_TIMER_SLOTS + 64 + n_switchable,
        "n_ops": n_jobs + N_TIMER_SLOTS + 64 + n_switchable,
        # An answer may name all cores three times where the agent decides again at once: P-states before the decision,
        # allocations, P-states after it.
        "n_named": 3 * n_cores + n_jobs + 64 + n_switched_cores,
        "n_endings": n_slots + n_jobs + n_switched_cores + 1,
        "n_speeds": len(given["node_gflops"]),
        "n_planned_events": 2 * n_jobs + 3,
        "n_kinds": N_KINDS,
        "n_snapshots": N_SNAPSHOTS,
        "n_snapshot_nodes": N_SNAPSHOTS * platform.n_nodes if plans_nodes else 0,
        "n_planned": n_positions if plans_nodes else 0,
        "n_positions": n_positions,
        "n_predicted": len(given["predictions"]),
        "n_levels_of_groups": N_LEVELS,
        "n_sums": len(given["sums"]),
        "n_weights": len(given["weights"]),
        "n_features": N_FEATURES,
        "n_network": len(given["network"]),
        "n_neurons": N_NEURONS if len(given["network"]) else 0,
        "n_twister": N_TWISTER,
        "n_log": n_log,
        "n_energy_log": n_log if energy else 0,
        "n_logged_cores": 2 * (n_cores + n_positions) + n_switched_cores + n_log if logging and energy else 0,
    }


def new_state(
    platform: Platform,
    workload: Workload,
    *,
    twister: NDArray[np.uint32] | None = None,
    energy: bool = True,
    compatible: bool = False,
    logging: bool = True,
    rule: PolicyRule = NO_RULE,
) -> BatchState:
    """Return the state of one environment at date 0.

    Parameters
    ----------
    platform, workload
        Machine and jobs; every job must fit the platform.
    twister
        State of the Mersenne twister that random keys draw from, shape ``(625,)``; ``None``: nothing is drawn.
    compatible
        Behave as HDeepRM 0.3.1 does, bugs included.
    logging
        Keep the machine-state, P-state and energy logs, and account for the energy of single jobs and for the time that
        hosts are busy (batches of environments do without).
    rule
        Rules of a policy beyond its job key and its backfilling.
    """
    fields, of_platform = fields_of(BatchState), beginning.of_platform(platform, energy=energy)
    given = {name: one if fields[name].role is Role.SHARED else one.copy() for name, one in of_platform.items()}
    given |= arrays_of(rule, platform, workload)
    sizes = sizes_of(platform, workload, given, energy=energy, logging=logging)
    given["submitters"], given["order"] = beginning.submitters(workload)
    given["jobs"] = beginning.jobs(workload)
    # A window has the steps of its whole log: copying those of 240,000 jobs took a quarter of a comparison.
    given["steps"] = workload.steps.view(STEP_DTYPE)
    given["steps"].flags.writeable = False
    given["calls_s"] = np.full(sizes["n_calls"], np.inf)
    if twister is not None:
        given["twister"] = np.array(twister, dtype=np.uint32)
    state = new_arrays(BatchState, sizes, given)
    s = state.scalars[0]
    s["energy"], s["logging"], s["compatible"] = energy, logging, compatible
    s["n_submitters_left"] = len(workload.sources)
    s["predictor"], s["predicts_ends"] = rule.predictor, rule.predicts_ends
    s["has_gate"], s["index_form"] = rule.has_gate, rule.index_form
    s["node_rule"], s["sleep_state"], s["off_after_s"] = rule.node_rule, rule.sleep_state, rule.off_after_s
    s["decides_idle"] = rule.decides_idle
    s["n_wanted_on"] = round(rule.share_on * platform.n_nodes)
    s["first_submit_s"] = workload.jobs["submit_s"].min() if workload.n_jobs else 0.0
    return state


def small_state() -> BatchState:
    """Return a world of four cores and one job at date 0; its arrays are of the types of all worlds'."""
    platform = read_platform("learning")
    jobs = np.zeros(1, dtype=JOB_DTYPE)
    jobs["cores"] = 1
    jobs["walltime_s"] = NO_WALLTIME
    workload = Workload("w", jobs, ("0",), np.zeros(1, dtype=STEP_DTYPE), np.array([0, 1]), ("p",))
    return new_state(platform, workload, twister=twister_state(0, "policy"))
