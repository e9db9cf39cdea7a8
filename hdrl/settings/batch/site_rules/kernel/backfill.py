"""Planning ahead: Slurm's backfill cycle, and EASY and conservative backfilling by the same plan.

A cycle plans jobs in their order on a time map, a chain of spans with the nodes that no planned job has reserved in
them. A job that fits on such nodes now, for as long as its limit says, starts. Any other one gets the earliest date at
which enough of them are free, as running jobs reach their limits, and reserves the nodes from then on, whole. The
components of het jobs are planned alike, but start together at the end of the cycle (`kernel.components`).
"""

from __future__ import annotations

import math

import numpy as np

from hdrl.compiled.bits import n_of
from hdrl.compiled.jit import jit
from hdrl.settings.batch.kernel import codes as kernel_codes
from hdrl.settings.batch.kernel.waiting import order_length_s
from hdrl.settings.batch.site_rules import codes
from hdrl.settings.batch.site_rules.kernel.allocation import (
    choose_busy_nodes,
    choose_later,
    choose_now,
    copy_free,
    fits_now,
    has_cores,
    has_cores_when_empty,
    has_node,
    n_cores_on,
    n_free_cores_of,
    put_node,
    release_later,
)
from hdrl.settings.batch.site_rules.kernel.components import (
    begin_components,
    end_components,
    note_component,
    others_s,
    plan_component,
    put_by_hetjob_prio,
    put_together,
)
from hdrl.settings.batch.site_rules.kernel.limits import may_run
from hdrl.settings.batch.site_rules.kernel.main_scheduler import (
    first_reservation,
    leave_out_reserved,
    limit_in,
    put_nodes_of,
)
from hdrl.settings.batch.site_rules.kernel.predictions import is_held
from hdrl.settings.batch.site_rules.kernel.preemption import find_victims, may_preempt, remove_later, take_nodes
from hdrl.settings.batch.site_rules.kernel.priority import comes_before
from hdrl.settings.batch.site_rules.kernel.running import NEVER, next_of, start_job

_NONE = np.uint64(0)

FIRST_WINDOW_S = 30.0
"""Slurm looks for a date at the ends of running jobs, and takes those of one window together.

All windows begin at the first end, rounded up to a multiple of this number; each is at least twice as long as the one
before.
"""

TESTED_TOGETHER = 4
"""After this many plans a cycle checks whether any job that is left may start."""

_NOT_PLANNED = 0
_PLANNED = 1
_STARTED = 2


@jit
def _round_down(state, date_s):
    resolution_s = state.settings[0].bf_resolution_s
    return date_s if resolution_s == 0 else math.floor(date_s / resolution_s) * resolution_s


@jit
def _round_up(state, date_s):
    resolution_s = state.settings[0].bf_resolution_s
    return date_s if resolution_s == 0 else math.ceil(date_s / resolution_s) * resolution_s


# ------------------------------------------------------------------ the time map


@jit
def _begin_map(state):
    s, first = state.scalars[0], state.segments[0]
    first.begin_s = _round_down(state, s.message_s)
    first.end_s = _round_down(state, s.message_s + state.settings[0].bf_window_s)
    first.next = -1
    s.n_segments = 1
    for word in range(state.settings[0].n_words):
        state.segment_nodes[0, word] = state.open_nodes[word]


@jit
def _split(state, segment, date_s):
    """Let a span of the map end at a date within it; another one goes on from there."""
    s = state.scalars[0]
    one, new = state.segments[segment], state.segments[s.n_segments]
    new.begin_s, new.end_s, new.next = date_s, one.end_s, one.next
    one.end_s, one.next = date_s, s.n_segments
    for word in range(state.settings[0].n_words):
        state.segment_nodes[s.n_segments, word] = state.segment_nodes[segment, word]
    s.n_segments += 1


