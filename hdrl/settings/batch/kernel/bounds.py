"""What is known of holes that are not there, so that most jobs need not look for any.

A decision asks every waiting job whether it can start earlier, and nearly all of them cannot. Two things are noted so
that they are not found out again and again:

- Jobs that ask for about the same share a *cell*. It knows the least that any of them asks for, and a date before which
  the plan has no hole even for that: then it has none for any of them, since more cores, a longer time and more memory
  are never easier to find. Only what is given back can change it, and a hole must reach into that: dates from which one
  would are looked at again.
- A job could also start so little before its date that it uses part of its own reservation, which the cell knows
  nothing of. When it was asked and had no hole, it keeps how often something had been given back until then. Time is
  divided into *buckets*, and each keeps when something in it was given back last. As long as nothing was where a start
  a little earlier would reach to, there is no such start.

Neither changes any schedule. Reservations only ever take something, and a hole that begins between two events is also
one at the first of them. Events close to each other, within the rounding of dates, are one date: where one is added to
them or taken out, holes may come and go by that rounding alone. This counts as given back, too.
"""

from __future__ import annotations

import math

import numpy as np

from hdrl.compiled.jit import jit
from hdrl.settings.batch.kernel.holes import find_hole, first_date_after_s, most_free_between
from hdrl.settings.batch.kernel.plan import NOT_FOUND, ROUNDING_S, length_at, slowest_gflops

N_CELLS = 512
"""Cells, at most; jobs for which none is left share the last one."""

N_WIDTHS = 8
"""Widths of jobs that buckets tell apart, each four times the one before."""

_WIDTHS, _LENGTHS, _MEMORIES = 16, 64, 4

N_KINDS = _WIDTHS * _LENGTHS * _MEMORIES
"""Kinds of jobs that have a cell of their own as long as there are enough."""

_BUCKETS_PER_JOB = 64
"""How many buckets the longest job takes."""


@jit
def _step(value, per_doubling, first, n):
    """Return in which of ``n`` steps of a logarithmic scale a value is; the lowest ends at 2 to the ``first``."""
    if value <= 2.0**first:
        return np.int64(0)
    return np.int64(min((math.log2(value) - first) * per_doubling + 1.0, n - 1.0))


@jit
def _width(n_cores):
    return min(np.int64(math.log2(np.float64(max(n_cores, 1)))) >> 1, np.int64(N_WIDTHS - 1))


@jit
def _least_share_mib(state):
    """Return the memory for each core of the node that has least of it: jobs that ask for no more seldom lack any."""
    share_mib = np.inf
    for i in range(len(state.nodes)):
        node = state.nodes[i]
        first = state.processors[node.first_processor].first_core
        n_cores = state.processors[node.end_processor - 1].end_core - first
        share_mib = min(share_mib, node.memory_mib / n_cores)
    return max(share_mib, 1.0)


@jit
def begin_bounds(state):
    """Find the cell of each job, of which nothing is known, and how long a bucket is to be."""
    s = state.scalars[0]
    for kind in range(len(state.cell_of_kind)):
        state.cell_of_kind[kind] = -1
    s.n_cells = 0
    slowest = slowest_gflops(state)
    share_mib, longest_s = _least_share_mib(state), 1.0
    for job in range(len(state.jobs)):
        row = state.jobs[job]
        kind = _step(np.float64(row.n_requested), 1.0, 0.0, _WIDTHS) * _LENGTHS
        kind = (kind + _step(row.requested_time_s, 4.0, 4.0, _LENGTHS)) * _MEMORIES
        kind += _step(row.memory_mib / share_mib, 1.0, 0.0, _MEMORIES)
        if state.cell_of_kind[kind] < 0:
            state.cell_of_kind[kind] = min(s.n_cells, len(state.cells) - 1)
            if s.n_cells < len(state.cells):
                _begin_cell(state.cells[s.n_cells])
                s.n_cells += 1
        row.cell = state.cell_of_kind[kind]
        cell = state.cells[row.cell]
        cell.n_requested = min(cell.n_requested, row.n_requested)
        cell.requested_time_s = min(cell.requested_time_s, row.requested_time_s)
        cell.memory_mib = min(cell.memory_mib, row.memory_mib)
        cell.longest_s = length_at(state, cell.requested_time_s, slowest)
        length_s = length_at(state, row.requested_time_s, slowest)
        if length_s < np.inf:
            longest_s = max(longest_s, length_s)
    s.bucket_s = longest_s / _BUCKETS_PER_JOB
    # A group of events that are close to each other is no longer than that.
    s.margin_s = (2 * len(state.jobs) + 4) * ROUNDING_S


@jit
def _begin_cell(cell):
    cell.n_requested, cell.requested_time_s, cell.memory_mib = np.int32(2147483647), np.inf, np.inf
    cell.no_hole_before_s = -np.inf
    cell.again_from_s, cell.again_until_s = np.inf, -np.inf
    cell.found_at, cell.decision = -1, -1


