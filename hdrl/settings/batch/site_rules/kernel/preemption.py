"""Preemption: which running jobs a job may take nodes from, which it takes, and what becomes of them.

Candidates are ordered by the tier of their partition or the priority of their QOS, then by the number of their nodes
(or the youngest first). They are removed one after the other until the job fits. Then Slurm tries once more, to preempt
fewer: the last one first, the others by how many of the chosen nodes they have.

Suspended jobs keep their nodes booked, so that no others start there but those that may preempt them. They go on, on
the same nodes, as soon as enough cores are idle.

Het jobs take nodes from no other job, as the main scheduler never starts them.

References
----------
Slurm's guide "Preemption" and the manual of slurm.conf (slurm.schedmd.com): PreemptType, PreemptMode, GraceTime,
PreemptExemptTime, PreemptParameters.
"""

from __future__ import annotations

import numpy as np

from hdrl.compiled.jit import jit
from hdrl.settings.batch.site_rules import codes
from hdrl.settings.batch.site_rules.kernel.allocation import (
    choose_later,
    copy_free,
    free_cores,
    n_cores_on,
    release_cores_later,
    release_later,
    take_cores,
)
from hdrl.settings.batch.site_rules.kernel.running import (
    ENDS_IN_TIME,
    KILLED,
    NEVER,
    add_event,
    end_job,
    end_suspension,
    first_of,
    insert_running,
    log_machine,
    lose_work,
    next_of,
    remove_running,
    requeue_job,
)

_ONE = np.uint64(1)
_NONE = np.uint64(0)


@jit
def _mode_of(state, job):
    """Return the mode in which a running job is preempted."""
    row = state.jobs[job]
    if state.settings[0].preempt_by == codes.BY_PARTITION:
        return np.int64(state.partitions[state.entries[row.entry].partition].preempt_mode)
    return np.int64(state.qos[row.qos].preempt_mode) if row.qos >= 0 else np.int64(codes.OFF)


@jit
def _grace_s(state, job):
    row = state.jobs[job]
    if _mode_of(state, job) != codes.CANCEL:
        return 0.0
    if state.settings[0].preempt_by == codes.BY_PARTITION:
        return state.partitions[state.entries[row.entry].partition].grace_s
    return state.qos[row.qos].grace_s


@jit
def _importance(state, job):
    """Return the tier of the partition of a running job, or the priority of its QOS."""
    row = state.jobs[job]
    if state.settings[0].preempt_by == codes.BY_PARTITION:
        return np.int64(state.partitions[state.entries[row.entry].partition].tier)
    # A component without a QOS is suspended with its het job.
    return np.int64(state.qos[row.qos].priority) if row.qos >= 0 else np.int64(-1)


@jit
def may_preempt(state, entry, other):
    """Tell whether a waiting job may take the nodes of a running one."""
    settings, now = state.settings[0], state.scalars[0].message_s
    row, victim = state.jobs[state.entries[entry].job], state.jobs[other]
    mode = _mode_of(state, other)
    if mode == codes.OFF or victim.start_s >= now:
        return False
    if settings.preempt_by == codes.BY_PARTITION:
        tier = state.partitions[state.entries[entry].partition].tier
        if tier <= state.partitions[state.entries[victim.entry].partition].tier:
            return False
    elif row.qos < 0 or (state.qos[row.qos].preempts >> np.uint64(victim.qos)) & _ONE == _NONE:
        return False
    exempt_s = settings.exempt_s
    if victim.qos >= 0 and not np.isnan(state.qos[victim.qos].exempt_s):
        exempt_s = state.qos[victim.qos].exempt_s
    # PreemptExemptTime protects jobs from being requeued or cancelled; a suspended job loses no work.
    return mode == codes.SUSPEND or now >= victim.start_s + exempt_s


