"""Observation of an agent that chooses policy pairs: HDeepRM's, in its layout and order.

A *watch* accompanies the state of one environment: what the observation, the reward and the flow of decisions need
beyond the simulation itself. Nothing in it acts back on the simulation.
"""

from __future__ import annotations

import math
from typing import Annotated, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hdrl.compiled import bits
from hdrl.compiled.codes import CodeTable
from hdrl.compiled.fields import new_arrays, own, shared
from hdrl.compiled.jit import jit
from hdrl.compiled.records import of, record_dtype
from hdrl.settings.batch.kernel import codes
from hdrl.settings.batch.kernel.cluster import due_pstate, remaining
from hdrl.settings.batch.kernel.onoff import is_on

NORMAL, SMALL, MINIMAL = DETAILS = CodeTable("detail", range(3))
"""Parts of the platform that are observed: nodes, processors and cores; nodes and processors; nothing."""

N_ATTRIBUTES = 4
"""Attributes of a waiting job that are observed: requested time, cores, memory and memory bandwidth per core."""

N_CORE_VALUES = 3
"""Values that describe a core: speed, power and the part of its job's work that is left."""

N_QUARTILES = 5
"""Of each attribute: minimum, lower quartile, median, upper quartile and maximum."""

N_QUEUE_VALUES = N_ATTRIBUTES * N_QUARTILES + 1
"""Values that describe the queue: the quartiles and the change of its length."""

N_NODE_VALUES = 3
"""Values that tell how many nodes are on, booting and shutting down, where an agent decides on them."""

N_NUMBERS = 5
"""Numbers that make an action: see `Watch`."""

N_SUMS = 6
"""Sums that some objectives need besides those of `WATCH_DTYPE`: see `kernel.reward`."""

WATCH_DTYPE = record_dtype(
    [
        # constants
        *of(np.int64, "void_action", "detail", "objective"),
        ("instantaneous", np.int8),
        ("queue_sensitivity", np.float64),
        # the flow of decisions
        *of(np.int64, "n_jobs", "n_actions", "n_voids", "last_action"),
        ("acted", np.int8),
        ("status", np.int64),
        # the observation
        ("n_queue_seen", np.int64),
        ("has_shown", np.int8),
        # the reward
        *of(np.float64, "reward", "objective_before", "waiting_weight", "waiting_since", "n_busy_cores", "busy_since"),
        *of(np.float64, "busy_s", "last_end_s", "turnaround_s", "slowdown", "bounded_slowdown"),
    ]
)
"""The scalars of a watch.

``void_action`` is the number of the action that starts nothing, -1 without one; ``detail`` `NORMAL`, `SMALL` or
`MINIMAL`; ``objective`` and ``instantaneous`` say which reward is paid (`kernel.reward`). ``n_voids`` counts voids
in a row, ``last_action`` is the last action (-1: void, or none yet), ``acted`` says whether an action waits for its
reward, ``n_queue_seen`` is the length of the queue at the last observation, ``has_shown`` whether there was one, so
that only what has changed is to be written. The rest are sums of `kernel.reward`.
"""


class Watch(NamedTuple):
    """Data that accompany the state of one environment, or of a batch."""

    rows: Annotated[NDArray[np.void], own(WATCH_DTYPE, "one")]
    # Attributes of the waiting jobs, each sorted by itself
    ordered: Annotated[NDArray[np.float64], own(np.float64, "n_attributes", "n_jobs")]
    history: Annotated[NDArray[np.int16], own(np.int16, "n_kept")]  # the actions of the episode, the last ones left out
    sums: Annotated[NDArray[np.float64], own(np.float64, "n_sums")]  # further sums of the reward
    # Job key, core key, backfilling, how many nodes are to be on (-1: as many as before), and to which sleep state the
    # others go, of each action but void
    pairs: Annotated[NDArray[np.int64], shared(np.int64, "n_pairs", "n_numbers")]
    # After how long without a job each of them switches a node off, in seconds; infinite: it says nothing about that
    off_after_s: Annotated[NDArray[np.float64], shared(np.float64, "n_pairs")]
    limits: Annotated[NDArray[np.float64], shared(np.float64, "n_attributes")]  # divisors of the attributes
    # Speed of a core as a fraction of its peak, by P-state; its power likewise, as the decision system believes it
    speed_share: Annotated[NDArray[np.float64], shared(np.float64, "n_pstates")]
    power_share: Annotated[NDArray[np.float64], shared(np.float64, "n_pstates")]


