"""State of a simulation by `site`: one line of `SiteState` for each array."""

from __future__ import annotations

from typing import Annotated, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hdrl.compiled.fields import grown, log, new_arrays, own, shared
from hdrl.compiled.records import of, record_dtype
from hdrl.settings.batch.kernel.groups import SUMS_DTYPE
from hdrl.settings.batch.kernel.history import PREDICTION_DTYPE
from hdrl.settings.batch.site_rules import model
from hdrl.settings.batch.site_rules.codes import NOTHING

Rows: TypeAlias = NDArray[np.void]
Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int32]
Bits: TypeAlias = NDArray[np.uint64]

YEAR_S = 365 * 86400.0
"""Planned run time of a job without any time limit, in seconds."""

SCALARS_DTYPE = record_dtype(
    [
        *of(np.float64, "message_s", "first_submit_s", "end_s", "last_backfill_s", "backfill_due_s", "main_due_s"),
        *of(np.float64, "priority_date", "decayed_s", "lost_core_s", "preempted_core_s", "time_computing_s"),
        *of(np.float64, "time_idle_s", "changed_s", "asked_s", "look_due_s"),
        *of(np.int64, "is_cycling", "is_changed", "is_planning", "has_new", "n_dates", "n_events", "n_queue"),
        *of(np.int64, "n_running", "n_arriving", "n_suspended", "n_candidates", "n_pairs", "n_allocated"),
        *of(np.int64, "n_machine_log", "n_completed", "n_selected", "n_segments", "n_busy_cores", "n_computing"),
        *of(np.int64, "n_passes", "n_cycles", "segment", "n_requeued", "n_preempted", "n_missed_reservations"),
        *of(np.int64, "n_components", "predictor", "index_form", "has_gate", "asked_entry", "n_picked", "n_submitted"),
    ]
)
"""Scalars of the state. ``message_s`` is the date now; it and the next are named as job keys read them.
``is_planning``: jobs that become eligible now arrive when the scheduler has gone down the queue; ``n_candidates`` jobs
that may be preempted; ``is_cycling``: the last backfill cycle left jobs waiting, so that the next ones follow at the
interval; ``n_selected`` number of nodes chosen by `allocation.choose_nodes`; ``n_segments`` number of segments of the
time map, ``segment`` the one that the plan of a job has reached; ``priority_date`` the next date of computing
priorities, ``decayed_s`` the last date of updating usage. Work is lost to failures (``lost_core_s``, ``n_requeued``
jobs) and to preemption (``preempted_core_s``, ``n_preempted``); a reservation is missed if a job is on its nodes when
it begins; a backfill cycle has come to ``n_components`` of het jobs. Requests from outside are about the
``asked_entry`` or the date ``asked_s``; ``n_picked`` entries have been picked in this pass."""

SETTINGS_DTYPE = record_dtype(
    [
        *of(np.int64, "discipline", "key", "order_key", "n_nodes", "n_words", "n_partitions", "n_cores"),
        *of(np.int64, "most_cores", "fewest_cores", "counts_memory", "counts_gpus", "default_queue_depth"),
        *of(np.int64, "partition_job_depth", "bf_max_job_test"),
        *of(np.int64, "bf_max_job_user", "bf_max_job_part", "bf_min_prio_reserve", "max_reserve_part"),
        *of(np.int64, "bf_busy_nodes", "preempt_by", "is_youngest_first", "is_fair_tree", "favor_small"),
        *of(np.int64, "is_relative_to_time", "is_asked", "bf_hetjob_prio", "look_key", "has_lua"),
        *of(np.float64, "sched_interval_s", "bf_interval_s", "bf_resolution_s", "bf_window_s"),
        *of(np.float64, "bf_min_age_reserve_s", "exempt_s", "restart_s", "launch_s", "kill_wait_s"),
        *of(np.float64, "over_time_limit_s", "age", "max_age_s", "fairshare", "decay", "calc_period_s", "job_size"),
        *of(np.float64, "partition", "qos", "look_interval_s", "look_bound_s", "aging_per_s"),
    ]
)
"""Constants of a simulation: discipline and priority, sizes (``most_cores`` and ``fewest_cores`` of a node),
`SchedulerParameters`, `PriorityWeights`. ``max_reserve_part`` is the number of planned jobs of a partition (0: all),
``order_key`` the order in which EASY tries jobs that may overtake; ``is_asked``: decisions come from outside the
kernel. A daemon looks at the queue every ``look_interval_s`` (0: there is none), see `kernel.daemon`: its policy has
the job key ``look_key``, an index that falls by ``aging_per_s`` in a second, and a bound on waits; ``has_lua``: whether
new jobs get a number as well."""

