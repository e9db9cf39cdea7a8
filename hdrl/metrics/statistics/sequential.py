"""Several looks at a growing comparison, with a bound on the false claims over all of them.

A comparison by windows spends its level over a few looks (`look_levels`). Intervals and p-values of pairs whose order a
coin decided stay valid however often one looks. Their differences ``d`` are, without an effect, each as likely as its
opposite, whatever its size, whatever came before, and however heavy its tails. Then ``1 + tanh(b d)`` has the mean 1
for every ``b``: it is the wealth of a fair bet on the sign. A product of such bets, and a mean of such products over
several ``b``, is an e-process: the chance that it ever exceeds ``1 / level`` is at most ``level`` (Ville).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from hdrl.base import elementary
from hdrl.metrics.statistics.bootstrap import CONFIDENCE, Interval
from hdrl.metrics.tables import FloatArray

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


STAKES = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
"""Values of ``b``. The value of the fastest growth is about the effect over the variance: small where differences vary
much, large where their signs alone decide."""


_LEAST_FACTOR = 1e-17
"""Below the rounding of 1: so that a bet that is lost whole leaves something."""


def evidence(differences: ArrayLike) -> tuple[FloatArray, FloatArray]:
    """Return the e-processes after each pair: the evidence for an effect above 0, and for one below.

    The differences are in the order in which they came, shape ``(..., n_pairs)``.

    References
    ----------
    Ville, "Étude critique de la notion de collectif", 1939; Ramdas, Grünwald, Vovk and Shafer, "Game-Theoretic
    Statistics and Safe Anytime-Valid Inference", Statistical Science 38(4), 2023; Efron, "Student's t-Test under
    Symmetry Conditions", JASA 64, 1969 (differences of random sign).
    """
    values = np.asarray(differences, dtype=np.float64)
    above, below = np.zeros(values.shape), np.zeros(values.shape)
    with np.errstate(over="ignore"):  # beyond doubt
        for stake in STAKES:
            won = elementary.tanh(stake * values)
            above += np.cumprod(np.maximum(1 + won, _LEAST_FACTOR), axis=-1)
            below += np.cumprod(np.maximum(1 - won, _LEAST_FACTOR), axis=-1)
    return above / len(STAKES), below / len(STAKES)


def anytime_p(differences: ArrayLike) -> FloatArray:
    """Return the two-sided p-value after each pair: the chance that it is ever below a level is at most that level."""
    found: FloatArray = 2 / np.maximum(2.0, np.maximum(*evidence(differences)))
    return found


def anytime_interval(differences: ArrayLike, confidence: float = CONFIDENCE) -> Interval:
    """Return the effect with an interval that holds it at all looks at once, with the chance of the confidence.

    The interval holds every effect that, once taken off the differences, leaves too little evidence on either side.
    Its value is where both sides have the same evidence: about the mean of even differences, and little moved by few
    that are far out. The ends are infinite after fewer than `fewest_pairs`. That the effect is the same in all pairs
    is assumed; what `anytime_p` says of no effect is not.

    References
    ----------
    Howard, Ramdas, McAuliffe and Sekhon, "Time-Uniform, Nonparametric, Nonasymptotic Confidence Sequences", Annals of
    Statistics 49(2), 2021.
    """
    values = np.asarray(differences, dtype=np.float64)
    if len(values) == 0:
        return Interval(math.nan, math.nan, math.nan)
    limit = 2 / (1 - confidence)
    margin = 20 / STAKES[0]  # beyond it no bet can win or lose more
    # The centre, the lower and the upper end, each by halving what may hold it.
    low, high = np.full(3, values.min() - margin), np.full(3, values.max() + margin)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        above, below = (one[:, -1] for one in evidence(values - middle[:, np.newaxis]))
        is_right = np.array([above[0] >= below[0], above[1] >= limit, below[2] < limit])
        low, high = np.where(is_right, middle, low), np.where(is_right, high, middle)
    centre, lower, upper = low.tolist()
    if len(values) < fewest_pairs(confidence):
        return Interval(centre, -math.inf, math.inf)
    return Interval(centre, lower, upper)


_HALVINGS = 36
"""Halvings of a span of some 200 until its parts are below 1e-8."""


def fewest_pairs(confidence: float = CONFIDENCE) -> int:
    """Return the fewest pairs that can show anything: each doubles the evidence at most."""
    return math.ceil(math.log2(2 / (1 - confidence)) - 1e-9)


def power_after(differences: ArrayLike, level: float = 1 - CONFIDENCE) -> FloatArray:
    """Return the share of experiments that had shown a difference after each number of pairs.

    ``differences`` has a row for each experiment, shape ``(n_experiments, n_pairs)``.
    """
    shown = np.logical_or.accumulate(anytime_p(differences) < level, axis=-1)
    share: FloatArray = shown.mean(axis=0)
    return share