def new_watches(n_rows: int, n_jobs: int, n_kept: int, n_pairs: int) -> Watch:
    """Return new watches for a batch, before anything is known about it."""
    sizes = {"one": 1, "n_attributes": N_ATTRIBUTES, "n_jobs": n_jobs, "n_kept": n_kept, "n_sums": N_SUMS}
    return new_arrays(Watch, sizes | {"n_pairs": n_pairs, "n_numbers": N_NUMBERS, "n_pstates": 1}, {}, n_rows)


@jit
def attribute(state, job, which):
    """Return an observed attribute of a job: requested time, cores, memory or memory bandwidth."""
    row = state.jobs[job]
    if which == 0:
        return row.requested_time_s
    if which == 1:
        return np.float64(row.n_requested)
    if which == 2:
        return row.memory_mib
    return row.bandwidth_gbps if which == 3 else np.nan


@jit
def _position_of(watch, which, n, value):
    """Return the first position among the ``n`` sorted values of an attribute that holds no smaller value."""
    low, high = 0, n
    while low < high:
        middle = (low + high) >> 1
        if watch.ordered[which, middle] < value:
            low = middle + 1
        else:
            high = middle
    return low


@jit
def add_arrival(state, watch, job, n_before):
    """Take a job that joins a queue of ``n_before`` jobs into the sorted attributes."""
    for which in range(N_ATTRIBUTES):
        value = attribute(state, job, which)
        position = _position_of(watch, which, n_before, value)
        for i in range(n_before, position, -1):
            watch.ordered[which, i] = watch.ordered[which, i - 1]
        watch.ordered[which, position] = value


@jit
def remove_departure(state, watch, job, n_before):
    """Take a job that leaves a queue of ``n_before`` jobs out of the sorted attributes."""
    for which in range(N_ATTRIBUTES):
        position = _position_of(watch, which, n_before, attribute(state, job, which))
        for i in range(position, n_before - 1):
            watch.ordered[which, i] = watch.ordered[which, i + 1]


@jit
def rebuild_attributes(state, watch):
    """Take the waiting jobs into the sorted attributes as if nothing was known, and show the whole platform next."""
    for i in range(state.scalars[0].n_queue):
        add_arrival(state, watch, state.queue[i], i)
    watch.rows[0].has_shown = 0


@jit
def _share(part, whole):
    """Return ``part / whole`` between 0 and 1; nothing is a share of nothing, and everything of what has no limit."""
    if whole <= 0.0:
        return 0.0
    if whole == np.inf:
        return 1.0
    return min(1.0, max(0.0, part / whole))


@jit
def _write_core(state, watch, core, out, position):
    """Write the observation of one core: speed, power, and the part of its job's work that is left."""
    row = state.cores[core]
    s = state.scalars[0]
    is_busy = row.owner >= 0
    if s.layer == 1:
        pstate = due_pstate(state, core)
        out[position] = watch.speed_share[pstate]
        out[position + 1] = watch.power_share[pstate]
    else:
        out[position] = out[position + 1] = 1.0 if is_busy else 0.0
    if not is_busy:
        out[position + 2] = 0.0
    elif s.compatible == 1:
        # HDeepRM subtracts Gflop from flop: the fraction that it shows leaves 1 by less than float32 can tell.
        out[position + 2] = 1.0
    else:
        out[position + 2] = remaining(state, row.owner)


@jit
def _place_of_core(state, core):
    """Return the position of a core's first value in the normal observation."""
    processor = state.processor_of[core]
    return state.processors[processor].node + 2 + processor + N_CORE_VALUES * core


@jit
def _write_processor(state, watch, processor, n_each, out):
    """Write the observation of a processor, its node, and its cores (``n_each`` values of each, or none)."""
    row = state.processors[processor]
    node = state.nodes[row.node]
    position = row.node + node.first_processor + n_each * state.processors[node.first_processor].first_core
    place_here = row.node + 1 + processor + n_each * row.first_core
    if not is_on(state, row.node):
        out[position] = 0.0
        for i in range(place_here, place_here + 1 + n_each * (row.end_core - row.first_core)):
            out[i] = 0.0
        return
    out[position] = _share(state.free_memory_mib[row.node], node.memory_mib)
    out[place_here] = _share(state.free_bandwidth_gbps[processor], row.bandwidth_gbps)
    if n_each > 0:
        for core in range(row.first_core, row.end_core):
            _write_core(state, watch, core, out, _place_of_core(state, core))


