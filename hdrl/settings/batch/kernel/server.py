"""The server: how it handles the messages that it receives, and when it sends one to the scheduler.

Submitters, the scheduler's answer and jobs that end send server messages. Each sends one, waits until it has been
delivered, and goes on.
"""

from __future__ import annotations

import numpy as np

from hdrl.compiled import heap
from hdrl.compiled.jit import jit
from hdrl.settings.batch.kernel import codes, jobs, switches
from hdrl.settings.batch.kernel.codes import refuse, refuse_code
from hdrl.settings.batch.kernel.energy import first_reading, look_at_hosts
from hdrl.settings.batch.kernel.messages import add_event, send

# When ended jobs send their last server message: at once, in the round in which the answer begins, or after all.
AT_ONCE, WITH_ANSWER, LAST = 0, 1, 2

# What a submitter does when its server message has been delivered, or when it wakes.
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
    send_reply(state)


@jit
def send_reply(state):
    """Send the next request of the scheduler's answer, or that it is complete."""
    s = state.scalars[0]
    if s.next_op < s.n_ops:
        send(state, codes.OP, s.next_op, 0, s.loopback_s)
    else:
        send(state, codes.READY, 0, 0, s.loopback_s)


@jit
def submit(state, submitter, woke):
    """Let a submitter send all due jobs as one server message, or sleep until the next is due, or say goodbye."""
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
        send(state, codes.SUBMITTED, submitter, 0, s.loopback_s)
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
    send(state, codes.BYE, submitter, 0, s.loopback_s)


@jit
def pass_first_sleeps(state, date_s, delta_s):
    """Count down what is left of first sleeps, as SimGrid does; return the length of the step, by them if one ends.

    Such a sleep begins as soon as the submitter woke, so it ends at the date of the first jobs but for the last bit of
    the clock, and this bit decides whether the second job of that date comes in the same message. All later sleeps
    begin a server message later and end behind their dates.
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
    """Let the sender of a server message that has been delivered go on."""
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
    """End a job that is over and send its last server message on its way."""
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
        send(state, codes.COMPLETED, job, 0, state.message_s[first])


@jit
def send_late(state, n):
    """Send the first ``n`` server messages that had to wait."""
    s = state.scalars[0]
    for i in range(n):
        _post_completed(state, state.late[i])
    s.n_late -= n
    for i in range(s.n_late):
        state.late[i] = state.late[i + n]


@jit
def rank_of_ends(state, n):
    """Return the rank at which the jobs that end in this step, with ``n`` ends of anything, send their last messages.

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


SHORTEST_CALL_S = 1e-5


@jit
def _record_completion(state, job):
    s = state.scalars[0]
    state.completed[s.n_completed] = job
    s.n_completed += 1
    s.n_done += 1


@jit
def _execute(state, op):
    s = state.scalars[0]
    job = op.subject
    row = state.jobs[job]
    if row.state != codes.WAITING:
        refuse(state, codes.ERROR_JOB_NOT_WAITING, job, -1)
        return
    if op.n != row.n_requested and state.steps[row.first_step].kind != codes.STEP_COMPUTE_TOTAL:
        refuse(state, codes.ERROR_WRONG_SIZE, job, -1)
        return
    cores, pool = state.cores, state.pool
    for i in range(op.first, op.first + op.n):
        if cores[pool[i]].job >= 0:
            refuse(state, codes.ERROR_CORE_BUSY, job, pool[i])
            return
    if s.n_allocated + op.n > len(state.allocated):
        refuse(state, codes.ERROR_WRONG_SIZE, job, -1)
        return
    if jobs.start(state, job, op.first, op.n):
        finish(state, job)


@jit
def _reject(state, op):
    row = state.jobs[op.subject]
    if row.state != codes.WAITING:
        refuse(state, codes.ERROR_JOB_NOT_WAITING, op.subject, -1)
        return
    row.state = codes.REJECTED
    _record_completion(state, op.subject)


@jit
def _kill(state, op):
    """Kill the jobs ``pool[first:first + n]``; those whose kill was requested before are left out."""
    s = state.scalars[0]
    n = 0
    for i in range(op.first, op.first + op.n):
        job = state.pool[i]
        row = state.jobs[job]
        if row.kill_requested == 1:
            continue
        if row.state in (codes.NOT_SUBMITTED, codes.WAITING, codes.REJECTED):
            refuse(state, codes.ERROR_KILL_UNKNOWN, job, -1)
            return
        row.kill_requested = 1
        state.pool[op.first + n] = job
        n += 1
        if row.state == codes.RUNNING:
            jobs.kill(state, job)
    op.n = n
    if n > 0:
        s.n_killers += 1


