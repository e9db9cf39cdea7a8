"""The world of the DRL scheduler for GPU clusters: steps of a second, and at most one job that starts in each.

What happens in ``[t, t + 1)`` is seen at ``t + 1``: what arrives at ``t`` starts at ``t + 1`` at the earliest.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hdrl.compat.drl_gpu.jit import entry
from hdrl.compiled import heap
from hdrl.compiled.codes import CodeTable
from hdrl.compiled.fields import new_arrays, own, shared
from hdrl.compiled.heap import SLOT_DTYPE
from hdrl.compiled.jit import jit
from hdrl.compiled.serving import RESET, serving

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

TOP, N_SEEN = 16, 66
"""Jobs that can be started, and the numbers of an observation: idle GPUs, four for each of these jobs, the queue."""

NO_OP = TOP
"""The action that starts nothing."""

FCFS, SJF = BASELINES = CodeTable("baseline", range(2))
"""Baselines that choose."""

REQUESTS = CodeTable("request", range(4))
"""Requests to `SERVED`: `PLAY` runs an episode under a baseline, `SKIP` advances to the next event."""

PLAY, SKIP = REQUESTS[2:]

# Positions in ``flags``: what the original gets wrong, and is reproduced.
FIRST_16, PRIORITY_ORDER, ONE_TYPE, ONE_PER_SECOND, EQUAL_SPEEDS, LARGE_SEEN, N_FLAGS = range(7)

# Positions in ``counts``.
NEXT_JOB, N_WAITING, N_RUNNING, N_DONE, N_COUNTS = range(5)

# Positions in ``sums``.
ARRIVALS_S, JCT_S, PRIORITY_DONE, N_SUMS = range(4)

MOST_GPUS = 64
"""Jobs that need more are counted as if they needed 64."""


class Seconds(NamedTuple):
    """The arrays of a batch, or without the leading axis those of one environment. Types are the fastest first."""

    flags: Annotated[Ints, shared(np.int64, "n_flags")]
    type_gpus: Annotated[Ints, shared(np.int64, "n_types")]
    type_speed: Annotated[Floats, shared(np.float64, "n_types")]
    # The jobs
    n_jobs: Annotated[Ints, own(np.int64, "one")]
    arrival_s: Annotated[Floats, own(np.float64, "n_jobs")]
    runtime_s: Annotated[Floats, own(np.float64, "n_jobs")]
    gpus: Annotated[Ints, own(np.int64, "n_jobs")]
    priority: Annotated[Floats, own(np.float64, "n_jobs")]
    flops: Annotated[Floats, own(np.float64, "n_jobs")]
    # What becomes of them
    start_s: Annotated[Floats, own(np.float64, "n_jobs")]
    end_s: Annotated[Floats, own(np.float64, "n_jobs")]
    is_done: Annotated[Ints, own(np.int64, "n_jobs")]
    held: Annotated[Ints, own(np.int64, "n_jobs", "n_types")]
    # The queue, and the running jobs by their ends
    queue: Annotated[Ints, own(np.int64, "n_jobs")]
    running: Annotated[NDArray[np.void], own(SLOT_DTYPE, "n_jobs", is_heap=True)]
    waiting_of: Annotated[Ints, own(np.int64, "n_widths")]  # number of waiting jobs by number of GPUs
    # The cluster, and the time at which it is and ends
    idle: Annotated[Ints, own(np.int64, "n_types")]
    counts: Annotated[Ints, own(np.int64, "n_counts")]
    sums: Annotated[Floats, own(np.float64, "n_sums")]
    now_s: Annotated[Floats, own(np.float64, "one")]
    until_s: Annotated[Floats, own(np.float64, "one")]
    observations: Annotated[NDArray[np.float32], own(np.float32, "n_seen", is_output=True)]


def new_seconds(given: Mapping[str, NDArray[Any]], n_envs: int, n_jobs: int) -> Seconds:
    """Return a world without jobs.

    ``given``: the arrays that all environments share, and where it is written what an agent sees, if there is one.
    """
    sizes = {
        "one": 1,
        "n_flags": N_FLAGS,
        "n_types": len(given["type_gpus"]),
        "n_jobs": n_jobs,
        "n_widths": MOST_GPUS + 1,
        "n_counts": N_COUNTS,
        "n_sums": N_SUMS,
        "n_seen": N_SEEN,
    }
    batch = new_arrays(Seconds, sizes, given, n_envs)
    batch.until_s[:] = np.inf
    return batch


def smallest_seconds() -> Seconds:
    """Return a world of one job; its arrays are of the types of all worlds'."""
    shared_arrays = {"flags": np.zeros(N_FLAGS, dtype=np.int64), "type_gpus": np.ones(1, dtype=np.int64)}
    return new_seconds({**shared_arrays, "type_speed": np.ones(1)}, 1, 1)


