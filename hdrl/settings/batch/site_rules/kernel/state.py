"""All that a simulation by `site` holds, one line of `SiteState` for each array."""

from __future__ import annotations

from typing import Annotated, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hdrl.compiled.fields import log, new_arrays, own, shared
from hdrl.compiled.records import record_dtype
from hdrl.settings.batch.site_rules.codes import NOTHING

Rows: TypeAlias = NDArray[np.void]
Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int32]
Bits: TypeAlias = NDArray[np.uint64]

YEAR_S = 365 * 86400.0
"""How long a job without any time limit is planned to run."""

SCALARS_DTYPE = record_dtype(
    [
        ("message_s", np.float64),
        ("first_submit_s", np.float64),
        ("end_s", np.float64),
        ("last_backfill_s", np.float64),
        ("backfill_due_s", np.float64),
        ("main_due_s", np.float64),
        ("is_cycling", np.int64),
        ("is_changed", np.int64),
        ("is_planning", np.int64),
        ("has_new", np.int64),
        ("n_dates", np.int64),
        ("n_events", np.int64),
        ("n_queue", np.int64),
        ("n_running", np.int64),
        ("n_arriving", np.int64),
        ("n_suspended", np.int64),
        ("n_candidates", np.int64),
        ("n_pairs", np.int64),
        ("n_allocated", np.int64),
        ("n_machine_log", np.int64),
        ("n_completed", np.int64),
        ("n_selected", np.int64),
        ("n_segments", np.int64),
        ("n_busy_cores", np.int64),
        ("n_computing", np.int64),
        ("n_passes", np.int64),
        ("n_cycles", np.int64),
        ("segment", np.int64),
        ("priority_date", np.float64),
        ("decayed_s", np.float64),
        ("lost_core_s", np.float64),
        ("preempted_core_s", np.float64),
        ("n_requeued", np.int64),
        ("n_preempted", np.int64),
        ("n_missed_reservations", np.int64),
        ("time_computing_s", np.float64),
        ("time_idle_s", np.float64),
        ("changed_s", np.float64),
    ]
)
"""What there is one of. ``message_s`` is the date now; the names of the first two are those that job keys read.
``is_planning``: jobs that become eligible now arrive when the scheduler has gone down the queue; ``n_candidates`` jobs
that may be preempted; ``is_cycling``: the last backfill cycle left jobs waiting, so that the next ones follow at the
interval;
``n_selected`` how many nodes `allocation.choose_nodes` has chosen; ``n_segments`` of the time map, and in which one the
plan of a job has come; ``priority_date``
when priorities are computed next, ``decayed_s`` when usage was last brought up to date. Work is lost to failures
(``lost_core_s``, ``n_requeued`` jobs) and to preemption (``preempted_core_s``, ``n_preempted``); a reservation is
missed if a job is on its nodes when it begins."""

SETTINGS_DTYPE = record_dtype(
    [
        ("discipline", np.int64),
        ("key", np.int64),
        ("order_key", np.int64),
        ("n_nodes", np.int64),
        ("n_words", np.int64),
        ("n_partitions", np.int64),
        ("n_cores", np.int64),
        ("most_cores", np.int64),
        ("fewest_cores", np.int64),
        ("counts_memory", np.int64),
        ("counts_gpus", np.int64),
        ("sched_interval_s", np.float64),
        ("default_queue_depth", np.int64),
        ("partition_job_depth", np.int64),
        ("bf_interval_s", np.float64),
        ("bf_resolution_s", np.float64),
        ("bf_window_s", np.float64),
        ("bf_max_job_test", np.int64),
        ("bf_max_job_user", np.int64),
        ("bf_max_job_part", np.int64),
        ("bf_min_age_reserve_s", np.float64),
        ("bf_min_prio_reserve", np.int64),
        ("max_reserve_part", np.int64),
        ("bf_busy_nodes", np.int64),
        ("preempt_by", np.int64),
        ("exempt_s", np.float64),
        ("is_youngest_first", np.int64),
        ("restart_s", np.float64),
        ("launch_s", np.float64),
        ("kill_wait_s", np.float64),
        ("over_time_limit_s", np.float64),
        ("age", np.float64),
        ("max_age_s", np.float64),
        ("fairshare", np.float64),
        ("is_fair_tree", np.int64),
        ("decay", np.float64),
        ("calc_period_s", np.float64),
        ("job_size", np.float64),
        ("favor_small", np.int64),
        ("is_relative_to_time", np.int64),
        ("partition", np.float64),
        ("qos", np.float64),
    ]
)
"""What does not change: discipline and priority, sizes (``most_cores`` and ``fewest_cores`` of a node),
`SchedulerParameters`, `PriorityWeights`. ``max_reserve_part`` is how many jobs of a partition are planned (0: all),
``order_key`` in which order EASY tries jobs that may overtake."""

