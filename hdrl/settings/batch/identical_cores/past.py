"""What is known of ended jobs when an episode begins: the arrays of a pool that predictions need."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hdrl.settings.batch.identical_cores.state import OrderState
from hdrl.settings.batch.kernel.rule import first_sums
from hdrl.settings.batch.workload.history import Past, past_at, past_of
from hdrl.settings.batch.workload.model import Workload


@dataclass(frozen=True, eq=False)
class PoolPast:
    """Ended jobs of workloads, for the windows that are cut from them.

    Attributes
    ----------
    workloads
        The workloads.
    orders
        For each, the indices of its jobs in the order of submission.
    """

    workloads: tuple[Workload, ...]
    orders: tuple[NDArray[np.int64], ...]

    def write(self, pool: OrderState, row: int, workload: int, start: int, n_jobs: int) -> None:
        """Write what is known when a window begins to the arrays of an environment."""
        past = self._past(workload, start, n_jobs)
        sums = first_sums(past)
        pool.groups[row, :n_jobs] = past.groups
        pool.sums[row, : len(sums)] = sums

    def _past(self, workload: int, start: int, n_jobs: int) -> Past:
        load, order = self.workloads[workload], self.orders[workload]
        chosen = order[start : start + n_jobs]
        if load.history is not None and load.places is not None:
            return past_at(load.history, load.places[chosen])
        return past_of(load.take(chosen))


def most_groups(n_jobs: int) -> int:
    """Return how many groups jobs of a window may belong to: one of all, and at most one each of the other levels."""
    return 1 + 4 * n_jobs
