"""Jobs that come, start, stop and end: the queue, the heap of events, progress and the log of stays."""

from __future__ import annotations

import math

from hdrl.compiled import heap
from hdrl.compiled.jit import jit
from hdrl.settings.gpu.kernel import codes, state
from hdrl.settings.gpu.kernel.history import count_ended_job, look_at, predicted_key
from hdrl.settings.gpu.kernel.index import index_of
from hdrl.settings.gpu.kernel.state import move


@jit
def push_event(w, j, time_s):
    """Set the date of the next event of a job."""
    w.counts[state.N_EVENTS] = heap.push(w.queue.events, w.counts[state.N_EVENTS], j, time_s, 0)


@jit
def _drop_event(w, j):
    w.counts[state.N_EVENTS] = heap.remove(w.queue.events, w.counts[state.N_EVENTS], j)


@jit
def worked(w, j):
    """Return the work that a job has done by now."""
    if w.jobs.status[j] != codes.RUNNING:
        return w.jobs.done[j]
    # Nothing is done during the restart (overhead_s), which comes first in every stay.
    return w.jobs.done[j] + max(0.0, w.now_s[0] - w.jobs.since_s[j] - w.jobs.overhead_s[j]) * w.jobs.rate[j]


@jit
def served_s(w, j):
    """Return the time that a job has run by now, what was lost included."""
    if w.jobs.status[j] != codes.RUNNING:
        return w.jobs.service_s[j]
    return w.jobs.service_s[j] + w.now_s[0] - w.jobs.since_s[j]


@jit
def attained(w, j):
    """Return the time, or the GPU time, that a job has had by now, as its order counts it."""
    time_s = served_s(w, j)
    return time_s if w.rules[codes.ORDER] == codes.LAS else time_s * _width(w, j)


@jit
def _width(w, j):
    return w.jobs.n_gpus[j] * w.jobs.milli[j] / 1000.0


@jit
def has_levels(w):
    """Return whether the order is by attained time."""
    order = w.rules[codes.ORDER]
    return order == codes.LAS or order == codes.LAS_2D or order == codes.GITTINS


@jit
def orders_by_history(w):
    """Return whether the order is by what history predicts, so that keys of waiting jobs change, too."""
    return w.rules[codes.ORDER] >= codes.SJF_HISTORY


@jit
def key_of(w, j):
    """Return the key of a job in the order of the policy now; smaller is earlier."""
    order = w.rules[codes.ORDER]
    if order == codes.SJF:
        return w.jobs.estimate[j] / w.jobs.best_rate[j]
    if order == codes.LJF:
        return -w.jobs.estimate[j] / w.jobs.best_rate[j]
    if order == codes.SRTF or order == codes.SRSF:
        # Users may underestimate: a job that has done more than its estimate has 0 left, not less.
        left_s = max(0.0, w.jobs.estimate[j] - worked(w, j)) / w.jobs.best_rate[j]
        return left_s if order == codes.SRTF else left_s * _width(w, j)
    if order == codes.PRIORITY:
        return -w.jobs.priority[j]
    if order == codes.SMALLEST:
        return _width(w, j)
    if has_levels(w):
        return w.level_keys[w.jobs.level[j]] if len(w.level_bounds) > 0 else attained(w, j)
    if orders_by_history(w):
        done_s = worked(w, j) / w.jobs.best_rate[j]
        look_at(w, j, done_s)
        if order == codes.INDEX:
            return index_of(w, j, _width(w, j), served_s(w, j))
        return predicted_key(w, j, order, _width(w, j))
    return 0.0 if order == codes.FIFO or order == codes.DRF else math.nan


@jit
def waiting_at(w, i):
    """Return the job at a position of the queue."""
    return w.queue.waiting[w.counts[state.QUEUE_HEAD] + i]


@jit
def _queue_position(w, j):
    """Return the position in the queue of a job with its key."""
    low, high = 0, w.counts[state.N_WAITING]
    while low < high:
        middle = (low + high) >> 1
        other = waiting_at(w, middle)
        # Jobs are numbered by arrival, so equal keys are first come, first served.
        if w.jobs.key[other] < w.jobs.key[j] or (w.jobs.key[other] == w.jobs.key[j] and other < j):
            low = middle + 1
        else:
            high = middle
    return low


