"""The event loop: all that happens at one date, then the main scheduler, then planning if it is due."""

from __future__ import annotations

import math

import numpy as np

from hdrl.compiled.borrow import take_as
from hdrl.compiled.borrowed import Addresses, Borrowed
from hdrl.compiled.heap import drop_date
from hdrl.compiled.jit import jit
from hdrl.settings.batch.site_rules import codes
from hdrl.settings.batch.site_rules.kernel.allocation import drop_node, n_cores_on, put_node
from hdrl.settings.batch.site_rules.kernel.backfill import run_cycle
from hdrl.settings.batch.site_rules.kernel.components import untie
from hdrl.settings.batch.site_rules.kernel.daemon import expect_look, look_at_queue
from hdrl.settings.batch.site_rules.kernel.jit import entry
from hdrl.settings.batch.site_rules.kernel.main_scheduler import run_main
from hdrl.settings.batch.site_rules.kernel.outside_picks import begin_picks, look, mark_picks, pick
from hdrl.settings.batch.site_rules.kernel.preemption import resume_jobs
from hdrl.settings.batch.site_rules.kernel.priority import refresh, sort_entries
from hdrl.settings.batch.site_rules.kernel.running import (
    NEVER,
    add_event,
    begin_pass,
    cancel_job,
    consider,
    end_on_date,
    end_pass,
    requeue_jobs,
    start_job,
    submit_job,
)
from hdrl.settings.batch.site_rules.kernel.state import SiteState, smallest_state

POLL_S = 1.0
"""Interval in seconds at which Slurm's backfill thread looks for changes once its own interval is over."""


@jit
def _begin(state):
    """Add the events that are known at the beginning: reservations, outages, submissions and cancellations."""
    s = state.scalars[0]
    s.backfill_due_s = s.main_due_s = s.look_due_s = NEVER
    s.last_backfill_s = -state.settings[0].bf_interval_s
    for i in range(len(state.reservations)):
        add_event(state, state.reservations[i].start_s, codes.RESERVATION_CHANGES, i)
        add_event(state, state.reservations[i].end_s, codes.RESERVATION_CHANGES, i)
    for i in range(len(state.outages)):
        add_event(state, state.outages[i].start_s, codes.NODE_LEAVES, i)
        add_event(state, state.outages[i].end_s, codes.NODE_RETURNS, i)
    for job in range(len(state.jobs)):
        if state.jobs[job].submit_s < NEVER:
            add_event(state, state.jobs[job].submit_s, codes.JOB_COMES, job)
        if state.jobs[job].cancelled_s < NEVER:
            add_event(state, state.jobs[job].cancelled_s, codes.JOB_IS_CANCELLED, job)


@jit
def _open_or_close(state, outage, change):
    """Let a node leave (1) or return (-1)."""
    node = state.outages[outage].node
    if change > 0 and state.outages[outage].is_drain == 0:
        requeue_jobs(state, node)
    state.nodes[node].n_closed += change
    if state.nodes[node].n_closed == 0:
        put_node(state.open_nodes, node)
    else:
        drop_node(state.open_nodes, node)
    state.scalars[0].is_changed = 1


@jit
def _is_handled_before(code, other):
    """Tell whether an event is handled before another one of its date."""
    kind, other_kind = code % codes.N_EVENTS, other % codes.N_EVENTS
    # The heap returns equal dates in any order; this order makes runs reproducible.
    return kind < other_kind or (kind == other_kind and code < other)


@jit
def _collect(state):
    """Take the events of the next date off the heap, in the order in which they are handled; return their number."""
    s = state.scalars[0]
    n = np.int64(0)
    date_s = state.dates_s[0]
    while s.n_events > 0 and state.dates_s[0] == date_s:
        code = state.events[0]
        s.n_events = drop_date(state.dates_s, state.events, s.n_events)
        position = n
        while position > 0 and _is_handled_before(code, state.batch[position - 1]):
            state.batch[position] = state.batch[position - 1]
            position -= 1
        state.batch[position] = code
        n += 1
    s.message_s = max(s.message_s, date_s)
    return n


@jit
def _is_missed(state, reservation):
    """Tell whether jobs are on the nodes of a reservation."""
    for i in range(state.scalars[0].n_running):
        if n_cores_on(state, state.running[i], state.reservation_nodes[reservation]) > 0:
            return True
    return False


@jit
def _change_reservation(state, number):
    """Begin or end an advance reservation; count it if it begins without all of its nodes."""
    state.scalars[0].is_changed = 1
    if state.reservations[number].start_s == state.scalars[0].message_s:
        state.scalars[0].n_missed_reservations += _is_missed(state, number)


