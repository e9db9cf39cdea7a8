"""What the server does with the letters that it receives, and when it tells the scheduler."""

from __future__ import annotations

from hdrl.compiled import heap
from hdrl.compiled.jit import jit
from hdrl.settings.batch.kernel import codes, jobs, switches
from hdrl.settings.batch.kernel.energy import look_at_hosts
from hdrl.settings.batch.kernel.mail import tell
from hdrl.settings.batch.kernel.refusal import refuse, refuse_code
from hdrl.settings.batch.kernel.senders import finish, reply_slot

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
    """Do what one op of the scheduler's answer asks for."""
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
        tell(state, codes.TOLD_ENERGY, 0)
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
            tell(state, codes.TOLD_COMPLETED, job)
    tell(state, codes.TOLD_KILLED, index)
    s.n_killers -= 1


@jit
def _receive_submitted(state, submitter):
    s = state.scalars[0]
    row = state.submitters[submitter]
    for i in range(row.batch, row.next):
        job = state.order[i]
        state.jobs[job].state = codes.WAITING
        s.n_submitted += 1
        tell(state, codes.TOLD_SUBMITTED, job)


@jit
def _receive_requested(state, kind, a):
    """Handle a letter of something that the scheduler has asked for and that takes time."""
    if kind == codes.CALLED:
        state.scalars[0].n_timers -= 1
        tell(state, codes.TOLD_CALLED, 0)
    elif kind == codes.KILLED:
        _receive_killed(state, a)
    elif kind == codes.SWITCHED:
        switches.receive_switched(state, a)
    else:
        refuse_code(state, kind)


@jit
def receive(state, kind, a):
    """Handle one letter at the server."""
    s = state.scalars[0]
    if kind == codes.OP:
        _apply(state, a)
    elif kind == codes.COMPLETED:
        s.n_running -= 1
        _record_completion(state, a)
        tell(state, codes.TOLD_COMPLETED, a)
    elif kind == codes.READY:
        s.ready = 1
        s.acknowledged = s.ended
    elif kind == codes.SUBMITTED:
        _receive_submitted(state, a)
    elif kind == codes.BYE:
        s.n_submitters_left -= 1
        if s.n_submitters_left == 0:
            tell(state, codes.TOLD_NO_MORE_JOBS, 0)
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
        tell(state, codes.TOLD_ENDS, 0)
    s.ready = 0
    s.message_ready = 1
