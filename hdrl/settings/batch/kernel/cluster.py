"""The heterogeneity layer: who holds which core, memory, bandwidth, and the P-states that follow from it.

This is the decision system's picture of the machine. It is changed by decisions (`lock`, `unlock`) and turned
into P-state requests by `add_pstate_ops`; the simulated hosts follow when the requests reach them. The same
functions serve when real Batsim simulates.

The cores of an allocation are sorted here, too.
"""

from __future__ import annotations

import numpy as np

from hdrl.compiled import bits
from hdrl.compiled.jit import jit
from hdrl.settings.batch.kernel import codes
from hdrl.settings.batch.kernel.messages import add_op
from hdrl.settings.batch.kernel.onoff import is_on, note_idle
from hdrl.settings.batch.platform.pstates import CONTENDED, FIRST_EXTRA_LEVEL, FREE, IDLE, SERVING


@jit
def n_busy_cores(state, processor):
    """Return the number of cores of a processor that jobs hold."""
    row = state.processors[processor]
    return row.end_core - row.first_core - state.n_free[processor]


@jit
def lock(state, core, job):
    """Give a free core, its memory and its share of the bandwidth to a job."""
    processor = state.processor_of[core]
    node = state.processors[processor].node
    state.cores[core].owner = job
    bits.take_out(state.free, core)
    state.n_free[processor] -= 1
    state.free_bandwidth_gbps[processor] -= state.jobs[job].bandwidth_gbps
    state.free_memory_mib[node] -= state.jobs[job].memory_mib
    state.n_free_on[node] -= 1
    state.scalars[0].n_free_cores -= 1
    _touch(state, processor)


@jit
def unlock(state, core, job):
    """Take a core, its memory and its share of the bandwidth back from a job."""
    s = state.scalars[0]
    processor = state.processor_of[core]
    node = state.processors[processor].node
    state.cores[core].owner = -1
    bits.put(state.free, core)
    state.n_free[processor] += 1
    state.free_bandwidth_gbps[processor] += state.jobs[job].bandwidth_gbps
    state.free_memory_mib[node] += state.jobs[job].memory_mib
    state.n_free_on[node] += 1
    s.n_free_cores += 1
    if s.compatible == 0 and n_busy_cores(state, processor) == 0:
        # What repeated adding and taking away has left behind in the last bits ends here.
        state.free_bandwidth_gbps[processor] = state.processors[processor].bandwidth_gbps
    _touch(state, processor)


@jit
def _touch(state, processor):
    """Note that the use of a processor has changed."""
    bits.put(state.touched, processor)
    bits.put(state.unseen, processor)


@jit
def contended_pstate(state, processor):
    """Return the P-state of the serving cores of a processor."""
    free_gbps = state.free_bandwidth_gbps[processor]
    if free_gbps >= 0.0 or len(state.contention) == 0:
        return SERVING
    bandwidth_gbps = state.processors[processor].bandwidth_gbps
    share = bandwidth_gbps / (bandwidth_gbps - free_gbps)
    level = 0
    while level < len(state.contention) - 1 and state.contention[level] > share:
        level += 1
    return CONTENDED if level == 0 else FIRST_EXTRA_LEVEL - 1 + level


@jit
def due_pstate(state, core):
    """Return the P-state that the use of its processor calls for on a core, where P-states are watched."""
    due = state.due_pstates[state.processor_of[core]]
    return due.unused if state.cores[core].owner < 0 else due.serving


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
                rung = state.rungs[state.first_rung_of[core] + state.pstates[core]]
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
def follow_owner(state, core):
    """Follow the progress of the job that holds a core, before the core's P-state changes."""
    owner = state.cores[core].owner
    if owner >= 0 and state.scalars[0].follows_progress == 1:
        follow_progress(state, owner)
        state.jobs[owner].pace_known = 0


@jit
def unused_pstate(state, processor):
    """Return the P-state of the cores of a processor that serve no job."""
    return FREE if n_busy_cores(state, processor) > 0 else IDLE


@jit
def _refresh_processor(state, processor):
    """Record the P-states that the use of a processor calls for, and the cores that are to change theirs."""
    row, due = state.processors[processor], state.due_pstates[processor]
    serving, unused = contended_pstate(state, processor), unused_pstate(state, processor)
    if serving != due.serving:
        for core in range(row.first_core, row.end_core):
            follow_owner(state, core)
    for first in range(row.first_core, row.end_core, bits.WORD):
        n = min(bits.WORD, row.end_core - first)
        free = bits.cut(state.free, first, n)
        to_serving = ~free & bits.lowest_ones(n) if serving != due.serving else bits.NONE
        to_unused = free if unused != due.unused else bits.NONE
        bits.put_word(state.changed, first, to_serving | to_unused)
    due.serving, due.unused = serving, unused


@jit
def _is_watched(state):
    """Return True if P-states are read before the answer says which ones are to change."""
    s = state.scalars[0]
    return s.layer == 1 and (s.logging == 1 or s.follows_progress == 1 or s.compatible == 1)


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
    """Refresh the processors of the cores ``pool[first:first + n]``, ascending, which have just been locked."""
    if not _is_watched(state):
        return
    s = state.scalars[0]
    previous = -1
    for i in range(first, first + n):
        processor = state.processor_of[state.pool[i]]
        bits.put(state.changed, state.pool[i])
        if processor != previous:
            previous = processor
            _refresh_processor(state, processor)
            if s.logging == 1 and state.free_bandwidth_gbps[processor] < 0.0:
                _open_span(state, processor, s.message_s)


