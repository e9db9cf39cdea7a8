"""Arrivals, eligibility, starts and ends of jobs, and the effect of each on jobs that depend on others."""

from __future__ import annotations

import numpy as np

from hdrl.compiled.heap import add_date
from hdrl.compiled.jit import jit
from hdrl.settings.batch.kernel.history import note_start
from hdrl.settings.batch.site_rules import codes
from hdrl.settings.batch.site_rules.kernel.allocation import (
    free_cores,
    hold_nodes,
    n_cores_on,
    note_allocation,
    put_node,
)
from hdrl.settings.batch.site_rules.kernel.fairshare import charge_at_end
from hdrl.settings.batch.site_rules.kernel.limits import count_leaving, count_running, may_submit
from hdrl.settings.batch.site_rules.kernel.predictions import note_cancelled, note_ended
from hdrl.settings.batch.site_rules.kernel.priority import dequeue, enqueue

NEVER = np.inf

ENDS_IN_TIME = 1
KILLED = 2
"""Ends of a job that is given up: by itself within its grace, or killed at the end of it."""

REQUEUE_DELAY_S = 121.0
"""Seconds before a requeued job is eligible: Slurm waits until its old credential has expired (real runs: 121 s)."""


@jit
def add_event(state, date_s, kind, thing):
    """Note that something happens at a date."""
    s = state.scalars[0]
    s.n_events = add_date(state.dates_s, state.events, s.n_events, date_s, np.int64(thing) * codes.N_EVENTS + kind)


@jit
def log_machine(state):
    """Log the number of cores that compute."""
    s = state.scalars[0]
    now, n_cores = s.message_s, state.settings[0].n_cores
    s.time_computing_s += s.n_computing * (now - s.changed_s)
    s.time_idle_s += (n_cores - s.n_computing) * (now - s.changed_s)
    s.changed_s, s.n_computing = now, s.n_busy_cores
    state.machine_log[s.n_machine_log].time_s = now
    state.machine_log[s.n_machine_log].computing = s.n_busy_cores
    s.n_machine_log += 1


@jit
def first_of(state, job):
    """Return the first component of the het job of a job, else the job itself."""
    first = np.int64(state.jobs[job].first_component)
    return first if first >= 0 else np.int64(job)


@jit
def next_of(state, job):
    """Return the next component of the het job of a job, -1 behind the last one."""
    return np.int64(state.jobs[job].next_component)


@jit
def _fulfilled_s(state, dependency):
    """Return when a dependency is fulfilled: infinity if not yet, NaN if it never will be."""
    row = state.dependencies[dependency]
    other = state.jobs[row.on]
    has_ended = other.state >= codes.SUCCEEDED
    if row.kind == codes.AFTER:
        if other.start_s >= 0:
            return other.start_s + row.delay_s
        return other.ended_s + row.delay_s if has_ended else NEVER
    if not has_ended:
        return NEVER
    if row.kind == codes.AFTER_OK and other.state != codes.SUCCEEDED:
        return np.nan
    if row.kind == codes.AFTER_NOT_OK and other.state == codes.SUCCEEDED:
        return np.nan
    return other.ended_s + row.delay_s


@jit
def _own_eligible_s(state, job):
    """Return the date from which a job may start, whatever its het job waits for; see `_eligible_s`."""
    row = state.jobs[job]
    date_s = max(row.submit_s, row.begin_s, row.held_until_s)
    for i in range(row.first_dependency, row.first_dependency + row.n_dependencies):
        fulfilled_s = _fulfilled_s(state, i)
        if np.isnan(fulfilled_s):
            return np.nan
        date_s = max(date_s, fulfilled_s)
    return date_s


@jit
def _eligible_s(state, job):
    """Return the date from which a job may start with the other components: infinity if unknown, NaN if never."""
    date_s, one = -NEVER, first_of(state, job)
    while one >= 0:
        if state.jobs[one].state <= codes.WAITING:
            own_s = _own_eligible_s(state, one)
            if np.isnan(own_s):
                return own_s
            date_s = max(date_s, own_s)
        one = next_of(state, one)
    return date_s


