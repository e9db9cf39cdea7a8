"""From one decision about the order of jobs to the next.

*Blocking*, as in RLScheduler: the chosen job is the next to start; if it does not fit, time goes on until it does, and
the only choices meanwhile are which jobs may overtake it. *Repicking*, proper EASY: whenever something has happened,
jobs are chosen and started until a chosen one does not fit; that one is the first of the queue, with a reservation for
backfilling, until the next event; then another may be chosen. A decision is due only if a waiting job fits, since
otherwise nothing can start whatever is chosen. A job that is *held* until the next event is neither chosen nor may it
overtake, as under the gate of `kernel.keys`; while nothing runs, nothing can be held, so that time never stands still.

Backfilling is EASY or RLScheduler's. *EASY*: the chosen job, if it does not fit, gets a reservation at the *shadow*
date, at which enough processors will be free by what users expect; another may start now if it is expected to end by
then, or on the processors that the chosen one leaves over (*spare*). A job that has overrun its requested time is
expected to end at once. The rules are those of `kernel.backfill` on a machine without memory limits. They stand here
again because that one looks at nodes and chooses cores, and here are neither: a decision costs a microsecond, since
processors are only counted.

*RLScheduler's*: in the order of submission, a job may start if it is expected to end *before* the chosen job can, as
was expected when that was chosen; spare processors are not used.

References
----------
D. Lifka, "The ANL/IBM SP Scheduling System", JSSPP 1995. D. Zhang, D. Dai, Y. He, F. Bao, B. Xie, "RLScheduler: An
Automated HPC Batch Job Scheduler Using Reinforcement Learning", SC'20.
"""

from __future__ import annotations

import numpy as np

from hdrl.compiled.jit import jit
from hdrl.settings.batch.identical_cores.codes import BLOCK, CHOOSE, NO_KEY, OVER, OVERTAKE
from hdrl.settings.batch.identical_cores.events import next_event, start_at
from hdrl.settings.batch.identical_cores.queue import (
    NOWHERE,
    any_fits,
    best_position,
    is_open,
    key_value,
    position_of,
    sort_queue,
    submit_next,
)
from hdrl.settings.batch.kernel import codes


@jit
def reserve(state):
    """Find out when the chosen job, which does not fit, can start, and how many processors it leaves over then."""
    s = state.scalars[0]
    wanted = state.jobs[s.chosen].n_requested
    n_free = s.n_free
    shadow_s = s.message_s
    for i in range(s.n_running):
        if n_free >= wanted and state.expected_s[i] > shadow_s:
            break
        shadow_s = max(shadow_s, state.expected_s[i])
        n_free += state.jobs[state.expected_jobs[i]].n_requested
    s.shadow_s = shadow_s
    s.n_spare = n_free - wanted


@jit
def may_overtake(state, job):
    """Tell whether a job may start now although the chosen one waits."""
    s = state.scalars[0]
    row = state.jobs[job]
    if job == s.chosen or row.n_requested > s.n_free:
        return False
    if state.settings[0].backfilling == codes.STRICT_FCFS:
        return s.message_s + row.requested_time_s < s.shadow_s
    return s.message_s + row.requested_time_s <= s.shadow_s or row.n_requested <= s.n_spare


@jit
def overtake(state, position):
    """Start the job at a position of the queue, which may overtake the chosen one."""
    s = state.scalars[0]
    row = state.jobs[state.waiting[position]]
    if s.message_s + row.requested_time_s > s.shadow_s:
        s.n_spare -= row.n_requested
    start_at(state, position)


@jit
def _candidate_key(state, job, order, key):
    if order == codes.EASY_SJBF:
        return state.jobs[job].requested_time_s
    if order == codes.EASY_PRIORITY:
        return key_value(state, job, key)
    return np.float64(job) if order in (codes.EASY_FCFS, codes.STRICT_FCFS) else np.nan


@jit
def _gather(state, order, key):
    """Gather the jobs that fit, in the order in which they are to be tried; return how many."""
    s = state.scalars[0]
    sizes, n_free = state.waiting_sizes, s.n_free
    n = 0
    for i in range(s.n_waiting):
        if sizes[i] > n_free:  # most do not fit: they are passed over without a look at the table
            continue
        job = state.waiting[i]
        if not may_overtake(state, job):  # a job that may not now, may not later: nothing is freed meanwhile
            continue
        value = _candidate_key(state, job, order, key)
        position = n
        while position > 0:
            other = state.candidates[position - 1]
            other_value = _candidate_key(state, other, order, key)
            if other_value < value or (other_value == value and other < job):
                break
            state.candidates[position] = other
            position -= 1
        state.candidates[position] = job
        n += 1
    return n


