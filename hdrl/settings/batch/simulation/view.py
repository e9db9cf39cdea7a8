"""The View: what a scheduler may see of a simulation at the moment of a decision."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hdrl.compiled import bits
from hdrl.compiled.borrowed import Borrowed
from hdrl.settings.batch.kernel import codes, entries
from hdrl.settings.batch.kernel.state import BatchState
from hdrl.settings.batch.platform.model import Platform
from hdrl.settings.batch.simulation.trace import JobState
from hdrl.settings.batch.workload.model import Workload


class News(IntEnum):
    """Events of a message to the scheduler; each comes with a subject."""

    SIMULATION_BEGINS = codes.EVENT_BEGINS
    JOB_SUBMITTED = codes.EVENT_SUBMITTED
    """Subject: index of the job."""
    JOB_COMPLETED = codes.EVENT_COMPLETED
    """Subject: index of the job, however it ended."""
    JOB_KILLED = codes.EVENT_KILLED
    """A request to kill has been carried out; their events of completion come before."""
    PSTATE_CHANGED = codes.EVENT_PSTATE
    """Subject: the P-state."""
    REQUESTED_CALL = codes.EVENT_CALLED
    NO_MORE_JOBS = codes.EVENT_NO_MORE_JOBS
    SIMULATION_ENDS = codes.EVENT_ENDS
    ENERGY = codes.EVENT_ENERGY
    """The answer to `AskEnergy`: see `View.energy_j`."""
    NODE_SWITCHED = codes.EVENT_NODE
    """Subject: the node, which is off now, or on: see `View.node_status`."""


NODE_STATUS = ("on", "shutting down", "off", "booting")
"""Status of a node, by its number in `View.node_status`."""


@dataclass(frozen=True, slots=True)
class View:
    """The state of the cluster as a scheduler sees it; valid until the next step.

    Policies see requested times and never true run times. Arrays are copies unless said otherwise.

    Attributes
    ----------
    platform, workload
        Machine and jobs. ``workload.jobs`` holds the requests of the users; looking at its profiles (the true work)
        makes a policy clairvoyant.
    """

    platform: Platform
    workload: Workload
    _borrowed: Borrowed[BatchState]

    @property
    def _state(self) -> BatchState:
        return self._borrowed.arrays

    @property
    def now_s(self) -> float:
        """The date of the message, in seconds, with six decimals as Batsim prints it."""
        return float(self._state.scalars["message_s"][0])

    @property
    def news(self) -> list[tuple[News, int]]:
        """Events since the last message, in order: kind and subject."""
        n = int(self._state.scalars["n_events"][0])
        events = self._state.events[:n]
        return [
            (News(int(kind)), int(subject)) for kind, subject in zip(events["kind"], events["subject"], strict=True)
        ]

    @property
    def news_s(self) -> NDArray[np.float64]:
        """Dates of the news, in seconds, not rounded; no later than the message was sent."""
        return self._state.events["time_s"][: int(self._state.scalars["n_events"][0])].copy()

    @property
    def is_over(self) -> bool:
        """True if the simulation has ended."""
        return bool(self._state.scalars["ended"][0])

    @property
    def waiting(self) -> NDArray[np.int64]:
        """Indices of the waiting jobs, in the order in which they came."""
        queue = self._state.queue[: int(self._state.scalars["n_queue"][0])]
        return queue[np.argsort(self._state.jobs["rank"][queue], kind="stable")].astype(np.int64)

    @property
    def running(self) -> NDArray[np.int64]:
        """Indices of the jobs that hold cores, ascending."""
        owners = self._state.cores["owner"]
        return np.unique(owners[owners >= 0]).astype(np.int64)

    @property
    def started_s(self) -> NDArray[np.float64]:
        """Start date of every job, -1 if it has not started, shape ``(n_jobs,)``."""
        return self._state.jobs["start_s"].copy()

    def outcome(self, job: int) -> tuple[JobState, int]:
        """Return the state of a job and, once it has ended, its return code (-1 before)."""
        row = self._state.jobs[job]
        return JobState(int(row["state"])), int(row["return_code"])

    def progress(self, job: int) -> float:
        """Return the part of its work that a killed job had done, 0 to 1, for a job of a single step.

        Parameters
        ----------
        job
            Index of a job that was killed.
        """
        row = self._state.jobs[job]
        step = self._state.steps[row["first_step"]]
        if step["kind"] == codes.STEP_DELAY:
            return float(row["run_s"] / step["amount"]) if step["amount"] > 0 else 1.0
        flops = step["amount"] / (row["n_cores"] if step["kind"] == codes.STEP_COMPUTE_TOTAL else 1)
        if flops <= 0:
            return 1.0
        # What was left at the last change of speed, less what was done since.
        since_s = row["start_s"] + row["run_s"] - row["updated_s"]
        return float(min(1.0, 1.0 - row["remaining"] + row["slowest_flops"] / flops * since_s))

    def remaining(self, job: int) -> float:
        """Return the part of its *requested* work that a running job has left on each of its cores, 0 to 1.

        Requested work is the requested time on a core of the platform's mean speed. All cores of a job advance
        at the pace of the slowest, at the speeds that their P-states gave them since the start. A job that
        takes longer than requested stays at 0.
        """
        return entries.remaining_work(self._borrowed, job)

    @property
    def free_cores(self) -> NDArray[np.int64]:
        """Ids of the free cores, ascending; those of nodes that are not on are not free."""
        return np.flatnonzero(self._state.cores["owner"] == -1)

    @property
    def node_status(self) -> NDArray[np.int64]:
        """Status of each node: 0 on, 1 shutting down, 2 off, 3 booting (`NODE_STATUS`), shape ``(n_nodes,)``."""
        rows = self._state.node_power
        return rows["status"].astype(np.int64) if len(rows) else np.zeros(self.platform.n_nodes, dtype=np.int64)

    @property
    def sleep_state(self) -> NDArray[np.int64]:
        """Sleep state of each node, also while it is on its way to or from it; -1: on."""
        rows = self._state.node_power
        if len(rows) == 0:
            return np.full(self.platform.n_nodes, -1, dtype=np.int64)
        return np.where(rows["status"] == codes.NODE_ON, -1, rows["sleep_state"]).astype(np.int64)

    @property
    def n_free_cores(self) -> int:
        """Number of free cores."""
        return int(self._state.scalars["n_free_cores"][0])

    @property
    def free_memory_mib(self) -> NDArray[np.float64]:
        """Free memory of each node in MiB, shape ``(n_nodes,)``."""
        return self._state.free_memory_mib.copy()

    @property
    def free_bandwidth_gbps(self) -> NDArray[np.float64]:
        """Free memory bandwidth of each processor in GB/s, negative if over-committed, shape ``(n_processors,)``."""
        return self._state.free_bandwidth_gbps.copy()

    @property
    def pstate(self) -> NDArray[np.int32]:
        """P-state of each core: what it has, or what the layer will ask for with this answer, shape ``(n_cores,)``."""
        state = self._state
        due = state.due_pstates[state.processor_of]
        due_pstates = np.where(state.cores["owner"] < 0, due["unused"], due["serving"])
        is_changed = bits.as_flags(state.changed, len(state.cores))
        return np.where(is_changed, due_pstates, state.pstates).astype(np.int32)

    @property
    def power_w(self) -> float:
        """Power of the whole platform now, in watts."""
        return float(self._state.scalars["power_w"][0])

    @property
    def energy_j(self) -> float:
        """Energy of the whole platform since date 0 until the message was sent, in joules."""
        s = self._state.scalars[0]
        elapsed_s = s["now"] - s["energy_time_s"]
        # Outside the kernel the power may be unknown (NaN), which does not matter when no time has passed.
        return float(s["energy_j"] + s["power_w"] * elapsed_s) if elapsed_s > 0 else float(s["energy_j"])

    @property
    def no_more_jobs(self) -> bool:
        """True if all jobs have been submitted."""
        return bool(self._state.scalars["no_more_jobs"][0])

    def fits(self, job: int) -> bool:
        """Tell whether a waiting job could start now, by cores and memory."""
        requested = self.workload.jobs[job]
        state = self._state
        if requested["memory_mib"] <= 0:
            return bool(self.n_free_cores >= requested["cores"])
        room = np.minimum(state.n_free_on, np.floor(state.free_memory_mib / requested["memory_mib"]))
        return bool(room.sum() >= requested["cores"])

    def cores_for(self, job: int) -> list[int]:
        """Return free cores on which a waiting job could start now, the lowest ones; none if it does not fit."""
        requested = self.workload.jobs[job]
        cores = self.free_cores
        if requested["memory_mib"] > 0:
            node = self.platform.node_of_processor[self.platform.processor_of_core[cores]]
            position = np.arange(len(cores)) - np.searchsorted(node, node)  # nodes follow each other, as cores do
            cores = cores[(position + 1) * requested["memory_mib"] <= self.free_memory_mib[node]]
        n = int(requested["cores"])
        found: list[int] = cores[:n].tolist()
        return found if len(found) == n else []

    def request(self, job: int) -> Any:
        """Return a job's request to a site, `site_rules.view.SiteRequest`; ``None`` where the machine has no rules."""
        del job

    def rows(self, jobs: NDArray[np.int64]) -> NDArray[np.void]:
        """Return the requests of some jobs, array of `JOB_DTYPE`; with further columns where the machine has rules."""
        rows: NDArray[np.void] = self.workload.jobs[jobs]
        return rows
