"""Observation of waiting jobs: which of them are seen, and their values."""

from __future__ import annotations

from hdrl.compat.dissertation.world import (
    BY_F1,
    BY_F2,
    BY_SHORTEST,
    BY_SMALLEST,
    BY_SUBMISSION,
    MAX_WAIT_S,
    MAY_GIVE_UP,
    N_COLUMNS,
    N_LISTS,
    N_ROWS,
    N_SEEN,
    N_WAITING,
    NO_JOB,
    SHOWS_RUN_TIMES,
    fits,
    has_next_event,
    sort_queue,
)
from hdrl.compiled.jit import jit
from hdrl.compiled.lehmer import following

CAP = 1.0 - 1e-6
"""The largest number that is seen of a job."""

# Columns of a row.
SUBMISSION, WAIT, REQUESTED_TIME, RUN_TIME, PROCESSORS, MEMORY, USER, GROUP, CAN_START, IS_REAL = range(10)


@jit
def _draw(w, n):
    """Return a random number below ``n`` (`hdrl.compiled.lehmer`)."""
    w.random[0] = following(w.random[0])
    return w.random[0] % n


@jit
def _list_top(w, position):
    for i in range(N_ROWS):
        w.tops[position, i] = w.queue[i]


@jit
def _list_drawn(w, position):
    """List some jobs in random order."""
    n = w.counts[N_WAITING]
    for i in range(n):
        w.spare[i] = w.queue[i]
    for i in range(N_ROWS):
        other = i + _draw(w, n - i)
        w.tops[position, i] = w.spare[other]
        w.spare[other] = w.spare[i]


@jit
def _interleave(w):
    """See the first jobs of each list in turn, each job once; one list alone is long enough for all rows."""
    n = 0
    for i in range(N_ROWS):
        for position in range(N_LISTS):
            j = w.tops[position, i]
            if n < N_ROWS and w.is_seen[j] == 0:
                w.is_seen[j] = 1
                w.seen[n] = j
                n += 1


@jit
def look(w):
    """Bring the queue into the order of submission, and choose what is seen of it."""
    for row in range(N_ROWS):
        if w.seen[row] != NO_JOB:
            w.is_seen[w.seen[row]] = 0
            w.seen[row] = NO_JOB
    sort_queue(w, BY_SUBMISSION)
    n = w.counts[N_WAITING]
    w.counts[N_SEEN] = min(n, N_ROWS)
    if n <= N_ROWS:
        for row in range(n):
            w.seen[row] = w.queue[row]
            w.is_seen[w.queue[row]] = 1
        return
    # The queue stays in the order of the last list, which decides between equal dates of submission afterwards.
    for position, order in enumerate((BY_F1, BY_F2, BY_SHORTEST, BY_SMALLEST)):
        sort_queue(w, order)
        _list_top(w, position)
    _list_drawn(w, N_LISTS - 1)
    _interleave(w)


@jit
def _show_job(w, j, shown, at):
    g = w.first[0] + j
    for column in range(N_COLUMNS):
        shown[at + column] = w.rows[g, column]
    if w.flags[SHOWS_RUN_TIMES] == 0:
        shown[at + RUN_TIME] = -1.0
    shown[at + WAIT] = min((w.now_s[0] - w.submit_s[g]) / MAX_WAIT_S, CAP)
    shown[at + CAN_START] = CAP if fits(w, j) else 1.0 - CAP


@jit
def show(w):
    """Write the observation: the rows, and the job on each node."""
    shown = w.observations
    n = w.counts[N_SEEN]
    for row in range(N_ROWS):
        at = row * N_COLUMNS
        if row < n:
            _show_job(w, w.seen[row], shown, at)
            continue
        for column in range(CAN_START):
            shown[at + column] = -1.0
        shown[at + CAN_START] = shown[at + IS_REAL] = 1.0 if row == n else 0.0
    for node in range(len(w.holder)):
        j = w.holder[node]
        shown[N_ROWS * N_COLUMNS + node] = -1.0 if j == NO_JOB else w.names[w.first[0] + j]


@jit
def mark_legal(w, masks):
    """Write the mask of the rows that may be chosen: jobs, and the skip row behind them."""
    n = w.counts[N_SEEN]
    for row in range(N_ROWS):
        masks[row] = row < n
    if n < N_ROWS and (w.flags[MAY_GIVE_UP] != 0 or has_next_event(w)):
        masks[n] = 1