@jit
def _clear(w):
    """Empty the cluster, and begin at the whole second in which the first job arrives."""
    for t in range(len(w.type_gpus)):
        w.idle[t] = w.type_gpus[t]
    for size in range(MOST_GPUS + 1):
        w.waiting_of[size] = 0
    for i in range(N_COUNTS):
        w.counts[i] = 0
    for i in range(N_SUMS):
        w.sums[i] = 0.0
    for j in range(w.n_jobs[0]):
        w.start_s[j] = w.end_s[j] = -1.0
        w.running[j].position = -1
        w.is_done[j] = 0
    w.now_s[0] = math.floor(w.arrival_s[0]) if w.n_jobs[0] > 0 else 0.0


@jit
def _comes_before(w, one, other):
    """Tell whether a job is before another one in the queue."""
    if w.flags[PRIORITY_ORDER] and w.priority[one] != w.priority[other]:
        return w.priority[one] > w.priority[other]
    return one < other


@jit
def _enqueue(w, j):
    low, high = 0, w.counts[N_WAITING]
    while low < high:
        middle = (low + high) // 2
        if _comes_before(w, j, w.queue[middle]):
            high = middle
        else:
            low = middle + 1
    for i in range(w.counts[N_WAITING], low, -1):
        w.queue[i] = w.queue[i - 1]
    w.queue[low] = j
    w.counts[N_WAITING] += 1
    w.waiting_of[min(MOST_GPUS, w.gpus[j])] += 1
    w.sums[ARRIVALS_S] += w.arrival_s[j]


@jit
def _next_event_s(w):
    """Return the date of the next arrival or end of a job."""
    found = math.inf
    if w.counts[NEXT_JOB] < w.n_jobs[0]:
        found = w.arrival_s[w.counts[NEXT_JOB]]
    if w.counts[N_RUNNING] > 0:
        found = min(found, w.running[w.running[0].heap].key)
    return found


@jit
def _pass_until(w, until_s):
    """Let happen what happens before a date."""
    while w.counts[N_RUNNING] > 0 and w.running[w.running[0].heap].key < until_s:
        j = w.running[0].heap
        w.counts[N_RUNNING] = heap.remove(w.running, w.counts[N_RUNNING], j)
        for t in range(len(w.type_gpus)):
            w.idle[t] += w.held[j, t]
        w.counts[N_DONE] += 1
        w.is_done[j] = 1
        w.sums[JCT_S] += w.end_s[j] - w.arrival_s[j]
        w.sums[PRIORITY_DONE] += w.priority[j]
    while w.counts[NEXT_JOB] < w.n_jobs[0] and w.arrival_s[w.counts[NEXT_JOB]] < until_s:
        _enqueue(w, w.counts[NEXT_JOB])
        w.counts[NEXT_JOB] += 1
    w.now_s[0] = until_s


@jit
def _start(w, position):
    """Start a waiting job on the fastest type that holds all of it, else on the fastest ones; tell whether it fits."""
    j, n_types, total = w.queue[position], len(w.type_gpus), 0
    left, first = w.gpus[j], -1
    for t in range(n_types):
        total += w.idle[t]
        if first < 0 and w.idle[t] >= left:
            first = t
    if total < left:
        return False
    speed = w.type_speed[max(0, first)]
    for t in range(n_types):
        taken = min(left, w.idle[t]) if first < 0 or t == first else 0
        w.held[j, t] = taken
        w.idle[t] -= taken
        left -= taken
        if taken > 0:
            speed = min(speed, w.type_speed[t])
    w.start_s[j] = w.now_s[0]
    w.end_s[j] = w.now_s[0] + w.runtime_s[j] / (1.0 if w.flags[EQUAL_SPEEDS] else speed)
    w.counts[N_WAITING] -= 1
    w.waiting_of[min(MOST_GPUS, w.gpus[j])] -= 1
    w.sums[ARRIVALS_S] -= w.arrival_s[j]
    for i in range(position, w.counts[N_WAITING]):
        w.queue[i] = w.queue[i + 1]
    w.counts[N_RUNNING] = heap.push(w.running, w.counts[N_RUNNING], j, w.end_s[j], 0)
    return True


@jit
def _choose(w, order):
    """Return the position in the queue of the first job that fits, or of the shortest one; -1 if none fits."""
    total, most = 0, 0
    for t in range(len(w.type_gpus)):
        total += w.idle[t]
        most = max(most, w.idle[t])
    room = most if w.flags[ONE_TYPE] else total
    n_fitting = 0
    for size in range(min(room, MOST_GPUS) + 1):
        n_fitting += w.waiting_of[size]
    best = -1
    if n_fitting == 0:
        return best
    for i in range(w.counts[N_WAITING]):
        j = w.queue[i]
        if w.gpus[j] > room:
            continue
        if order == FCFS:
            return i
        if best < 0 or w.runtime_s[j] < w.runtime_s[w.queue[best]]:
            best = i
    return best


