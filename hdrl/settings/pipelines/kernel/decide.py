"""The classic rules: which ready kernel is next, on which unit, fused with what."""

from __future__ import annotations

from hdrl.compiled.jit import jit
from hdrl.compiled.lehmer import following
from hdrl.settings.pipelines.kernel.codes import (
    ANY_DEPTH,
    BEST_GAIN,
    BY_CHANCE,
    BY_DEADLINE,
    BY_FINISH,
    BY_INDEX,
    BY_LAXITY,
    BY_LOCAL_DEADLINE,
    BY_PERIOD,
    BY_RELATIVE_DEADLINE,
    BY_THRESHOLD,
    FUSIONS,
    INDEXED,
    NONE,
    ON_CPU,
    ON_GPU,
    ON_IDLE,
    ON_INDEXED,
    ON_PLANNED,
    ON_RANDOM,
    ORDERS,
    OVER,
    PLACEMENTS,
    PLANNED,
    SHORTEST,
    SINGLE,
    STUCK,
)
from hdrl.settings.pipelines.kernel.engine import (
    FAR_US,
    advance,
    backlog_us,
    begin,
    dispatch,
    is_startable,
    kernel_row,
    runs_on,
    wait,
)
from hdrl.settings.pipelines.kernel.index import decide_by_index


@jit
def draw(state, n):
    """Return a number from 0 to ``n - 1`` (`hdrl.compiled.lehmer`)."""
    s = state.scalars[0]
    s.random = following(s.random)
    return s.random % n


@jit
def _key_us(state, position, order):
    """Return the key of a ready kernel; the smallest is next."""
    ready = state.ready[position]
    if order == BY_LOCAL_DEADLINE:
        return ready.local_deadline_us
    row = state.instances[state.scalars[0].first_instance + ready.instance]
    if order == BY_DEADLINE:
        return row.deadline_us
    if order == BY_PERIOD:
        return row.period_us
    if order == BY_RELATIVE_DEADLINE:
        return row.deadline_us - row.release_us
    kernel = kernel_row(state, position)
    if order == BY_LAXITY:
        # Laxity less the present date, which is the same for all and changes no order; the tail is that on best units.
        return row.deadline_us - kernel.best_tail_us
    return -kernel.rank_us  # BY_UPWARD_RANK: `is_valid_policy` refuses what is in no table


@jit
def _is_before(state, position, other):
    """Return whether a ready kernel goes before another one of equal rank: earlier deadline, instance, number."""
    one, two = state.ready[position], state.ready[other]
    first = state.scalars[0].first_instance
    deadline_us = state.instances[first + one.instance].deadline_us
    other_us = state.instances[first + two.instance].deadline_us
    if deadline_us != other_us:
        return deadline_us < other_us
    if one.instance != two.instance:
        return one.instance < two.instance
    return one.kernel < two.kernel


@jit
def _threshold_us(state, position):
    """Return the earliest local deadline of another ready kernel."""
    s = state.scalars[0]
    if s.n_ready == 1:
        return FAR_US
    # Ready kernels are sorted by local deadline, so the first other one has the earliest.
    return state.ready[1 if position == 0 else 0].local_deadline_us


@jit
def choice_on(state, position, unit, fusion):
    """Return the choice of a ready kernel that a rule of fusion makes on a unit, `NONE` if there is none."""
    ready = state.ready[position]
    kernel = kernel_row(state, position)
    if fusion == SINGLE:
        alone = kernel.first_choice
        return alone if runs_on(state, ready.instance, state.choices[alone], unit) != NONE else NONE
    is_cpu = state.units[unit].kind == 0
    # By threshold, a group is worth its delay only while its own local deadline is earlier than that of
    # any other ready kernel: the largest such group is taken.
    deadline_us = state.instances[state.scalars[0].first_instance + ready.instance].deadline_us
    threshold_us = _threshold_us(state, position)
    found, best = NONE, 0.0
    for number in range(kernel.first_choice, kernel.first_choice + kernel.n_choices):
        choice = state.choices[number]
        time_us = runs_on(state, ready.instance, choice, unit)
        if time_us == NONE or not is_startable(state, ready.instance, choice):
            continue
        if fusion == BEST_GAIN:
            value = (choice.sum_cpu_us if is_cpu else choice.sum_gpu_us) / time_us
        elif fusion == BY_THRESHOLD:
            is_urgent = choice.n_members == 1 or deadline_us - choice.deadline_tail_us < threshold_us
            value = float(choice.n_members) if is_urgent else 0.0
        else:
            value = 1.0 / (time_us + choice.after_us)
        # Strictly more: of equal choices the first one counts, which fuses less.
        if value > best:
            found, best = number, value
    return found


