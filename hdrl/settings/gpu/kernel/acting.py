"""What an agent sees and does: rows of waiting jobs x placements, rows of running jobs, wait, and the next page."""

from __future__ import annotations

import math

from hdrl.compiled.borrow import borrow
from hdrl.compiled.codes import UNKNOWN_CODE, CodeTable
from hdrl.compiled.counts import ALL_LEGAL, NO_ACTION, counts_at, keep_count, take_actions
from hdrl.compiled.jit import jit
from hdrl.compiled.team import LEADER, enter_round, leave_round, request_of, take_row
from hdrl.settings.gpu.kernel import codes, state
from hdrl.settings.gpu.kernel.deciding import (
    find_by_preempting,
    is_at_least,
    latest_key,
    may_fit,
    start_by_preempting,
)
from hdrl.settings.gpu.kernel.engine import knows_rules, step_time
from hdrl.settings.gpu.kernel.jit import entry
from hdrl.settings.gpu.kernel.placing import NOWHERE, find_place
from hdrl.settings.gpu.kernel.running import next_event_s, preempt, served_s, start, waiting_at, worked
from hdrl.settings.gpu.kernel.state import clear, move

N_COLUMNS = 16
"""Columns of a row, see `hdrl.settings.gpu.envs.env.GpuClusterVectorEnv`."""

MEAN_JCT, MEAN_QUEUEING, MEAN_SLOWDOWN, PRIORITY_JCT, MAKESPAN = OBJECTIVES = CodeTable("objective", range(5))
"""Objectives."""

N_OBJECTIVES = 5

# Places in the array of sizes.
MAX_JOBS, MAX_RUNNING, N_PLACEMENTS, OBJECTIVE, SEES_DURATIONS, MAX_PAGES, MAY_WAIT = range(7)

RESET, STEP = REQUESTS = CodeTable("request", range(2))
"""Requests to `serve`."""

HOUR_S = 3600.0
"""Times ``t`` are seen as ``t / (t + 1 h)``."""


@jit
def _squash(value):
    return value / (value + HOUR_S) if value > 0.0 else 0.0


@jit
def objective_value(w, e, which):
    """Return an objective over what has happened so far; at the end of an episode it is the metric.

    NaN of an objective that is in no table.
    """
    n = float(w.n_jobs[e])
    if which == MEAN_JCT:
        return w.sums[e, state.SYSTEM_S] / n
    if which == MEAN_QUEUEING:
        return w.sums[e, state.WAITING_S] / n
    if which == MEAN_SLOWDOWN:
        return w.sums[e, state.SLOW_S] / n
    if which == PRIORITY_JCT:
        total = 0.0
        for j in range(w.n_jobs[e]):
            total += w.priority[e, j]
        return w.sums[e, state.PRIORITY_S] / total
    if which == MAKESPAN:
        return w.now_s[e] - w.arrival_s[e, 0]
    return math.nan


@jit
def _may_start(w, e, j):
    """Tell whether a waiting job may start now: not at the date at which it gave way, unless nothing else happens."""
    return w.event_s[e, j] != w.now_s[e] or next_event_s(w, e) == math.inf


@jit
def _any_starts(w, e, placements):
    """Tell whether a waiting job could start."""
    failed, latest = -1, latest_key(w, e) if w.rules[codes.PREEMPTS] > 0 else -math.inf
    for i in range(w.counts[e, state.N_WAITING]):
        j = waiting_at(w, e, i)
        if not _may_start(w, e, j) or (failed >= 0 and is_at_least(w, e, j, failed)):
            continue
        if may_fit(w, e, j) and find_place(w, e, j, placements[0]) != NOWHERE:
            return True
        if w.key[e, j] < latest and find_by_preempting(w, e, j) != NOWHERE:
            return True
        failed = j
    return False


@jit
def _may_preempt(w, e, i):
    """Tell whether the running job at a place of the list may give way: not at the date at which it started."""
    if i >= w.counts[e, state.N_RUNNING] or w.counts[e, state.N_WAITING] == 0:
        return False
    if w.rules[codes.RECORDS] > 0 and w.counts[e, state.N_STAYS] + w.counts[e, state.N_RUNNING] + 1 >= len(w.stay_job):
        return False
    return w.since_s[e, w.running[e, i]] < w.now_s[e]


@jit
def _is_asked(w, e, sizes, placements):
    """Tell whether the agent has a choice now."""
    if w.counts[e, state.N_WAITING] == 0:
        return False
    for i in range(min(sizes[MAX_RUNNING], w.counts[e, state.N_RUNNING])):
        if _may_preempt(w, e, i):
            return True
    return _any_starts(w, e, placements)