@jit
def refresh(w):
    """Bring keys and the queue up to date, where they change by themselves; the keys of running jobs, too."""
    # Only predictions change keys of waiting jobs without an event of the job itself.
    if not orders_by_history(w):
        return
    first, n = w.counts[state.QUEUE_HEAD], w.counts[state.N_WAITING]
    w.sums[state.QUEUED_GPUS] = 0.0
    for i in range(first, first + n):
        w.sums[state.QUEUED_GPUS] += _width(w, w.queue.waiting[i])
    for i in range(w.counts[state.N_RUNNING]):
        w.jobs.key[w.queue.running[i]] = key_of(w, w.queue.running[i])
    for i in range(first, first + n):
        j = w.queue.waiting[i]
        w.jobs.key[j] = key_of(w, j)
        position = i
        # Insertion sort: keys drift slowly, so the queue is nearly sorted already.
        while position > first and _is_behind(w, w.queue.waiting[position - 1], j):
            w.queue.waiting[position] = w.queue.waiting[position - 1]
            position -= 1
        w.queue.waiting[position] = j


@jit
def _is_behind(w, one, other):
    """Return whether a waiting job belongs behind another one."""
    return w.jobs.key[one] > w.jobs.key[other] or (w.jobs.key[one] == w.jobs.key[other] and one > other)


@jit
def enqueue(w, j):
    """Let a job wait; the shorter side of the queue makes room."""
    w.jobs.status[j] = codes.WAITING
    w.jobs.key[j] = key_of(w, j)
    position, n, head = _queue_position(w, j), w.counts[state.N_WAITING], w.counts[state.QUEUE_HEAD]
    # The queue begins anywhere in its array, so that either side can move: half the copies of a fixed beginning.
    if head > 0 and (2 * position < n or head + n >= len(w.queue.waiting)):
        head -= 1
        for i in range(head, head + position):
            w.queue.waiting[i] = w.queue.waiting[i + 1]
        w.counts[state.QUEUE_HEAD] = head
    else:
        for i in range(head + n, head + position, -1):
            w.queue.waiting[i] = w.queue.waiting[i - 1]
    w.queue.waiting[head + position] = j
    w.counts[state.N_WAITING] = n + 1
    w.counts[state.NEEDS_DECISION] = 1
    # Its limit holds for a waiting job, too: at its deadline a job leaves the queue unserved.
    if w.jobs.limit_s[j] < math.inf:
        push_event(w, j, w.jobs.limit_s[j])


@jit
def _dequeue(w, j):
    position, n, head = _queue_position(w, j), w.counts[state.N_WAITING], w.counts[state.QUEUE_HEAD]
    w.counts[state.N_WAITING] = n - 1
    if 2 * position < n:
        for i in range(head + position, head, -1):
            w.queue.waiting[i] = w.queue.waiting[i - 1]
        w.counts[state.QUEUE_HEAD] = head + 1
    else:
        for i in range(head + position, head + n - 1):
            w.queue.waiting[i] = w.queue.waiting[i + 1]


@jit
def _done_s(w, j):
    """Return the date at which a running job will have done its work."""
    return w.jobs.since_s[j] + w.jobs.overhead_s[j] + (w.jobs.work[j] - w.jobs.done[j]) / w.jobs.rate[j]


@jit
def _next_event_s(w, j):
    """Return the date at which a running job ends, or reaches its next level."""
    end_s = min(_done_s(w, j), w.jobs.limit_s[j])
    level = w.jobs.level[j]
    if has_levels(w) and level < len(w.level_bounds):
        # Levels are bounds of attained service, so wide jobs reach them sooner where GPU time counts.
        pace = 1.0 if w.rules[codes.ORDER] == codes.LAS else _width(w, j)
        if pace > 0.0:
            end_s = min(end_s, w.jobs.since_s[j] + w.level_bounds[level] / pace - w.jobs.service_s[j])
    return end_s


