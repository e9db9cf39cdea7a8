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

import numpy as np
from numpy.typing import NDArray

MIDDLE = 1_000_000_000
STEP = 18_000_000
UNIT = 1e-3
MOST = 900_000_000
"""How far numbers of an index are from the middle, at most."""

FIRST = 2_000_000_000
LARGEST = 2_147_483_640
"""Slurm keeps site factors in 32 bits, around 2**31."""

MOST_WEIGHT = FIRST - (MIDDLE + MOST)
"""What other terms of the priority may come to together, so that nothing passes a job beyond the bound."""


def site_factors(
    keys: NDArray[np.float64], since_s: NDArray[np.float64], now_s: float, bound_s: float
) -> NDArray[np.int64]:
    """Return the SiteFactor of jobs.

    Parameters
    ----------
    keys
        Their index; the lowest is served first.
    since_s, now_s
        From when on they could start, and the date, in seconds of the log.
    bound_s
        After which wait a job is first, in seconds.
    """
    since_s = np.asarray(since_s, dtype=np.float64)
    scaled = STEP * np.arcsinh(np.asarray(keys, dtype=np.float64) / UNIT)
    factors = MIDDLE - np.rint(np.clip(scaled, -MOST, MOST)).astype(np.int64)
    # Of the date alone, so that it stays while the job waits.
    room = LARGEST - FIRST
    first = FIRST + np.rint(np.clip(room - since_s, 0, room)).astype(np.int64)
    return np.where(now_s - since_s > bound_s, first, factors)