@jit
def _reserve(state, start_s, end_s):
    """Take the selected nodes out of the map for a time, which is at least one step of it."""
    segment, end_s = np.int64(0), max(end_s, start_s + state.settings[0].bf_resolution_s)
    while segment >= 0:
        one = state.segments[segment]
        if one.end_s <= start_s:
            segment = one.next
            continue
        if one.begin_s >= end_s:
            return
        if one.begin_s < start_s:
            _split(state, segment, start_s)
            segment = one.next
            continue
        if one.end_s > end_s:
            # A reservation splits at most two spans, at its two ends; the length of `segments` relies on that.
            _split(state, segment, end_s)
        for i in range(state.scalars[0].n_selected):
            node = state.selected[i].node
            state.segment_nodes[segment, node >> 6] &= ~(np.uint64(1) << np.uint64(node & 63))
        segment = one.next


@jit
def _is_reserved(state, start_s, end_s):
    """Tell whether a selected node is reserved by a planned job within a time."""
    segment = np.int64(0)
    while segment >= 0:
        one = state.segments[segment]
        if one.end_s > start_s and one.begin_s < end_s:
            for i in range(state.scalars[0].n_selected):
                if not has_node(state.segment_nodes[segment], state.selected[i].node):
                    return True
        segment = one.next
    return False


@jit
def _gains(state, segment, following):
    """Tell whether a span has a usable node that the one before it has not."""
    for word in range(state.settings[0].n_words):
        here = state.usable[word] & state.segment_nodes[segment, word]
        if state.tried[word] & state.segment_nodes[following, word] & ~here != _NONE:
            return True
    return False


@jit
def _leave_out_planned(state, start_s, end_s, n_needed):
    """Take the nodes that are reserved within a time out of the usable ones, as long as enough nodes are left.

    Returns
    -------
    float
        The next date at which there may be others, infinity if there is none.
    """
    s, n_words = state.scalars[0], state.settings[0].n_words
    for word in range(n_words):
        state.tried[word] = state.usable[word]
    # Attempts for a job only move forward in time, so each goes on from the span that the last one reached.
    while state.segments[s.segment].end_s <= start_s and state.segments[s.segment].next >= 0:
        s.segment = state.segments[s.segment].next
    later_s = NEVER
    segment = s.segment
    while segment >= 0:
        one = state.segments[segment]
        following = np.int64(one.next)
        # Like Slurm, skip dates that add no node: the search for nodes is expensive and would fail again.
        if following >= 0 and later_s == NEVER and _gains(state, segment, following):
            later_s = one.end_s
        # A job that ends when a span begins meets it in Slurm.
        if one.begin_s > end_s or (one.begin_s == end_s and state.settings[0].discipline != codes.SLURM):
            if later_s == NEVER and following >= 0 and state.segments[following].next >= 0:
                later_s = state.segments[following].end_s
            return later_s
        n_left = np.int64(0)
        for word in range(n_words):
            state.usable[word] &= state.segment_nodes[segment, word]
            n_left += n_of(state.usable[word])
        # Later spans can only remove more nodes, and the next date to try is known.
        if n_left < n_needed and later_s < NEVER:
            return later_s
        segment = following
    return later_s


# ------------------------------------------------------------------ when a job could start


@jit
def _release_on_usable(state, one):
    """Give back what a running job has on the usable nodes in what will be free later; return how many cores it is."""
    n = np.int64(0)
    for i in range(one.first_pair, one.first_pair + one.n_pairs):
        if has_node(state.usable, state.pairs[i].node):
            release_later(state, one.job, i)
            n += state.pairs[i].cores
    return n


