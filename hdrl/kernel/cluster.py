"""The heterogeneity layer: who holds which core, memory, bandwidth, and the P-states that follow from it.

This is the decision system's picture of the machine. It is changed by decisions (`lock`, `unlock`) and turned
into P-state requests by `add_pstate_ops`; the simulated hosts follow when the requests reach them. The same
functions serve when real Batsim simulates.
"""

from __future__ import annotations

import numpy as np

from hdrl.kernel import codes
from hdrl.kernel.engine import add_op
from hdrl.kernel.jit import jit
from hdrl.platform.pstates import CONTENDED, FIRST_EXTRA_LEVEL, FREE, IDLE, SERVING


@jit
def has_memory(state, processor, job):
    """Tell whether a core of this processor has the memory that a job asks for per core."""
    node = state.nodes[state.processors[processor].node]
    return node.free_memory_mib >= state.jobs[job].memory_mib


@jit
def n_free_cores(state, processor):
    """Return how many cores of a processor no job holds."""
    row = state.processors[processor]
    return row.end_core - row.first_core - row.n_busy


@jit
def _note_unseen(state, processor):
    """Note that what is free on a processor or its node has changed since an observation last showed it."""
    row = state.processors[processor]
    if row.unseen == 0:
        s = state.scalars[0]
        row.unseen = 1
        state.unseen[s.n_unseen] = processor
        s.n_unseen += 1


@jit
def lock(state, core, job):
    """Give a free core, its memory and its share of the bandwidth to a job."""
    s = state.scalars[0]
    state.cores[core].owner = job
    processor = state.processors[state.cores[core].processor]
    node = state.nodes[processor.node]
    processor.n_busy += 1
    processor.free_bandwidth_gbps -= state.jobs[job].bandwidth_gbps
    node.free_memory_mib -= state.jobs[job].memory_mib
    node.n_free_cores -= 1
    s.n_free_cores -= 1
    _note_unseen(state, state.cores[core].processor)


@jit
def unlock(state, core, job):
    """Take a core, its memory and its share of the bandwidth back from a job."""
    s = state.scalars[0]
    state.cores[core].owner = -1
    processor = state.processors[state.cores[core].processor]
    node = state.nodes[processor.node]
    processor.n_busy -= 1
    processor.free_bandwidth_gbps += state.jobs[job].bandwidth_gbps
    node.free_memory_mib += state.jobs[job].memory_mib
    node.n_free_cores += 1
    s.n_free_cores += 1
    if processor.n_busy == 0 and s.compatible == 0:
        # What repeated adding and taking away has left behind in the last bits ends here.
        processor.free_bandwidth_gbps = processor.bandwidth_gbps
    _note_unseen(state, state.cores[core].processor)


@jit
def contended_pstate(state, processor):
    """Return the P-state of the serving cores of a processor."""
    row = state.processors[processor]
    if row.free_bandwidth_gbps >= 0.0 or len(state.contention) == 0:
        return SERVING
    share = row.bandwidth_gbps / (row.bandwidth_gbps - row.free_bandwidth_gbps)
    level = 0
    while level < len(state.contention) - 1 and state.contention[level] > share:
        level += 1
    return CONTENDED if level == 0 else FIRST_EXTRA_LEVEL - 1 + level


@jit
def follow_progress(state, job):
    """Bring the decision system's picture of a running job's progress up to the date of the message.

    All cores of a job advance at the pace of the slowest one, at the speed that its P-state gives.
    """
    s = state.scalars[0]
    row = state.jobs[job]
    if row.n_cores > 0 and row.done_until_s < s.message_s:
        if row.pace_known == 0:
            row.pace_known = 1
            row.pace_flops = np.inf
            for i in range(row.first_core, row.first_core + row.n_cores):
                core = state.allocated[i]
                rung = state.rungs[state.hosts[core].first_rung + state.cores[core].wanted_pstate]
                row.pace_flops = min(row.pace_flops, rung.speed_flops)
        row.done_flop += row.pace_flops * (s.message_s - max(row.done_until_s, row.start_s))
    row.done_until_s = s.message_s


