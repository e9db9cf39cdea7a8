"""Decisions of a policy: jobs to start and to preempt, by an order, a placement, and a rule for the jobs behind.

EASY stands here by itself because the head of the queue waits for GPUs of one of the types that it allows, which are
counted type by type, and because jobs end when their rate and their restart say; batch jobs have neither.
"""

from __future__ import annotations

from hdrl.compiled import heap
from hdrl.compiled.jit import jit
from hdrl.settings.gpu.kernel import codes, state
from hdrl.settings.gpu.kernel.placing import NOWHERE, find_gpus
from hdrl.settings.gpu.kernel.running import key_of, orders_by_history, preempt, refresh, start, waiting_at
from hdrl.settings.gpu.kernel.state import move

BY_KEY, BY_END = range(2)


@jit
def may_fit(w, j):
    """Return whether there could be room for a job; much faster than looking for it."""
    if w.jobs.n_gpus[j] == 0:
        return True
    for t in range(len(w.machine.type_gpus)):
        if (w.jobs.allowed[j] >> t) & 1 and (w.jobs.milli[j] < 1000 or w.free.type_idle[t] >= w.jobs.n_gpus[j]):
            return True
    return False


@jit
def _is_full(w):
    """Return whether no job can start because nothing of any GPU is left."""
    # BUSY_NOW is a sum of shares of GPUs, hence the tolerance; jobs without GPUs could still start.
    return w.rules[codes.NEEDS_GPUS] and w.sums[state.BUSY_NOW] > len(w.machine.gpu_node) - 1e-6


@jit
def is_at_least(w, j, other):
    """Return whether a job needs all that another one needs, or more."""
    return (
        w.jobs.n_gpus[j] >= w.jobs.n_gpus[other]
        and w.jobs.milli[j] >= w.jobs.milli[other]
        # Gangs may be split over nodes, so cores and memory count for each GPU (cross-multiplied: integers are exact)
        # and in all.
        and w.jobs.cpu[j] * max(1, w.jobs.n_gpus[other]) >= w.jobs.cpu[other] * max(1, w.jobs.n_gpus[j])
        and w.jobs.memory[j] * max(1, w.jobs.n_gpus[other]) >= w.jobs.memory[other] * max(1, w.jobs.n_gpus[j])
        and w.jobs.cpu[j] >= w.jobs.cpu[other]
        and w.jobs.memory[j] >= w.jobs.memory[other]
        and (w.jobs.allowed[j] & ~w.jobs.allowed[other]) == 0
    )


@jit
def _try_to_start(w, j):
    """Start a waiting job if it fits; return whether it did."""
    if not may_fit(w, j):
        return False
    node = find_gpus(w, j, w.rules[codes.PLACEMENT])
    if node == NOWHERE:
        return False
    start(w, j, node)
    return True


@jit
def _comes_before(w, one, other, by):
    """Return whether a running job comes out of the heap before another one."""
    if w.scratch.sort_key[one] != w.scratch.sort_key[other]:
        return w.scratch.sort_key[one] < w.scratch.sort_key[other]
    return one > other if by == BY_KEY else one < other


@jit
def _key_now(w, j):
    """Return the key of a running job; those by history were brought up to date before."""
    return w.jobs.key[j] if orders_by_history(w) else key_of(w, j)