@jit
def _play(w, order):
    """Simulate until all jobs are done, or its time is over."""
    _clear(w)
    while w.counts[N_DONE] < w.n_jobs[0] and w.now_s[0] < w.until_s[0]:
        position = _choose(w, order)
        acts = position >= 0 and (position < TOP or w.flags[FIRST_16] == 0)
        if acts and _start(w, position):
            if w.flags[ONE_PER_SECOND]:
                _pass_until(w, w.now_s[0] + 1.0)
            continue
        event_s = _next_event_s(w)
        if event_s == math.inf:
            return
        # Nothing changes before: all seconds until then are one step.
        if w.flags[ONE_PER_SECOND]:
            _pass_until(w, min(w.until_s[0], max(w.now_s[0], math.floor(event_s)) + 1.0))
        else:
            _pass_until(w, min(w.until_s[0], math.nextafter(event_s, math.inf)))
            w.now_s[0] = min(w.until_s[0], event_s)


# ---------------------------------------------------------------------- an agent


@jit
def _gpus(w):
    """Return the number of GPUs, and of the idle ones among them."""
    n_gpus, n_idle = 0, 0
    for t in range(len(w.type_gpus)):
        n_gpus += w.type_gpus[t]
        n_idle += w.idle[t]
    return n_gpus, n_idle


@jit
def _step(w, action):
    """Carry out an action; return what it is rewarded with."""
    penalty, starts = 0.0, False
    if action < TOP and action < w.counts[N_WAITING]:
        starts = _start(w, action)
    elif action != NO_OP:
        penalty = 0.1
    before = w.sums[PRIORITY_DONE]
    if w.flags[ONE_PER_SECOND] or not starts:
        _pass_until(w, w.now_s[0] + 1.0)
    n_waiting, (n_gpus, n_idle) = w.counts[N_WAITING], _gpus(w)
    waited_s = n_waiting * w.now_s[0] - w.sums[ARRIVALS_S]
    in_system = n_waiting + w.counts[N_RUNNING]
    gained = 50.0 * (w.sums[PRIORITY_DONE] - before) + 1.5 * (n_gpus - n_idle) / n_gpus
    return gained - 0.05 * waited_s / 1000.0 - 0.3 * in_system - penalty


@jit
def _show(w):
    """Write the observation."""
    shown = w.observations
    n_gpus, n_idle = _gpus(w)
    shown[0] = n_idle / n_gpus
    for i in range(TOP):
        for column in range(1 + 4 * i, 5 + 4 * i):
            shown[column] = 0.0
        if i < w.counts[N_WAITING]:
            j = w.queue[i]
            shown[1 + 4 * i] = w.priority[j] / 5.0
            shown[2 + 4 * i] = w.flops[j] / 5e12
            shown[3 + 4 * i] = w.gpus[j] / n_gpus
            shown[4 + 4 * i] = min(w.runtime_s[j], 15000.0) / 15000.0
    shown[N_SEEN - 1] = w.counts[N_WAITING] / 200.0
    if w.flags[LARGE_SEEN] == 0:
        for column in range(N_SEEN):
            shown[column] = min(1.0, shown[column])


@jit
def _serve_row(w, counts, request, row, numbers, results):  # noqa: ARG001
    """Carry out a request in one environment, which is a row of its batch."""
    if request == PLAY:
        _play(w, numbers[row])
    elif request == SKIP:
        # To the second in which something happens next, or to the last one: nothing starts until then.
        w.now_s[0] = max(w.now_s[0], math.floor(min(_next_event_s(w), w.until_s[0] - 1.0)))
    elif request == RESET:
        _clear(w)
        for action in range(TOP + 1):
            counts.masks[row, action] = 1
        _show(w)
    else:
        counts.rewards[row] = _step(w, counts.actions[row])
        counts.terminations[row] = w.counts[N_DONE] == w.n_jobs[0]
        counts.truncations[row] = not counts.terminations[row] and w.now_s[0] >= w.until_s[0]
        _show(w)


@jit
def _is_valid_request(batch, request, numbers):  # noqa: ARG001
    """Return whether all numbers that a request depends on are in their tables."""
    if request == PLAY:
        for i in range(len(numbers)):
            if numbers[i] not in BASELINES:
                return False
    return request in REQUESTS


def _used_codes(batch: Seconds, request: int, numbers: Sequence[int]) -> list[tuple[CodeTable, int]]:
    """Return the tables and numbers that a request depends on."""
    del batch
    return [(BASELINES, one) for one in numbers] if request == PLAY else []


SERVED = serving(
    entry,
    Seconds,
    smallest_seconds,
    serve_row=_serve_row,
    is_valid=_is_valid_request,
    requests=REQUESTS,
    module=__name__,
    used_codes=_used_codes,
)
"""Batches of environments: of agents, and of baselines."""
