"""Batsim's event loop: a clock, one mailbox, and a scheduler that is told what happened.

Everything that wants the server's attention (a submission, the end of a job, a timer, each request of the scheduler)
is a *letter*. The server receives letters one at a time, first come first served, and each takes the time of one byte
on the network (1e-10 s from the master host, more from a compute host). When the scheduler is not busy and no further
letter waits, it is told all that has happened since it was told last, as one message. Its answer is applied request
by request, each a letter again; a date in the future is slept until. This decides what a scheduler sees as
simultaneous, and in which order.

An engine step advances the clock to the next end of a transfer, a sleep or a computation. Sleeps that end within
1e-9 s of it end with it, as in SimGrid; what ends together is handled in the order of its making.

There are two times. The *clock* is a date, a double to which each step adds its length: above some 1e6 s a letter's
1e-10 s do not advance it any more. The *engine's time*, in which ends are kept, is counted from a recent moment,
so that letters take their time on any date; SimGrid counts down what is left of each action instead.
"""

from __future__ import annotations

import math

import numpy as np

from hdrl.compiled import heap
from hdrl.compiled.jit import jit
from hdrl.compiled.prefetch import fetch
from hdrl.kernel import codes, jobs
from hdrl.kernel.energy import first_reading, log_energy, look_at_hosts
from hdrl.kernel.refusal import refuse, refuse_code
from hdrl.kernel.rounding import round6

SLEEP_PRECISION_S = 1e-9
WORK_PRECISION = 1e-14
SHORTEST_CALL_S = 1e-5
REBASE_S = 4096.0

# When jobs that end send their last letter: at once, in the round in which the scheduler's answer begins, or after all.
_AT_ONCE, _WITH_ANSWER, _LAST = 0, 1, 2

_P = ord("p")
_REQUEST_TO_COMPUTE = -1

# What a submitter does when its letter has been delivered, or when it wakes.
_PHASE_SUBMIT, _PHASE_SLEEP, _PHASE_BYE, _PHASE_GONE = 0, 1, 2, 3


@jit
def _submitter_slot(state, submitter):
    return len(state.jobs) + submitter


@jit
def _reply_slot(state):
    return len(state.jobs) + len(state.submitters)


@jit
def post(state, kind, a, b, transfer_s):
    """Queue a letter to the server."""
    s = state.scalars[0]
    # The letter in transfer stays at the head until it is delivered; `box_len` counts those behind it.
    letter = state.box[(s.box_head + s.transferring + s.box_len) % len(state.box)]
    letter.kind = kind
    letter.a = a
    letter.b = b
    letter.transfer_s = transfer_s
    s.box_len += 1


@jit
def _tell(state, kind, subject):
    s = state.scalars[0]
    event = state.events[s.n_events]
    event.kind = kind
    event.subject = subject
    event.time_s = s.now
    s.n_events += 1


@jit
def begin(state):
    """Start the simulation: the submitters say hello and the scheduler is told that it begins."""
    s = state.scalars[0]
    for submitter in range(len(state.submitters)):
        post(state, codes.HELLO, submitter, 0, s.loopback_s)
    _tell(state, codes.TOLD_BEGINS, 0)
    s.message_ready = 1


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
        slot = _reply_slot(state)
        s.n_sleeps = heap.push(state.sleeps, s.n_sleeps, slot, s.engine_s + (until_s - s.now), jobs.next_seq(state))
        return
    _post_reply(state)


@jit
def _post_reply(state):
    s = state.scalars[0]
    if s.next_op < s.n_ops:
        post(state, codes.OP, s.next_op, 0, s.loopback_s)
    else:
        post(state, codes.READY, 0, 0, s.loopback_s)


@jit
def _submit(state, submitter, woke):
    """Let a submitter send all jobs that are due as one letter, or sleep until the next is due, or say goodbye."""
    s = state.scalars[0]
    row = state.submitters[submitter]
    row.batch = row.next
    if woke == 1:
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


@jit
def _fetch_job(state, job):
    """Begin to fetch what will be needed when a job that nobody has looked at yet is submitted and started."""
    fetch(state.jobs, job)
    fetch(state.sleeps, job)
    fetch(state.tasks, job)


@jit
def _sleep_or_leave(state, submitter):
    s = state.scalars[0]
    row = state.submitters[submitter]
    if row.next < row.end:
        row.phase = _PHASE_SLEEP
        job = state.order[row.next]
        _fetch_job(state, job)
        # Counted from when it last woke: a submission is late by one transfer, without accumulation.
        until_s = s.engine_s + (state.jobs[job].submit_s - row.woke_s)
        slot = _submitter_slot(state, submitter)
        s.n_sleeps = heap.push(state.sleeps, s.n_sleeps, slot, until_s, jobs.next_seq(state))
        return
    row.phase = _PHASE_BYE
    post(state, codes.BYE, submitter, 0, s.loopback_s)


