"""Cells: the kinds of jobs that conservative backfilling tells apart, by what they ask for.

Jobs that ask for about the same share a cell, and cells of about as many cores a *width*. What is known of holes for
all of them is kept there (`kernel.bounds`), as long as any of them waits.
"""

from __future__ import annotations

import math

import numpy as np

from hdrl.compiled.jit import jit
from hdrl.settings.batch.kernel.plan import NOT_FOUND, fastest_gflops, length_at, slowest_gflops

N_CELLS = 1024
"""Cells, at most; jobs for which none is left share the last one."""

N_WIDTHS = 64
"""Widths of jobs that cells tell apart, four to each doubling."""

_LENGTHS, _MEMORIES = 64, 4

N_KINDS = N_WIDTHS * _LENGTHS * _MEMORIES
"""Kinds of jobs that have a cell of their own as long as there are enough."""


@jit
def _step(value, per_doubling, first, n):
    """Return in which of ``n`` steps of a logarithmic scale a value is; the lowest ends at 2 to the ``first``."""
    if value <= 2.0**first:
        return np.int64(0)
    return np.int64(min((math.log2(value) - first) * per_doubling + 1.0, n - 1.0))


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
def begin_cells(state):
    """Find the cell of each job; nobody waits in any."""
    s = state.scalars[0]
    share_mib = _least_share_mib(state)
    for kind in range(len(state.cell_of_kind)):
        state.cell_of_kind[kind] = 0
    for job in range(len(state.jobs)):
        state.cell_of_kind[_kind(state.jobs[job], share_mib)] = 1
    s.n_cells = s.n_widths = s.n_waited_widths = 0
    for kind in range(len(state.cell_of_kind)):
        if state.cell_of_kind[kind] == 0:
            continue
        if s.n_cells < len(state.cells):
            _begin_cell(state.cells[s.n_cells])
            state.given_at[s.n_cells] = 0
            s.n_cells += 1
        state.cell_of_kind[kind] = s.n_cells - 1
        width = kind // (_LENGTHS * _MEMORIES)
        if s.n_widths == 0 or state.widths[s.n_widths - 1].step != width:
            state.widths[s.n_widths].step, state.widths[s.n_widths].first_cell = width, s.n_cells - 1
            state.widths[s.n_widths].n_requested = 1 << 62
            state.widths[s.n_widths].n_waited_for = 0
            s.n_widths += 1
        state.widths[s.n_widths - 1].end_cell = s.n_cells
    _describe_cells(state, share_mib)


@jit
def _kind(row, share_mib):
    """Return of which kind a job is."""
    kind = _step(np.float64(row.n_requested), 4.0, 0.0, N_WIDTHS) * _LENGTHS
    kind = (kind + _step(row.requested_time_s, 4.0, 4.0, _LENGTHS)) * _MEMORIES
    return kind + _step(row.memory_mib / share_mib, 1.0, 0.0, _MEMORIES)


@jit
def _describe_cells(state, share_mib):
    """Note what the jobs of each cell ask for at least, and how long the longest of all takes."""
    s = state.scalars[0]
    slowest = slowest_gflops(state)
    fastest = fastest_gflops(state) if s.plans_nodes == 1 else slowest
    s.longest_s = 1.0
    for job in range(len(state.jobs)):
        row, reservation = state.jobs[job], state.reservations[job]
        reservation.cell, reservation.asked_at = state.cell_of_kind[_kind(row, share_mib)], -1
        cell = state.cells[reservation.cell]
        cell.n_requested = min(cell.n_requested, row.n_requested)
        cell.requested_time_s = min(cell.requested_time_s, row.requested_time_s)
        cell.memory_mib = min(cell.memory_mib, row.memory_mib)
        cell.shortest_s = length_at(state, cell.requested_time_s, fastest)
        cell.longest_s = length_at(state, cell.requested_time_s, slowest)
        state.planned_jobs[job].shortest_s = length_at(state, row.requested_time_s, fastest_gflops(state))
        reservation.longest_s = length_at(state, row.requested_time_s, slowest)
        if reservation.longest_s < np.inf:
            s.longest_s = max(s.longest_s, reservation.longest_s)
    for w in range(s.n_widths):
        width = state.widths[w]
        for i in range(width.first_cell, width.end_cell):
            width.n_requested = min(width.n_requested, np.int64(state.cells[i].n_requested))
            state.cells[i].width = w


@jit
def _begin_cell(cell):
    cell.n_requested, cell.requested_time_s, cell.memory_mib = np.int32(2147483647), np.inf, np.inf
    cell.n_waiting = 0
    cell.decision = -1


@jit
def join_cell(state, job):
    """Count a job among those that wait in its cell; with the first, something is to be known of it again."""
    own = state.reservations[job].cell
    cell = state.cells[own]
    cell.n_waiting += 1
    if cell.n_waiting > 1:
        return
    cell.no_hole_before_s, cell.found_at = -np.inf, -1
    cell.again_from_s, cell.again_until_s = np.inf, -np.inf
    width = state.widths[cell.width]
    place = width.first_cell + width.n_waited_for
    while place > width.first_cell and state.cells[state.waited_for[place - 1]].shortest_s > cell.shortest_s:
        state.waited_for[place] = state.waited_for[place - 1]
        place -= 1
    state.waited_for[place] = own
    width.n_waited_for += 1
    if width.n_waited_for == 1:
        _add_width(state, cell.width)


@jit
def leave_cell(state, job):
    """Count a job that starts among those that wait in its cell no more."""
    own = state.reservations[job].cell
    cell = state.cells[own]
    cell.n_waiting -= 1
    if cell.n_waiting > 0:
        return
    width = state.widths[cell.width]
    width.n_waited_for -= 1
    place = width.first_cell
    while state.waited_for[place] != own:
        place += 1
    for k in range(place, width.first_cell + width.n_waited_for):
        state.waited_for[k] = state.waited_for[k + 1]
    if width.n_waited_for == 0:
        _leave_out_width(state, cell.width)


@jit
def _add_width(state, own):
    """Let a width be among those for which jobs wait."""
    s = state.scalars[0]
    state.widths[own].lack_s, state.widths[own].free_gflops = NOT_FOUND, np.inf
    place = s.n_waited_widths
    while place > 0 and state.waited_widths[place - 1] > own:
        state.waited_widths[place] = state.waited_widths[place - 1]
        place -= 1
    state.waited_widths[place] = own
    s.n_waited_widths += 1


@jit
def _leave_out_width(state, own):
    """Let a width no more be among those for which jobs wait."""
    s = state.scalars[0]
    s.n_waited_widths -= 1
    place = 0
    while state.waited_widths[place] != own:
        place += 1
    for k in range(place, s.n_waited_widths):
        state.waited_widths[k] = state.waited_widths[k + 1]
