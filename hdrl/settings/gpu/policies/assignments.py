"""Policies that give each job one type of GPUs, which it keeps: Gavel's FIFO, and AlloX."""

from __future__ import annotations

import random  # noqa: TID251 - Gavel draws types by Python's own generator
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from hdrl.base.errors import SimulationError
from hdrl.settings.gpu.policies.situation import Floats, ShareSituation


def _whole_shares(situation: ShareSituation, place: Mapping[int, int], types: Mapping[int, int]) -> Floats:
    """Return shares that give each job of ``types`` all the time on its type; ``place`` is its row."""
    shares = np.zeros(situation.rates.shape)
    for job, kind in types.items():
        shares[place[job], kind] = 1.0
    return shares


@dataclass
class Fifo:
    """First come, first served: a job keeps the type that it got (Gavel's FIFO)."""

    seed: int | None  # seed of its draws, see `_choice`; ``None``: the fastest that is free, chosen anew every time
    _draws: random.Random = field(init=False)
    _types: dict[int, int] = field(default_factory=dict)
    _sizes: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._draws = random.Random(self.seed)

    def __call__(self, situation: ShareSituation) -> Floats:
        """Return 1 on the type of each job that runs."""
        numbers = situation.jobs.tolist()
        place = {job: i for i, job in enumerate(numbers)}
        free = situation.gpus.tolist()
        if self.seed is None:
            self._types = {}
        waiting = [job for job in numbers if job not in self._types]
        sizes, rates = situation.sizes.tolist(), situation.rates.tolist()
        for job in sorted(self._types):
            kind = self._types[job]
            if job in place:
                free[kind] -= sizes[place[job]]
                continue
            del self._types[job]
            if waiting:
                follower = waiting[0]  # a job that does not fit in its place stays the first that waits
                if sizes[place[follower]] <= free[kind] and rates[place[follower]][kind] > 0.0:
                    self._types[follower] = kind
                    free[kind] -= sizes[place[follower]]
                    del waiting[0]
        kinds = [kind for kind, count in enumerate(free) if count > 0]
        while waiting and kinds:
            job = waiting.pop(0)
            usable = [kind for kind in kinds if rates[place[job]][kind] > 0.0]
            fitting = [kind for kind in usable if free[kind] >= sizes[place[job]]]
            if not fitting:
                break
            kind, full = self._choice(rates[place[job]], usable, fitting)
            self._types[job] = kind
            free[kind] -= sizes[place[job]]
            if free[kind] == 0:
                kinds.remove(full)
        return _whole_shares(situation, place, self._types)

    def _choice(self, rates: list[float], kinds: list[int], fitting: list[int]) -> tuple[int, int]:
        """Return the type for a job, and the type that is taken for full if it is used up.

        Gavel's program without throughputs draws a type, takes the last one that is left all the same, and strikes out
        the one that it drew. Its published numbers come from that, so it is done so here.
        """
        if self.seed is None:
            best = max(fitting, key=lambda kind: (rates[kind], -kind))
            return best, best
        return kinds[-1], fitting[self._draws.randrange(len(fitting))]


LEAST_RATE = 1e-10
"""Steps per second of jobs on types that cannot run them, in the eyes of AlloX: as in Gavel's."""


@dataclass
class AlloX:
    """The assignment of jobs to GPUs, and places in their queues, with the least sum of completion times."""

    # share of the waiting jobs that are looked at, in the order of arrival; Gavel's simulations look at all
    oldest: float = 1.0
    _types: dict[int, int] = field(default_factory=dict)

    def __call__(self, situation: ShareSituation) -> Floats:
        """Return 1 on the type of each job that runs; it keeps it."""
        from scipy.optimize import linear_sum_assignment

        if np.any(situation.sizes != 1):
            raise SimulationError("AlloX assigns jobs of one GPU each; this load has wider ones")
        place = {job: i for i, job in enumerate(situation.jobs.tolist())}
        self._types = {job: kind for job, kind in self._types.items() if job in place}
        free = situation.gpus - np.bincount(list(self._types.values()), minlength=len(situation.gpus))
        gpus = np.repeat(np.arange(len(free)), free)
        waiting = [job for job in situation.jobs.tolist() if job not in self._types]
        waiting = waiting[: max(len(gpus), int(self.oldest * len(waiting)))]
        if waiting and len(gpus):
            rows = [place[job] for job in waiting]
            took_s = situation.steps_left[rows, None] / np.maximum(situation.rates[rows][:, gpus], LEAST_RATE)
            n_places = -(-len(waiting) // len(gpus)) if len(waiting) > len(gpus) else 1
            depth = min(len(waiting), n_places + 2)
            costs = np.concatenate([(k + 1) * took_s for k in range(depth)], axis=1)
            chosen, columns = linear_sum_assignment(costs)
            queues: dict[int, tuple[int, int]] = {}
            for row, column in zip(chosen.tolist(), columns.tolist(), strict=True):
                gpu, from_end = column % len(gpus), column // len(gpus)
                if gpu not in queues or from_end > queues[gpu][0]:
                    queues[gpu] = (from_end, waiting[row])
            for gpu, (_, job) in queues.items():
                if situation.rates[place[job], gpus[gpu]] > 0.0:
                    self._types[job] = int(gpus[gpu])
        return _whole_shares(situation, place, self._types)
