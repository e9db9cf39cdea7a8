"""On which GPUs a job would run: the nodes by order, tie rule and score."""

from __future__ import annotations

import math

from hdrl.compiled.jit import jit
from hdrl.compiled.lehmer import following
from hdrl.settings.gpu.kernel import codes
from hdrl.settings.gpu.kernel.index import order_types
from hdrl.settings.gpu.kernel.state import fits, kind_of, part_of

MAX_CPU_MILLI, MAX_GPU_MILLI = 128_000.0, 8_000.0
"""Scales for the cores and GPUs of a node (the largest nodes of Alibaba's trace), as in FGD's program."""

NOWHERE = -1
"""Returned where a job does not fit."""


@jit
def draw(w, n):
    """Return a random number from 0 to n - 1 (`hdrl.compiled.lehmer`)."""
    w.random[0] = following(w.random[0])
    return w.random[0] % n


@jit
def _fragment(w, n, cpu, unit, milli):
    """Return the fragment of a node whose cores left are ``cpu`` when ``milli`` of GPU ``unit`` were taken, too."""
    first, last = w.machine.node_first[n], w.machine.node_first[n] + w.machine.node_gpus[n]
    left = w.free.node_left[n] - (milli if unit >= 0 else 0)
    total = 0.0
    for k in range(len(w.typical.typical_cpu)):
        needs, each = w.typical.typical_gpus[k], w.typical.typical_milli[k]
        # A class of typical jobs that the node cannot serve at all loses everything that is left on it.
        lost = left
        # Classes without GPUs (needs 0) count as lost, too: FGD's program has it so, and its table depends on it.
        if needs > 0 and cpu >= w.typical.typical_cpu[k] and (w.typical.typical_types[k] >> w.machine.node_type[n]) & 1:
            n_fit, small = 0, 0
            for g in range(first, last):
                free = w.free.gpu_free[g] - (milli if g == unit else 0)
                if free >= each:
                    n_fit += free // each
                else:
                    small += free
            # The node can serve the class, so only the parts of GPUs that are too small for it are lost.
            if n_fit >= needs:
                lost = small
        total += w.typical.typical_share[k] * lost
    return total


@jit
def fragment(w, n):
    """Return the fragment of a node as it is, in thousandths of a GPU."""
    return _fragment(w, n, w.free.node_cpu_left[n], NOWHERE, 0)


@jit
def _fgd(w, n, c):
    """Return FGD's score of a node for a class of jobs, and the GPU that gives it (of jobs that take a share)."""
    # Scores change only with their node: a version for each node saves nearly all of the work.
    if w.typical.fgd_version[c, n] == w.free.node_version[n]:
        return w.typical.fgd_score[c, n], w.typical.fgd_unit[c, n]
    cpu = w.free.node_cpu_left[n] - w.typical.class_cpu[c]
    before = fragment(w, n)
    best, chosen = -1, NOWHERE
    if w.typical.class_gpus[c] == 1 and w.typical.class_milli[c] < 1000:
        for g in range(w.machine.node_first[n], w.machine.node_first[n] + w.machine.node_gpus[n]):
            if w.free.gpu_free[g] >= w.typical.class_milli[c]:
                after = _fragment(w, n, cpu, g, w.typical.class_milli[c])
                # Scores are cut to integers as in FGD's program: ties, and so placements, depend on it.
                score = int(100.0 / (1.0 + math.exp(-(before - after) / 1000.0)))
                if chosen == NOWHERE or score > best:
                    best, chosen = score, g
    else:
        taken = 0
        for g in range(w.machine.node_first[n], w.machine.node_first[n] + w.machine.node_gpus[n]):
            # The GPUs are taken on trial and given back below; the fragment reads gpu_free itself.
            if taken < w.typical.class_gpus[c] and w.free.gpu_free[g] == 1000:
                w.free.gpu_free[g] = 0
                w.scratch.picked[taken] = g
                taken += 1
        w.free.node_left[n] -= 1000 * taken
        after = _fragment(w, n, cpu, NOWHERE, 0)
        w.free.node_left[n] += 1000 * taken
        for i in range(taken):
            w.free.gpu_free[w.scratch.picked[i]] = 1000
        best = int(100.0 / (1.0 + math.exp(-(before - after) / 1000.0)))
    w.typical.fgd_score[c, n], w.typical.fgd_unit[c, n], w.typical.fgd_version[c, n] = (
        best,
        chosen,
        w.free.node_version[n],
    )
    return best, chosen


