"""From one decision to the next.

At each date all kernels that end are dealt with, by unit; a unit takes the next of its queue at once; then instances
are released. A decision is due while a kernel is ready and a unit idle, unless the last action was to wait for the next
event. Units are never preempted, and a queue is first come, first served.
"""

from __future__ import annotations

import math

from hdrl.compiled.jit import jit
from hdrl.settings.pipelines.kernel.codes import (
    CHOOSE,
    MAKESPAN,
    MAX_TARDINESS,
    MEAN_LATENESS,
    MEAN_TARDINESS,
    MISS_RATIO,
    NONE,
    OVER,
    R_OUTCOME,
    R_RLSCHEDSIM,
    R_SLACK,
    RLSCHEDSIM,
    STUCK,
)

FAR_US = 1 << 62
"""Later than everything."""


@jit
def time_us(choice, kind):
    """Return the worst-case time of a choice on a kind of unit."""
    return choice.cpu_us if kind == 0 else choice.gpu_us


@jit
def begin(state):
    """Begin the episode on idle units, at its first release."""
    s = state.scalars[0]
    s.start_us = state.instances[s.first_instance].release_us
    s.now_us = s.start_us
    s.last_end_us = s.start_us
    s.next_instance = s.first_instance
    s.n_ready = 0
    s.n_running = 0
    s.n_ended = 0
    s.n_missed = 0
    s.n_stays = 0
    s.n_decisions = 0
    s.is_waiting = 0
    s.decided = NONE
    s.tardiness_us = 0
    s.max_tardiness_us = 0
    s.lateness_us = 0
    s.earned = 0.0
    s.rewarded = 0.0
    for number in range(len(state.unit)):
        unit = state.unit[number]
        unit.stay = NONE
        # An idle unit never is the next one to end, so that no search needs a special case.
        unit.end_us = FAR_US
        unit.head = NONE
        unit.tail = NONE
        unit.queued_us = 0
    _release(state)


@jit
def kernel_index(state, instance, kernel):
    """Return the position of a kernel of an instance among all kernels of the episode."""
    s = state.scalars[0]
    first = state.instances[s.first_instance].first_place
    return state.instances[s.first_instance + instance].first_place - first + kernel


@jit
def _add_ready(state, instance, kernel):
    """Put a kernel among those that are ready, which are sorted by local deadline, instance and kernel."""
    s = state.scalars[0]
    one = state.instances[s.first_instance + instance]
    row = state.kernels[state.pipelines[one.pipeline].first_kernel + kernel]
    # tail_us holds the kernel's own worst time, too: the local deadline is when the kernel itself must have ended.
    local_deadline_us = one.deadline_us - row.tail_us + row.worst_us
    position = s.n_ready
    # Insertion from the end: few kernels are ready at once, and new ones mostly have late deadlines.
    # The full order (deadline, instance, kernel) makes the list independent of the order in which kernels become ready.
    while position > 0:
        before = state.ready[position - 1]
        if before.local_deadline_us < local_deadline_us:
            break
        is_before = before.instance < instance or (before.instance == instance and before.kernel < kernel)
        if before.local_deadline_us == local_deadline_us and is_before:
            break
        state.ready[position] = before
        position -= 1
    entry = state.ready[position]
    entry.instance = instance
    entry.kernel = kernel
    entry.local_deadline_us = local_deadline_us
    entry.place = kernel_index(state, instance, kernel)
    entry.is_held = 0
    s.n_ready += 1


@jit
def _remove_ready(state, instance, kernel):
    s = state.scalars[0]
    position = 0
    # Linear, since positions move with every insertion, and the list is short.
    while state.ready[position].instance != instance or state.ready[position].kernel != kernel:
        position += 1
    for i in range(position, s.n_ready - 1):
        state.ready[i] = state.ready[i + 1]
    s.n_ready -= 1


