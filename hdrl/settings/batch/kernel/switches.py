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
from hdrl.settings.batch.kernel.onoff import end_core_of, first_core_of
from hdrl.settings.batch.kernel.refusal import refuse

_P = ord("p")
_REQUEST_TO_COMPUTE, _REQUEST_TO_SLEEP = -1, -2


@jit
def rate_of(state, core):
    """Return at which rate the one flop of a host on its way is computed, in flop/s."""
    return state.rungs[state.first_rung_of[core] + state.pstates[core]].speed_flops


@jit
def _log_line(state, n, pstate):
    """Append a line of so many cores to the P-state log; its cores are to be appended to `State.pstate_cores`."""
    s = state.scalars[0]
    row = state.pstate_log[s.n_pstate_log]
    row.time_s = s.now
    row.n_cores = n
    row.pstate = pstate
    row.first_core = s.n_pstate_cores
    s.n_pstate_log += 1
    return row


@jit
def _log_request(state, op, pstate):
    """Append the line of a request to the P-state log."""
    s = state.scalars[0]
    if s.logging == 0:
        return
    _log_line(state, op.n, pstate)
    for i in range(op.n):
        state.pstate_cores[s.n_pstate_cores + i] = state.pool[op.first + i]
    s.n_pstate_cores += op.n


@jit
def _log_done(state, op):
    """Append the line that a request is done to the P-state log; the cores are those of the line before."""
    s = state.scalars[0]
    if s.logging == 1:
        row = _log_line(state, op.n, op.subject)
        row.first_core = state.pstate_log[s.n_pstate_log - 2].first_core


@jit
def set_pstate(state, op):
    """Carry out a request to change P-states, or begin to: of cores, or of all cores of nodes that are switched."""
    s = state.scalars[0]
    s.n_grouped_switches += 1
    s.n_machine_switches += op.n
    if s.energy == 1:
        log_energy(state, _P)
    if _is_switch(state, op):
        _begin_switch(state, op)
        return
    if s.energy == 1:
        _log_request(state, op, _REQUEST_TO_COMPUTE)
    jobs.set_pstates(state, op.first, op.n, op.subject)
    if s.energy == 1:
        _log_done(state, op)
        log_energy(state, _P)
    tell(state, codes.TOLD_PSTATE, op.subject)
    jobs.log_machines(state)


@jit
def _log_arrival(state, leader, pstate):
    """Append the line of a request whose hosts are all off, or on, to the P-state log."""
    s = state.scalars[0]
    n = 0
    for node in range(len(state.node_power)):
        if state.node_power[node].leader == leader:
            for core in range(first_core_of(state, node), end_core_of(state, node)):
                state.pstate_cores[s.n_pstate_cores + n] = core
                n += 1
    _log_line(state, n, pstate)
    s.n_pstate_cores += n


@jit
def _is_switch(state, op):
    """Tell whether a request switches nodes off, or on."""
    s = state.scalars[0]
    if s.off_pstate < 0:
        return False
    return op.subject == s.off_pstate or state.pstates[state.pool[op.first]] == s.off_pstate


@jit
def _begin_switch(state, op):
    """Send the hosts of some nodes on their way."""
    s = state.scalars[0]
    to_off = op.subject == s.off_pstate
    _log_request(state, op, _REQUEST_TO_SLEEP if to_off else _REQUEST_TO_COMPUTE)
    for i in range(op.first, op.first + op.n):
        if state.cores[state.pool[i]].job >= 0:
            refuse(state, codes.ERROR_CORE_BUSY, -1, state.pool[i])
            return
    way = s.down_pstate if to_off else s.up_pstate
    for i in range(op.first, op.first + op.n):
        core = state.pool[i]
        if to_off:
            s.time_idle_s += jobs.time_in_state_s(state, core)
        else:
            s.time_off_s += jobs.time_in_state_s(state, core)
    jobs.set_pstates(state, op.first, op.n, way)
    for i in range(op.first, op.first + op.n):
        core = state.pool[i]
        end_s = s.engine_s + 1.0 / rate_of(state, core)
        s.n_tasks = heap.push(state.tasks, s.n_tasks, len(state.jobs) + core, end_s, jobs.next_seq(state))
    if to_off:
        s.n_idle -= op.n
        s.n_shutting_down += op.n
    else:
        s.n_off -= op.n
        s.n_booting += op.n
    node = state.processors[state.processor_of[state.pool[op.first]]].node
    state.node_power[node].n_switching = op.n
    s.n_switching += op.n
    jobs.log_machines(state)


@jit
def arrive(state, core):
    """Let a host be off, or on, after its way, and tell the server."""
    s = state.scalars[0]
    node = state.processors[state.processor_of[core]].node
    if state.pstates[core] == s.down_pstate:
        s.time_shutting_down_s += jobs.time_in_state_s(state, core)
        s.n_shutting_down -= 1
        s.n_off += 1
        jobs.set_pstate(state, core, s.off_pstate)
    else:
        s.time_booting_s += jobs.time_in_state_s(state, core)
        s.n_booting -= 1
        s.n_idle += 1
        jobs.set_pstate(state, core, state.node_power[node].on_pstate)
    post(state, codes.SWITCHED, core, 0, state.message_s[core])


@jit
def receive_switched(state, core):
    """Note at the server that a host is off, or on; tell the scheduler if it is the last one of its request."""
    s = state.scalars[0]
    node = state.node_power[state.processors[state.processor_of[core]].node].leader
    row = state.node_power[node]
    row.n_switching -= 1
    s.n_switching -= 1
    if row.n_switching > 0:
        return
    if s.logging == 1:
        _log_arrival(state, node, state.pstates[core])
    log_energy(state, _P)
    jobs.log_machines(state)
    tell(state, codes.TOLD_NODE, node)
