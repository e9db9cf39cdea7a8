"""Who sends letters to the server: submitters, the scheduler's answer, and jobs that end.

Each sends one, waits until it has been delivered, and goes on.
"""

from __future__ import annotations

import numpy as np

from hdrl.compiled import heap
from hdrl.compiled.jit import jit
from hdrl.settings.batch.kernel import codes, jobs
from hdrl.settings.batch.kernel.energy import first_reading
from hdrl.settings.batch.kernel.mail import post

# When jobs that end send their last letter: at once, in the round in which the scheduler's answer begins, or after all.
AT_ONCE, WITH_ANSWER, LAST = 0, 1, 2

# What a submitter does when its letter has been delivered, or when it wakes.
_PHASE_SUBMIT, _PHASE_SLEEP, _PHASE_BYE, _PHASE_GONE, _PHASE_FIRST_SLEEP = 0, 1, 2, 3, 4


@jit
def submitter_slot(state, submitter):
    """Return the slot in which a submitter sleeps."""
    return len(state.jobs) + submitter


@jit
def reply_slot(state):
    """Return the slot in which the scheduler's answer waits for a date; those behind it are timers."""
    return len(state.jobs) + len(state.submitters)


@jit
def reply(state):
    """Begin to apply the scheduler's answer: ``ops[:n_ops]``, each at its date, and forget the message."""
    s = state.scalars[0]
    s.n_events = 0
    s.next_op = 0
    _continue_reply(state)


@jit
def _continue_reply(state):
    s = state.scalars[0]
    until_s = state.ops[s.next_op].time_s if s.next_op < s.n_ops else s.reply_now_s
    if until_s > s.now:
        slot = reply_slot(state)
        s.n_sleeps = heap.push(state.sleeps, s.n_sleeps, slot, s.engine_s + (until_s - s.now), jobs.next_seq(state))
        return
    post_reply(state)


@jit
def post_reply(state):
    """Send the next request of the scheduler's answer, or that it is complete."""
    s = state.scalars[0]
    if s.next_op < s.n_ops:
        post(state, codes.OP, s.next_op, 0, s.loopback_s)
    else:
        post(state, codes.READY, 0, 0, s.loopback_s)


@jit
def submit(state, submitter, woke):
    """Let a submitter send all jobs that are due as one letter, or sleep until the next is due, or say goodbye."""
    s = state.scalars[0]
    row = state.submitters[submitter]
    row.batch = row.next
    if woke == 1:
        if row.phase == _PHASE_FIRST_SLEEP:
            s.n_first_sleeps -= 1
        row.woke_s = s.now
        row.next += 1  # the job it slept for, whatever rounding made of the date
    while row.next < row.end and state.jobs[state.order[row.next]].submit_s <= row.woke_s:
        row.next += 1
    if row.next > row.batch:
        if s.energy == 1 and s.energy_read < 2:
            first_reading(state)
        row.phase = _PHASE_SUBMIT
        post(state, codes.SUBMITTED, submitter, 0, s.loopback_s)
        return
    _sleep_or_leave(state, submitter)
    if row.phase == _PHASE_SLEEP:
        row.phase = _PHASE_FIRST_SLEEP
        row.first_left_s = state.jobs[state.order[row.next]].submit_s - row.woke_s
        s.n_first_sleeps += 1


@jit
def _sleep_or_leave(state, submitter):
    s = state.scalars[0]
    row = state.submitters[submitter]
    if row.next < row.end:
        row.phase = _PHASE_SLEEP
        job = state.order[row.next]
        # Counted from when it last woke: a submission is late by one transfer, without accumulation.
        until_s = s.engine_s + (state.jobs[job].submit_s - row.woke_s)
        slot = submitter_slot(state, submitter)
        s.n_sleeps = heap.push(state.sleeps, s.n_sleeps, slot, until_s, jobs.next_seq(state))
        return
    row.phase = _PHASE_BYE
    post(state, codes.BYE, submitter, 0, s.loopback_s)


@jit
def pass_first_sleeps(state, date_s, delta_s):
    """Count down what is left of first sleeps, as SimGrid does; return the length of the step, by them if one ends.

    Such a sleep begins as soon as the submitter woke, so it ends at the date of the first jobs but for the last bit of
    the clock, and this bit decides whether the second job of that date comes in the same message. All later sleeps
    begin a letter later and end behind their dates.
    """
    left_s = np.inf
    for submitter in range(len(state.submitters)):
        row = state.submitters[submitter]
        if row.phase == _PHASE_FIRST_SLEEP and state.sleeps[submitter_slot(state, submitter)].key == date_s:
            left_s = min(left_s, row.first_left_s)
    if left_s < np.inf:
        delta_s = left_s
    for submitter in range(len(state.submitters)):
        row = state.submitters[submitter]
        if row.phase == _PHASE_FIRST_SLEEP:
            row.first_left_s -= delta_s
    return delta_s


@jit
def sender_continues(state, kind, subject):
    """Let the sender of a letter that has been delivered go on."""
    s = state.scalars[0]
    if kind == codes.HELLO:
        state.submitters[subject].woke_s = s.now
        submit(state, subject, 0)
    elif kind == codes.SUBMITTED:
        _sleep_or_leave(state, subject)
    elif kind == codes.BYE:
        state.submitters[subject].phase = _PHASE_GONE
    elif kind == codes.OP:
        s.next_op += 1
        _continue_reply(state)


@jit
def finish(state, job):
    """End a job that is over and send its last letter on its way."""
    s = state.scalars[0]
    jobs.end(state, job)
    if s.end_rank != AT_ONCE:
        # It first reads the energy of the hosts, which lets others post before it.
        state.late[s.n_late] = job
        s.n_late += 1
    else:
        _post_completed(state, job)


@jit
def _post_completed(state, job):
    row = state.jobs[job]
    if row.state != codes.KILLED_BY_REQUEST:
        first = state.allocated[row.first_core]
        post(state, codes.COMPLETED, job, 0, state.message_s[first])


@jit
def post_late(state, n):
    """Post the first ``n`` letters that had to wait."""
    s = state.scalars[0]
    for i in range(n):
        _post_completed(state, state.late[i])
    s.n_late -= n
    for i in range(s.n_late):
        state.late[i] = state.late[i + n]


@jit
def rank_of_ends(state, n):
    """Tell when the jobs that end in this step, with ``n`` ends of anything, send their last letters.

    With energy, each reads the energy of all hosts first, and lets the others go on a round for each host whose
    energy is out of date. Up to date are hosts on which something ends right now.
    """
    s = state.scalars[0]
    if s.energy == 0 or s.swept_s == s.now:
        return AT_ONCE
    n_stale = len(state.cores)
    for i in range(n):
        kind, subject = state.finished[i].kind, state.finished[i].subject
        if kind == codes.END_TASK:
            n_stale -= state.jobs[subject].n_cores if subject < len(state.jobs) else 1
        elif kind == codes.END_TRANSFER:
            n_stale -= 1 if state.box[s.box_head].kind == codes.COMPLETED else 0
        elif subject < len(state.jobs):
            with_its_task = state.jobs[subject].sleep_kind == codes.SLEEP_TIMER and state.tasks[subject].position < 0
            n_stale -= 0 if with_its_task else 1
    return min(max(n_stale, AT_ONCE), LAST)