@jit
def start(w, j, node):
    """Start a waiting job on the GPUs in ``picked``."""
    _dequeue(w, j)
    # A migration is a restart anywhere but on the very same GPUs.
    moved = w.jobs.n_starts[j] > 0 and w.jobs.held_node[j] != node
    first = w.jobs.first_unit[j]
    for i in range(w.jobs.n_gpus[j]):
        moved |= w.jobs.n_starts[j] > 0 and w.jobs.units[first + i] != w.scratch.picked[i]
        w.jobs.units[first + i] = w.scratch.picked[i]
    w.jobs.held_node[j] = node
    move(w, j, -1)
    w.jobs.status[j] = codes.RUNNING
    if orders_by_history(w):
        # It gives way to no job in this decision: preempted jobs may get other keys, without end.
        w.jobs.key[j] = -math.inf
    w.jobs.since_s[j] = w.now_s[0]
    w.jobs.rate[j] = w.machine.rates[w.jobs.profile[j], w.machine.node_type[node], w.jobs.is_spread[j]]
    if w.jobs.n_starts[j] == 0:
        w.jobs.start_s[j] = w.now_s[0]
    w.jobs.overhead_s[j] = w.jobs.restart_s[j] if w.jobs.n_starts[j] > 0 else 0.0
    w.counts[state.N_MIGRATIONS] += moved
    w.jobs.n_starts[j] += 1
    w.queue.running[w.counts[state.N_RUNNING]] = j
    w.queue.running_place[j] = w.counts[state.N_RUNNING]
    w.counts[state.N_RUNNING] += 1
    push_event(w, j, _next_event_s(w, j))


@jit
def _log(w, j):
    """Write a stay that ends now down; one that was preempted as soon as it began is none."""
    if w.rules[codes.RECORDS] == 0 or w.now_s[0] <= w.jobs.since_s[j]:
        return
    position, first = w.counts[state.N_STAYS], w.counts[state.N_UNITS]
    w.log.stay_job[position], w.log.stay_first[position] = j, first
    w.log.stay_start_s[position], w.log.stay_end_s[position] = w.jobs.since_s[j], w.now_s[0]
    w.log.stay_rate[position] = w.jobs.rate[j]
    w.log.stay_overhead_s[position] = w.jobs.overhead_s[j]
    for i in range(w.jobs.n_gpus[j]):
        w.log.stay_units[first + i] = w.jobs.units[w.jobs.first_unit[j] + i]
    w.counts[state.N_STAYS] += 1
    w.counts[state.N_UNITS] += w.jobs.n_gpus[j]


@jit
def leave(w, j):
    """Take a job off the list of running ones; its GPUs have been given back."""
    # Time that restarts took, or that is lost since the last checkpoint, was served all the same.
    ran_s = w.now_s[0] - w.jobs.since_s[j]
    w.jobs.service_s[j] += ran_s
    w.sums[state.BUSY_S] += ran_s * _width(w, j)
    _log(w, j)
    position, last = w.queue.running_place[j], w.counts[state.N_RUNNING] - 1
    # The last one fills the gap, in O(1). Heaps compare jobs themselves, but rows of agents follow this order.
    other = w.queue.running[last]
    w.queue.running[position] = other
    w.queue.running_place[other] = position
    w.queue.running_place[j] = -1
    w.counts[state.N_RUNNING] = last
    _drop_event(w, j)


@jit
def _end(w, j, status):
    """Count a job that has left the cluster and the queue."""
    w.jobs.status[j] = status
    w.jobs.end_s[j] = w.now_s[0]
    if status == codes.DONE:
        count_ended_job(w, j)
    jct_s = w.now_s[0] - w.jobs.arrival_s[j]
    w.sums[state.JCT_S] += jct_s
    w.sums[state.SLOWDOWN] += jct_s * w.jobs.best_rate[j] / w.jobs.work[j]
    w.sums[state.PRIORITY_JCT_S] += jct_s * w.jobs.priority[j]
    w.sums[state.PRIORITY_DONE] += w.jobs.priority[j]
    w.counts[state.N_DONE] += 1
    # SLOW_NOW and PRIORITY_NOW are sums over the jobs in the system, which `advance_to` integrates over time.
    w.sums[state.SLOW_NOW] -= w.jobs.best_rate[j] / w.jobs.work[j]
    w.sums[state.PRIORITY_NOW] -= w.jobs.priority[j]


_ALMOST_NOW = 1.0 + 1e-12
"""Dates up to this multiple of now differ from it by rounding alone."""


@jit
def _count_overhead(w, j):
    """Count the restart of a stay that ends now as lost."""
    w.sums[state.LOST_S] += min(w.jobs.overhead_s[j], w.now_s[0] - w.jobs.since_s[j]) * _width(w, j)