NODE_DTYPE = record_dtype(
    [
        ("cores", np.int32),
        ("first_core", np.int32),
        ("gpus", np.int32),
        ("memory_mib", np.float64),
        ("weight", np.int64),
        ("n_closed", np.int32),
        ("partitions", np.uint64),
    ]
)
"""A node; ``n_closed`` counts the outages that keep it from starting jobs."""

PARTITION_DTYPE = record_dtype(
    [
        ("tier", np.int32),
        ("factor", np.float64),
        ("max_time_s", np.float64),
        ("min_nodes", np.int32),
        ("max_nodes", np.int32),
        ("is_exclusive", np.int8),
        ("preempt_mode", np.int8),
        ("grace_s", np.float64),
        ("free_cores", np.int64),
        ("is_failed", np.int8),
        ("n_tested", np.int32),
        ("n_reserved", np.int32),
    ]
)
"""A partition: ``factor`` is PriorityJobFactor as a share of the largest; ``free_cores`` of all its nodes."""

JOB_DTYPE = record_dtype(
    [
        ("submit_s", np.float64),
        ("run_s", np.float64),
        ("limit_s", np.float64),
        ("walltime_s", np.float64),
        ("requested_time_s", np.float64),
        ("n_requested", np.int64),
        ("memory_mib", np.float64),
        ("bandwidth_gbps", np.float64),
        ("rank", np.int64),
        ("return_code", np.int32),
        ("nodes", np.int32),
        ("is_exclusive", np.int8),
        ("features", np.int32),
        ("gpus", np.int32),
        ("begin_s", np.float64),
        ("held_until_s", np.float64),
        ("cancelled_s", np.float64),
        ("nice", np.int32),
        ("qos", np.int32),
        ("account", np.int32),
        ("user", np.int32),
        ("array", np.int32),
        ("next_task", np.int32),
        ("qos_user", np.int32),
        ("account_user", np.int32),
        ("site_factor", np.int64),
        ("is_refused", np.int8),
        ("first_entry", np.int32),
        ("n_entries", np.int32),
        ("first_dependency", np.int32),
        ("n_dependencies", np.int32),
        ("first_dependent", np.int32),
        ("n_dependents", np.int32),
        ("state", np.int8),
        ("is_queued", np.int8),
        ("overruns", np.int8),
        ("entry", np.int32),
        ("eligible_s", np.float64),
        ("start_s", np.float64),
        ("ended_s", np.float64),
        ("due_s", np.float64),
        ("length_s", np.float64),
        ("charged_s", np.float64),
        ("planned_s", np.float64),
        ("waited_s", np.float64),
        ("lost_core_s", np.float64),
        ("n_restarts", np.int32),
        ("is_given_up", np.int8),
        ("suspended_since_s", np.float64),
        ("suspended_s", np.float64),
        ("left_s", np.float64),
        ("first_pair", np.int64),
        ("n_pairs", np.int32),
        ("first_core", np.int64),
        ("n_cores", np.int32),
    ]
)
"""A job, in the order of the workload. The names of the first are those that job keys read.

Plans expect that it ends ``limit_s`` after its start; it is killed ``walltime_s`` after it (infinity: never).
``entry`` in which of its partitions it runs; ``eligible_s`` when it could have started first; ``due_s`` when it ends,
``length_s`` after its start, and whether it ``overruns`` its time; until when its use has been ``charged_s``; its nodes
are ``n_pairs`` rows of the pairs, its cores ``n_cores`` of the allocated ones. ``planned_s`` is the first date that a
plan gave it, ``waited_s`` what all its waits add up to, ``lost_core_s`` what it did in vain; it ``is_given_up`` in the
grace before another job takes its nodes; it has been suspended for ``suspended_s`` in this run, and is so
``suspended_since_s`` (-1: it is not) with ``left_s`` to run."""

ENTRY_DTYPE = record_dtype([("job", np.int32), ("partition", np.int32), ("priority", np.float64)])
"""A job in one of its partitions: what the queue holds; the highest priority is served first."""

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

DEPENDENCY_DTYPE = record_dtype([("job", np.int32), ("on", np.int32), ("kind", np.int8), ("delay_s", np.float64)])
"""A dependency, as `site_rules.model.DEPENDENCY_DTYPE`, ordered by ``job``."""

