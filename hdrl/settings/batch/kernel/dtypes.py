"""Rows of the kernel's structured arrays."""

from __future__ import annotations

from dataclasses import fields

import numpy as np

from hdrl.compiled.records import of, record_dtype
from hdrl.settings.batch.platform.model import FittedCurve
from hdrl.settings.batch.workload.model import STEP_DTYPE as _WORKLOAD_STEP_DTYPE

STEP_DTYPE = record_dtype(_WORKLOAD_STEP_DTYPE)
"""A step of a profile, as workloads have it."""

SCALAR_DTYPE = record_dtype(
    [
        # clock and engine
        *of(np.float64, "now", "engine_s"),
        *of(np.int64, "seq", "n_engine_steps", "n_first_sleeps", "n_sleeps", "n_tasks"),
        ("loopback_s", np.float64),
        # mailbox of the server: one transfer at a time, the rest queue
        *of(np.int64, "box_head", "box_len"),
        ("transferring", np.int8),
        ("transfer_end_s", np.float64),
        *of(np.int64, "transfer_seq", "n_late", "end_rank"),
        # exchange with the scheduler
        *of(np.int8, "ready", "message_ready", "ended", "acknowledged"),
        *of(np.int64, "n_events", "n_ops", "next_op", "n_pool"),
        *of(np.float64, "reply_now_s", "message_s"),
        # counts
        *of(np.int64, "n_submitted", "n_done", "n_running", "n_timers", "n_killers", "n_submitters_left", "n_idle"),
        *of(np.int64, "n_computing", "n_grouped_switches", "n_machine_switches"),
        *of(np.float64, "time_computing_s", "time_idle_s"),
        # hosts that are off, or on the way: how many they are, for how long
        *of(np.int64, "n_off", "n_shutting_down", "n_booting", "n_switching"),
        *of(np.float64, "time_off_s", "time_shutting_down_s", "time_booting_s"),
        # energy
        *of(np.int8, "energy", "flat_power", "energy_read"),
        *of(np.float64, "swept_s", "energy_j", "energy_time_s", "power_w", "epsilon_w", "first_energy_j"),
        ("last_energy_j", np.float64),
        # logs
        ("logging", np.int8),
        *of(np.int64, "n_machine_log", "n_pstate_log", "n_pstate_cores", "n_energy_log", "n_completed", "n_allocated"),
        *of(np.int64, "n_core_fails", "n_memory_fails", "n_spans"),
        # decision system
        ("layer", np.int8),
        ("reference_flops", np.float64),
        ("compatible", np.int8),
        *of(np.int64, "n_queue", "n_expected"),
        ("first_submit_s", np.float64),
        # predictor of run times, whether reservations use it, and forms of the index and the gate
        ("predictor", np.int64),
        *of(np.int8, "predicts_ends", "has_gate", "index_form"),
        # conservative backfilling: events of the plan, whether it is up to date, until when something became free that
        # has not been offered to any job, until when what jobs leave that have ended was expected to be held,
        # whether it is made by nodes, for how many dates what is free there is kept, how often something was given
        # back, and before this decision, the most cores that a job asks for, the longest group of close events
        ("n_plan", np.int64),
        ("has_plan", np.int8),
        *of(np.float64, "freed_s", "vacated_s"),
        ("plans_nodes", np.int8),
        *of(np.int64, "n_snapshots", "n_given_back", "n_given_before", "most_requested"),
        ("margin_s", np.float64),
        *of(np.int64, "queue_key", "sorted_by", "n_sorted", "next_rank", "n_free_cores"),
        *of(np.int8, "follows_progress", "news", "no_more_jobs"),
        ("n_decisions", np.int64),
        # rule that switches nodes, its sleep state, its idle time, and the number of nodes that stay on
        ("node_rule", np.int8),
        ("sleep_state", np.int16),
        ("off_after_s", np.float64),
        *of(np.int64, "n_wanted_on", "blocked_job"),
        ("decides_idle", np.int8),
        # error code and its subjects
        *of(np.int64, "error", "error_job", "error_core"),
    ]
)

JOB_STATE_DTYPE = record_dtype(
    [
        # request of the job
        *of(np.float64, "submit_s", "walltime_s", "requested_time_s", "memory_mib", "bandwidth_gbps"),
        ("n_requested", np.int32),
        *of(np.int64, "first_step", "end_step"),
        # outcome of the job
        *of(np.int8, "state", "kill_requested", "sleep_kind"),
        *of(np.int32, "return_code", "n_cores"),
        ("first_core", np.int64),
        *of(np.float64, "start_s", "run_s", "energy_j"),
        # the running step
        ("step", np.int64),
        *of(np.float64, "left_s", "step_start_s", "remaining", "rate", "updated_s"),
        ("retimed_by", np.int64),
        ("slowest_flops", np.float64),
        ("n_slowest", np.int64),
        # its position in the queue
        ("rank", np.int64),
        *of(np.float64, "priority", "expected_end_s"),
        ("n_corrections", np.int32),
        # the decision system's picture of its progress
        *of(np.float64, "done_flop", "done_until_s", "pace_flops"),
        ("pace_known", np.int8),
    ]
)

