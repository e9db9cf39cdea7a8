"""Batsim's event loop: a clock, one mailbox, and a scheduler that receives what has happened.

Everything that needs the server (a submission, the end of a job, a timer, each request of the scheduler) sends it a
*server message*. It receives these one at a time, first come first served, and each takes the time of one byte on the
network (1e-10 s from the master host, more from a compute host). When the scheduler is not busy and no further server
message waits, it receives all events since its last message, as one message. The server applies its answer request by
request, each a server message again, and sleeps until dates in the future. This decides what a scheduler sees as
simultaneous, and in which order.

An engine step advances the clock to the next end of a transfer, a sleep or a computation. Sleeps that end within
1e-9 s of it end with it, as in SimGrid; what ends together is handled in the order of its making.

There are two times. The *clock* is a date, a double to which each step adds its length: above some 1e6 s the 1e-10 s of
a server message do not advance it any more. The *engine's time*, in which ends are kept, is counted from a recent
moment, so that server messages take their time on any date; SimGrid counts down what is left of each action instead.
"""

from __future__ import annotations

import math

import numpy as np

from hdrl.compiled import heap
from hdrl.compiled.jit import jit
from hdrl.compiled.rounding import round6
from hdrl.settings.batch.kernel import codes, jobs, switches
from hdrl.settings.batch.kernel.codes import refuse_code
from hdrl.settings.batch.kernel.messages import add_event, send
from hdrl.settings.batch.kernel.server import (
    WITH_ANSWER,
    finish,
    pass_first_sleeps,
    rank_of_ends,
    receive,
    reply_slot,
    send_if_due,
    send_late,
    send_reply,
    sender_continues,
    submit,
)

SLEEP_PRECISION_S = 1e-9
WORK_PRECISION = 1e-14
REBASE_S = 4096.0


@jit
def begin(state):
    """Start the simulation: the submitters say hello, and the scheduler gets the event that it begins."""
    s = state.scalars[0]
    for submitter in range(len(state.submitters)):
        send(state, codes.HELLO, submitter, 0, s.loopback_s)
    add_event(state, codes.EVENT_BEGINS, 0)
    s.message_ready = 1
    if s.predictor not in codes.PREDICTORS:
        refuse_code(state, s.predictor)
    elif s.node_rule not in codes.NODE_RULES:
        refuse_code(state, s.node_rule)
    elif s.index_form not in codes.INDEX_FORMS:
        refuse_code(state, s.index_form)


@jit
def _deliver(state, box_was_empty):
    s = state.scalars[0]
    message = state.box[s.box_head]
    kind, a = message.kind, message.a
    s.box_head = (s.box_head + 1) % len(state.box)
    s.transferring = 0
    s.transfer_end_s = np.inf
    receive(state, kind, a)
    if box_was_empty:
        send_if_due(state)
    sender_continues(state, kind, a)
    if kind == codes.OP and state.ops[a].kind == codes.KILL and state.ops[a].n > 0:
        # The killer is an actor of its own: the rest of the answer goes on before it begins.
        send(state, codes.KILLED, a, 0, s.loopback_s)


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
    """Insert an ended activity into the list of this step, ordered by serial number."""
    position = n
    while position > 0 and state.finished[position - 1].seq > seq:
        state.finished[position].seq = state.finished[position - 1].seq
        state.finished[position].kind = state.finished[position - 1].kind
        state.finished[position].subject = state.finished[position - 1].subject
        position -= 1
    row = state.finished[position]
    row.seq = seq
    row.kind = kind
    row.subject = subject
    return n + 1


@jit
def _collect_finished(state):
    """Take all activities that end now out of the heaps; return their number."""
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
        slot = state.tasks[0].heap
        late_s = state.tasks[slot].key - s.engine_s
        if late_s > 0.0 and late_s * _rate_of(state, slot) >= WORK_PRECISION:
            break
        s.n_tasks = heap.remove(state.tasks, s.n_tasks, slot)
        n = _collect(state, n, state.tasks[slot].seq, codes.END_TASK, slot)
    return n


@jit
def _rate_of(state, slot):
    """Return at which rate a computation, or a switch, proceeds, in parts of the whole per second."""
    if slot < len(state.jobs):
        return state.jobs[slot].rate
    return switches.rate_of(state, slot - len(state.jobs))


@jit
def _end_task(state, slot):
    """Go on after a computation, or a switch."""
    if slot >= len(state.jobs):
        switches.arrive(state, slot - len(state.jobs))
    elif state.jobs[slot].state == codes.RUNNING and jobs.after_computation(state, slot):
        finish(state, slot)


@jit
def _wake_sleeper(state, slot, seq):
    s = state.scalars[0]
    n_jobs = len(state.jobs)
    if slot < n_jobs:
        # A walltime that ends together with its computation comes too late: the slot has moved on.
        current = state.jobs[slot].state == codes.RUNNING and state.sleeps[slot].seq == seq
        if current and jobs.after_sleep(state, slot):
            finish(state, slot)
    elif slot < reply_slot(state):
        submit(state, slot - n_jobs, 1)
    elif slot == reply_slot(state):
        send_reply(state)
    else:
        send(state, codes.CALLED, 0, 0, s.loopback_s)


@jit
def _rebase(state):
    """Count the engine's time from now on: take whole seconds off it and off the dates of all ends."""
    s = state.scalars[0]
    past_s = math.floor(s.engine_s)
    s.engine_s -= past_s
    s.transfer_end_s -= past_s
    for position in range(s.n_sleeps):
        state.sleeps[state.sleeps[position].heap].key -= past_s
    for position in range(s.n_tasks):
        state.tasks[state.tasks[position].heap].key -= past_s


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
    send_late(state, s.n_late)
    _start_transfer(state)
    date_s = _next_date(state)
    if date_s == np.inf:
        return False
    if date_s > s.engine_s:
        delta_s = date_s - s.engine_s
        if s.n_first_sleeps > 0:
            delta_s = pass_first_sleeps(state, date_s, delta_s)
        s.now += delta_s
        s.engine_s = date_s
        if date_s > REBASE_S:
            _rebase(state)
    s.n_engine_steps += 1
    box_was_empty = s.box_len == 0
    n = _collect_finished(state)
    s.end_rank = rank_of_ends(state, n)
    n_before_answer = 0
    for i in range(n):
        kind, subject, seq = state.finished[i].kind, state.finished[i].subject, state.finished[i].seq
        if kind == codes.END_TRANSFER:
            n_before_answer = s.n_late
            _deliver(state, box_was_empty)
        elif kind == codes.END_SLEEP:
            _wake_sleeper(state, subject, seq)
        else:
            _end_task(state, subject)
    if s.end_rank == WITH_ANSWER:
        send_late(state, n_before_answer)
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
    """Simulate until the scheduler must decide.

    Parameters
    ----------
    budget
        Engine steps after which to return in any case, so that the caller may show progress.

    Returns
    -------
    int
        ``MESSAGE`` (``events[:n_events]`` are its events, ``message_s`` the date as it is printed),
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
