"""The main scheduler: down the queue at each event; a job that cannot start stops its partition and all its nodes.

A job to which stopped partitions or reservations leave too few nodes stops nothing. A component of a het job always
stops its partition: only the backfill cycle starts het jobs.
"""

from __future__ import annotations

import numpy as np

from hdrl.compiled.bits import n_of
from hdrl.compiled.jit import jit
from hdrl.settings.batch.site_rules import codes
from hdrl.settings.batch.site_rules.kernel.allocation import choose_nodes, choose_now, is_whole, n_cores_on
from hdrl.settings.batch.site_rules.kernel.limits import may_run
from hdrl.settings.batch.site_rules.kernel.predictions import is_held
from hdrl.settings.batch.site_rules.kernel.preemption import find_victims, take_nodes
from hdrl.settings.batch.site_rules.kernel.running import NEVER, start_job

_NONE = np.uint64(0)

FITS = 0
WAITS = 1
SHUT_OUT = 2


@jit
def limit_in(state, job, partition):
    """Return the time limit of a job in a partition, in seconds."""
    return min(state.jobs[job].limit_s, state.partitions[partition].max_time_s)


@jit
def first_reservation(state, date_s):
    """Return the first reservation in the order of starts before which all are over at a date."""
    low, high = 0, len(state.reservations)
    while low < high:
        middle = (low + high) // 2
        if state.reservations[middle].latest_end_s > date_s:
            high = middle
        else:
            low = middle + 1
    return low


@jit
def leave_out_reserved(state, usable, start_s, end_s):
    """Take the nodes of reservations that overlap a span out of a set; return the first date at which one is over."""
    over_s = NEVER
    for i in range(first_reservation(state, start_s), len(state.reservations)):
        one = state.reservations[i]
        # A reservation in the future counts, too: the job could still be running when it begins.
        if one.start_s >= end_s:
            break
        if one.end_s <= start_s:
            continue
        is_touched = False
        for word in range(state.settings[0].n_words):
            bits = usable[word] & state.reservation_nodes[i, word]
            if bits != _NONE:
                usable[word] ^= bits
                is_touched = True
        if is_touched:
            over_s = min(over_s, one.end_s)
    return over_s


@jit
def put_nodes_of(state, usable, job, partition):
    """Write the open nodes of a partition that have what a job needs into a set."""
    features = state.jobs[job].features
    for word in range(state.settings[0].n_words):
        usable[word] = state.partition_nodes[partition, word] & state.feature_nodes[features, word]
        usable[word] &= state.open_nodes[word]


@jit
def _put_unblocked(state, job, partition):
    """Write the nodes into the usable ones that stopped partitions and reservations leave to a job; tell if all are."""
    now, usable, is_all = state.scalars[0].message_s, state.usable, True
    put_nodes_of(state, usable, job, partition)
    for word in range(state.settings[0].n_words):
        is_all = is_all and usable[word] & state.blocked[word] == _NONE
        usable[word] &= ~state.blocked[word]
    return leave_out_reserved(state, usable, now, now + limit_in(state, job, partition)) == NEVER and is_all


@jit
def _n_left(state, partition):
    """Return the number of open nodes of a partition that stopped partitions leave."""
    n = np.int64(0)
    for word in range(state.settings[0].n_words):
        n += n_of(state.partition_nodes[partition, word] & state.open_nodes[word] & ~state.blocked[word])
    return n


@jit
def _meets_whole_nodes(state, job, partition):
    """Tell whether jobs with whole nodes are on the usable ones; if a job wants whole nodes itself, any counts."""
    whole = is_whole(state, job, partition)
    for i in range(state.scalars[0].n_running):
        one = state.running[i]
        counts = whole or is_whole(state, one.job, state.entries[state.jobs[one.job].entry].partition)
        if counts and n_cores_on(state, one, state.usable) > 0:
            return True
    return False


@jit
def try_now(state, entry):
    """Choose nodes for a job that are free now.

    Returns
    -------
    int
        ``FITS``; ``WAITS`` if it fits as soon as the nodes that are left to it are free, and ``SHUT_OUT`` if stopped
        partitions and reservations leave too few.
    """
    job, partition = state.entries[entry].job, state.entries[entry].partition
    if state.jobs[job].first_component >= 0:
        return WAITS
    is_all, usable = _put_unblocked(state, job, partition), state.usable
    preempts = state.settings[0].preempt_by != 0  # then free cores count the suspended jobs as well
    if (preempts or state.partitions[partition].free_cores >= state.jobs[job].n_requested) and choose_now(
        state, job, partition, usable
    ):
        return FITS
    if preempts and find_victims(state, entry, usable):
        return FITS if take_nodes(state) else WAITS
    # If the nodes left are too few even when idle, no end of a running job helps, and the job stops nothing.
    if is_all or choose_nodes(state, job, partition, usable, usable, state.all_free, state.all_mib, state.all_gpus):
        return WAITS
    if state.settings[0].discipline != codes.SLURM:
        return SHUT_OUT
    # In Slurm, a job also waits that asks for more --nodes than are left, or meets nodes that others have as a whole.
    is_waiting = state.jobs[job].nodes > _n_left(state, partition)
    is_waiting = is_waiting or (not preempts and _meets_whole_nodes(state, job, partition))
    return WAITS if is_waiting else SHUT_OUT


@jit
def stop_partition(state, partition):
    """Start nothing more in a partition nor on its nodes; return whether it was open."""
    state.partitions[partition].is_failed = 1
    for word in range(state.settings[0].n_words):
        state.blocked[word] |= state.partition_nodes[partition, word]


@jit
def open_partitions(state):
    """Begin to go down the queue: no partition has been stopped."""
    state.scalars[0].n_passes += 1
    for partition in range(state.settings[0].n_partitions):
        state.partitions[partition].is_failed = 0
        state.partitions[partition].n_tested = 0
    for word in range(state.settings[0].n_words):
        state.blocked[word] = _NONE


@jit
def run_main(state, depth):
    """Start jobs as the main scheduler does; return whether it stopped at a depth of the queue (0: none)."""
    s, settings = state.scalars[0], state.settings[0]
    open_partitions(state)
    position, n_tested, n_failed = np.int64(0), np.int64(0), np.int64(0)
    while position < s.n_queue and n_failed < settings.n_partitions:
        entry = state.queue[position]
        position += 1
        job, one = state.entries[entry].job, state.partitions[state.entries[entry].partition]
        if one.is_failed != 0 or is_held(state, entry):
            continue
        # A limit of a QOS, an account or a user stops no partition: Slurm does so only with assoc_limit_stop.
        if state.jobs[job].first_component < 0 and not may_run(state, entry):
            continue
        if depth > 0 and n_tested == depth:
            return True
        n_tested += 1
        one.n_tested += 1
        if settings.partition_job_depth > 0 and one.n_tested > settings.partition_job_depth:
            continue
        result = try_now(state, entry)
        if result == FITS:
            # The job leaves the queue with its entries in other partitions; some of them stood before this position.
            position -= start_job(state, entry, position)
        elif result == WAITS:
            stop_partition(state, state.entries[entry].partition)
            n_failed += 1
    return False