@jit
def _advance(w, e, sizes, placements):
    """Go on until the agent has a choice, or all jobs are done."""
    while w.counts[e, state.N_DONE] < w.n_jobs[e]:
        if w.counts[e, state.NEEDS_DECISION] > 0 and _is_asked(w, e, sizes, placements):
            w.counts[e, state.N_DECISIONS] += 1
            return
        w.counts[e, state.NEEDS_DECISION] = 0
        w.counts[e, state.PAGE] = w.counts[e, state.PAGES_TURNED] = 0
        if not step_time(w, e):
            return


@jit
def _left_s(w, e, j):
    """Return the time that is left to a job alone on the fastest type, as it is estimated."""
    return max(0.0, w.estimate[e, j] - worked(w, e, j)) / w.best_rate[e, j]


@jit
def _next_end_s(w, e):
    """Return in what time the first of the running jobs is expected to end, infinite if none runs.

    The date of the next event would tell when the next job arrives, which no scheduler knows.
    """
    found = math.inf
    for i in range(w.counts[e, state.N_RUNNING]):
        j = w.running[e, i]
        overhead_s = max(0.0, w.since_s[e, j] + w.overhead_s[e, j] - w.now_s[e])
        found = min(found, overhead_s + max(0.0, w.estimate[e, j] - worked(w, e, j)) / w.rate[e, j])
    return found


