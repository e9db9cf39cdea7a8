"""Requests to change P-states, as the server carries them out: at once, or by switching hosts off or on, by nodes.

A host on its way is, as in Batsim, in the P-state of that way for as long as one flop takes there. It then reaches
the requested P-state and notifies the server; a request is done when the last one of its hosts has done so.
"""

from __future__ import annotations

import numpy as np

from hdrl.compiled import heap
from hdrl.compiled.jit import jit
from hdrl.settings.batch.kernel import codes, jobs
from hdrl.settings.batch.kernel.codes import refuse
from hdrl.settings.batch.kernel.energy import log_energy
from hdrl.settings.batch.kernel.messages import add_event, send
from hdrl.settings.batch.kernel.onoff import node_of, sleep_state_of, sleep_state_row, way_of

_P = ord("p")
_REQUEST_TO_COMPUTE, _REQUEST_TO_SLEEP = -1, -2


@jit
def rate_of(state, core):
    """Return at which rate the one flop of a host on its way is computed, in flop/s."""
    return state.rungs[state.first_rung_of[core] + state.pstates[core]].speed_flops


@jit
def _log_line(state, n, pstate, first):
    """Append a line to the P-state log, of ``n`` cores of `State.pstate_cores` from a position on."""
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
    if s.energy == 1:
        log_energy(state, _P)
        # Batsim looks at the first host alone
        to_sleep = _falls_asleep(state, state.pool[op.first], op.subject)
        _log_request(state, op, _REQUEST_TO_SLEEP if to_sleep else _REQUEST_TO_COMPUTE)
    if _begin(state, op):
        jobs.log_machines(state)
        return
    if s.energy == 1:
        _log_done(state, op)
        log_energy(state, _P)
    add_event(state, codes.EVENT_PSTATE, op.subject)
    jobs.log_machines(state)


@jit
def _begin(state, op):
    """Give hosts their P-state, or send them on their way; return whether any of them has one to go."""
    if len(state.node_power) == 0:
        jobs.set_pstates(state, op.first, op.n, op.subject)
        return False
    n_there = _put_without_way_first(state, op)
    if n_there > 0:  # all at once: jobs are re-timed once by a request
        jobs.set_pstates(state, op.first, n_there, op.subject)
    first, end, has_ways = op.first + n_there, op.first + op.n, False
    while first < end:
        way = _way_at(state, first, op.subject)
        last = first + 1
        while last < end and _way_at(state, last, op.subject) == way:
            last += 1
        has_ways = _send(state, op, first, last - first, way)
        first = last
    return has_ways


@jit
def _falls_asleep(state, core, pstate):
    """Tell whether a host sleeps in a P-state."""
    return len(state.node_power) > 0 and sleep_state_of(state, node_of(state, core), pstate) >= 0


@jit
def _way_at(state, position, pstate):
    """Return the P-state of the way to a P-state for the host at a position of the pool, -1 if it has none."""
    core = state.pool[position]
    node = node_of(state, core)
    aim, asleep = sleep_state_of(state, node, pstate), sleep_state_of(state, node, state.pstates[core])
    if aim >= 0:
        return np.int64(sleep_state_row(state, node, aim).down_pstate)
    return np.int64(-1 if asleep < 0 else sleep_state_row(state, node, asleep).up_pstate)


@jit
def _put_without_way_first(state, op):
    """Put the hosts of a request that are there at once before the others, in their order; count them."""
    n_there = 0
    for position in range(op.first, op.first + op.n):
        if _way_at(state, position, op.subject) >= 0:
            continue
        core = state.pool[position]
        for i in range(position, op.first + n_there, -1):
            state.pool[i] = state.pool[i - 1]
        state.pool[op.first + n_there] = core
        n_there += 1
    return n_there


@jit
def _send(state, op, first, n, way):
    """Send the hosts ``pool[first:first + n]`` on a way to a sleep state, or back; return whether they could go."""
    s = state.scalars[0]
    for i in range(first, first + n):
        if state.cores[state.pool[i]].job >= 0:
            refuse(state, codes.ERROR_CORE_BUSY, -1, state.pool[i])
            return False
    n_falling = 0
    for i in range(first, first + n):
        core = state.pool[i]
        if _falls_asleep(state, core, op.subject):
            s.time_idle_s += jobs.time_in_state_s(state, core)
            n_falling += 1
        else:
            s.time_off_s += jobs.time_in_state_s(state, core)
    jobs.set_pstates(state, first, n, way)
    for i in range(first, first + n):
        core = state.pool[i]
        end_s = s.engine_s + 1.0 / rate_of(state, core)
        s.n_tasks = heap.push(state.tasks, s.n_tasks, len(state.jobs) + core, end_s, jobs.next_seq(state))
    s.n_idle -= n_falling
    s.n_shutting_down += n_falling
    s.n_off -= n - n_falling
    s.n_booting += n - n_falling
    s.n_switching += n
    row = state.node_power[state.node_power[node_of(state, state.pool[first])].leader]
    row.n_switching += n
    row.first_logged, row.n_logged = s.n_pstate_cores - op.n, op.n
    return True


@jit
def arrive(state, core):
    """Let a host be off, or on, after its way, and tell the server."""
    s = state.scalars[0]
    node = node_of(state, core)
    sleep_state = way_of(state, node)
    if state.pstates[core] == sleep_state.down_pstate:
        s.time_shutting_down_s += jobs.time_in_state_s(state, core)
        s.n_shutting_down -= 1
        s.n_off += 1
        jobs.set_pstate(state, core, sleep_state.off_pstate)
    else:
        s.time_booting_s += jobs.time_in_state_s(state, core)
        s.n_booting -= 1
        s.n_idle += 1
        jobs.set_pstate(state, core, state.node_power[node].on_pstate)
    send(state, codes.SWITCHED, core, 0, state.message_s[core])


@jit
def receive_switched(state, core):
    """Note at the server that a host is off, or on; tell the scheduler if it is the last one of its request."""
    s = state.scalars[0]
    leader = state.node_power[node_of(state, core)].leader
    row = state.node_power[leader]
    row.n_switching -= 1
    s.n_switching -= 1
    if row.n_switching > 0:
        return
    if s.logging == 1:
        _log_line(state, row.n_logged, state.pstates[core], row.first_logged)
    log_energy(state, _P)
    jobs.log_machines(state)
    add_event(state, codes.EVENT_NODE, leader)