@jit
def _is_preempted_before(state, one, other):
    """Tell whether a candidate is preempted before another one."""
    a, b = state.jobs[one], state.jobs[other]
    is_gone, is_other_gone = (
        a.is_given_up != 0 or a.suspended_since_s >= 0,
        b.is_given_up != 0 or b.suspended_since_s >= 0,
    )
    if is_gone != is_other_gone:
        return is_gone
    importance, other_importance = _importance(state, one), _importance(state, other)
    if importance != other_importance:
        return importance < other_importance
    if state.settings[0].is_youngest_first != 0 and a.start_s != b.start_s:
        return a.start_s > b.start_s
    if state.settings[0].is_youngest_first == 0 and a.n_pairs != b.n_pairs:
        return a.n_pairs < b.n_pairs
    return a.rank < b.rank


@jit
def _collect(state, entry, usable):
    """Write the jobs that a job may preempt on the usable nodes into the candidates, in their order."""
    s = state.scalars[0]
    s.n_candidates = 0
    for i in range(s.n_running):
        one = state.running[i]
        if not may_preempt(state, entry, one.job) or n_cores_on(state, one, usable) == 0:
            continue
        position = s.n_candidates
        while position > 0 and _is_preempted_before(state, one.job, state.candidates[position - 1]):
            state.candidates[position] = state.candidates[position - 1]
            position -= 1
        state.candidates[position] = one.job
        s.n_candidates += 1


@jit
def remove_later(state, job):
    """Give back what preempting a job makes free, in what will be free later: suspended, it keeps memory and GPUs."""
    row, is_suspended = state.jobs[job], _mode_of(state, job) == codes.SUSPEND
    for i in range(row.first_pair, row.first_pair + row.n_pairs):
        if is_suspended:
            release_cores_later(state, i)
        else:
            release_later(state, job, i)


@jit
def _remove_until_fitting(state, entry, usable):
    """Remove candidates in their order until a job fits; return how many had to go, -1 if it does not fit at all."""
    s, job, partition = state.scalars[0], state.entries[entry].job, state.entries[entry].partition
    copy_free(state)
    for i in range(s.n_candidates):
        remove_later(state, state.candidates[i])
        if choose_later(state, job, partition, usable):
            return np.int64(i + 1)
    return np.int64(-1)


@jit
def _n_on_selected(state, job):
    """Return the number of selected nodes that a running job has."""
    row, n = state.jobs[job], np.int64(0)
    for i in range(state.scalars[0].n_selected):
        for k in range(row.first_pair, row.first_pair + row.n_pairs):
            n += state.pairs[k].node == state.selected[i].node
    return n


@jit
def find_victims(state, entry, usable):
    """Find whom a job that does not fit now would preempt to start on usable nodes; tell whether that is possible.

    The nodes are the selected ones then, and the jobs the first candidates.
    """
    s = state.scalars[0]
    _collect(state, entry, usable)
    if s.n_candidates == 0:
        return False
    n = _remove_until_fitting(state, entry, usable)
    if n < 0:
        return False
    # The last one made the job fit, so a second pass begins with it. Slurm makes one by default (reorder_count=1).
    last = state.candidates[n - 1]
    for i in range(n - 1, 0, -1):
        state.candidates[i] = state.candidates[i - 1]
    state.candidates[0] = last
    for i in range(2, n):
        job, position = state.candidates[i], i
        while position > 1 and _n_on_selected(state, job) > _n_on_selected(state, state.candidates[position - 1]):
            state.candidates[position] = state.candidates[position - 1]
            position -= 1
        state.candidates[position] = job
    s.n_candidates = n
    n = _remove_until_fitting(state, entry, usable)
    s.n_candidates = 0
    for i in range(n):
        # As in Slurm, preempt no candidate that holds none of the chosen nodes.
        if _n_on_selected(state, state.candidates[i]) > 0:
            state.candidates[s.n_candidates] = state.candidates[i]
            s.n_candidates += 1
    return True


@jit
def _suspend(state, job):
    s, row = state.scalars[0], state.jobs[job]
    free_cores(state, job)
    for i in range(row.first_pair, row.first_pair + row.n_pairs):
        state.suspended_cores[state.pairs[i].node] += state.pairs[i].cores
    s.n_suspended += 1
    # The event of its end stays in the heap; with this `due_s`, `end_on_date` ignores it.
    row.suspended_since_s, row.left_s, row.due_s = s.message_s, row.due_s - s.message_s, NEVER
    log_machine(state)