@jit
def _is_relieved(state, processor, relieved_others):
    """Tell whether a span of over-commitment ends."""
    if state.free_bandwidth_gbps[processor] < 0.0:
        return False
    # HDeepRM notices it only if cores went back to full speed by it (be they the next to be freed).
    return state.scalars[0].compatible == 0 or relieved_others


@jit
def release(state, job):
    """Take all cores back from a job that has ended."""
    row = state.jobs[job]
    is_watched = _is_watched(state)
    position, last = row.first_core, row.first_core + row.n_cores
    while position < last:
        processor = state.processor_of[state.allocated[position]]
        relieved_others = False
        while position < last and state.processor_of[state.allocated[position]] == processor:
            relieved_others |= _give_back(state, state.allocated[position], job, processor)
            position += 1
        note_idle(state, state.processors[processor].node)
        if is_watched:
            _after_release(state, processor, relieved_others)


@jit
def _give_back(state, core, job, processor):
    """Take a core back from a job if it is still its own; return whether others are not over-committed any more."""
    if state.cores[core].owner != job:
        return False
    overcommitted = state.free_bandwidth_gbps[processor] < 0.0
    unlock(state, core, job)
    if _is_watched(state):
        bits.put(state.changed, core)
    is_relieved = overcommitted and state.free_bandwidth_gbps[processor] >= 0.0
    return is_relieved and n_busy_cores(state, processor) > 0


@jit
def _after_release(state, processor, relieved_others):
    """Refresh a processor with released cores."""
    s = state.scalars[0]
    _refresh_processor(state, processor)
    if s.logging == 1 and _is_relieved(state, processor, relieved_others):
        _close_span(state, processor, s.message_s)


@jit
def _first_switching(state, pstate):
    """Return the position in `State.switching` of the first core that is to switch to a P-state."""
    return pstate * (len(state.cores) + 1)


@jit
def _gather_switches(state, processor):
    """Put the cores of a processor that are to change their P-states among those that switch to the same ones."""
    row, due = state.processors[processor], state.due_pstates[processor]
    for first in range(row.first_core, row.end_core, bits.WORD):
        n = min(bits.WORD, row.end_core - first)
        free, was_free = bits.cut(state.free, first, n), bits.cut(state.was_free, first, n)
        changed = bits.cut(state.changed, first, n)
        _add_switching(state, first, free & (~was_free | changed), due.unused)
        _add_switching(state, first, ~free & bits.lowest_ones(n) & (was_free | changed), due.serving)


@jit
def _add_switching(state, first_core, word, pstate):
    """Put the cores that the bits of a word stand for among those that switch to a P-state."""
    compatible = state.scalars[0].compatible == 1
    switching = state.switching
    first, n = _first_switching(state, pstate), state.n_switching[pstate]
    while word != bits.NONE:
        core = first_core + bits.lowest(word)
        word = bits.without_lowest(word)
        switching[first + n] = core
        # A core that has come back to where it was needs no request; HDeepRM makes one all the same.
        n += (state.pstates[core] != pstate) | compatible
    state.n_switching[pstate] = n


@jit
def add_pstate_ops(state):
    """Append a request for each P-state that cores are to change to, lowest first."""
    if state.scalars[0].layer == 0:
        return
    is_touched = False
    for i in range(len(state.touched)):
        word = state.touched[i]
        state.touched[i] = bits.NONE
        is_touched |= word != bits.NONE
        while word != bits.NONE:
            processor = bits.number(i, word)
            word = bits.without_lowest(word)
            if is_on(state, state.processors[processor].node):
                _refresh_processor(state, processor)
                _gather_switches(state, processor)
    if not is_touched:
        return
    for i in range(len(state.free)):
        state.was_free[i] = state.free[i]
        state.changed[i] = bits.NONE
    for pstate in range(len(state.n_switching)):
        if state.n_switching[pstate] > 0:
            _add_pstate_op(state, pstate)


@jit
def _add_pstate_op(state, pstate):
    """Append the request for one P-state."""
    s = state.scalars[0]
    first, n = _first_switching(state, pstate), state.n_switching[pstate]
    for i in range(n):
        state.pool[s.n_pool + i] = state.switching[first + i]
    state.n_switching[pstate] = 0
    add_op(state, codes.SET_PSTATE, pstate, s.n_pool, n, 0.0)
    s.n_pool += n


@jit
def sort_cores(state, first, n):
    """Sort ``pool[first:first + n]`` ascending: different cores.

    Each is put into a set, out of which they come in order: that takes one pass, and nothing in it depends on a
    comparison that cannot be foretold.
    """
    if n < 2:
        return
    pool, words = state.pool, state.chosen
    least, greatest = pool[first], pool[first]
    for i in range(first, first + n):
        bits.put(words, pool[i])
        least, greatest = min(least, pool[i]), max(greatest, pool[i])
    position = first
    for i in range(bits.word_of(least), bits.word_of(greatest) + 1):
        word = words[i]
        words[i] = bits.NONE
        while word != bits.NONE:
            pool[position] = bits.number(i, word)
            word = bits.without_lowest(word)
            position += 1