@jit
def _sender_continues(state, kind, subject):
    """Let the sender of a letter that has been delivered go on."""
    s = state.scalars[0]
    if kind == codes.HELLO:
        state.submitters[subject].woke_s = s.now
        _submit(state, subject, 0)
    elif kind == codes.SUBMITTED:
        _sleep_or_leave(state, subject)
    elif kind == codes.BYE:
        state.submitters[subject].phase = _PHASE_GONE
    elif kind == codes.OP:
        s.next_op += 1
        _continue_reply(state)


@jit
def _finish(state, job):
    """End a job that is over and send its last letter on its way."""
    s = state.scalars[0]
    jobs.end(state, job)
    if s.end_rank != _AT_ONCE:
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
def _post_late(state, n):
    """Post the first ``n`` letters that had to wait."""
    s = state.scalars[0]
    for i in range(n):
        _post_completed(state, state.late[i])
    s.n_late -= n
    for i in range(s.n_late):
        state.late[i] = state.late[i + n]


@jit
def _rank_of_ends(state, n):
    """Tell when the jobs that end in this step, with ``n`` ends of anything, send their last letters.

    With energy, each reads the energy of all hosts first, and lets the others go on a round for each host whose
    energy is out of date. Up to date are hosts on which something ends right now.
    """
    s = state.scalars[0]
    if s.energy == 0 or s.swept_s == s.now:
        return _AT_ONCE
    n_stale = len(state.cores)
    for i in range(n):
        kind, subject = state.finished[i].kind, state.finished[i].subject
        if kind == codes.END_TASK:
            n_stale -= state.jobs[subject].n_cores
        elif kind == codes.END_TRANSFER:
            n_stale -= 1 if state.box[s.box_head].kind == codes.COMPLETED else 0
        elif subject < len(state.jobs):
            with_its_task = state.jobs[subject].sleep_kind == codes.SLEEP_TIMER and state.tasks[subject].position < 0
            n_stale -= 0 if with_its_task else 1
    return min(max(n_stale, _AT_ONCE), _LAST)


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
        _finish(state, job)


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
    """Kill the jobs ``pool[first:first + n]``; those asked for before are left out."""
    s = state.scalars[0]
    n = 0
    for i in range(op.first, op.first + op.n):
        job = state.pool[i]
        row = state.jobs[job]
        if row.kill_asked == 1:
            continue
        if row.state in (codes.NOT_SUBMITTED, codes.WAITING, codes.REJECTED):
            refuse(state, codes.ERROR_KILL_UNKNOWN, job, -1)
            return
        row.kill_asked = 1
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
    slot = _reply_slot(state) + 1
    while slot < len(state.sleeps) and state.sleeps[slot].position >= 0:
        slot += 1
    if slot == len(state.sleeps):
        refuse(state, codes.ERROR_TOO_MANY_TIMERS, -1, -1)
        return
    s.n_timers += 1
    until_s = s.engine_s + max(wait_s, SHORTEST_CALL_S)
    s.n_sleeps = heap.push(state.sleeps, s.n_sleeps, slot, until_s, jobs.next_seq(state))


@jit
def _log_pstate(state, op, pstate, again):
    """Append a line to the P-state log; the cores are those of the line before if ``again``."""
    s = state.scalars[0]
    if s.logging == 0:
        return
    row = state.pstate_log[s.n_pstate_log]
    row.time_s = s.now
    row.n_cores = op.n
    row.pstate = pstate
    if again == 1:
        row.first_core = state.pstate_log[s.n_pstate_log - 1].first_core
    else:
        row.first_core = s.n_pstate_cores
        for i in range(op.n):
            state.pstate_cores[s.n_pstate_cores + i] = state.pool[op.first + i]
        s.n_pstate_cores += op.n
    s.n_pstate_log += 1


@jit
def _set_pstate(state, op):
    s = state.scalars[0]
    s.n_grouped_switches += 1
    s.n_machine_switches += op.n
    if s.energy == 1:
        log_energy(state, _P)
        _log_pstate(state, op, _REQUEST_TO_COMPUTE, 0)
    jobs.set_pstates(state, op.first, op.n, op.subject)
    if s.energy == 1:
        _log_pstate(state, op, op.subject, 1)
        log_energy(state, _P)
    _tell(state, codes.TOLD_PSTATE, op.subject)
    jobs.log_machines(state)


