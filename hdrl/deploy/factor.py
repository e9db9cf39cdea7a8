"""SiteFactors of many jobs at a time; `site_rules.kernel.site_factor` of batch jobs says what the number means."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hdrl.compiled.jit import python_of
from hdrl.settings.batch.site_rules.kernel.site_factor import FIRST, MIDDLE, MOST, site_factor

MOST_WEIGHT = FIRST - (MIDDLE + MOST)
"""Largest sum of the other terms of the priority with which nothing passes a job beyond the bound."""

_site_factor = python_of(site_factor)


def site_factors(
    keys: NDArray[np.float64], since_s: NDArray[np.float64], now_s: float, bound_s: float
) -> NDArray[np.int64]:
    """Return the SiteFactor of jobs.

    Parameters
    ----------
    keys
        Their index; the lowest is served first.
    since_s, now_s
        Dates from which they could start, and the present date, in seconds of the log.
    bound_s
        After which wait a job is first, in seconds.
    """
    pairs = zip(np.asarray(keys, float).tolist(), np.asarray(since_s, float).tolist(), strict=True)
    return np.array([_site_factor(key, one_s, now_s, bound_s) for key, one_s in pairs], dtype=np.int64)
