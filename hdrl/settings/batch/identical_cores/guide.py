"""Decisions of a policy of the kernel in JobPick, for learners that imitate it.

The policy is a job key, by requested or predicted times, or an index with weights, perhaps with a gate
(`kernel.keys`). What the index looks at is as it was at the first decision of an event, as in the kernel; whether the
gate holds a job is looked at after every start. A gate needs actions that hold: *skip* where nothing else is left to
start, *hold* otherwise. Only jobs that have a row can be picked: where more than ``max_jobs`` wait, schedules may
differ from the kernel's.
"""

from __future__ import annotations

import numpy as np

from hdrl.compiled.jit import jit
from hdrl.settings.batch.identical_cores.codes import OVER, OVERTAKE
from hdrl.settings.batch.identical_cores.history import backlog, describe_waiting
from hdrl.settings.batch.kernel import codes
from hdrl.settings.batch.kernel.groups import share_without_room
from hdrl.settings.batch.kernel.keys import holds, job_key, weigh_described
from hdrl.settings.batch.workload.history import ALL_LEVEL, USER_LEVEL

NO_JOB = -1


@jit
def _length_s(state, job):
    """Return the run time of a job as the policy assumes it, in seconds."""
    if state.settings[0].guide_predicts == 0:
        return state.jobs[job].requested_time_s
    return state.predictions[job - state.scalars[0].first_job].length_s


@jit
def _priority(state, job):
    """Return the priority of a job; the smallest is served first."""
    key = state.settings[0].guide_key
    if key == codes.JOB_INDEX:
        return state.predictions[job - state.scalars[0].first_job].index
    return job_key(state, job, key, _length_s(state, job))


@jit
def _value(state, job):
    """Return by what a job is compared at the stage at hand."""
    order = state.settings[0].guide_order
    if state.scalars[0].stage != OVERTAKE or order == codes.EASY_PRIORITY:
        return _priority(state, job)
    return np.float64(job) if order == codes.EASY_FCFS else _length_s(state, job)


@jit
def _weigh_waiting(state):
    """Work out index and gate of all waiting jobs, once for each event."""
    s, settings = state.scalars[0], state.settings[0]
    if s.is_weighed == 1:
        return
    s.is_weighed = 1
    work, without_room = backlog(state), share_without_room(state.sums[state.groups[0, ALL_LEVEL]])
    for position in range(s.n_waiting):
        own = state.waiting[position] - s.first_job
        waited_s = describe_waiting(state, position)
        n_known = state.sums[state.groups[own, USER_LEVEL]].n
        form, gate, prediction = settings.guide_form, settings.guide_gate, state.predictions[own]
        weigh_described(state.weights, state.features, form, gate, prediction, n_known, waited_s, work, without_room)


@jit
def _is_gated(state, job):
    """Tell whether the gate of the policy holds a job now."""
    s = state.scalars[0]
    if state.settings[0].guide_gate == 0:
        return False
    reserve = state.predictions[job - s.first_job].reserve
    return holds(reserve, state.jobs[job].n_requested, s.n_free, s.n_procs)


@jit
def _best(state, wants_held):
    """Return the row of the best job that may be picked among those that the gate holds, or does not; `NO_JOB`."""
    best, best_value = NO_JOB, np.inf
    for row in range(min(state.scalars[0].n_waiting, state.settings[0].max_jobs)):
        job = state.waiting[row]
        if state.masks[row] == 0 or _is_gated(state, job) != wants_held:
            continue
        if wants_held and state.waiting_sizes[row] > state.scalars[0].n_free:
            continue  # a job that cannot start need not be held
        value = _value(state, job)
        if best == NO_JOB or value < best_value or (value == best_value and job < state.waiting[best]):
            best, best_value = row, value
    return best


@jit
def guided(state):
    """Return the action that the policy would take."""
    s, settings = state.scalars[0], state.settings[0]
    if s.stage == OVER:
        return 0
    if len(state.weights) > 0:
        _weigh_waiting(state)
    best = _best(state, wants_held=False)
    if best != NO_JOB and (s.stage == OVERTAKE or state.waiting_sizes[best] <= s.n_free):
        return best
    # Nothing starts any more: what is to be held must be, before the first of the queue lets others overtake it.
    held = _best(state, wants_held=True) if settings.guide_gate == 1 else NO_JOB
    chooses_overtaking = settings.backfilling == codes.EASY_PRIORITY
    skip = settings.max_jobs * (1 + settings.may_hold)
    if best == NO_JOB and settings.has_skip == 1 and state.masks[skip] == 1:
        return skip
    is_due = best == NO_JOB or not chooses_overtaking
    if held != NO_JOB and is_due and settings.may_hold == 1 and state.masks[settings.max_jobs + held] == 1:
        return settings.max_jobs + held
    return best if best != NO_JOB else max(held, 0)
