"""Min-min, max-min and duplex: jobs are mapped to nodes by when they would be done there.

The waiting jobs are planned again whenever something was submitted or has ended. Of all that are not planned yet, the
one whose earliest completion is smallest (min-min) or largest (max-min) gets the node where that is, until all are
planned; what is planned for now starts. Duplex makes both plans and follows the one that is done sooner. A job gets
cores of one node, so that no job may be wider than a node.

Source: Braun et al., "A comparison of eleven static heuristics for mapping a class of independent tasks onto
heterogeneous distributed computing systems", JPDC 61, 2001; planned anew as in Maheswaran et al., HCW 1999. IRMaSim has
policies of these names that plan a submission once, and whose estimates queue all jobs behind each other.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hdrl.base.errors import DecisionError
from hdrl.settings.batch.policies.backfilling import Backfilling
from hdrl.settings.batch.policies.machine import MachinePicture

MAX_PLANNED = 256
"""Waiting jobs that are planned, in the order in which they came: planning takes the square of their number."""


class _Placement(NamedTuple):
    """Possible cores and dates of a job; dates in seconds."""

    node: int
    cores: NDArray[np.int64]
    start_s: float
    end_s: float


class MinMin(Backfilling):
    """Min-min: the job that could be done first is planned first.

    Parameters
    ----------
    max_planned
        Number of waiting jobs that are planned, in the order in which they came.
    """

    looks_at_times = True

    def __init__(self, *, max_planned: int = MAX_PLANNED) -> None:
        super().__init__()
        self.max_planned = max_planned

    @property
    def name(self) -> str:
        """Its name."""
        return next(name for name, kind in MAPPINGS.items() if type(self) is kind)

    def _begin(self) -> None:
        super()._begin()
        self._ends_s: dict[int, float] = {}

    def _decide(self, machine: MachinePicture, queue: list[int], arrivals: list[int]) -> None:
        del queue
        for job, place in self._plan(machine, arrivals[: self.max_planned]):
            needed_mib = float(machine.jobs["memory_mib"][job]) * len(place.cores)
            if place.start_s > machine.now_s or needed_mib > machine.free_memory_mib[place.node]:
                continue
            end_s = machine.start(job, np.sort(place.cores))
            self._ends_s.update(dict.fromkeys(place.cores.tolist(), end_s))

    def _plan(self, machine: MachinePicture, jobs: Sequence[int]) -> list[tuple[int, _Placement]]:
        return _planned(machine, self._ready_s(machine), jobs, largest_first=False)

    def _ready_s(self, machine: MachinePicture) -> NDArray[np.float64]:
        """Return the date at which each core is expected to be free, in seconds; overdue cores are not free yet."""
        soon_s = math.nextafter(machine.now_s, math.inf)
        ready_s = np.full(len(machine.free), machine.now_s)
        for core in np.flatnonzero(~machine.free).tolist():
            ready_s[core] = max(self._ends_s.get(core, soon_s), soon_s)
        return ready_s


class MaxMin(MinMin):
    """Max-min: the job that could be done last is planned first."""

    def _plan(self, machine: MachinePicture, jobs: Sequence[int]) -> list[tuple[int, _Placement]]:
        return _planned(machine, self._ready_s(machine), jobs, largest_first=True)


class Duplex(MinMin):
    """Duplex: the plan of min-min or that of max-min, whichever is done sooner; min-min's if both are alike."""

    def _plan(self, machine: MachinePicture, jobs: Sequence[int]) -> list[tuple[int, _Placement]]:
        ready_s = self._ready_s(machine)
        plans = [_planned(machine, ready_s, jobs, largest_first=largest) for largest in (False, True)]
        return min(plans, key=lambda plan: max(place.end_s for _, place in plan))


MAPPINGS: Mapping[str, type[MinMin]] = MappingProxyType({"min_min": MinMin, "max_min": MaxMin, "duplex": Duplex})
"""The three by name."""


def _planned(
    machine: MachinePicture, ready_s: NDArray[np.float64], jobs: Sequence[int], *, largest_first: bool
) -> list[tuple[int, _Placement]]:
    """Return the position of each job, in the order in which they are planned."""
    ready_s = ready_s.copy()
    cores_of = [np.flatnonzero(machine.tables.node_of_core == node) for node in range(len(machine.free_memory_mib))]
    best = {job: _best_placement(machine, ready_s, cores_of, job) for job in jobs}
    plan: list[tuple[int, _Placement]] = []
    choose: Any = max if largest_first else min
    while best:
        job = choose(best, key=lambda one: best[one].end_s)
        place = best.pop(job)
        plan.append((job, place))
        # Cores are not free again at once, even where a job is expected to take no time.
        ready_s[place.cores] = max(place.end_s, math.nextafter(place.start_s, math.inf))
        # Cores are only taken, so that only those who wanted this node may do better elsewhere now.
        for other, wanted in best.items():
            if wanted.node == place.node:
                best[other] = _best_placement(machine, ready_s, cores_of, other)
    return plan


def _best_placement(
    machine: MachinePicture, ready_s: NDArray[np.float64], cores_of: list[NDArray[np.int64]], job: int
) -> _Placement:
    """Return the position where a job would be done first."""
    wanted = int(machine.jobs["cores"][job])
    wanted_mib = wanted * float(machine.jobs["memory_mib"][job])
    memory_mib = machine.tables.platform.memory_mib
    found: _Placement | None = None
    for node, cores in enumerate(cores_of):
        if len(cores) < wanted or wanted_mib > memory_mib[node]:
            continue
        chosen = cores[np.argsort(ready_s[cores], kind="stable")[:wanted]]
        start_s = float(ready_s[chosen].max())
        end_s = start_s + machine.duration_s(job, chosen)
        if found is None or end_s < found.end_s:
            found = _Placement(node, chosen, start_s, end_s)
    if found is None:
        widest = max(map(len, cores_of))
        if wanted <= widest:
            largest = max(memory_mib[node] for node, cores in enumerate(cores_of) if len(cores) >= wanted)
            found_here = f"{wanted_mib:g} MiB, the largest such node has {largest:g}"
            raise DecisionError(f"job {job} wants {wanted} cores of one node with {found_here}")
        raise DecisionError(f"job {job} wants {wanted} cores of one node, the widest node has {widest}")
    return found
