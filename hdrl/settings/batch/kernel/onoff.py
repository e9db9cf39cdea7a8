"""Nodes that are switched off and on: the decision system's side.

A node that is not *on* has no free cores. It leaves the picture at the decision to switch it off, and comes back
when the simulator has reported that all of its hosts are on again. What hosts do meanwhile is in `kernel.switches`; the
rules that decide it for a scheduler are in `kernel.node_rules`.
"""

from __future__ import annotations

import numpy as np

from hdrl.compiled import bits
from hdrl.compiled.jit import jit
from hdrl.settings.batch.kernel import codes
from hdrl.settings.batch.kernel.messages import add_op

NO_JOB = -2
"""Owner of a core that is not on: no job holds it, and none can have it."""

DATE_PRECISION_S = 1e-6


@jit
def first_core_of(state, node):
    """Return the first core of a node."""
    return state.processors[state.nodes[node].first_processor].first_core


@jit
def end_core_of(state, node):
    """Return the core after the last one of a node."""
    return state.processors[state.nodes[node].end_processor - 1].end_core


@jit
def is_on(state, node):
    """Tell whether a node is on; all are where none can be switched off."""
    return len(state.node_power) == 0 or state.node_power[node].status == codes.NODE_ON


@jit
def is_without_jobs(state, node):
    """Tell whether a node is on and no job holds a core of it."""
    n_cores = end_core_of(state, node) - first_core_of(state, node)
    return state.node_power[node].status == codes.NODE_ON and state.n_free_on[node] == n_cores


@jit
def _request_pstate(state, node, pstate):
    """Append the request for a P-state of all cores of a node."""
    s = state.scalars[0]
    first, n = s.n_pool, end_core_of(state, node) - first_core_of(state, node)
    for i in range(n):
        state.pool[first + i] = first_core_of(state, node) + i
    s.n_pool += n
    add_op(state, codes.SET_PSTATE, pstate, first, n, 0.0)


@jit
def _switch_error(state, node, wanted):
    """Return an error code if a node cannot be switched: its status is not the one wanted, or jobs hold it; else 0."""
    if state.node_power[node].status != wanted:
        return codes.ERROR_NODE_STATUS
    return codes.ERROR_NODE_NOT_FREE if wanted == codes.NODE_ON and not is_without_jobs(state, node) else 0


@jit
def n_sleep_states_of(state, node):
    """Return the number of sleep states of a node; one without any is always on."""
    row = state.nodes[node]
    return np.int64(row.end_sleep_state - row.first_sleep_state)


@jit
def sleep_state_row(state, node, number):
    """Return one of the sleep states of a node."""
    return state.sleep_states[state.nodes[node].first_sleep_state + number]


@jit
def way_of(state, node):
    """Return the sleep state that a node is in, goes to, or was in last."""
    return sleep_state_row(state, node, state.node_power[node].sleep_state)


@jit
def sleep_state_of(state, node, pstate):
    """Return the sleep state of a node whose hosts are in a P-state, -1 if it is none."""
    for number in range(n_sleep_states_of(state, node)):
        if sleep_state_row(state, node, number).off_pstate == pstate:
            return number
    return -1


@jit
def _fall_asleep(state, node, leader, sleep_state):
    """Note that a node is on its way to a sleep state, which the request of a leader asks for."""
    row = state.node_power[node]
    row.leader, row.sleep_state, row.status = leader, sleep_state, codes.NODE_SHUTTING_DOWN
    row.ready_s = state.scalars[0].message_s + way_of(state, node).shutdown_s
    _show(state, node, NO_JOB)


@jit
def _wake(state, node, leader):
    """Note that a node is on its way back, which the request of a leader asks for."""
    row = state.node_power[node]
    row.leader, row.status = leader, codes.NODE_BOOTING
    row.ready_s = state.scalars[0].message_s + way_of(state, node).boot_s


@jit
def switch_off(state, node, sleep_state):
    """Begin to switch a node off, to a sleep state that it has; return an error code, 0 if it is without jobs."""
    error = _switch_error(state, node, codes.NODE_ON)
    if error == 0:
        _fall_asleep(state, node, node, sleep_state)
        _request_pstate(state, node, way_of(state, node).off_pstate)
    return error


@jit
def switch_on(state, node):
    """Begin to boot a node; return an error code, 0 if it is off."""
    error = _switch_error(state, node, codes.NODE_OFF)
    if error == 0:
        _wake(state, node, node)
        _request_pstate(state, node, state.node_power[node].on_pstate)
    return error


@jit
def node_of(state, core):
    """Return the node of a core."""
    return state.processors[state.processor_of[core]].node


