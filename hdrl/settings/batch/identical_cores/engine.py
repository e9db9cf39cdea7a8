"""From one decision about the order of jobs to the next.

*Blocking*, as in RLScheduler: the chosen job is the next to start; if it does not fit, time goes on until it does, and
nobody is asked meanwhile but who may overtake it. *Repicking*, proper EASY: whenever something has happened, jobs
are chosen and started until a chosen one does not fit; that one is the first of the queue, with a reservation for
backfilling, until the next event; then another may be chosen. A decision is due only if a waiting job fits, since
otherwise nothing can start whatever is chosen. A job that is *held* until the next event is neither chosen nor may it
overtake, as under the gate of `kernel.index`; while nothing runs, nothing can be held, so that time never stands still.
"""

from __future__ import annotations

from hdrl.compiled.jit import jit
from hdrl.settings.batch.identical_cores.backfill import backfill, may_overtake, overtake, reserve
from hdrl.settings.batch.identical_cores.codes import BLOCK, CHOOSE, NO_KEY, OVER, OVERTAKE
from hdrl.settings.batch.identical_cores.events import next_event, start_at
from hdrl.settings.batch.identical_cores.queue import (
    NOWHERE,
    any_fits,
    best_place,
    is_open,
    place_of,
    sort_queue,
    submit_next,
)
from hdrl.settings.batch.kernel import codes


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
    s.told = 0.0
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
    for place in range(min(s.n_waiting, state.settings[0].max_jobs)):
        if state.waiting_sizes[place] <= s.n_free and may_overtake(state, state.waiting[place]):
            return True
    return False


@jit
def _look_after_chosen(state, key):
    """Start the chosen job if it fits, else let others overtake it; return whether somebody is to be asked who."""
    s = state.scalars[0]
    settings = state.settings[0]
    if state.jobs[s.chosen].n_requested <= s.n_free:
        start_at(state, place_of(state, s.chosen))
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
    for place in range(n_shown):  # noqa: SIM110 - compiled code knows no generators
        if is_open(state, place):
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
def choose(state, place):
    """Choose the waiting job at a place: start it if it fits."""
    s = state.scalars[0]
    if s.stage == OVERTAKE:
        overtake(state, place)
        return
    job = state.waiting[place]
    if state.waiting_sizes[place] <= s.n_free:
        start_at(state, place)
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
        choose(state, best_place(state, key))