@jit
def _drop(state, job):
    """End a job that has never started, and the other components of its het job with it."""
    s, one = state.scalars[0], first_of(state, job)
    while one >= 0:
        row = state.jobs[one]
        was_queued = row.is_queued != 0
        if was_queued:
            dequeue(state, one, 0)
        if row.state == codes.WAITING:
            note_cancelled(state, one, was_queued)
            count_leaving(state, one)
        if row.state <= codes.WAITING:
            row.state, row.ended_s = codes.NEVER_STARTED, s.message_s
            state.completed[s.n_completed] = one
            s.n_completed += 1
        one = next_of(state, one)


@jit
def consider(state, job):
    """Put a waiting job into the queue if it may start now; return whether it was dropped, as it never may.

    The other components of its het job join the queue with it.
    """
    is_dropped, one = _consider_one(state, job), first_of(state, job)
    while one >= 0 and state.jobs[job].is_queued != 0:
        _consider_one(state, one)
        one = next_of(state, one)
    return is_dropped


@jit
def _consider_one(state, job):
    s, row = state.scalars[0], state.jobs[job]
    if row.state != codes.WAITING or row.is_queued != 0:
        return False
    date_s = _eligible_s(state, job)
    if np.isnan(date_s):
        _drop(state, job)
        return True
    if date_s > s.message_s:
        # An unknown date needs no event: the job that it depends on considers this one when it starts or ends.
        if date_s < NEVER:
            add_event(state, date_s, codes.JOB_IS_ELIGIBLE, job)
        return False
    if row.array >= 0 and state.arrays[row.array].limit >= 0:
        if state.arrays[row.array].n_active >= state.arrays[row.array].limit:
            return False
        # A throttled task (--array=0-9%2) is eligible once the throttle admits it, as in sacct.
        date_s = s.message_s
    if row.array >= 0:
        state.arrays[row.array].n_active += 1
    row.eligible_s = date_s
    row.is_queued = 1
    if s.is_planning != 0:  # the queue of this pass was made before
        state.arriving[s.n_arriving] = job
        s.n_arriving += 1
    else:
        enqueue(state, job)
    s.is_changed = s.has_new = 1
    return False


@jit
def begin_pass(state):
    """Let jobs that become eligible from now on wait outside the queue."""
    state.scalars[0].is_planning = 1


@jit
def end_pass(state):
    """Put the jobs that have become eligible in a pass into the queue."""
    s = state.scalars[0]
    s.is_planning = 0
    for i in range(s.n_arriving):
        enqueue(state, state.arriving[i])
    s.n_arriving = 0


@jit
def _expect_submission(state, job):
    """Note when a job comes that its user submits after the end of another one, if that has ended."""
    row = state.jobs[job]
    for i in range(row.first_dependency, row.first_dependency + row.n_dependencies):
        if state.dependencies[i].kind == codes.THINK:
            other = state.jobs[state.dependencies[i].on]
            if other.state >= codes.SUCCEEDED and row.submit_s == NEVER:
                row.submit_s = other.ended_s + state.dependencies[i].delay_s
                add_event(state, row.submit_s, codes.JOB_COMES, job)


@jit
def _consider_dependents(state, job):
    """Look at the jobs that depend on one of which something has changed, and at those that depend on these."""
    s = state.scalars[0]
    # A stack instead of recursion: a chain of dependencies may be as long as the workload.
    state.dropped[0], n_dropped = job, 1
    while n_dropped > 0:
        n_dropped -= 1
        one = np.int64(state.dropped[n_dropped])
        if state.jobs[one].state == codes.NEVER_STARTED:  # as are the other components of its het job
            one = first_of(state, one)
        while one >= 0:
            row = state.jobs[one]
            for i in range(row.first_dependent, row.first_dependent + row.n_dependents):
                if state.jobs[state.dependents[i]].submit_s == NEVER:
                    _expect_submission(state, state.dependents[i])
                elif consider(state, state.dependents[i]):
                    state.dropped[n_dropped] = state.dependents[i]
                    n_dropped += 1
            one = next_of(state, one) if row.state == codes.NEVER_STARTED else np.int64(-1)
    s.is_changed = 1