NODE_DTYPE = record_dtype(
    [
        *of(np.int32, "cores", "first_core", "gpus", "n_closed"),
        ("memory_mib", np.float64),
        ("weight", np.int64),
        ("partitions", np.uint64),
    ]
)
"""A node; ``n_closed`` counts the outages that keep it from starting jobs."""

PARTITION_DTYPE = record_dtype(
    [
        *of(np.int32, "tier", "min_nodes", "max_nodes", "n_tested", "n_reserved"),
        *of(np.float64, "factor", "max_time_s", "grace_s"),
        *of(np.int8, "is_exclusive", "preempt_mode", "is_failed"),
        *of(np.int64, "n_cores", "free_cores"),
        ("qos", np.int32),
    ]
)
"""A partition: ``factor`` is PriorityJobFactor as a share of the largest; ``n_cores`` and ``free_cores`` of all its
nodes; ``qos`` whose limits hold for its jobs (-1: none)."""

JOB_DTYPE = record_dtype(
    [
        *of(np.float64, "submit_s", "run_s", "limit_s", "walltime_s", "requested_time_s", "memory_mib"),
        *of(np.float64, "bandwidth_gbps", "begin_s", "held_until_s", "cancelled_s", "eligible_s", "start_s"),
        *of(np.float64, "ended_s", "due_s", "length_s", "charged_s", "planned_s", "waited_s", "lost_core_s"),
        *of(np.float64, "suspended_since_s", "suspended_s", "left_s", "component_s", "lease_until_s"),
        *of(np.float64, "het_tier", "het_priority"),
        *of(np.int64, "n_requested", "rank", "site_factor", "first_pair", "first_core"),
        ("n_gpus", np.int64),
        *of(np.int32, "return_code", "nodes", "features", "gpus", "nice", "qos", "account", "user", "array"),
        *of(np.int32, "next_task", "qos_user", "account_user", "first_entry", "n_entries", "first_dependency"),
        *of(np.int32, "n_dependencies", "first_dependent", "n_dependents", "entry", "n_restarts", "n_pairs"),
        *of(np.int32, "n_cores", "first_component", "next_component", "component_entry", "last_entry"),
        *of(np.int8, "is_exclusive", "is_refused", "state", "is_queued", "overruns", "is_given_up", "is_first"),
    ]
)
"""A job, in the order of the workload; job keys read it by the names that the kernel's jobs have.

``submit_s`` is infinity while the job follows another one that has not ended. Plans expect that a job ends
``limit_s`` after its start; it is killed ``walltime_s`` after it (infinity: never). Limits count ``n_gpus`` of it.
``entry`` its entry that runs; ``eligible_s`` the first date at which it could have started; ``due_s`` its end,
``length_s`` after its start, and whether it ``overruns`` its time; ``charged_s`` date up to which its use is charged;
its nodes are ``n_pairs`` rows of the pairs, its cores ``n_cores`` of the allocated ones. ``planned_s`` is the first
date that a plan gave it, ``waited_s`` the sum of all its waits, ``lost_core_s`` its lost core seconds; it
``is_given_up`` in the grace before another job takes its nodes; it has been suspended for ``suspended_s`` in this run,
and is so ``suspended_since_s`` (-1: it is not) with ``left_s`` to run. A daemon holds it until ``lease_until_s``.

The components of a het job are a chain from ``first_component`` (-1: the job is none) by ``next_component``. A backfill
cycle plans one for ``component_s`` in ``component_entry`` (infinity: not at all; -1: it has not come to it). One of
which EASY may reserve the nodes, as a component of its het job is the first job of a partition, ``is_first``. The
first component has the ``last_entry`` of its het job, and with bf_hetjob_prio the partition tier and the priority that
count for all components (``het_tier``, ``het_priority``)."""

