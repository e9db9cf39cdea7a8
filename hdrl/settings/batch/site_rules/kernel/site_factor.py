"""SiteFactor: how the index of a job becomes the whole number that Slurm adds to its priority.

====================================  ==========================================================
number                                meaning
====================================  ==========================================================
2,000,000,000 and more                has waited for longer than the bound: first, in the order of arrival
100,000,000 to 1,900,000,000          1,000,000,000 - 18,000,000 asinh(1,000 index), rounded
0                                     not ours: as Slurm gives it, or given back
====================================  ==========================================================

The inverse hyperbolic sine keeps the order of any two numbers that differ by more than a ten-millionth of their size
or 1e-10, whatever their size is. Slurm serves equal priorities by job number, as simulations serve equal indices by
arrival.
"""

from __future__ import annotations

import math

import numpy as np

from hdrl.compiled.jit import jit

MIDDLE = 1_000_000_000
STEP = 18_000_000
UNIT = 1e-3
MOST = 900_000_000
"""Largest distance of an index's numbers from the middle."""

FIRST = 2_000_000_000
LARGEST = 2_147_483_640
"""Slurm keeps site factors in 32 bits, around 2**31."""

TOLERANCE = STEP // 1000
"""A number is written again once it is off by more: by a thousandth of the index."""

LEASE_INTERVALS = 3
"""For how many looks of the daemon a job is held."""


@jit
def site_factor(key, since_s, now_s, bound_s):
    """Return the SiteFactor of a job by its index; after a wait of ``bound_s`` by the date ``since_s`` alone."""
    if now_s - since_s > bound_s:  # of the date alone, so that it stays while the job waits
        return FIRST + np.int64(np.rint(min(max(LARGEST - FIRST - since_s, 0.0), float(LARGEST - FIRST))))
    scaled = STEP * math.asinh(key / UNIT)
    return MIDDLE - np.int64(np.rint(min(max(scaled, -float(MOST)), float(MOST))))


@jit
def has_changed(factor, before):
    """Tell whether a SiteFactor is to be written again."""
    # Each write calls scontrol, so small changes wait; after the bound, exact numbers keep the order of arrival.
    return abs(factor - before) > (0 if factor >= FIRST else TOLERANCE)