@jit
def remaining(state, job):
    """Return the part of the requested work that a running job has left per core, as the scheduler knows it, 0 to 1."""
    row = state.jobs[job]
    requested_flop = row.requested_time_s * state.scalars[0].reference_flops
    if requested_flop <= 0.0:
        return 0.0
    follow_progress(state, job)
    return min(1.0, max(0.0, 1.0 - row.done_flop / requested_flop))


@jit
def _note_dirty(state, processor):
    """Note that cores of a processor are to change their P-states."""
    row = state.processors[processor]
    if row.dirty == 0:
        s = state.scalars[0]
        row.dirty = 1
        state.dirty[s.n_dirty] = processor
        s.n_dirty += 1


@jit
def _follow_owner(state, core):
    """Follow the progress of the job that holds a core, a row of `State.cores`, before the core's P-state changes."""
    if core.owner >= 0:
        follow_progress(state, core.owner)
        state.jobs[core.owner].pace_known = 0


@jit
def _want(state, core, pstate):
    """Note that a core is to change its P-state, if that is news."""
    row = state.cores[core]
    if row.wanted_pstate != pstate:
        if state.scalars[0].follows_progress == 1:
            _follow_owner(state, row)
        row.wanted_pstate = pstate
        row.changed = 1
        _note_dirty(state, row.processor)


@jit
def _refresh_processor(state, processor):
    """Find out which P-states the use of a processor calls for, and give them to all its cores if they are others."""
    row = state.processors[processor]
    serving = contended_pstate(state, processor)
    unused = FREE if row.n_busy > 0 else IDLE
    if serving == row.serving_pstate and unused == row.unused_pstate:
        return
    row.serving_pstate, row.unused_pstate = serving, unused
    cores = state.cores
    if state.scalars[0].follows_progress == 1:
        for number in range(row.first_core, row.end_core):
            if cores[number].wanted_pstate != serving:
                _follow_owner(state, cores[number])
    # Without a branch in the loop, as which cores change cannot be foretold.
    for number in range(row.first_core, row.end_core):
        core = cores[number]
        pstate = unused if core.owner < 0 else serving
        core.changed |= core.wanted_pstate != pstate
        core.wanted_pstate = pstate
    _note_dirty(state, processor)


@jit
def _open_span(state, processor, now_s):
    s = state.scalars[0]
    row = state.overcommitments[processor]
    if row.open_span >= 0:
        return
    if s.compatible == 0 and row.last_span >= 0 and row.closed_s == now_s:
        # Released and over-committed again by one and the same answer: the span goes on.
        row.open_span = row.last_span
        state.spans[row.open_span].duration_s = -1.0
        return
    row.open_span = s.n_spans
    span = state.spans[s.n_spans]
    span.processor = processor
    span.start_s = now_s
    span.duration_s = -1.0
    s.n_spans += 1


@jit
def _close_span(state, processor, now_s):
    row = state.overcommitments[processor]
    if row.open_span < 0:
        return
    span = state.spans[row.open_span]
    span.duration_s = now_s - span.start_s
    row.last_span = row.open_span
    row.closed_s = now_s
    row.open_span = -1


@jit
def after_locking(state, first, n):
    """Refresh the processors of the cores ``pool[first:first + n]``, which have just been locked."""
    s = state.scalars[0]
    if s.layer == 0:
        return
    cores, processors, pool = state.cores, state.processors, state.pool
    for i in range(first, first + n):
        processors[cores[pool[i]].processor].touched = 1
    for i in range(first, first + n):
        processor = cores[pool[i]].processor
        row = processors[processor]
        if row.touched == 1:
            row.touched = 0
            _refresh_processor(state, processor)
            if s.logging == 1 and row.free_bandwidth_gbps < 0.0:
                _open_span(state, processor, s.message_s)
        _want(state, pool[i], row.serving_pstate)


