"""Jobs that come, start, stop and end: the queue, the heap of events, progress and the log of stays."""

from __future__ import annotations

import math

from hdrl.compiled.jit import jit
from hdrl.settings.gpu.kernel import codes, state
from hdrl.settings.gpu.kernel.state import move


@jit
def _sift_up(w, e, place):
    j = w.heap[e, place]
    while place > 0:
        above = (place - 1) >> 1
        other = w.heap[e, above]
        if w.event_s[e, other] <= w.event_s[e, j]:
            break
        w.heap[e, place] = other
        w.heap_place[e, other] = place
        place = above
    w.heap[e, place] = j
    w.heap_place[e, j] = place


@jit
def _sift_down(w, e, place):
    size = w.counts[e, state.N_EVENTS]
    j = w.heap[e, place]
    while True:
        below = 2 * place + 1
        if below >= size:
            break
        if below + 1 < size and w.event_s[e, w.heap[e, below + 1]] < w.event_s[e, w.heap[e, below]]:
            below += 1
        other = w.heap[e, below]
        if w.event_s[e, other] >= w.event_s[e, j]:
            break
        w.heap[e, place] = other
        w.heap_place[e, other] = place
        place = below
    w.heap[e, place] = j
    w.heap_place[e, j] = place


@jit
def push_event(w, e, j, time_s):
    """Set the date of the next event of a job."""
    w.event_s[e, j] = time_s
    place = w.heap_place[e, j]
    if place < 0:
        place = w.counts[e, state.N_EVENTS]
        w.counts[e, state.N_EVENTS] += 1
        w.heap[e, place] = j
        w.heap_place[e, j] = place
    _sift_up(w, e, place)
    _sift_down(w, e, w.heap_place[e, j])


@jit
def _drop_event(w, e, j):
    place = w.heap_place[e, j]
    if place < 0:
        return
    w.heap_place[e, j] = -1
    w.counts[e, state.N_EVENTS] -= 1
    size = w.counts[e, state.N_EVENTS]
    if place < size:
        last = w.heap[e, size]
        w.heap[e, place] = last
        w.heap_place[e, last] = place
        _sift_up(w, e, place)
        _sift_down(w, e, w.heap_place[e, last])


@jit
def worked(w, e, j):
    """Return the work that a job has done by now."""
    if w.status[e, j] != codes.RUNNING:
        return w.done[e, j]
    return w.done[e, j] + max(0.0, w.now_s[e] - w.since_s[e, j] - w.overhead_s[e, j]) * w.rate[e, j]


@jit
def served_s(w, e, j):
    """Return the time that a job has run by now, what was lost included."""
    if w.status[e, j] != codes.RUNNING:
        return w.service_s[e, j]
    return w.service_s[e, j] + w.now_s[e] - w.since_s[e, j]


@jit
def attained(w, e, j):
    """Return the time, or the GPU time, that a job has had by now: what its order goes by."""
    time_s = served_s(w, e, j)
    return time_s if w.rules[codes.ORDER] == codes.LAS else time_s * _width(w, e, j)


@jit
def _width(w, e, j):
    return w.n_gpus[e, j] * w.milli[e, j] / 1000.0


@jit
def has_levels(w):
    """Tell whether the order is by attained time."""
    order = w.rules[codes.ORDER]
    return order == codes.LAS or order == codes.LAS_2D or order == codes.GITTINS


@jit
def key_of(w, e, j):
    """Return the key of a job in the order of the policy now; smaller is earlier."""
    order = w.rules[codes.ORDER]
    if order == codes.SJF:
        return w.estimate[e, j] / w.best_rate[e, j]
    if order == codes.LJF:
        return -w.estimate[e, j] / w.best_rate[e, j]
    if order == codes.SRTF or order == codes.SRSF:
        left_s = max(0.0, w.estimate[e, j] - worked(w, e, j)) / w.best_rate[e, j]
        return left_s if order == codes.SRTF else left_s * _width(w, e, j)
    if order == codes.PRIORITY:
        return -w.priority[e, j]
    if order == codes.SMALLEST:
        return _width(w, e, j)
    if has_levels(w):
        return w.level_keys[w.level[e, j]] if len(w.level_bounds) > 0 else attained(w, e, j)
    return 0.0 if order == codes.FIFO or order == codes.DRF else math.nan


@jit
def waiting_at(w, e, i):
    """Return the job at a place of the queue."""
    return w.queue[e, w.counts[e, state.QUEUE_HEAD] + i]


@jit
def _place_in_queue(w, e, j):
    """Return where a job with its key belongs in the queue."""
    low, high = 0, w.counts[e, state.N_WAITING]
    while low < high:
        middle = (low + high) >> 1
        other = waiting_at(w, e, middle)
        if w.key[e, other] < w.key[e, j] or (w.key[e, other] == w.key[e, j] and other < j):
            low = middle + 1
        else:
            high = middle
    return low