@jit
def _give_up(state, job, grace_s):
    """Let a job run on for its grace."""
    s, row = state.scalars[0], state.jobs[job]
    row.is_given_up = ENDS_IN_TIME
    end_s = s.message_s + grace_s
    if end_s < row.due_s:
        row.is_given_up, row.due_s, row.length_s = KILLED, end_s, end_s - row.start_s
        add_event(state, end_s, codes.JOB_ENDS, job)
    insert_running(state, job, min(remove_running(state, job), end_s))


@jit
def _preempt(state, job, mode, grace_s):
    """Preempt a running job."""
    s, row = state.scalars[0], state.jobs[job]
    if grace_s > 0:
        # Each cycle finds it again during its GraceTime, which must not begin anew.
        if row.is_given_up == 0:
            s.n_preempted += 1
            _give_up(state, job, grace_s)
        return
    if mode == codes.SUSPEND and row.suspended_since_s >= 0:
        return
    s.n_preempted += 1
    if mode == codes.SUSPEND:
        _suspend(state, job)
        return
    s.preempted_core_s += lose_work(state, job)
    if mode == codes.REQUEUE:
        requeue_job(state, job)
    else:
        end_job(state, job, codes.CANCELLED)


@jit
def take_nodes(state):
    """Preempt the candidates; tell whether the selected nodes are free now, not after the grace of some.

    With a component goes its whole het job.
    """
    s, is_free = state.scalars[0], True
    for i in range(s.n_candidates):
        one = np.int64(state.candidates[i])
        if state.jobs[one].state != codes.RUNNING:  # it went with another component
            continue
        mode, grace_s = _mode_of(state, one), _grace_s(state, one)
        is_free = is_free and grace_s == 0
        one = first_of(state, one)
        while one >= 0:
            if state.jobs[one].state == codes.RUNNING:
                _preempt(state, one, mode, grace_s)
            one = next_of(state, one)
    s.is_changed = 1
    return is_free


@jit
def _fits_again(state, job):
    """Tell whether enough cores are idle on the nodes of a suspended job."""
    row = state.jobs[job]
    for i in range(row.first_pair, row.first_pair + row.n_pairs):
        node = state.pairs[i].node
        if state.free[node] + state.suspended_cores[node] < state.pairs[i].cores:
            return False
    return True


@jit
def _resumes_before(state, one, other):
    """Tell whether a suspended job goes on before another one: the more important, then the one that waits longer."""
    importance, other_importance = _importance(state, one), _importance(state, other)
    if importance != other_importance:
        return importance > other_importance
    a, b = state.jobs[one], state.jobs[other]
    return a.suspended_since_s < b.suspended_since_s or (a.suspended_since_s == b.suspended_since_s and a.rank < b.rank)


@jit
def resume_jobs(state):
    """Let the suspended jobs go on whose nodes have enough idle cores."""
    s = state.scalars[0]
    s.n_candidates = 0
    for i in range(s.n_running):
        job = state.running[i].job
        if state.jobs[job].suspended_since_s < 0:
            continue
        position = s.n_candidates
        while position > 0 and _resumes_before(state, job, state.candidates[position - 1]):
            state.candidates[position] = state.candidates[position - 1]
            position -= 1
        state.candidates[position] = job
        s.n_candidates += 1
    for i in range(s.n_candidates):
        job = state.candidates[i]
        row = state.jobs[job]
        if not _fits_again(state, job):
            continue
        lasted_s = s.message_s - row.suspended_since_s
        end_suspension(state, job)
        take_cores(state, job)
        row.due_s = s.message_s + row.left_s
        row.length_s = row.due_s - row.start_s
        # Suspended time does not count towards the limit, so plans must expect a later end.
        insert_running(state, job, remove_running(state, job) + lasted_s)
        add_event(state, row.due_s, codes.JOB_ENDS, job)
        log_machine(state)
