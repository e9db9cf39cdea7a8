"""Which waiting jobs start, and which running ones give way: an order, a placement, and a rule for what is behind."""

from __future__ import annotations

from hdrl.compiled.jit import jit
from hdrl.settings.gpu.kernel import codes, state
from hdrl.settings.gpu.kernel.placing import NOWHERE, find_place
from hdrl.settings.gpu.kernel.running import key_of, preempt, start, waiting_at
from hdrl.settings.gpu.kernel.state import move

BY_KEY, BY_END = range(2)


@jit
def may_fit(w, e, j):
    """Tell whether there could be room for a job; much faster than looking for it."""
    if w.n_gpus[e, j] == 0:
        return True
    for t in range(len(w.type_gpus)):
        if (w.allowed[e, j] >> t) & 1 and (w.milli[e, j] < 1000 or w.type_idle[e, t] >= w.n_gpus[e, j]):
            return True
    return False


@jit
def _is_full(w, e):
    """Tell whether no job can start because nothing of any GPU is left."""
    return w.rules[codes.NEEDS_GPUS] and w.sums[e, state.BUSY_NOW] > len(w.gpu_node) - 1e-6


@jit
def is_at_least(w, e, j, other):
    """Tell whether a job needs all that another one needs, or more."""
    return (
        w.n_gpus[e, j] >= w.n_gpus[e, other]
        and w.milli[e, j] >= w.milli[e, other]
        and w.cpu[e, j] * max(1, w.n_gpus[e, other]) >= w.cpu[e, other] * max(1, w.n_gpus[e, j])
        and w.memory[e, j] * max(1, w.n_gpus[e, other]) >= w.memory[e, other] * max(1, w.n_gpus[e, j])
        and w.cpu[e, j] >= w.cpu[e, other]
        and w.memory[e, j] >= w.memory[e, other]
        and (w.allowed[e, j] & ~w.allowed[e, other]) == 0
    )


@jit
def _try_to_start(w, e, j):
    """Start a waiting job if it fits; tell whether it did."""
    if not may_fit(w, e, j):
        return False
    node = find_place(w, e, j, w.rules[codes.PLACEMENT])
    if node == NOWHERE:
        return False
    start(w, e, j, node)
    return True


@jit
def _sift_down(w, e, place, size, by):
    j = w.scratch[e, place]
    while True:
        below = 2 * place + 1
        if below >= size:
            break
        if below + 1 < size and _is_after(w, e, w.scratch[e, below], w.scratch[e, below + 1], by):
            below += 1
        if not _is_after(w, e, j, w.scratch[e, below], by):
            break
        w.scratch[e, place] = w.scratch[e, below]
        place = below
    w.scratch[e, place] = j


