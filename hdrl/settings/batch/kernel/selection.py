"""The core keys: which free cores a job gets.

Cores are chosen one after the other, the keys being looked at again before each, as in HDeepRM; but instead of
sorting all cores again and again, whole *groups* of cores with the same key (a processor, or a node for ``high_mem``)
are compared, and those that share the best key give a core in turn. Ties go to the lowest core id.
"""

from __future__ import annotations

import numpy as np

from hdrl.compiled import bits
from hdrl.compiled.jit import jit
from hdrl.compiled.twister import draw_below
from hdrl.settings.batch.kernel import codes
from hdrl.settings.batch.kernel.cluster import lock, n_busy_cores, sort_cores, unlock

_BLOCK = 16
_BY_GROUPS = (
    *(codes.CORE_HIGH_CORES, codes.CORE_HIGH_MEM, codes.CORE_HIGH_MEM_BW),
    *(codes.CORE_LOW_CORES, codes.CORE_FIRST),
)

CHOSEN = 0
NO_CORES = 1
NO_MEMORY = 2
NO_SUCH_KEY = 3


@jit
def _take_core(state, core, job):
    s = state.scalars[0]
    lock(state, core, job)
    state.pool[s.n_pool] = core
    s.n_pool += 1


@jit
def _take_in_order(state, order, job, n):
    """Take ``n`` cores from processors in a fixed order; return how many are still missing."""
    memory_mib = state.jobs[job].memory_mib
    for i in range(len(order)):
        processor = order[i]
        row = state.processors[processor]
        core = row.first_core
        while state.n_free[processor] > 0 and state.free_memory_mib[row.node] >= memory_mib:
            core = bits.after_skipping(state.free, core, 0)
            _take_core(state, core, job)
            n -= 1
            if n == 0:
                return 0
    return n


@jit
def _group_key(state, group, core_key):
    """Return the key of a group of cores; the smallest gives the next core."""
    if core_key == codes.CORE_HIGH_MEM:
        return -state.free_memory_mib[group]
    if core_key == codes.CORE_HIGH_MEM_BW:
        return -state.free_bandwidth_gbps[group]
    if core_key == codes.CORE_LOW_CORES:
        return float(state.n_free[group])
    if core_key == codes.CORE_FIRST:
        return float(group)
    if core_key != codes.CORE_HIGH_CORES:
        return np.nan
    if state.scalars[0].compatible == 1:  # HDeepRM prefers the processor with the most *busy* cores
        return -float(n_busy_cores(state, group))
    return -float(state.n_free[group])


@jit
def _core_of_group(state, group, core_key):
    """Return the lowest free core of a group that has one."""
    processor = state.nodes[group].first_processor if core_key == codes.CORE_HIGH_MEM else group
    return bits.after_skipping(state.free, state.processors[processor].first_core, 0)


@jit
def _n_free(state, group, core_key):
    """Return the number of free cores of a group."""
    return state.n_free_on[group] if core_key == codes.CORE_HIGH_MEM else state.n_free[group]


@jit
def _can_give(state, group, job, core_key):
    """Tell whether a group has a free core and memory for the job; its cores need not be looked at for that."""
    node = group if core_key == codes.CORE_HIGH_MEM else state.processors[group].node
    return _n_free(state, group, core_key) > 0 and state.free_memory_mib[node] >= state.jobs[job].memory_mib


@jit
def _fill_keys(state, core_key):
    """Write the keys of all groups of cores, infinite where no core is free; return how many they are.

    Whether a group has memory for the job is found out when its turn comes: here one group is like another.
    """
    keys = state.group_keys
    n_groups = len(state.nodes) if core_key == codes.CORE_HIGH_MEM else len(state.processors)
    for group in range(n_groups):
        is_free = _n_free(state, group, core_key) > 0
        keys[group] = _group_key(state, group, core_key) if is_free else np.inf
    return n_groups


@jit
def _smallest(values, first, end):
    """Return the smallest of ``values[first:end]``."""
    smallest = np.inf
    for i in range(first, end):
        smallest = min(smallest, values[i])
    return smallest