@jit
def enqueue(w, e, j):
    """Let a job wait; the shorter side of the queue makes room."""
    w.status[e, j] = codes.WAITING
    w.key[e, j] = key_of(w, e, j)
    place, n, head = _place_in_queue(w, e, j), w.counts[e, state.N_WAITING], w.counts[e, state.QUEUE_HEAD]
    if head > 0 and (2 * place < n or head + n >= w.queue.shape[1]):
        head -= 1
        for i in range(head, head + place):
            w.queue[e, i] = w.queue[e, i + 1]
        w.counts[e, state.QUEUE_HEAD] = head
    else:
        for i in range(head + n, head + place, -1):
            w.queue[e, i] = w.queue[e, i - 1]
    w.queue[e, head + place] = j
    w.counts[e, state.N_WAITING] = n + 1
    w.counts[e, state.NEEDS_DECISION] = 1
    if w.limit_s[e, j] < math.inf:
        push_event(w, e, j, w.limit_s[e, j])


@jit
def _dequeue(w, e, j):
    place, n, head = _place_in_queue(w, e, j), w.counts[e, state.N_WAITING], w.counts[e, state.QUEUE_HEAD]
    w.counts[e, state.N_WAITING] = n - 1
    if 2 * place < n:
        for i in range(head + place, head, -1):
            w.queue[e, i] = w.queue[e, i - 1]
        w.counts[e, state.QUEUE_HEAD] = head + 1
    else:
        for i in range(head + place, head + n - 1):
            w.queue[e, i] = w.queue[e, i + 1]


@jit
def _done_s(w, e, j):
    """Return when a running job will have done its work."""
    return w.since_s[e, j] + w.overhead_s[e, j] + (w.work[e, j] - w.done[e, j]) / w.rate[e, j]


@jit
def _next_event_s(w, e, j):
    """Return when a running job ends, or comes to its next level."""
    end_s = min(_done_s(w, e, j), w.limit_s[e, j])
    level = w.level[e, j]
    if has_levels(w) and level < len(w.level_bounds):
        pace = 1.0 if w.rules[codes.ORDER] == codes.LAS else _width(w, e, j)
        if pace > 0.0:
            end_s = min(end_s, w.since_s[e, j] + w.level_bounds[level] / pace - w.service_s[e, j])
    return end_s


@jit
def start(w, e, j, node):
    """Start a waiting job on the GPUs in ``picked``."""
    _dequeue(w, e, j)
    moved = w.n_starts[e, j] > 0 and w.held_node[e, j] != node
    first = w.first_unit[e, j]
    for i in range(w.n_gpus[e, j]):
        moved |= w.n_starts[e, j] > 0 and w.units[e, first + i] != w.picked[e, i]
        w.units[e, first + i] = w.picked[e, i]
    w.held_node[e, j] = node
    move(w, e, j, -1)
    w.status[e, j] = codes.RUNNING
    w.since_s[e, j] = w.now_s[e]
    w.rate[e, j] = w.rates[w.profile[e, j], w.node_type[node], w.is_spread[e, j]]
    if w.n_starts[e, j] == 0:
        w.start_s[e, j] = w.now_s[e]
    w.overhead_s[e, j] = w.restart_s[e, j] if w.n_starts[e, j] > 0 else 0.0
    w.counts[e, state.N_MIGRATIONS] += moved
    w.n_starts[e, j] += 1
    w.running[e, w.counts[e, state.N_RUNNING]] = j
    w.running_place[e, j] = w.counts[e, state.N_RUNNING]
    w.counts[e, state.N_RUNNING] += 1
    push_event(w, e, j, _next_event_s(w, e, j))


@jit
def _log(w, e, j):
    """Write a stay that ends now down; one that was preempted as soon as it began is none."""
    if w.rules[codes.RECORDS] == 0 or w.now_s[e] <= w.since_s[e, j]:
        return
    place, first = w.counts[e, state.N_STAYS], w.counts[e, state.N_UNITS]
    w.stay_job[place], w.stay_first[place] = j, first
    w.stay_start_s[place], w.stay_end_s[place], w.stay_rate[place] = w.since_s[e, j], w.now_s[e], w.rate[e, j]
    w.stay_overhead_s[place] = w.overhead_s[e, j]
    for i in range(w.n_gpus[e, j]):
        w.stay_units[first + i] = w.units[e, w.first_unit[e, j] + i]
    w.counts[e, state.N_STAYS] += 1
    w.counts[e, state.N_UNITS] += w.n_gpus[e, j]


