"""EASY backfilling: jobs may overtake the first of the queue as long as they do not delay it.

When the first job does not fit, it gets a reservation: the *shadow* date at which, by the expected ends of the jobs
that hold cores, enough cores with enough memory will be free. Another job may start now if it is expected to end by
then, or if the first job still fits at the shadow date with what the other one takes from it. Both are judged node by
node, so that memory counts; on a machine without memory limits this is the rule of spare processors.

Expected ends come from requested times, longer on slower cores. A job that has overrun its requested time is expected
to end at once. Reservations that use predictions (``predicts_ends``) expect a job that has outlived its prediction
to run on, by a minute at first and then by more and more, up to its requested time, as EASY++ does.

This is the EASY of all compiled policies, and of models that the kernel plays (`compiled_play`). There are two more:
`identical_cores.engine` counts processors instead of looking at nodes, `policies.backfilling` is Python that users
derive from. IRMaSim (`policies.node_policies`), RLScheduler and Slurm backfill by other rules, not by EASY.

How a job starts, whatever chose it, is here, too: the queue, the machine, the answer and the logs.

References
----------
D. Lifka, "The ANL/IBM SP Scheduling System", JSSPP 1995. A. Mu'alem, D. Feitelson, "Utilization, Predictability,
Workloads, and User Runtime Estimates in Scheduling the IBM SP2 with Backfilling", IEEE TPDS 12(6), 2001. D. Tsafrir,
Y. Etsion, D. Feitelson, "Backfilling Using System-Generated Predictions Rather than User Runtime Estimates", IEEE TPDS
18(6), 2007 (EASY++).
"""

from __future__ import annotations

import math

import numpy as np

from hdrl.compiled.jit import jit
from hdrl.settings.batch.kernel import codes, messages
from hdrl.settings.batch.kernel.cluster import after_locking
from hdrl.settings.batch.kernel.history import note_end, note_start
from hdrl.settings.batch.kernel.keys import holds
from hdrl.settings.batch.kernel.onoff import end_core_of, first_core_of, gather_coming, on_from_s
from hdrl.settings.batch.kernel.plan import fastest_gflops, leave_plan, length_at, length_s, slowest_gflops
from hdrl.settings.batch.kernel.selection import CHOSEN, NO_CORES, NO_MEMORY, choose_cores, put_back
from hdrl.settings.batch.kernel.waiting import order_length_s, take

CORRECTIONS_S = (60.0, 300.0, 900.0, 1800.0, 3600.0, 7200.0, 18000.0, 36000.0, 72000.0, 180000.0, 360000.0)
"""By how much a prediction that was outlived grows, the first time, the second, ...; the last one ever after."""


@jit
def expected_run_s(state, job, first, n):
    """Return the expected run time of a job on the cores ``pool[first:first + n]``, in seconds."""
    slowest = np.inf
    for i in range(first, first + n):
        slowest = min(slowest, state.processors[state.processor_of[state.pool[i]]].peak_gflops)
    return _run_at(state, job, slowest)


@jit
def _run_at(state, job, gflops):
    """Return the expected run time of a job on cores of a speed, in seconds."""
    if state.scalars[0].predicts_ends == 1:
        return length_at(state, state.predictions[job].length_s, gflops)
    return length_s(state, job, gflops)


@jit
def _corrected_s(state, job):
    """Return the corrected end of a job that has outlived its prediction, at the latest as requested."""
    s, row = state.scalars[0], state.jobs[job]
    end_s = row.expected_end_s
    latest_s = state.predictions[job].started_s + row.requested_time_s
    while end_s <= s.message_s and end_s < latest_s:
        end_s += CORRECTIONS_S[min(row.n_corrections, len(CORRECTIONS_S) - 1)]
        row.n_corrections += 1
    return min(end_s, latest_s)


@jit
def correct_predictions(state):
    """Expect jobs to run on that have outlived their predictions."""
    s = state.scalars[0]
    n_late = 0
    while n_late < s.n_expected and state.jobs[state.expected[n_late]].expected_end_s <= s.message_s:
        n_late += 1
    for i in range(n_late - 1, -1, -1):
        job = state.expected[i]
        row = state.jobs[job]
        row.expected_end_s = _corrected_s(state, job)
        position = i
        while (
            position + 1 < s.n_expected and state.jobs[state.expected[position + 1]].expected_end_s < row.expected_end_s
        ):
            state.expected[position] = state.expected[position + 1]
            position += 1
        state.expected[position] = job


