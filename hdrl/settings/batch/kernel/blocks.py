"""The plan while a decision is made: its events in blocks, each with what is free where it begins.

Between two decisions the plan is a list (`kernel.plan`). A decision may look for thousands of holes and move hundreds
of reservations, so the list is unfolded into blocks first: to find a date, to add and to take out an event then takes a
look at the blocks and at one of them. A block knows how many cores are free before its first event, the least and the
most that are free behind one of its events, and, where jobs ask for memory, what is free on each node where it begins.
So whoever looks for a hole passes over whole blocks, and begins to look anywhere.

A place of the plan is two numbers: the block, counted by date, and the event in it. Behind the last event is the place
``(n_blocks, 0)``.
"""

from __future__ import annotations

from hdrl.compiled.jit import jit
from hdrl.settings.batch.kernel.plan import ROUNDING_S, job_of


@jit
def slot_of(state, block, i):
    """Return where the event ``i`` of a block is kept."""
    return state.block_order[block] * state.scalars[0].block_size + i


@jit
def following(state, block, i):
    """Return the place behind another one."""
    if i + 1 < state.blocks[state.block_order[block]].n:
        return block, i + 1
    return block + 1, 0


@jit
def is_settled(state, block, i, date_s):
    """Tell whether the last event that counts before a place, at ``date_s``, and no others have come at some date."""
    while block < state.scalars[0].n_blocks:
        slot = slot_of(state, block, i)
        if state.slot_change[slot] != 0:
            return state.slot_s[slot] > date_s + ROUNDING_S
        block, i = following(state, block, i)
    return True


@jit
def last_date_s(state, block):
    """Return the date of the last event of a block that holds any."""
    return state.slot_s[slot_of(state, block, state.blocks[state.block_order[block]].n - 1)]


@jit
def begins_settled(state, block):
    """Tell whether the events before a block are at other dates than those in it."""
    return state.slot_s[slot_of(state, block, 0)] > last_date_s(state, block - 1) + ROUNDING_S


@jit
def _block_before(state, date_s):
    """Return the last block that begins before a date, or the first block."""
    low, high = 0, state.scalars[0].n_blocks - 1
    while low < high:
        middle = (low + high + 1) >> 1
        if state.slot_s[slot_of(state, middle, 0)] < date_s:
            low = middle
        else:
            high = middle - 1
    return low


@jit
def place_before(state, date_s):
    """Return the place of the first event that is not before a date, and how many cores are free before it."""
    n_blocks, block, i = state.scalars[0].n_blocks, _block_before(state, date_s), 0
    row = state.blocks[state.block_order[block]]
    free = row.free
    while i < row.n and state.slot_s[slot_of(state, block, i)] < date_s:
        free += state.slot_change[slot_of(state, block, i)]
        i += 1
    if i < row.n:
        return block, i, free
    return min(block + 1, n_blocks), 0, free


@jit
def place_after(state, date_s):
    """Return the place of the first event after a date, and how many cores are free before it."""
    block, i, free = place_before(state, date_s)
    while block < state.scalars[0].n_blocks and state.slot_s[slot_of(state, block, i)] <= date_s:
        free += state.slot_change[slot_of(state, block, i)]
        block, i = following(state, block, i)
    return block, i, free


# ------------------------------------------------------------------ nodes


@jit
def look_at_nodes(state):
    """Let ``plan_cores`` and ``plan_memory_mib`` of the nodes be what is free now."""
    for i in range(len(state.nodes)):
        state.plan_cores[i] = state.n_free_on[i]
        state.plan_memory_mib[i] = state.free_memory_mib[i]


@jit
def look_at_block(state, block):
    """Let ``plan_cores`` and ``plan_memory_mib`` of the nodes be what is free where a block begins."""
    first = state.block_order[block] * len(state.nodes)
    for i in range(len(state.nodes)):
        state.plan_cores[i] = state.block_cores[first + i]
        state.plan_memory_mib[i] = state.block_memory_mib[first + i]


@jit
def _keep_nodes(state, block):
    """Note ``plan_cores`` and ``plan_memory_mib`` of the nodes as what is free where a block begins."""
    first = state.block_order[block] * len(state.nodes)
    for i in range(len(state.nodes)):
        state.block_cores[first + i] = state.plan_cores[i]
        state.block_memory_mib[first + i] = state.plan_memory_mib[i]


