"""The loop over events: arrivals, ends, changes of level, and rounds."""

from __future__ import annotations

import math

from hdrl.compiled.codes import UNKNOWN_CODE
from hdrl.compiled.jit import jit
from hdrl.settings.gpu.kernel import codes, state
from hdrl.settings.gpu.kernel.deciding import decide
from hdrl.settings.gpu.kernel.running import advance_to, has_levels, next_event_s, orders_by_history

LOOK_AGAIN_S = 900.0
"""After so long without a decision, policies that use history decide again."""


@jit
def next_round_s(w):
    """Return the first date from now on at which decisions are made."""
    length = w.round_s[0]
    if length <= 0.0:
        return w.now_s[0]
    # The tolerance keeps a date on a round's border from being rounded up to the next round.
    return max(w.now_s[0], math.ceil(w.now_s[0] / length - 1e-9) * length)


@jit
def _has_changing_order(w):
    """Return whether the order changes while nothing happens, so that every round needs a decision."""
    if w.counts[state.N_WAITING] == 0:
        return False
    return orders_by_history(w) or (has_levels(w) and len(w.level_bounds) == 0)


@jit
def _reexamines_running(w):
    """Return whether running jobs may have to give way without any event: they last longer than predicted."""
    is_contested = w.counts[state.N_WAITING] > 0 and w.counts[state.N_RUNNING] > 0
    return is_contested and w.rules[codes.PREEMPTS] > 0 and orders_by_history(w)


@jit
def step_time(w):
    """Go to the next date at which something happens or a decision is due; return whether there is one."""
    time_s = next_event_s(w)
    if w.counts[state.NEEDS_DECISION]:
        time_s = min(time_s, next_round_s(w))
    elif w.round_s[0] > 0.0 and _has_changing_order(w):
        # At a border now: this round has been decided on already, so the next one is meant.
        time_s = min(time_s, next_round_s(w) + (w.round_s[0] if next_round_s(w) <= w.now_s[0] else 0.0))
        w.counts[state.NEEDS_DECISION] = 1
    elif _reexamines_running(w) and w.sums[state.DECIDED_S] + LOOK_AGAIN_S <= time_s:
        time_s = w.sums[state.DECIDED_S] + LOOK_AGAIN_S
        w.counts[state.NEEDS_DECISION] = 1
    if time_s == math.inf:
        return False
    advance_to(w, time_s)
    return True


@jit
def is_due(w):
    """Return whether a decision has to be made now."""
    return w.counts[state.NEEDS_DECISION] > 0 and next_round_s(w) <= w.now_s[0]


@jit
def _has_room(w):
    """Return whether the log has room for all stays that could end at one date."""
    n = w.counts[state.N_RUNNING]
    n_units = w.counts[state.N_UNITS] + len(w.machine.gpu_node) + n
    return w.counts[state.N_STAYS] + n < len(w.log.stay_job) and n_units < len(w.log.stay_units)


@jit
def has_valid_rules(w):
    """Return whether all numbers of the rules are in their tables."""
    order, rule = w.rules[codes.ORDER], w.rules[codes.RULE]
    placement, tie = w.rules[codes.PLACEMENT], w.rules[codes.TIE]
    return order in codes.ORDERS and placement in codes.PLACEMENTS and rule in codes.RULES and tie in codes.TIES


@jit
def run(w, n_steps):
    """Simulate under the rules for some steps; return why it stopped, or `UNKNOWN_CODE`."""
    if not has_valid_rules(w):
        return UNKNOWN_CODE
    for _ in range(n_steps):
        if w.counts[state.N_DONE] == w.jobs.n_jobs[0]:
            return codes.FINISHED
        # Before time goes on: no kernel function may allocate, so Python enlarges the log and calls again.
        if w.rules[codes.RECORDS] and not _has_room(w):
            return codes.NEEDS_ROOM
        if not step_time(w):
            return codes.STUCK
        if is_due(w):
            decide(w)
    return codes.PAUSED