@jit
def _release(state):
    """Release the instances that are due."""
    s = state.scalars[0]
    # Instances are sorted by release, so the first one that is not due ends the search.
    while s.next_instance < s.end_instance and state.instances[s.next_instance].release_us <= s.now_us:
        instance = s.next_instance - s.first_instance
        pipeline = state.pipelines[state.instances[s.next_instance].pipeline]
        s.next_instance += 1
        progress = state.progress[instance]
        progress.n_left = pipeline.n_kernels
        progress.n_decisions = 0
        progress.start_us = NONE
        progress.end_us = NONE
        first = kernel_index(state, instance, 0)
        for kernel in range(pipeline.n_kernels):
            n_predecessors = state.kernels[pipeline.first_kernel + kernel].n_predecessors
            state.waits_for[first + kernel] = n_predecessors
            if n_predecessors == 0:
                _add_ready(state, instance, kernel)


@jit
def is_startable(state, instance, choice):
    """Return whether all that a choice of an instance waits for has ended, and none of it is dispatched."""
    if choice.n_members == 1:
        return True  # a ready kernel alone
    first = kernel_index(state, instance, 0)
    for i in range(choice.first_member, choice.first_member + choice.n_members):
        member = state.members[i]
        # n_inner predecessors are in the group itself; any other number means that one outside has not ended,
        # or (-1) that the kernel is dispatched already.
        if state.waits_for[first + member.kernel] != member.n_inner:
            return False
    return True


@jit
def runs_on(state, instance, choice, unit):
    """Return the worst-case time of a choice of an instance on a unit, `NONE` if it cannot run there."""
    ecu = state.pipelines[state.instances[state.scalars[0].first_instance + instance].pipeline].ecu
    # A pipeline that is bound to an ECU can use no unit of another one, whatever their kinds.
    if ecu != NONE and ecu != state.units[unit].ecu:
        return NONE
    return time_us(choice, state.units[unit].kind)


@jit
def backlog_us(state, number):
    """Return the time that a unit will be busy if all kernels on it take their worst time, in microseconds."""
    unit = state.unit[number]
    if unit.stay == NONE:
        return 0
    stay = state.stays[unit.stay]
    # Decisions may use worst cases alone: the true end (end_us) is known to the simulator, not to a scheduler.
    return max(stay.start_us + stay.worst_us - state.scalars[0].now_us, 0) + unit.queued_us


@jit
def kernel_row(state, position):
    """Return the row of a ready kernel in the table."""
    ready = state.ready[position]
    pipeline = state.instances[state.scalars[0].first_instance + ready.instance].pipeline
    return state.kernels[state.pipelines[pipeline].first_kernel + ready.kernel]


