"""Whole nodes, a queue, and what happens when a job is chosen or nothing is done.

Jobs of an episode have numbers from 0 on; ``first`` is the position of its first job in the tables of all jobs.
Events are looked at one by one, submissions before ends of the same date.

Its backfilling stands by itself because it is the dissertation's, not EASY: the shadow date is found once, when a job
is chosen, and stays while that job waits; a job must end before that date, and spare nodes are not used.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hdrl.compiled.codes import CodeTable
from hdrl.compiled.fields import new_arrays, own, shared
from hdrl.compiled.jit import jit

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

N_ROWS, N_COLUMNS = 128, 10
"""Jobs that are seen, and what is seen of each."""

SKIP_S = 60.0
"""Longest time without an action, in seconds."""

MAX_WAIT_S = 43200.0
"""Waits are seen as shares of it."""

NO_JOB = -1
"""No job."""

# Orders of jobs: first indices of ``ranks``. Baselines use all but F2.
BY_SUBMISSION, BY_SHORTEST, BY_SMALLEST, BY_F1, BY_F2 = ORDERS = CodeTable("order", range(5))
N_ORDERS = 5

N_LISTS = 5
"""Number of lists from which the visible jobs of a long queue are taken in turn."""

# Positions in ``flags``.
SHOWS_RUN_TIMES, SKIP_IS_REWARDED, MAY_GIVE_UP, SKIP_ROW_FIRST, SCORES_OF_ROWS, N_FLAGS = range(6)

# Positions in ``settings``.
SCORE, REWARD, BACKFILLS, N_SETTINGS = range(4)

# What is scored: second indices of ``sums``.
BOUNDED_SLOWDOWN, WAIT, TURNAROUND, UTILIZATION, SLOWDOWN = SCORES = CodeTable("score", range(5))
N_SCORES = 5

# What is rewarded.
EPISODIC, RUNNING, SIGMOID, CORRECTED = REWARDS = CodeTable("reward", range(4))

# Positions in ``counts``.
NEXT_JOB, N_WAITING, N_RUNNING, N_STARTED, N_FREE, N_SEEN, IS_OVER, N_COUNTS = range(8)


class NodeWorld(NamedTuple):
    """The arrays of a batch, or without the leading axis those of one environment."""

    # What is scored and paid, and how
    flags: Annotated[Ints, shared(np.int64, "n_flags")]
    settings: Annotated[Ints, shared(np.int64, "n_settings")]
    scale: Annotated[Floats, shared(np.float64, "one")]
    n_procs: Annotated[Floats, shared(np.float64, "one")]
    # The jobs of the log
    submit_s: Annotated[Floats, shared(np.float64, "n_table")]
    run_s: Annotated[Floats, shared(np.float64, "n_table")]
    requested_s: Annotated[Floats, shared(np.float64, "n_table")]
    procs: Annotated[Floats, shared(np.float64, "n_table")]
    nodes: Annotated[Ints, shared(np.int64, "n_table")]
    ranks: Annotated[Ints, shared(np.int64, "n_orders", "n_table")]
    scores: Annotated[Floats, shared(np.float64, "n_orders", "n_table")]
    skip_scores: Annotated[Floats, shared(np.float64, "n_orders")]
    rows: Annotated[NDArray[np.float32], shared(np.float32, "n_table", "n_columns")]
    names: Annotated[NDArray[np.float32], shared(np.float32, "n_table")]
    # The episode, and how far it is
    first: Annotated[Ints, own(np.int64, "one")]
    n_jobs: Annotated[Ints, own(np.int64, "one")]
    random: Annotated[Ints, own(np.int64, "one")]
    counts: Annotated[Ints, own(np.int64, "n_counts")]
    now_s: Annotated[Floats, own(np.float64, "one")]
    sums: Annotated[Floats, own(np.float64, "n_scores")]
    rewarded: Annotated[Floats, own(np.float64, "one")]
    # The queue, running jobs, and who holds each node
    queue: Annotated[Ints, own(np.int64, "n_jobs")]
    spare: Annotated[Ints, own(np.int64, "n_jobs")]
    running: Annotated[Ints, own(np.int64, "n_jobs")]
    start_s: Annotated[Floats, own(np.float64, "n_jobs")]
    holder: Annotated[Ints, own(np.int64, "n_nodes")]
    # What is seen
    seen: Annotated[Ints, own(np.int64, "n_rows")]
    tops: Annotated[Ints, own(np.int64, "n_lists", "n_rows")]
    is_seen: Annotated[Ints, own(np.int64, "n_jobs")]
    observations: Annotated[NDArray[np.float32], own(np.float32, "n_values", is_output=True)]


def new_world(given: Mapping[str, NDArray[Any]], n_envs: int, n_jobs: int, n_nodes: int) -> NodeWorld:
    """Return a world without episodes.

    ``given``: the arrays that all environments share, and where it is written what an agent sees, if there is one.
    """
    sizes = {
        "one": 1,
        "n_flags": N_FLAGS,
        "n_settings": N_SETTINGS,
        "n_table": len(given["submit_s"]),
        "n_orders": N_ORDERS,
        "n_columns": N_COLUMNS,
        "n_counts": N_COUNTS,
        "n_scores": N_SCORES,
        "n_jobs": n_jobs,
        "n_nodes": n_nodes,
        "n_rows": N_ROWS,
        "n_lists": N_LISTS,
        "n_values": N_ROWS * N_COLUMNS + n_nodes,
    }
    return new_arrays(NodeWorld, sizes, given, n_envs)


def smallest_world() -> NodeWorld:
    """Return a world of one job on one node; its arrays are of the types of all worlds'."""
    return new_world({"submit_s": np.zeros(1)}, 1, 1, 1)