CORE_DTYPE = record_dtype([("owner", np.int32), ("job", np.int32)])
"""A core: the job that the decision system has given it to, and the one that the simulated host runs; -1: none."""

HOST_DTYPE = record_dtype([("energy_j", np.float64), ("energy_time_s", np.float64), ("state_time_s", np.float64)])
"""State of a simulated host for the logs."""

RUNG_DTYPE = record_dtype(
    [
        *of(np.float64, "speed_flops", "host_flops", "idle_w", "epsilon_w", "full_w"),
    ]
)
"""A P-state of one kind of core: its speed, that of its whole host, and its power idle, hardly loaded and loaded."""

PROCESSOR_DTYPE = record_dtype(
    [
        *of(np.int32, "node", "first_core", "end_core"),
        *of(np.float64, "bandwidth_gbps", "peak_gflops", "peak_power_w"),
    ]
)
"""A processor; nothing of it changes."""

CURVE_DTYPE = record_dtype([(name, np.float64) for name in ("b", "c", "da", "db", "dc", "dd")])
"""Mutual slowdown of the cores of a processor: `platform.model.SpeedCurve`."""

FIT_DTYPE = record_dtype([(name, np.float64) for name in (*(one.name for one in fields(FittedCurve)), "lost")])
"""The same, and the power of a node, by a fit: `platform.model.FittedCurve`; ``lost``: the share of what is lost."""

DUE_PSTATE_DTYPE = record_dtype([("serving", np.int16), ("unused", np.int16)])
"""Of a processor: the P-states of cores that serve a job and of those that do not, as found when last looked for."""

OVERCOMMITMENT_DTYPE = record_dtype([("open_span", np.int64), ("last_span", np.int64), ("closed_s", np.float64)])
"""Of each processor: the span of over-commitment that goes on, the last one, and when that ended (-1: none)."""

NODE_DTYPE = record_dtype(
    [
        *of(np.int32, "first_processor", "end_processor", "first_sleep_state", "end_sleep_state"),
        ("memory_mib", np.float64),
    ]
)
"""A node, where its processors and sleep states are in their tables; nothing of it changes."""

SLEEP_STATE_DTYPE = record_dtype(
    [
        *of(np.int16, "off_pstate", "down_pstate", "up_pstate"),
        *of(np.float64, "shutdown_s", "boot_s"),
    ]
)
"""A sleep state of a node: the P-states of its hosts there, on the way to it and on the way back; their lengths."""

NODE_POWER_DTYPE = record_dtype(
    [
        ("status", np.int8),
        *of(np.int16, "sleep_state", "on_pstate"),
        *of(np.int32, "leader", "n_switching"),
        ("first_logged", np.int64),
        ("n_logged", np.int32),
        *of(np.float64, "ready_s", "idle_since_s"),
    ]
)
"""A node that can be switched off, as the decision system knows it.

``status`` is one of ``NODE_*`` of `kernel.codes`; ``sleep_state`` which of its sleep states it is in, goes to, or was
in last; ``on_pstate`` the P-state that its cores have after booting; ``leader`` the first node of those that are being
switched off, or on, by one request, -1 if it is not; of the leader, ``n_switching`` is how many hosts of the request
have not reported yet that they are off, or on, and ``first_logged`` and ``n_logged`` where its cores are in the log;
``ready_s`` when the node is expected to be there;
``idle_since_s`` the date of the message since which no job has held a core of it.
"""

FORECAST_DTYPE = record_dtype(
    [("shadow_cores", np.int32), ("shadow_memory_mib", np.float64), ("shadow_room", np.int64)]
)
"""Resources that a node will have free when the first job of the queue can start, and how many of its cores then fit
there."""

SERVER_MESSAGE_DTYPE = record_dtype([("kind", np.int8), ("a", np.int64), ("b", np.int64), ("transfer_s", np.float64)])
EVENT_DTYPE = record_dtype([("kind", np.int8), ("subject", np.int64), ("time_s", np.float64)])
OP_DTYPE = record_dtype(
    [
        ("kind", np.int8),
        ("time_s", np.float64),
        *of(np.int64, "subject", "first", "n"),
        ("value", np.float64),
    ]
)
SUBMITTER_DTYPE = record_dtype(
    [
        *of(np.int64, "next", "end", "batch"),
        *of(np.float64, "woke_s", "first_left_s"),
        ("phase", np.int8),
    ]
)
FINISHED_DTYPE = record_dtype([("seq", np.int64), ("kind", np.int8), ("subject", np.int64)])
MACHINE_LOG_DTYPE = record_dtype(
    [
        ("time_s", np.float64),
        *of(np.int32, "sleeping", "switching_on", "switching_off", "idle", "computing"),
    ]
)
"""Number of hosts in each state, under Batsim's names."""

PSTATE_LOG_DTYPE = record_dtype(
    [("time_s", np.float64), ("first_core", np.int64), ("n_cores", np.int32), ("pstate", np.int32)]
)
ENERGY_LOG_DTYPE = record_dtype(
    [("time_s", np.float64), ("energy_j", np.float64), ("event", np.int8), ("epsilon_w", np.float64)]
)
SPAN_DTYPE = record_dtype([("processor", np.int32), ("start_s", np.float64), ("duration_s", np.float64)])
