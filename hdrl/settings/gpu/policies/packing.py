"""Policies that let two jobs share their GPUs: Gandiva as Gavel has it, and max-min fairness with packing.

References
----------
W. Xiao et al., "Gandiva: Introspective Cluster Scheduling for Deep Learning", OSDI 2018.
D. Narayanan et al., "Heterogeneity-Aware Cluster Scheduling Policies for Deep Learning Workloads", OSDI 2020.
"""

from __future__ import annotations

import random  # noqa: TID251 - Gavel draws pairs by Python's own generator
from dataclasses import dataclass, field

import numpy as np

from hdrl.settings.gpu.policies.linear import solve
from hdrl.settings.gpu.policies.situation import Floats, Ints, ShareSituation

LEAST_SPEED = 1.0
"""Pairs whose speeds, relative to those of the two jobs alone, add up to less are given up."""

LEAST_SHARE = 1e-7
"""Smaller shares of pairs are what the solver leaves of nothing."""


@dataclass(frozen=True, slots=True)
class PackedShares:
    """Shares of time of jobs alone and of pairs."""

    alone: Floats  # of each job, shape ``(n, n_types)``
    pairs: Ints  # positions of the two jobs of each pair, the first job's first, shape ``(n_pairs, 2)``
    together: Floats  # of each pair, shape ``(n_pairs, n_types)``


@dataclass
class Gandiva:
    """An equal part of the cluster for each job or, where jobs want more GPUs than there are, for each drawn pair."""

    seed: int
    _draws: random.Random = field(init=False)
    _partner: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._draws = random.Random(self.seed)

    def __call__(self, situation: ShareSituation) -> PackedShares:
        """Return the shares."""
        position = {job: i for i, job in enumerate(situation.jobs.tolist())}
        self._give_up(situation, position)
        if situation.sizes.sum() > situation.gpus.sum():
            self._draw(situation, position)
            pairs = [(position[one], position[other]) for one, other in sorted(self._partner.items()) if one < other]
        else:
            pairs = []
        found = np.array(pairs, dtype=np.int64).reshape(-1, 2)
        is_alone = np.ones(len(position), dtype=bool)
        is_alone[found] = False
        part = situation.gpus / (is_alone.sum() + len(found))
        alone = np.where(is_alone[:, None], self._shares(part, situation.sizes), 0.0)
        return PackedShares(alone, found, self._shares(part, situation.sizes[found[:, 0]]))

    @staticmethod
    def _shares(part: Floats, sizes: Ints) -> Floats:
        shares = part / sizes[:, None]
        return np.asarray(shares / np.maximum(1.0, shares.sum(axis=1, keepdims=True)))

    def _give_up(self, situation: ShareSituation, position: dict[int, int]) -> None:
        """Forget pairs of which a job has ended, and those that are too slow."""
        for job, other in list(self._partner.items()):
            if (
                job not in position
                or other not in position
                or _speed(situation, position[job], position[other]) < LEAST_SPEED
            ):
                self._partner.pop(job, None)
                self._partner.pop(other, None)

    def _draw(self, situation: ShareSituation, position: dict[int, int]) -> None:
        """Draw pairs among the jobs that are in none; two that differ in size are an attempt that failed."""
        left = [job for job in position if job not in self._partner]
        for _ in range(len(left)):
            if len(left) < 2:
                return
            one, other = self._draws.sample(left, 2)
            if situation.sizes[position[one]] == situation.sizes[position[other]]:
                left.remove(one)
                left.remove(other)
                self._partner[one], self._partner[other] = other, one


def _speed(situation: ShareSituation, one: int, other: int) -> float:
    """Return the sum over types of the speeds of a pair relative to the jobs alone, 0 if it cannot run on one."""
    together = situation.pair_rates[situation.profiles[one], situation.profiles[other]]
    alone = situation.rates[[one, other]].T
    return float((together / alone).sum()) if (together > 0.0).all() and (alone > 0.0).all() else 0.0


def las_packed(situation: ShareSituation) -> PackedShares:
    """Return max-min fair shares of throughput, relative to the sum over all types, where jobs may run in pairs."""
    return _max_min(situation, situation.sizes / situation.priorities / situation.rates.sum(axis=1))


