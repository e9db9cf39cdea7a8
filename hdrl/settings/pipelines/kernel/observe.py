"""Observations of agents, and the meaning of their actions."""

from __future__ import annotations

from hdrl.compiled.jit import jit
from hdrl.settings.pipelines.kernel.codes import CHOOSE, NONE
from hdrl.settings.pipelines.kernel.engine import (
    backlog_us,
    can_wait,
    dispatch,
    hold,
    is_startable,
    kernel_row,
    runs_on,
    wait,
)
from hdrl.settings.pipelines.kernel.index import MOST_KILLED, best_slack_us, look_ahead, n_killed

N_FEATURES, N_LOOKAHEAD = 12, 4
"""Columns of a row, and further ones with lookahead: see `hdrl.settings.pipelines.envs.env`."""


@jit
def act(state, action):
    """Carry out an action that is legal."""
    settings = state.settings[0]
    if settings.is_fixed_task == 1:
        _act_fixed(state, action)
        return
    n_units, n_depths = len(state.unit), settings.n_depths
    if action == settings.max_ready * n_units * n_depths:
        wait(state)
        return
    place = action // (n_units * n_depths)
    unit = action // n_depths % n_units
    # With lookahead nothing queues: a kernel that prefers a busy unit may choose anew at the next event.
    if settings.has_lookahead == 1 and state.unit[unit].stay != NONE:
        hold(state, place)
    else:
        dispatch(state, place, kernel_row(state, place).first_choice + action % n_depths, unit)
    s = state.scalars[0]
    # All visible kernels are held, so no action is left: time goes on as if the agent had waited.
    if settings.has_lookahead == 1 and s.n_ready > 0 and _n_free(state) == 0:
        s.is_waiting = 1


@jit
def _n_free(state):
    """Return the number of visible ready kernels that are not held."""
    n = 0
    for place in range(min(state.scalars[0].n_ready, state.settings[0].max_ready)):
        n += 1 - state.ready[place].is_held
    return n


@jit
def observe(state):
    """Write the observation and the mask."""
    s = state.scalars[0]
    for i in range(len(state.masks)):
        state.masks[i] = 0
    for i in range(len(state.row_masks)):
        state.row_masks[i] = 0
    for i in range(len(state.observations)):
        state.observations[i] = 0.0
    if state.settings[0].is_fixed_task == 1:
        _observe_fixed(state)
        return
    # A mask must have a legal action even after the end: the next step only begins a new episode.
    if s.stage != CHOOSE:
        state.masks[0] = 1
        return
    settings = state.settings[0]
    if settings.has_lookahead == 1:
        look_ahead(state)
    for place in range(min(s.n_ready, settings.max_ready)):
        if state.ready[place].is_held == 0:
            _observe_ready(state, place)
    if settings.has_wait == 1 and can_wait(state):
        state.masks[len(state.masks) - 1] = 1


@jit
def _bounded(value):
    return min(1.0, max(-1.0, value))


@jit
def _observe_ready(state, place):
    """Write the rows of a ready kernel: one for each unit and each choice that can start there."""
    s, settings = state.scalars[0], state.settings[0]
    n_units, n_depths = len(state.unit), settings.n_depths
    ready, kernel = state.ready[place], kernel_row(state, place)
    row = state.instances[s.first_instance + ready.instance]
    # Periods are the unit of all times, so that one network serves pipelines of any speed.
    scale = 1.0 / row.period_us
    due_us = row.deadline_us + row.tolerance_us - s.now_us
    n_left = state.progress[ready.instance].n_left
    n_columns = N_FEATURES + N_LOOKAHEAD * settings.has_lookahead
    for depth in range(min(n_depths, kernel.n_choices)):
        choice = state.choices[kernel.first_choice + depth]
        if not is_startable(state, ready.instance, choice):
            continue
        for unit in range(n_units):
            time_us = runs_on(state, ready.instance, choice, unit)
            if time_us == NONE:
                continue
            action = (place * n_units + unit) * n_depths + depth
            wait_us = backlog_us(state, unit)
            is_cpu = state.units[unit].kind == 0
            alone_us = choice.sum_cpu_us if is_cpu else choice.sum_gpu_us
            other_us = choice.gpu_us if is_cpu else choice.cpu_us
            state.masks[action] = 1
            state.row_masks[action] = 1
            at = action * n_columns
            state.observations[at] = 1.0
            state.observations[at + 1] = _bounded(due_us * scale)
            state.observations[at + 2] = _bounded((ready.local_deadline_us - s.now_us) * scale)
            state.observations[at + 3] = _bounded((due_us - wait_us - time_us - choice.after_us) * scale)
            state.observations[at + 4] = _bounded(time_us * scale)
            state.observations[at + 5] = _bounded(wait_us * scale)
            state.observations[at + 6] = _bounded(choice.after_us * scale)
            state.observations[at + 7] = _bounded(1.0 - time_us / alone_us) if alone_us > 0 else 0.0
            state.observations[at + 8] = -1.0 if is_cpu else 1.0
            state.observations[at + 9] = 1.0 if state.unit[unit].stay == NONE else 0.0
            # From -1 (far slower than on the other kind) to 1 (far faster, or nowhere else).
            state.observations[at + 10] = (other_us - time_us) / (other_us + time_us) if other_us != NONE else 1.0
            state.observations[at + 11] = choice.n_members / n_left
            if settings.has_lookahead == 1:
                best_us = best_slack_us(state, place)
                regret_us = best_us - (due_us - wait_us - time_us - choice.after_us)
                state.observations[at + 12] = 1.0 if best_us < 0 else 0.0
                state.observations[at + 13] = _bounded(best_us * scale)
                state.observations[at + 14] = _bounded(regret_us * scale)
                if state.unit[unit].stay == NONE:
                    killed = min(MOST_KILLED, n_killed(state, place, unit, time_us))
                    state.observations[at + 15] = killed / MOST_KILLED


