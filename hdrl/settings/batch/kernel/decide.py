"""The decision system: what happens between a message and its answer.

`take_events` takes in the events of a message; then jobs are started (`start_job`, or `schedule_pair` for a policy
pair); `answer` adds the P-state requests that follow and sends the answer. `run_pair` does all this until the end in
one call.
"""

from __future__ import annotations

from hdrl.compiled.jit import jit
from hdrl.settings.batch.kernel import codes, engine, messages, server
from hdrl.settings.batch.kernel.backfill import (
    choose_overtaking,
    gather_candidates,
    is_held,
    note_failure,
    remove_expected_end,
    reserve,
    start_job,
)
from hdrl.settings.batch.kernel.cluster import add_pstate_ops, lock, release, sort_cores, unlock
from hdrl.settings.batch.kernel.codes import refuse_code
from hdrl.settings.batch.kernel.groups import share_without_room
from hdrl.settings.batch.kernel.keys import backlog_of, weigh
from hdrl.settings.batch.kernel.node_rules import manage_nodes
from hdrl.settings.batch.kernel.onoff import note_call, note_switched
from hdrl.settings.batch.kernel.selection import CHOSEN, choose_cores
from hdrl.settings.batch.kernel.waiting import enqueue, find, peek, sort_by_priority
from hdrl.settings.batch.workload.history import ALL_LEVEL


@jit
def take_events(state):
    """Take in the events of a message and begin its answer.

    Returns whether a decision is due: jobs came or ended, or nodes were booted, since the last one, and jobs wait (or
    nodes are decided on without them, too).
    """
    s = state.scalars[0]
    messages.begin_answer(state)
    for i in range(s.n_events):
        event = state.events[i]
        if event.kind == codes.EVENT_SUBMITTED:
            enqueue(state, event.subject)
            s.news = codes.NEWS_OF_JOBS
        elif event.kind == codes.EVENT_COMPLETED:
            release(state, event.subject)
            remove_expected_end(state, event.subject)
            s.news = codes.NEWS_OF_JOBS
        elif event.kind == codes.EVENT_NO_MORE_JOBS:
            s.no_more_jobs = 1
        elif event.kind == codes.EVENT_NODE:
            note_switched(state, event.subject)
        elif event.kind == codes.EVENT_CALLED:
            note_call(state)
        elif event.kind not in codes.EVENTS:
            refuse_code(state, event.kind)
    return s.news != codes.NO_NEWS and (s.n_queue > 0 or s.decides_idle == 1)


@jit
def answer(state):
    """Add the requests for nodes and P-states, and let the answer take effect."""
    manage_nodes(state)
    add_pstate_ops(state)
    server.reply(state)


@jit
def hand_out(state):
    """Add the P-state requests to the answer and book it as carried out, for a simulator outside the kernel.

    ``ops[:n_ops]`` are the requests to that simulator.
    """
    s = state.scalars[0]
    manage_nodes(state)
    add_pstate_ops(state)
    for i in range(s.n_ops):
        op = state.ops[i]
        if op.kind == codes.EXECUTE:
            _book_start(state, op)
        elif op.kind == codes.REJECT:
            state.jobs[op.subject].state = codes.REJECTED
        elif op.kind == codes.SET_PSTATE:
            for k in range(op.first, op.first + op.n):
                state.pstates[state.pool[k]] = op.subject
    s.n_events = 0


@jit
def _book_start(state, op):
    s = state.scalars[0]
    row = state.jobs[op.subject]
    row.state = codes.RUNNING
    row.start_s = s.message_s
    row.first_core = s.n_allocated
    row.n_cores = op.n
    for k in range(op.n):
        state.allocated[s.n_allocated + k] = state.pool[op.first + k]
    s.n_allocated += op.n


@jit
def lock_cores(state, job, first, n):
    """Lock the cores ``pool[first:first + n]`` for a job, or nothing; return an error code and the core in question."""
    s = state.scalars[0]
    row = state.jobs[job]
    for i in range(first, first + n):
        core = state.pool[i]
        bad = 0
        if core < 0 or core >= len(state.cores):
            bad = codes.ERROR_UNKNOWN_CORE
        elif state.cores[core].owner == job:
            bad = codes.ERROR_DUPLICATE_CORE
        elif state.cores[core].owner != -1:
            bad = codes.ERROR_CORE_BUSY
        elif state.free_memory_mib[state.processors[state.processor_of[core]].node] < row.memory_mib:
            bad = codes.ERROR_MEMORY
        if bad != 0:
            for k in range(first, i):
                unlock(state, state.pool[k], job)
            return bad, core
        lock(state, core, job)
    sort_cores(state, first, n)
    s.n_pool = first + n
    return 0, -1


@jit
def _start_at(state, position, core_key):
    """Start the job at a position of the queue if it fits; return whether it did."""
    s = state.scalars[0]
    first = s.n_pool
    job = state.queue[position]
    outcome = choose_cores(state, job, core_key)
    if outcome != CHOSEN:
        note_failure(state, outcome)
        return False
    start_job(state, job, position, first, s.n_pool - first)
    return True