@jit
def _expected_end_s(state, one):
    """Return the latest end of a running job."""
    now, settings = state.scalars[0].message_s, state.settings[0]
    if one.limit_end_s > now:
        return one.limit_end_s
    if settings.over_time_limit_s == NEVER and settings.discipline == codes.SLURM:
        # OverTimeLimit=UNLIMITED: Slurm guesses that it runs for its whole limit once more.
        return now + one.limit_end_s - state.jobs[one.job].start_s
    # A job beyond its limit may use OverTimeLimit and KillWait; after them, Slurm expects its end in a second.
    return max(one.limit_end_s + settings.over_time_limit_s + settings.kill_wait_s, now + 1.0)


@jit
def _window_from_s(state, end_s):
    """Return where the windows begin if the first running job ends at a date."""
    if state.settings[0].discipline != codes.SLURM:
        return end_s
    return (math.floor(end_s / FIRST_WINDOW_S) + 1.0) * FIRST_WINDOW_S


@jit
def _release_next(state, position, from_s, window_s, latest_s):
    """Give back what the running jobs that end next, within one window, hold on the usable nodes.

    Parameters
    ----------
    from_s
        Where the window begins; NaN: it follows from the first job that ends.
    latest_s
        The first of them ends then or before.

    Returns
    -------
    tuple
        Position of the next running job, that of the last one that was released (-1: none), how many cores were, and
        where the window began.
    """
    is_slurm = state.settings[0].discipline == codes.SLURM
    last, n_released, is_checked = np.int64(-1), np.int64(0), False
    while position < state.scalars[0].n_running:
        one = state.running[position]
        if last < 0 and one.limit_end_s > latest_s:
            break
        if one.is_taken == 0:
            if is_checked and one.limit_end_s > from_s + window_s:
                break
            n = _release_on_usable(state, one)
            if n > 0:
                from_s = _window_from_s(state, one.limit_end_s) if np.isnan(from_s) else from_s
                last = position
            n_released += n
            # Slurm looks whether the next job is within the window only after it has released one.
            is_checked = bool(n > 0 or (last >= 0 and not is_slurm))
        position += 1
    return position, last, n_released, from_s


@jit
def _choose_later(state, job, partition):
    """Choose usable nodes of what will be free later."""
    if state.settings[0].bf_busy_nodes != 0:
        return choose_busy_nodes(state, job, partition, state.usable)
    return choose_later(state, job, partition, state.usable)


@jit
def _release_preemptable(state, entry, preempts):
    """Give back what a job that ``preempts`` may take from others; return how many cores of the usable nodes it is."""
    n_released = np.int64(0)
    for i in range(state.scalars[0].n_running):
        one = state.running[i]
        # A job in its grace is already about to leave: `_release_next` frees its nodes at the end of the grace.
        one.is_taken = preempts and state.jobs[one.job].is_given_up == 0 and may_preempt(state, entry, one.job)
        if one.is_taken != 0:
            remove_later(state, one.job)
            n_released += n_cores_on(state, one, state.usable)
    return n_released


@jit
def _earliest_s(state, entry, may_wait, preempts, latest_s):
    """Choose nodes for a job among the usable ones, as running jobs reach their limits.

    One that ``preempts`` takes later what it could take now if that was enough.

    Returns
    -------
    tuple of float and bool
        The first date at which it fits, infinity if that is after ``latest_s``; True if the nodes are free now.
    """
    s, usable = state.scalars[0], state.usable
    job, partition = state.entries[entry].job, state.entries[entry].partition
    n_needed = state.jobs[job].n_requested
    if not has_cores_when_empty(state, usable, n_needed):
        return NEVER, False
    n_free = n_free_cores_of(state, usable)
    if n_free >= n_needed and choose_now(state, job, partition, usable):
        return s.message_s, True
    if not may_wait:
        return NEVER, False
    copy_free(state)
    if state.settings[0].preempt_by != 0:
        n_free += _release_preemptable(state, entry, preempts)
        # Slurm tests the job without all jobs that it may preempt, and plans it for now if it fits.
        if preempts and n_free >= n_needed and _choose_later(state, job, partition):
            return s.message_s, False
    is_slurm = state.settings[0].discipline == codes.SLURM
    position, from_s, window_s = np.int64(0), np.nan, FIRST_WINDOW_S if is_slurm else 0.0
    while position < s.n_running:
        position, last, n_released, from_s = _release_next(
            state, position, from_s if is_slurm else np.nan, window_s, latest_s
        )
        # Two of three searches end here: to go on would only find dates of no use (12 instead of 8 s for 200,000 jobs).
        if last < 0 or state.running[last].limit_end_s > latest_s:
            return NEVER, False
        # Slurm doubles the window (without bf_window_linear) to test fewer dates; far dates become coarse.
        window_s *= 2.0
        while is_slurm and position < s.n_running and state.running[position].limit_end_s > from_s + window_s:
            window_s *= 2.0
        n_free += n_released
        if n_free >= n_needed and _choose_later(state, job, partition):
            found_s = _expected_end_s(state, state.running[last])
            return found_s if found_s <= latest_s else NEVER, False
    return NEVER, False


