"""Several looks at a growing comparison, at most 5 % false claims over all of them."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

_POWER = 3
"""The level that is spent grows with this power of the share of the windows: little early, nearly all at the end."""


def look_sizes(first: int, most: int) -> list[int]:
    """Return after how many windows one looks: about twice as many each time, the last time after all."""
    sizes = [most]
    while (half := -(-sizes[0] // 2)) >= first and half < sizes[0]:
        sizes.insert(0, half)
    return sizes


def look_levels(sizes: Sequence[int], level: float) -> list[float]:
    """Return the level of the test at each look; together they are the level of one test.

    Whatever the test and however its looks depend on one another, the chance of any false claim is at most their sum.

    References
    ----------
    Lan and DeMets, "Discrete Sequential Boundaries for Clinical Trials", Biometrika 70(3), 1983; Kim and DeMets,
    "Design and Analysis of Group Sequential Tests Based on the Type I Error Spending Rate Function", Biometrika
    74(1), 1987.
    """
    spent = [0.0, *(level * (size / sizes[-1]) ** _POWER for size in sizes)]
    return [after - before for before, after in itertools.pairwise(spent)]