@jit
def _apply(state, index):
    """Do what one op of the scheduler's answer asks for."""
    op = state.ops[index]
    if op.kind == codes.EXECUTE:
        _execute(state, op)
    elif op.kind == codes.SET_PSTATE:
        _set_pstate(state, op)
    elif op.kind == codes.REJECT:
        _reject(state, op)
    elif op.kind == codes.KILL:
        _kill(state, op)
    elif op.kind == codes.CALL:
        _call_later(state, op)
    elif op.kind == codes.ASK_ENERGY:
        if state.scalars[0].energy == 1:
            look_at_hosts(state)
        _tell(state, codes.TOLD_ENERGY, 0)
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
            _tell(state, codes.TOLD_COMPLETED, job)
    _tell(state, codes.TOLD_KILLED, index)
    s.n_killers -= 1


@jit
def _receive_submitted(state, submitter):
    s = state.scalars[0]
    row = state.submitters[submitter]
    for i in range(row.batch, row.next):
        job = state.order[i]
        state.jobs[job].state = codes.WAITING
        s.n_submitted += 1
        _tell(state, codes.TOLD_SUBMITTED, job)


@jit
def _receive(state, kind, a):
    """Handle one letter at the server."""
    s = state.scalars[0]
    if kind == codes.OP:
        _apply(state, a)
    elif kind == codes.COMPLETED:
        s.n_running -= 1
        _record_completion(state, a)
        _tell(state, codes.TOLD_COMPLETED, a)
    elif kind == codes.READY:
        s.ready = 1
        s.acknowledged = s.ended
    elif kind == codes.SUBMITTED:
        _receive_submitted(state, a)
    elif kind == codes.BYE:
        s.n_submitters_left -= 1
        if s.n_submitters_left == 0:
            _tell(state, codes.TOLD_NO_MORE_JOBS, 0)
    elif kind == codes.CALLED:
        s.n_timers -= 1
        _tell(state, codes.TOLD_CALLED, 0)
    elif kind == codes.KILLED:
        _receive_killed(state, a)
    elif kind != codes.HELLO:
        refuse_code(state, kind)


@jit
def _is_finished(state):
    s = state.scalars[0]
    return (
        s.n_submitters_left == 0
        and s.n_done == s.n_submitted
        and s.n_running == 0
        and s.n_timers == 0
        and s.n_killers == 0
    )


@jit
def _send_if_due(state):
    """Tell the scheduler what has happened, if it listens and there is something to tell."""
    s = state.scalars[0]
    if s.ready == 0 or s.acknowledged == 1:
        return
    if s.n_events == 0:
        if s.ended == 1 or not _is_finished(state):
            return
        s.ended = 1
        _tell(state, codes.TOLD_ENDS, 0)
    s.ready = 0
    s.message_ready = 1


@jit
def _deliver(state, box_was_empty):
    s = state.scalars[0]
    letter = state.box[s.box_head]
    kind, a = letter.kind, letter.a
    s.box_head = (s.box_head + 1) % len(state.box)
    s.transferring = 0
    s.transfer_end_s = np.inf
    _receive(state, kind, a)
    if box_was_empty:
        _send_if_due(state)
    _sender_continues(state, kind, a)
    if kind == codes.OP and state.ops[a].kind == codes.KILL and state.ops[a].n > 0:
        # The killer is an actor of its own: the rest of the answer goes on before it begins.
        post(state, codes.KILLED, a, 0, s.loopback_s)


@jit
def _start_transfer(state):
    s = state.scalars[0]
    if s.transferring == 1 or s.box_len == 0:
        return
    s.transferring = 1
    s.box_len -= 1
    s.transfer_end_s = s.engine_s + state.box[s.box_head].transfer_s
    s.transfer_seq = jobs.next_seq(state)


@jit
def _collect(state, n, seq, kind, subject):
    """Insert what ended into the list of this step, ordered by serial number."""
    place = n
    while place > 0 and state.finished[place - 1].seq > seq:
        state.finished[place].seq = state.finished[place - 1].seq
        state.finished[place].kind = state.finished[place - 1].kind
        state.finished[place].subject = state.finished[place - 1].subject
        place -= 1
    row = state.finished[place]
    row.seq = seq
    row.kind = kind
    row.subject = subject
    return n + 1


@jit
def _collect_finished(state):
    """Take all that ends now out of the heaps; return how many."""
    s = state.scalars[0]
    n = 0
    if s.transfer_end_s <= s.engine_s:
        n = _collect(state, n, s.transfer_seq, codes.END_TRANSFER, 0)
    while s.n_sleeps > 0:
        slot = state.sleeps[0].heap
        if state.sleeps[slot].key - s.engine_s >= SLEEP_PRECISION_S:
            break
        s.n_sleeps = heap.remove(state.sleeps, s.n_sleeps, slot)
        n = _collect(state, n, state.sleeps[slot].seq, codes.END_SLEEP, slot)
    while s.n_tasks > 0:
        job = state.tasks[0].heap
        late_s = state.tasks[job].key - s.engine_s
        if late_s > 0.0 and late_s * state.jobs[job].rate >= WORK_PRECISION:
            break
        s.n_tasks = heap.remove(state.tasks, s.n_tasks, job)
        n = _collect(state, n, state.tasks[job].seq, codes.END_TASK, job)
    return n


