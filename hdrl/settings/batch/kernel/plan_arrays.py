"""What the arrays of conservative backfilling hold, and how long they are."""

from __future__ import annotations

import numpy as np

from hdrl.compiled.records import record_dtype
from hdrl.settings.batch.kernel.bounds import N_USES
from hdrl.settings.batch.kernel.cells import N_CELLS, N_KINDS, N_WIDTHS

_LEAST_BLOCK = 16
"""Events that a block of a plan has place for, at least (64 take a tenth longer where jobs ask for memory)."""

_MOST_FULL_BLOCKS = 512
"""Blocks that all events would fill, at most: what is free on each node is kept for each."""

RESERVATION_DTYPE = record_dtype(
    [
        ("reserved_s", np.float64),
        # before which date the job had no hole when asked last; how often something had been given back then; its cell;
        # how many cores it asks for; whether enough cores may have become free right before its date since then
        ("no_hole_before_s", np.float64),
        ("asked_at", np.int64),
        ("cell", np.int32),
        ("n_requested", np.int32),
        ("may_slide", np.int8),
        ("rank", np.int64),
        # how long it is expected to run on the slowest cores
        ("longest_s", np.float64),
        ("reserved_end_s", np.float64),
    ]
)
"""The reservation of a job (start -1: none), and what is known of other ones; ``rank`` is as in the job's row.

All jobs are asked at each message whether they can move, 134 million times where 10,000 wait at once: what that reads
lies close together.
"""

PLANNED_JOB_DTYPE = record_dtype(
    [
        ("memory_mib", np.float64),
        ("shortest_s", np.float64),
        ("first_planned", np.int64),
        ("n_planned", np.int32),
    ]
)
"""What else the plan knows of a job: the memory that it asks for with each core, how long it is expected to run on the
fastest cores, and its part of `planned_nodes` and `planned_cores`."""

BLOCK_DTYPE = record_dtype(
    [
        ("n", np.int64),
        ("free", np.int64),
        ("peak", np.int64),
        ("free_after", np.int64),
    ]
)
"""A block of events: how many, free cores before the first, the most behind one, those behind the last."""

CELL_DTYPE = record_dtype(
    [
        ("n_requested", np.int32),
        ("requested_time_s", np.float64),
        ("memory_mib", np.float64),
        ("shortest_s", np.float64),
        ("longest_s", np.float64),
        # what is known of holes for it: none before a date but from some dates on, which are to be looked at again;
        # where one was found, how many reservations had been made then; in which decision a hole now was looked for
        ("no_hole_before_s", np.float64),
        ("again_from_s", np.float64),
        ("again_until_s", np.float64),
        ("found_at", np.int64),
        ("decision", np.int64),
        ("width", np.int64),
        ("n_waiting", np.int64),
    ]
)
"""A cell: the least that its jobs ask for, and how long that takes on the fastest cores and on the slowest.

``n_waiting`` is how many of its jobs wait. While none does, nothing is kept up to date of it.
"""

WIDTH_DTYPE = record_dtype(
    [
        ("step", np.int64),
        ("n_requested", np.int64),
        ("first_cell", np.int64),
        ("end_cell", np.int64),
        ("n_waited_for", np.int64),
        ("since_s", np.float64),
        ("from_s", np.float64),
        ("stretch_s", np.float64),
        ("lack_s", np.float64),
        ("free_gflops", np.float64),
    ]
)
"""Cells of jobs of about as many cores: the fewest, where these cells are, and what `kernel.stretches` finds.

``step`` numbers widths on a logarithmic scale; ``n_waited_for`` is in how many of the cells jobs wait; ``since_s`` is
since when so many cores are free at the place that is looked at; ``from_s`` when the first stretch begins;
``stretch_s`` how long the longest one is. ``lack_s`` is a date at which fewer cores are free, as far as one is known
(else it has gone by), ``free_gflops`` how fast so many of those that are free now are at best.
"""


def sizes_of_plan(n_jobs: int, n_planned_nodes: int) -> dict[str, int]:
    """Return the sizes of a plan in blocks: half-full blocks take all events, and as many blocks are left to split."""
    size = max(_LEAST_BLOCK, -(-2 * n_jobs // _MOST_FULL_BLOCKS))
    n_blocks = 2 * (-(-4 * n_jobs // size) + 1)
    return {
        "n_blocks": n_blocks,
        "n_slots_of_plan": n_blocks * size,
        "n_block_nodes": n_blocks * n_planned_nodes,
        "n_kinds": N_KINDS,
        "n_cells": min(n_jobs, N_CELLS),
        "n_widths": N_WIDTHS,
        "n_buckets": N_USES * min(1024, 16 << (n_jobs // 16).bit_length()),
    }
