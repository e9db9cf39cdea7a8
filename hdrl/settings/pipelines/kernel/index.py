"""An index with weights of what a ready kernel may do next, which also lets kernels wait for a busy unit.

A *row* is a ready kernel on a unit, alone or fused. Its index is a weighted sum of `N_WEIGHTS` features; the lowest row
is done. If its unit is busy, the kernel is *held*, with all its rows, and the next one is looked at; if all are held,
nothing is started until the next event. So nothing waits in a queue.

What a row says of the others takes two passes: first which slack each kernel has at best on each unit, then the rows.
An instance whose kernel has no row with slack is *doomed*: to do it early is of no use.

All sums have a fixed order, and logarithms are those of `hdrl.compiled.elementary32`: the same bytes everywhere.
"""

from __future__ import annotations

import numpy as np

from hdrl.compiled.elementary32 import log
from hdrl.compiled.jit import jit
from hdrl.settings.pipelines.kernel.codes import NONE
from hdrl.settings.pipelines.kernel.engine import backlog_us, is_startable, kernel_row, runs_on
from hdrl.settings.pipelines.kernel.state import N_WEIGHTS

(
    SLACK,
    IS_LATE,
    IS_DOOMED,
    TIME,
    BACKLOG,
    AFTER,
    REGRET,
    SAVED,
    IS_IDLE,
    OTHER_KIND,
    SHARE_DONE,
    LOG_TIME,
    LOG_DUE,
    SHARE_LEFT,
    KILLS,
    HOPELESS,
    FUTURE,
) = range(N_WEIGHTS)
"""The features of a row; `hdrl.settings.pipelines.simulation.index.NAMES` says what each is."""

MOST_KILLED, MOST_RELEASES = 3, 6
"""Largest numbers of other instances that a row would doom, and of releases ahead, that are counted."""

NO_SLACK_US = -(1 << 61)
"""The slack of a kernel where it has no row: less than any."""


@jit
def look_ahead(state):
    """Write the largest slack of each ready kernel on each unit, `NO_SLACK_US` where it cannot run."""
    s, n_units = state.scalars[0], len(state.unit)
    for position in range(s.n_ready):
        ready, kernel = state.ready[position], kernel_row(state, position)
        left_us = _due_us(state, ready.instance)
        for unit in range(n_units):
            best_us = NO_SLACK_US
            free_us = left_us - backlog_us(state, unit)
            for number in range(kernel.first_choice, kernel.first_choice + kernel.n_choices):
                choice = state.choices[number]
                time_us = runs_on(state, ready.instance, choice, unit)
                if time_us != NONE and is_startable(state, ready.instance, choice):
                    # after_us is the longest path that follows, on best units: no schedule needs less.
                    best_us = max(best_us, free_us - time_us - choice.after_us)
            state.slack_us[position * n_units + unit] = best_us


@jit
def _due_us(state, instance):
    """Return the time until the deadline of an instance, with its tolerance."""
    s = state.scalars[0]
    row = state.instances[s.first_instance + instance]
    return row.deadline_us + row.tolerance_us - s.now_us


@jit
def best_slack_us(state, position):
    """Return the largest slack that a ready kernel has on any unit."""
    n_units = len(state.unit)
    best_us = state.slack_us[position * n_units]
    for unit in range(1, n_units):
        best_us = max(best_us, state.slack_us[position * n_units + unit])
    return best_us


@jit
def n_killed(state, position, unit, time_us):
    """Return the number of other instances' kernels that would newly be doomed if a ready kernel took a unit now."""
    n_units = len(state.unit)
    instance, n = state.ready[position].instance, 0
    for other in range(state.scalars[0].n_ready):
        if state.ready[other].instance == instance or best_slack_us(state, other) < 0:
            continue
        # The other kernel would wait for this unit, or go to one whose slack does not change.
        left_us = state.slack_us[other * n_units + unit] - time_us
        for elsewhere in range(n_units):
            if elsewhere != unit:
                left_us = max(left_us, state.slack_us[other * n_units + elsewhere])
        if left_us < 0:
            n += 1
    return n