@jit
def _heap_running(w, e, by):
    """Make a heap of the running jobs in ``scratch``: the latest by key on top, or the one that is expected to end."""
    n = w.counts[e, state.N_RUNNING]
    for i in range(n):
        j = w.running[e, i]
        w.scratch[e, i] = j
        if by == BY_KEY:
            w.key[e, j] = key_of(w, e, j)
            w.sort_key[e, j] = -w.key[e, j]
        else:
            left = max(0.0, w.estimate[e, j] - w.done[e, j]) / w.rate[e, j]
            end_s = max(w.now_s[e], w.since_s[e, j] + w.overhead_s[e, j] + left)
            w.sort_key[e, j] = min(end_s, w.limit_s[e, j])
    for place in range(n // 2 - 1, -1, -1):
        _sift_down(w, e, place, n, by)


@jit
def _pop(w, e, size, by):
    """Take the top off the heap and put it behind it; return it."""
    top = w.scratch[e, 0]
    w.scratch[e, 0] = w.scratch[e, size - 1]
    w.scratch[e, size - 1] = top
    _sift_down(w, e, 0, size - 1, by)
    return top


@jit
def _is_after(w, e, one, other, by):
    """Tell whether a running job comes out of the heap after another one."""
    if w.sort_key[e, one] != w.sort_key[e, other]:
        return w.sort_key[e, one] > w.sort_key[e, other]
    return one < other if by == BY_KEY else one > other


# ---------------------------------------------------------------------- without preemption


@jit
def _start_in_order(w, e):
    """Start waiting jobs in order; return the place in the queue of the first that does not fit, if it ends there."""
    i, failed = 0, -1
    while i < w.counts[e, state.N_WAITING]:
        j = waiting_at(w, e, i)
        if (failed < 0 or not is_at_least(w, e, j, failed)) and _try_to_start(w, e, j):
            continue
        if w.rules[codes.RULE] != codes.SKIP or _is_full(w, e):
            return i
        failed = j
        i += 1
    return NOWHERE


@jit
def _reserve(w, e, head):
    """Return when, on which type, and beside how many further GPUs the head of the queue could run: by counting."""
    _heap_running(w, e, BY_END)
    n_types = len(w.type_gpus)
    wanted = max(1, w.n_gpus[e, head])
    for t in range(n_types):
        w.picked[e, t] = w.type_idle[e, t]
        if (w.allowed[e, head] >> t) & 1 and w.picked[e, t] >= wanted:
            return w.now_s[e], t, w.picked[e, t] - wanted
    for size in range(w.counts[e, state.N_RUNNING], 0, -1):
        j = _pop(w, e, size, BY_END)
        t = w.node_type[w.held_node[e, j]]
        w.picked[e, t] += w.n_gpus[e, j]
        if (w.allowed[e, head] >> t) & 1 and w.picked[e, t] >= wanted:
            return w.sort_key[e, j], t, min(w.picked[e, t], w.type_gpus[t]) - wanted
    return float("inf"), -1, 0


@jit
def _backfill(w, e, head_place):
    """Start jobs behind the head that do not delay it: those that end before, or take GPUs that it does not need."""
    shadow_s, shadow_type, extra = _reserve(w, e, waiting_at(w, e, head_place))
    i = head_place + 1
    while i < w.counts[e, state.N_WAITING] and not _is_full(w, e):
        j = waiting_at(w, e, i)
        node = find_place(w, e, j, w.rules[codes.PLACEMENT]) if may_fit(w, e, j) else NOWHERE
        if node == NOWHERE:
            i += 1
            continue
        rate = w.rates[w.profile[e, j], w.node_type[node], w.is_spread[e, j]]
        overhead_s = w.restart_s[e, j] if w.n_starts[e, j] > 0 else 0.0
        end_s = w.now_s[e] + overhead_s + max(0.0, w.estimate[e, j] - w.done[e, j]) / rate
        end_s = min(end_s, w.limit_s[e, j])
        delays = end_s > shadow_s and w.node_type[node] == shadow_type
        if delays and w.n_gpus[e, j] > extra:
            i += 1
            continue
        if delays:
            extra -= w.n_gpus[e, j]
        start(w, e, j, node)


# ---------------------------------------------------------------------- with preemption


@jit
def _n_to_release(w, e, j):
    """Return how many running jobs are behind a waiting one; 0 if their GPUs would not be enough."""
    n_types = len(w.type_gpus)
    for t in range(n_types):
        w.picked[e, t] = w.type_idle[e, t]
    n = 0
    for i in range(w.counts[e, state.N_RUNNING]):
        victim = w.running[e, i]
        if w.key[e, victim] > w.key[e, j]:
            w.picked[e, w.node_type[w.held_node[e, victim]]] += w.n_gpus[e, victim]
            n += 1
    for t in range(n_types):
        if (w.allowed[e, j] >> t) & 1 and w.picked[e, t] >= w.n_gpus[e, j]:
            return n
    return 0


@jit
def _can_go_back(w, e, j):
    """Tell whether a job that was released could have its GPUs again."""
    for i in range(w.first_unit[e, j], w.first_unit[e, j] + w.n_gpus[e, j]):
        if w.gpu_free[e, w.units[e, i]] < w.milli[e, j]:
            return False
    move(w, e, j, -1)
    for i in range(w.first_unit[e, j], w.first_unit[e, j] + w.n_gpus[e, j]):
        n = w.gpu_node[w.units[e, i]]
        if w.node_cpu_left[e, n] < 0 or w.node_memory_left[e, n] < 0:
            move(w, e, j, 1)
            return False
    return True


@jit
def _release(w, e, j):
    """Give back the GPUs of running jobs that are behind a waiting one, the latest first, until it fits.

    Returns the node where it does, and where in ``scratch`` the released jobs begin, which still count as running.
    """
    _heap_running(w, e, BY_KEY)
    most, size = _n_to_release(w, e, j), w.counts[e, state.N_RUNNING]
    last, node = size, NOWHERE
    while size > last - most and node == NOWHERE:
        move(w, e, _pop(w, e, size, BY_KEY), 1)
        size -= 1
        if may_fit(w, e, j):
            node = find_place(w, e, j, w.rules[codes.PLACEMENT])
    return node, size


@jit
def find_by_preempting(w, e, j):
    """Return the node on which a waiting job would start if running ones that are behind it gave way."""
    node, first = _release(w, e, j)
    for i in range(first, w.counts[e, state.N_RUNNING]):
        move(w, e, w.scratch[e, i], -1)
    return node


@jit
def start_by_preempting(w, e, j):
    """Start a waiting job for which running ones that are behind it give way; tell whether it started."""
    last = w.counts[e, state.N_RUNNING]
    node, first = _release(w, e, j)
    if node == NOWHERE:
        for i in range(first, last):
            move(w, e, w.scratch[e, i], -1)
        return False
    start(w, e, j, node)
    for i in range(first, last):
        victim = w.scratch[e, i]
        if not _can_go_back(w, e, victim):
            preempt(w, e, victim)
    return True


@jit
def latest_key(w, e):
    """Return the largest key of a running job."""
    latest = -float("inf")
    for i in range(w.counts[e, state.N_RUNNING]):
        latest = max(latest, key_of(w, e, w.running[e, i]))
    return latest


@jit
def _start_preempting(w, e):
    """Start waiting jobs in order; running ones that are behind them give way."""
    i, failed, latest = 0, -1, latest_key(w, e)
    while i < w.counts[e, state.N_WAITING]:
        j = waiting_at(w, e, i)
        is_behind_all = w.key[e, j] >= latest
        if is_behind_all and _is_full(w, e):
            return
        starts = False
        if failed < 0 or not is_at_least(w, e, j, failed):
            starts = _try_to_start(w, e, j)
            if not starts and not is_behind_all:
                starts = start_by_preempting(w, e, j)
        if starts:
            latest = max(latest, w.key[e, j])
            continue
        if w.rules[codes.RULE] != codes.SKIP:
            return
        failed = j
        i += 1


# ---------------------------------------------------------------------- dominant resource fairness


@jit
def _dominant_share(w, e, u):
    """Return the largest share of GPUs, cores and memory that a user has."""
    total_gpus, total_cpu, total_memory = 0.0, 0.0, 0.0
    for n in range(len(w.node_type)):
        total_gpus += w.node_gpus[n]
        total_cpu += w.node_cpu[n]
        total_memory += w.node_memory[n]
    share = w.user_use[e, u, 0] / total_gpus
    share = max(share, w.user_use[e, u, 1] / max(1.0, total_cpu))
    return max(share, w.user_use[e, u, 2] / max(1.0, total_memory))


@jit
def _start_fairly(w, e):
    """Start the first waiting job of the user with the smallest dominant share, again and again, while one fits."""
    n_users = w.user_use.shape[1]
    for u in range(n_users):
        w.user_use[e, u, 3] = 0.0  # whether the user's first job does not fit
    while True:
        chosen, least = NOWHERE, 0.0
        for u in range(n_users):
            w.user_use[e, u, 4] = 0.0  # whether the user has been seen in the queue
        for i in range(w.counts[e, state.N_WAITING]):
            j = waiting_at(w, e, i)
            u = w.user[e, j]
            if w.user_use[e, u, 3] > 0.0 or w.user_use[e, u, 4] > 0.0:
                continue
            w.user_use[e, u, 4] = 1.0
            share = _dominant_share(w, e, u)
            if chosen == NOWHERE or share < least:
                chosen, least = j, share
        if chosen == NOWHERE:
            return
        if not _try_to_start(w, e, chosen):
            w.user_use[e, w.user[e, chosen], 3] = 1.0


@jit
def decide(w, e):
    """Start and preempt jobs as the rules say."""
    w.counts[e, state.NEEDS_DECISION] = 0
    w.counts[e, state.N_DECISIONS] += 1
    if w.rules[codes.ORDER] == codes.DRF:
        _start_fairly(w, e)
    elif w.rules[codes.PREEMPTS]:
        _start_preempting(w, e)
        w.counts[e, state.NEEDS_DECISION] = 0
    else:
        blocked = _start_in_order(w, e)
        if blocked != NOWHERE and w.rules[codes.RULE] == codes.EASY:
            _backfill(w, e, blocked)