@jit
def _handle(state, code):
    kind, thing = code % codes.N_EVENTS, code // codes.N_EVENTS
    if kind == codes.JOB_ENDS:
        end_on_date(state, thing)
    elif kind == codes.NODE_RETURNS:
        _open_or_close(state, thing, -1)
    elif kind == codes.NODE_LEAVES:
        _open_or_close(state, thing, 1)
    elif kind == codes.JOB_IS_CANCELLED:
        cancel_job(state, thing)
    elif kind == codes.JOB_COMES:
        submit_job(state, thing)
    elif kind == codes.JOB_IS_ELIGIBLE:
        consider(state, thing)
    elif kind == codes.RESERVATION_CHANGES:
        _change_reservation(state, thing)
    elif kind == codes.POLICY_IS_CALLED:
        state.scalars[0].is_changed = 1
    elif kind == codes.DAEMON_LOOKS:
        look_at_queue(state)


@jit
def _expect_backfill(state):
    """Note when the next backfill cycle is due, now that something has changed."""
    s, interval_s = state.scalars[0], state.settings[0].bf_interval_s
    if s.backfill_due_s < NEVER:
        return
    first_s = s.last_backfill_s + interval_s
    due_s = first_s
    if s.message_s > first_s:
        # While jobs wait, Slurm repeats cycles at bf_interval; otherwise its thread polls for changes each second.
        step_s = interval_s if s.is_cycling != 0 else POLL_S
        due_s = first_s + math.ceil((s.message_s - first_s) / step_s) * step_s
    s.backfill_due_s = max(due_s, s.message_s)
    add_event(state, s.backfill_due_s, codes.BACKFILL_IS_DUE, 0)


@jit
def _expect_main(state):
    """Note that the main scheduler is due at the next multiple of its interval."""
    s, interval_s = state.scalars[0], state.settings[0].sched_interval_s
    if s.main_due_s < NEVER or interval_s <= 0:
        return
    s.main_due_s = (math.floor(s.message_s / interval_s) + 1.0) * interval_s
    add_event(state, s.main_due_s, codes.MAIN_IS_DUE, 0)


@jit
def _pass_main(state, depth):
    """Let the main scheduler go down the queue; return whether it stopped at a depth of it."""
    refresh(state)
    begin_pass(state)
    has_stopped = run_main(state, depth)
    end_pass(state)
    return has_stopped


@jit
def _plan_ahead(state):
    """Plan the queue."""
    begin_pass(state)
    run_cycle(state)
    end_pass(state)


@jit
def _overtake(state):
    """Let jobs overtake those that did not fit, if any may."""
    if state.scalars[0].n_queue > 0 and state.settings[0].discipline != codes.NOTHING:
        _plan_ahead(state)


@jit
def _start_once(state):
    """Start what starts now; return whether more may start at once.

    That is so if jobs waited for the start of another one, or those that were preempted have left something.
    """
    s = state.scalars[0]
    s.has_new, n_preempted = 0, s.n_preempted
    # Depth 0: default_queue_depth and sched_interval belong to Slurm; other disciplines see the whole queue.
    _pass_main(state, np.int64(0))
    _overtake(state)
    return s.has_new != 0 or s.n_preempted > n_preempted


@jit
def _start_all(state):
    """Start what starts at this date where planning takes no time."""
    s, has_new = state.scalars[0], True
    while has_new and s.n_queue > 0:
        has_new = _start_once(state)
    s.is_changed = 0


@jit
def _run_main(state, is_full):
    """Run Slurm's main scheduler, over the whole queue or to its usual depth."""
    s, n_preempted = state.scalars[0], np.int64(-1)
    while s.n_queue > 0 and s.n_preempted > n_preempted:  # ends of preempted jobs are events, too
        n_preempted = max(s.n_preempted, np.int64(0))
        if _pass_main(state, np.int64(0) if is_full else state.settings[0].default_queue_depth):
            _expect_main(state)


@jit
def _run_backfill(state):
    """Run a backfill cycle."""
    s = state.scalars[0]
    s.is_changed, n_preempted = 0, s.n_preempted
    if s.n_queue > 0:
        refresh(state)
        _plan_ahead(state)
    if s.n_preempted > n_preempted:
        _run_main(state, False)  # noqa: FBT003 (Numba has no keywords)
    # A cycle takes no time here, so bf_continue and bf_max_time have nothing to limit.
    s.last_backfill_s, s.backfill_due_s = s.message_s, NEVER
    s.is_cycling = s.n_queue > 0
    if s.is_changed != 0:
        _expect_main(state)


@jit
def _schedule(state):
    """Start what starts at this date."""
    s, now = state.scalars[0], state.scalars[0].message_s
    if s.n_suspended > 0:
        resume_jobs(state)
    if state.settings[0].is_asked != 0:
        return
    is_main_due, is_backfill_due = s.main_due_s == now, s.backfill_due_s == now
    if not (s.is_changed != 0 or is_main_due or is_backfill_due):
        return
    if state.settings[0].discipline != codes.SLURM:
        _start_all(state)
        return
    is_changed = s.is_changed
    s.is_changed = s.has_new = 0
    if is_main_due:
        s.main_due_s = NEVER
    if is_changed != 0 or is_main_due:
        # Slurm's main scheduler reacts to the event itself; a cycle due at the same date plans with what is left.
        _run_main(state, is_main_due)
    if is_backfill_due:
        _run_backfill(state)
        # The cycle has seen this change; only its own starts call for another one.
        is_changed = 0
    if is_changed != 0 or s.is_changed != 0:
        _expect_backfill(state)
    if s.has_new != 0:  # a job that waited for the start of another one
        _expect_main(state)
    s.is_changed = 0