@jit
def begin_asking(state):
    """Note what jobs that have ended leave before they were expected to; whether an event is close behind now."""
    s = state.scalars[0]
    if s.vacated_s > s.message_s:
        give_back(state, s.message_s, s.vacated_s)
    s.vacated_s = NOT_FOUND
    s.is_close = 1 if first_date_after_s(state, s.message_s) <= s.message_s + ROUNDING_S else 0


@jit
def no_hole_before(state, row, core_key, limit_s):
    """Return a date before which the plan, with all reservations, has no hole for a job: at most a limit."""
    s = state.scalars[0]
    cell = state.cells[row.cell]
    if s.is_close == 1 and cell.decision != s.n_decisions:
        # Half of a group of events has come: now is like no other date.
        cell.decision = s.n_decisions
        if _find(state, cell, core_key, -np.inf, math.nextafter(s.message_s, np.inf)) != NOT_FOUND:
            cell.again_from_s = min(cell.again_from_s, s.message_s)
            cell.again_until_s = max(cell.again_until_s, math.nextafter(s.message_s, np.inf))
    until_s = min(cell.again_until_s, cell.no_hole_before_s, limit_s)
    if cell.again_from_s < until_s and cell.found_at != s.n_reserved:
        date_s = _find(state, cell, core_key, cell.again_from_s, until_s)
        if date_s == NOT_FOUND:
            cell.again_from_s = until_s
        else:
            cell.again_from_s, cell.found_at = date_s, s.n_reserved
    if cell.again_from_s >= min(cell.again_until_s, cell.no_hole_before_s):
        cell.again_from_s, cell.again_until_s = np.inf, -np.inf
    first_s = min(cell.again_from_s, cell.no_hole_before_s)
    if first_s < limit_s and cell.found_at != s.n_reserved:
        date_s = _find(state, cell, core_key, cell.no_hole_before_s, limit_s)
        cell.no_hole_before_s = limit_s
        if date_s != NOT_FOUND:
            cell.no_hole_before_s, cell.found_at = date_s, s.n_reserved
        first_s = cell.no_hole_before_s
    return min(first_s, limit_s)


@jit
def _find(state, cell, core_key, from_s, limit_s):
    """Return the date of the first hole for what a cell asks for at least, or ``NOT_FOUND``."""
    date_s, _ = find_hole(state, cell.n_requested, cell.requested_time_s, cell.memory_mib, core_key, from_s, limit_s)
    return date_s


@jit
def give_back(state, start_s, end_s):
    """Note that something has been given back between two dates."""
    s = state.scalars[0]
    start_s, end_s = start_s - s.margin_s, end_s + s.margin_s
    most = most_free_between(state, start_s, end_s)
    for i in range(s.n_cells):
        cell = state.cells[i]
        from_s = start_s - cell.longest_s if cell.longest_s < np.inf else -np.inf
        if cell.n_requested <= most and from_s < cell.no_hole_before_s:
            cell.again_from_s = min(cell.again_from_s, from_s)
            cell.again_until_s = max(cell.again_until_s, end_s)
            cell.found_at = -1
    s.n_given_back += 1
    first, n = _buckets(state, start_s, end_s)
    n_buckets = len(state.buckets) // N_WIDTHS
    for width in range(_width(most) + 1):
        for i in range(n):
            state.buckets[width * n_buckets + ((first + i) & (n_buckets - 1))] = s.n_given_back


@jit
def _buckets(state, start_s, end_s):
    """Return the bucket of a date, and how many there are up to another date: at most all."""
    bucket_s, n_buckets = state.scalars[0].bucket_s, len(state.buckets) // N_WIDTHS
    if not end_s - start_s < bucket_s * (n_buckets - 2):
        return np.int64(0), np.int64(n_buckets)
    first = np.int64(math.floor(start_s / bucket_s))
    return first & (n_buckets - 1), np.int64(math.floor(end_s / bucket_s)) - first + 1


@jit
def near_s(state, row):
    """Return from when on a start of a job with a reservation would reach into that reservation."""
    return row.reserved_s - length_at(state, row.requested_time_s, slowest_gflops(state)) - state.scalars[0].margin_s


@jit
def is_as_before(state, row):
    """Tell whether nothing that would let a job start a little before its date was given back since it was asked."""
    length_s = length_at(state, row.requested_time_s, slowest_gflops(state))
    margin_s = state.scalars[0].margin_s
    date_s = row.reserved_s
    # Where its own reservation is, the job finds free more than others do: there everything counts.
    return _is_untouched(state, date_s - length_s - margin_s, date_s, _width(row.n_requested), row.asked_at) and (
        _is_untouched(state, date_s - margin_s, date_s + length_s + margin_s, 0, row.asked_at)
    )


@jit
def _is_untouched(state, start_s, end_s, width, since):
    """Tell whether nothing was given back between two dates, as far as jobs of a width can use it."""
    first, n = _buckets(state, start_s, end_s)
    n_buckets = len(state.buckets) // N_WIDTHS
    last = np.int64(0)
    for i in range(n):
        last = max(last, state.buckets[width * n_buckets + ((first + i) & (n_buckets - 1))])
    return last <= since


@jit
def note_asked(state, row):
    """Note that there is no hole for a job before its date."""
    row.asked_at = state.scalars[0].n_given_back