@jit
def _write_progress(state, out):
    """Write the remaining work of all running jobs."""
    for i in range(state.scalars[0].n_expected):
        job = state.expected[i]
        row = state.jobs[job]
        left = remaining(state, job)
        for k in range(row.first_core, row.first_core + row.n_cores):
            out[_place_of_core(state, state.allocated[k]) + 2] = left


@jit
def _write_unseen(state, watch, n_each, out):
    """Write the observation of the processors that have changed."""
    for i in range(len(state.unseen)):
        word = state.unseen[i]
        while word != bits.NONE:
            _write_processor(state, watch, bits.number(i, word), n_each, out)
            word = bits.without_lowest(word)


@jit
def _show_platform(state, watch, out):
    """Update the observation of the platform; return the number of its values."""
    s = state.scalars[0]
    w = watch.rows[0]
    n_each = N_CORE_VALUES if w.detail == NORMAL else 0
    if w.has_shown == 1:
        _write_unseen(state, watch, n_each, out)
        if w.detail == NORMAL and s.compatible == 0:
            _write_progress(state, out)
    else:
        for processor in range(len(state.processors)):
            _write_processor(state, watch, processor, n_each, out)
    w.has_shown = 1
    for i in range(len(state.unseen)):
        state.unseen[i] = bits.NONE
    return len(state.nodes) + len(state.processors) + n_each * len(state.cores)


@jit
def _quantile(watch, which, n, quarter):
    """Return a quartile of the ``n`` sorted values of an attribute, interpolated linearly."""
    exact = 0.25 * quarter * (n - 1)
    below = np.int64(math.floor(exact))
    low = watch.ordered[which, below]
    if below + 1 >= n:
        return low
    high = watch.ordered[which, below + 1]
    return low + (high - low) * (exact - below)


@jit
def _write_quartiles(state, watch, out, position):
    """Write the quartiles of the attributes of the waiting jobs as fractions of their limits."""
    s = state.scalars[0]
    for which in range(N_ATTRIBUTES):
        limit = watch.limits[which]
        for quarter in range(N_QUARTILES):
            value = 0.0
            if s.n_queue > 0 and limit > 0.0:
                value = _quantile(watch, which, s.n_queue, quarter) / limit
                if s.compatible == 0:  # HDeepRM's limits are 99th percentiles, beyond which its values go above 1
                    value = min(1.0, max(0.0, value))
            out[position] = value
            position += 1
    return position


@jit
def _queue_variation(n_before, n_now, sensitivity):
    """Return the relative change of the queue's length between 0 and 1; 0.5 is no change."""
    if n_now == 0:
        return 0.0 if n_before > 0 else 0.5
    if n_before == 0:
        return 1.0
    change = np.float64(n_now - n_before) / min(n_now, n_before)
    return max(0.0, min(1.0, (change + sensitivity) / (2.0 * sensitivity)))


@jit
def _write_nodes(state, out, position):
    """Write the shares of the nodes that are on, booting and shutting down."""
    n_nodes = len(state.node_power)
    n_on, n_booting, n_down = 0, 0, 0
    for node in range(n_nodes):
        status = state.node_power[node].status
        n_on += 1 if status == codes.NODE_ON else 0
        n_booting += 1 if status == codes.NODE_BOOTING else 0
        n_down += 1 if status == codes.NODE_SHUTTING_DOWN else 0
    out[position] = n_on / n_nodes
    out[position + 1] = n_booting / n_nodes
    out[position + 2] = n_down / n_nodes


@jit
def write_observation(state, watch, out):
    """Write the present observation into ``out``, and remember the length of the queue.

    ``out`` (float32) holds what was written the last time, in this episode.
    """
    w = watch.rows[0]
    n = state.scalars[0].n_queue
    position = 0 if w.detail == MINIMAL else _show_platform(state, watch, out)
    position = _write_quartiles(state, watch, out, position)
    out[position] = _queue_variation(w.n_queue_seen, n, w.queue_sensitivity)
    w.n_queue_seen = n
    if position + N_NODE_VALUES < len(out):
        _write_nodes(state, out, position + 1)