@jit
def _is_nearly_full(state):
    """Tell whether the logs may not hold what happens at one date."""
    s, margin = state.scalars[0], state.settings[0].n_cores + 16
    # Python owns the arrays, so the kernel cannot enlarge them: it stops between two dates, where it can go on.
    if len(state.pairs) - s.n_pairs < margin or len(state.allocated) - s.n_allocated < margin:
        return True
    # Each running job may be requeued or get a grace, and be suspended or go on.
    n_dates = margin + 3 * s.n_running + len(state.dependencies)
    n_rows = 2 * margin + 4 * s.n_running
    return len(state.machine_log) - s.n_machine_log < n_rows or len(state.dates_s) - s.n_events < n_dates


@jit
def _is_decision_due(state):
    """Return whether the policy outside the kernel must decide, and note that it has been called."""
    if state.settings[0].is_asked == 0 or state.scalars[0].is_changed == 0:
        return False
    state.scalars[0].is_changed = 0
    return True


@jit
def _advance(state, n_dates):
    """Go on for some dates; return why it stopped."""
    s = state.scalars[0]
    if s.n_dates == 0:
        _begin(state)
    for _ in range(n_dates):
        if s.n_completed == len(state.jobs):
            return codes.ENDED
        if _is_nearly_full(state):
            return codes.GROW
        if s.n_events == 0:
            # Only now: as long as an event is left, it may free the nodes that het jobs wait for.
            if not untie(state):
                return codes.ENDED
            _schedule(state)
            if _is_decision_due(state):
                return codes.ASKS
            continue
        n = _collect(state)
        s.n_dates += 1
        for i in range(n):
            _handle(state, state.batch[i])
        _schedule(state)
        expect_look(state)
        if _is_decision_due(state):
            return codes.ASKS
    return codes.PAUSED


@jit
def _end_picks(state, is_skipping):
    """Let jobs overtake the picked ones that did not fit; return whether more may start at once."""
    s = state.scalars[0]
    end_pass(state)
    if not is_skipping:
        sort_entries(state, state.queue, s.n_queue)
        _overtake(state)
    return s.has_new != 0


@jit
def _decide(state, request):
    """Carry out a decision from outside; return what came of it."""
    s, entry = state.scalars[0], state.scalars[0].asked_entry
    if request == codes.LOOK:
        return np.int64(look(state, entry))
    if request == codes.START:
        start_job(state, entry, np.int64(0))
    elif request == codes.REJECT:
        cancel_job(state, state.entries[entry].job)
    elif request == codes.START_BY_PRIORITY:
        sort_entries(state, state.queue, s.n_queue)
        return np.int64(_start_once(state))
    elif request == codes.BEGIN_PICKS:
        begin_picks(state)
    elif request == codes.MARK_PICKS:
        return mark_picks(state)
    elif request == codes.PICK:
        pick(state, entry)
    elif request == codes.CALL:
        add_event(state, s.asked_s, codes.POLICY_IS_CALLED, 0)
    else:
        return np.int64(_end_picks(state, request == codes.SKIP))
    return np.int64(0)


_taken = take_as(smallest_state)


@entry
def _call(addresses: Addresses, request: int, n_dates: int) -> int:
    if request == codes.GO_ON:
        return _advance(_taken(addresses), n_dates)
    return _decide(_taken(addresses), request)


def advance(borrowed: Borrowed[SiteState], n_dates: int) -> int:
    """Simulate on for some dates at which something happens.

    Parameters
    ----------
    borrowed
        The arrays; before the first call nothing has happened.
    n_dates
        After how many dates to pause, at least 1.

    Returns
    -------
    int
        ``ENDED``, ``GROW``, ``PAUSED`` or ``ASKS`` of `site_rules.codes`; the last where ``is_asked`` is set.
    """
    return int(_call(borrowed.addresses, codes.GO_ON, n_dates))


def decide(borrowed: Borrowed[SiteState], request: int, entry: int = 0) -> int:
    """Carry out a decision from outside at the present date.

    Parameters
    ----------
    borrowed
        The arrays of a simulation that has just stopped for ``ASKS``.
    request
        ``LOOK`` to ``CALL`` of `site_rules.codes`. ``LOOK`` and ``START`` leave and expect the nodes in ``selected``.
    entry
        The entry that it is about, if any.

    Returns
    -------
    int
        ``LOOK``: what it found; ``MARK_PICKS``: how many of the entries that may be picked can start;
        ``START_BY_PRIORITY``, ``END_PICKS`` and ``SKIP``: whether more may start at once; else 0.
    """
    borrowed.arrays.scalars["asked_entry"] = entry
    return int(_call(borrowed.addresses, request, 0))
