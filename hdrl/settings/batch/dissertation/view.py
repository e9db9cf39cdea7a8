"""Which waiting jobs are seen, and what of them."""

from __future__ import annotations

from hdrl.compiled.jit import jit
from hdrl.settings.batch.dissertation.world import (
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
    NOBODY,
    SHOWS_RUN_TIMES,
    can_happen,
    fits,
    sort_queue,
)

CAP = 1.0 - 1e-6
"""The largest number that is seen of a job."""

# Columns of a row.
SUBMISSION, WAIT, REQUESTED_TIME, RUN_TIME, PROCESSORS, MEMORY, USER, GROUP, CAN_START, IS_REAL = range(10)

_MODULUS, _FACTOR = 2147483647, 48271


@jit
def _draw(w, e, n):
    """Return a random number below ``n`` (Park and Miller's generator, as of 1993)."""
    w.random[e] = w.random[e] * _FACTOR % _MODULUS
    return w.random[e] % n


@jit
def _list_top(w, e, place):
    for i in range(N_ROWS):
        w.tops[e, place, i] = w.queue[e, i]


@jit
def _list_drawn(w, e, place):
    """List some jobs in random order."""
    n = w.counts[e, N_WAITING]
    for i in range(n):
        w.spare[e, i] = w.queue[e, i]
    for i in range(N_ROWS):
        other = i + _draw(w, e, n - i)
        w.tops[e, place, i] = w.spare[e, other]
        w.spare[e, other] = w.spare[e, i]


@jit
def _interleave(w, e):
    """See the first jobs of each list in turn, each job once; one list alone is long enough for all rows."""
    n = 0
    for i in range(N_ROWS):
        for place in range(N_LISTS):
            j = w.tops[e, place, i]
            if n < N_ROWS and w.is_seen[e, j] == 0:
                w.is_seen[e, j] = 1
                w.seen[e, n] = j
                n += 1


@jit
def look(w, e):
    """Bring the queue into the order of submission, and choose what is seen of it."""
    for row in range(N_ROWS):
        if w.seen[e, row] != NOBODY:
            w.is_seen[e, w.seen[e, row]] = 0
            w.seen[e, row] = NOBODY
    sort_queue(w, e, BY_SUBMISSION)
    n = w.counts[e, N_WAITING]
    w.counts[e, N_SEEN] = min(n, N_ROWS)
    if n <= N_ROWS:
        for row in range(n):
            w.seen[e, row] = w.queue[e, row]
            w.is_seen[e, w.queue[e, row]] = 1
        return
    # The queue stays in the order of the last list, which decides between equal dates of submission afterwards.
    for place, order in enumerate((BY_F1, BY_F2, BY_SHORTEST, BY_SMALLEST)):
        sort_queue(w, e, order)
        _list_top(w, e, place)
    _list_drawn(w, e, N_LISTS - 1)
    _interleave(w, e)


@jit
def _show_job(w, e, j, shown, at):
    g = w.first[e] + j
    for column in range(N_COLUMNS):
        shown[at + column] = w.rows[g, column]
    if w.flags[SHOWS_RUN_TIMES] == 0:
        shown[at + RUN_TIME] = -1.0
    shown[at + WAIT] = min((w.now_s[e] - w.submit_s[g]) / MAX_WAIT_S, CAP)
    shown[at + CAN_START] = CAP if fits(w, e, j) else 1.0 - CAP


@jit
def show(w, e, shown):
    """Write what is seen: the rows, and who holds each node."""
    n = w.counts[e, N_SEEN]
    for row in range(N_ROWS):
        at = row * N_COLUMNS
        if row < n:
            _show_job(w, e, w.seen[e, row], shown, at)
            continue
        for column in range(CAN_START):
            shown[at + column] = -1.0
        shown[at + CAN_START] = shown[at + IS_REAL] = 1.0 if row == n else 0.0
    for node in range(w.holder.shape[1]):
        j = w.holder[e, node]
        shown[N_ROWS * N_COLUMNS + node] = -1.0 if j == NOBODY else w.names[w.first[e] + j]


@jit
def mark_legal(w, e, masks):
    """Write which rows may be chosen: jobs, and the skip row behind them."""
    n = w.counts[e, N_SEEN]
    for row in range(N_ROWS):
        masks[row] = row < n
    if n < N_ROWS and (w.flags[MAY_GIVE_UP] != 0 or can_happen(w, e)):
        masks[n] = 1