@jit
def backfill(state, key):
    """Start the jobs that may overtake the chosen one, in the order of the settings (by priority: of a job key)."""
    s = state.scalars[0]
    if s.n_free == 0:
        return
    for i in range(_gather(state, state.settings[0].backfilling, key)):
        job = state.candidates[i]
        if may_overtake(state, job):
            overtake(state, position_of(state, job))


@jit
def begin(state):
    """Begin the episode of the jobs ``first_job`` to ``end_job`` on an empty machine, at its first submission."""
    s = state.scalars[0]
    s.next_job = s.first_job
    s.message_s = state.jobs[s.first_job].submit_s
    s.first_submit_s = s.message_s
    s.last_end_s = s.message_s
    s.n_free = s.n_procs
    s.n_waiting = 0
    s.n_running = 0
    s.n_started = 0
    s.n_held = 0
    s.is_weighed = 0
    s.chosen = -1
    s.is_reserved = 0
    s.bounded_slowdown = 0.0
    s.slowdown = 0.0
    s.wait_s = 0.0
    s.turnaround_s = 0.0
    s.area_s = 0.0
    s.max_wait_s = 0.0
    s.max_turnaround_s = 0.0
    s.max_slowdown = 0.0
    s.max_bounded_slowdown = 0.0
    s.rewarded = 0.0
    s.changed_from = 0
    s.moved_from = NOWHERE
    submit_next(state)
    if state.settings[0].is_one_by_one == 0:
        while s.next_job < s.end_job and state.jobs[s.next_job].submit_s <= s.message_s:
            submit_next(state)


@jit
def _any_may_overtake(state):
    """Tell whether a job that is shown may overtake the chosen one."""
    s = state.scalars[0]
    if s.n_free == 0:
        return False
    for position in range(min(s.n_waiting, state.settings[0].max_jobs)):
        if state.waiting_sizes[position] <= s.n_free and may_overtake(state, state.waiting[position]):
            return True
    return False


@jit
def _look_after_chosen(state, key):
    """Start the chosen job if it fits, else let others overtake it; return True if the agent must choose which."""
    s = state.scalars[0]
    settings = state.settings[0]
    if state.jobs[s.chosen].n_requested <= s.n_free:
        start_at(state, position_of(state, s.chosen))
        s.chosen = -1
        return False
    is_asked = settings.backfilling == codes.EASY_PRIORITY and key == NO_KEY
    if settings.backfilling != codes.NO_BACKFILLING and s.is_reserved == 0:
        s.is_reserved = 1
        if settings.backfilling != codes.STRICT_FCFS:
            reserve(state)
        if not is_asked:
            backfill(state, key)
    if is_asked and _any_may_overtake(state):
        return True
    leave(state)
    return False


@jit
def leave(state):
    """Let time go on to the next event; a chosen job stays chosen if choosing blocks."""
    next_event(state)
    if state.settings[0].commitment != BLOCK:
        state.scalars[0].chosen = -1


@jit
def _may_choose(state):
    """Tell whether a waiting job is to be chosen: one that is not held, while one could start (or choosing blocks)."""
    s = state.scalars[0]
    if s.n_waiting == 0 or (state.settings[0].commitment != BLOCK and not any_fits(state)):
        return False
    if s.n_held == 0:
        return True
    n_shown = min(s.n_waiting, state.settings[0].max_jobs)
    for position in range(n_shown):  # noqa: SIM110 - compiled code knows no generators
        if is_open(state, position):
            return True
    return False


@jit
def advance(state, key):
    """Go on until a decision is due, or every job has been started; return which.

    ``key`` is the job key of who decides, or `NO_KEY` if that is not known here.
    """
    s = state.scalars[0]
    while True:
        if s.chosen >= 0:
            if _look_after_chosen(state, key):
                s.stage = OVERTAKE
                break
        elif s.n_waiting == 0 and s.next_job == s.end_job:
            s.stage = OVER
            break
        elif _may_choose(state):
            s.stage = CHOOSE
            break
        else:
            next_event(state)
    if key == NO_KEY:
        sort_queue(state)
    return s.stage


@jit
def choose(state, position):
    """Choose the waiting job at a position: start it if it fits."""
    s = state.scalars[0]
    if s.stage == OVERTAKE:
        overtake(state, position)
        return
    job = state.waiting[position]
    if state.waiting_sizes[position] <= s.n_free:
        start_at(state, position)
        return
    s.chosen = job
    s.is_reserved = 0
    if state.settings[0].backfilling == codes.STRICT_FCFS:
        reserve(state)


@jit
def run_key(state, key):
    """Run the whole episode under a job key."""
    begin(state)
    while advance(state, key) != OVER:
        choose(state, best_position(state, key))