@jit
def _leave_array(state, job):
    """Let the next task of an array be queued."""
    row = state.jobs[job]
    if row.array < 0:
        return
    state.arrays[row.array].n_active -= 1
    task = state.arrays[row.array].first_task
    while task >= 0:
        other = state.jobs[task]
        if other.state == codes.WAITING and other.is_queued == 0:
            if consider(state, task):
                _consider_dependents(state, task)
            if other.is_queued != 0:
                return
        task = other.next_task


@jit
def submit_job(state, job):
    """Let a job come."""
    row = state.jobs[job]
    # Ranks stand for Slurm's job numbers, which decide between equal priorities.
    row.rank = state.scalars[0].n_submitted
    state.scalars[0].n_submitted += 1
    if row.state != codes.NOT_SUBMITTED:  # cancelled at the same date
        return
    if not may_submit(state, job):
        _drop(state, job)
        _consider_dependents(state, job)
        return
    row.state = codes.WAITING
    if consider(state, job):
        _consider_dependents(state, job)


@jit
def cancel_job(state, job):
    """Let the user of a job cancel it, with all components of its het job."""
    # A job that comes at this date was submitted before it is cancelled, and never starts.
    has_come = state.jobs[job].submit_s <= state.scalars[0].message_s
    one = first_of(state, job) if has_come else np.int64(-1)
    while one >= 0:
        row = state.jobs[one]
        if row.state == codes.RUNNING:
            end_job(state, one, codes.CANCELLED)
        elif row.state <= codes.WAITING:
            was_queued = row.is_queued != 0
            _drop(state, one)
            if was_queued:
                _leave_array(state, one)
            _consider_dependents(state, one)
        one = next_of(state, one)


@jit
def _move_running(state, source, target):
    one, other = state.running[source], state.running[target]
    # `is_taken` stays behind: each plan with preemption writes it anew before reading it.
    other.job, other.n_pairs = one.job, one.n_pairs
    other.first_pair, other.limit_end_s = one.first_pair, one.limit_end_s


@jit
def insert_running(state, job, limit_end_s):
    """Put a job among those that run, by the ends of their limits."""
    s, row = state.scalars[0], state.jobs[job]
    position = s.n_running
    # Plans release running jobs in this order; kept sorted here, no plan has to sort them.
    while position > 0 and state.running[position - 1].limit_end_s > limit_end_s:
        _move_running(state, position - 1, position)
        position -= 1
    one = state.running[position]
    one.job, one.n_pairs, one.first_pair, one.limit_end_s = job, row.n_pairs, row.first_pair, limit_end_s
    s.n_running += 1


@jit
def remove_running(state, job):
    """Take a job out of those that run; return the end of its limit."""
    s, position = state.scalars[0], 0
    while state.running[position].job != job:
        position += 1
    limit_end_s = state.running[position].limit_end_s
    s.n_running -= 1
    for i in range(position, s.n_running):
        _move_running(state, i + 1, i)
    return limit_end_s


@jit
def start_job(state, entry, position):
    """Start a job on the selected nodes; return how many of its entries stood before a position in the queue."""
    s, settings, job = state.scalars[0], state.settings[0], state.entries[entry].job
    row = state.jobs[job]
    n_before = dequeue(state, job, position)
    note_start(state, job)
    note_allocation(state, job)
    hold_nodes(state, job, -1)
    row.state, row.entry, row.start_s = codes.RUNNING, entry, s.message_s
    row.waited_s += s.message_s - row.eligible_s
    row.is_given_up, row.suspended_s = 0, 0.0
    allowed_s = row.walltime_s + settings.over_time_limit_s
    row.length_s = settings.launch_s + row.run_s + (settings.restart_s if row.n_restarts > 0 else 0.0)
    row.overruns = row.length_s > allowed_s
    if row.overruns != 0:
        # After OverTimeLimit comes SIGTERM, and SIGKILL KillWait later; a job that ends in between has timed out, too.
        row.length_s = min(row.length_s, allowed_s + settings.kill_wait_s)
    limit_s = min(row.limit_s, state.partitions[state.entries[entry].partition].max_time_s)
    row.due_s = s.message_s + row.length_s
    insert_running(state, job, s.message_s + limit_s)
    count_running(state, entry, 1)
    add_event(state, row.due_s, codes.JOB_ENDS, job)
    log_machine(state)
    _consider_dependents(state, job)
    return n_before


