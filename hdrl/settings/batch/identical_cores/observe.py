"""Observation of an agent: rows of waiting jobs, and which of them it may choose.

The eight columns of RLScheduler come first: wait / 12 h, requested time, processors, requested memory, user, group and
executable as `table` scales them, and whether the job can start now. Only what has changed is written: that makes 1.8
times as many steps as writing all of it would (64 blocking environments, 2.4 against 1.35 million a second).
"""

from __future__ import annotations

import math

import numpy as np

from hdrl.compiled.jit import jit
from hdrl.settings.batch.identical_cores import codes
from hdrl.settings.batch.identical_cores.codes import CHOOSE, N_PROFILE, N_TEMPLATE, OVER, OVERTAKE
from hdrl.settings.batch.identical_cores.engine import may_overtake
from hdrl.settings.batch.identical_cores.events import has_event
from hdrl.settings.batch.identical_cores.history import backlog, describe_again, describe_waiting
from hdrl.settings.batch.identical_cores.queue import NOWHERE, is_open
from hdrl.settings.batch.kernel.keys import FIRST_OF_STARTS, N_FEATURES

CAP = 1.0 - 1e-5
_STARTS = np.array([1e-5, 1.0 - 1e-5], dtype=np.float32)  # whether a job can start; a table, for no branch is as fast
LONGEST_WAIT_S = 43200.0
PER_LONGEST_WAIT = 1.0 / LONGEST_WAIT_S
LONGEST_S = 1e7  # of waits and requested times whose logarithms are seen: 116 days
_LOG10_LONGEST = 7.0
_FIRST_PROFILE_S = 60.0  # and then four times as long each
_HOUR_S = 3600.0
# What the features of the index are from and to, in which an observation shows them as 0 to 1; and the backlog.
_LOWEST = np.array((-4.0, -4.0, -3.5, -1.5, -3.0, 0.0, -2.0, 0.0, 0.0, -1.0, 0.0, 0.0, 0.0))
_HIGHEST = np.array((2.5, 1.5, 3.0, 3.5, 3.0, 10.0, 3.0, 10.0, 1.0, 2.0, 6.0, 6.0, 1.0))
_BACKLOG = (-4.0, 3.0)


@jit
def _write_padding(state, first, last, n_features):
    """Write rows without a job: 0 1 1 1 1 1 1 0, and 0 in further columns."""
    observations = state.observations
    for row in range(first, last):
        at = row * n_features
        for i in range(n_features):
            observations[at + i] = 0.0
        for i in range(1, N_TEMPLATE - 1):
            observations[at + i] = 1.0


@jit
def _move_up(state, n_features):
    """Move the rows behind a job that has left the queue up by one; return the first row to write again."""
    s = state.scalars[0]
    n_kept = min(s.changed_from, s.n_shown)
    if s.moved_from >= s.n_shown:
        return n_kept
    observations = state.observations
    for i in range(s.moved_from * n_features, (s.n_shown - 1) * n_features):
        observations[i] = observations[i + n_features]
    return min(n_kept, s.n_shown - 1)


@jit
def _write_rows(state, n_shown, n_features):
    """Write the eight columns of the jobs that are shown; return which is the first that is not as it was."""
    s = state.scalars[0]
    first = min(_move_up(state, n_features), n_shown)
    # Arrays in local variables: what is written could otherwise be the tuple that they are read from.
    templates, waiting, observations = state.templates, state.waiting, state.observations
    at = first * n_features
    for row in range(first, n_shown):
        job = waiting[row]
        # First all are read and then all are written, so that this is compiled to few instructions.
        a, b, c = templates[job, 1], templates[job, 2], templates[job, 3]
        d, e, f = templates[job, 4], templates[job, 5], templates[job, 6]
        observations[at + 1] = a
        observations[at + 2] = b
        observations[at + 3] = c
        observations[at + 4] = d
        observations[at + 5] = e
        observations[at + 6] = f
        at += n_features
    first = first if s.shown_s == s.message_s else 0
    _write_waits_and_starts(state, first, n_shown, n_features)
    if s.shown_free != s.n_free:
        _write_starts(state, first, n_features)
    return first


@jit
def _write_waits_and_starts(state, first, n_shown, step):
    """Write the waits of the jobs from a row on, and whether each can start now."""
    observations, submit_s, sizes = state.observations, state.waiting_submit_s, state.waiting_sizes
    now_s, n_free = state.scalars[0].message_s, state.scalars[0].n_free
    at, last = first * step, N_TEMPLATE - 1
    for row in range(first, n_shown):
        wait = (now_s - submit_s[row]) * PER_LONGEST_WAIT
        observations[at] = wait if wait < CAP else CAP
        observations[at + last] = _STARTS[1 if sizes[row] <= n_free else 0]
        at += step