@jit
def clear(w):
    """Empty the machine, and begin when the first job is submitted."""
    for i in range(N_COUNTS):
        w.counts[i] = 0
    for i in range(N_SCORES):
        w.sums[i] = 0.0
    for j in range(w.n_jobs[0]):
        w.start_s[j] = -1.0
        w.is_seen[j] = 0
    for node in range(len(w.holder)):
        w.holder[node] = NO_JOB
    for row in range(N_ROWS):
        w.seen[row] = NO_JOB
    w.counts[N_FREE] = len(w.holder)
    w.rewarded[0] = 1.0
    w.now_s[0] = w.submit_s[w.first[0]]
    submit(w)


@jit
def submit(w):
    """Put the next job at the end of the queue."""
    j = w.counts[NEXT_JOB]
    w.now_s[0] = max(w.now_s[0], w.submit_s[w.first[0] + j])
    w.queue[w.counts[N_WAITING]] = j
    w.counts[NEXT_JOB] += 1
    w.counts[N_WAITING] += 1


@jit
def _merge(w, order, low, middle, high):
    """Merge two neighbouring parts of the queue that are in order."""
    first = w.first[0]
    for i in range(low, middle):
        w.spare[i] = w.queue[i]
    left, right, to = low, middle, low
    while left < middle:
        if right < high and w.ranks[order, first + w.queue[right]] < w.ranks[order, first + w.spare[left]]:
            w.queue[to] = w.queue[right]
            right += 1
        else:
            w.queue[to] = w.spare[left]
            left += 1
        to += 1


@jit
def sort_queue(w, order):
    """Bring the queue into an order; jobs that are equal stay as they are."""
    first, n, width = w.first[0], w.counts[N_WAITING], 1
    while width < n:
        for low in range(0, n - width, 2 * width):
            middle, high = low + width, min(low + 2 * width, n)
            if w.ranks[order, first + w.queue[middle - 1]] > w.ranks[order, first + w.queue[middle]]:
                _merge(w, order, low, middle, high)
        width *= 2


@jit
def _end_s(w, j, length_s):
    """Return the end of a running job if jobs take the times of ``length_s``: their run or requested times."""
    return w.start_s[j] + length_s[w.first[0] + j]


@jit
def _sort_running(w, length_s):
    """Bring running jobs into the order of their ends; those that are equal stay as they are."""
    for i in range(1, w.counts[N_RUNNING]):
        j, to = w.running[i], i
        end_s = _end_s(w, j, length_s)
        while to > 0 and _end_s(w, w.running[to - 1], length_s) > end_s:
            w.running[to] = w.running[to - 1]
            to -= 1
        w.running[to] = j


@jit
def _next_end_s(w):
    """Return the end of the next job to end, the first of those that run then; infinity if none runs."""
    if w.counts[N_RUNNING] == 0:
        return math.inf
    _sort_running(w, w.run_s)
    return _end_s(w, w.running[0], w.run_s)


@jit
def _release(w, end_s):
    """Let the first running job end."""
    j = w.running[0]
    w.now_s[0] = max(w.now_s[0], end_s)
    w.counts[N_RUNNING] -= 1
    for i in range(w.counts[N_RUNNING]):
        w.running[i] = w.running[i + 1]
    w.counts[N_FREE] += w.nodes[w.first[0] + j]
    for node in range(len(w.holder)):
        if w.holder[node] == j:
            w.holder[node] = NO_JOB