@jit
def _release(state, job):
    """Take a running job off its nodes."""
    # Before `remove_running` and before a requeue clears `n_cores`: usage is charged to jobs that run.
    charge_at_end(state, job)
    hold_nodes(state, job, 1)
    if state.jobs[job].suspended_since_s >= 0:
        end_suspension(state, job)
    else:
        free_cores(state, job)
    remove_running(state, job)
    count_running(state, state.jobs[job].entry, -1)
    log_machine(state)


@jit
def end_suspension(state, job):
    """Count a suspended job no longer, as it ends or goes on; add up for how long it was suspended."""
    s, row = state.scalars[0], state.jobs[job]
    for i in range(row.first_pair, row.first_pair + row.n_pairs):
        state.suspended_cores[state.pairs[i].node] -= state.pairs[i].cores
    s.n_suspended -= 1
    row.suspended_s += s.message_s - row.suspended_since_s
    row.suspended_since_s = -1.0


@jit
def lose_work(state, job):
    """Note that what a running job has done is lost; return how many core seconds it is."""
    now, row = state.scalars[0].message_s, state.jobs[job]
    suspended_s = row.suspended_s + (now - row.suspended_since_s if row.suspended_since_s >= 0 else 0.0)
    lost = row.n_cores * (now - row.start_s - suspended_s)
    row.lost_core_s += lost
    return lost


@jit
def requeue_job(state, job):
    """Put a running job back into the queue: it begins anew once it is eligible again."""
    s, row = state.scalars[0], state.jobs[job]
    _release(state, job)
    row.state, row.start_s, row.n_cores = codes.WAITING, -1.0, 0
    row.n_restarts += 1
    row.begin_s = s.message_s + REQUEUE_DELAY_S
    s.is_changed = 1
    _leave_array(state, job)
    consider(state, job)


@jit
def requeue_jobs(state, node):
    """Put the jobs that run on a node back into the queue; they begin anew, and what they have done is lost.

    So do the other components of het jobs.
    """
    s = state.scalars[0]
    state.tried[:] = 0
    put_node(state.tried, node)
    position = np.int64(0)
    while position < s.n_running:
        if n_cores_on(state, state.running[position], state.tried) == 0:
            position += 1
            continue
        one, position = first_of(state, state.running[position].job), np.int64(0)
        while one >= 0:
            if state.jobs[one].state == codes.RUNNING:
                s.lost_core_s += lose_work(state, one)
                s.n_requeued += 1
                requeue_job(state, one)
            one = next_of(state, one)


@jit
def end_job(state, job, job_state):
    """End a running job."""
    s, row = state.scalars[0], state.jobs[job]
    _release(state, job)
    note_ended(state, job)
    count_leaving(state, job)
    row.state, row.ended_s = job_state, s.message_s
    if s.message_s < row.due_s:
        row.length_s = s.message_s - row.start_s
    state.completed[s.n_completed] = job
    s.n_completed += 1
    _leave_array(state, job)
    _consider_dependents(state, job)


@jit
def end_on_date(state, job):
    """End a job at its date, if that is still its date."""
    row = state.jobs[job]
    # The heap of events cannot drop an end that preemption, a requeue or a cancellation has made obsolete.
    if row.state != codes.RUNNING or row.due_s != state.scalars[0].message_s:
        return
    if row.is_given_up == KILLED:
        state.scalars[0].preempted_core_s += lose_work(state, job)
        end_job(state, job, codes.CANCELLED)
    elif row.overruns != 0:
        end_job(state, job, codes.TIMED_OUT)
    else:
        end_job(state, job, codes.SUCCEEDED if row.return_code == 0 else codes.FAILED)
