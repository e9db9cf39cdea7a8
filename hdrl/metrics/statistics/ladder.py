"""Publication of results when one set of windows judges again and again: the Ladder."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from hdrl.metrics.statistics.student import student_quantile
from hdrl.metrics.tables import FloatArray

LADDER_LEVEL = 0.05
"""The chance that anything is ever published that is no better than what was published before it."""


class Rung(NamedTuple):
    """Result of an attempt."""

    is_published: bool  # True if it improves on the last published attempt by more than the step; the first always is
    change: float  # the mean difference to the last published attempt before it; less is better
    step: float  # least improvement; NaN for the first


def ladder(attempts: ArrayLike, level: float = LADDER_LEVEL) -> list[Rung]:
    """Return the published results of attempts that the same windows judge, one after the other.

    An attempt is published if it is better than the last published one by more than a step. The step of attempt ``k``
    is the quantile of Student's distribution at ``6 level / (pi k)^2``, times the standard error of the differences of
    the windows. These levels add up to ``level``. They need no correction for attempts that depend on what was
    published before: as long as nothing is, the next attempt follows from what was known already.

    Attempts are logarithms of scores, less is better, in their order, shape ``(n_attempts, n_windows)``.

    References
    ----------
    Blum and Hardt, "The Ladder: A Reliable Leaderboard for Machine Learning Competitions", ICML 2015. Its step without
    parameters is one standard error, which hundreds of attempts overcome by chance.
    """
    table: FloatArray = np.asarray(attempts, dtype=np.float64)
    found: list[Rung] = []
    published = 0
    for number, values in enumerate(table):
        if number == 0:
            found.append(Rung(is_published=True, change=0.0, step=math.nan))
            continue
        differences = values - table[published]
        n = len(differences)
        change = float(differences.mean())
        share = 6 * level / (math.pi * number) ** 2
        step = math.inf if n < 2 else student_quantile(1 - share, n - 1) * float(differences.std(ddof=1)) / math.sqrt(n)
        is_better = change < -step
        found.append(Rung(is_better, change, step))
        published = number if is_better else published
    return found
