"""Nodes that are switched off and on: the decision system's side, and the rules that decide it for a scheduler.

A node that is not *on* has no free cores. It leaves the picture when it is decided to switch it off, and comes back
when the simulator has told that all of its hosts are on again. What hosts do meanwhile is in `kernel.switches`.

By *timeout*, a node is switched off when no job has held a core of it for some time and nobody waits for it; nodes are
booted, those with the most flop per joule first, until as many cores are free or booting as waiting jobs ask for. By
*number*, as many nodes are on as somebody wants; those without jobs are switched off, the least efficient first. Either
way nodes are booted for the first job that waits, by cores and memory, so that none waits for ever.

References
----------
A.-C. Orgerie, L. Lefèvre, J.-P. Gelas, "Save Watts in your Grid: Green Strategies for Energy-Aware Framework in Large
Scale Distributed Systems", ICPADS 2008 (idle nodes are switched off, with a time of grace).
"""

from __future__ import annotations

import math

import numpy as np

from hdrl.compiled import bits
from hdrl.compiled.jit import jit
from hdrl.settings.batch.kernel import codes
from hdrl.settings.batch.kernel.mail import add_op
from hdrl.settings.batch.kernel.refusal import refuse

NOBODY = -2
"""Owner of a core that is not on: no job holds it, and none can have it."""

_DATE_PRECISION_S = 1e-6


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
def _ask(state, node, pstate):
    """Append the request for a P-state of all cores of a node."""
    s = state.scalars[0]
    first, n = s.n_pool, end_core_of(state, node) - first_core_of(state, node)
    for i in range(n):
        state.pool[first + i] = first_core_of(state, node) + i
    s.n_pool += n
    add_op(state, codes.SET_PSTATE, pstate, first, n, 0.0)


@jit
def _why_not(state, node, wanted):
    """Return why a node cannot be switched, an error code: its status is not the one wanted, or jobs hold it; or 0."""
    if state.node_power[node].status != wanted:
        return codes.ERROR_NODE_STATUS
    return codes.ERROR_NODE_NOT_FREE if wanted == codes.NODE_ON and not is_without_jobs(state, node) else 0


@jit
def _leave(state, node, leader):
    """Note that a node is on its way, which the request of a leader asks for."""
    row = state.node_power[node]
    row.leader = leader
    if row.status == codes.NODE_ON:
        row.status = codes.NODE_SHUTTING_DOWN
        row.ready_s = state.scalars[0].message_s + row.shutdown_s
        _show(state, node, NOBODY)
    else:
        row.status = codes.NODE_BOOTING
        row.ready_s = state.scalars[0].message_s + row.boot_s


@jit
def switch_off(state, node):
    """Begin to switch a node off; return an error code, 0 if it is without jobs."""
    error = _why_not(state, node, codes.NODE_ON)
    if error == 0:
        _leave(state, node, node)
        _ask(state, node, state.scalars[0].off_pstate)
    return error


@jit
def switch_on(state, node):
    """Begin to boot a node; return an error code, 0 if it is off."""
    error = _why_not(state, node, codes.NODE_OFF)
    if error == 0:
        _leave(state, node, node)
        _ask(state, node, state.node_power[node].on_pstate)
    return error


@jit
def _node_of(state, core):
    return state.processors[state.processor_of[core]].node


@jit
def switch_hosts(state, pstate, first, n):
    """Begin to switch all hosts of some nodes, ``pool[first:first + n]`` (rising), off or on by one request.

    Returns
    -------
    tuple
        An error code, 0 if all is well, and the node in question.
    """
    s = state.scalars[0]
    s.n_pool = first + n
    wanted = codes.NODE_ON if pstate == s.off_pstate else codes.NODE_OFF
    leader = _node_of(state, state.pool[first])
    n_of_nodes, last = 0, -1
    for i in range(first, first + n):
        node = _node_of(state, state.pool[i])
        if node == last:
            continue
        error = _why_not(state, node, wanted)
        if error != 0:
            return error, node
        n_of_nodes += end_core_of(state, node) - first_core_of(state, node)
        last = node
    if n_of_nodes != n:
        return codes.ERROR_PART_OF_NODE, leader
    last = -1
    for i in range(first, first + n):
        node = _node_of(state, state.pool[i])
        if node != last:
            _leave(state, node, leader)
            if wanted == codes.NODE_OFF:
                state.node_power[node].on_pstate = pstate
            last = node
    add_op(state, codes.SET_PSTATE, pstate, first, n, 0.0)
    return 0, -1


