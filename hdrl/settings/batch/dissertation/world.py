"""Whole nodes, a queue, and what happens when a job is chosen or nothing is done.

Jobs of an episode have numbers from 0 on; ``first`` is the place of its first job in the tables of all jobs. Events are
looked at one by one, submissions before ends of the same date.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hdrl.compiled.codes import CodeTable
from hdrl.compiled.jit import jit

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

N_ROWS, N_COLUMNS = 128, 10
"""Jobs that are seen, and what is seen of each."""

SKIP_S = 60.0
"""How long nothing is done at most."""

MAX_WAIT_S = 43200.0
"""Waits are seen as shares of it."""

NOBODY = -1
"""No job."""

# Orders of jobs: first indices of ``ranks``. A baseline goes by all but F2.
BY_SUBMISSION, BY_SHORTEST, BY_SMALLEST, BY_F1, BY_F2 = ORDERS = CodeTable("order", range(5))
N_ORDERS = 5

N_LISTS = 5
"""What is seen of a long queue comes in turn from so many lists."""

# Places in ``flags``.
SHOWS_RUN_TIMES, SKIP_IS_PAID, MAY_GIVE_UP, SKIP_ROW_FIRST, SCORES_OF_ROWS, N_FLAGS = range(6)

# Places in ``settings``.
SCORE, REWARD, BACKFILLS, N_SETTINGS = range(4)

# What is scored: second indices of ``sums``.
BOUNDED_SLOWDOWN, WAIT, TURNAROUND, UTILIZATION, SLOWDOWN = SCORES = CodeTable("score", range(5))
N_SCORES = 5

# What is rewarded.
EPISODIC, RUNNING, SIGMOID, CORRECTED = REWARDS = CodeTable("reward", range(4))

# Places in ``counts``.
NEXT_JOB, N_WAITING, N_RUNNING, N_STARTED, N_FREE, N_SEEN, IS_OVER, N_COUNTS = range(8)


class World(NamedTuple):
    """Arrays of a batch; the first axis of those from ``first`` on is the environment."""

    flags: Ints
    settings: Ints
    scale: Floats
    n_procs: Floats
    submit_s: Floats
    run_s: Floats
    requested_s: Floats
    procs: Floats
    nodes: Ints
    ranks: Ints
    scores: Floats
    skip_scores: Floats
    rows: NDArray[np.float32]
    names: NDArray[np.float32]
    first: Ints
    n_jobs: Ints
    random: Ints
    counts: Ints
    now_s: Floats
    sums: Floats
    told: Floats
    queue: Ints
    spare: Ints
    running: Ints
    start_s: Floats
    holder: Ints
    seen: Ints
    tops: Ints
    is_seen: Ints


SHARED = frozenset(World._fields[: World._fields.index("first")])
"""Names of the arrays that all environments share."""


def blank(shared: dict[str, Any], n_envs: int, n_jobs: int, n_nodes: int) -> World:
    """Return a world without episodes."""
    arrays: dict[str, NDArray[Any]] = dict(shared)
    for name in ("first", "n_jobs", "random"):
        arrays[name] = np.zeros(n_envs, dtype=np.int64)
    for name in ("now_s", "told"):
        arrays[name] = np.zeros(n_envs)
    for name in ("queue", "spare", "running", "is_seen"):
        arrays[name] = np.zeros((n_envs, n_jobs), dtype=np.int64)
    arrays |= {
        "counts": np.zeros((n_envs, N_COUNTS), dtype=np.int64),
        "sums": np.zeros((n_envs, N_SCORES)),
        "start_s": np.zeros((n_envs, n_jobs)),
        "holder": np.zeros((n_envs, n_nodes), dtype=np.int64),
        "seen": np.zeros((n_envs, N_ROWS), dtype=np.int64),
        "tops": np.zeros((n_envs, N_LISTS, N_ROWS), dtype=np.int64),
    }
    return World(**arrays)


@jit
def clear(w, e):
    """Empty the machine, and begin when the first job is submitted."""
    for i in range(N_COUNTS):
        w.counts[e, i] = 0
    for i in range(N_SCORES):
        w.sums[e, i] = 0.0
    for j in range(w.n_jobs[e]):
        w.start_s[e, j] = -1.0
        w.is_seen[e, j] = 0
    for node in range(w.holder.shape[1]):
        w.holder[e, node] = NOBODY
    for row in range(N_ROWS):
        w.seen[e, row] = NOBODY
    w.counts[e, N_FREE] = w.holder.shape[1]
    w.told[e] = 1.0
    w.now_s[e] = w.submit_s[w.first[e]]
    submit(w, e)


@jit
def submit(w, e):
    """Put the next job at the end of the queue."""
    j = w.counts[e, NEXT_JOB]
    w.now_s[e] = max(w.now_s[e], w.submit_s[w.first[e] + j])
    w.queue[e, w.counts[e, N_WAITING]] = j
    w.counts[e, NEXT_JOB] += 1
    w.counts[e, N_WAITING] += 1


@jit
def _merge(w, e, order, low, middle, high):
    """Merge two neighbouring parts of the queue that are in order."""
    first = w.first[e]
    for i in range(low, middle):
        w.spare[e, i] = w.queue[e, i]
    left, right, to = low, middle, low
    while left < middle:
        if right < high and w.ranks[order, first + w.queue[e, right]] < w.ranks[order, first + w.spare[e, left]]:
            w.queue[e, to] = w.queue[e, right]
            right += 1
        else:
            w.queue[e, to] = w.spare[e, left]
            left += 1
        to += 1


@jit
def sort_queue(w, e, order):
    """Bring the queue into an order; jobs that are equal stay as they are."""
    first, n, width = w.first[e], w.counts[e, N_WAITING], 1
    while width < n:
        for low in range(0, n - width, 2 * width):
            middle, high = low + width, min(low + 2 * width, n)
            if w.ranks[order, first + w.queue[e, middle - 1]] > w.ranks[order, first + w.queue[e, middle]]:
                _merge(w, e, order, low, middle, high)
        width *= 2


@jit
def _end_s(w, e, j, length_s):
    """Return when a running job ends if jobs take as long as ``length_s`` says: their run or requested times."""
    return w.start_s[e, j] + length_s[w.first[e] + j]


@jit
def _sort_running(w, e, length_s):
    """Bring running jobs into the order of their ends; those that are equal stay as they are."""
    for i in range(1, w.counts[e, N_RUNNING]):
        j, to = w.running[e, i], i
        end_s = _end_s(w, e, j, length_s)
        while to > 0 and _end_s(w, e, w.running[e, to - 1], length_s) > end_s:
            w.running[e, to] = w.running[e, to - 1]
            to -= 1
        w.running[e, to] = j


@jit
def _next_end_s(w, e):
    """Return when the next job ends, which is the first of those that run then; infinity if none runs."""
    if w.counts[e, N_RUNNING] == 0:
        return math.inf
    _sort_running(w, e, w.run_s)
    return _end_s(w, e, w.running[e, 0], w.run_s)


@jit
def _release(w, e, end_s):
    """Let the first running job end."""
    j = w.running[e, 0]
    w.now_s[e] = max(w.now_s[e], end_s)
    w.counts[e, N_RUNNING] -= 1
    for i in range(w.counts[e, N_RUNNING]):
        w.running[e, i] = w.running[e, i + 1]
    w.counts[e, N_FREE] += w.nodes[w.first[e] + j]
    for node in range(w.holder.shape[1]):
        if w.holder[e, node] == j:
            w.holder[e, node] = NOBODY


@jit
def _next_event(w, e, end_s):
    """Let the next job come or end; ``end_s`` is when the next one ends."""
    j = w.counts[e, NEXT_JOB]
    if j < w.n_jobs[e] and w.submit_s[w.first[e] + j] <= end_s:
        submit(w, e)
    elif w.counts[e, N_RUNNING] > 0:
        _release(w, e, end_s)


@jit
def fits(w, e, j):
    """Tell whether there are nodes for a job."""
    return w.nodes[w.first[e] + j] <= w.counts[e, N_FREE]


@jit
def _add_scores(w, e, j):
    g = w.first[e] + j
    run_s = w.run_s[g]
    wait_s = w.start_s[e, j] - w.submit_s[g]
    w.sums[e, BOUNDED_SLOWDOWN] += max(1.0, (wait_s + run_s) / max(run_s, 10.0))
    w.sums[e, WAIT] += wait_s
    w.sums[e, TURNAROUND] += wait_s + run_s
    w.sums[e, UTILIZATION] -= run_s * w.procs[g]
    w.sums[e, SLOWDOWN] += (wait_s + run_s) / run_s


@jit
def _start(w, e, place):
    """Start the job at a place of the queue on the first free nodes."""
    j = w.queue[e, place]
    left = w.nodes[w.first[e] + j]
    w.start_s[e, j] = w.now_s[e]
    w.counts[e, N_FREE] -= left
    for node in range(w.holder.shape[1]):
        if left > 0 and w.holder[e, node] == NOBODY:
            w.holder[e, node] = j
            left -= 1
    w.running[e, w.counts[e, N_RUNNING]] = j
    w.counts[e, N_RUNNING] += 1
    w.counts[e, N_STARTED] += 1
    w.counts[e, N_WAITING] -= 1
    for i in range(place, w.counts[e, N_WAITING]):
        w.queue[e, i] = w.queue[e, i + 1]
    _add_scores(w, e, j)


@jit
def _shadow_s(w, e, j):
    """Return when a job that does not fit could start if all ran as long as requested."""
    _sort_running(w, e, w.requested_s)
    n_free, shadow_s = w.counts[e, N_FREE], w.now_s[e]
    for i in range(w.counts[e, N_RUNNING]):
        other = w.running[e, i]
        n_free += w.nodes[w.first[e] + other]
        shadow_s = _end_s(w, e, other, w.requested_s)
        if n_free >= w.nodes[w.first[e] + j]:
            break
    return shadow_s


@jit
def _backfill(w, e, shadow_s):
    """Start the jobs that are expected to end before the chosen one starts, in the order of submission."""
    sort_queue(w, e, BY_SUBMISSION)
    i = 0
    while i < w.counts[e, N_WAITING]:
        j = w.queue[e, i]
        if fits(w, e, j) and w.now_s[e] + w.requested_s[w.first[e] + j] < shadow_s:
            _start(w, e, i)
        else:
            i += 1


@jit
def _place_of(w, e, j):
    for i in range(w.counts[e, N_WAITING]):
        if w.queue[e, i] == j:
            return i
    return NOBODY


@jit
def choose(w, e, j):
    """Start a waiting job as soon as it fits, and go on until another one waits."""
    backfills = w.settings[BACKFILLS] != 0 and not fits(w, e, j)
    shadow_s = _shadow_s(w, e, j) if backfills else 0.0
    while not fits(w, e, j):
        if backfills:
            _backfill(w, e, shadow_s)
        _next_event(w, e, _next_end_s(w, e))
    _start(w, e, _place_of(w, e, j))
    while w.counts[e, N_WAITING] == 0 and w.counts[e, NEXT_JOB] < w.n_jobs[e]:
        _next_event(w, e, _next_end_s(w, e))
    w.counts[e, IS_OVER] = w.counts[e, N_WAITING] == 0


@jit
def skip(w, e):
    """Do nothing until the next event, or for a minute; if nothing can happen any more, the episode is over."""
    end_s, j = _next_end_s(w, e), w.counts[e, NEXT_JOB]
    if j >= w.n_jobs[e]:
        if w.counts[e, N_RUNNING] == 0:
            w.counts[e, IS_OVER] = 1
        else:
            _release(w, e, end_s)
    elif w.now_s[e] + SKIP_S < min(end_s, w.submit_s[w.first[e] + j]):
        w.now_s[e] += SKIP_S
    else:
        _next_event(w, e, end_s)


@jit
def can_happen(w, e):
    """Tell whether anything will happen if no job is chosen."""
    return w.counts[e, NEXT_JOB] < w.n_jobs[e] or w.counts[e, N_RUNNING] > 0


@jit
def mean_score(w, e):
    """Return the score of the jobs that have been started, of which less is better; 0 without any."""
    score = w.settings[SCORE]
    if score == UTILIZATION:
        span_s = w.now_s[e] - w.submit_s[w.first[e]]
        return w.sums[e, score] / (span_s * w.n_procs[0]) if span_s > 0.0 else 0.0
    n = w.counts[e, N_STARTED]
    return w.sums[e, score] / n if n > 0 else 0.0
