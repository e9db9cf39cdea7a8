"""Nodes of a job: best fit on sets of consecutive nodes, as Slurm's select/cons_tres chooses.

Nodes of low weight are taken first. Adjacent nodes of one weight that have something for the job form a set. The
smallest set that suffices is taken; where none does, the largest, and so on with what is missing. If one node of a set
is enough, it is the one with the fewest free cores; else a job fills the nodes of the set from the lowest one on.
"""

from __future__ import annotations

import numpy as np

from hdrl.compiled.bits import n_of, number, without_lowest
from hdrl.compiled.jit import jit

_ONE = np.uint64(1)
_NONE = np.uint64(0)
_MASK = np.int64(63)


@jit
def has_node(words, node):
    """Tell whether a node is in a set of nodes."""
    return (words[node >> 6] >> np.uint64(node & _MASK)) & _ONE != _NONE


@jit
def put_node(words, node):
    """Put a node into a set of nodes."""
    words[node >> 6] |= _ONE << np.uint64(node & _MASK)


@jit
def drop_node(words, node):
    """Take a node out of a set of nodes."""
    words[node >> 6] &= ~(_ONE << np.uint64(node & _MASK))


@jit
def n_cores_on(state, one, nodes):
    """Return the number of cores of a running or suspended job on some nodes."""
    n = np.int64(0)
    for i in range(one.first_pair, one.first_pair + one.n_pairs):
        if has_node(nodes, state.pairs[i].node):
            n += state.pairs[i].cores
    return n


@jit
def n_free_cores_of(state, usable):
    """Return the number of free cores of some nodes."""
    total = np.int64(0)
    for word in range(state.settings[0].n_words):
        bits = usable[word] & state.free_nodes[word]
        while bits != _NONE:
            total += state.free[number(word, bits)]
            bits = without_lowest(bits)
    return total


@jit
def has_cores(state, usable, having, free, n_cores):
    """Return whether some nodes have ``n_cores`` cores free; ``having`` are all nodes that have any."""
    for word in range(state.settings[0].n_words):
        bits = usable[word] & having[word]
        while bits != _NONE:
            n_cores -= free[number(word, bits)]
            if n_cores <= 0:
                return True
            bits = without_lowest(bits)
    return False


@jit
def has_cores_when_empty(state, usable, n_cores):
    """Return whether some nodes have ``n_cores`` cores when nothing runs on them."""
    n_nodes = np.int64(0)
    for word in range(state.settings[0].n_words):
        n_nodes += n_of(usable[word])
    is_sure = n_nodes * state.settings[0].fewest_cores >= n_cores
    return is_sure or has_cores(state, usable, usable, state.all_free, n_cores)


@jit
def _offer(state, job, is_whole, usable, having, free, free_mib, free_gpus):
    """Write the number of cores that each usable node can give to a job; return their sum."""
    row = state.jobs[job]
    counts_memory = state.settings[0].counts_memory != 0 and row.memory_mib > 0
    total = np.int64(0)
    for word in range(state.settings[0].n_words):
        bits = usable[word] & having[word]
        while bits != _NONE:
            node = number(word, bits)
            bits = without_lowest(bits)
            n = free[node]
            if is_whole and n < state.nodes[node].cores:
                n = np.int32(0)
            if row.gpus > 0 and free_gpus[node] < row.gpus:
                n = np.int32(0)
            if counts_memory:
                # Memory is per core. The minimum precedes the cast: with a tiny request, the quotient exceeds 32 bits.
                n = np.int32(min(np.float64(n), free_mib[node] / row.memory_mib + 1e-9))
                if is_whole and n < state.nodes[node].cores:
                    n = np.int32(0)
            state.offered[node] = n
            total += n
    return total


@jit
def _write_set(state, position, first, last, cores, weight):
    one = state.sets[position]
    one.first, one.last, one.cores, one.n_nodes, one.weight = first, last, cores, last - first + 1, weight


