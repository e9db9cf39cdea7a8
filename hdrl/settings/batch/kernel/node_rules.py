"""Rules that switch nodes off and on for a scheduler, after it has started jobs.

By *timeout*, a node is switched off when no job has held a core of it for some time and no job waits for it; nodes are
booted, those with the most flop per joule first, until as many cores are free or booting as waiting jobs ask for. By
*number*, as many nodes are on as a policy wants; those without jobs are switched off, the least efficient first. Either
way nodes are booted for the first job that waits, by cores and memory, so that none waits forever.

References
----------
A.-C. Orgerie, L. Lefèvre, J.-P. Gelas, "Save Watts in your Grid: Green Strategies for Energy-Aware Framework in Large
Scale Distributed Systems", ICPADS 2008 (idle nodes are switched off, with a time of grace).
"""

from __future__ import annotations

import math

import numpy as np

from hdrl.compiled.jit import jit
from hdrl.settings.batch.kernel import codes
from hdrl.settings.batch.kernel.codes import refuse
from hdrl.settings.batch.kernel.messages import add_op
from hdrl.settings.batch.kernel.onoff import (
    DATE_PRECISION_S,
    end_core_of,
    first_core_of,
    is_on,
    is_without_jobs,
    n_sleep_states_of,
    switch_off,
    switch_on,
)


@jit
def _call_at(state, date_s):
    """Ask to be called at a date, unless a call is due by then: what is left to do is looked at again at each.

    Of one timeout, the dates at which nodes will have been without jobs for long enough only rise. So no more calls
    are due at one time than there are timeouts, each earlier than those requested before.
    """
    position = -1
    for i in range(len(state.calls_s)):
        if state.calls_s[i] <= date_s:
            return
        if state.calls_s[i] == np.inf:
            position = i
    if position < 0:
        refuse(state, codes.ERROR_TOO_MANY_TIMERS, -1, -1)
        return
    state.calls_s[position] = date_s
    add_op(state, codes.CALL, 0, 0, 0, date_s)


@jit
def _room(state, n_cores, memory_mib, job):
    """Return the number of cores of a job that fit on some free cores and free memory of a node."""
    asked_mib = state.jobs[job].memory_mib
    if asked_mib <= 0.0:
        return np.int64(n_cores)
    return min(np.int64(n_cores), np.int64(min(math.floor(memory_mib / asked_mib), 1e9)))


@jit
def _room_now(state, job):
    """Return the number of cores of a job that fit on free or booting nodes."""
    room = np.int64(0)
    for node in range(len(state.nodes)):
        n_cores = np.int64(state.n_free_on[node])
        if state.node_power[node].status == codes.NODE_BOOTING:
            n_cores = end_core_of(state, node) - first_core_of(state, node)
        room += _room(state, n_cores, state.free_memory_mib[node], job)
    return room


@jit
def _n_supplied(state):
    """Return the number of cores that are free or booting."""
    n = np.int64(state.scalars[0].n_free_cores)
    for node in range(len(state.node_power)):
        if state.node_power[node].status == codes.NODE_BOOTING:
            n += end_core_of(state, node) - first_core_of(state, node)
    return n


@jit
def _n_demanded(state):
    """Return the number of cores that waiting jobs ask for: all of them by timeout, the first one by number."""
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
    """Return the number of cores of the first waiting job that fit on a node without jobs."""
    job = state.scalars[0].blocked_job
    n_cores = end_core_of(state, node) - first_core_of(state, node)
    return np.int64(0) if job < 0 else _room(state, n_cores, state.free_memory_mib[node], job)


@jit
def _count_spare(state):
    """Return the surplus of free or booting cores over the demand, and the surplus of room of the first job."""
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
def _can_go(state, node):
    """Tell whether a node is without jobs, and can be switched off."""
    return n_sleep_states_of(state, node) > 0 and is_without_jobs(state, node)


@jit
def _spare(state, node, spare_cores, spare_room):
    """Switch a node that can go off if no job waits for it; return what is spare then.

    A node that has not got the sleep state that is wanted goes to its last one.
    """
    n_cores = end_core_of(state, node) - first_core_of(state, node)
    room = _room_on(state, node)
    sleep_state = min(np.int64(state.scalars[0].sleep_state), n_sleep_states_of(state, node) - 1)
    if spare_cores >= n_cores and spare_room >= room and switch_off(state, node, sleep_state) == 0:
        return spare_cores - n_cores, spare_room - room
    return spare_cores, spare_room


@jit
def _by_timeout(state, spare_cores, spare_room):
    """Switch off nodes that have been without jobs for long enough; ask to be called when the next will have."""
    s = state.scalars[0]
    next_s = np.inf
    for i in range(len(state.boot_order) - 1, -1, -1):
        node = state.boot_order[i]
        if not _can_go(state, node):
            continue
        due_s = state.node_power[node].idle_since_s + s.off_after_s
        if due_s - DATE_PRECISION_S > s.message_s:
            next_s = min(next_s, due_s)
        else:
            spare_cores, spare_room = _spare(state, node, spare_cores, spare_room)
    if next_s < np.inf:
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
        if n_on > s.n_wanted_on and _can_go(state, node):
            spare_cores, spare_room = _spare(state, node, spare_cores, spare_room)
            n_on -= 0 if is_on(state, node) else 1


@jit
def manage_nodes(state):
    """Add the requests for nodes to the answer, after jobs have been started; none after the last job has ended."""
    s = state.scalars[0]
    is_over = s.no_more_jobs == 1 and s.n_queue == 0 and s.n_expected == 0
    if s.node_rule == codes.NODES_LEFT_ALONE or len(state.node_power) == 0 or is_over:
        return
    spare_cores, spare_room = _count_spare(state)
    spare_cores, spare_room = _boot_for_jobs(state, spare_cores, spare_room)
    if s.node_rule == codes.NODES_BY_TIMEOUT:
        _by_timeout(state, spare_cores, spare_room)
    else:
        _by_number(state, spare_cores, spare_room)