ENTRY_DTYPE = record_dtype(
    [
        *of(np.int32, "job", "partition", "next", "qos_user"),
        ("priority", np.float64),
        *of(np.int8, "is_passed", "may_be_picked", "fits", "is_refused"),
    ]
)
"""A job in one of its partitions: what the queue holds; the highest priority is served first. ``next`` is the next
entry of its het job (-1: none), ``qos_user`` its user in the QOS of the partition (-1: none); a limit on each job
keeps one that ``is_refused`` from ever starting there. Where jobs are picked: whether this one has been picked in this
pass, may be picked, and fits now."""

PAIR_DTYPE = record_dtype([("node", np.int32), ("cores", np.int32)])
"""A node of a job that runs or ran, and how many cores it has there."""

RUNNING_DTYPE = record_dtype(
    [
        ("job", np.int32),
        ("n_pairs", np.int32),
        ("first_pair", np.int64),
        ("limit_end_s", np.float64),
        ("is_taken", np.int8),
    ]
)
"""A job that runs: what plans look at again and again, close together; ``is_taken`` if the job planned now preempts
it."""

DEPENDENCY_DTYPE = record_dtype(model.DEPENDENCY_DTYPE)
RESERVATION_DTYPE = record_dtype([*of(np.float64, "start_s", "end_s", "latest_end_s")])
"""A reservation, by start; ``latest_end_s`` is the latest end of it and those before."""

OUTAGE_DTYPE = record_dtype(model.OUTAGE_DTYPE)
_COUNTED = of(np.int64, *(f"{kind}{name}" for kind in ("most_", "") for name in ("cores", "gpus", "jobs", "submitted")))
"""Limits of a group of jobs (-1: none), and what it has: cores, GPUs and jobs that run; jobs that wait or run."""

LIMIT_DTYPE = record_dtype(
    [
        *of(np.int32, "parent", "priority"),
        *of(np.float64, "factor", "grace_s", "exempt_s", "shares", "usage", "level_share", "share", "effective"),
        ("preempts", np.uint64),
        ("preempt_mode", np.int8),
        *_COUNTED,
        ("is_over_partition", np.int8),
    ]
)
"""A QOS or an account: its parent (-1: none), priority as a share of the largest, what it preempts and what becomes of
its own jobs then, shares, core seconds used, and what `kernel.fairshare` makes of them; limits and what they count;
whether its limits go before those of the partition's QOS."""

USE_DTYPE = record_dtype(
    [
        *_COUNTED,
        *of(np.int64, "own_jobs", "own_submitted"),
        ("account", np.int32),
        *of(np.float64, "shares", "usage", "level_share", "factor"),
    ]
)
"""A user of a QOS or of an account: limits and what they count; in an account also MaxJobs and MaxSubmitJobs
(``own_``, -1: none), which a QOS replaces on other conditions, the account (-1: none), shares, core seconds used, and
the factor of fair share."""

ARRAY_DTYPE = record_dtype([("first_task", np.int32), ("limit", np.int32), ("n_active", np.int32)])
"""An array: its first task, how many may be queued or run at one time (-1: all), and how many are."""

MACHINE_LOG_DTYPE = record_dtype([("time_s", np.float64), ("computing", np.int32)])
"""Number of cores that compute after each start and end."""

SET_DTYPE = record_dtype(
    [("first", np.int32), ("last", np.int32), ("cores", np.int64), ("n_nodes", np.int32), ("weight", np.int64)]
)
"""Consecutive nodes of one weight that have something for a job."""

