"""Het jobs: components with wishes of their own, which start together.

The components of a het job are planned as jobs of their own, none before the others that the cycle has planned. They
start at the end of the cycle if all of them could start now; else none does. Until then, one whose plan is now keeps
its nodes reserved. At the start each one takes any free nodes on which no other one is, as in Slurm's backfill plugin.

References
----------
Slurm's guide "Heterogeneous Job Support" (slurm.schedmd.com), and logs of Slurm 22.05 with DebugFlags=Backfill,HetJob.
"""

from __future__ import annotations

import math

import numpy as np

from hdrl.compiled.jit import jit
from hdrl.settings.batch.site_rules import codes
from hdrl.settings.batch.site_rules.kernel.allocation import choose_now, put_node
from hdrl.settings.batch.site_rules.kernel.limits import count_running, may_run
from hdrl.settings.batch.site_rules.kernel.main_scheduler import leave_out_reserved, limit_in, put_nodes_of
from hdrl.settings.batch.site_rules.kernel.priority import comes_before
from hdrl.settings.batch.site_rules.kernel.running import NEVER, cancel_job, first_of, next_of, start_job

_NONE = np.uint64(0)


@jit
def begin_components(state):
    """Forget the plans of the last cycle."""
    s = state.scalars[0]
    for i in range(s.n_components):
        state.jobs[state.components[i]].component_s = -1.0
    s.n_components = 0


@jit
def put_together(state):
    """Write the queue into the order of planning: components behind the one of their het job that is served first.

    Apart from each other they could keep nodes from other het jobs that wait for them.
    """
    s, n = state.scalars[0], np.int64(0)
    for i in range(s.n_queue):
        state.jobs[first_of(state, state.entries[state.queue[i]].job)].last_entry = -1
    for i in range(s.n_queue):
        entry = state.queue[i]
        row = state.jobs[first_of(state, state.entries[entry].job)]
        state.entries[entry].next = -1
        if row.first_component < 0 or row.last_entry < 0:
            state.ordered[n] = entry
            n += 1
        else:
            state.entries[row.last_entry].next = entry
        row.last_entry = entry
    # From the last one on, each moves up to make room for those behind it.
    position = s.n_queue
    for i in range(n - 1, -1, -1):
        entry, length = np.int64(state.ordered[i]), np.int64(0)
        while entry >= 0:
            length += 1
            entry = np.int64(state.entries[entry].next)
        position -= length
        entry = np.int64(state.ordered[i])
        for k in range(length):
            state.ordered[position + k] = entry
            entry = np.int64(state.entries[entry].next)


@jit
def _combined(state, first, is_tier):
    """Return the least, mean or largest partition tier or priority of all waiting components, by bf_hetjob_prio."""
    total, n, least, most, one = 0.0, np.int64(0), NEVER, -NEVER, first
    while one >= 0:
        row = state.jobs[one]
        if row.is_queued != 0:
            for entry in range(row.first_entry, row.first_entry + row.n_entries):
                value = state.entries[entry].priority
                if is_tier:
                    value = np.float64(state.partitions[state.entries[entry].partition].tier)
                total += value
                least, most = min(least, value), max(most, value)
                n += 1
        one = next_of(state, one)
    if state.settings[0].bf_hetjob_prio == codes.HETJOB_AVG:
        return math.floor(total / n)
    return least if state.settings[0].bf_hetjob_prio == codes.HETJOB_MIN else most


@jit
def _is_planned_before(state, one, other):
    """Tell whether bf_hetjob_prio plans an entry of the queue before another one."""
    a, b = state.entries[one], state.entries[other]
    first, other_first = first_of(state, a.job), first_of(state, b.job)
    if first == other_first:  # components keep their order
        return comes_before(state, one, other)
    tier, other_tier = np.float64(state.partitions[a.partition].tier), np.float64(state.partitions[b.partition].tier)
    priority, other_priority = a.priority, b.priority
    if state.jobs[first].first_component >= 0:
        tier, priority = state.jobs[first].het_tier, state.jobs[first].het_priority
    if state.jobs[other_first].first_component >= 0:
        other_tier, other_priority = state.jobs[other_first].het_tier, state.jobs[other_first].het_priority
    if tier != other_tier:
        return tier > other_tier
    if priority != other_priority:
        return priority > other_priority
    return state.jobs[first].rank < state.jobs[other_first].rank


@jit
def put_by_hetjob_prio(state):
    """Write the queue into the order of planning that bf_hetjob_prio asks for: components one after the other."""
    n = state.scalars[0].n_queue
    for i in range(n):
        first = first_of(state, state.entries[state.queue[i]].job)
        if state.jobs[first].first_component >= 0:
            state.jobs[first].het_tier = _combined(state, first, True)  # noqa: FBT003 (Numba has no keywords)
            state.jobs[first].het_priority = _combined(state, first, False)  # noqa: FBT003
    for i in range(n):
        entry, position = state.queue[i], i
        while position > 0 and _is_planned_before(state, entry, state.ordered[position - 1]):
            state.ordered[position] = state.ordered[position - 1]
            position -= 1
        state.ordered[position] = entry


