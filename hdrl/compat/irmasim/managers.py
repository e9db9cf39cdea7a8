"""IRMaSim's managers HBackfill, HBackfillR, BackfillFit and BackfillBestFit with the errors of its versions.

`hdrl.settings.batch.policies.node_policies_backfill` does it right, and names the versions. The errors are:

- jobs are expected to take as long on slow nodes as on fast ones;
- HBackfillR and BackfillFit look at nodes in the order of the platform, and protect each that no later one beats, not
  only the best; and what they let overtake on a protected node for good, because enough cores are left there, is
  counted with the jobs of the last node of the platform;
- of jobs that end together, only the first that makes room enough for the head counts;
- BackfillBestFit tries jobs on empty nodes after those that leave less time.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from hdrl.settings.batch.policies.machine import MachinePicture
from hdrl.settings.batch.policies.node_policies import Protected
from hdrl.settings.batch.policies.node_policies_backfill import NodeByFit, NodeByOrder, NodeReserving, read_backfilling


def read_published(rule: str, node: str, *, seed: int = 0) -> NodeReserving:
    """Return a manager by the two parts of its name; see `node_policies_backfill.read_backfilling`."""
    return read_backfilling(rule, node, seed=seed, by_order=_PublishedByOrder, by_fit=_PublishedByFit)


class _Published(NodeReserving):
    """Base of the published versions."""

    def start(self, machine: MachinePicture, job: int, counts: Mapping[int, int]) -> None:
        """Start a job, and expect it to end when its requested time is over."""
        super().start(machine, job, counts)
        self._running[job] = machine.now_s + _requested_s(machine, job), self._running[job][1]

    def _expected_s(self, machine: MachinePicture, job: int, node: int) -> float:
        del node
        return _requested_s(machine, job)

    def _ends_in_time(self, end_s: float, date_s: float) -> bool:
        del end_s, date_s
        return False

    def _if_best(self, machine: MachinePicture, head: int, node: int) -> Protected | None:
        """Return the head's needs on a node, unless a later one of the platform is better."""
        date_s, where, last = math.inf, node, 0
        for other in range(len(self._whole)):
            left = int(self._free_cores(machine)[other])
            for position, one in enumerate(self._on(other)):
                left += one.cores
                if left >= machine.jobs["cores"][head]:
                    if one.end_s < date_s:
                        where, last = other, position
                        date_s = one.end_s if other == node else math.inf
                    break
        if where != node:
            return None
        outlasting = sum(one.cores for one in self._on(len(self._whole) - 1)[last + 1 :])
        return Protected(date_s, int(self._whole[node]) - outlasting, math.inf)


class _PublishedByOrder(_Published, NodeByOrder):
    """HBackfill and HBackfillR."""


class _PublishedByFit(_Published, NodeByFit):
    """BackfillFit and BackfillBestFit."""

    def _spare_s(self, machine: MachinePicture, head: int, job: int, node: int) -> float:
        if self._is_empty(machine, node):
            return 0
        # Its numbers are whole where those of the workload are, so that even this difference is exact.
        requested_s = _requested_s(machine, job)
        return self._limit_s(machine, head, node) - (int(requested_s) if requested_s.is_integer() else requested_s)


def _requested_s(machine: MachinePicture, job: int) -> float:
    return float(machine.jobs["requested_time_s"][job])