@jit
def expect_end(state, job, first, n):
    """Record the expected end of a job that is being started on ``pool[first:first + n]``."""
    s = state.scalars[0]
    end_s = s.message_s + expected_run_s(state, job, first, n)
    state.jobs[job].expected_end_s = end_s
    position = s.n_expected
    while position > 0 and state.jobs[state.expected[position - 1]].expected_end_s > end_s:
        state.expected[position] = state.expected[position - 1]
        position -= 1
    state.expected[position] = job
    s.n_expected += 1
    s.has_plan = 0  # planning sets it again afterwards
    note_start(state, job)


@jit
def remove_expected_end(state, job):
    """Forget the expected end of a job that has ended, and learn from it."""
    s = state.scalars[0]
    note_end(state, job)
    position = 0
    while position < s.n_expected and state.expected[position] != job:
        position += 1
    if position == s.n_expected:
        return
    s.n_expected -= 1
    for i in range(position, s.n_expected):
        state.expected[i] = state.expected[i + 1]
    if s.has_plan == 1:
        leave_plan(state, job)


@jit
def _room(forecast, head):
    """Return the number of cores of the first job that fit on a node at the shadow date."""
    room = np.int64(forecast.shadow_cores)
    if head.memory_mib > 0.0:
        by_memory = math.floor(forecast.shadow_memory_mib / head.memory_mib)
        room = min(room, np.int64(min(by_memory, 1e9)))
    return max(room, np.int64(0))


@jit
def _give_back(state, core, job, head, sign):
    """Add a core and its memory to what is free at the shadow date (take it: ``sign`` -1); return the room gained."""
    forecast = state.forecasts[state.processors[state.processor_of[core]].node]
    forecast.shadow_cores += sign
    forecast.shadow_memory_mib += sign * state.jobs[job].memory_mib
    before = forecast.shadow_room
    forecast.shadow_room = _room(forecast, head)
    return forecast.shadow_room - before


@jit
def _come_back(state, node, head):
    """Add the cores of a node that will be on to what is free at the shadow date; return the room gained."""
    forecast = state.forecasts[node]
    forecast.shadow_cores += end_core_of(state, node) - first_core_of(state, node)
    before = forecast.shadow_room
    forecast.shadow_room = _room(forecast, head)
    return forecast.shadow_room - before


@jit
def reserve(state, head_job):
    """Give the first job of the queue its reservation; return the shadow date and the room for the job then."""
    s = state.scalars[0]
    if s.predicts_ends == 1:
        correct_predictions(state)
    head = state.jobs[head_job]
    room = np.int64(0)
    for i in range(len(state.nodes)):
        forecast = state.forecasts[i]
        forecast.shadow_cores = state.n_free_on[i]
        forecast.shadow_memory_mib = state.free_memory_mib[i]
        forecast.shadow_room = _room(forecast, head)
        room += forecast.shadow_room
    shadow_s = s.message_s
    n_coming, n_come = gather_coming(state), 0
    for i in range(s.n_expected):
        job = state.expected[i]
        row = state.jobs[job]
        while n_come < n_coming and on_from_s(state, state.coming[n_come]) <= row.expected_end_s:
            if room >= head.n_requested and on_from_s(state, state.coming[n_come]) > shadow_s:
                return shadow_s, room
            shadow_s = max(shadow_s, on_from_s(state, state.coming[n_come]))
            room += _come_back(state, state.coming[n_come], head)
            n_come += 1
        if room >= head.n_requested and row.expected_end_s > shadow_s:
            break
        shadow_s = max(shadow_s, row.expected_end_s)
        # A job that was started in this very answer has its cores in the pool only; its op knows where.
        first, n, in_pool = row.first_core, row.n_cores, False
        if n == 0:
            first, n, in_pool = cores_in_answer(state, job)
        for k in range(first, first + n):
            core = state.pool[k] if in_pool else state.allocated[k]
            room += _give_back(state, core, job, head, 1)
    while n_come < n_coming and room < head.n_requested:
        shadow_s = max(shadow_s, on_from_s(state, state.coming[n_come]))
        room += _come_back(state, state.coming[n_come], head)
        n_come += 1
    return shadow_s, room


@jit
def cores_in_answer(state, job):
    """Return first position and number in the pool of the cores of a job started in this very answer, and True."""
    for i in range(state.scalars[0].n_ops):
        op = state.ops[i]
        if op.kind == codes.EXECUTE and op.subject == job:
            return op.first, op.n, True
    return 0, 0, True


@jit
def _candidate_key(state, job, order):
    row = state.jobs[job]
    if order == codes.EASY_FCFS:
        return np.float64(row.rank)
    if order == codes.EASY_SJBF:
        return order_length_s(state, job)
    if order == codes.EASY_PRIORITY:
        return row.priority
    return np.nan