@jit
def apply_event(state, slot, cores, memory_mib):
    """Let what is free on the nodes, cores and their memory, change by an event."""
    change = state.slot_change[slot]
    if change == 0:
        return
    sign = 1 if change > 0 else -1
    row = state.jobs[job_of(state.slot_event[slot])]
    for k in range(row.first_planned, row.first_planned + row.n_planned):
        node = state.planned_nodes[k]
        n_cores = sign * state.planned_cores[k]
        cores[node] += n_cores
        memory_mib[node] += n_cores * row.memory_mib


# ------------------------------------------------------------------ unfolding and folding


@jit
def unfold(state):
    """Put the list of events into blocks; what is free now is free before the first."""
    s = state.scalars[0]
    s.block_size = len(state.slot_s) // len(state.blocks)
    if s.plans_nodes == 1:
        look_at_nodes(state)
    _fill(state, s.n_free_cores)


@jit
def _fill(state, free):
    """Put the list of events into half-full blocks: ``free`` cores, and the nodes as they are, before the first."""
    s = state.scalars[0]
    for block in range(len(state.blocks)):
        state.block_order[block] = block
    place, s.n_blocks = 0, 0
    while s.n_blocks == 0 or place < s.n_plan:
        block = s.n_blocks
        row = state.blocks[block]
        row.n, row.free = 0, free
        if s.plans_nodes == 1:
            _keep_nodes(state, block)
        while place < s.n_plan and 2 * row.n < s.block_size:
            slot = block * s.block_size + row.n
            state.slot_s[slot] = state.plan_s[place]
            state.slot_event[slot] = state.plan[place]
            state.slot_change[slot] = state.plan_change[place]
            free += state.slot_change[slot]
            if s.plans_nodes == 1:
                apply_event(state, slot, state.plan_cores, state.plan_memory_mib)
            row.n += 1
            place += 1
        s.n_blocks += 1
        _sum_up(state, block)


@jit
def fold(state):
    """Put the events of the blocks into the list again."""
    s = state.scalars[0]
    s.n_plan = 0
    for block in range(s.n_blocks):
        for i in range(state.blocks[state.block_order[block]].n):
            slot = slot_of(state, block, i)
            state.plan_s[s.n_plan] = state.slot_s[slot]
            state.plan[s.n_plan] = state.slot_event[slot]
            state.plan_change[s.n_plan] = state.slot_change[slot]
            s.n_plan += 1


@jit
def _sum_up(state, block):
    """Find the least and the most cores that are free behind an event of a block."""
    row = state.blocks[state.block_order[block]]
    free = least = most = row.free
    first = slot_of(state, block, 0)
    for slot in range(first, first + row.n):
        free += state.slot_change[slot]
        least, most = min(least, free), max(most, free)
    row.least, row.most, row.free_after = least, most, free


# ------------------------------------------------------------------ adding and taking out


@jit
def _make_room(state, block):
    """Split a full block in two, or put all events into half-full blocks where there are no more blocks."""
    s = state.scalars[0]
    if s.n_blocks == len(state.blocks):
        if s.plans_nodes == 1:
            look_at_block(state, 0)
        free = state.blocks[state.block_order[0]].free
        fold(state)
        _fill(state, free)
        return
    new = state.block_order[s.n_blocks]
    for k in range(s.n_blocks, block + 1, -1):
        state.block_order[k] = state.block_order[k - 1]
    state.block_order[block + 1] = new
    s.n_blocks += 1
    left, right = state.blocks[state.block_order[block]], state.blocks[new]
    half = left.n >> 1
    free = left.free
    if s.plans_nodes == 1:
        look_at_block(state, block)
    for i in range(half):
        free += state.slot_change[slot_of(state, block, i)]
        if s.plans_nodes == 1:
            apply_event(state, slot_of(state, block, i), state.plan_cores, state.plan_memory_mib)
    right.free, right.n = free, left.n - half
    if s.plans_nodes == 1:
        _keep_nodes(state, block + 1)
    for i in range(right.n):
        source, target = slot_of(state, block, half + i), slot_of(state, block + 1, i)
        state.slot_s[target] = state.slot_s[source]
        state.slot_event[target] = state.slot_event[source]
        state.slot_change[target] = state.slot_change[source]
    left.n = half
    _sum_up(state, block)
    _sum_up(state, block + 1)