@jit
def _write_starts(state, n_rows, step):
    """Write whether each of the first jobs can start now."""
    observations, sizes, n_free = state.observations, state.waiting_sizes, state.scalars[0].n_free
    at = N_TEMPLATE - 1
    for row in range(n_rows):
        observations[at] = _STARTS[1 if sizes[row] <= n_free else 0]
        at += step


@jit
def _write_open(state, n_shown):
    """Write whether each job may be picked or held; return whether nothing need be started now."""
    s = state.scalars[0]
    masks, max_jobs, n_free = state.masks, state.settings[0].max_jobs, s.n_free
    for row in range(n_shown):
        may_pick = s.stage == CHOOSE and is_open(state, row)
        if s.stage == OVERTAKE:
            may_pick = state.waiting_sizes[row] <= n_free and may_overtake(state, state.waiting[row])
        masks[row] = 1 if may_pick else 0
        masks[max_jobs + row] = 1 if may_pick and s.n_running > 0 else 0
    return s.stage == OVERTAKE or (s.stage == CHOOSE and has_event(state))


@jit
def _write_presence(state, n_shown):
    """Write whether each row holds a job; those that hold none any more can be neither picked nor held."""
    settings, masks, row_masks, n_before = state.settings[0], state.masks, state.row_masks, state.scalars[0].n_shown
    for row in range(n_before, n_shown):
        row_masks[row] = 1
    for row in range(n_shown, max(n_before, n_shown)):
        masks[row] = 0
        row_masks[row] = 0
        if settings.may_hold == 1:
            masks[settings.max_jobs + row] = 0


@jit
def _write_masks(state, n_shown):
    """Write the legal actions, and whether each row holds a job."""
    s = state.scalars[0]
    settings = state.settings[0]
    masks = state.masks
    n_open = min(s.n_open, n_shown)
    s.n_open = 0
    if settings.may_hold == 1:
        can_skip = _write_open(state, n_shown)
    elif s.stage == CHOOSE:
        for row in range(n_open, n_shown):
            masks[row] = 1
        s.n_open = n_shown
        can_skip = has_event(state)
    elif s.stage == OVER:
        can_skip = False
    else:
        for row in range(n_shown):
            masks[row] = 1 if may_overtake(state, state.waiting[row]) else 0
        can_skip = True
    _write_presence(state, n_shown)
    if settings.has_skip == 1:
        masks[settings.max_jobs * (1 + settings.may_hold)] = 1 if can_skip else 0
    if s.stage == OVER:
        masks[0] = 1  # is ignored; a mask without any legal action has no distribution


@jit
def _profile_s(point):
    return _FIRST_PROFILE_S * 4.0**point


@jit
def _fill_profile(state):
    """Find out how many processors will be free at dates to come, by what users expect."""
    s = state.scalars[0]
    n_free, i = s.n_free, 0
    for point in range(N_PROFILE):
        date_s = s.message_s + _profile_s(point)
        while i < s.n_running and state.expected_s[i] <= date_s:
            n_free += state.jobs[state.expected_jobs[i]].n_requested
            i += 1
        state.profile[point] = n_free / s.n_procs


@jit
def _write_earliest_starts(state, column, n_shown, n_features):
    """Write the waits of jobs from now on if nothing else were to start, by what users expect."""
    s, freed = state.scalars[0], state.freed
    n_free = s.n_free
    for i in range(s.n_running):
        n_free += state.jobs[state.expected_jobs[i]].n_requested
        freed[i] = n_free
    for row in range(n_shown):
        n_requested, wait_s = state.jobs[state.waiting[row]].n_requested, 0.0
        if n_requested > s.n_free:
            i = 0
            while freed[i] < n_requested:
                i += 1
            wait_s = max(0.0, state.expected_s[i] - s.message_s)
        state.observations[row * n_features + column] = _saturating(wait_s)


@jit
def _mean_remaining_s(state):
    """Return the expected time left of the running jobs, averaged over the processors that they hold."""
    s = state.scalars[0]
    area_s, n_procs = 0.0, 0
    for i in range(s.n_running):
        n = state.jobs[state.expected_jobs[i]].n_requested
        area_s += n * max(0.0, state.expected_s[i] - s.message_s)
        n_procs += n
    return area_s / n_procs if n_procs > 0 else 0.0


@jit
def _saturating(value_s):
    return value_s / (value_s + _HOUR_S)