@jit
def _take_from_best_group(state, core_key, job, n):
    """Take ``n`` cores, each from the group whose key is best then; return how many are still missing.

    Many groups have the same key: all which have the best one give a core in turn. To find them, only blocks of groups
    are looked into that hold one.
    """
    keys, block_keys = state.group_keys, state.block_keys
    n_groups = _fill_keys(state, core_key)
    n_blocks = (n_groups + _BLOCK - 1) // _BLOCK
    for block in range(n_blocks):
        block_keys[block] = _smallest(keys, _BLOCK * block, min(_BLOCK * (block + 1), n_groups))
    while n > 0:
        best = _smallest(block_keys, 0, n_blocks)
        if best == np.inf:
            break
        for block in range(n_blocks):
            if n > 0 and block_keys[block] <= best:
                first, end = _BLOCK * block, min(_BLOCK * (block + 1), n_groups)
                n = _take_from_block(state, first, end, best, core_key, job, n)
                block_keys[block] = _smallest(keys, first, end)
    return n


@jit
def _take_from_block(state, first, end, best, core_key, job, n):
    """Take up to ``n`` of the cores of the groups ``first`` to ``end`` that have the best key.

    Returns how many cores are missing then.
    """
    keys = state.group_keys
    for group in range(first, end):
        while n > 0 and keys[group] <= best:
            if _can_give(state, group, job, core_key):
                _take_core(state, _core_of_group(state, group, core_key), job)
                n -= 1
                keys[group] = _group_key(state, group, core_key)
            else:
                keys[group] = np.inf  # it has no core left, or others have used up the memory of its node
    return n


@jit
def _count_eligible(state, job):
    """Count the free cores with memory for a job; return how many they are.

    `State.counts` becomes a tree of their numbers: entry ``i`` is the sum of entries ``2 i`` and ``2 i + 1``, the
    second half are the nodes. As many steps lead to one node as to any other, so that no branch is guessed wrong.
    """
    memory_mib, tree = state.jobs[job].memory_mib, state.counts
    first = len(tree) >> 1
    for i in range(len(state.nodes)):
        tree[first + i] = state.n_free_on[i] if state.free_memory_mib[i] >= memory_mib else 0
    for i in range(first - 1, 0, -1):
        tree[i] = tree[2 * i] + tree[2 * i + 1]
    return tree[1]


@jit
def _uncount(state, node, n):
    """Take ``n`` cores of a node out of the tree."""
    tree = state.counts
    position = (len(tree) >> 1) + node
    while position > 0:
        tree[position] -= n
        position >>= 1


@jit
def _node_of_eligible(state, index):
    """Return the node of the eligible core that has ``index`` before it, and how many of these are on that node."""
    tree = state.counts
    first = len(tree) >> 1
    position = 1
    while position < first:
        position *= 2
        is_right = 1 if tree[position] <= index else 0
        index -= is_right * tree[position]
        position += is_right
    return position - first, index


@jit
def _eligible_core(state, index):
    """Return the eligible core that has ``index`` before it, and its node: `_count_eligible` has counted them."""
    number, index = _node_of_eligible(state, index)
    first = state.processors[state.nodes[number].first_processor].first_core
    return bits.after_skipping(state.free, first, index), number


@jit
def _take_at_random(state, job, n):
    """Take ``n`` cores, each drawn from all that are eligible then; return how many are still missing."""
    memory_mib = state.jobs[job].memory_mib
    n_eligible = _count_eligible(state, job)
    while n > 0 and n_eligible > 0:
        core, number = _eligible_core(state, draw_below(state.twister, n_eligible))
        _take_core(state, core, job)
        n -= 1
        # One fewer, and all of its node if that has not enough memory any more.
        n_gone = 1 if state.free_memory_mib[number] >= memory_mib else state.n_free_on[number] + 1
        _uncount(state, number, n_gone)
        n_eligible -= n_gone
    return n


@jit
def choose_cores(state, job, core_key):
    """Choose and lock the cores for a job; they are appended to the pool in ascending order.

    Returns ``CHOSEN``; or ``NO_CORES``, ``NO_MEMORY`` or ``NO_SUCH_KEY``, nothing being locked then.
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
    elif core_key in _BY_GROUPS:
        missing = _take_from_best_group(state, core_key, job, n)
    else:
        return NO_SUCH_KEY
    if missing == 0:
        sort_cores(state, first, s.n_pool - first)
        return CHOSEN
    put_back(state, job, first)
    return NO_MEMORY


@jit
def put_back(state, job, first):
    """Give back the cores that were chosen for a job last: the cores of the pool from ``first`` on."""
    s = state.scalars[0]
    for i in range(first, s.n_pool):
        unlock(state, state.pool[i], job)
    s.n_pool = first