# ---------------------------------------------------------------------- rlschedsim's state and actions


@jit
def _act_fixed(state, action):
    """Give the ready kernel with the earliest local deadline to the CPU or the GPU, fused as deep as its chain goes."""
    n_depths = state.settings[0].n_depths
    unit = 0 if action < n_depths else 1
    kernel = kernel_row(state, 0)
    depth = min(action % n_depths, kernel.n_choices - 1)
    while depth > 0 and not is_startable(state, state.ready[0].instance, state.choices[kernel.first_choice + depth]):
        depth -= 1
    dispatch(state, 0, kernel.first_choice + depth, unit)


@jit
def _unit_time_us(state, number):
    """Return the busy time of a unit in rlschedsim's state, with the errors that are switched on."""
    settings, unit = state.settings[0], state.unit[number]
    if unit.stay == NONE:
        return 0
    running = state.stays[unit.stay]
    total = running.worst_us
    if settings.counts_whole_times == 0:
        total = max(running.start_us + running.worst_us - state.scalars[0].now_us, 0)
    if settings.counts_worst_times == 0:
        return total + unit.queued_us
    queued = unit.head
    while queued != NONE:
        stay = state.stays[queued]
        choice = state.choices[stay.choice]
        # The original counts the slower of both kinds for single queued kernels: an error that is reproduced here.
        total += max(choice.cpu_us, choice.gpu_us) if choice.n_members == 1 else stay.worst_us
        queued = stay.next
    return total


@jit
def _note(state, instance, kernel):
    """Take a kernel that waits or runs into account: the longest tail of its job, and the time to its deadline."""
    s = state.scalars[0]
    row = state.instances[s.first_instance + instance]
    tail_us = state.kernels[state.pipelines[row.pipeline].first_kernel + kernel].tail_us
    at = 2 + row.job
    state.observations[at] = max(state.observations[at], tail_us / 1000.0)
    state.observations[at + state.settings[0].n_jobs] = (row.deadline_us - s.now_us) / 1000.0


@jit
def _running_kernel(state, number):
    """Return the kernel of a fused group that a unit is at."""
    unit = state.unit[number]
    choice = state.choices[state.stays[unit.stay].choice]
    return state.members[choice.first_member + unit.member].kernel


@jit
def _observe_fixed(state):
    """Write rlschedsim's state, in milliseconds; every action is legal.

    If several instances of a pipeline are there, the time to the deadline is that of a ready one, else of a running
    one, else of a queued one: a later note comes before an earlier one.
    """
    s = state.scalars[0]
    for unit in range(2):
        state.observations[unit] = _unit_time_us(state, unit) / 1000.0
        queued = state.unit[unit].head
        while queued != NONE:
            choice = state.choices[state.stays[queued].choice]
            _note(state, state.stays[queued].instance, state.members[choice.first_member].kernel)
            queued = state.stays[queued].next
    for unit in range(2):
        if state.unit[unit].stay != NONE:
            _note(state, state.stays[state.unit[unit].stay].instance, _running_kernel(state, unit))
    for place in range(s.n_ready):
        _note(state, state.ready[place].instance, state.ready[place].kernel)
    state.row_masks[0] = s.stage == CHOOSE
    for i in range(len(state.masks)):
        state.masks[i] = 1 if s.stage == CHOOSE or i == 0 else 0