@jit
def _between(value, lowest, highest):
    """Return the position of a value between two others, 0 to 1."""
    return min(max((value - lowest) / (highest - lowest), 0.0), CAP)


@jit
def _write_index(state, column, first, n_shown, n_features):
    """Write the features of `kernel.keys`, from a column on; of rows before the first, those that starts change."""
    x, observations = state.features, state.observations
    for row in range(n_shown):
        at, k = row * n_features + column, 0
        if row < first:
            describe_again(state, row)
            k = FIRST_OF_STARTS
        else:
            describe_waiting(state, row)
        while k < N_FEATURES:
            observations[at + k] = _between(x[k], _LOWEST[k], _HIGHEST[k])
            k += 1


@jit
def _common_column(state, code):
    """Return the value of a column that is the same in all rows."""
    s = state.scalars[0]
    n_procs = s.n_procs
    if code == codes.FREE_PROCESSORS:
        return s.n_free / n_procs
    if code == codes.QUEUE_LENGTH:
        return s.n_waiting / (s.n_waiting + state.settings[0].max_jobs)
    if code == codes.RUNNING_JOBS:
        return s.n_running / n_procs
    if code == codes.RUNNING_REMAINING:
        return _saturating(_mean_remaining_s(state))
    if code == codes.BACKLOG:
        return _between(backlog(state), _BACKLOG[0], _BACKLOG[1])
    position = code - codes.PROFILE
    return state.profile[position] if 0 <= position < N_PROFILE else np.nan


@jit
def _own_column(state, code, job):
    """Return the value of a column that differs from job to job."""
    s = state.scalars[0]
    settings = state.settings[0]
    row = state.jobs[job]
    wait_s = s.message_s - row.submit_s
    requested_s = max(row.requested_time_s, 1.0)
    if code == codes.LOG_WAIT:
        return min(math.log10(1.0 + wait_s) / _LOG10_LONGEST, 1.0)
    if code == codes.LOG_REQUESTED_TIME:
        return min(math.log(1.0 + requested_s) * settings.log_requested_scale, 1.0)
    if code == codes.LOG_PROCESSORS:
        return math.log(row.n_requested) / math.log(max(s.n_procs, 2))
    if code == codes.EXPECTED_SLOWDOWN:
        slowdown = max(1.0, (wait_s + requested_s) / max(requested_s, 10.0))
        return min(math.log10(slowdown) / 6.0, 1.0)
    if code == codes.IS_CHOSEN:
        return 1.0 if job == s.chosen else 0.0
    return np.nan


@jit
def _write_column(state, code, column, first, n_shown, n_features):
    if codes.INDEX <= code < codes.BACKLOG:
        if code == codes.INDEX:  # they come together, the others follow it
            _write_index(state, column, first, n_shown, n_features)
        return
    if code == codes.EARLIEST_START:
        _write_earliest_starts(state, column, n_shown, n_features)
        return
    if codes.LOG_WAIT <= code < codes.PROFILE:
        for row in range(n_shown):
            state.observations[row * n_features + column] = _own_column(state, code, state.waiting[row])
        return
    if code == codes.PROFILE:  # likewise
        _fill_profile(state)
    value = _common_column(state, code)
    for row in range(n_shown):
        state.observations[row * n_features + column] = value


@jit
def show(state):
    """Write the observation: what has changed in it."""
    s = state.scalars[0]
    settings = state.settings[0]
    n_features = settings.n_features
    n_shown = min(s.n_waiting, settings.max_jobs)
    first = _write_rows(state, n_shown, n_features)
    for i in range(len(state.columns)):
        _write_column(state, state.columns[i], N_TEMPLATE + i, first, n_shown, n_features)
    if n_shown < s.n_shown:
        _write_padding(state, n_shown, s.n_shown, n_features)
    s.n_shown = n_shown
    s.changed_from = NOWHERE
    s.moved_from = NOWHERE
    s.shown_s = s.message_s
    s.shown_free = s.n_free


@jit
def observe(state):
    """Write the observation and the mask."""
    _write_masks(state, min(state.scalars[0].n_waiting, state.settings[0].max_jobs))
    show(state)


@jit
def invalidate_observation(state):
    """Mark the whole observation as outdated, so that all of it is written the next time."""
    s = state.scalars[0]
    s.n_shown = state.settings[0].max_jobs
    s.changed_from = 0
    s.moved_from = NOWHERE


@jit
def observe_anew(state):
    """Write the whole observation and mask."""
    invalidate_observation(state)
    state.row_masks[:] = 1
    state.scalars[0].n_open = 0
    observe(state)
