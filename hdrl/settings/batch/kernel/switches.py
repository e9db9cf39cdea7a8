"""Requests to change P-states, as the server carries them out: at once, or by switching hosts off or on, by nodes.

A host on its way is, as in Batsim, in the P-state of that way for as long as one flop takes there. It then is where it
was to go, and tells the server; a request is done when the last one of its hosts has told.
"""

from __future__ import annotations

from hdrl.compiled import heap
from hdrl.compiled.jit import jit
from hdrl.settings.batch.kernel import codes, jobs
from hdrl.settings.batch.kernel.energy import log_energy
from hdrl.settings.batch.kernel.mail import post, tell
from hdrl.settings.batch.kernel.onoff import sleep_state_of
from hdrl.settings.batch.kernel.refusal import refuse

_P = ord("p")
_REQUEST_TO_COMPUTE, _REQUEST_TO_SLEEP = -1, -2


@jit
def rate_of(state, core):
    """Return at which rate the one flop of a host on its way is computed, in flop/s."""
    return state.rungs[state.first_rung_of[core] + state.pstates[core]].speed_flops


@jit
def _log_line(state, n, pstate, first):
    """Append a line to the P-state log, of so many cores of `State.pstate_cores` from a place on."""
    s = state.scalars[0]
    row = state.pstate_log[s.n_pstate_log]
    row.time_s = s.now
    row.n_cores = n
    row.pstate = pstate
    row.first_core = first
    s.n_pstate_log += 1


@jit
def _log_request(state, op, pstate):
    """Append the line of a request to the P-state log."""
    s = state.scalars[0]
    if s.logging == 0:
        return
    _log_line(state, op.n, pstate, s.n_pstate_cores)
    for i in range(op.n):
        state.pstate_cores[s.n_pstate_cores + i] = state.pool[op.first + i]
    s.n_pstate_cores += op.n


@jit
def _log_done(state, op):
    """Append the line that a request is done to the P-state log; the cores are those of the line before."""
    s = state.scalars[0]
    if s.logging == 1:
        _log_line(state, op.n, op.subject, s.n_pstate_cores - op.n)


@jit
def set_pstate(state, op):
    """Carry out a request to change P-states, or begin to: at once, or by ways to a sleep state and back.

    As in Batsim, some hosts of a request may be there at once while others are on their way; it is done with the last.
    """
    s = state.scalars[0]
    s.n_grouped_switches += 1
    s.n_machine_switches += op.n
    to_sleep = sleep_state_of(state, op.subject) >= 0
    if s.energy == 1:
        log_energy(state, _P)
        _log_request(state, op, _REQUEST_TO_SLEEP if to_sleep else _REQUEST_TO_COMPUTE)
    if _begin(state, op, to_sleep):
        jobs.log_machines(state)
        return
    if s.energy == 1:
        _log_done(state, op)
        log_energy(state, _P)
    tell(state, codes.TOLD_PSTATE, op.subject)
    jobs.log_machines(state)


@jit
def _begin(state, op, to_sleep):
    """Give hosts their P-state, or send them on their way; return whether any of them has one to go."""
    if to_sleep:
        return _send(state, op, op.first, op.n, state.sleep_states[sleep_state_of(state, op.subject)].down_pstate)
    n_awake = _put_awake_first(state, op.first, op.n)
    if n_awake > 0:  # all at once: jobs are re-timed once by a request
        jobs.set_pstates(state, op.first, n_awake, op.subject)
    first, end, has_ways = op.first + n_awake, op.first + op.n, False
    while first < end:
        asleep = _sleep_state_at(state, first)
        last = first + 1
        while last < end and _sleep_state_at(state, last) == asleep:
            last += 1
        has_ways = _send(state, op, first, last - first, state.sleep_states[asleep].up_pstate)
        first = last
    return has_ways


@jit
def _sleep_state_at(state, place):
    """Return in which sleep state the host at a place of the pool is, -1 if in none."""
    return sleep_state_of(state, state.pstates[state.pool[place]])


@jit
def _put_awake_first(state, first, n):
    """Put the cores of ``pool[first:first + n]`` that do not sleep before the others, in their order; count them."""
    n_awake = 0
    for place in range(first, first + n):
        if _sleep_state_at(state, place) >= 0:
            continue
        core = state.pool[place]
        for i in range(place, first + n_awake, -1):
            state.pool[i] = state.pool[i - 1]
        state.pool[first + n_awake] = core
        n_awake += 1
    return n_awake


@jit
def _send(state, op, first, n, way):
    """Send the hosts ``pool[first:first + n]`` on a way to a sleep state, or back; return whether they could go."""
    s = state.scalars[0]
    for i in range(first, first + n):
        if state.cores[state.pool[i]].job >= 0:
            refuse(state, codes.ERROR_CORE_BUSY, -1, state.pool[i])
            return False
    to_sleep = sleep_state_of(state, op.subject) >= 0
    for i in range(first, first + n):
        core = state.pool[i]
        if to_sleep:
            s.time_idle_s += jobs.time_in_state_s(state, core)
        else:
            s.time_off_s += jobs.time_in_state_s(state, core)
    jobs.set_pstates(state, first, n, way)
    for i in range(first, first + n):
        core = state.pool[i]
        end_s = s.engine_s + 1.0 / rate_of(state, core)
        s.n_tasks = heap.push(state.tasks, s.n_tasks, len(state.jobs) + core, end_s, jobs.next_seq(state))
    if to_sleep:
        s.n_idle -= n
        s.n_shutting_down += n
    else:
        s.n_off -= n
        s.n_booting += n
    s.n_switching += n
    row = state.node_power[_node_of(state, state.pool[first]).leader]
    row.n_switching += n
    row.first_logged, row.n_logged = s.n_pstate_cores - op.n, op.n
    return True


@jit
def _node_of(state, core):
    return state.node_power[state.processors[state.processor_of[core]].node]


@jit
def arrive(state, core):
    """Let a host be off, or on, after its way, and tell the server."""
    s = state.scalars[0]
    node = _node_of(state, core)
    sleep_state = state.sleep_states[node.sleep_state]
    if state.pstates[core] == sleep_state.down_pstate:
        s.time_shutting_down_s += jobs.time_in_state_s(state, core)
        s.n_shutting_down -= 1
        s.n_off += 1
        jobs.set_pstate(state, core, sleep_state.off_pstate)
    else:
        s.time_booting_s += jobs.time_in_state_s(state, core)
        s.n_booting -= 1
        s.n_idle += 1
        jobs.set_pstate(state, core, node.on_pstate)
    post(state, codes.SWITCHED, core, 0, state.message_s[core])


@jit
def receive_switched(state, core):
    """Note at the server that a host is off, or on; tell the scheduler if it is the last one of its request."""
    s = state.scalars[0]
    leader = _node_of(state, core).leader
    row = state.node_power[leader]
    row.n_switching -= 1
    s.n_switching -= 1
    if row.n_switching > 0:
        return
    if s.logging == 1:
        _log_line(state, row.n_logged, state.pstates[core], row.first_logged)
    log_energy(state, _P)
    jobs.log_machines(state)
    tell(state, codes.TOLD_NODE, leader)