@jit
def _form_sets(state, usable, having, least):
    """Form the sets of consecutive nodes of one weight that offer at least ``least`` cores; return their number."""
    n_sets, first, before = np.int64(0), np.int64(0), np.int64(-2)
    cores, weight = np.int64(0), np.int64(0)
    for word in range(state.settings[0].n_words):
        bits = usable[word] & having[word]
        while bits != _NONE:
            node = number(word, bits)
            bits = without_lowest(bits)
            n = state.offered[node]
            if n < least:
                continue
            own_weight = state.nodes[node].weight
            if before == node - 1 and own_weight == weight:
                cores += n
            else:
                if n_sets > 0:
                    _write_set(state, n_sets - 1, first, before, cores, weight)
                n_sets += 1
                first, cores, weight = np.int64(node), np.int64(n), own_weight
            before = np.int64(node)
    if n_sets > 0:
        _write_set(state, n_sets - 1, first, before, cores, weight)
    return n_sets


@jit
def _best_set(state, n_sets, n_cores, n_nodes):
    """Return the set to take nodes from next, -1 if none is left."""
    best = -1
    suffices = False
    for i in range(n_sets):
        one = state.sets[i]
        if one.n_nodes == 0:
            continue
        is_enough = one.cores >= n_cores and one.n_nodes >= n_nodes
        if best < 0 or one.weight < state.sets[best].weight:
            is_better = True
        elif one.weight > state.sets[best].weight:
            is_better = False
        elif is_enough:
            is_better = not suffices or one.cores < state.sets[best].cores
        else:
            is_better = not suffices and one.cores > state.sets[best].cores
        if is_better:
            best = i
            suffices = is_enough
    return best


@jit
def _tightest(state, one, n_cores):
    """Return the node of a set that can hold ``n_cores`` cores and has the fewest, -1 if none can."""
    best = np.int64(-1)
    for node in range(one.first, one.last + 1):
        if state.offered[node] >= n_cores and (best < 0 or state.offered[node] < state.offered[best]):
            best = np.int64(node)
    return best


@jit
def _take(state, n_sets, row, is_whole, n_nodes, max_nodes, least):
    """Take nodes from the sets until a job has what it needs; return whether it has."""
    s = state.scalars[0]
    s.n_selected = 0
    none, one_more = np.int64(0), np.int64(1)
    n_cores = row.n_requested
    while max_nodes > 0:
        best = _best_set(state, n_sets, n_cores, n_nodes)
        if best < 0:
            return False
        one = state.sets[best]
        first, last = np.int64(one.first), np.int64(one.last)
        if n_nodes <= 1:
            tightest = _tightest(state, one, n_cores)
            if tightest >= 0:
                first = last = tightest
        for node in range(first, last + 1):
            if max_nodes == 0 or (n_nodes <= 0 and n_cores <= 0):
                break
            offered = np.int64(state.offered[node])
            if offered < least:
                continue
            if not is_whole:  # the other nodes that it must have need a core each
                n_others = max(n_nodes - one_more, none)
                offered = min(offered, max(n_cores - n_others, one_more))
            state.selected[s.n_selected].node = node
            state.selected[s.n_selected].cores = offered
            s.n_selected += 1
            n_cores -= offered
            n_nodes -= 1
            max_nodes -= 1
        if n_nodes <= 0 and n_cores <= 0:
            return True
        one.n_nodes = 0
    return False


@jit
def is_whole(state, job, partition):
    """Tell whether a job gets whole nodes in a partition."""
    return state.jobs[job].is_exclusive != 0 or state.partitions[partition].is_exclusive != 0


@jit
def choose_nodes(state, job, partition, usable, having, free, free_mib, free_gpus):
    """Choose nodes for a job; they are the first `n_selected` rows of ``state.selected`` then.

    Parameters
    ----------
    usable
        The nodes that it may use, as bits.
    having
        All nodes that have free cores, as bits.
    """
    whole = is_whole(state, job, partition)
    row = state.jobs[job]
    if _offer(state, job, whole, usable, having, free, free_mib, free_gpus) < row.n_requested:
        return False
    min_nodes = np.int64(max(row.nodes, state.partitions[partition].min_nodes, 1))
    max_nodes = np.int64(state.partitions[partition].max_nodes)
    if max_nodes < 0:
        max_nodes = state.settings[0].n_nodes
    least = np.int32(1)
    n_sets = _form_sets(state, usable, having, least)
    while n_sets > 0:
        if _take(state, n_sets, row, whole, min_nodes, max_nodes, least):
            return True
        # Without MaxNodes, leaving out small nodes only takes cores away.
        if max_nodes >= state.settings[0].n_nodes:
            return False
        # So few nodes suffice only if they are large: leave out the smallest ones.
        smallest = np.int32(2**31 - 1)
        for i in range(n_sets):
            for node in range(state.sets[i].first, state.sets[i].last + 1):
                smallest = min(smallest, state.offered[node])
        least = np.int32(smallest + 1)
        n_sets = _form_sets(state, usable, having, least)
    return False


