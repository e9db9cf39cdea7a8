"""Numbers that look at ranks: probability of improvement, interquartile mean, mean ranks, agreement of two rankings."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from hdrl.base import elementary
from hdrl.metrics.statistics.signedranks import holm, wilcoxon_p
from hdrl.metrics.tables import FloatArray, logarithms, paired, usable_logarithms


def improvement_probability(values: ArrayLike, reference: ArrayLike, *, lower_is_better: bool = True) -> float:
    """Return the share of windows and pairs of seeds in which the candidate is better, equal ones counting half.

    References
    ----------
    Agarwal et al., "Deep Reinforcement Learning at the Edge of the Statistical Precipice", NeurIPS 2021.
    """
    candidate_values, reference_values = paired(values, reference)
    if len(candidate_values) == 0:
        return math.nan
    signs = np.sign(candidate_values[:, :, np.newaxis] - reference_values[:, np.newaxis, :])
    share = float(np.mean((1 - signs) / 2))
    return share if lower_is_better else 1 - share


def ratio_iqm(values: ArrayLike, reference: ArrayLike) -> float:
    """Return the geometric mean of the middle half of all ratios (a window and a seed each); NaN without ratios.

    References
    ----------
    Agarwal et al., "Deep Reinforcement Learning at the Edge of the Statistical Precipice", NeurIPS 2021.
    """
    logs = usable_logarithms(values, reference)
    if logs is None:
        return math.nan
    ordered = np.sort((logs[0] - logs[1].mean(axis=1, keepdims=True)).ravel())
    # A value on the edge of a quarter counts with the part of it that lies inside.
    positions = np.arange(len(ordered), dtype=np.float64)
    low, high = len(ordered) / 4, 3 * len(ordered) / 4
    weight = np.clip(np.minimum(positions + 1, high) - np.maximum(positions, low), 0.0, 1.0)
    return math.exp(float(np.sum(weight * ordered)) / float(np.sum(weight)))


def mean_ranks(table: ArrayLike, *, lower_is_better: bool = True) -> FloatArray:
    """Return the mean over windows of the rank of each candidate: 1 is the best, equal ones share theirs.

    The table has the shape ``(n_windows, n_candidates)``.
    """
    values = np.asarray(table, dtype=np.float64) * (1.0 if lower_is_better else -1.0)
    better = (values[:, np.newaxis, :] < values[:, :, np.newaxis]).sum(axis=2)
    equal = (values[:, np.newaxis, :] == values[:, :, np.newaxis]).sum(axis=2)
    ranks: FloatArray = (better + (equal + 1) / 2).mean(axis=0)
    return ranks


def cliques(table: ArrayLike, *, lower_is_better: bool = True, level: float = 0.05) -> list[tuple[int, ...]]:
    """Return groups of neighbours by mean rank between whose members no difference is shown, none within another.

    Each pair is tested by Wilcoxon's signed ranks, all of them adjusted by Holm's method.

    References
    ----------
    Demšar, "Statistical Comparisons of Classifiers over Multiple Data Sets", JMLR 7, 2006; Benavoli, Corani and
    Mangili, "Should We Really Use Post-Hoc Tests Based on Mean-Ranks?", JMLR 17(5), 2016.
    """
    values = np.asarray(table, dtype=np.float64)
    order = np.argsort(mean_ranks(values, lower_is_better=lower_is_better), kind="stable").tolist()
    pairs = list(itertools.combinations(range(len(order)), 2))
    p = holm([wilcoxon_p(values[:, order[one]], values[:, order[other]]) for one, other in pairs])
    differ = {pair for pair, value in zip(pairs, p.tolist(), strict=True) if value < level}
    found: list[tuple[int, ...]] = []
    reached = 0
    for first in range(len(order)):
        last = first
        while last + 1 < len(order) and all((one, last + 1) not in differ for one in range(first, last + 1)):
            last += 1
        if last > first and last > reached:
            found.append(tuple(order[first : last + 1]))
        reached = max(reached, last)
    return found


def kendall_tau(one: Sequence[float], other: Sequence[float]) -> float:
    """Return the agreement of two rankings: 1 the same, -1 the reverse, NaN where one of them has only equal values.

    Values that are NaN on a side are left out.

    References
    ----------
    Kendall, "The Treatment of Ties in Ranking Problems", Biometrika 33(3), 1945 (tau-b).
    """
    a, b = np.asarray(one, dtype=np.float64), np.asarray(other, dtype=np.float64)
    known = ~np.isnan(a) & ~np.isnan(b)
    a, b = a[known], b[known]
    upper = np.triu_indices(len(a), 1)
    first, second = np.sign(a[:, None] - a)[upper], np.sign(b[:, None] - b)[upper]
    pairs = math.sqrt(float(np.sum(first**2)) * float(np.sum(second**2)))
    return float(np.sum(first * second)) / pairs if pairs else math.nan


def performance_profile(
    values: ArrayLike, reference: ArrayLike, thresholds: ArrayLike, *, lower_is_better: bool = True
) -> FloatArray:
    """Return the share of windows and seeds whose ratio is at least as good as each threshold.

    References
    ----------
    Dolan and Moré, "Benchmarking Optimization Software with Performance Profiles", Mathematical Programming 91, 2002.
    """
    candidate_values, reference_values = logarithms(values, reference)
    logs = (candidate_values - reference_values.mean(axis=1, keepdims=True)).ravel()
    limits = elementary.log(thresholds)[:, np.newaxis]
    shares: FloatArray = (logs <= limits if lower_is_better else logs >= limits).mean(axis=1)
    return shares