SEGMENT_DTYPE = record_dtype([("begin_s", np.float64), ("end_s", np.float64), ("next", np.int32)])
"""A span of the time map of the backfill cycle; ``next`` is -1 at its end."""


class SiteState(NamedTuple):
    """The arrays of a simulation."""

    scalars: Annotated[Rows, own(SCALARS_DTYPE, "one")]
    settings: Annotated[Rows, shared(SETTINGS_DTYPE, "one")]
    nodes: Annotated[Rows, own(NODE_DTYPE, "n_nodes")]
    # What is free on each node, and what will be as jobs reach their limits
    free: Annotated[Ints, own(np.int32, "n_nodes")]
    free_mib: Annotated[Floats, own(np.float64, "n_nodes")]
    free_gpus: Annotated[Ints, own(np.int32, "n_nodes")]
    later: Annotated[Ints, own(np.int32, "n_nodes")]
    later_mib: Annotated[Floats, own(np.float64, "n_nodes")]
    later_gpus: Annotated[Ints, own(np.int32, "n_nodes")]
    suspended_cores: Annotated[Ints, own(np.int32, "n_nodes")]  # of jobs, which keep them booked
    free_nodes: Annotated[Bits, own(np.uint64, "n_words")]  # nodes with free cores, and those that will have some
    later_nodes: Annotated[Bits, own(np.uint64, "n_words")]
    all_free: Annotated[Ints, shared(np.int32, "n_nodes")]
    all_mib: Annotated[Floats, shared(np.float64, "n_nodes")]
    all_gpus: Annotated[Ints, shared(np.int32, "n_nodes")]
    core_owner: Annotated[Ints, own(np.int32, "n_cores")]
    partitions: Annotated[Rows, own(PARTITION_DTYPE, "n_partitions")]
    partition_nodes: Annotated[Bits, shared(np.uint64, "n_partitions", "n_words")]
    feature_nodes: Annotated[Bits, shared(np.uint64, "n_features", "n_words")]
    open_nodes: Annotated[Bits, own(np.uint64, "n_words")]
    reservations: Annotated[Rows, shared(RESERVATION_DTYPE, "n_reservations")]
    reservation_nodes: Annotated[Bits, shared(np.uint64, "n_reservations", "n_words")]
    outages: Annotated[Rows, shared(OUTAGE_DTYPE, "n_outages")]
    jobs: Annotated[Rows, own(JOB_DTYPE, "n_jobs")]
    entries: Annotated[Rows, own(ENTRY_DTYPE, "n_entries")]
    dependencies: Annotated[Rows, shared(DEPENDENCY_DTYPE, "n_dependencies")]
    dependents: Annotated[Ints, shared(np.int32, "n_dependencies")]  # jobs, by what they depend on
    arrays: Annotated[Rows, own(ARRAY_DTYPE, "n_arrays")]
    qos: Annotated[Rows, own(LIMIT_DTYPE, "n_qos")]
    accounts: Annotated[Rows, own(LIMIT_DTYPE, "n_accounts")]
    qos_users: Annotated[Rows, own(USE_DTYPE, "n_qos_users")]
    account_users: Annotated[Rows, own(USE_DTYPE, "n_account_users")]
    account_order: Annotated[Ints, shared(np.int32, "n_ordered")]  # parents before their children
    paths: Annotated[Ints, shared(np.int32, "n_account_users", "n_levels")]  # accounts above users, and these
    ranking: Annotated[Ints, own(np.int32, "n_account_users")]
    # Events: a heap of dates, and what happens then: kind * n_things + thing
    dates_s: Annotated[Floats, log(np.float64, "n_dates", counted_by="n_events")]
    events: Annotated[NDArray[np.int64], log(np.int64, "n_dates", counted_by="n_events")]
    batch: Annotated[NDArray[np.int64], log(np.int64, "n_dates", counted_by="n_events")]  # those of one date
    queue: Annotated[Ints, own(np.int32, "n_entries")]
    ordered: Annotated[Ints, own(np.int32, "n_entries")]
    arriving: Annotated[Ints, own(np.int32, "n_jobs")]
    running: Annotated[Rows, own(RUNNING_DTYPE, "n_jobs")]  # by the ends of their limits
    components: Annotated[Ints, own(np.int32, "n_components")]  # of het jobs, in the order of the backfill cycle
    candidates: Annotated[Ints, own(np.int32, "n_jobs")]  # running jobs that may be preempted, in the order of that
    # Scratch: nodes that may be used, what they have, the sets of them, what is chosen
    usable: Annotated[Bits, own(np.uint64, "n_words")]
    tried: Annotated[Bits, own(np.uint64, "n_words")]
    blocked: Annotated[Bits, own(np.uint64, "n_words")]
    offered: Annotated[Ints, own(np.int32, "n_nodes")]
    sets: Annotated[Rows, own(SET_DTYPE, "n_nodes")]
    selected: Annotated[Rows, own(PAIR_DTYPE, "n_nodes")]
    segments: Annotated[Rows, own(SEGMENT_DTYPE, "n_segments")]
    segment_nodes: Annotated[Bits, own(np.uint64, "n_segments", "n_words")]
    dropped: Annotated[Ints, own(np.int32, "n_dropped")]  # jobs whose dependents are to be looked at
    user_tests: Annotated[Ints, own(np.int32, "n_users")]
    # Of policies with predictions, an index or a gate: see `batch.kernel.history` and `batch.kernel.keys`
    job_groups: Annotated[Ints, shared(np.int32, "n_predicted", "n_group_levels")]
    sums: Annotated[Rows, own(SUMS_DTYPE, "n_groups")]
    predictions: Annotated[Rows, own(PREDICTION_DTYPE, "n_predicted")]
    weights: Annotated[Floats, shared(np.float64, "n_weights")]
    network: Annotated[Floats, shared(np.float64, "n_network")]
    neurons: Annotated[Floats, own(np.float64, "n_neurons")]
    features: Annotated[Floats, own(np.float64, "n_described")]
    # What happened
    pairs: Annotated[Rows, log(PAIR_DTYPE, "n_pair_log", counted_by="n_pairs")]
    allocated: Annotated[Ints, log(np.int32, "n_core_log", counted_by="n_allocated")]
    machine_log: Annotated[Rows, log(MACHINE_LOG_DTYPE, "n_log", counted_by="n_machine_log")]
    completed: Annotated[NDArray[np.int64], own(np.int64, "n_jobs")]


