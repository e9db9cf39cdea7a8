"""Observation and actions of an agent: rows of waiting jobs x placements, running jobs, wait, and the next page."""

from __future__ import annotations

import math
from collections.abc import Sequence

from hdrl.compiled.codes import CodeTable
from hdrl.compiled.jit import jit
from hdrl.compiled.serving import RESET, serving
from hdrl.settings.gpu.kernel import codes, state
from hdrl.settings.gpu.kernel.deciding import (
    find_by_preempting,
    is_at_least,
    latest_key,
    may_fit,
    start_by_preempting,
)
from hdrl.settings.gpu.kernel.engine import has_valid_rules, run, step_time
from hdrl.settings.gpu.kernel.jit import entry
from hdrl.settings.gpu.kernel.placing import NOWHERE, find_gpus
from hdrl.settings.gpu.kernel.running import next_event_s, preempt, served_s, start, waiting_at, worked
from hdrl.settings.gpu.kernel.state import clear, move

N_COLUMNS = 16
"""Columns of a row, see `hdrl.settings.gpu.envs.env.GpuClusterVectorEnv`."""

MEAN_JCT, MEAN_QUEUEING, MEAN_SLOWDOWN, PRIORITY_JCT, MAKESPAN = OBJECTIVES = CodeTable("objective", range(5))
"""Objectives."""

N_OBJECTIVES = 5

REQUESTS = CodeTable("request", range(4))
"""Requests to `SERVED`; `REPORT` writes the objectives of environments, `RUN` those of whole episodes under rules."""

REPORT, RUN = REQUESTS[2:]

ALL_STEPS = 1 << 62

HOUR_S = 3600.0
"""Times ``t`` are seen as ``t / (t + 1 h)``."""


@jit
def _squash(value):
    return value / (value + HOUR_S) if value > 0.0 else 0.0


@jit
def objective_value(w, which):
    """Return an objective over what has happened so far; at the end of an episode it is the metric.

    NaN of an objective that is in no table.
    """
    n = float(w.jobs.n_jobs[0])
    if which == MEAN_JCT:
        # Integrals of numbers of jobs over time are sums of times of jobs, and grow with every step:
        # their differences are rewards that arrive when the time passes, not only at ends.
        return w.sums[state.SYSTEM_S] / n
    if which == MEAN_QUEUEING:
        return w.sums[state.WAITING_S] / n
    if which == MEAN_SLOWDOWN:
        return w.sums[state.SLOW_S] / n
    if which == PRIORITY_JCT:
        total = 0.0
        for j in range(w.jobs.n_jobs[0]):
            total += w.jobs.priority[j]
        return w.sums[state.PRIORITY_S] / total if total > 0.0 else 0.0
    if which == MAKESPAN:
        return w.now_s[0] - w.jobs.arrival_s[0]
    return math.nan


@jit
def _may_start(w, j):
    """Return whether a waiting job may start now: not at the date at which it gave way, unless nothing else happens."""
    # The key of a waiting job's event is the date at which the agent preempted it, see `_act`.
    return w.queue.events[j].key != w.now_s[0] or next_event_s(w) == math.inf


@jit
def _any_starts(w):
    """Return whether a waiting job could start."""
    failed, latest = -1, latest_key(w) if w.rules[codes.PREEMPTS] > 0 else -math.inf
    for i in range(w.counts[state.N_WAITING]):
        j = waiting_at(w, i)
        # A job that needs at least as much as one that did not fit cannot fit either.
        if not _may_start(w, j) or (failed >= 0 and is_at_least(w, j, failed)):
            continue
        if may_fit(w, j) and find_gpus(w, j, w.agent.placements[0]) != NOWHERE:
            return True
        if w.jobs.key[j] < latest and find_by_preempting(w, j) != NOWHERE:
            return True
        failed = j
    return False


@jit
def _may_preempt(w, i):
    """Return whether the running job at a position of the list may give way: not at the date at which it started."""
    if i >= w.counts[state.N_RUNNING] or w.counts[state.N_WAITING] == 0:
        return False
    return w.jobs.since_s[w.queue.running[i]] < w.now_s[0]


@jit
def _has_choice(w):
    """Return whether the agent has a choice now."""
    if w.counts[state.N_WAITING] == 0:
        return False
    for i in range(min(w.agent.sizes[codes.MAX_RUNNING], w.counts[state.N_RUNNING])):
        if _may_preempt(w, i):
            return True
    return _any_starts(w)