@jit
def _next_event(w, end_s):
    """Let the next job come or end; ``end_s`` is when the next one ends."""
    j = w.counts[NEXT_JOB]
    if j < w.n_jobs[0] and w.submit_s[w.first[0] + j] <= end_s:
        submit(w)
    elif w.counts[N_RUNNING] > 0:
        _release(w, end_s)


@jit
def fits(w, j):
    """Tell whether there are nodes for a job."""
    return w.nodes[w.first[0] + j] <= w.counts[N_FREE]


@jit
def _add_scores(w, j):
    g = w.first[0] + j
    run_s = w.run_s[g]
    wait_s = w.start_s[j] - w.submit_s[g]
    w.sums[BOUNDED_SLOWDOWN] += max(1.0, (wait_s + run_s) / max(run_s, 10.0))
    w.sums[WAIT] += wait_s
    w.sums[TURNAROUND] += wait_s + run_s
    w.sums[UTILIZATION] -= run_s * w.procs[g]
    w.sums[SLOWDOWN] += (wait_s + run_s) / run_s


@jit
def _start(w, position):
    """Start the job at a position of the queue on the first free nodes."""
    j = w.queue[position]
    left = w.nodes[w.first[0] + j]
    w.start_s[j] = w.now_s[0]
    w.counts[N_FREE] -= left
    for node in range(len(w.holder)):
        if left > 0 and w.holder[node] == NO_JOB:
            w.holder[node] = j
            left -= 1
    w.running[w.counts[N_RUNNING]] = j
    w.counts[N_RUNNING] += 1
    w.counts[N_STARTED] += 1
    w.counts[N_WAITING] -= 1
    for i in range(position, w.counts[N_WAITING]):
        w.queue[i] = w.queue[i + 1]
    _add_scores(w, j)


@jit
def _shadow_s(w, j):
    """Return the date at which a job that does not fit could start if all ran as long as requested."""
    _sort_running(w, w.requested_s)
    n_free, shadow_s = w.counts[N_FREE], w.now_s[0]
    for i in range(w.counts[N_RUNNING]):
        other = w.running[i]
        n_free += w.nodes[w.first[0] + other]
        shadow_s = _end_s(w, other, w.requested_s)
        if n_free >= w.nodes[w.first[0] + j]:
            break
    return shadow_s


@jit
def _backfill(w, shadow_s):
    """Start the jobs that are expected to end before the chosen one starts, in the order of submission."""
    sort_queue(w, BY_SUBMISSION)
    i = 0
    while i < w.counts[N_WAITING]:
        j = w.queue[i]
        if fits(w, j) and w.now_s[0] + w.requested_s[w.first[0] + j] < shadow_s:
            _start(w, i)
        else:
            i += 1


@jit
def _position_of(w, j):
    for i in range(w.counts[N_WAITING]):
        if w.queue[i] == j:
            return i
    return NO_JOB


@jit
def choose(w, j):
    """Start a waiting job as soon as it fits, and go on until another one waits."""
    backfills = w.settings[BACKFILLS] != 0 and not fits(w, j)
    shadow_s = _shadow_s(w, j) if backfills else 0.0
    while not fits(w, j):
        if backfills:
            _backfill(w, shadow_s)
        _next_event(w, _next_end_s(w))
    _start(w, _position_of(w, j))
    while w.counts[N_WAITING] == 0 and w.counts[NEXT_JOB] < w.n_jobs[0]:
        _next_event(w, _next_end_s(w))
    w.counts[IS_OVER] = w.counts[N_WAITING] == 0


@jit
def skip(w):
    """Do nothing until the next event, or for a minute; if nothing can happen any more, the episode is over."""
    end_s, j = _next_end_s(w), w.counts[NEXT_JOB]
    if j >= w.n_jobs[0]:
        if w.counts[N_RUNNING] == 0:
            w.counts[IS_OVER] = 1
        else:
            _release(w, end_s)
    elif w.now_s[0] + SKIP_S < min(end_s, w.submit_s[w.first[0] + j]):
        w.now_s[0] += SKIP_S
    else:
        _next_event(w, end_s)


@jit
def has_next_event(w):
    """Tell whether anything will happen if no job is chosen."""
    return w.counts[NEXT_JOB] < w.n_jobs[0] or w.counts[N_RUNNING] > 0


@jit
def mean_score(w):
    """Return the score of the jobs that have been started, where less is better; 0 without any."""
    score = w.settings[SCORE]
    if score == UTILIZATION:
        span_s = w.now_s[0] - w.submit_s[w.first[0]]
        return w.sums[score] / (span_s * w.n_procs[0]) if span_s > 0.0 else 0.0
    n = w.counts[N_STARTED]
    return w.sums[score] / n if n > 0 else 0.0