@jit
def add_hidden(state, date_s, code):
    """Add an event that is passed over as yet; return whether it is close to another one, but not at its date.

    Of what has one date, cores are given back first.
    """
    s = state.scalars[0]
    block = _block_before(state, date_s)
    if state.blocks[state.block_order[block]].n == s.block_size:
        _make_room(state, block)
        block = _block_before(state, date_s)
    row = state.blocks[state.block_order[block]]
    slot = slot_of(state, block, row.n)
    first = slot - row.n
    while slot > first and (
        state.slot_s[slot - 1] > date_s
        or (code < 0 and state.slot_event[slot - 1] >= 0 and state.slot_s[slot - 1] == date_s)
    ):
        state.slot_s[slot] = state.slot_s[slot - 1]
        state.slot_event[slot] = state.slot_event[slot - 1]
        state.slot_change[slot] = state.slot_change[slot - 1]
        slot -= 1
    state.slot_s[slot], state.slot_event[slot], state.slot_change[slot] = date_s, code, 0
    row.n += 1
    return _is_close_to_another(state, block, slot - first, date_s)


@jit
def _is_close_to_another(state, block, i, date_s):
    """Tell whether the event before or behind the one at a place is at another date within the rounding of dates."""
    s = state.scalars[0]
    if i > 0 or block > 0:
        before_s = state.slot_s[slot_of(state, block, i - 1)] if i > 0 else last_date_s(state, block - 1)
        if before_s != date_s and date_s - before_s <= ROUNDING_S:
            return True
    block, i = following(state, block, i)
    if block == s.n_blocks:
        return False
    after_s = state.slot_s[slot_of(state, block, i)]
    return after_s != date_s and after_s - date_s <= ROUNDING_S


@jit
def _find(state, date_s, code):
    """Return the place of an event."""
    block, i, _ = place_before(state, date_s)
    while state.slot_event[slot_of(state, block, i)] != code:
        block, i = following(state, block, i)
    return block, i


@jit
def _remove(state, date_s, code):
    """Take an event out that is passed over."""
    s = state.scalars[0]
    block, i = _find(state, date_s, code)
    own = state.block_order[block]
    row = state.blocks[own]
    row.n -= 1
    first = slot_of(state, block, 0)
    for slot in range(first + i, first + row.n):
        state.slot_s[slot] = state.slot_s[slot + 1]
        state.slot_event[slot] = state.slot_event[slot + 1]
        state.slot_change[slot] = state.slot_change[slot + 1]
    if row.n == 0 and s.n_blocks > 1:
        s.n_blocks -= 1
        for k in range(block, s.n_blocks):
            state.block_order[k] = state.block_order[k + 1]
        state.block_order[s.n_blocks] = own


@jit
def _shift(state, job, first, last, sign):
    """Let the cores of a job be free (taken: ``sign`` -1) from behind the place in one block to that in another."""
    s = state.scalars[0]
    row = state.jobs[job]
    change = sign * row.n_requested
    for block in range(first + 1, last + 1):
        own = state.blocks[state.block_order[block]]
        own.free += change
        own.least += change
        own.most += change
        own.free_after += change
        if s.plans_nodes == 1:
            start = state.block_order[block] * len(state.nodes)
            for k in range(row.first_planned, row.first_planned + row.n_planned):
                n_cores = sign * state.planned_cores[k]
                state.block_cores[start + state.planned_nodes[k]] += n_cores
                state.block_memory_mib[start + state.planned_nodes[k]] += n_cores * row.memory_mib


@jit
def _set_reservation(state, job, n_cores):
    """Let the reservation of a job take so many cores: all, or none."""
    row = state.jobs[job]
    first, i = _find(state, row.reserved_s, job)
    last, k = _find(state, row.reserved_end_s, -1 - job)
    state.slot_change[slot_of(state, first, i)] = -n_cores
    state.slot_change[slot_of(state, last, k)] = n_cores
    sign = 1 if n_cores == 0 else -1
    if first <= last:
        _shift(state, job, first, last, sign)
    else:  # it takes no time, and cores are given back first
        _shift(state, job, last, first, -sign)
    _sum_up(state, first)
    _sum_up(state, last)


@jit
def hide(state, job):
    """Let the reservation of a job be passed over."""
    _set_reservation(state, job, 0)


@jit
def show(state, job):
    """Let a reservation that was passed over count again."""
    _set_reservation(state, job, state.jobs[job].n_requested)


@jit
def withdraw(state, job):
    """Take the reservation of a job, which is passed over, out of the plan."""
    row = state.jobs[job]
    _remove(state, row.reserved_s, job)
    _remove(state, row.reserved_end_s, -1 - job)


@jit
def hold_until(state, job, end_s):
    """Let a job that starts now hold its cores until a date; return whether another event is close to that."""
    is_close = add_hidden(state, end_s, -1 - job)
    block, i = _find(state, end_s, -1 - job)
    state.slot_change[slot_of(state, block, i)] = state.jobs[job].n_requested
    _shift(state, job, -1, block, -1)
    _sum_up(state, block)
    return is_close