@jit
def _advance(w):
    """Go on until the agent has a choice, or all jobs are done."""
    while w.counts[state.N_DONE] < w.jobs.n_jobs[0]:
        # The cheap flag first: most events leave nothing to decide.
        if w.counts[state.NEEDS_DECISION] > 0 and _has_choice(w):
            w.counts[state.N_DECISIONS] += 1
            return
        w.counts[state.NEEDS_DECISION] = 0
        w.counts[state.PAGE] = w.counts[state.PAGES_TURNED] = 0
        if not step_time(w):
            return


@jit
def _left_s(w, j):
    """Return the time that is left to a job alone on the fastest type, as it is estimated."""
    return max(0.0, w.jobs.estimate[j] - worked(w, j)) / w.jobs.best_rate[j]


@jit
def _next_end_s(w):
    """Return in what time the first of the running jobs is expected to end, infinite if none runs.

    The date of the next event would reveal the next arrival, which no scheduler can foresee.
    """
    found = math.inf
    for i in range(w.counts[state.N_RUNNING]):
        j = w.queue.running[i]
        overhead_s = max(0.0, w.jobs.since_s[j] + w.jobs.overhead_s[j] - w.now_s[0])
        found = min(found, overhead_s + max(0.0, w.jobs.estimate[j] - worked(w, j)) / w.jobs.rate[j])
    return found


