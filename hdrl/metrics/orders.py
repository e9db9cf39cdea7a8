"""Distance between two schedules of the same jobs: the order of their starts, and their waits."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Distance:
    """Distance between a schedule of some jobs, such as a replay, and the real one of a site."""

    n_jobs: int  # jobs that are compared
    discordant_share: float  # share of the pairs of jobs that start in the other order; NaN for less than two jobs
    # mean wait in the replay, and at the site
    mean_wait_s: float
    site_mean_wait_s: float
    # the same for the median and the 95th percentile
    median_wait_s: float
    site_median_wait_s: float
    p95_wait_s: float
    site_p95_wait_s: float
    mean_shift_s: float  # mean distance of the starts of a job, whichever is earlier

    @property
    def wait_ratio(self) -> float:
        """Mean wait in the replay over that at the site; NaN where no job waited there."""
        return self.mean_wait_s / self.site_mean_wait_s if self.site_mean_wait_s > 0 else float("nan")


def distance_between(
    submit_s: FloatArray,
    site_start_s: FloatArray,
    start_s: FloatArray,
    replayed_submit_s: FloatArray | None = None,
) -> Distance:
    """Return how far a schedule is from what happened, of at least one job.

    Parameters
    ----------
    replayed_submit_s
        When the jobs were submitted in the schedule, if that follows ends of jobs; ``None``: as at the site.
    """
    waits = start_s - (submit_s if replayed_submit_s is None else replayed_submit_s)
    site_waits = site_start_s - submit_s
    return Distance(
        len(submit_s),
        discordant_share(site_start_s, start_s),
        float(np.mean(waits)),
        float(np.mean(site_waits)),
        float(np.median(waits)),
        float(np.median(site_waits)),
        float(np.percentile(waits, 95)),
        float(np.percentile(site_waits, 95)),
        float(np.mean(np.abs(start_s - site_start_s))),
    )


def discordant_share(first_s: FloatArray, second_s: FloatArray) -> float:
    """Return the share of all pairs of jobs that two schedules start in opposite orders; NaN for less than two jobs.

    Pairs that one of them starts at the same time are in no opposite order.
    """
    n_jobs = len(first_s)
    if n_jobs < 2:
        return float("nan")
    # Engines start what starts together in steps far below a second.
    first_s, second_s = np.round(first_s, 3), np.round(second_s, 3)
    order = np.lexsort((second_s, first_s))
    ranks = np.unique(second_s, return_inverse=True)[1][order]
    return n_inversions(ranks) / (n_jobs * (n_jobs - 1) / 2)


def n_inversions(ranks: NDArray[np.int64]) -> int:
    """Return the number of pairs of numbers that have the larger one first.

    Goes bit by bit, highest first: numbers that agree so far are side by side, in their order, and a pair is counted at
    the first bit in which it differs.
    """
    total = 0
    for bit in range(int(ranks.max(initial=0)).bit_length() - 1, -1, -1):
        is_one = (ranks >> bit) & 1
        ones = np.cumsum(is_one)
        group = ranks >> (bit + 1)
        begins = np.flatnonzero(np.append(True, group[1:] != group[:-1]))
        before = np.repeat(ones[begins] - is_one[begins], np.diff(np.append(begins, len(ranks))))
        total += int(np.sum((ones - before)[is_one == 0]))
        ranks = ranks[np.lexsort((is_one, group))]
    return total