@jit
def _n_pages(w, e, sizes):
    """Return how many pages of the queue can be looked at."""
    return min(sizes[MAX_PAGES], -(-w.counts[e, state.N_WAITING] // sizes[MAX_JOBS]))


@jit
def _describe(w, e, j, sizes, end_s, row, shown):
    """Write what is the same in all rows of a job."""
    shown[row, 0] = 1.0
    shown[row, 1] = _squash(w.now_s[e] - w.arrival_s[e, j])
    shown[row, 3] = w.n_gpus[e, j] / len(w.gpu_node)
    shown[row, 4] = w.milli[e, j] / 1000.0
    shown[row, 5] = w.priority[e, j] / (w.priority[e, j] + 1.0)
    shown[row, 11] = 1.0 - w.sums[e, state.BUSY_NOW] / len(w.gpu_node)
    waiting = w.counts[e, state.N_WAITING]
    shown[row, 12] = waiting / (waiting + 16.0)
    shown[row, 14] = _squash(served_s(w, e, j))
    if sizes[SEES_DURATIONS] == 0:
        return
    shown[row, 2] = _squash(_left_s(w, e, j))
    shown[row, 9] = min(1.0, worked(w, e, j) / w.estimate[e, j])
    shown[row, 13] = _squash(end_s) if end_s < math.inf else 1.0


@jit
def _show_waiting(w, e, sizes, placements, end_s, shown, rows, mask):
    """Write the rows of the waiting jobs of the page."""
    first = w.counts[e, state.PAGE] * sizes[MAX_JOBS]
    n = min(sizes[MAX_JOBS], w.counts[e, state.N_WAITING] - first)
    latest = latest_key(w, e) if w.rules[codes.PREEMPTS] > 0 else -math.inf
    for i in range(n):
        j = waiting_at(w, e, first + i)
        may = _may_start(w, e, j)
        fits = may and may_fit(w, e, j)
        for p in range(sizes[N_PLACEMENTS]):
            row = i * sizes[N_PLACEMENTS] + p
            _describe(w, e, j, sizes, end_s, row, shown)
            rows[row] = 1
            node = find_place(w, e, j, placements[p]) if fits else NOWHERE
            if node == NOWHERE and p == 0 and may and w.key[e, j] < latest:
                node = find_by_preempting(w, e, j)
                shown[row, 15] = node != NOWHERE
            if node == NOWHERE:
                continue
            t = w.node_type[node]
            mask[row] = 1
            shown[row, 6] = w.rates[w.profile[e, j], t, w.is_spread[e, j]] / w.best_rate[e, j]
            shown[row, 7] = w.is_spread[e, j]
            shown[row, 8] = w.type_idle[e, t] / max(1, w.type_gpus[t])


@jit
def _show(w, e, sizes, placements, shown, rows, mask):
    """Write what the agent sees, and what it may do."""
    for row in range(shown.shape[0]):
        rows[row] = 0
        for column in range(N_COLUMNS):
            shown[row, column] = 0.0
    for action in range(len(mask)):
        mask[action] = 0
    if w.counts[e, state.N_DONE] == w.n_jobs[e]:
        mask[0] = 1
        return
    end_s = _next_end_s(w, e) if sizes[SEES_DURATIONS] > 0 else math.inf
    _show_waiting(w, e, sizes, placements, end_s, shown, rows, mask)
    first = sizes[MAX_JOBS] * sizes[N_PLACEMENTS]
    for i in range(min(sizes[MAX_RUNNING], w.counts[e, state.N_RUNNING])):
        j = w.running[e, i]
        _describe(w, e, j, sizes, end_s, first + i, shown)
        shown[first + i, 6] = w.rate[e, j] / w.best_rate[e, j]
        shown[first + i, 10] = 1.0
        rows[first + i] = 1
        mask[first + i] = _may_preempt(w, e, i)
    last = shown.shape[0]
    mask[last] = next_event_s(w, e) < math.inf and (sizes[MAY_WAIT] > 0 or not mask[:last].any())
    # Some page is the last to turn to, so that whoever turns pages comes to wait, or to start what is on it.
    mask[last + 1] = w.counts[e, state.PAGES_TURNED] + 1 < _n_pages(w, e, sizes)


@jit
def _act(w, e, sizes, placements, action, n_rows):
    """Carry out a legal action."""
    first = sizes[MAX_JOBS] * sizes[N_PLACEMENTS]
    if action == n_rows + 1:
        w.counts[e, state.PAGE] = (w.counts[e, state.PAGE] + 1) % _n_pages(w, e, sizes)
        w.counts[e, state.PAGES_TURNED] += 1
        return
    w.counts[e, state.PAGES_TURNED] = 0
    if action == n_rows:
        w.counts[e, state.NEEDS_DECISION] = 0
    elif action >= first:
        j = w.running[e, action - first]
        move(w, e, j, 1)
        preempt(w, e, j)
        w.event_s[e, j] = w.now_s[e]
    else:
        place = w.counts[e, state.PAGE] * sizes[MAX_JOBS] + action // sizes[N_PLACEMENTS]
        j = waiting_at(w, e, place)
        node = find_place(w, e, j, placements[action % sizes[N_PLACEMENTS]]) if may_fit(w, e, j) else NOWHERE
        if node != NOWHERE:
            start(w, e, j, node)
        else:
            start_by_preempting(w, e, j)
        w.counts[e, state.NEEDS_DECISION] = 1
    w.counts[e, state.PAGE] = 0


@jit
def _serve_row(w, counts, sizes, placements, units, request, e, shown, rows):
    """Begin the episode of an environment, or carry out its action, and show what comes next."""
    if request == RESET:
        clear(w, e)
    else:
        _act(w, e, sizes, placements, counts.actions[e], shown.shape[1])
    _advance(w, e, sizes, placements)
    _show(w, e, sizes, placements, shown[e], rows[e], counts.masks[e])
    if request == RESET:
        return
    value = objective_value(w, e, sizes[OBJECTIVE])
    counts.rewards[e] = (w.sums[e, state.TOLD] - value) / units[e]
    w.sums[e, state.TOLD] = value
    counts.terminations[e] = w.counts[e, state.N_DONE] == w.n_jobs[e]


@jit
def _knows_numbers(w, sizes, placements):
    """Return whether all numbers that an episode depends on are in their tables."""
    for placement in placements:
        if placement not in codes.PLACEMENTS:
            return False
    return knows_rules(w) and sizes[OBJECTIVE] in OBJECTIVES


@entry
def serve(world, places, team, sizes, placements, units, shown, rows, request, member, chosen, given):
    """Carry out a request in chosen environments, alone or with others; who does not lead helps for a while.

    ``units`` says in what unit the objective of each environment is paid. Returns the first row whose action is illegal
    or `UNKNOWN_CODE` (nothing has happened then), and how many episodes have ended.
    """
    w, counts = borrow(world), counts_at(places)
    if request not in REQUESTS or not _knows_numbers(w, sizes, placements):
        return UNKNOWN_CODE, 0
    leads_step = member == LEADER and request == STEP
    if leads_step:
        illegal = take_actions(counts, chosen, given, NO_ACTION)
        if illegal != ALL_LEGAL:
            return illegal, 0
    is_on = enter_round(team, request, member)
    while is_on:
        asked = request_of(team)
        e = take_row(team, member)
        while e >= 0:
            if chosen[e]:
                _serve_row(w, counts, sizes, placements, units, asked, e, shown, rows)
            e = take_row(team, member)
        is_on = leave_round(team, member)
    return ALL_LEGAL, keep_count(counts, chosen) if leads_step else 0


@entry
def tell(world, chosen, values):
    """Write the objectives of chosen environments, shape ``(n_objectives, n_envs)``."""
    w = borrow(world)
    for e in range(len(chosen)):
        if chosen[e]:
            for which in range(N_OBJECTIVES):
                values[which, e] = objective_value(w, e, which)