@jit
def _call_later(state, op):
    s = state.scalars[0]
    wait_s = op.value - s.now
    if wait_s <= 0.0:
        refuse(state, codes.ERROR_CALL_IN_PAST, -1, -1)
        return
    slot = reply_slot(state) + 1
    while slot < len(state.sleeps) and state.sleeps[slot].position >= 0:
        slot += 1
    if slot == len(state.sleeps):
        refuse(state, codes.ERROR_TOO_MANY_TIMERS, -1, -1)
        return
    s.n_timers += 1
    until_s = s.engine_s + max(wait_s, SHORTEST_CALL_S)
    s.n_sleeps = heap.push(state.sleeps, s.n_sleeps, slot, until_s, jobs.next_seq(state))


@jit
def _apply(state, index):
    """Carry out one op of the scheduler's answer."""
    op = state.ops[index]
    if op.kind == codes.EXECUTE:
        _execute(state, op)
    elif op.kind == codes.SET_PSTATE:
        switches.set_pstate(state, op)
    elif op.kind == codes.REJECT:
        _reject(state, op)
    elif op.kind == codes.KILL:
        _kill(state, op)
    elif op.kind == codes.CALL:
        _call_later(state, op)
    elif op.kind == codes.ASK_ENERGY:
        if state.scalars[0].energy == 1:
            look_at_hosts(state)
        add_event(state, codes.EVENT_ENERGY, 0)
    elif op.kind != codes.ANNOTATE:
        refuse_code(state, op.kind)


@jit
def _receive_killed(state, index):
    s = state.scalars[0]
    op = state.ops[index]
    for i in range(op.first, op.first + op.n):
        job = state.pool[i]
        if state.jobs[job].state == codes.KILLED_BY_REQUEST:
            s.n_running -= 1
            _record_completion(state, job)
            add_event(state, codes.EVENT_COMPLETED, job)
    add_event(state, codes.EVENT_KILLED, index)
    s.n_killers -= 1


@jit
def _receive_submitted(state, submitter):
    s = state.scalars[0]
    row = state.submitters[submitter]
    for i in range(row.batch, row.next):
        job = state.order[i]
        state.jobs[job].state = codes.WAITING
        s.n_submitted += 1
        add_event(state, codes.EVENT_SUBMITTED, job)


@jit
def _receive_requested(state, kind, a):
    """Handle a server message of something that the scheduler has requested and that takes time."""
    if kind == codes.CALLED:
        state.scalars[0].n_timers -= 1
        add_event(state, codes.EVENT_CALLED, 0)
    elif kind == codes.KILLED:
        _receive_killed(state, a)
    elif kind == codes.SWITCHED:
        switches.receive_switched(state, a)
    else:
        refuse_code(state, kind)


@jit
def receive(state, kind, a):
    """Handle one server message at the server."""
    s = state.scalars[0]
    if kind == codes.OP:
        _apply(state, a)
    elif kind == codes.COMPLETED:
        s.n_running -= 1
        _record_completion(state, a)
        add_event(state, codes.EVENT_COMPLETED, a)
    elif kind == codes.READY:
        s.ready = 1
        s.acknowledged = s.ended
    elif kind == codes.SUBMITTED:
        _receive_submitted(state, a)
    elif kind == codes.BYE:
        s.n_submitters_left -= 1
        if s.n_submitters_left == 0:
            add_event(state, codes.EVENT_NO_MORE_JOBS, 0)
    elif kind != codes.HELLO:
        _receive_requested(state, kind, a)


@jit
def _is_finished(state):
    s = state.scalars[0]
    return (
        s.n_submitters_left == 0
        and s.n_done == s.n_submitted
        and s.n_running == 0
        and s.n_timers == 0
        and s.n_killers == 0
        and s.n_switching == 0
    )


@jit
def send_if_due(state):
    """Tell the scheduler what has happened, if it listens and there is something to tell."""
    s = state.scalars[0]
    if s.ready == 0 or s.acknowledged == 1:
        return
    if s.n_events == 0:
        if s.ended == 1 or not _is_finished(state):
            return
        s.ended = 1
        add_event(state, codes.EVENT_ENDS, 0)
    s.ready = 0
    s.message_ready = 1