def grown_site_state(state: SiteState) -> SiteState:
    """Return the state with room in its logs for what one date may add."""
    margin = int(state.settings["n_cores"][0]) + 64 + len(state.dependencies)
    return grown(state, margin=2 * margin + 4 * int(state.scalars["n_running"][0]))


def waiting_jobs(state: SiteState) -> NDArray[np.int64]:
    """Return the jobs in the queue, each once, in the order in which they were submitted."""
    jobs = np.unique(state.entries["job"][state.queue[: int(state.scalars["n_queue"][0])]])
    return jobs[np.argsort(state.jobs["rank"][jobs], kind="stable")].astype(np.int64)


def smallest_state() -> SiteState:
    """Return the state of a machine of one core without jobs."""
    names = [
        "one",
        *(f"n_{name}" for name in ("nodes", "words", "cores", "partitions", "features", "users", "segments")),
    ]
    names += ["n_dropped", "n_levels", "n_pair_log", "n_core_log", "n_log", "n_dates"]
    names += ["n_predicted", "n_group_levels", "n_groups", "n_weights", "n_network", "n_neurons", "n_described"]
    sizes = dict.fromkeys(names, 1)
    none = ("reservations", "outages", "jobs", "entries", "dependencies", "arrays", "qos", "accounts", "ordered")
    sizes |= dict.fromkeys([f"n_{name}" for name in (*none, "qos_users", "account_users", "components")], 0)
    settings = np.zeros(1, dtype=SETTINGS_DTYPE)
    settings["discipline"] = NOTHING
    return new_arrays(SiteState, sizes, {"settings": settings})