# ------------------------------------------------------------------ the plan


@jit
def _put_unplanned(state, entry):
    """Write the nodes into the usable ones that nothing has reserved from now on until the limit of a job."""
    s, job, partition = state.scalars[0], state.entries[entry].job, state.entries[entry].partition
    end_s = s.message_s + limit_in(state, job, partition)
    put_nodes_of(state, state.usable, job, partition)
    leave_out_reserved(state, state.usable, s.message_s, end_s)
    segment, is_slurm = np.int64(0), state.settings[0].discipline == codes.SLURM
    while segment >= 0:
        one = state.segments[segment]
        if one.begin_s > end_s or (one.begin_s == end_s and not is_slurm):
            return
        for word in range(state.settings[0].n_words):
            state.usable[word] &= state.segment_nodes[segment, word]
        segment = np.int64(one.next)


@jit
def _preempts(state, entry):
    """Take nodes for a job that does not fit from jobs that it may preempt.

    Returns
    -------
    int
        ``_STARTED`` if it can start there now, ``_PLANNED`` if it has to wait for their grace, else ``_NOT_PLANNED``.
    """
    job, partition = state.entries[entry].job, state.entries[entry].partition
    _put_unplanned(state, entry)
    if fits_now(state, job, partition, state.usable):
        return _NOT_PLANNED
    if not find_victims(state, entry, state.usable):
        return _NOT_PLANNED
    return _STARTED if take_nodes(state) else _PLANNED


@jit
def _start_or_keep(state, entry, end_s):
    """Start a job on the selected nodes; a component of a het job keeps them until the end of its limit instead."""
    if state.jobs[state.entries[entry].job].first_component < 0:
        start_job(state, entry, 0)
        return _STARTED
    plan_component(state, entry, state.scalars[0].message_s)
    _reserve(state, state.segments[0].begin_s, _round_down(state, end_s))
    return _PLANNED


@jit
def _takes_planned(state, entry):
    """Start a job on the selected nodes, which jobs hold that it may preempt; return True if it has started.

    As in Slurm, it can get other jobs out of the planned nodes even if `find_victims` has failed on all usable ones,
    among which it may choose too many. After a grace of these jobs it starts later; the planned nodes stay selected.
    """
    s, job, partition = state.scalars[0], state.entries[entry].job, state.entries[entry].partition
    state.usable[:] = _NONE
    for i in range(s.n_selected):
        put_node(state.usable, state.selected[i].node)
    if choose_now(state, job, partition, state.usable) or (
        find_victims(state, entry, state.usable) and take_nodes(state)
    ):
        start_job(state, entry, 0)
        return True
    s.n_selected = 0
    for node in range(state.settings[0].n_nodes):
        if has_node(state.usable, node):
            state.selected[s.n_selected].node = node
            s.n_selected += 1
    return False