RESERVATION_DTYPE = record_dtype([("start_s", np.float64), ("end_s", np.float64)])
OUTAGE_DTYPE = record_dtype([("node", np.int32), ("start_s", np.float64), ("end_s", np.float64), ("is_drain", np.int8)])
LIMIT_DTYPE = record_dtype(
    [
        ("parent", np.int32),
        ("factor", np.float64),
        ("priority", np.int32),
        ("preempts", np.uint64),
        ("preempt_mode", np.int8),
        ("grace_s", np.float64),
        ("exempt_s", np.float64),
        ("group_cores", np.int64),
        ("group_jobs", np.int64),
        ("user_cores", np.int64),
        ("user_jobs", np.int64),
        ("user_submitted", np.int64),
        ("cores", np.int64),
        ("jobs", np.int64),
        ("shares", np.float64),
        ("usage", np.float64),
        ("level_share", np.float64),
        ("share", np.float64),
        ("effective", np.float64),
    ]
)
"""A QOS or an account: its parent (-1: none), priority as a share of the largest, what it preempts and what becomes of
its own jobs then, limits (-1: none), and what runs; then shares, core seconds used, and what `kernel.fairshare` makes
of them."""

USE_DTYPE = record_dtype(
    [
        ("cores", np.int64),
        ("jobs", np.int64),
        ("submitted", np.int64),
        ("account", np.int32),
        ("usage", np.float64),
        ("level_share", np.float64),
        ("factor", np.float64),
    ]
)
"""What a user has in a QOS or an account: cores and jobs that run, and jobs that wait or run; in an account also its
number (-1: none), core seconds used, and the factor of fair share."""

ARRAY_DTYPE = record_dtype([("first_task", np.int32), ("limit", np.int32), ("n_active", np.int32)])
"""An array: its first task, how many may be queued or run at one time (-1: all), and how many are."""

MACHINE_LOG_DTYPE = record_dtype([("time_s", np.float64), ("computing", np.int32)])
"""How many cores compute, after each start and end."""

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
    candidates: Annotated[Ints, own(np.int32, "n_jobs")]  # running jobs that may be preempted, in the order of that
    # Scratch: nodes that may be used, what they have, the sets of them, what is chosen
    usable: Annotated[Bits, own(np.uint64, "n_words")]
    tried: Annotated[Bits, own(np.uint64, "n_words")]
    following: Annotated[Bits, own(np.uint64, "n_words")]
    blocked: Annotated[Bits, own(np.uint64, "n_words")]
    offered: Annotated[Ints, own(np.int32, "n_nodes")]
    sets: Annotated[Rows, own(SET_DTYPE, "n_nodes")]
    selected: Annotated[Rows, own(PAIR_DTYPE, "n_nodes")]
    segments: Annotated[Rows, own(SEGMENT_DTYPE, "n_segments")]
    segment_nodes: Annotated[Bits, own(np.uint64, "n_segments", "n_words")]
    dropped: Annotated[Ints, own(np.int32, "n_dropped")]  # jobs whose dependents are to be looked at
    user_tests: Annotated[Ints, own(np.int32, "n_users")]
    # What happened
    pairs: Annotated[Rows, log(PAIR_DTYPE, "n_pair_log", counted_by="n_pairs")]
    allocated: Annotated[Ints, log(np.int32, "n_core_log", counted_by="n_allocated")]
    machine_log: Annotated[Rows, log(MACHINE_LOG_DTYPE, "n_log", counted_by="n_machine_log")]
    completed: Annotated[NDArray[np.int64], own(np.int64, "n_jobs")]


def smallest_state() -> SiteState:
    """Return the state of a machine of one core without jobs."""
    names = (
        "one",
        "n_nodes",
        "n_words",
        "n_cores",
        "n_partitions",
        "n_features",
        "n_users",
        "n_segments",
        "n_dropped",
        "n_levels",
    )
    sizes = dict.fromkeys(names, 1)
    none = ("reservations", "outages", "jobs", "entries", "dependencies", "arrays", "qos", "accounts", "ordered")
    sizes |= dict.fromkeys([f"n_{name}" for name in (*none, "qos_users", "account_users")], 0)
    sizes |= dict.fromkeys(("n_pair_log", "n_core_log", "n_log", "n_dates"), 1)
    settings = np.zeros(1, dtype=SETTINGS_DTYPE)
    settings["discipline"] = NOTHING
    return new_arrays(SiteState, sizes, {"settings": settings})
