"""Backfilling of identical processors: EASY, and RLScheduler's.

*EASY*: the chosen job, if it does not fit, gets a reservation at the *shadow* date, at which enough processors will be
free by what users expect; another may start now if it is expected to end by then, or on the processors that the chosen
one leaves over (*spare*). A job that has overrun its requested time is expected to end at once. The rules are those of
`kernel.backfill` on a machine without memory limits.

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
from hdrl.settings.batch.identical_cores.events import start_at
from hdrl.settings.batch.identical_cores.queue import key_value, place_of
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
def overtake(state, place):
    """Start the job at a place of the queue, which may overtake the chosen one."""
    s = state.scalars[0]
    row = state.jobs[state.waiting[place]]
    if s.message_s + row.requested_time_s > s.shadow_s:
        s.n_spare -= row.n_requested
    start_at(state, place)


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
        if not may_overtake(state, job):  # what may not now, may not later: nothing is freed meanwhile
            continue
        value = _candidate_key(state, job, order, key)
        place = n
        while place > 0:
            other = state.candidates[place - 1]
            other_value = _candidate_key(state, other, order, key)
            if other_value < value or (other_value == value and other < job):
                break
            state.candidates[place] = other
            place -= 1
        state.candidates[place] = job
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
            overtake(state, place_of(state, job))