@jit
def _best_unit(state, position, where, fusion):
    """Return the unit and the choice with which a ready kernel ends first under a rule; `NONE` if it has to wait."""
    found, chosen, best = NONE, NONE, FAR_US
    for unit in range(len(state.unit)):
        kind = state.units[unit].kind
        if (where == ON_IDLE and state.unit[unit].stay != NONE) or (where == ON_CPU and kind != 0):
            continue
        if where == ON_GPU and kind == 0:
            continue
        choice = choice_on(state, position, unit, fusion)
        if choice == NONE:
            continue
        row = state.choices[choice]
        # Backlogs are worst cases, see `backlog_us`; of units that end equally early the first one counts.
        end_us = backlog_us(state, unit) + (row.cpu_us if kind == 0 else row.gpu_us)
        if fusion == SHORTEST:
            end_us += row.after_us
        if end_us < best:
            found, chosen, best = unit, choice, end_us
    return found, chosen, best


@jit
def _planned(state, position):
    """Return the unit and the choice that the plan has for a ready kernel, `NONE` while the unit is busy."""
    row = kernel_row(state, position)
    # The plan is a mapping, not a schedule: each unit serves its pipelines by earliest deadline, so nothing is queued.
    if row.planned_unit == NONE or state.unit[row.planned_unit].stay != NONE:
        return NONE, NONE
    number = row.first_choice + row.planned_choice
    if not is_startable(state, state.ready[position].instance, state.choices[number]):
        return NONE, NONE
    return row.planned_unit, number


@jit
def _random(state):
    """Return a ready kernel, a unit and a choice that goes there, drawn evenly among those of the kernel."""
    s = state.scalars[0]
    position = draw(state, s.n_ready)
    kernel, instance = kernel_row(state, position), state.ready[position].instance
    n = 0
    unit, choice = NONE, NONE
    for number in range(kernel.first_choice, kernel.first_choice + kernel.n_choices):
        if not is_startable(state, instance, state.choices[number]):
            continue
        for one in range(len(state.unit)):
            if runs_on(state, instance, state.choices[number], one) != NONE:
                n += 1
                # The n-th candidate replaces the choice with probability 1/n: an even draw in one pass, without a list.
                if draw(state, n) == 0:
                    unit, choice = one, number
    return position, unit, choice


@jit
def is_valid_policy(order, where, fusion):
    """Return whether the three numbers of a policy are in their tables, and go together."""
    is_known = order in ORDERS and where in PLACEMENTS and fusion in FUSIONS
    is_random, is_planned = order == BY_CHANCE, where == ON_PLANNED
    is_indexed = order == BY_INDEX
    goes_together = (where == ON_RANDOM) == is_random and (fusion == ANY_DEPTH) == is_random
    goes_together = goes_together and (where == ON_INDEXED) == is_indexed and (fusion == INDEXED) == is_indexed
    return is_known and goes_together and (fusion == PLANNED) == is_planned


@jit
def decide(state, order, where, fusion):
    """Return position, unit and choice of what a policy starts or queues; unit `NONE`: it waits."""
    if order == BY_CHANCE:
        return _random(state)
    if order == BY_INDEX:
        return decide_by_index(state)
    found, unit, choice = NONE, NONE, NONE
    best = FAR_US
    for position in range(state.scalars[0].n_ready):
        key = FAR_US
        if order != BY_FINISH:
            key = _key_us(state, position, order)
            # Before the search for a unit, which costs far more than this comparison.
            if found != NONE and (key > best or (key == best and not _is_before(state, position, found))):
                continue
        if where == ON_PLANNED:
            its_unit, its_choice = _planned(state, position)
        else:
            its_unit, its_choice, end_us = _best_unit(state, position, where, fusion)
            if order == BY_FINISH:
                key = end_us
                if found != NONE and (key > best or (key == best and not _is_before(state, position, found))):
                    continue
        if its_unit != NONE:
            found, unit, choice, best = position, its_unit, its_choice, key
    return found, unit, choice


@jit
def run(state, order, where, fusion):
    """Run the whole episode under a policy; return the stage in which it stopped."""
    begin(state)
    while True:
        stage = advance(state)
        if stage in (OVER, STUCK):
            return stage
        position, unit, choice = decide(state, order, where, fusion)
        if unit == NONE:
            wait(state)
        else:
            dispatch(state, position, choice, unit)