@jit
def choose_now(state, job, partition, usable):
    """Choose nodes for a job of what is free now."""
    return choose_nodes(state, job, partition, usable, state.free_nodes, state.free, state.free_mib, state.free_gpus)


@jit
def choose_later(state, job, partition, usable):
    """Choose nodes for a job of what will be free later."""
    return choose_nodes(
        state, job, partition, usable, state.later_nodes, state.later, state.later_mib, state.later_gpus
    )


@jit
def fits_now(state, job, partition, usable):
    """Tell whether `choose_now` finds nodes for a job; it need not look where the job asks for cores alone."""
    row, limits = state.jobs[job], state.partitions[partition]
    asks_for_memory = state.settings[0].counts_memory != 0 and row.memory_mib > 0
    asks_for_nodes = row.nodes > 1 or limits.min_nodes > 1 or limits.max_nodes >= 0 or is_whole(state, job, partition)
    if asks_for_memory or asks_for_nodes or row.gpus > 0:
        return choose_now(state, job, partition, usable)
    return has_cores(state, usable, state.free_nodes, state.free, row.n_requested)


@jit
def _next_weight(state, usable, having, before):
    """Return the lowest weight above another one of the usable nodes that have something for the job, else that one."""
    found = before
    for node in range(state.settings[0].n_nodes):
        weight = state.nodes[node].weight
        is_there = has_node(usable, node) and has_node(having, node) and state.offered[node] > 0
        if is_there and weight > before:
            found = weight if found == before else min(found, weight)
    return found


@jit
def _take_in_order(state, usable, having, weight, is_idle, needed, is_whole, max_nodes):
    """Take the nodes of a weight that are idle now, or those that are not; return what cores and nodes are missing."""
    s, (n_cores, n_nodes) = state.scalars[0], needed
    for node in range(state.settings[0].n_nodes):
        if s.n_selected == max_nodes or (n_nodes <= 0 and n_cores <= 0):
            break
        is_there = has_node(usable, node) and has_node(having, node) and state.offered[node] > 0
        is_there = is_there and state.nodes[node].weight == weight
        # `free` is the present state: bf_busy_nodes prefers nodes in use now, not those in use at the planned date.
        if not is_there or (state.free[node] == state.nodes[node].cores) != is_idle:
            continue
        taken = np.int64(state.offered[node])
        if not is_whole:  # the other nodes that it must have need a core each
            taken = min(taken, max(n_cores - max(n_nodes - 1, np.int64(0)), np.int64(1)))
        state.selected[s.n_selected].node, state.selected[s.n_selected].cores = node, taken
        s.n_selected += 1
        n_cores -= taken
        n_nodes -= 1
    return n_cores, n_nodes


@jit
def choose_busy_nodes(state, job, partition, usable):
    """Choose nodes as `choose_later` does, but of each weight those that are in use now first (bf_busy_nodes).

    Nodes are taken in their order, without sets.
    """
    whole, row, max_nodes = is_whole(state, job, partition), state.jobs[job], state.partitions[partition].max_nodes
    having = state.later_nodes
    if _offer(state, job, whole, usable, having, state.later, state.later_mib, state.later_gpus) < row.n_requested:
        return False
    needed = np.int64(row.n_requested), np.int64(max(row.nodes, state.partitions[partition].min_nodes, 1))
    state.scalars[0].n_selected, before = 0, np.int64(-1)
    weight = _next_weight(state, usable, having, before)
    while weight > before:
        for is_idle in (False, True):
            needed = _take_in_order(state, usable, having, weight, is_idle, needed, whole, max_nodes)
        if needed[0] <= 0 and needed[1] <= 0:
            return True
        before, weight = weight, _next_weight(state, usable, having, weight)
    return False


