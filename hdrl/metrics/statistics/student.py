"""Quantiles of Student's distribution, without SciPy."""

from __future__ import annotations

import math
from statistics import NormalDist


def student_quantile(share: float, freedom: float) -> float:
    """Return a quantile of Student's distribution, to 1 % in the tails that intervals need.

    Parameters
    ----------
    share
        Share of the distribution below it, between 0 and 1.
    freedom
        Degrees of freedom, at least 1; need not be whole.

    References
    ----------
    Fisher and Cornish, "The Percentile Points of Distributions Having Known Cumulants", Technometrics 2(2), 1960.
    """
    if freedom < 3:
        return _interpolated_quantile(share, freedom)
    z = NormalDist().inv_cdf(share)
    square = z * z
    terms = (
        (square + 1) / 4,
        ((5 * square + 16) * square + 3) / 96,
        (((3 * square + 19) * square + 17) * square - 15) / 384,
        ((((79 * square + 776) * square + 1482) * square - 1920) * square - 945) / 92_160,
    )
    total = 1.0
    for order, term in enumerate(terms, start=1):
        total += term / freedom**order
    return z * total


def _interpolated_quantile(share: float, freedom: float) -> float:
    """Interpolate between the quantiles of one and two degrees of freedom, which are exact, and that of three."""
    twice = 2 * share - 1
    exact = (math.tan(math.pi * twice / 2), twice * math.sqrt(2 / (1 - twice * twice)), student_quantile(share, 3))
    if share == 0.5:
        return 0.0
    below = 0 if freedom < 2 else 1
    part = (1 / (below + 1) - 1 / max(1.0, freedom)) / (1 / (below + 1) - 1 / (below + 2))
    size = math.log(abs(exact[below])) * (1 - part) + math.log(abs(exact[below + 1])) * part
    return math.copysign(math.exp(size), twice)