@jit
def _n_pages(w):
    """Return the number of pages of the queue that can be shown."""
    return min(w.agent.sizes[codes.MAX_PAGES], -(-w.counts[state.N_WAITING] // w.agent.sizes[codes.MAX_JOBS]))


@jit
def _describe(w, j, end_s, row):
    """Write the columns that are the same in all rows of a job."""
    shown = w.agent.observations
    shown[row, 0] = 1.0
    shown[row, 1] = _squash(w.now_s[0] - w.jobs.arrival_s[j])
    shown[row, 3] = w.jobs.n_gpus[j] / len(w.machine.gpu_node)
    shown[row, 4] = w.jobs.milli[j] / 1000.0
    shown[row, 5] = max(0.0, w.jobs.priority[j]) / (max(0.0, w.jobs.priority[j]) + 1.0)
    shown[row, 11] = 1.0 - w.sums[state.BUSY_NOW] / len(w.machine.gpu_node)
    waiting = w.counts[state.N_WAITING]
    shown[row, 12] = waiting / (waiting + 16.0)
    shown[row, 14] = _squash(served_s(w, j))
    # Columns 2, 9 and 13 stay 0: they would reveal durations.
    if w.agent.sizes[codes.SEES_DURATIONS] == 0:
        return
    shown[row, 2] = _squash(_left_s(w, j))
    shown[row, 9] = min(1.0, worked(w, j) / w.jobs.estimate[j])
    shown[row, 13] = _squash(end_s) if end_s < math.inf else 1.0


@jit
def _show_waiting(w, end_s, mask):
    """Write the rows of the waiting jobs of the page."""
    shown = w.agent.observations
    first = w.counts[state.PAGE] * w.agent.sizes[codes.MAX_JOBS]
    n = min(w.agent.sizes[codes.MAX_JOBS], w.counts[state.N_WAITING] - first)
    latest = latest_key(w) if w.rules[codes.PREEMPTS] > 0 else -math.inf
    for i in range(n):
        j = waiting_at(w, first + i)
        may = _may_start(w, j)
        fits = may and may_fit(w, j)
        for p in range(w.agent.sizes[codes.N_PLACEMENTS]):
            row = i * w.agent.sizes[codes.N_PLACEMENTS] + p
            _describe(w, j, end_s, row)
            w.agent.row_masks[row] = 1
            node = find_gpus(w, j, w.agent.placements[p]) if fits else NOWHERE
            # Only the first placement preempts, as the policies do; the others would show the same victims again.
            if node == NOWHERE and p == 0 and may and w.jobs.key[j] < latest:
                node = find_by_preempting(w, j)
                shown[row, 15] = node != NOWHERE
            if node == NOWHERE:
                continue
            t = w.machine.node_type[node]
            mask[row] = 1
            shown[row, 6] = w.machine.rates[w.jobs.profile[j], t, w.jobs.is_spread[j]] / w.jobs.best_rate[j]
            shown[row, 7] = w.jobs.is_spread[j]
            shown[row, 8] = w.free.type_idle[t] / max(1, w.machine.type_gpus[t])


@jit
def _show(w, mask):
    """Write the observation and the action mask."""
    shown = w.agent.observations
    for row in range(len(w.agent.row_masks)):
        w.agent.row_masks[row] = 0
        for column in range(N_COLUMNS):
            shown[row, column] = 0.0
    for action in range(len(mask)):
        mask[action] = 0
    # A mask must have a legal action even after the end.
    if w.counts[state.N_DONE] == w.jobs.n_jobs[0]:
        mask[0] = 1
        return
    end_s = _next_end_s(w) if w.agent.sizes[codes.SEES_DURATIONS] > 0 else math.inf
    _show_waiting(w, end_s, mask)
    first = w.agent.sizes[codes.MAX_JOBS] * w.agent.sizes[codes.N_PLACEMENTS]
    for i in range(min(w.agent.sizes[codes.MAX_RUNNING], w.counts[state.N_RUNNING])):
        j = w.queue.running[i]
        _describe(w, j, end_s, first + i)
        shown[first + i, 6] = w.jobs.rate[j] / w.jobs.best_rate[j]
        shown[first + i, 10] = 1.0
        w.agent.row_masks[first + i] = 1
        mask[first + i] = _may_preempt(w, i)
    last = len(w.agent.row_masks)
    mask[last] = next_event_s(w) < math.inf and (w.agent.sizes[codes.MAY_WAIT] > 0 or not mask[:last].any())
    # Some page is the last to turn to, so that an agent that turns pages must wait, or start a job of it.
    mask[last + 1] = w.counts[state.PAGES_TURNED] + 1 < _n_pages(w)


@jit
def _act(w, action):
    """Carry out a legal action."""
    n_rows = len(w.agent.row_masks)
    first = w.agent.sizes[codes.MAX_JOBS] * w.agent.sizes[codes.N_PLACEMENTS]
    if action == n_rows + 1:
        w.counts[state.PAGE] = (w.counts[state.PAGE] + 1) % _n_pages(w)
        w.counts[state.PAGES_TURNED] += 1
        return
    w.counts[state.PAGES_TURNED] = 0
    if action == n_rows:
        w.counts[state.NEEDS_DECISION] = 0
    elif action >= first:
        j = w.queue.running[action - first]
        move(w, j, 1)
        preempt(w, j)
        # Marks the date, so that the job does not start again before something else happens (`_may_start`).
        w.queue.events[j].key = w.now_s[0]
    else:
        place = w.counts[state.PAGE] * w.agent.sizes[codes.MAX_JOBS] + action // w.agent.sizes[codes.N_PLACEMENTS]
        j = waiting_at(w, place)
        placement = w.agent.placements[action % w.agent.sizes[codes.N_PLACEMENTS]]
        node = find_gpus(w, j, placement) if may_fit(w, j) else NOWHERE
        if node != NOWHERE:
            start(w, j, node)
        else:
            start_by_preempting(w, j)
        # The same date is decided on again until the agent waits or nothing can be done.
        w.counts[state.NEEDS_DECISION] = 1
    w.counts[state.PAGE] = 0


@jit
def _serve_row(w, counts, request, row, numbers, results):  # noqa: ARG001
    """Carry out a request in one environment, which is a row of its batch."""
    if request == RUN:
        clear(w)
        run(w, ALL_STEPS)
    if request in (REPORT, RUN):
        for which in range(N_OBJECTIVES):
            results[which, row] = objective_value(w, which)
        return
    if request == RESET:
        clear(w)
    else:
        _act(w, counts.actions[row])
    _advance(w)
    _show(w, counts.masks[row])
    if request == RESET:
        return
    value = objective_value(w, w.agent.sizes[codes.OBJECTIVE])
    counts.rewards[row] = (w.sums[state.REWARDED] - value) / w.agent.unit[0]
    w.sums[state.REWARDED] = value
    counts.terminations[row] = w.counts[state.N_DONE] == w.jobs.n_jobs[0]


@jit
def _is_valid_request(batch, request, numbers):  # noqa: ARG001
    """Return whether all numbers that an episode depends on are in their tables."""
    for i in range(len(batch.agent.placements)):
        if batch.agent.placements[i] not in codes.PLACEMENTS:
            return False
    return request in REQUESTS and has_valid_rules(batch) and batch.agent.sizes[codes.OBJECTIVE] in OBJECTIVES


def _used_codes(batch: state.GpuState, request: int, numbers: Sequence[int]) -> list[tuple[CodeTable, int]]:
    """Return the tables and numbers that an episode depends on."""
    del request, numbers
    placements = [(codes.PLACEMENTS, one) for one in batch.agent.placements.tolist()]
    return [(OBJECTIVES, int(batch.agent.sizes[codes.OBJECTIVE])), *placements, *codes.codes_of_rules(batch.rules)]


SERVED = serving(
    entry,
    state.GpuState,
    state.smallest_world,
    serve_row=_serve_row,
    is_valid=_is_valid_request,
    requests=REQUESTS,
    module=__name__,
    used_codes=_used_codes,
    n_results=N_OBJECTIVES,
)
"""Batches of environments in which an agent acts."""
