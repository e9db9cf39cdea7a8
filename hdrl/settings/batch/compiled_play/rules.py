"""Observations, legal actions, and the jobs that picks start, on a machine of any kind.

All decisions of one date are made in one go, so that a reservation is good until the last of them; only RLScheduler's
date for the chosen job holds from one message to the next.
"""

from __future__ import annotations

import math

from hdrl.compiled.jit import jit
from hdrl.settings.batch.identical_cores import observe, queue
from hdrl.settings.batch.identical_cores.codes import BLOCK, CHOOSE, OVERTAKE
from hdrl.settings.batch.kernel import codes
from hdrl.settings.batch.kernel.backfill import choose_overtaking, could_overtake, expected_run_s, reserve, start_job
from hdrl.settings.batch.kernel.selection import CHOSEN, choose_cores, put_back
from hdrl.settings.batch.kernel.waiting import find

NO_JOB = -1
WAIT = -1
"""The stage at which nothing is to be decided before the next event."""


@jit
def see(play):
    """Take in what has happened since the last decisions."""
    state, pool, s = play.kernel, play.pool, play.pick.scalars[0]
    s.date += 1
    s.n_actions = 0
    s.is_judged = 0
    state.scalars[0].news = codes.NO_NEWS
    pool.scalars[0].is_reserved = 0
    pool.scalars[0].shown_s = math.nan
    if pool.settings[0].commitment != BLOCK:
        pool.scalars[0].chosen = NO_JOB
    queue.release_held(pool)
    first = state.scalars[0].n_queue
    while first > 0 and state.jobs[state.queue[first - 1]].rank >= s.next_rank:
        first -= 1
    for i in range(first, state.scalars[0].n_queue):
        queue.enqueue(pool, play.pick.position_of[state.queue[i]])
    s.next_rank = state.scalars[0].next_rank


@jit
def is_held(play, job):
    """Tell whether a job is held until the next event."""
    return play.pick.held[job] == play.pick.scalars[0].date


@jit
def is_running(play):
    """Tell whether jobs run, those included that are being started."""
    return play.kernel.scalars[0].n_expected > 0


@jit
def can_wait(play):
    """Tell whether anything will happen if nothing is started."""
    return is_running(play) or play.pick.scalars[0].next_rank < len(play.kernel.jobs)


@jit
def _has_room(state, row):
    """Tell whether nodes have cores and memory for a job."""
    n = 0
    for node in range(len(state.nodes)):
        by_memory = min(math.floor(state.free_memory_mib[node] / row.memory_mib), 1e9)
        n += max(min(state.n_free_on[node], int(by_memory)), 0)
    return n >= row.n_requested


@jit
def could_start(play, job):
    """Tell whether a job could start now and is not held."""
    state = play.kernel
    row = state.jobs[job]
    if row.n_requested > state.scalars[0].n_free_cores or is_held(play, job):
        return False
    return row.memory_mib <= 0.0 or _has_room(state, row)


@jit
def follow(play):
    """Bring the pool up to what is free and fits now."""
    state, pool = play.kernel, play.pool
    s = pool.scalars[0]
    s.n_free, s.n_running = state.scalars[0].n_free_cores, state.scalars[0].n_expected
    # Dates of messages have six decimals: a job may seem to come a little later.
    s.message_s = state.scalars[0].message_s
    for position in range(s.n_waiting):
        s.message_s = max(s.message_s, pool.waiting_submit_s[position])
    if play.pick.scalars[0].has_memory == 0:
        return
    for position in range(s.n_waiting):
        job = play.pick.job_at[pool.waiting[position]]
        # What lacks memory cannot start either: to the pool it is too large.
        size = state.jobs[job].n_requested if could_start(play, job) else pool.settings[0].n_procs + 1
        if size != pool.waiting_sizes[position]:
            pool.waiting_sizes[position] = size
            s.shown_free = -1


@jit
def _start(play, job, first):
    """Start a job on the cores that were chosen for it last: the cores of the pool from ``first`` on."""
    state, pool = play.kernel, play.pool
    start_job(state, job, find(state, job), first, state.scalars[0].n_pool - first)
    queue.take(pool, queue.position_of(pool, play.pick.position_of[job]))


@jit
def _start_if_fitting(play, job):
    """Start a job if it fits; return whether it did."""
    first = play.kernel.scalars[0].n_pool
    if choose_cores(play.kernel, job, play.pick.scalars[0].core_key) != CHOSEN:
        return False
    _start(play, job, first)
    return True


@jit
def next_stage(play):
    """Start the committed job; return the stage of the next decision: ``CHOOSE``, ``OVERTAKE`` or `WAIT`."""
    pool, s = play.pool, play.pool.scalars[0]
    if s.chosen != NO_JOB:
        if not _start_if_fitting(play, play.pick.job_at[s.chosen]):
            return _keep_chosen(play)
        s.chosen = NO_JOB
    follow(play)
    is_due = s.n_waiting > 0 and (pool.settings[0].commitment == BLOCK or queue.any_fits(pool))
    return CHOOSE if is_due else WAIT


