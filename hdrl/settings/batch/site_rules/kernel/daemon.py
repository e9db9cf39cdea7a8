"""A daemon that orders Slurm's queue: what `hdrl deploy run` does at each look, and its Lua at each submission.

The daemon gives jobs the SiteFactor of a policy, and holds those that its gate holds by a lease, which ends by itself.
Between two looks Slurm starts whatever fits; a new job has the number of the Lua, or none.
"""

from __future__ import annotations

import math

from hdrl.compiled.jit import jit
from hdrl.settings.batch.kernel import codes as kernel_codes
from hdrl.settings.batch.kernel.groups import share_without_room
from hdrl.settings.batch.kernel.keys import backlog_of, holds
from hdrl.settings.batch.site_rules import codes
from hdrl.settings.batch.site_rules.kernel.predictions import index_of
from hdrl.settings.batch.site_rules.kernel.priority import priority_of, sort_entries
from hdrl.settings.batch.site_rules.kernel.running import NEVER, add_event
from hdrl.settings.batch.site_rules.kernel.site_factor import LEASE_INTERVALS, has_changed, site_factor
from hdrl.settings.batch.workload.history import ALL_LEVEL


@jit
def expect_look(state):
    """Schedule the daemon's next look, if jobs wait."""
    s, interval_s = state.scalars[0], state.settings[0].look_interval_s
    if interval_s == 0 or s.n_queue == 0 or s.look_due_s < NEVER:
        return
    s.look_due_s = (math.floor(s.message_s / interval_s) + 1.0) * interval_s
    add_event(state, s.look_due_s, codes.DAEMON_LOOKS, 0)


@jit
def _is_first_entry(state, entry):
    return entry == state.jobs[state.entries[entry].job].first_entry


@jit
def _decide(state, job, n_free, backlog, without_room):
    """Write the SiteFactor of a waiting job, and its lease; return whether the daemon sends it to Slurm."""
    s, settings, row = state.scalars[0], state.settings[0], state.jobs[job]
    waited_s, reserve = max(0.0, s.message_s - row.eligible_s), 0.0
    key = index_of(state, job, waited_s, n_free, backlog, without_room)
    if s.has_gate != 0:
        reserve = state.predictions[job].reserve
    factor = site_factor(key, row.eligible_s, s.message_s, settings.look_bound_s)
    has_changes = has_changed(factor, row.site_factor)
    if has_changes:
        row.site_factor = factor
    was_held = row.lease_until_s > s.message_s
    row.lease_until_s = 0.0
    if waited_s <= settings.look_bound_s and holds(reserve, row.n_requested, n_free, settings.n_cores):
        row.lease_until_s = s.message_s + math.ceil(LEASE_INTERVALS * settings.look_interval_s)
    return has_changes or was_held


@jit
def look_at_queue(state):
    """Let the daemon look at the queue, once."""
    s, settings = state.scalars[0], state.settings[0]
    s.look_due_s = NEVER
    n_free, work_s, without_room = settings.n_cores - s.n_busy_cores, 0.0, 0.0
    if s.n_queue > 0 and settings.look_key == kernel_codes.JOB_INDEX:
        for i in range(s.n_queue):
            job = state.entries[state.queue[i]].job
            if _is_first_entry(state, state.queue[i]):
                work_s += state.predictions[job].length_s * state.jobs[job].n_requested
        without_room = share_without_room(state.sums[state.job_groups[state.entries[state.queue[0]].job, ALL_LEVEL]])
    backlog, has_changes, is_held = backlog_of(work_s, settings.n_cores), False, False
    for i in range(s.n_queue):
        job = state.entries[state.queue[i]].job
        if _is_first_entry(state, state.queue[i]):
            has_changes = _decide(state, job, n_free, backlog, without_room) or has_changes
            is_held = is_held or state.jobs[job].lease_until_s > s.message_s
    if has_changes:
        for i in range(s.n_queue):
            state.entries[state.queue[i]].priority = priority_of(state, state.queue[i])
        sort_entries(state, state.queue, s.n_queue)
        s.is_changed = 1  # scontrol makes the main scheduler run
    if has_changes or is_held or s.n_running > 0 or s.n_events > 0:  # else nothing will change any more
        expect_look(state)