@jit
def leave(w, e, j):
    """Take a job off the list of running ones; its GPUs have been given back."""
    ran_s = w.now_s[e] - w.since_s[e, j]
    w.service_s[e, j] += ran_s
    w.sums[e, state.BUSY_S] += ran_s * _width(w, e, j)
    _log(w, e, j)
    place, last = w.running_place[e, j], w.counts[e, state.N_RUNNING] - 1
    other = w.running[e, last]
    w.running[e, place] = other
    w.running_place[e, other] = place
    w.running_place[e, j] = -1
    w.counts[e, state.N_RUNNING] = last
    _drop_event(w, e, j)


@jit
def preempt(w, e, j):
    """Let a running job whose GPUs have been given back wait; what it did since its last checkpoint is lost."""
    useful_s = max(0.0, w.now_s[e] - w.since_s[e, j] - w.overhead_s[e, j])
    kept_s = useful_s
    if w.checkpoint_s[0] > 0.0:
        kept_s = useful_s // w.checkpoint_s[0] * w.checkpoint_s[0]
    w.sums[e, state.LOST_S] += (w.now_s[e] - w.since_s[e, j] - kept_s) * _width(w, e, j)
    done = min(w.done[e, j] + kept_s * w.rate[e, j], w.work[e, j])
    leave(w, e, j)
    w.done[e, j] = done
    w.counts[e, state.N_PREEMPTIONS] += 1
    enqueue(w, e, j)


@jit
def _finish(w, e, j, status):
    """End a job that has done its work, or one whose time is over, which may wait."""
    if w.status[e, j] == codes.RUNNING:
        move(w, e, j, 1)
        w.sums[e, state.LOST_S] += min(w.overhead_s[e, j], w.now_s[e] - w.since_s[e, j]) * _width(w, e, j)
        done = w.work[e, j] if status == codes.DONE else worked(w, e, j)
        leave(w, e, j)
        w.done[e, j] = done
    else:
        _dequeue(w, e, j)
        _drop_event(w, e, j)
    w.status[e, j] = status
    w.end_s[e, j] = w.now_s[e]
    jct_s = w.now_s[e] - w.arrival_s[e, j]
    w.sums[e, state.JCT_S] += jct_s
    w.sums[e, state.SLOWDOWN] += jct_s * w.best_rate[e, j] / w.work[e, j]
    w.sums[e, state.PRIORITY_JCT_S] += jct_s * w.priority[e, j]
    w.sums[e, state.PRIORITY_DONE] += w.priority[e, j]
    w.counts[e, state.N_DONE] += 1
    w.sums[e, state.SLOW_NOW] -= w.best_rate[e, j] / w.work[e, j]
    w.sums[e, state.PRIORITY_NOW] -= w.priority[e, j]


@jit
def _happen(w, e, j):
    """Carry out the event of a job: its end, its limit, or its next level."""
    w.counts[e, state.NEEDS_DECISION] = 1
    if w.status[e, j] == codes.RUNNING and w.now_s[e] >= _done_s(w, e, j):
        _finish(w, e, j, codes.DONE)
        return
    if w.now_s[e] >= w.limit_s[e, j]:
        _finish(w, e, j, codes.OVERRAN)
        return
    w.level[e, j] += 1
    push_event(w, e, j, max(w.now_s[e], _next_event_s(w, e, j)))


@jit
def go_to(w, e, time_s):
    """Move the clock to a date before or at the next event, and carry out what happens then."""
    passed_s = time_s - w.sums[e, state.LAST_S]
    waiting = w.counts[e, state.N_WAITING]
    w.sums[e, state.WAITING_S] += waiting * passed_s
    w.sums[e, state.SYSTEM_S] += (waiting + w.counts[e, state.N_RUNNING]) * passed_s
    w.sums[e, state.SLOW_S] += w.sums[e, state.SLOW_NOW] * passed_s
    w.sums[e, state.PRIORITY_S] += w.sums[e, state.PRIORITY_NOW] * passed_s
    w.sums[e, state.LAST_S] = w.now_s[e] = time_s
    while w.counts[e, state.N_EVENTS] > 0 and w.event_s[e, w.heap[e, 0]] <= time_s:
        _happen(w, e, w.heap[e, 0])
    while w.counts[e, state.NEXT_JOB] < w.n_jobs[e]:
        j = w.counts[e, state.NEXT_JOB]
        if w.arrival_s[e, j] > time_s:
            break
        w.counts[e, state.NEXT_JOB] += 1
        w.sums[e, state.SLOW_NOW] += w.best_rate[e, j] / w.work[e, j]
        w.sums[e, state.PRIORITY_NOW] += w.priority[e, j]
        enqueue(w, e, j)


@jit
def next_event_s(w, e):
    """Return the date of the next arrival or event, infinite if there is none."""
    found = float("inf")
    if w.counts[e, state.NEXT_JOB] < w.n_jobs[e]:
        found = w.arrival_s[e, w.counts[e, state.NEXT_JOB]]
    if w.counts[e, state.N_EVENTS] > 0:
        found = min(found, w.event_s[e, w.heap[e, 0]])
    return found