@jit
def schedule_pair(state, job_key, core_key):
    """Start jobs in the order of a job key on cores by a core key until the next one does not fit."""
    s = state.scalars[0]
    s.n_decisions += 1
    s.news = codes.NO_NEWS
    s.blocked_job = -1
    while s.n_queue > 0:
        position = peek(state, job_key)
        job = state.queue[position]
        if not _start_at(state, position, core_key):
            s.blocked_job = job
            break


@jit
def _weigh_all(state):
    """Work out the index of all waiting jobs, and which of them the gate may hold."""
    s, work_s = state.scalars[0], 0.0
    if s.n_queue == 0:
        return
    for i in range(s.n_queue):
        job = state.queue[i]
        work_s += state.predictions[job].length_s * state.jobs[job].n_requested
    backlog = backlog_of(work_s, len(state.cores))
    without_room = share_without_room(state.sums[state.job_groups[state.queue[0], ALL_LEVEL]])
    for i in range(s.n_queue):
        weigh(state, state.queue[i], backlog, without_room)


@jit
def _first_open(state, position):
    """Return the first position from one on whose job no gate holds, and what is beyond the last if none."""
    while position < state.scalars[0].n_queue and is_held(state, state.queue[position]):
        position += 1
    return position


@jit
def schedule_easy(state, job_key, core_key, order):
    """Start jobs in the order of a job key; then let others overtake the first that does not fit (EASY)."""
    s = state.scalars[0]
    s.n_decisions += 1
    s.news = codes.NO_NEWS
    s.blocked_job = -1
    if len(state.weights) > 0:
        _weigh_all(state)
    sort_by_priority(state, job_key)
    head = _first_open(state, 0)
    while head < s.n_queue and _start_at(state, head, core_key):
        head = _first_open(state, head)  # jobs held before are still held: there are fewer free cores now
    if head < s.n_queue:
        s.blocked_job = state.queue[head]
    if head + 1 >= s.n_queue or s.n_free_cores == 0:
        return
    head_job = state.queue[head]
    shadow_s, room = reserve(state, head_job)
    for i in range(gather_candidates(state, order, head)):
        job = state.candidates[i]
        if state.jobs[job].n_requested > s.n_free_cores or is_held(state, job):
            continue
        first = s.n_pool
        allowed, room = choose_overtaking(state, job, core_key, head_job, shadow_s, room)
        if allowed:
            start_job(state, job, find(state, job), first, s.n_pool - first)


@jit
def schedule(state, job_key, core_key, backfilling):
    """Start jobs as a compiled policy does, except under conservative backfilling: `kernel.conservative`.

    Of a number that is in no table nothing comes but the error: the next engine step ends with ``ILLEGAL``.
    """
    is_index = job_key == codes.JOB_INDEX
    if job_key not in codes.JOB_KEYS or (is_index and (len(state.weights) == 0 or backfilling not in codes.EASY)):
        refuse_code(state, job_key)
    elif core_key not in codes.CORE_KEYS:
        refuse_code(state, core_key)
    elif backfilling == codes.NO_BACKFILLING:
        schedule_pair(state, job_key, core_key)
    elif backfilling in codes.EASY:
        schedule_easy(state, job_key, core_key, backfilling)
    else:
        refuse_code(state, backfilling)


@jit
def _decision_log_is_full(state):
    s = state.scalars[0]
    if s.logging == 0:
        return False
    n_spans = s.n_spans + len(state.processors)
    return (
        s.n_core_fails + 2 > len(state.core_fails)
        or s.n_memory_fails + 2 > len(state.memory_fails)
        or n_spans > len(state.spans)
    )


@jit
def to_decision(state, last, budget):
    """Simulate, answering what calls for no decision, until one is due.

    Parameters
    ----------
    last
        Number of the engine step at which to return ``PAUSED``.
    budget
        Engine steps between two messages after which to return ``PAUSED``.

    Returns
    -------
    int
        ``MESSAGE`` (decide and `answer`), ``ENDED``, ``STUCK``, ``GROW`` (logs are nearly full), ``PAUSED`` or
        ``ILLEGAL``.
    """
    s = state.scalars[0]
    while s.n_engine_steps < last:
        if _decision_log_is_full(state):
            return codes.GROW
        status = engine.advance(state, budget)
        if status != codes.MESSAGE:
            return status
        if take_events(state):
            return codes.MESSAGE
        answer(state)
    return codes.PAUSED


@jit
def run_pair(state, job_key, core_key, backfilling, budget):
    """Simulate under a job key, a core key and a kind of backfilling.

    Parameters
    ----------
    budget
        Engine steps after which to return ``PAUSED``.

    Returns
    -------
    int
        ``ENDED``, ``STUCK``, ``GROW`` (logs are nearly full), ``PAUSED`` or ``ILLEGAL``.
    """
    last = state.scalars[0].n_engine_steps + budget
    status = to_decision(state, last, budget)
    while status == codes.MESSAGE:
        schedule(state, job_key, core_key, backfilling)
        answer(state)
        status = to_decision(state, last, budget)
    return status
