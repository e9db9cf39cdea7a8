"""The core keys: which free cores a job gets.

Cores are chosen one after the other, the keys being looked at again before each, as in HDeepRM; but instead of
sorting all cores again and again, whole *groups* of cores with the same key (a processor, or a node for ``high_mem``)
are kept in a small heap, and only the group that gave a core moves. Ties go to the lowest core id.
"""

from __future__ import annotations

import numpy as np

from hdrl.kernel import codes
from hdrl.kernel.cluster import has_memory, lock, unlock
from hdrl.kernel.jit import jit
from hdrl.kernel.sorting import sort_slice
from hdrl.kernel.twister import draw_below

CHOSEN = 0
NO_CORES = 1
NO_MEMORY = 2


@jit
def _take_core(state, core, job):
    s = state.scalars[0]
    lock(state, core, job)
    state.pool[s.n_pool] = core
    s.n_pool += 1


@jit
def _lowest_free_core(state, processor):
    """Return the lowest free core of a processor, or -1."""
    row = state.processors[processor]
    if row.n_busy == row.end_core - row.first_core:
        return -1
    for core in range(row.first_core, row.end_core):
        if state.cores[core].owner < 0:
            return core
    return -1


@jit
def _take_in_order(state, order, job, n):
    """Take ``n`` cores from processors in a fixed order; return how many are still missing."""
    cores, processors, nodes = state.cores, state.processors, state.nodes
    memory_mib = state.jobs[job].memory_mib
    for i in range(len(order)):
        row = processors[order[i]]
        n_free = row.end_core - row.first_core - row.n_busy
        if n_free == 0:
            continue
        node = nodes[row.node]
        for core in range(row.first_core, row.end_core):
            if n_free == 0 or node.free_memory_mib < memory_mib:
                break
            if cores[core].owner < 0:
                _take_core(state, core, job)
                n_free -= 1
                n -= 1
                if n == 0:
                    return 0
    return n


@jit
def _group_key(state, group, core_key):
    """Return the key of a group of cores; the smallest gives the next core."""
    if core_key == codes.CORE_HIGH_MEM:
        return -state.nodes[group].free_memory_mib
    row = state.processors[group]
    if core_key == codes.CORE_HIGH_MEM_BW:
        return -row.free_bandwidth_gbps
    if state.scalars[0].compatible == 1:  # HDeepRM prefers the processor with the most *busy* cores
        return -float(row.n_busy)
    return -float(row.end_core - row.first_core - row.n_busy)


@jit
def _can_give(state, group, job, core_key):
    """Tell whether a group has a free core and memory for the job; its cores need not be looked at for that."""
    if core_key == codes.CORE_HIGH_MEM:
        node = state.nodes[group]
        return node.n_free_cores > 0 and node.free_memory_mib >= state.jobs[job].memory_mib
    row = state.processors[group]
    return row.n_busy < row.end_core - row.first_core and has_memory(state, group, job)


@jit
def _core_of_group(state, group, core_key):
    """Return the lowest free core of a group that has one."""
    if core_key != codes.CORE_HIGH_MEM:
        return _lowest_free_core(state, group)
    node = state.nodes[group]
    for processor in range(node.first_processor, node.end_processor):
        core = _lowest_free_core(state, processor)
        if core >= 0:
            return core
    return -1


@jit
def _sift_group_down(state, place, size):
    groups, keys = state.groups, state.group_keys
    group, key = groups[place], keys[place]
    while True:
        below = 2 * place + 1
        if below >= size:
            break
        if below + 1 < size:
            left, right = keys[below], keys[below + 1]
            if right < left or (right == left and groups[below + 1] < groups[below]):
                below += 1
        other = keys[below]
        if key < other or (key == other and group < groups[below]):
            break
        groups[place] = groups[below]
        keys[place] = other
        place = below
    groups[place] = group
    keys[place] = key