@jit
def _heap_running(w, by):
    """Make a heap of the running jobs in ``scratch``: the latest by key on top, or the one that is expected to end."""
    n = w.counts[state.N_RUNNING]
    for i in range(n):
        j = w.queue.running[i]
        w.scratch.ordered[i] = j
        if by == BY_KEY:
            w.jobs.key[j] = _key_now(w, j)
            w.scratch.sort_key[j] = -w.jobs.key[j]
        else:
            # Estimates, not true ends: a reservation may use no more than a scheduler has.
            left = max(0.0, w.jobs.estimate[j] - w.jobs.done[j]) / w.jobs.rate[j]
            end_s = max(w.now_s[0], w.jobs.since_s[j] + w.jobs.overhead_s[j] + left)
            w.scratch.sort_key[j] = min(end_s, w.jobs.limit_s[j])
    for position in range(n // 2 - 1, -1, -1):
        heap.sink(w.scratch.ordered, position, n, _comes_before, w, by)


# ---------------------------------------------------------------------- without preemption


@jit
def _start_in_order(w):
    """Start waiting jobs in order; return the position of the first that does not fit, if it ends there."""
    i, failed = 0, -1
    while i < w.counts[state.N_WAITING]:
        j = waiting_at(w, i)
        # Nothing has been released since `failed` did not fit, so no job that needs as much can fit.
        if (failed < 0 or not is_at_least(w, j, failed)) and _try_to_start(w, j):
            continue
        if w.rules[codes.RULE] != codes.SKIP or _is_full(w):
            return i
        failed = j
        i += 1
    return NOWHERE


@jit
def _reserve(w, head):
    """Return date, type, and number of further free GPUs with which the head of the queue could run: by counting."""
    _heap_running(w, BY_END)
    n_types = len(w.machine.type_gpus)
    wanted = max(1, w.jobs.n_gpus[head])
    for t in range(n_types):
        w.scratch.picked[t] = w.free.type_idle[t]
        # GPUs are counted by type, not placed: a gang may lie on any nodes of a type, so counting is nearly exact.
        if (w.jobs.allowed[head] >> t) & 1 and w.scratch.picked[t] >= wanted:
            return w.now_s[0], t, w.scratch.picked[t] - wanted
    for size in range(w.counts[state.N_RUNNING], 0, -1):
        j = heap.pop(w.scratch.ordered, size, _comes_before, w, BY_END)
        t = w.machine.node_type[w.jobs.held_node[j]]
        w.scratch.picked[t] += w.jobs.n_gpus[j]
        if (w.jobs.allowed[head] >> t) & 1 and w.scratch.picked[t] >= wanted:
            return w.scratch.sort_key[j], t, min(w.scratch.picked[t], w.machine.type_gpus[t]) - wanted
    return float("inf"), -1, 0


@jit
def _backfill(w, head_place):
    """Start jobs behind the head that do not delay it: those that end before, or take GPUs that it does not need."""
    shadow_s, shadow_type, extra = _reserve(w, waiting_at(w, head_place))
    i = head_place + 1
    while i < w.counts[state.N_WAITING] and not _is_full(w):
        j = waiting_at(w, i)
        node = find_gpus(w, j, w.rules[codes.PLACEMENT]) if may_fit(w, j) else NOWHERE
        if node == NOWHERE:
            i += 1
            continue
        rate = w.machine.rates[w.jobs.profile[j], w.machine.node_type[node], w.jobs.is_spread[j]]
        overhead_s = w.jobs.restart_s[j] if w.jobs.n_starts[j] > 0 else 0.0
        end_s = w.now_s[0] + overhead_s + max(0.0, w.jobs.estimate[j] - w.jobs.done[j]) / rate
        end_s = min(end_s, w.jobs.limit_s[j])
        # Only GPUs of the type that the head waits for can delay it.
        delays = end_s > shadow_s and w.machine.node_type[node] == shadow_type
        if delays and w.jobs.n_gpus[j] > extra:
            i += 1
            continue
        if delays:
            extra -= w.jobs.n_gpus[j]
        start(w, j, node)


# ---------------------------------------------------------------------- with preemption


@jit
def _n_to_release(w, j):
    """Return the number of running jobs that are behind a waiting one; 0 if their GPUs would not be enough."""
    n_types = len(w.machine.type_gpus)
    for t in range(n_types):
        w.scratch.picked[t] = w.free.type_idle[t]
    n = 0
    for i in range(w.counts[state.N_RUNNING]):
        victim = w.queue.running[i]
        # Strictly behind: equal jobs never preempt each other, which could go on without end.
        if w.jobs.key[victim] > w.jobs.key[j]:
            w.scratch.picked[w.machine.node_type[w.jobs.held_node[victim]]] += w.jobs.n_gpus[victim]
            n += 1
    # Necessary, not sufficient: cheap to see that preempting is in vain before any GPU is given back.
    for t in range(n_types):
        if (w.jobs.allowed[j] >> t) & 1 and w.scratch.picked[t] >= w.jobs.n_gpus[j]:
            return n
    return 0


@jit
def _can_go_back(w, j):
    """Return whether a job that was released could have its GPUs again."""
    # A victim whose very GPUs are still free goes on without a restart: it was released only on trial.
    for i in range(w.jobs.first_unit[j], w.jobs.first_unit[j] + w.jobs.n_gpus[j]):
        if w.free.gpu_free[w.jobs.units[i]] < w.jobs.milli[j]:
            return False
    move(w, j, -1)
    for i in range(w.jobs.first_unit[j], w.jobs.first_unit[j] + w.jobs.n_gpus[j]):
        n = w.machine.gpu_node[w.jobs.units[i]]
        if w.free.node_cpu_left[n] < 0 or w.free.node_memory_left[n] < 0:
            move(w, j, 1)
            return False
    return True


@jit
def _release(w, j):
    """Give back the GPUs of running jobs that are behind a waiting one, the latest first, until it fits.

    Returns the node where it does, and where in ``scratch`` the released jobs begin, which still count as running.
    """
    _heap_running(w, BY_KEY)
    most, size = _n_to_release(w, j), w.counts[state.N_RUNNING]
    last, node = size, NOWHERE
    while size > last - most and node == NOWHERE:
        move(w, heap.pop(w.scratch.ordered, size, _comes_before, w, BY_KEY), 1)
        size -= 1
        if may_fit(w, j):
            node = find_gpus(w, j, w.rules[codes.PLACEMENT])
    return node, size


@jit
def find_by_preempting(w, j):
    """Return the node on which a waiting job would start if running ones that are behind it gave way."""
    node, first = _release(w, j)
    for i in range(first, w.counts[state.N_RUNNING]):
        move(w, w.scratch.ordered[i], -1)
    return node


@jit
def start_by_preempting(w, j):
    """Start a waiting job for which running ones that are behind it give way; return whether it started."""
    last = w.counts[state.N_RUNNING]
    node, first = _release(w, j)
    if node == NOWHERE:
        for i in range(first, last):
            move(w, w.scratch.ordered[i], -1)
        return False
    start(w, j, node)
    for i in range(first, last):
        victim = w.scratch.ordered[i]
        # In the reverse order of release: the job that was least behind gets its GPUs back first.
        if not _can_go_back(w, victim):
            preempt(w, victim)
    return True


@jit
def latest_key(w):
    """Return the largest key of a running job."""
    latest = -float("inf")
    for i in range(w.counts[state.N_RUNNING]):
        latest = max(latest, _key_now(w, w.queue.running[i]))
    return latest


@jit
def _start_preempting(w):
    """Start waiting jobs in order; running ones that are behind them give way."""
    i, failed, latest = 0, -1, latest_key(w)
    while i < w.counts[state.N_WAITING]:
        j = waiting_at(w, i)
        # No running job is behind it, so preempting cannot help; the heap is not even built.
        is_behind_all = w.jobs.key[j] >= latest
        if is_behind_all and _is_full(w):
            return
        starts = False
        if failed < 0 or not is_at_least(w, j, failed):
            starts = _try_to_start(w, j)
            if not starts and not is_behind_all:
                starts = start_by_preempting(w, j)
        if starts:
            latest = max(latest, w.jobs.key[j])
            continue
        if w.rules[codes.RULE] != codes.SKIP:
            return
        failed = j
        i += 1


# ---------------------------------------------------------------------- dominant resource fairness


@jit
def _dominant_share(w, u):
    """Return the largest share of GPUs, cores and memory that a user has."""
    total_gpus, total_cpu, total_memory = 0.0, 0.0, 0.0
    for n in range(len(w.machine.node_type)):
        total_gpus += w.machine.node_gpus[n]
        total_cpu += w.machine.node_cpu[n]
        total_memory += w.machine.node_memory[n]
    share = w.free.user_use[u, 0] / total_gpus
    share = max(share, w.free.user_use[u, 1] / max(1.0, total_cpu))
    return max(share, w.free.user_use[u, 2] / max(1.0, total_memory))


@jit
def _start_fairly(w):
    """Start the first waiting job of the user with the smallest dominant share, again and again, while one fits."""
    n_users = w.free.user_use.shape[0]
    for u in range(n_users):
        w.free.user_use[u, 3] = 0.0  # whether the user's first job does not fit
    while True:
        # Progressive filling: shares change with every start, so the search begins anew each time.
        chosen, least = NOWHERE, 0.0
        for u in range(n_users):
            w.free.user_use[u, 4] = 0.0  # whether the user has been seen in the queue
        for i in range(w.counts[state.N_WAITING]):
            j = waiting_at(w, i)
            u = w.jobs.user[j]
            if w.free.user_use[u, 3] > 0.0 or w.free.user_use[u, 4] > 0.0:
                continue
            w.free.user_use[u, 4] = 1.0
            share = _dominant_share(w, u)
            if chosen == NOWHERE or share < least:
                chosen, least = j, share
        if chosen == NOWHERE:
            return
        if not _try_to_start(w, chosen):
            w.free.user_use[w.jobs.user[chosen], 3] = 1.0


@jit
def decide(w):
    """Start and preempt jobs as the rules say."""
    w.counts[state.NEEDS_DECISION] = 0
    w.counts[state.N_DECISIONS] += 1
    w.sums[state.DECIDED_S] = w.now_s[0]
    refresh(w)
    if w.rules[codes.ORDER] == codes.DRF:
        _start_fairly(w)
    elif w.rules[codes.PREEMPTS]:
        _start_preempting(w)
        w.counts[state.NEEDS_DECISION] = 0
    else:
        blocked = _start_in_order(w)
        if blocked != NOWHERE and w.rules[codes.RULE] == codes.EASY:
            _backfill(w, blocked)
