"""The world of the DRL scheduler for GPU clusters: steps of a second, and at most one job that starts in each.

What happens in ``[t, t + 1)`` is seen at ``t + 1``: what arrives at ``t`` starts at ``t + 1`` at the earliest.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hdrl.compiled.borrow import borrow
from hdrl.compiled.codes import UNKNOWN_CODE, CodeTable
from hdrl.compiled.counts import ALL_LEGAL, NO_ACTION, counts_at, keep_count, take_actions
from hdrl.compiled.jit import jit
from hdrl.compiled.team import LEADER, enter_round, leave_round, request_of, take_row
from hdrl.settings.gpu.kernel.acting import REQUESTS, RESET, STEP
from hdrl.settings.gpu.kernel.jit import entry

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

TOP, N_SEEN = 16, 66
"""Jobs that can be started, and the numbers of an observation: idle GPUs, four for each of these jobs, the queue."""

NO_OP = TOP
"""The action that starts nothing."""

FCFS, SJF = BASELINES = CodeTable("baseline", range(2))
"""Who chooses."""

# Places in ``flags``: what the original gets wrong, and is reproduced.
FIRST_16, PRIORITY_ORDER, ONE_TYPE, ONE_PER_SECOND, EQUAL_SPEEDS, LARGE_SEEN, N_FLAGS = range(7)

# Places in ``counts``.
NEXT_JOB, N_WAITING, N_RUNNING, N_DONE, N_COUNTS = range(5)

# Places in ``sums``.
ARRIVALS_S, JCT_S, PRIORITY_DONE, N_SUMS = range(4)

MOST_GPUS = 64
"""Jobs that need more are counted as if they needed so many."""


class Seconds(NamedTuple):
    """Arrays of a batch; the first axis of those from ``n_jobs`` on is the environment. Types are the fastest first."""

    flags: Ints
    type_gpus: Ints
    type_speed: Floats
    n_jobs: Ints
    until_s: Floats
    arrival_s: Floats
    runtime_s: Floats
    gpus: Ints
    priority: Floats
    flops: Floats
    start_s: Floats
    end_s: Floats
    is_done: Ints
    held: Ints
    queue: Ints
    heap: Ints
    idle: Ints
    waiting_of: Ints
    counts: Ints
    sums: Floats
    now_s: Floats


def blank(shared: dict[str, Any], n_envs: int, n_jobs: int) -> Seconds:
    """Return a world without jobs.

    Parameters
    ----------
    shared
        The arrays that have no environment axis.
    n_envs, n_jobs
        How many environments, and the most jobs of each.
    """
    n_types = len(shared["type_gpus"])
    arrays: dict[str, NDArray[Any]] = dict(shared)
    for name in ("arrival_s", "runtime_s", "priority", "flops", "start_s", "end_s"):
        arrays[name] = np.zeros((n_envs, n_jobs))
    for name in ("gpus", "is_done", "queue", "heap"):
        arrays[name] = np.zeros((n_envs, n_jobs), dtype=np.int64)
    arrays |= {
        "n_jobs": np.zeros(n_envs, dtype=np.int64),
        "until_s": np.full(n_envs, np.inf),
        "held": np.zeros((n_envs, n_jobs, n_types), dtype=np.int64),
        "idle": np.zeros((n_envs, n_types), dtype=np.int64),
        "waiting_of": np.zeros((n_envs, MOST_GPUS + 1), dtype=np.int64),
        "counts": np.zeros((n_envs, N_COUNTS), dtype=np.int64),
        "sums": np.zeros((n_envs, N_SUMS)),
        "now_s": np.zeros(n_envs),
    }
    return Seconds(**arrays)


@jit
def _clear(w, e):
    """Empty the cluster, and begin at the whole second in which the first job arrives."""
    for t in range(len(w.type_gpus)):
        w.idle[e, t] = w.type_gpus[t]
    for size in range(MOST_GPUS + 1):
        w.waiting_of[e, size] = 0
    for i in range(N_COUNTS):
        w.counts[e, i] = 0
    for i in range(N_SUMS):
        w.sums[e, i] = 0.0
    for j in range(w.n_jobs[e]):
        w.start_s[e, j] = w.end_s[e, j] = -1.0
        w.is_done[e, j] = 0
    w.now_s[e] = math.floor(w.arrival_s[e, 0]) if w.n_jobs[e] > 0 else 0.0


@jit
def _comes_before(w, e, one, other):
    """Tell whether a job is before another one in the queue."""
    if w.flags[PRIORITY_ORDER] and w.priority[e, one] != w.priority[e, other]:
        return w.priority[e, one] > w.priority[e, other]
    return one < other


@jit
def _enqueue(w, e, j):
    low, high = 0, w.counts[e, N_WAITING]
    while low < high:
        middle = (low + high) // 2
        if _comes_before(w, e, j, w.queue[e, middle]):
            high = middle
        else:
            low = middle + 1
    for i in range(w.counts[e, N_WAITING], low, -1):
        w.queue[e, i] = w.queue[e, i - 1]
    w.queue[e, low] = j
    w.counts[e, N_WAITING] += 1
    w.waiting_of[e, min(MOST_GPUS, w.gpus[e, j])] += 1
    w.sums[e, ARRIVALS_S] += w.arrival_s[e, j]


@jit
def _push(w, e, j):
    """Put a job among the running ones, a heap by their ends."""
    place = w.counts[e, N_RUNNING]
    w.counts[e, N_RUNNING] += 1
    while place > 0:
        above = (place - 1) // 2
        if w.end_s[e, w.heap[e, above]] <= w.end_s[e, j]:
            break
        w.heap[e, place] = w.heap[e, above]
        place = above
    w.heap[e, place] = j


@jit
def _pop(w, e):
    """Take the running job that ends first."""
    top = w.heap[e, 0]
    w.counts[e, N_RUNNING] -= 1
    n = w.counts[e, N_RUNNING]
    last, place = w.heap[e, n], 0
    while True:
        below = 2 * place + 1
        if below >= n:
            break
        if below + 1 < n and w.end_s[e, w.heap[e, below + 1]] < w.end_s[e, w.heap[e, below]]:
            below += 1
        if w.end_s[e, last] <= w.end_s[e, w.heap[e, below]]:
            break
        w.heap[e, place] = w.heap[e, below]
        place = below
    w.heap[e, place] = last
    return top


@jit
def _next_event_s(w, e):
    """Return when the next job arrives or ends."""
    found = math.inf
    if w.counts[e, NEXT_JOB] < w.n_jobs[e]:
        found = w.arrival_s[e, w.counts[e, NEXT_JOB]]
    if w.counts[e, N_RUNNING] > 0:
        found = min(found, w.end_s[e, w.heap[e, 0]])
    return found


@jit
def _pass_until(w, e, until_s):
    """Let happen what happens before a date."""
    while w.counts[e, N_RUNNING] > 0 and w.end_s[e, w.heap[e, 0]] < until_s:
        j = _pop(w, e)
        for t in range(len(w.type_gpus)):
            w.idle[e, t] += w.held[e, j, t]
        w.counts[e, N_DONE] += 1
        w.is_done[e, j] = 1
        w.sums[e, JCT_S] += w.end_s[e, j] - w.arrival_s[e, j]
        w.sums[e, PRIORITY_DONE] += w.priority[e, j]
    while w.counts[e, NEXT_JOB] < w.n_jobs[e] and w.arrival_s[e, w.counts[e, NEXT_JOB]] < until_s:
        _enqueue(w, e, w.counts[e, NEXT_JOB])
        w.counts[e, NEXT_JOB] += 1
    w.now_s[e] = until_s


@jit
def _start(w, e, place):
    """Start a waiting job on the fastest type that holds all of it, else on the fastest ones; tell whether it fits."""
    j, n_types, total = w.queue[e, place], len(w.type_gpus), 0
    left, first = w.gpus[e, j], -1
    for t in range(n_types):
        total += w.idle[e, t]
        if first < 0 and w.idle[e, t] >= left:
            first = t
    if total < left:
        return False
    speed = w.type_speed[max(0, first)]
    for t in range(n_types):
        taken = min(left, w.idle[e, t]) if first < 0 or t == first else 0
        w.held[e, j, t] = taken
        w.idle[e, t] -= taken
        left -= taken
        if taken > 0:
            speed = min(speed, w.type_speed[t])
    w.start_s[e, j] = w.now_s[e]
    w.end_s[e, j] = w.now_s[e] + w.runtime_s[e, j] / (1.0 if w.flags[EQUAL_SPEEDS] else speed)
    w.counts[e, N_WAITING] -= 1
    w.waiting_of[e, min(MOST_GPUS, w.gpus[e, j])] -= 1
    w.sums[e, ARRIVALS_S] -= w.arrival_s[e, j]
    for i in range(place, w.counts[e, N_WAITING]):
        w.queue[e, i] = w.queue[e, i + 1]
    _push(w, e, j)
    return True


@jit
def _choose(w, e, order):
    """Return the place in the queue of the first job that fits, or of the shortest one; -1 if none fits."""
    total, most = 0, 0
    for t in range(len(w.type_gpus)):
        total += w.idle[e, t]
        most = max(most, w.idle[e, t])
    room = most if w.flags[ONE_TYPE] else total
    n_fitting = 0
    for size in range(min(room, MOST_GPUS) + 1):
        n_fitting += w.waiting_of[e, size]
    best = -1
    if n_fitting == 0:
        return best
    for i in range(w.counts[e, N_WAITING]):
        j = w.queue[e, i]
        if w.gpus[e, j] > room:
            continue
        if order == FCFS:
            return i
        if best < 0 or w.runtime_s[e, j] < w.runtime_s[e, w.queue[e, best]]:
            best = i
    return best


@entry
def play(world, order):
    """Simulate the first environment until all jobs are done, or its time is over; return 0, or `UNKNOWN_CODE`."""
    w = borrow(world)
    if order not in BASELINES:
        return UNKNOWN_CODE
    _clear(w, 0)
    while w.counts[0, N_DONE] < w.n_jobs[0] and w.now_s[0] < w.until_s[0]:
        place = _choose(w, 0, order)
        acts = place >= 0 and (place < TOP or w.flags[FIRST_16] == 0)
        if acts and _start(w, 0, place):
            if w.flags[ONE_PER_SECOND]:
                _pass_until(w, 0, w.now_s[0] + 1.0)
            continue
        event_s = _next_event_s(w, 0)
        if event_s == math.inf:
            return 0
        # Nothing changes before: all seconds until then are one step.
        if w.flags[ONE_PER_SECOND]:
            _pass_until(w, 0, min(w.until_s[0], max(w.now_s[0], math.floor(event_s)) + 1.0))
        else:
            _pass_until(w, 0, min(w.until_s[0], math.nextafter(event_s, math.inf)))
            w.now_s[0] = min(w.until_s[0], event_s)
    return 0


# ---------------------------------------------------------------------- an agent


@jit
def _step(w, e, action):
    """Carry out an action; return what it is rewarded with."""
    penalty, starts = 0.0, False
    if action < TOP and action < w.counts[e, N_WAITING]:
        starts = _start(w, e, action)
    elif action != NO_OP:
        penalty = 0.1
    before = w.sums[e, PRIORITY_DONE]
    if w.flags[ONE_PER_SECOND] or not starts:
        _pass_until(w, e, w.now_s[e] + 1.0)
    n_waiting, n_gpus, n_idle = w.counts[e, N_WAITING], 0, 0
    for t in range(len(w.type_gpus)):
        n_gpus += w.type_gpus[t]
        n_idle += w.idle[e, t]
    waited_s = n_waiting * w.now_s[e] - w.sums[e, ARRIVALS_S]
    in_system = n_waiting + w.counts[e, N_RUNNING]
    gained = 50.0 * (w.sums[e, PRIORITY_DONE] - before) + 1.5 * (n_gpus - n_idle) / n_gpus
    return gained - 0.05 * waited_s / 1000.0 - 0.3 * in_system - penalty


@jit
def _show(w, e, shown):
    """Write what the agent sees."""
    n_gpus, n_idle = 0, 0
    for t in range(len(w.type_gpus)):
        n_gpus += w.type_gpus[t]
        n_idle += w.idle[e, t]
    shown[0] = n_idle / n_gpus
    for i in range(TOP):
        for column in range(1 + 4 * i, 5 + 4 * i):
            shown[column] = 0.0
        if i < w.counts[e, N_WAITING]:
            j = w.queue[e, i]
            shown[1 + 4 * i] = w.priority[e, j] / 5.0
            shown[2 + 4 * i] = w.flops[e, j] / 5e12
            shown[3 + 4 * i] = w.gpus[e, j] / n_gpus
            shown[4 + 4 * i] = min(w.runtime_s[e, j], 15000.0) / 15000.0
    shown[N_SEEN - 1] = w.counts[e, N_WAITING] / 200.0
    if w.flags[LARGE_SEEN] == 0:
        for column in range(N_SEEN):
            shown[column] = min(1.0, shown[column])


@entry
def skip(world, e):
    """Go to the second in which something happens next, or to the last one: nothing starts until then."""
    w = borrow(world)
    w.now_s[e] = max(w.now_s[e], math.floor(min(_next_event_s(w, e), w.until_s[e] - 1.0)))


@jit
def _serve_row(w, counts, request, e, shown):
    if request == RESET:
        _clear(w, e)
        for action in range(TOP + 1):
            counts.masks[e, action] = 1
    else:
        counts.rewards[e] = _step(w, e, counts.actions[e])
        counts.terminations[e] = w.counts[e, N_DONE] == w.n_jobs[e]
        counts.truncations[e] = not counts.terminations[e] and w.now_s[e] >= w.until_s[e]
    _show(w, e, shown)


@entry
def serve_seconds(world, places, team, shown, request, member, chosen, given):
    """Carry out a request in chosen environments: see `hdrl.settings.gpu.kernel.acting.serve`."""
    w, counts = borrow(world), counts_at(places)
    if request not in REQUESTS:
        return UNKNOWN_CODE, 0
    leads_step = member == LEADER and request == STEP
    if leads_step:
        illegal = take_actions(counts, chosen, given, NO_ACTION)
        if illegal != ALL_LEGAL:
            return illegal, 0
    is_on = enter_round(team, request, member)
    while is_on:
        asked = request_of(team)
        e = take_row(team, member)
        while e >= 0:
            if chosen[e]:
                _serve_row(w, counts, asked, e, shown[e])
            e = take_row(team, member)
        is_on = leave_round(team, member)
    return ALL_LEGAL, keep_count(counts, chosen) if leads_step else 0