@jit
def _keep_chosen(play):
    """Let others overtake the chosen job, which does not fit; return the stage of the choice that is due."""
    s, backfilling = play.pool.scalars[0], play.pool.settings[0].backfilling
    is_asked = backfilling == codes.EASY_PRIORITY
    if backfilling != codes.NO_BACKFILLING and s.is_reserved == 0:
        s.is_reserved = 1
        if backfilling != codes.STRICT_FCFS:
            _reserve_chosen(play)
        if not is_asked:
            _backfill(play)
    follow(play)
    return OVERTAKE if is_asked else WAIT


@jit
def _reserve_chosen(play):
    s = play.pool.scalars[0]
    s.shadow_s, play.pick.scalars[0].room = reserve(play.kernel, play.pick.job_at[s.chosen])


@jit
def may_overtake(play, job):
    """Tell whether a job may start now although the chosen one waits, where the agent chooses it."""
    state, s, own = play.kernel, play.pool.scalars[0], play.pick.scalars[0]
    head = play.pick.job_at[s.chosen]
    return could_start(play, job) and could_overtake(state, job, own.core_key, head, s.shadow_s, own.room)


@jit
def _overtake(play, job):
    """Start a job before the chosen one, if it may."""
    state, s, own = play.kernel, play.pool.scalars[0], play.pick.scalars[0]
    first = state.scalars[0].n_pool
    if play.pool.settings[0].backfilling == codes.STRICT_FCFS:
        if choose_cores(state, job, own.core_key) != CHOSEN:
            return
        run_s = expected_run_s(state, job, first, state.scalars[0].n_pool - first)
        is_allowed = state.scalars[0].message_s + run_s < s.shadow_s
        if not is_allowed:
            put_back(state, job, first)
    else:
        head = play.pick.job_at[s.chosen]
        is_allowed, own.room = choose_overtaking(state, job, own.core_key, head, s.shadow_s, own.room)
    if is_allowed:
        _start(play, job, first)


@jit
def _gather(play):
    """Gather the jobs that could start, in the order in which they are to be tried; return how many they are."""
    state, n = play.kernel, 0
    by_length = play.pool.settings[0].backfilling == codes.EASY_SJBF
    for i in range(state.scalars[0].n_queue):  # in the order in which they came
        job = state.queue[i]
        if not could_start(play, job):
            continue
        position, length_s = n, state.jobs[job].requested_time_s
        while by_length and position > 0 and state.jobs[state.candidates[position - 1]].requested_time_s > length_s:
            state.candidates[position] = state.candidates[position - 1]
            position -= 1
        state.candidates[position] = job
        n += 1
    return n


@jit
def _backfill(play):
    """Start the jobs that may overtake the chosen one, in the order of their submission or requested time."""
    chosen = play.pick.job_at[play.pool.scalars[0].chosen]
    for i in range(_gather(play)):
        job = play.kernel.candidates[i]
        if job != chosen:
            _overtake(play, job)


@jit
def pick(play, row, stage):
    """Carry out a pick of the job in a row, at a stage."""
    position = play.pool.waiting[row]
    job = play.pick.job_at[position]
    if stage == OVERTAKE:
        _overtake(play, job)
    elif not _start_if_fitting(play, job):
        s = play.pool.scalars[0]
        s.chosen, s.is_reserved = position, 0
        if play.pool.settings[0].backfilling == codes.STRICT_FCFS:
            _reserve_chosen(play)


@jit
def hold(play, row):
    """Hold the job in a row until jobs arrive or end: it is neither chosen nor may it overtake."""
    play.pick.held[play.pick.job_at[play.pool.waiting[row]]] = play.pick.scalars[0].date
    queue.hold(play.pool, row)


@jit
def _write_expected(play):
    """Write the expected ends of running jobs."""
    state, pool = play.kernel, play.pool
    for i in range(state.scalars[0].n_expected):
        job = state.expected[i]
        pool.expected_s[i] = state.jobs[job].expected_end_s
        pool.expected_jobs[i] = play.pick.position_of[job]


@jit
def _write_predictions(play):
    """Write the kernel's predictions for waiting jobs."""
    state, pool = play.kernel, play.pool
    for i in range(state.scalars[0].n_queue):
        source = state.predictions[state.queue[i]]
        target = pool.predictions[play.pick.position_of[state.queue[i]]]
        target.length_s, target.harmonic_s = source.length_s, source.harmonic_s
        target.log_length, target.log_harmonic = source.log_length, source.log_harmonic
        target.log_last_two = source.log_last_two
        target.log_request, target.log_share = source.log_request, source.log_share


@jit
def show(play):
    """Write the observation, after `rules.next_stage`."""
    pool = play.pool
    if len(pool.columns) > 0:
        _write_expected(play)
    if play.pick.scalars[0].copies == 1:
        _write_predictions(play)
    queue.sort_queue(pool)
    observe.show(pool)


@jit
def write_legal(play, stage):
    """Write the legal actions; return whether one of them picks a job."""
    pool, legal = play.pool, play.pick.legal
    settings = pool.settings[0]
    legal[:] = 0
    any_pick = False
    for row in range(pool.scalars[0].n_shown):
        job = play.pick.job_at[pool.waiting[row]]
        may_pick = not is_held(play, job) if stage == CHOOSE else may_overtake(play, job)
        if may_pick:
            any_pick = True
            legal[row] = 1
            if settings.may_hold == 1 and is_running(play):
                legal[settings.max_jobs + row] = 1
    if settings.has_skip == 1:
        legal[settings.max_jobs * (1 + settings.may_hold)] = 1 if can_wait(play) else 0
    return any_pick