@jit
def _true_time_us(state, stay):
    """Return the actual duration of a stay: the mean share of its kernels of its worst case, rounded up."""
    choice = state.choices[stay.choice]
    first = kernel_index(state, stay.instance, 0)
    share = 0
    for i in range(choice.first_member, choice.first_member + choice.n_members):
        share += state.shares[first + state.members[i].kernel]
    # Shares are parts of 2^16 (`WHOLE`), so the mean share of n members is share / (n << 16), without floats:
    # integers give the same bytes everywhere.
    whole = choice.n_members << 16
    # Worst times are below 2^40; in two steps, so that nothing is lost for large groups.
    return (stay.worst_us // whole) * share + ((stay.worst_us % whole) * share + whole - 1) // whole


@jit
def _start(state, number, unit_number):
    s = state.scalars[0]
    stay, unit = state.stays[number], state.unit[unit_number]
    stay.start_us = s.now_us
    stay.end_us = s.now_us + _true_time_us(state, stay)
    unit.stay = number
    unit.end_us = stay.end_us
    unit.member = 0
    s.n_running += 1
    progress = state.progress[stay.instance]
    if progress.start_us == NONE:
        progress.start_us = s.now_us


@jit
def dispatch(state, position, choice_number, unit_number):
    """Give a ready kernel, with what is fused with it, to a unit: it starts if the unit is idle, else it queues."""
    s = state.scalars[0]
    instance = state.ready[position].instance
    choice = state.choices[choice_number]
    number = s.n_stays
    s.n_stays += 1
    s.n_decisions += 1
    s.decided = instance
    state.progress[instance].n_decisions += 1
    stay = state.stays[number]
    stay.instance = instance
    stay.choice = choice_number
    stay.unit = unit_number
    stay.start_us = NONE
    stay.end_us = NONE
    stay.worst_us = time_us(choice, state.units[unit_number].kind)
    stay.next = NONE
    # Members whose predecessors are all in the group are not in the list of ready kernels; -1 marks all as dispatched,
    # so that ends of their predecessors within the group do not make them ready once more.
    first = kernel_index(state, instance, 0)
    for i in range(choice.first_member, choice.first_member + choice.n_members):
        kernel = state.members[i].kernel
        if state.waits_for[first + kernel] == 0:
            _remove_ready(state, instance, kernel)
        state.waits_for[first + kernel] = -1
    unit = state.unit[unit_number]
    if unit.stay == NONE:
        _start(state, number, unit_number)
        return
    # The queue of a unit is a linked list through the table of stays: no memory is needed for any length.
    if unit.head == NONE:
        unit.head = number
    else:
        state.stays[unit.tail].next = number
    unit.tail = number
    unit.queued_us += stay.worst_us


@jit
def wait(state):
    """Start nothing until the next event."""
    s = state.scalars[0]
    s.is_waiting = 1
    s.n_decisions += 1
    s.decided = NONE


@jit
def hold(state, position):
    """Let a ready kernel wait for the next event, and decide about others."""
    s = state.scalars[0]
    state.ready[position].is_held = 1
    s.n_decisions += 1
    s.decided = state.ready[position].instance


@jit
def can_wait(state):
    """Return whether there is an event to wait for."""
    s = state.scalars[0]
    return s.n_running > 0 or s.next_instance < s.end_instance


@jit
def _end_instance(state, instance):
    s = state.scalars[0]
    row, progress = state.instances[s.first_instance + instance], state.progress[instance]
    progress.end_us = s.now_us
    s.n_ended += 1
    s.last_end_us = max(s.last_end_us, s.now_us)
    late_us = s.now_us - row.deadline_us
    # Lateness and tardiness count from the deadline itself; the tolerance only decides about misses.
    is_missed = late_us > row.tolerance_us
    s.n_missed += is_missed
    s.lateness_us += late_us
    s.tardiness_us += max(late_us, 0)
    s.max_tardiness_us = max(s.max_tardiness_us, late_us)
    reward = state.settings[0].reward
    if reward == R_SLACK:
        # Bounded, so that one very late instance does not outweigh all others of an episode.
        s.earned += min(1.0, max(-1.0, (row.tolerance_us - late_us) / row.period_us))
    elif reward == R_OUTCOME:
        s.earned += -1.0 if is_missed else 1.0
    elif reward == R_RLSCHEDSIM:
        s.earned += -progress.n_decisions if is_missed else progress.n_decisions


@jit
def _end_stay(state, unit_number):
    """End the stay on a unit, and start the next one of its queue."""
    s = state.scalars[0]
    unit = state.unit[unit_number]
    stay = state.stays[unit.stay]
    instance, choice = stay.instance, state.choices[stay.choice]
    unit.stay = NONE
    unit.end_us = FAR_US
    s.n_running -= 1
    pipeline = state.pipelines[state.instances[s.first_instance + instance].pipeline]
    first = kernel_index(state, instance, 0)
    for i in range(choice.first_member, choice.first_member + choice.n_members):
        row = state.kernels[pipeline.first_kernel + state.members[i].kernel]
        for j in range(row.first_successor, row.first_successor + row.n_successors):
            after = state.successors[j]
            if state.waits_for[first + after] > 0:  # those within the group are dispatched: -1
                state.waits_for[first + after] -= 1
                if state.waits_for[first + after] == 0:
                    _add_ready(state, instance, after)
    progress = state.progress[instance]
    progress.n_left -= choice.n_members
    if progress.n_left == 0:
        _end_instance(state, instance)
    if unit.head != NONE:
        number = unit.head
        unit.head = state.stays[number].next
        unit.queued_us -= state.stays[number].worst_us
        _start(state, number, unit_number)


@jit
def _kernel_end_us(state, unit_number):
    """Return the end of the running kernel of a unit's group, if times within it are shared as those alone."""
    unit = state.unit[unit_number]
    stay = state.stays[unit.stay]
    choice = state.choices[stay.choice]
    if unit.member == choice.n_members - 1:
        return unit.end_us
    is_cpu = state.units[unit_number].kind == 0
    done = 0
    for i in range(choice.first_member, choice.first_member + unit.member + 1):
        done += state.members[i].cpu_us if is_cpu else state.members[i].gpu_us
    whole = choice.sum_cpu_us if is_cpu else choice.sum_gpu_us
    return stay.start_us + (unit.end_us - stay.start_us) * done // whole


@jit
def _next_event_plain(state):
    s = state.scalars[0]
    date = FAR_US
    if s.next_instance < s.end_instance:
        date = state.instances[s.next_instance].release_us
    # All ends of one date, by unit, before releases of that date: the order is part of the semantics,
    # and a unit whose queue goes on is not idle in between.
    for number in range(len(state.unit)):
        date = min(date, state.unit[number].end_us)
    s.now_us = date
    for number in range(len(state.unit)):
        if state.unit[number].end_us == date:
            _end_stay(state, number)
    _release(state)


@jit
def _next_event_rlschedsim(state):
    """Go on as rlschedsim does: one end at a time, and releases are noticed only then, or when nothing is left."""
    s = state.scalars[0]
    date, first = FAR_US, NONE
    for number in range(len(state.unit)):
        if state.unit[number].stay != NONE:
            end_us = _kernel_end_us(state, number)
            if end_us < date:
                date, first = end_us, number
    if first == NONE:
        # Nothing runs: rlschedsim then jumps to the next release, which may lie in the past, since it was not noticed.
        s.now_us = max(s.now_us, state.instances[s.next_instance].release_us)
    else:
        s.now_us = date
        unit = state.unit[first]
        if unit.member == state.choices[state.stays[unit.stay].choice].n_members - 1:
            _end_stay(state, first)
        else:
            unit.member += 1
    _release(state)


@jit
def advance(state):
    """Go on until a decision is due, or every instance has ended; return the stage."""
    s = state.scalars[0]
    is_plain = state.settings[0].compatibility != RLSCHEDSIM
    while True:
        if s.n_ended == s.end_instance - s.first_instance:
            s.stage = OVER
            break
        if s.n_ready > 0 and s.n_running < len(state.unit) and s.is_waiting == 0:
            s.stage = CHOOSE
            break
        # Kernels are ready, but nothing runs and nothing will be released: the policy has no unit for what is left.
        if not can_wait(state):
            s.stage = STUCK
            break
        s.is_waiting = 0
        # A hold lasts until the next event only; whatever happened then may have changed the best row.
        for position in range(s.n_ready):
            state.ready[position].is_held = 0
        if is_plain:
            _next_event_plain(state)
        else:
            _next_event_rlschedsim(state)
    return s.stage


@jit
def objective_value(state, objective):
    """Return an objective over the instances that have ended, NaN of one that is in no table; seconds for times."""
    s = state.scalars[0]
    n = s.end_instance - s.first_instance
    if objective == MEAN_TARDINESS:
        # Sums over ended instances are divided by all of the episode, so that rewards, their differences, add up.
        return s.tardiness_us / 1e6 / n
    if objective == MEAN_LATENESS:
        return s.lateness_us / 1e6 / n
    if objective == MAX_TARDINESS:
        return s.max_tardiness_us / 1e6
    if objective == MAKESPAN:
        return (s.last_end_us - s.start_us) / 1e6
    return s.n_missed / n if objective == MISS_RATIO else math.nan