@jit
def _show(state, node, owner):
    """Give the cores of a node to nobody (`NOBODY`), or make them free (-1)."""
    s = state.scalars[0]
    sign = 1 if owner == -1 else -1
    for core in range(first_core_of(state, node), end_core_of(state, node)):
        state.cores[core].owner = owner
        if owner == -1:
            bits.put(state.free, core)
            bits.put(state.changed, core)  # a job may get it before anybody looks at P-states
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
def hear_node(state, node):
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
def hear_call(state):
    """Take in that a date has come at which the scheduler wanted to be asked."""
    for i in range(len(state.calls_s)):
        if state.scalars[0].message_s >= state.calls_s[i] - _DATE_PRECISION_S:
            state.calls_s[i] = np.inf


@jit
def _call_at(state, date_s):
    """Ask to be called at a date, unless a call is due by then: what is left to do is looked at again at each.

    Of one timeout, the dates at which nodes will have been without jobs for long enough only rise. So no more calls
    are due at one time than there are timeouts, each earlier than those asked for before.
    """
    place = -1
    for i in range(len(state.calls_s)):
        if state.calls_s[i] <= date_s:
            return
        if state.calls_s[i] == np.inf:
            place = i
    if place < 0:
        refuse(state, codes.ERROR_TOO_MANY_TIMERS, -1, -1)
        return
    state.calls_s[place] = date_s
    add_op(state, codes.CALL, 0, 0, 0, date_s)


@jit
def on_from_s(state, node):
    """Return the date from which a node that is not on can be expected to be, infinite if nobody boots it."""
    s = state.scalars[0]
    row = state.node_power[node]
    if row.status == codes.NODE_BOOTING:
        return max(row.ready_s, s.message_s)
    if s.node_rule == codes.NODES_LEFT_ALONE:
        return np.inf
    begin_s = s.message_s if row.status == codes.NODE_OFF else max(row.ready_s, s.message_s)
    return begin_s + row.boot_s


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
        place = n
        while place > 0 and on_from_s(state, state.coming[place - 1]) > date_s:
            state.coming[place] = state.coming[place - 1]
            place -= 1
        state.coming[place] = node
        n += 1
    return n


@jit
def _room(state, n_cores, memory_mib, job):
    """Return how many cores of a job fit on so many cores and so much memory of a node."""
    asked_mib = state.jobs[job].memory_mib
    if asked_mib <= 0.0:
        return np.int64(n_cores)
    return min(np.int64(n_cores), np.int64(min(math.floor(memory_mib / asked_mib), 1e9)))


@jit
def _room_now(state, job):
    """Return how many cores of a job fit on what is free or booting."""
    room = np.int64(0)
    for node in range(len(state.nodes)):
        n_cores = np.int64(state.n_free_on[node])
        if state.node_power[node].status == codes.NODE_BOOTING:
            n_cores = end_core_of(state, node) - first_core_of(state, node)
        room += _room(state, n_cores, state.free_memory_mib[node], job)
    return room


@jit
def _n_supplied(state):
    """Return how many cores are free or booting."""
    n = np.int64(state.scalars[0].n_free_cores)
    for node in range(len(state.node_power)):
        if state.node_power[node].status == codes.NODE_BOOTING:
            n += end_core_of(state, node) - first_core_of(state, node)
    return n


