"""AlloX, which gives each job one type of GPUs that it keeps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from hdrl.base.errors import SimulationError
from hdrl.settings.gpu.policies.situation import Floats, ShareSituation


def _whole_shares(situation: ShareSituation, position: Mapping[int, int], types: Mapping[int, int]) -> Floats:
    """Return shares that give each job of ``types`` all the time on its type; ``place`` is its row."""
    shares = np.zeros(situation.rates.shape)
    for job, kind in types.items():
        shares[position[job], kind] = 1.0
    return shares


LEAST_RATE = 1e-10
"""Steps per second of jobs on types that cannot run them, in the eyes of AlloX: as in Gavel's."""


@dataclass
class AlloX:
    """The assignment of jobs to GPUs, and positions in their queues, with the least sum of completion times."""

    # share of the waiting jobs that are looked at, in the order of arrival; Gavel's simulations look at all
    oldest: float = 1.0
    _types: dict[int, int] = field(default_factory=dict)

    def __call__(self, situation: ShareSituation) -> Floats:
        """Return 1 on the type of each job that runs; it keeps it."""
        from scipy.optimize import linear_sum_assignment

        if np.any(situation.sizes != 1):
            raise SimulationError("AlloX assigns jobs of one GPU each; this load has wider ones")
        position = {job: i for i, job in enumerate(situation.jobs.tolist())}
        self._types = {job: kind for job, kind in self._types.items() if job in position}
        free = situation.gpus - np.bincount(list(self._types.values()), minlength=len(situation.gpus))
        gpus = np.repeat(np.arange(len(free)), free)
        waiting = [job for job in situation.jobs.tolist() if job not in self._types]
        waiting = waiting[: max(len(gpus), int(self.oldest * len(waiting)))]
        if waiting and len(gpus):
            rows = [position[job] for job in waiting]
            took_s = situation.steps_left[rows, None] / np.maximum(situation.rates[rows][:, gpus], LEAST_RATE)
            n_positions = -(-len(waiting) // len(gpus)) if len(waiting) > len(gpus) else 1
            depth = min(len(waiting), n_positions + 2)
            costs = np.concatenate([(k + 1) * took_s for k in range(depth)], axis=1)
            chosen, columns = linear_sum_assignment(costs)
            queues: dict[int, tuple[int, int]] = {}
            for row, column in zip(chosen.tolist(), columns.tolist(), strict=True):
                gpu, from_end = column % len(gpus), column // len(gpus)
                if gpu not in queues or from_end > queues[gpu][0]:
                    queues[gpu] = (from_end, waiting[row])
            for gpu, (_, job) in queues.items():
                if situation.rates[position[job], gpus[gpu]] > 0.0:
                    self._types[job] = int(gpus[gpu])
        return _whole_shares(situation, position, self._types)