def makespan_packed(situation: ShareSituation) -> PackedShares:
    """Return the shares under which the last job ends as early as it can, where jobs may run in pairs."""
    return _max_min(situation, situation.steps_left.mean() / situation.steps_left)


def _max_min(situation: ShareSituation, weights: Floats) -> PackedShares:
    """Return the shares with the largest smallest throughput times weight.

    A linear program over groups of jobs that are alike; all jobs of a group, and all pairs of two groups, get the same.
    """
    keys = np.column_stack([situation.profiles, -weights, situation.rates])
    _, first, group, counts = np.unique(keys, axis=0, return_index=True, return_inverse=True, return_counts=True)
    group = group.reshape(-1)
    n = len(first)
    rates, sizes, profiles = situation.rates[first], situation.sizes[first], situation.profiles[first]
    left, right = np.triu_indices(n)
    together = situation.pair_rates[profiles[left], profiles[right]]
    runs = np.all(together > 0.0, axis=2) & (rates[left] > 0.0) & (rates[right] > 0.0)
    can = np.any(runs, axis=1) & ((left != right) | (counts[left] > 1))
    left, right, together = left[can], right[can], (together * runs[:, :, None])[can]
    weight = weights[first]
    found = _solve_groups(situation.gpus, counts, sizes, rates * weight[:, None], (left, right), together, weight)
    alone = found[:n] / counts[:, None]
    n_pairs = np.where(left == right, counts[left] * (counts[left] - 1) / 2.0, counts[left] * counts[right])
    shares = found[n:] / n_pairs[:, None]
    number = np.full((n, n), -1)
    number[left, right] = number[right, left] = np.where(shares.max(axis=1) > LEAST_SHARE, np.arange(len(left)), -1)
    one, other = np.triu_indices(len(group), 1)
    each = number[group[one], group[other]]
    pairs = np.column_stack([one, other])[each >= 0]
    return PackedShares(np.clip(alone[group], 0.0, 1.0), pairs, np.clip(shares[each[each >= 0]], 0.0, 1.0))


def _solve_groups(
    gpus: Ints,
    counts: Ints,
    sizes: Ints,
    value: Floats,
    sides: tuple[Ints, Ints],
    together: Floats,
    weight: Floats,
) -> Floats:
    """Return the time on each type of all jobs of each group, and of all pairs of each two groups."""
    (n, n_types), (left, right) = value.shape, sides
    n_rows = n + len(left)
    columns, best = np.arange(n_rows * n_types).reshape(n_rows, n_types), n_rows * n_types
    rows: list[tuple[Ints, Floats]] = []
    worth: list[tuple[Ints, Floats]] = []
    for one in range(n):
        of_left, of_right = np.flatnonzero(left == one), np.flatnonzero(right == one)
        used = np.concatenate([columns[one], columns[n + of_left].reshape(-1), columns[n + of_right].reshape(-1)])
        gains = np.concatenate(
            [
                value[one],
                together[of_left, :, 0].reshape(-1) * weight[one],
                together[of_right, :, 1].reshape(-1) * weight[one],
            ]
        )
        # Two jobs of one group make a pair that counts twice for it.
        unique, where = np.unique(used, return_inverse=True)
        rows.append((unique, np.bincount(where).astype(float)))
        gain = np.bincount(where, weights=gains)
        worth.append((np.append(unique, best), np.append(-gain, float(counts[one]))))
    width = np.concatenate([sizes, sizes[left]]).astype(float)
    rows += [(columns[:, t], width) for t in range(n_types)]
    upper = np.concatenate([counts.astype(float), gpus.astype(float), np.zeros(n)])
    cost = np.zeros(best + 1)
    cost[-1] = 1.0
    can_run = np.concatenate([value > 0.0, np.all(together > 0.0, axis=2)])
    bounds = np.append(np.where(can_run, np.inf, 0.0).reshape(-1), np.inf)
    return np.maximum(solve(cost, rows + worth, upper, bounds)[:-1].reshape(n_rows, n_types), 0.0)