@jit
def _wake_sleeper(state, slot, seq):
    s = state.scalars[0]
    n_jobs = len(state.jobs)
    if slot < n_jobs:
        # A walltime that ends together with its computation comes too late: the slot has moved on.
        current = state.jobs[slot].state == codes.RUNNING and state.sleeps[slot].seq == seq
        if current and jobs.after_sleep(state, slot):
            _finish(state, slot)
    elif slot < _reply_slot(state):
        _submit(state, slot - n_jobs, 1)
    elif slot == _reply_slot(state):
        _post_reply(state)
    else:
        post(state, codes.CALLED, 0, 0, s.loopback_s)


@jit
def _rebase(state):
    """Count the engine's time from now on: take whole seconds off it and off the dates of all ends."""
    s = state.scalars[0]
    past_s = math.floor(s.engine_s)
    s.engine_s -= past_s
    s.transfer_end_s -= past_s
    for place in range(s.n_sleeps):
        state.sleeps[state.sleeps[place].heap].key -= past_s
    for place in range(s.n_tasks):
        state.tasks[state.tasks[place].heap].key -= past_s


@jit
def _next_date(state):
    s = state.scalars[0]
    date_s = s.transfer_end_s
    if s.n_sleeps > 0:
        date_s = min(date_s, state.sleeps[state.sleeps[0].heap].key)
    if s.n_tasks > 0:
        date_s = min(date_s, state.tasks[state.tasks[0].heap].key)
    return date_s


@jit
def _step(state):
    """Advance to the next date at which something ends; return whether there is one."""
    s = state.scalars[0]
    _post_late(state, s.n_late)
    _start_transfer(state)
    date_s = _next_date(state)
    if date_s == np.inf:
        return False
    if date_s > s.engine_s:
        s.now += date_s - s.engine_s
        s.engine_s = date_s
        if date_s > REBASE_S:
            _rebase(state)
    s.n_engine_steps += 1
    box_was_empty = s.box_len == 0
    n = _collect_finished(state)
    s.end_rank = _rank_of_ends(state, n)
    n_before_answer = 0
    for i in range(n):
        kind, subject, seq = state.finished[i].kind, state.finished[i].subject, state.finished[i].seq
        if kind == codes.END_TRANSFER:
            n_before_answer = s.n_late
            _deliver(state, box_was_empty)
        elif kind == codes.END_SLEEP:
            _wake_sleeper(state, subject, seq)
        elif state.jobs[subject].state == codes.RUNNING and jobs.after_computation(state, subject):
            _finish(state, subject)
    if s.end_rank == _WITH_ANSWER:
        _post_late(state, n_before_answer)
    return True


@jit
def _log_is_full(state):
    s = state.scalars[0]
    if s.logging == 0:
        return False
    n_lines = s.n_running + 16
    full = s.n_machine_log + n_lines > len(state.machine_log)
    if s.energy == 1:
        full = full or s.n_energy_log + n_lines > len(state.energy_log)
        full = full or s.n_pstate_log + 16 > len(state.pstate_log)
        full = full or s.n_pstate_cores + len(state.cores) > len(state.pstate_cores)
    return full


@jit
def advance(state, budget):
    """Simulate until the scheduler is to be asked.

    Parameters
    ----------
    state
        The arrays of one environment.
    budget
        Engine steps after which to return in any case, so that the caller may show progress.

    Returns
    -------
    int
        ``MESSAGE`` (``events[:n_events]`` is what it is told, ``message_s`` the date as it is printed),
        ``ENDED``, ``STUCK``, ``GROW``, ``PAUSED`` or ``ILLEGAL``.
    """
    s = state.scalars[0]
    for _ in range(budget):
        if s.message_ready == 1:
            s.message_ready = 0
            s.message_s = round6(s.now)
            return codes.MESSAGE
        if s.acknowledged == 1:
            return codes.ENDED
        if _log_is_full(state):
            return codes.GROW
        if not _step(state):
            return codes.STUCK
        if s.error != 0:
            return codes.ILLEGAL
    return codes.PAUSED


@jit
def begin_answer(state):
    """Begin an empty answer, dated with the message."""
    s = state.scalars[0]
    s.n_ops = 0
    s.n_pool = 0
    s.reply_now_s = s.message_s


@jit
def add_op(state, kind, subject, first, n, value):
    """Append a request to the answer, dated with the message."""
    s = state.scalars[0]
    op = state.ops[s.n_ops]
    op.kind = kind
    op.time_s = s.message_s
    op.subject = subject
    op.first = first
    op.n = n
    op.value = value
    s.n_ops += 1