@jit
def _n_future(state, time_us):
    """Return the number of next instances, released while a unit is taken, that would be late if they waited for it."""
    s = state.scalars[0]
    end_us = s.now_us + time_us
    n = 0
    for position in range(s.next_instance, min(s.next_instance + MOST_RELEASES, s.end_instance)):
        row = state.instances[position]
        # Instances are sorted by release: all later ones find the unit free again.
        if row.release_us >= end_us:
            break
        first = state.kernels[state.pipelines[row.pipeline].first_kernel]
        # Sporadic releases are not announced: what no scheduler can foresee must not enter a feature.
        if row.is_announced == 1 and row.deadline_us + row.tolerance_us - end_us - first.best_tail_us < 0:
            n += 1
    return n


@jit
def index_features(state, position, number, unit, time_us):
    """Write the features of a row (ready kernel, choice and unit), after `look_ahead`."""
    x = state.features
    s, ready, choice = state.scalars[0], state.ready[position], state.choices[number]
    row = state.instances[s.first_instance + ready.instance]
    pipeline = state.pipelines[row.pipeline]
    due_us, wait_us = _due_us(state, ready.instance), backlog_us(state, unit)
    slack_us = due_us - wait_us - time_us - choice.after_us
    best_us = best_slack_us(state, position)
    is_cpu = state.units[unit].kind == 0
    alone_us = choice.sum_cpu_us if is_cpu else choice.sum_gpu_us
    other_us = choice.gpu_us if is_cpu else choice.cpu_us
    n_left = state.progress[ready.instance].n_left
    is_idle, is_doomed = state.unit[unit].stay == NONE, best_us < 0
    x[SLACK] = min(1.0, max(-1.0, slack_us / row.period_us))
    x[IS_LATE] = 1.0 if slack_us < 0 else 0.0
    x[IS_DOOMED] = 1.0 if is_doomed else 0.0
    x[TIME] = time_us / row.period_us
    x[BACKLOG] = wait_us / row.period_us
    x[AFTER] = choice.after_us / row.period_us
    x[REGRET] = min(2.0, (best_us - slack_us) / row.period_us)
    x[SAVED] = 1.0 - time_us / alone_us if alone_us > 0 else 0.0
    x[IS_IDLE] = 1.0 if is_idle else 0.0
    x[OTHER_KIND] = (other_us - time_us) / (other_us + time_us) if other_us != NONE else 1.0
    x[SHARE_DONE] = choice.n_members / n_left
    # A millisecond is added, so that logarithms of short times stay bounded; 10 and 12 move usual values
    # towards 0, so that weights are of one size.
    x[LOG_TIME] = np.float64(log(np.float32(time_us + 1000))) - 10.0
    x[LOG_DUE] = np.float64(log(np.float32(max(due_us, 0) + 1000))) - 12.0
    x[SHARE_LEFT] = n_left / pipeline.n_kernels
    x[KILLS] = float(min(MOST_KILLED, n_killed(state, position, unit, time_us))) if is_idle else 0.0
    x[HOPELESS] = min(3.0, -best_us / row.period_us) if is_doomed else 0.0
    x[FUTURE] = float(_n_future(state, time_us)) if is_idle else 0.0


@jit
def _index(state):
    """Return the weighted sum of the features."""
    total = 0.0
    for k in range(N_WEIGHTS):
        total += state.weights[k] * state.features[k]
    return total


@jit
def decide_by_index(state):
    """Return position, unit and choice of the lowest row among kernels that are not held; unit `NONE`: all are held.

    A kernel whose own lowest row is on a busy unit is held. Of equal rows the first by position, choice, unit counts.
    """
    look_ahead(state)
    found, unit, choice, lowest = NONE, NONE, NONE, 0.0
    for position in range(state.scalars[0].n_ready):
        ready, kernel = state.ready[position], kernel_row(state, position)
        its_unit, its_choice, its_lowest = NONE, NONE, 0.0
        for number in range(kernel.first_choice, kernel.first_choice + kernel.n_choices):
            if not is_startable(state, ready.instance, state.choices[number]):
                continue
            for one in range(len(state.unit)):
                time_us = runs_on(state, ready.instance, state.choices[number], one)
                if time_us == NONE:
                    continue
                index_features(state, position, number, one, time_us)
                value = _index(state)
                # Strictly less: ties must not depend on anything but the order of choices and units.
                if its_unit == NONE or value < its_lowest:
                    its_unit, its_choice, its_lowest = one, number, value
        is_held = its_unit == NONE or state.unit[its_unit].stay != NONE
        if not is_held and (unit == NONE or its_lowest < lowest):
            found, unit, choice, lowest = position, its_unit, its_choice, its_lowest
    return found, unit, choice