@jit
def hold_nodes(state, job, sign):
    """Book the nodes of a job: ``sign`` -1 takes what it needs from what is free, 1 gives it back."""
    row = state.jobs[job]
    counts_memory = state.settings[0].counts_memory != 0
    for i in range(row.first_pair, row.first_pair + row.n_pairs):
        node, n = state.pairs[i].node, state.pairs[i].cores
        state.free[node] += sign * n
        if state.free[node] > 0:
            put_node(state.free_nodes, node)
        else:
            drop_node(state.free_nodes, node)
        state.free_gpus[node] += sign * row.gpus
        if counts_memory:
            state.free_mib[node] += sign * row.memory_mib * n
        # Partitions overlap, so a node counts in several. Their sums let both schedulers reject large jobs at once.
        bits = state.nodes[node].partitions
        for partition in range(state.settings[0].n_partitions):
            if (bits >> np.uint64(partition)) & _ONE != _NONE:
                state.partitions[partition].free_cores += sign * n


@jit
def copy_free(state):
    """Copy the free resources to those that will be free later."""
    for word in range(state.settings[0].n_words):
        state.later_nodes[word] = state.free_nodes[word]
    for node in range(state.settings[0].n_nodes):
        state.later[node] = state.free[node]
    # Each plan copies what is free, so this skips resources that no job of the workload requests.
    if state.settings[0].counts_gpus != 0:
        for node in range(state.settings[0].n_nodes):
            state.later_gpus[node] = state.free_gpus[node]
    if state.settings[0].counts_memory != 0:
        for node in range(state.settings[0].n_nodes):
            state.later_mib[node] = state.free_mib[node]


@jit
def release_cores_later(state, pair):
    """Give cores that a job has on a node back in what will be free later."""
    node = state.pairs[pair].node
    state.later[node] += state.pairs[pair].cores
    if state.later[node] > 0:  # below where jobs are suspended
        put_node(state.later_nodes, node)


@jit
def release_later(state, job, pair):
    """Return a job's resources on a node to those that will be free later."""
    release_cores_later(state, pair)
    node = state.pairs[pair].node
    if state.settings[0].counts_gpus != 0:
        state.later_gpus[node] += state.jobs[job].gpus
    if state.settings[0].counts_memory != 0:
        state.later_mib[node] += state.jobs[job].memory_mib * state.pairs[pair].cores


@jit
def note_allocation(state, job):
    """Write the selected nodes of a job, ascending, and the lowest free cores of each into the logs."""
    s, row = state.scalars[0], state.jobs[job]
    row.first_pair, row.n_pairs = s.n_pairs, s.n_selected
    row.first_core, row.n_cores = s.n_allocated, 0
    # Traces hold cores ascending: here few nodes need order, in a trace millions of cores would.
    state.tried[:] = _NONE
    for i in range(s.n_selected):
        one = state.selected[i]
        put_node(state.tried, one.node)
        state.offered[one.node] = one.cores
    for word in range(state.settings[0].n_words):
        bits = state.tried[word]
        while bits != _NONE:
            node = number(word, bits)
            bits = without_lowest(bits)
            state.pairs[s.n_pairs].node, state.pairs[s.n_pairs].cores = node, state.offered[node]
            s.n_pairs += 1
            row.n_cores += state.offered[node]
    s.n_allocated += row.n_cores
    take_cores(state, job)


@jit
def take_cores(state, job):
    """Put a job on the lowest free cores of its nodes."""
    row = state.jobs[job]
    position = row.first_core
    for i in range(row.first_pair, row.first_pair + row.n_pairs):
        core, missing = state.nodes[state.pairs[i].node].first_core, state.pairs[i].cores
        while missing > 0:
            if state.core_owner[core] < 0:
                state.core_owner[core] = job
                state.allocated[position] = core
                position += 1
                missing -= 1
            core += 1
    state.scalars[0].n_busy_cores += row.n_cores


@jit
def free_cores(state, job):
    """Take a job off its cores."""
    s, row = state.scalars[0], state.jobs[job]
    for i in range(row.first_core, row.first_core + row.n_cores):
        state.core_owner[state.allocated[i]] = -1
    s.n_busy_cores -= row.n_cores