@jit
def _leave_done(w, j):
    """End a running job that has done its work, and whose GPUs have been given back."""
    _count_overhead(w, j)
    leave(w, j)
    # Exactly the work, not rate times time: rounding must not leave a finished job with a rest.
    w.jobs.done[j] = w.jobs.work[j]
    _end(w, j, codes.DONE)


@jit
def preempt(w, j):
    """Let a running job whose GPUs have been given back wait; what it did since its last checkpoint is lost."""
    if _done_s(w, j) <= w.now_s[0] * _ALMOST_NOW:
        # It has nothing left but a rounding error, for which it would wait like any other job.
        _leave_done(w, j)
        return
    useful_s = max(0.0, w.now_s[0] - w.jobs.since_s[j] - w.jobs.overhead_s[j])
    kept_s = useful_s
    if w.checkpoint_s[0] > 0.0:
        # Checkpoints are counted from the end of the restart, not from the begin of the stay.
        kept_s = useful_s // w.checkpoint_s[0] * w.checkpoint_s[0]
    w.sums[state.LOST_S] += (w.now_s[0] - w.jobs.since_s[j] - kept_s) * _width(w, j)
    done = min(w.jobs.done[j] + kept_s * w.jobs.rate[j], w.jobs.work[j])
    leave(w, j)
    w.jobs.done[j] = done
    w.counts[state.N_PREEMPTIONS] += 1
    enqueue(w, j)


@jit
def _finish(w, j, status):
    """End a job that has done its work, or one whose time is over, which may wait."""
    if w.jobs.status[j] == codes.RUNNING:
        move(w, j, 1)
        if status == codes.DONE:
            _leave_done(w, j)
            return
        done = worked(w, j)
        _count_overhead(w, j)
        leave(w, j)
        w.jobs.done[j] = done
    else:
        _dequeue(w, j)
        _drop_event(w, j)
    _end(w, j, status)


@jit
def _handle_event(w, j):
    """Carry out the event of a job: its end, its limit, or its next level."""
    w.counts[state.NEEDS_DECISION] = 1
    # Done and out of time at one date counts as done.
    if w.jobs.status[j] == codes.RUNNING and w.now_s[0] >= _done_s(w, j):
        _finish(w, j, codes.DONE)
        return
    if w.now_s[0] >= w.jobs.limit_s[j]:
        _finish(w, j, codes.OVERRAN)
        return
    w.jobs.level[j] += 1
    # Rounding may put the next level a little before now; the clock must not go back.
    push_event(w, j, max(w.now_s[0], _next_event_s(w, j)))


@jit
def advance_to(w, time_s):
    """Move the clock to a date before or at the next event, and carry out what happens then."""
    # Integrals over time first: until now the numbers of jobs were those of before this date's events.
    passed_s = time_s - w.sums[state.LAST_S]
    waiting = w.counts[state.N_WAITING]
    w.sums[state.WAITING_S] += waiting * passed_s
    w.sums[state.SYSTEM_S] += (waiting + w.counts[state.N_RUNNING]) * passed_s
    w.sums[state.SLOW_S] += w.sums[state.SLOW_NOW] * passed_s
    w.sums[state.PRIORITY_S] += w.sums[state.PRIORITY_NOW] * passed_s
    w.sums[state.LAST_S] = w.now_s[0] = time_s
    # Ends before arrivals of one date: GPUs are free again when the new jobs are looked at.
    while w.counts[state.N_EVENTS] > 0 and w.queue.events[w.queue.events[0].heap].key <= time_s:
        _handle_event(w, w.queue.events[0].heap)
    while w.counts[state.NEXT_JOB] < w.jobs.n_jobs[0]:
        j = w.counts[state.NEXT_JOB]
        if w.jobs.arrival_s[j] > time_s:
            break
        w.counts[state.NEXT_JOB] += 1
        w.sums[state.SLOW_NOW] += w.jobs.best_rate[j] / w.jobs.work[j]
        w.sums[state.PRIORITY_NOW] += w.jobs.priority[j]
        enqueue(w, j)


@jit
def next_event_s(w):
    """Return the date of the next arrival or event, infinite if there is none."""
    found = float("inf")
    if w.counts[state.NEXT_JOB] < w.jobs.n_jobs[0]:
        found = w.jobs.arrival_s[w.counts[state.NEXT_JOB]]
    if w.counts[state.N_EVENTS] > 0:
        found = min(found, w.queue.events[w.queue.events[0].heap].key)
    return found
