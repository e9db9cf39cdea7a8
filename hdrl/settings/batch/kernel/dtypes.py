"""What the rows of the kernel's structured arrays hold."""

from __future__ import annotations

from dataclasses import fields

import numpy as np

from hdrl.compiled.records import record_dtype
from hdrl.settings.batch.platform.model import FittedCurve
from hdrl.settings.batch.workload.model import STEP_DTYPE as _WORKLOAD_STEP_DTYPE

STEP_DTYPE = record_dtype(_WORKLOAD_STEP_DTYPE)
"""A step of a profile, as workloads have it."""

SCALAR_DTYPE = record_dtype(
    [
        # clock and engine
        ("now", np.float64),
        ("engine_s", np.float64),
        ("seq", np.int64),
        ("n_engine_steps", np.int64),
        ("n_first_sleeps", np.int64),
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
        # hosts that are off, or on the way: how many they are, for how long
        ("n_off", np.int64),
        ("n_shutting_down", np.int64),
        ("n_booting", np.int64),
        ("n_switching", np.int64),
        ("time_off_s", np.float64),
        ("time_shutting_down_s", np.float64),
        ("time_booting_s", np.float64),
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
        # what predicts run times, whether reservations go by it, and what the index and the gate are made of
        ("predictor", np.int64),
        ("predicts_ends", np.int8),
        ("has_gate", np.int8),
        ("index_form", np.int8),
        # conservative backfilling: events of the plan, whether it is up to date, until when something became free that
        # has not been offered to anybody, until when what jobs leave that have ended was expected to be held,
        # whether it is made by nodes, for how many dates what is free there is kept, how often something was given
        # back, and before this decision, the most cores that a job asks for, the longest group of close events
        ("n_plan", np.int64),
        ("has_plan", np.int8),
        ("freed_s", np.float64),
        ("vacated_s", np.float64),
        ("plans_nodes", np.int8),
        ("n_marks", np.int64),
        ("n_given_back", np.int64),
        ("n_given_before", np.int64),
        ("most_requested", np.int64),
        ("margin_s", np.float64),
        ("queue_key", np.int64),
        ("sorted_by", np.int64),
        ("n_sorted", np.int64),
        ("next_rank", np.int64),
        ("n_free_cores", np.int64),
        ("follows_progress", np.int8),
        ("news", np.int8),
        ("no_more_jobs", np.int8),
        ("n_decisions", np.int64),
        # who switches nodes, to which sleep state, after how long without a job, how many are to be on
        ("node_rule", np.int8),
        ("sleep_state", np.int16),
        ("off_after_s", np.float64),
        ("n_wanted_on", np.int64),
        ("blocked_job", np.int64),
        ("decides_idle", np.int8),
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
        ("n_corrections", np.int32),
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

CURVE_DTYPE = record_dtype([(name, np.float64) for name in ("b", "c", "da", "db", "dc", "dd")])
"""How the cores of a processor slow each other down: `platform.model.SpeedCurve`."""

FIT_DTYPE = record_dtype([(name, np.float64) for name in (*(one.name for one in fields(FittedCurve)), "lost")])
"""The same, and the power of a node, by a fit: `platform.model.FittedCurve`; ``lost``: the share of what is lost."""

DUE_PSTATE_DTYPE = record_dtype([("serving", np.int16), ("unused", np.int16)])
"""Of a processor: the P-states of cores that serve a job and of those that do not, as found when last looked for."""

OVERCOMMITMENT_DTYPE = record_dtype([("open_span", np.int64), ("last_span", np.int64), ("closed_s", np.float64)])
"""Of each processor: the span of over-commitment that goes on, the last one, and when that ended (-1: none)."""

NODE_DTYPE = record_dtype(
    [
        ("first_processor", np.int32),
        ("end_processor", np.int32),
        ("first_sleep_state", np.int32),
        ("end_sleep_state", np.int32),
        ("memory_mib", np.float64),
    ]
)
"""A node, where its processors and sleep states are in their tables; nothing of it changes."""

SLEEP_STATE_DTYPE = record_dtype(
    [
        ("off_pstate", np.int16),
        ("down_pstate", np.int16),
        ("up_pstate", np.int16),
        ("shutdown_s", np.float64),
        ("boot_s", np.float64),
    ]
)
"""A sleep state of a node: the P-states of its hosts there, on the way to it and on the way back; their lengths."""

NODE_POWER_DTYPE = record_dtype(
    [
        ("status", np.int8),
        ("sleep_state", np.int16),
        ("on_pstate", np.int16),
        ("leader", np.int32),
        ("n_switching", np.int32),
        ("first_logged", np.int64),
        ("n_logged", np.int32),
        ("ready_s", np.float64),
        ("idle_since_s", np.float64),
    ]
)
"""A node that can be switched off, as the decision system knows it.

``status`` is one of ``NODE_*`` of `kernel.codes`; ``sleep_state`` which of its sleep states it is in, goes to, or was
in last; ``on_pstate`` the P-state that its cores have after booting; ``leader`` the first node of those that are being
switched off, or on, by one request, -1 if it is not; of the leader, ``n_switching`` is how many hosts of the request
have not told yet that they are off, or on, and ``first_logged`` and ``n_logged`` where its cores are in the log;
``ready_s`` when the node is expected to be there;
``idle_since_s`` the date of the message since which no job has held a core of it.
"""

FORECAST_DTYPE = record_dtype(
    [("shadow_cores", np.int32), ("shadow_memory_mib", np.float64), ("shadow_room", np.int64)]
)
"""What will be free on a node when the first job of the queue can start, and how many of its cores then fit there."""

SERVER_MESSAGE_DTYPE = record_dtype([("kind", np.int8), ("a", np.int64), ("b", np.int64), ("transfer_s", np.float64)])
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
    [
        ("next", np.int64),
        ("end", np.int64),
        ("batch", np.int64),
        ("woke_s", np.float64),
        ("first_left_s", np.float64),
        ("phase", np.int8),
    ]
)
FINISHED_DTYPE = record_dtype([("seq", np.int64), ("kind", np.int8), ("subject", np.int64)])
MACHINE_LOG_DTYPE = record_dtype(
    [
        ("time_s", np.float64),
        ("sleeping", np.int32),
        ("switching_on", np.int32),
        ("switching_off", np.int32),
        ("idle", np.int32),
        ("computing", np.int32),
    ]
)
"""How many hosts are in which state, under Batsim's names."""

PSTATE_LOG_DTYPE = record_dtype(
    [("time_s", np.float64), ("first_core", np.int64), ("n_cores", np.int32), ("pstate", np.int32)]
)
ENERGY_LOG_DTYPE = record_dtype(
    [("time_s", np.float64), ("energy_j", np.float64), ("event", np.int8), ("epsilon_w", np.float64)]
)
SPAN_DTYPE = record_dtype([("processor", np.int32), ("start_s", np.float64), ("duration_s", np.float64)])