@jit
def _after(state, over_s):
    """Return the date at which a cycle tries a job again after a reservation that is over at a date.

    Slurm tries it a second after the next step of the map.
    """
    is_slurm = state.settings[0].discipline == codes.SLURM
    return _round_up(state, over_s) + 1.0 if is_slurm and over_s < NEVER else over_s


@jit
def _start_or_reserve(state, entry, may_wait, preempts):
    """Start a job, or reserve nodes for it at the first date that delays no job planned before."""
    s, settings = state.scalars[0], state.settings[0]
    job, partition = state.entries[entry].job, state.entries[entry].partition
    now, limit_s = s.message_s, limit_in(state, job, partition)
    window_end_s = _round_down(state, now + settings.bf_window_s)
    start_s = max(now, others_s(state, job))
    n_nodes = -(-state.jobs[job].n_requested // settings.most_cores)  # at least
    s.segment = 0
    while start_s <= window_end_s and start_s < NEVER:
        put_nodes_of(state, state.usable, job, partition)
        over_s = _after(state, leave_out_reserved(state, state.usable, start_s, start_s + limit_s))
        later_s = min(_leave_out_planned(state, start_s, start_s + limit_s, n_nodes), over_s)
        # At `later_s` other nodes become free; Slurm tries them before any later date. Beyond bf_window it makes no
        # reservation, so later jobs may take these nodes.
        latest_s = min(later_s, now + settings.bf_window_s)
        earliest_s, is_free = _earliest_s(state, entry, may_wait, preempts, latest_s)
        found_s = max(earliest_s, start_s)
        if found_s <= now and is_free:
            return _start_or_keep(state, entry, now + limit_s)
        if found_s <= now and _takes_planned(state, entry):
            return _STARTED
        if not may_wait:
            return _NOT_PLANNED
        if found_s == NEVER:
            start_s = later_s
            continue
        # Slurm rounds both ends down to bf_resolution: a job can be planned to begin before the one before it ends.
        from_s, to_s = _round_down(state, found_s), _round_down(state, found_s + limit_s)
        if _is_reserved(state, from_s, to_s) or _meets_reservation(state, found_s, found_s + limit_s):
            # The nodes were free for a start at `start_s`: with this later date, others come into question.
            start_s = found_s
        else:
            plan_component(state, entry, found_s)
            # Keep the first plan; that of a component is final only at the end of the cycle (`end_components`).
            if state.jobs[job].planned_s < 0 and state.jobs[job].first_component < 0:
                state.jobs[job].planned_s = found_s
            _reserve(state, max(from_s, state.segments[0].begin_s), to_s)
            return _PLANNED
    return _NOT_PLANNED


@jit
def _may_take(state, entry):
    """Tell whether a job may take nodes from others at all."""
    return state.settings[0].preempt_by != 0 and state.jobs[state.entries[entry].job].first_component < 0


@jit
def _plan(state, entry, may_wait):
    """Plan a job, after it has tried to take nodes from others."""
    preempts = _may_take(state, entry)
    result = _preempts(state, entry) if preempts else _NOT_PLANNED
    if result == _STARTED:
        start_job(state, entry, 0)
        return _STARTED
    # A job that waits for a grace plans without further preemption, so it takes no second set of jobs.
    return _start_or_reserve(state, entry, may_wait, preempts and result == _NOT_PLANNED)


@jit
def _meets_reservation(state, start_s, end_s):
    """Tell whether a selected node is in a reservation or maintenance window within a time.

    Slurm does not look at this later time, at which the job may never start then.
    """
    if state.settings[0].discipline == codes.SLURM:
        return False
    for i in range(first_reservation(state, start_s), len(state.reservations)):
        one = state.reservations[i]
        if one.start_s >= end_s:
            return False
        if one.end_s > start_s:
            for k in range(state.scalars[0].n_selected):
                if has_node(state.reservation_nodes[i], state.selected[k].node):
                    return True
    return False


# ------------------------------------------------------------------ the cycle


@jit
def _may_start(state, entry):
    """Tell whether a job could start now, if nothing more than what is in the map were planned."""
    job, partition = state.entries[entry].job, state.entries[entry].partition
    preempts = state.settings[0].preempt_by != 0
    may_fit = preempts or state.partitions[partition].free_cores >= state.jobs[job].n_requested
    if not may_fit or not may_run(state, entry) or is_held(state, entry):
        return False
    _put_unplanned(state, entry)
    takes, n_needed = _may_take(state, entry), state.jobs[job].n_requested
    if state.partitions[partition].max_nodes < 0:
        return fits_now(state, job, partition, state.usable) or (takes and find_victims(state, entry, state.usable))
    # With MaxNodes, the choice of nodes can fail where it succeeds with fewer nodes to choose from.
    has_free = has_cores(state, state.usable, state.free_nodes, state.free, n_needed)
    return has_free or (takes and has_cores_when_empty(state, state.usable, n_needed))


@jit
def _overtakes_before(state, one, other):
    """Tell whether EASY tries an entry before another one."""
    key = state.settings[0].order_key
    if key == kernel_codes.EASY_PRIORITY:
        return comes_before(state, one, other)
    job, other_job = state.entries[one].job, state.entries[other].job
    if key == kernel_codes.EASY_SJBF:
        length_s, other_s = order_length_s(state, job), order_length_s(state, other_job)
        if length_s != other_s:
            return length_s < other_s
    a, b = state.jobs[job], state.jobs[other_job]
    return a.rank < b.rank or (a.rank == b.rank and one < other)


@jit
def _mark_first(state):
    """Mark the components of het jobs of which one is the first job of a partition."""
    for i in range(state.scalars[0].n_queue):
        state.jobs[state.entries[state.queue[i]].job].is_first = 0
    for i in range(state.scalars[0].n_queue):
        job, one = state.entries[state.queue[i]].job, state.partitions[state.entries[state.queue[i]].partition]
        if one.n_tested > 0 or not may_run(state, state.queue[i]):
            continue
        one.n_tested += 1
        component = np.int64(state.jobs[job].first_component)
        while component >= 0:
            state.jobs[component].is_first = 1
            component = next_of(state, component)
    for partition in range(state.settings[0].n_partitions):
        state.partitions[partition].n_tested = 0


@jit
def _arrange_for_easy(state):
    """Write the queue into the order in which EASY tries jobs: the first one of each partition first."""
    s, ordered = state.scalars[0], state.ordered
    if len(state.components) > 0:
        _mark_first(state)
    n_first, n_others = np.int64(0), np.int64(0)
    for i in range(s.n_queue):
        entry = state.queue[i]
        one = state.partitions[state.entries[entry].partition]
        is_first = one.n_tested == 0 or state.jobs[state.entries[entry].job].is_first != 0
        if is_first and may_run(state, entry) and not is_held(state, entry):
            one.n_tested += 1
            for k in range(n_first + n_others, n_first, -1):
                ordered[k] = ordered[k - 1]
            ordered[n_first] = entry
            n_first += 1
            continue
        position = n_first + n_others
        while position > n_first and _overtakes_before(state, entry, ordered[position - 1]):
            ordered[position] = ordered[position - 1]
            position -= 1
        ordered[position] = entry
        n_others += 1
    for partition in range(state.settings[0].n_partitions):
        state.partitions[partition].n_tested = 0


@jit
def _arrange(state):
    """Write the queue into the order of planning: as it is, or for EASY the first job of each partition first.

    For conservative backfilling and with bf_hetjob_prio, the components of a het job come one after the other.
    """
    s, has_components = state.scalars[0], len(state.components) > 0
    if has_components and state.settings[0].bf_hetjob_prio != 0:
        put_by_hetjob_prio(state)
    elif has_components and state.settings[0].discipline == codes.CONSERVATIVE:
        put_together(state)
    elif state.settings[0].discipline == codes.EASY:
        _arrange_for_easy(state)
    else:
        for i in range(s.n_queue):
            state.ordered[i] = state.queue[i]


@jit
def _is_tested_enough(state, job, partition):
    """Count a job that is about to be planned; tell whether its user or its partition has had enough of them."""
    settings, one = state.settings[0], state.partitions[partition]
    if settings.bf_max_job_part > 0 and one.n_tested >= settings.bf_max_job_part:
        return True
    # As in Slurm, a job that bf_max_job_part or bf_max_job_user stops counts for neither.
    user = state.jobs[job].user
    if settings.bf_max_job_user > 0 and user >= 0:
        if state.user_tests[user] >= settings.bf_max_job_user:
            return True
        state.user_tests[user] += 1
    one.n_tested += 1
    return False


@jit
def _may_reserve(state, entry):
    """Tell whether nodes may be reserved for a job that cannot start now."""
    s, settings, one = state.scalars[0], state.settings[0], state.entries[entry]
    is_full = settings.max_reserve_part > 0 and state.partitions[one.partition].n_reserved >= settings.max_reserve_part
    # EASY: one reservation in each partition, and those of the components that belong to its first job.
    if is_full and state.jobs[one.job].is_first == 0:
        return False
    if settings.discipline != codes.SLURM:
        return True
    # Such a job can still start now: bf_min_prio_reserve and bf_min_age_reserve only deny reservations.
    if settings.bf_min_prio_reserve > 0 and one.priority < settings.bf_min_prio_reserve:
        return False
    return s.message_s - state.jobs[one.job].eligible_s >= settings.bf_min_age_reserve_s


@jit
def _is_passed_over(state, entry):
    """Tell whether a cycle makes no plan for a job."""
    s, job, partition = state.scalars[0], state.entries[entry].job, state.entries[entry].partition
    if state.jobs[job].first_component >= 0:
        # Before any other test: if one skips this component, the cycle need not plan the others (`others_s`).
        note_component(state, job)
        if others_s(state, job) > s.message_s + state.settings[0].bf_window_s:
            return True
    # `ordered` still lists a job in its other partitions after it has started in one.
    if state.jobs[job].is_queued == 0 or not may_run(state, entry) or is_held(state, entry):
        return True
    return _is_tested_enough(state, job, partition)


@jit
def run_cycle(state):
    """Plan the queue anew, and start what fits without delaying what is planned before it."""
    s, settings = state.scalars[0], state.settings[0]
    s.n_cycles += 1
    for partition in range(settings.n_partitions):
        state.partitions[partition].n_tested = 0
        state.partitions[partition].n_reserved = 0
    if settings.bf_max_job_user > 0:
        for user in range(len(state.user_tests)):
            state.user_tests[user] = 0
    begin_components(state)
    _arrange(state)
    # Slurm keeps no reservation from one cycle to the next, so a new job of high priority can delay planned ones.
    _begin_map(state)
    n_ordered, n_preempted = s.n_queue, s.n_preempted
    n, position, n_tested = n_ordered, np.int64(0), np.int64(0)
    while True:
        # What comes after the last job that may start needs no plan, as nothing will start there.
        if s.n_preempted != n_preempted:  # more nodes may be free than before
            n, n_preempted = n_ordered, s.n_preempted
        while position % TESTED_TOGETHER == 0 and n > position and not _may_start(state, state.ordered[n - 1]):
            n -= 1
        if position == n or (settings.bf_max_job_test > 0 and n_tested == settings.bf_max_job_test):
            break
        entry = state.ordered[position]
        position += 1
        if _is_passed_over(state, entry):
            continue
        n_tested += 1
        if _plan(state, entry, _may_reserve(state, entry)) == _PLANNED:
            state.partitions[state.entries[entry].partition].n_reserved += 1
    end_components(state)