@jit
def _n_demanded(state):
    """Return how many cores waiting jobs ask for: all of them by timeout, the first one by number."""
    s = state.scalars[0]
    first = np.int64(0)
    if s.blocked_job >= 0:
        first = np.int64(state.jobs[s.blocked_job].n_requested)
    if s.node_rule == codes.NODES_BY_NUMBER:
        return first
    n = np.int64(0)
    for i in range(s.n_queue):
        n += state.jobs[state.queue[i]].n_requested
    return max(n, first)


@jit
def _room_on(state, node):
    """Return how many cores of the first waiting job fit on a node without jobs."""
    job = state.scalars[0].blocked_job
    n_cores = end_core_of(state, node) - first_core_of(state, node)
    return np.int64(0) if job < 0 else _room(state, n_cores, state.free_memory_mib[node], job)


@jit
def _count_spare(state):
    """Return how many cores more are free or booting than are demanded, and how much more room the first job has."""
    job = state.scalars[0].blocked_job
    spare_room = np.int64(0) if job < 0 else _room_now(state, job) - state.jobs[job].n_requested
    return _n_supplied(state) - _n_demanded(state), spare_room


@jit
def _boot_for_jobs(state, spare_cores, spare_room):
    """Boot nodes until enough cores are free or booting, and the first waiting job fits; return what is spare then."""
    for i in range(len(state.boot_order)):
        node = state.boot_order[i]
        if spare_cores >= 0 and spare_room >= 0:
            break
        if switch_on(state, node) == 0:
            spare_cores += end_core_of(state, node) - first_core_of(state, node)
            spare_room += _room_on(state, node)
    return spare_cores, spare_room


@jit
def _spare(state, node, spare_cores, spare_room):
    """Switch a node without jobs off if nobody waits for it; return what is spare then."""
    n_cores = end_core_of(state, node) - first_core_of(state, node)
    room = _room_on(state, node)
    if spare_cores >= n_cores and spare_room >= room and switch_off(state, node) == 0:
        return spare_cores - n_cores, spare_room - room
    return spare_cores, spare_room


@jit
def _by_timeout(state, spare_cores, spare_room):
    """Switch off nodes that have been without jobs for long enough; ask to be called when the next will have."""
    s = state.scalars[0]
    next_s = np.inf
    for i in range(len(state.boot_order) - 1, -1, -1):
        node = state.boot_order[i]
        if not is_without_jobs(state, node):
            continue
        due_s = state.node_power[node].idle_since_s + s.off_after_s
        if due_s - _DATE_PRECISION_S > s.message_s:
            next_s = min(next_s, due_s)
        else:
            spare_cores, spare_room = _spare(state, node, spare_cores, spare_room)
    is_over = s.no_more_jobs == 1 and s.n_queue == 0
    if next_s < np.inf and not is_over:
        _call_at(state, next_s)


@jit
def _by_number(state, spare_cores, spare_room):
    """Switch nodes without jobs off, or boot nodes, until as many are on as are wanted."""
    s = state.scalars[0]
    n_on = 0
    for node in range(len(state.node_power)):
        status = state.node_power[node].status
        n_on += 1 if status in (codes.NODE_ON, codes.NODE_BOOTING) else 0
    for i in range(len(state.boot_order)):
        if n_on < s.n_wanted_on and switch_on(state, state.boot_order[i]) == 0:
            n_on += 1
    for i in range(len(state.boot_order) - 1, -1, -1):
        node = state.boot_order[i]
        if n_on > s.n_wanted_on and is_without_jobs(state, node):
            spare_cores, spare_room = _spare(state, node, spare_cores, spare_room)
            n_on -= 0 if is_on(state, node) else 1


@jit
def manage_nodes(state):
    """Add the requests for nodes to the answer, after jobs have been started."""
    s = state.scalars[0]
    if s.node_rule == codes.NODES_LEFT_ALONE or len(state.node_power) == 0 or s.ended == 1:
        return
    spare_cores, spare_room = _count_spare(state)
    spare_cores, spare_room = _boot_for_jobs(state, spare_cores, spare_room)
    if s.node_rule == codes.NODES_BY_TIMEOUT:
        _by_timeout(state, spare_cores, spare_room)
    else:
        _by_number(state, spare_cores, spare_room)