@jit
def gather_candidates(state, order, head):
    """Gather the jobs that may overtake the one at a position of the sorted queue, as they are to be tried.

    Returns how many they are. Those before that position are held.
    """
    s = state.scalars[0]
    n = 0
    for i in range(head + 1, s.n_queue):
        job = state.queue[i]
        if state.jobs[job].n_requested > s.n_free_cores or is_held(state, job):
            continue
        key, rank = _candidate_key(state, job, order), state.jobs[job].rank
        position = n
        while position > 0:
            other = state.candidates[position - 1]
            other_key = _candidate_key(state, other, order)
            if other_key < key or (other_key == key and state.jobs[other].rank < rank):
                break
            state.candidates[position] = other
            position -= 1
        state.candidates[position] = job
        n += 1
    return n


@jit
def is_held(state, job):
    """Tell whether a gate holds a waiting job now."""
    s = state.scalars[0]
    if s.has_gate == 0:
        return False
    return holds(state.predictions[job].reserve, state.jobs[job].n_requested, s.n_free_cores, len(state.cores))


@jit
def _may_overtake(state, job, first, n, head_job, shadow_s, room):
    """Tell whether a job may start on the cores ``pool[first:first + n]``; return the room left for the first job."""
    s = state.scalars[0]
    if s.message_s + expected_run_s(state, job, first, n) <= shadow_s:
        return True, room
    head = state.jobs[head_job]
    left = room
    for i in range(first, first + n):
        left += _give_back(state, state.pool[i], job, head, -1)
    if left >= head.n_requested:
        return True, left
    for i in range(first, first + n):
        _give_back(state, state.pool[i], job, head, 1)
    return False, room


@jit
def _is_in_the_way(state, job, head_job, shadow_s, room):
    """Tell whether a job delays the first one on whatever cores, without choosing any."""
    if state.jobs[head_job].memory_mib > 0.0:
        return False
    is_late = state.scalars[0].message_s + _run_at(state, job, fastest_gflops(state)) > shadow_s
    return is_late and room - state.jobs[job].n_requested < state.jobs[head_job].n_requested


@jit
def choose_overtaking(state, job, core_key, head_job, shadow_s, room):
    """Choose and lock cores for a job that may overtake the first one.

    Returns whether it may start (its cores are the last ones of the pool then), and the room left for the first job.
    """
    s = state.scalars[0]
    first = s.n_pool
    if _is_in_the_way(state, job, head_job, shadow_s, room) or choose_cores(state, job, core_key) != CHOSEN:
        return False, room
    allowed, room = _may_overtake(state, job, first, s.n_pool - first, head_job, shadow_s, room)
    if not allowed:
        put_back(state, job, first)
    return allowed, room


@jit
def could_overtake(state, job, core_key, head_job, shadow_s, room):
    """Tell whether a job may overtake the first one; nothing changes by it."""
    s, row, head = state.scalars[0], state.jobs[job], state.jobs[head_job]
    first = s.n_pool
    if row.n_requested > s.n_free_cores:
        return False
    if row.memory_mib <= 0.0:  # then all cores are alike but for their speeds
        leaves_room = head.memory_mib <= 0.0 and room - row.n_requested >= head.n_requested
        if leaves_room or s.message_s + _run_at(state, job, slowest_gflops(state)) <= shadow_s:
            return True
    allowed, _ = choose_overtaking(state, job, core_key, head_job, shadow_s, room)
    if allowed:
        if s.message_s + expected_run_s(state, job, first, s.n_pool - first) > shadow_s:
            for i in range(first, s.n_pool):
                _give_back(state, state.pool[i], job, state.jobs[head_job], 1)
        put_back(state, job, first)
    return allowed


@jit
def start_job(state, job, position, first, n):
    """Start the waiting job at ``position`` of the queue on the locked cores ``pool[first:first + n]``."""
    take(state, position)
    expect_end(state, job, first, n)
    after_locking(state, first, n)
    messages.add_op(state, codes.EXECUTE, job, first, n, 0.0)


@jit
def note_failure(state, reason):
    """Note that the next job did not fit, and what was missing: the outcome of `choose_cores`."""
    s = state.scalars[0]
    if s.logging == 0:
        return
    if reason == NO_CORES:
        state.core_fails[s.n_core_fails] = s.message_s
        s.n_core_fails += 1
    elif reason == NO_MEMORY:
        state.memory_fails[s.n_memory_fails] = s.message_s
        s.n_memory_fails += 1
