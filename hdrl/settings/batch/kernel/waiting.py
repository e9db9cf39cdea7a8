"""The queue of waiting jobs.

With a static key the queue is a heap over (key, rank of arrival); by arrival, or by a priority that changes with time,
it is a sorted list. In the compatibility mode it is always a list that is sorted again, stably, whenever the next job
is looked for: as in HDeepRM, jobs with equal keys then stay in the order that earlier keys gave them.
"""

from __future__ import annotations

from hdrl.compiled import heap
from hdrl.compiled.jit import jit
from hdrl.compiled.twister import draw_below
from hdrl.settings.batch.kernel import codes
from hdrl.settings.batch.kernel.history import note_submission
from hdrl.settings.batch.kernel.keys import changes_with_time, job_key


@jit
def order_length_s(state, job):
    """Return the run time of a job that orders of jobs use, in seconds."""
    if state.scalars[0].predictor == codes.PREDICT_NOTHING:
        return state.jobs[job].requested_time_s
    return state.predictions[job].length_s


@jit
def _key(state, job, key):
    """Return the value of a job key now."""
    if key == codes.JOB_INDEX:
        return state.predictions[job].index
    return job_key(state, job, key, order_length_s(state, job))


@jit
def _before(state, left, right, key):
    """Tell whether job ``left`` comes before job ``right``."""
    left_key, right_key = _key(state, left, key), _key(state, right, key)
    if left_key != right_key:
        return left_key < right_key
    return state.jobs[left].rank < state.jobs[right].rank


@jit
def _sort_stably(state, key):
    """Sort the list by a key, equal jobs staying where they are (insertion sort: it is nearly sorted)."""
    for i in range(1, state.scalars[0].n_queue):
        job = state.queue[i]
        value = _key(state, job, key)
        position = i
        while position > 0 and _key(state, state.queue[position - 1], key) > value:
            state.queue[position] = state.queue[position - 1]
            position -= 1
        state.queue[position] = job


@jit
def enqueue(state, job):
    """Add a job that has been submitted."""
    s = state.scalars[0]
    state.jobs[job].rank = s.next_rank
    s.next_rank += 1
    state.queue[s.n_queue] = job
    s.n_queue += 1
    note_submission(state, job)
    if s.queue_key >= 0:
        heap.rise(state.queue, s.n_queue - 1, _before, state, s.queue_key)


@jit
def order_by(state, key):
    """Keep the queue as a heap by a job key from now on, or as a list by arrival."""
    s = state.scalars[0]
    if s.queue_key == key:
        return
    s.queue_key = key
    if key == codes.QUEUE_BY_ARRIVAL:
        key = codes.JOB_RANDOM  # its value is the rank of arrival
    for position in range(s.n_queue // 2 - 1, -1, -1):
        heap.sink(state.queue, position, s.n_queue, _before, state, key)
    if s.queue_key == codes.QUEUE_BY_ARRIVAL:  # from a heap to a sorted list: heap sort, by swapping from the end
        n = s.n_queue
        for size in range(n, 1, -1):
            heap.pop(state.queue, size, _before, state, key)
        for i in range(n // 2):
            state.queue[i], state.queue[n - 1 - i] = state.queue[n - 1 - i], state.queue[i]


@jit
def sort_by_priority(state, key):
    """Keep the queue as a list sorted by a job key as it is now (insertion sort: the order changes slowly)."""
    s = state.scalars[0]
    stays = key not in (codes.JOB_GIVEN, codes.JOB_INDEX) and s.predictor == codes.PREDICT_NOTHING
    stays = stays and not changes_with_time(key)
    if not stays or s.queue_key != codes.QUEUE_BY_PRIORITY or s.sorted_by != key:
        s.n_sorted = 0
    s.queue_key, s.sorted_by = codes.QUEUE_BY_PRIORITY, key
    for i in range(s.n_sorted, s.n_queue):
        job = state.queue[i]
        row = state.jobs[job]
        if key != codes.JOB_GIVEN:
            row.priority = _key(state, job, key)
        position = i
        while position > 0:
            other = state.jobs[state.queue[position - 1]]
            if other.priority < row.priority or (other.priority == row.priority and other.rank < row.rank):
                break
            state.queue[position] = state.queue[position - 1]
            position -= 1
        state.queue[position] = job
    s.n_sorted = s.n_queue


@jit
def peek(state, key):
    """Return the position in the queue of the job that a key chooses; the queue must not be empty."""
    s = state.scalars[0]
    if key == codes.JOB_RANDOM:
        order_by(state, codes.QUEUE_BY_ARRIVAL)
        return draw_below(state.twister, s.n_queue)
    # Predictions change while jobs wait, so that no heap stays one.
    is_moving = s.predictor != codes.PREDICT_NOTHING or changes_with_time(key)
    if key == codes.JOB_GIVEN or (is_moving and s.compatible == 0):
        sort_by_priority(state, key)
        return 0
    if s.compatible == 1:
        order_by(state, codes.QUEUE_BY_ARRIVAL)
        _sort_stably(state, key)
        return 0
    order_by(state, key)
    return 0


@jit
def take(state, position):
    """Remove the job at a position that `peek` returned."""
    s = state.scalars[0]
    s.n_queue -= 1
    if s.queue_key < 0:
        for i in range(position, s.n_queue):
            state.queue[i] = state.queue[i + 1]
        s.n_sorted -= position < s.n_sorted
        return
    if position < s.n_queue:
        state.queue[position] = state.queue[s.n_queue]
        heap.rise(state.queue, position, _before, state, s.queue_key)
        heap.sink(state.queue, position, s.n_queue, _before, state, s.queue_key)


@jit
def find(state, job):
    """Return the position of a waiting job, or -1."""
    for position in range(state.scalars[0].n_queue):
        if state.queue[position] == job:
            return position
    return -1