@jit
def note_component(state, job):
    """Note that a cycle has come to a component, of which no plan is known yet."""
    s, row = state.scalars[0], state.jobs[job]
    if row.component_s < 0:
        row.component_s = NEVER
        state.components[s.n_components] = job
        s.n_components += 1


@jit
def _latest_s(state, first, left_out, unknown_s):
    """Return the latest plan for the components of a het job, infinity if one has none.

    Parameters
    ----------
    left_out
        The component that does not count, -1: all do.
    unknown_s
        Date in place of the plan of a component that the cycle has not reached.
    """
    latest_s, one = -1.0, np.int64(first)
    while one >= 0:
        row = state.jobs[one]
        if one != left_out and row.is_queued != 0:
            latest_s = max(latest_s, row.component_s if row.component_s >= 0 else unknown_s)
        one = next_of(state, one)
    return latest_s


@jit
def others_s(state, job):
    """Return the latest plan that this cycle has for the other components: infinity if one has none, -1: unknown."""
    return _latest_s(state, first_of(state, job), job, -1.0)


@jit
def plan_component(state, entry, start_s):
    """Note the plan of a component; of one in several partitions the earliest."""
    row = state.jobs[state.entries[entry].job]
    if start_s < row.component_s:
        row.component_s, row.component_entry = start_s, entry


@jit
def _choose_apart(state, job):
    """Choose nodes for a component of what is free now, on which no other one is (``state.blocked``)."""
    now, partition = state.scalars[0].message_s, state.entries[state.jobs[job].component_entry].partition
    put_nodes_of(state, state.usable, job, partition)
    leave_out_reserved(state, state.usable, now, now + limit_in(state, job, partition))
    for word in range(state.settings[0].n_words):
        state.usable[word] &= ~state.blocked[word]
    if not choose_now(state, job, partition, state.usable):
        return False
    for i in range(state.scalars[0].n_selected):
        put_node(state.blocked, state.selected[i].node)
    return True


@jit
def _fit_together(state, first):
    """Tell whether the components of a het job that a cycle has come to fit now, and within all limits."""
    s, fits, n = state.scalars[0], True, np.int64(0)
    state.blocked[:] = _NONE
    while fits and n < s.n_components:
        job = state.components[n]
        if first_of(state, job) == first:
            fits = may_run(state, state.jobs[job].component_entry) and _choose_apart(state, job)
            if fits:
                # Count it as running for the limits of the next components: QOS and accounts must admit all at once.
                state.jobs[job].n_cores = state.jobs[job].n_requested
                count_running(state, state.jobs[job].component_entry, 1)
        n += fits
    for i in range(n):
        job = state.components[i]
        if first_of(state, job) == first:
            count_running(state, state.jobs[job].component_entry, -1)
            state.jobs[job].n_cores = 0
    return fits


@jit
def _start_together(state, first):
    """Start the components of a het job if they all fit; return whether they did."""
    if not _fit_together(state, first):
        return False
    # All fit, so the same choices succeed again. Slurm starts without this test and requeues components on failure.
    state.blocked[:] = _NONE
    for i in range(state.scalars[0].n_components):
        job = state.components[i]
        if first_of(state, job) == first:
            _choose_apart(state, job)
            start_job(state, state.jobs[job].component_entry, 0)
    return True


@jit
def end_components(state):
    """Start the het jobs all components of which are planned for now; note the first plan of the others."""
    s = state.scalars[0]
    for i in range(s.n_components):
        job = state.components[i]
        row = state.jobs[job]
        if row.is_queued == 0:
            continue
        latest_s = _latest_s(state, first_of(state, job), -1, NEVER)
        if latest_s <= s.message_s and _start_together(state, first_of(state, job)):
            continue
        if row.planned_s < 0 and latest_s < NEVER:
            row.planned_s = latest_s


@jit
def _starts_alone(state, first, is_backwards):
    """Start a het job, each component in its first partition, if they all fit; return whether they did.

    The components choose their nodes one after the other, ``is_backwards`` the last one first.
    """
    s, one = state.scalars[0], first
    begin_components(state)
    while one >= 0:
        if state.jobs[one].is_queued != 0:
            note_component(state, one)
            state.jobs[one].component_entry = state.jobs[one].first_entry
        one = next_of(state, one)
    if is_backwards:
        for i in range(s.n_components // 2):
            other = s.n_components - 1 - i
            state.components[i], state.components[other] = state.components[other], state.components[i]
    return _start_together(state, first)


@jit
def untie(state):
    """Start a het job where nothing will happen any more, or end one that cannot start; return whether there was one.

    Het jobs may deadlock over nodes, and one whose components do not find nodes of their own waits forever.
    """
    last = np.int64(-1)
    for i in range(state.scalars[0].n_queue):
        first = first_of(state, state.entries[state.queue[i]].job)
        if state.jobs[first].first_component < 0:
            continue
        # A component may take the only nodes of a later one; in the reverse order that one chooses first.
        for is_backwards in (False, True):
            if _starts_alone(state, first, is_backwards):
                return True
        last = first
    if last >= 0:
        cancel_job(state, last)
    return last >= 0
