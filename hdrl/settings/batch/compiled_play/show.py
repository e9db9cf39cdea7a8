"""What a model sees, and which actions are legal."""

from __future__ import annotations

from hdrl.compiled.jit import jit
from hdrl.settings.batch.compiled_play import rules
from hdrl.settings.batch.identical_cores import observe, queue
from hdrl.settings.batch.identical_cores.codes import CHOOSE


@jit
def _write_expected(play):
    """Write when running jobs are expected to end."""
    state, pool = play.kernel, play.pool
    for i in range(state.scalars[0].n_expected):
        job = state.expected[i]
        pool.expected_s[i] = state.jobs[job].expected_end_s
        pool.expected_jobs[i] = play.pick.place_of[job]


@jit
def _write_predictions(play):
    """Write what the kernel predicts of waiting jobs."""
    state, pool = play.kernel, play.pool
    for i in range(state.scalars[0].n_queue):
        source = state.predictions[state.queue[i]]
        target = pool.predictions[play.pick.place_of[state.queue[i]]]
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
    """Write which actions are legal; return whether any is that picks a job."""
    pool, legal = play.pool, play.pick.legal
    settings = pool.settings[0]
    legal[:] = 0
    any_pick = False
    for row in range(pool.scalars[0].n_shown):
        job = play.pick.job_at[pool.waiting[row]]
        may_pick = not rules.is_held(play, job) if stage == CHOOSE else rules.may_overtake(play, job)
        if may_pick:
            any_pick = True
            legal[row] = 1
            if settings.may_hold == 1 and rules.is_running(play):
                legal[settings.max_jobs + row] = 1
    if settings.has_skip == 1:
        legal[settings.max_jobs * (1 + settings.may_hold)] = 1 if rules.can_wait(play) else 0
    return any_pick