@jit
def switch_hosts(state, pstate, first, n):
    """Begin to switch hosts of some nodes, ``pool[first:first + n]`` (rising), off or on by one request.

    The P-state may be one in which hosts of some nodes sleep and those of others do not. All hosts of a node must be
    named that is switched. Nodes that do not sleep in it may be on, and run jobs: their hosts, all or some, have the
    P-state at once.

    Returns an error code, 0 if all is well, and the node in question.
    """
    s = state.scalars[0]
    s.n_pool = first + n
    leader, position = -1, first
    while position < first + n:
        node, end = node_of(state, state.pool[position]), _end_of_node(state, position, first + n)
        sleep_state = sleep_state_of(state, node, pstate)
        is_there = sleep_state < 0 and is_on(state, node)
        error = 0 if is_there else _switch_error(state, node, codes.NODE_OFF if sleep_state < 0 else codes.NODE_ON)
        if error == 0 and not is_there and end - position != end_core_of(state, node) - first_core_of(state, node):
            error = codes.ERROR_PART_OF_NODE
        if error != 0:
            return error, node
        leader = node if leader < 0 and not is_there else leader
        position = end
    position = first
    while position < first + n:
        node = node_of(state, state.pool[position])
        sleep_state = sleep_state_of(state, node, pstate)
        if sleep_state >= 0:
            _fall_asleep(state, node, leader, sleep_state)
        elif not is_on(state, node):
            _wake(state, node, leader)
            state.node_power[node].on_pstate = pstate
        position = _end_of_node(state, position, first + n)
    add_op(state, codes.SET_PSTATE, pstate, first, n, 0.0)
    return 0, -1


@jit
def _end_of_node(state, position, end):
    """Return the first position of ``pool[position:end]`` whose core is of another node than the first one's."""
    node = node_of(state, state.pool[position])
    while position < end and node_of(state, state.pool[position]) == node:
        position += 1
    return position


@jit
def _show(state, node, owner):
    """Mark the cores of a node as without a job (`NO_JOB`), or as free (-1)."""
    s = state.scalars[0]
    sign = 1 if owner == -1 else -1
    for core in range(first_core_of(state, node), end_core_of(state, node)):
        state.cores[core].owner = owner
        if owner == -1:
            bits.put(state.free, core)
            bits.put(state.changed, core)  # a job may get it before P-states are read
        else:
            bits.take_out(state.free, core)
    row = state.nodes[node]
    for processor in range(row.first_processor, row.end_processor):
        n_cores = state.processors[processor].end_core - state.processors[processor].first_core
        state.n_free[processor] += sign * n_cores
        state.n_free_on[node] += sign * n_cores
        s.n_free_cores += sign * n_cores
        bits.put(state.touched, processor)
        bits.put(state.unseen, processor)
    s.has_plan = 0


@jit
def note_switched(state, node):
    """Take in that all hosts of a node, and of those that it leads, are off now, or on; nodes that are on are news."""
    s = state.scalars[0]
    for other in range(len(state.node_power)):
        row = state.node_power[other]
        if row.leader != node:
            continue
        row.leader = -1
        if row.status == codes.NODE_SHUTTING_DOWN:
            row.status = codes.NODE_OFF
            continue
        row.status = codes.NODE_ON
        row.idle_since_s = s.message_s
        _show(state, other, -1)
        if s.news == codes.NO_NEWS:
            s.news = codes.NEWS_OF_NODES


@jit
def note_idle(state, node):
    """Note since when no job has held a core of a node, after one has given cores back."""
    if len(state.node_power) > 0 and is_without_jobs(state, node):
        state.node_power[node].idle_since_s = state.scalars[0].message_s


@jit
def note_call(state):
    """Clear the calls that the scheduler requested and that are due at this message."""
    for i in range(len(state.calls_s)):
        if state.scalars[0].message_s >= state.calls_s[i] - DATE_PRECISION_S:
            state.calls_s[i] = np.inf


@jit
def on_from_s(state, node):
    """Return the date from which a node that is not on can be expected to be, infinite if it is not booting."""
    s = state.scalars[0]
    row = state.node_power[node]
    if row.status == codes.NODE_BOOTING:
        return max(row.ready_s, s.message_s)
    if s.node_rule == codes.NODES_LEFT_ALONE:
        return np.inf
    begin_s = s.message_s if row.status == codes.NODE_OFF else max(row.ready_s, s.message_s)
    return begin_s + way_of(state, node).boot_s


@jit
def gather_coming(state):
    """List the nodes that are not on but can be, by that date; return how many they are."""
    n = 0
    for node in range(len(state.node_power)):
        if state.node_power[node].status == codes.NODE_ON:
            continue
        date_s = on_from_s(state, node)
        if date_s == np.inf:
            continue
        position = n
        while position > 0 and on_from_s(state, state.coming[position - 1]) > date_s:
            state.coming[position] = state.coming[position - 1]
            position -= 1
        state.coming[position] = node
        n += 1
    return n