@jit
def _packing(w, n, j):
    """Return the score of GpuPacking: shared GPUs first, then idle ones of used nodes, then empty nodes."""
    if w.jobs.n_gpus[j] == 0:
        return 0
    # Scores as in FGD's program: shared GPUs 50 to 100, idle GPUs of used nodes 33 to 50, empty nodes below.
    if w.free.node_idle[n] == w.machine.node_gpus[n]:
        return max(33 - w.free.node_idle[n], w.free.node_idle[n])
    if w.jobs.milli[j] == 1000:
        return max(50 - w.jobs.n_gpus[j], 33)
    least = 1001
    for g in range(w.machine.node_first[n], w.machine.node_first[n] + w.machine.node_gpus[n]):
        free = w.free.gpu_free[g]
        # The fullest GPU that fits keeps the others whole.
        if free >= w.jobs.milli[j] and free < least:
            least = free
    return 49 if least == 1000 else max(100 - least // 10 // 10, 50)


@jit
def _clustering(w, n, j):
    """Return the score of GpuClustering: nodes with jobs of the same number of GPUs first, the fuller the better."""
    if w.jobs.n_gpus[j] == 0:
        return 0
    full = 25 * (8000 - w.free.node_left[n]) // 8000
    n_kinds = 0
    for kind in range(6):
        n_kinds += w.free.node_kinds[n, kind] > 0
    if w.free.node_kinds[n, kind_of(w.jobs.n_gpus[j], w.jobs.milli[j])] > 0:
        return full + (75 if n_kinds == 1 else 50)
    return full + (25 if n_kinds == 0 else 0)


@jit
def _score(w, n, j, placement):
    """Return the score of a node for a job that fits there; more is better."""
    gpu = w.jobs.n_gpus[j] * w.jobs.milli[j]
    if placement == codes.BEST_FIT or placement == codes.WORST_FIT:
        cpu_after = (w.free.node_cpu_left[n] - w.jobs.cpu[j]) / MAX_CPU_MILLI
        gpu_after = (w.free.node_left[n] - gpu) / MAX_GPU_MILLI
        # A node without known cores has "all of them" (2^40): they must not count, or GPUs would not.
        if w.machine.node_cpu[n] > 1 << 39:
            cpu_after = 0.0
        left = 0.5 * cpu_after + 0.5 * gpu_after
        return int(100.0 * left) if placement == codes.WORST_FIT else int(100.0 * (1.0 - left))
    if placement == codes.DOT_PRODUCT:
        cpu = (
            0.0
            if w.machine.node_cpu[n] > 1 << 39
            else w.free.node_cpu_left[n] / MAX_CPU_MILLI * w.jobs.cpu[j] / MAX_CPU_MILLI
        )
        product = cpu + w.free.node_left[n] / MAX_GPU_MILLI * gpu / MAX_GPU_MILLI
        return int(100.0 * (1.0 - product / 2.0))
    if placement == codes.PACKING:
        return _packing(w, n, j)
    if placement == codes.CLUSTERING:
        return _clustering(w, n, j)
    if placement == codes.CONSOLIDATED:
        return -w.free.node_left[n]
    return _fgd(w, n, w.jobs.job_class[j])[0]  # FGD: entries refuse placements that are in no table


@jit
def _rank_of(w, j, t):
    """Return at which position a job tries a type."""
    return w.past.type_order[t] if w.rules[codes.ORDER] == codes.INDEX else w.machine.type_rank[w.jobs.profile[j], t]


@jit
def _node_of_rank(w, j, rank, placement):
    """Return the node for a job among those whose types have a rank for it, `NOWHERE` if it fits on none."""
    best, chosen, n_ties = 0, NOWHERE, 0
    tie = codes.TIE_RANDOM if placement == codes.RANDOM else w.rules[codes.TIE]
    for i in range(len(w.machine.node_order)):
        n = w.machine.node_order[i]
        if _rank_of(w, j, w.machine.node_type[n]) != rank or not fits(w, n, j):
            continue
        if placement == codes.FIRST_FIT:
            return n
        score = 0 if placement == codes.RANDOM else _score(w, n, j, placement)
        # Equal scores: the k-th of them replaces the choice with probability 1/k, an even draw in one pass.
        if chosen == NOWHERE or score > best:
            best, chosen, n_ties = score, n, 1
        elif score == best:
            n_ties += 1
            if tie == codes.TIE_LAST or (tie == codes.TIE_RANDOM and draw(w, n_ties) == 0):
                chosen = n
    return chosen


@jit
def _unit_for_share(w, j, n, placement):
    """Return the GPU of a node that gives a share: FGD's own, a random one, the emptiest, or the fullest that fits."""
    if placement == codes.FGD:
        return _fgd(w, n, w.jobs.job_class[j])[1]
    chosen, n_ties, best = NOWHERE, 0, 0
    # All but worst fit and random take the fullest GPU that fits, which leaves whole GPUs for gangs.
    sign = 1 if placement == codes.WORST_FIT else -1
    for g in range(w.machine.node_first[n], w.machine.node_first[n] + w.machine.node_gpus[n]):
        if w.free.gpu_free[g] < w.jobs.milli[j]:
            continue
        n_ties += 1
        score = 0 if placement == codes.RANDOM else sign * w.free.gpu_free[g]
        if chosen == NOWHERE or score > best or (placement == codes.RANDOM and draw(w, n_ties) == 0):
            chosen, best = g, score
    return chosen


@jit
def _pick_idle(w, n, first, wanted):
    """Write idle GPUs of a node into ``picked`` from a position on."""
    for g in range(w.machine.node_first[n], w.machine.node_first[n] + w.machine.node_gpus[n]):
        if wanted > 0 and w.free.gpu_free[g] == 1000:
            w.scratch.picked[first] = g
            first += 1
            wanted -= 1


@jit
def _room_for_gang(w, n, j, wanted):
    """Return the number of GPUs of a gang that a node can take, with cores and memory in proportion."""
    room = min(w.free.node_idle[n], wanted)
    size = w.jobs.n_gpus[j]
    # Cores and memory of a gang are spread evenly over its GPUs; a node may have room for fewer of them than it has
    # idle GPUs.
    while room > 0 and (
        part_of(w.jobs.cpu[j], room, size) > w.free.node_cpu_left[n]
        or part_of(w.jobs.memory[j], room, size) > w.free.node_memory_left[n]
    ):
        room -= 1
    return room


@jit
def _next_node(w, j, t, wanted, n_nodes, position, in_order):
    """Return the index in the order of nodes of the next node of a gang: the first from a position on, or the roomiest.

    Those that are in ``gang`` have been taken. Where several have room for all, the fullest is.
    """
    best, chosen = 0, NOWHERE
    for i in range(position, len(w.machine.node_order)):
        n = w.machine.node_order[i]
        if w.machine.node_type[n] != t:
            continue
        room = _room_for_gang(w, n, j, wanted)
        # Rooms first, since fewer nodes mean a faster gang; the check of taken nodes comes second, as it costs more.
        if room > best or (
            room == best == wanted and w.free.node_idle[n] < w.free.node_idle[w.machine.node_order[chosen]]
        ):
            is_taken = False
            for k in range(n_nodes):
                is_taken |= w.scratch.gang[k] == n
            if is_taken:
                continue
            best, chosen = room, i
            if in_order:
                break
    return chosen


@jit
def _spread_over(w, j, t, placement):
    """Write GPUs of several nodes of one type into ``picked``; return how many nodes, 0 if they are not enough."""
    if w.free.type_idle[t] < w.jobs.n_gpus[j]:
        return 0
    wanted, n_nodes, position = w.jobs.n_gpus[j], 0, 0
    in_order = placement == codes.FIRST_FIT or placement == codes.RANDOM
    while wanted > 0:
        chosen = _next_node(w, j, t, wanted, n_nodes, position, in_order)
        if chosen == NOWHERE:
            return 0
        n = w.machine.node_order[chosen]
        if in_order:
            position = chosen + 1
        room = _room_for_gang(w, n, j, wanted)
        _pick_idle(w, n, w.jobs.n_gpus[j] - wanted, room)
        w.scratch.gang[n_nodes] = n
        n_nodes += 1
        wanted -= room
    return n_nodes


@jit
def find_gpus(w, j, placement):
    """Write the GPUs on which a job would run into ``picked``; return its node (the first one), or `NOWHERE`.

    Faster types are tried before slower ones, unless an index orders them. A gang lies on nodes of one type; on
    several only if none has room.
    """
    n_types = w.machine.rates.shape[1]
    if w.rules[codes.ORDER] == codes.INDEX:
        order_types(w, j)
    for rank in range(n_types):
        n = _node_of_rank(w, j, rank, placement)
        if n != NOWHERE:
            if w.jobs.n_gpus[j] > 0 and w.jobs.milli[j] < 1000:
                w.scratch.picked[0] = _unit_for_share(w, j, n, placement)
            else:
                _pick_idle(w, n, 0, w.jobs.n_gpus[j])
            # Set even if it was set before: the same job may have been tried on several nodes in this decision.
            w.jobs.is_spread[j] = 0
            return n
        if w.jobs.n_gpus[j] < 2:
            continue
        for t in range(n_types):
            if _rank_of(w, j, t) != rank or (w.jobs.allowed[j] >> t) & 1 == 0:
                continue
            n_nodes = _spread_over(w, j, t, placement)
            if n_nodes > 0:
                # A gang wider than the largest node must lie on several: only more than it needs make it slower.
                w.jobs.is_spread[j] = n_nodes > -(-w.jobs.n_gpus[j] // w.machine.type_node[t])
                return w.machine.gpu_node[w.scratch.picked[0]]
    return NOWHERE
