"""Whatever fits, where it is expected to need the least energy: IRMaSim's EnergyHeuristic.

``<key>_<end>+skip-node_<criterion>_<end>``, for instance ``energy_lowest+skip-node_energy_lowest``. Jobs are tried in
the order of a key, from its lowest or its highest value: ``timetasks`` (requested time times cores), ``energy`` (that
their users ask for, times cores) or ``edp`` (both together); those that have waited a minute come first. A job that
fits on a node starts on the one with the lowest, or highest, ``energy`` or ``edp`` as it is expected; others overtake
one that does not fit.

The energy that a job is expected to need on a node is the time that it asks for there, times what its cores draw
besides the static power of the node, and its share of the latter, which the jobs on the node divide among them; ``edp``
is that times the time.

Source: IRMaSim, https://github.com/irmasim/IRMaSim, its workload manager EnergyHeuristic (2022-2023), whose metric
``timetasks`` goes with the criterion ``energy``.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from hdrl.base.errors import DecisionError
from hdrl.settings.batch.platform.pstates import FREE, SERVING
from hdrl.settings.batch.policies.machine import MachinePicture
from hdrl.settings.batch.policies.node_policies import NodePolicy, free_cores
from hdrl.settings.batch.policies.priorities import WaitingJob
from hdrl.settings.batch.simulation.view import View

ENDS = {"lowest": 1.0, "highest": -1.0}
JOBS = tuple(f"{key}_{end}" for key in ("timetasks", "energy", "edp") for end in ENDS)
"""Its job selections."""

NODES = tuple(f"{criterion}_{end}" for criterion in ("energy", "edp") for end in ENDS)
"""Its node selections."""

AGED_S = 60.0
"""Jobs that have waited so long are tried before the others."""


class NodeEnergy(NodePolicy):
    """IRMaSim's EnergyHeuristic.

    ``seed``: not looked at: nothing is drawn.
    """

    rule = "+skip"

    @property
    def looks_at_times(self) -> bool:
        """True: it always uses requested times."""
        return True

    def _machine(self, view: View) -> MachinePicture:
        check_power(self.name, view)
        self._energy_j = None if self.job_selection.startswith("timetasks") else energies_of(self.name, view)
        return super()._machine(view)

    def _key(self, job: WaitingJob, now_s: float) -> float:
        del now_s
        return job_key(job, self.job_selection, self._energy_j)

    def _decide(self, machine: MachinePicture, queue: list[int], arrivals: list[int]) -> None:
        del arrivals
        has_aged = [machine.now_s - float(machine.jobs["submit_s"][job]) >= AGED_S for job in queue]
        for wants_aged in (True, False):
            for job, aged in zip(queue, has_aged, strict=True):
                if aged == wants_aged:
                    self._try(machine, job)

    def _try(self, machine: MachinePicture, job: int) -> None:
        wanted = int(machine.jobs["cores"][job])
        self.check(machine, job, 1, wanted)
        room = machine.room(job, free_cores(machine), machine.free_memory_mib)
        fitting = np.flatnonzero(room >= wanted)
        if len(fitting):
            criterion, _, end = self.node_selection.partition("_")
            running = (cores for _, cores in self._running.values())
            expected = expected_energy(machine, running, job, is_edp=criterion == "edp")
            node = int(fitting[np.argmin(ENDS[end] * expected[fitting])])
            self.start(machine, job, {node: wanted})


def expected_energy(
    machine: MachinePicture, running: Iterable[NDArray[np.int64]], job: int, *, is_edp: bool
) -> NDArray[np.float64]:
    """Return the energy that a job is expected to need on each node, or that times the time.

    Returns in joules, or joule seconds, shape ``(n_nodes,)``.
    """
    platform = machine.tables.platform
    first_core = platform.first_core_of_processor[platform.first_processor_of_node[:-1]]
    static_w = platform.full_w[:, FREE]
    of_node_w = np.bincount(machine.tables.node_of_core, static_w, platform.n_nodes)
    of_core_w = platform.full_w[first_core, SERVING] - static_w[first_core]
    n_running = np.zeros(platform.n_nodes)
    for cores in running:
        n_running += cores > 0
    duration_s = machine.duration_at(job, 1.0) / machine.tables.gflops_of_node
    energy_j = duration_s * (of_core_w * float(machine.jobs["cores"][job]) + of_node_w / (n_running + 1.0))
    return np.asarray(energy_j * duration_s if is_edp else energy_j)


def check_power(name: str, view: View) -> None:
    """Refuse a platform that does not say what free cores draw."""
    if view.platform.rules is None:
        raise DecisionError(f"{name}: what the cores of {view.platform.name} draw while they are free is unknown")


def energies_of(name: str, view: View) -> NDArray[np.float64]:
    """Return the energies that users ask for, by which a policy orders jobs."""
    energy_j = view.workload.requested_energy_j
    if energy_j is None:
        raise DecisionError(
            f"{name}: the jobs of {view.workload.name} have no 'req_energy', which they are ordered by;"
            f" timetasks_lowest needs none"
        )
    return energy_j


def job_key(job: WaitingJob, order: str, energy_j: NDArray[np.float64] | None) -> float:
    """Return the sort key of a job, the lowest first.

    ``energy_j``: the energies that users ask for; ``None``: the order needs none.
    """
    key, _, end = order.partition("_")
    value = float(job.cores)
    if key != "energy":
        value *= job.requested_time_s
    if key != "timetasks" and energy_j is not None:
        value *= float(energy_j[job.job])
    return ENDS[end] * value