@jit
def _make_heap(state, size):
    for place in range(size // 2 - 1, -1, -1):
        _sift_group_down(state, place, size)


@jit
def _gather_best_groups(state, job, core_key, room):
    """Put the best groups that can give a core into the heap, ``room`` of them at most; return how many they are."""
    n_all = len(state.nodes) if core_key == codes.CORE_HIGH_MEM else len(state.processors)
    groups, keys = state.groups, state.group_keys
    worst, size = -np.inf, 0
    for group in range(n_all):
        # With their signs changed: the worst of those found so far is on top, to be replaced by a better one.
        key = -_group_key(state, group, core_key)
        # Of equal ones the first is the better.
        if key <= worst or not _can_give(state, group, job, core_key):
            continue
        if size < room:
            groups[size], keys[size] = -group, key
            size += 1
            if size == room:
                _make_heap(state, size)
                worst = keys[0]
        else:
            groups[0], keys[0] = -group, key
            _sift_group_down(state, 0, size)
            worst = keys[0]
    for place in range(size):
        groups[place], keys[place] = -groups[place], -keys[place]
    _make_heap(state, size)
    return size


@jit
def _take_from_best_group(state, core_key, job, n):
    """Take ``n`` cores, each from the group whose key is best then; return how many are still missing."""
    while n > 0:
        # Few of all groups are needed: each core that is taken, and each group that is used up, concerns one of them.
        room = n + n // 2 + 4
        size = _gather_best_groups(state, job, core_key, room)
        if size == 0:
            break
        n = _take_from_gathered(state, core_key, job, n, size, room if size == room else n + size)
    return n


@jit
def _take_from_gathered(state, core_key, job, n, size, n_looks):
    """Take up to ``n`` cores from groups in the heap, looking at its top at most ``n_looks`` times.

    Returns how many cores are missing then. As long as fewer looks have been taken than there were groups, one of
    these has not been looked at, and is better than all that are not in the heap.
    """
    groups, keys = state.groups, state.group_keys
    while n > 0 and size > 0 and n_looks > 0:
        n_looks -= 1
        group = groups[0]
        if not _can_give(state, group, job, core_key):
            size -= 1
            groups[0], keys[0] = groups[size], keys[size]
        else:
            _take_core(state, _core_of_group(state, group, core_key), job)
            n -= 1
            keys[0] = _group_key(state, group, core_key)
        if size > 0:
            _sift_group_down(state, 0, size)
    return n


@jit
def _count_eligible(state, job):
    """Count the free cores with memory for a job; return how many they are.

    ``groups`` becomes a Fenwick tree of their numbers by nodes: entry ``i`` counts those of the nodes ``i & (i + 1)``
    to ``i``.
    """
    memory_mib, tree, nodes = state.jobs[job].memory_mib, state.groups, state.nodes
    n_nodes = len(nodes)
    n = 0
    for i in range(n_nodes):
        tree[i] = 0
    for i in range(n_nodes):
        node = nodes[i]
        if node.free_memory_mib >= memory_mib:
            tree[i] += node.n_free_cores
            n += node.n_free_cores
        if i | (i + 1) < n_nodes:
            tree[i | (i + 1)] += tree[i]
    return n


@jit
def _uncount(state, node, n):
    """Take ``n`` cores of a node out of the tree."""
    tree = state.groups
    while node < len(state.nodes):
        tree[node] -= n
        node |= node + 1


@jit
def _node_of_eligible(state, index):
    """Return the node of the eligible core that has ``index`` before it, and how many of these are on that node."""
    tree, n_nodes = state.groups, len(state.nodes)
    step = 1
    while 2 * step <= n_nodes:
        step *= 2
    node = 0
    while step > 0:
        if node + step <= n_nodes and tree[node + step - 1] <= index:
            node += step
            index -= tree[node - 1]
        step >>= 1
    return node, index


@jit
def _eligible_core(state, index):
    """Return the eligible core that has ``index`` before it: `_count_eligible` has counted them."""
    n, index = _node_of_eligible(state, index)
    node = state.nodes[n]
    for processor in range(node.first_processor, node.end_processor):
        row = state.processors[processor]
        n_free = row.end_core - row.first_core - row.n_busy
        if index >= n_free:
            index -= n_free
            continue
        for core in range(row.first_core, row.end_core):
            if state.cores[core].owner < 0:
                if index == 0:
                    return core
                index -= 1
    return -1


@jit
def _take_at_random(state, job, n):
    """Take ``n`` cores, each drawn from all that are eligible then; return how many are still missing."""
    memory_mib = state.jobs[job].memory_mib
    n_eligible = _count_eligible(state, job)
    while n > 0 and n_eligible > 0:
        core = _eligible_core(state, draw_below(state.twister, n_eligible))
        _take_core(state, core, job)
        n -= 1
        # One fewer, and all of its node if that has not enough memory any more.
        number = state.processors[state.cores[core].processor].node
        node = state.nodes[number]
        n_gone = 1 if node.free_memory_mib >= memory_mib else node.n_free_cores + 1
        _uncount(state, number, n_gone)
        n_eligible -= n_gone
    return n


@jit
def choose_cores(state, job, core_key):
    """Choose and lock the cores for a job; they are appended to the pool in ascending order.

    Returns
    -------
    int
        ``CHOSEN``; or ``NO_CORES`` or ``NO_MEMORY``, nothing being locked then.
    """
    s = state.scalars[0]
    n = state.jobs[job].n_requested
    if n > s.n_free_cores:
        return NO_CORES
    first = s.n_pool
    if core_key == codes.CORE_HIGH_GFLOPS:
        missing = _take_in_order(state, state.by_speed, job, n)
    elif core_key == codes.CORE_LOW_POWER:
        missing = _take_in_order(state, state.by_power, job, n)
    elif core_key == codes.CORE_RANDOM:
        missing = _take_at_random(state, job, n)
    else:
        missing = _take_from_best_group(state, core_key, job, n)
    if missing == 0:
        sort_slice(state.pool, first, s.n_pool - first, state.scratch)
        return CHOSEN
    for i in range(first, s.n_pool):
        unlock(state, state.pool[i], job)
    s.n_pool = first
    return NO_MEMORY