@jit
def _is_relieved(state, processor, relieved_others):
    """Tell whether a span of over-commitment ends."""
    if state.processors[processor].free_bandwidth_gbps < 0.0:
        return False
    # HDeepRM notices it only if cores went back to full speed by it (be they the next to be freed).
    return state.scalars[0].compatible == 0 or relieved_others


@jit
def release(state, job):
    """Take all cores back from a job that has ended."""
    s = state.scalars[0]
    row = state.jobs[job]
    last = row.first_core + row.n_cores
    for i in range(row.first_core, last):
        core = state.allocated[i]
        if state.cores[core].owner != job:
            continue
        processor = state.processors[state.cores[core].processor]
        overcommitted = processor.free_bandwidth_gbps < 0.0
        unlock(state, core, job)
        relieved_others = overcommitted and processor.free_bandwidth_gbps >= 0.0 and processor.n_busy > 0
        processor.touched = max(processor.touched, 2 if relieved_others else 1)
    if s.layer == 0:
        return
    for i in range(row.first_core, last):
        core = state.allocated[i]
        number = state.cores[core].processor
        processor = state.processors[number]
        touched = processor.touched
        if touched > 0:
            processor.touched = 0
            _refresh_processor(state, number)
            if s.logging == 1 and _is_relieved(state, number, touched == 2):
                _close_span(state, number, s.message_s)
        if state.cores[core].owner < 0:
            _want(state, core, processor.unused_pstate)


@jit
def _sort_dirty(state):
    """Sort the few processors with changes by id (insertion sort)."""
    s = state.scalars[0]
    for i in range(1, s.n_dirty):
        processor = state.dirty[i]
        place = i
        while place > 0 and state.dirty[place - 1] > processor:
            state.dirty[place] = state.dirty[place - 1]
            place -= 1
        state.dirty[place] = processor


@jit
def _gather_changes(state):
    """Put the cores whose changes are due into the scratch, by id, and forget all changes.

    Returns
    -------
    tuple of int
        How many they are, and the P-states to which they are to change, as bits.
    """
    s = state.scalars[0]
    _sort_dirty(state)
    cores, hosts, scratch = state.cores, state.hosts, state.scratch
    n, bits = 0, 0
    for i in range(s.n_dirty):
        row = state.processors[state.dirty[i]]
        row.dirty = 0
        # Without a branch in the loop, as which cores change cannot be foretold: a core that is not due is overwritten.
        for number in range(row.first_core, row.end_core):
            core = cores[number]
            # A core that has come back to where it was needs no request; HDeepRM makes one all the same.
            due = core.changed & ((hosts[number].pstate != core.wanted_pstate) | s.compatible)
            core.changed = 0
            bits |= due << core.wanted_pstate
            scratch[n] = number
            n += due
    s.n_dirty = 0
    return n, bits


@jit
def _add_pstate_op(state, pstate, n):
    """Append the request for one P-state, for those of the first ``n`` cores in the scratch that are to have it."""
    s = state.scalars[0]
    cores, scratch, pool = state.cores, state.scratch, state.pool
    first = last = s.n_pool
    for i in range(n):
        pool[last] = scratch[i]
        last += cores[scratch[i]].wanted_pstate == pstate
    s.n_pool = last
    add_op(state, codes.SET_PSTATE, pstate, first, last - first, 0.0)


@jit
def add_pstate_ops(state):
    """Append a request for each P-state that cores are to change to, lowest first, and forget the changes."""
    if state.scalars[0].n_dirty == 0:
        return
    n, due = _gather_changes(state)
    pstate = 0
    while due > 0:
        if due & 1:
            _add_pstate_op(state, pstate, n)
        due >>= 1
        pstate += 1
