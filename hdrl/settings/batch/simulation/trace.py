"""The Trace: everything that happened in one simulation, as flat arrays."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from hdrl.settings.batch.platform.model import Platform
from hdrl.settings.batch.workload.model import Workload
from hdrl.trace.model import STAY_DTYPE, TASK_DTYPE, Signal, TaskState, repr_of_trace

if TYPE_CHECKING:
    from procset import ProcSet


class JobState(IntEnum):
    """State of a job; the names are Batsim's."""

    NOT_SUBMITTED = TaskState.NOT_RELEASED
    SUBMITTED = TaskState.WAITING
    RUNNING = TaskState.RUNNING
    COMPLETED_SUCCESSFULLY = TaskState.DONE
    COMPLETED_FAILED = TaskState.FAILED
    COMPLETED_WALLTIME_REACHED = TaskState.OVERRAN
    COMPLETED_KILLED = TaskState.KILLED
    REJECTED = TaskState.REJECTED


HOST_STATES = ("computing", "idle", "sleeping", "switching_off", "switching_on", "unavailable")
"""Batsim's states of a host: the keys of `BatchTrace.time_in_state_s` and the ends of the ``time_*`` columns."""

RECORD_DTYPE = np.dtype(
    [
        ("state", np.int8),
        ("start_s", np.float64),
        ("run_s", np.float64),
        ("energy_j", np.float64),
        ("return_code", np.int32),
        ("first_core", np.int64),
        ("n_cores", np.int32),
    ]
)
"""Outcome of one job, a row per row of ``Workload.jobs``.

``start_s`` -1 if it never started; ``run_s`` -1 if it never ended (a run time of exactly zero is recorded as
1e-5 s, as Batsim does); ``energy_j`` energy of its hosts from its start to its end, -1 without energy;
``first_core`` and ``n_cores`` its slice of `BatchTrace.allocated_cores`.
"""

MACHINE_STATE_DTYPE = np.dtype(
    [
        ("time_s", np.float64),
        ("sleeping", np.int32),
        ("switching_on", np.int32),
        ("switching_off", np.int32),
        ("idle", np.int32),
        ("computing", np.int32),
    ]
)
"""Number of hosts in each state, after every job start, job end and handled P-state request."""

PSTATE_CHANGE_DTYPE = np.dtype(
    [("time_s", np.float64), ("first_core", np.int64), ("n_cores", np.int32), ("pstate", np.int32)]
)
"""A row per line of Batsim's pstate_changes file: ``pstate`` -1 marks a request (to a computation P-state),
other values the state reached; the cores are a slice of `BatchTrace.pstate_cores`."""

ENERGY_DTYPE = np.dtype(
    [
        ("time_s", np.float64),
        ("energy_j", np.float64),
        ("event", "S1"),
        ("epsilon_w", np.float64),
    ]
)
"""A row per line of Batsim's consumed_energy file: ``event`` ``s`` job start, ``e`` job end, ``p`` P-state
request (a row before and a row after it); ``energy_j`` of the whole platform since date 0; ``epsilon_w`` its power
at nearly no load in the current P-states."""


@dataclass(frozen=True, slots=True)
class OverUtilization:
    """Shortages: dates at which the platform could not give what jobs requested.

    Attributes
    ----------
    core_s
        Dates at which the job chosen next did not start for want of free cores.
    memory_s
        The same for want of memory on the nodes with free cores.
    bandwidth_processor, bandwidth_start_s, bandwidth_duration_s
        Spans in which the memory bandwidth of a processor was over-committed, in the order in which they began;
        a duration of -1 marks a span that was still open at the end.
    """

    core_s: NDArray[np.float64]
    memory_s: NDArray[np.float64]
    bandwidth_processor: NDArray[np.int32]
    bandwidth_start_s: NDArray[np.float64]
    bandwidth_duration_s: NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class BatchTrace:
    """Everything that happened in one simulation.

    Attributes
    ----------
    platform, workload
        Machine and jobs of the simulation.
    records
        Outcome of each job: array of `RECORD_DTYPE`, in the order of ``workload.jobs``.
    completion_order
        Job indices in the order in which the jobs ended or were rejected (the rows of out_jobs.csv).
    allocated_cores
        Core ids of all allocations, ascending within each, one job's after the other's.
    machine_states, pstate_changes, pstate_cores, energy
        Logs, see the dtypes; the last three are empty without energy.
    overutilization
        Shortages of cores, memory and bandwidth.
    consumed_j
        Energy of the platform from the first submission to the last end of a job, 0 without energy.
    end_s
        Date at which the simulation ended.
    n_decisions
        Number of decisions of the policy.
    n_grouped_switches, n_machine_switches
        P-state requests, and cores named in them.
    metadata
        Text attached to jobs (index to text), for the last column of out_jobs.csv.
    time_in_state_s
        Seconds that all hosts together spent in each of Batsim's states, until each one's last change.
    host_energy_j
        Joules that each host drew since date 0, shape ``(n_cores,)``; NaN for those that still compute; empty where
        the simulator does not tell.
    site
        Outcome of each job on a machine with the rules of a site, array of `site_rules.model.SITE_RECORD_DTYPE`;
        ``None`` where another simulator simulated.
    info
        Facts about the run that are not part of its result (simulator, policy, wall-clock times).
    """

    platform: Platform
    workload: Workload
    records: NDArray[np.void]
    completion_order: NDArray[np.int64]
    allocated_cores: NDArray[np.int32]
    machine_states: NDArray[np.void]
    pstate_changes: NDArray[np.void]
    pstate_cores: NDArray[np.int32]
    energy: NDArray[np.void]
    overutilization: OverUtilization
    consumed_j: float
    end_s: float
    n_decisions: int
    n_grouped_switches: int
    n_machine_switches: int
    metadata: dict[int, str] = field(default_factory=dict)
    time_in_state_s: dict[str, float] = field(default_factory=dict)
    host_energy_j: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))
    site: NDArray[np.void] | None = None
    info: dict[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        """Return one line, see `repr_of_trace`."""
        return repr_of_trace(self)

    @property
    def has_energy(self) -> bool:
        """True if energy was accounted for."""
        return len(self.energy) > 0 or bool(np.any(self.records["energy_j"] >= 0))

    def part(self, first: int, n_items: int) -> Self:
        """Return the Trace of some consecutive jobs, with the energy from the first submission to their last end."""
        keep = np.arange(first, first + n_items)
        records, workload = self.records[keep], self.workload.take(keep)
        consumed_j = 0.0
        if len(self.energy) and np.any(records["run_s"] >= 0):
            # Power changes with the rows of the log only, so energy grows linearly between them.
            span_s = (workload.jobs["submit_s"].min(), np.max(records["start_s"] + records["run_s"]))
            begin_j, end_j = np.interp(span_s, self.energy["time_s"], self.energy["energy_j"])
            consumed_j = float(end_j - begin_j)
        site = None if self.site is None else self.site[keep]
        return replace(self, workload=workload, records=records, consumed_j=consumed_j, site=site)

    @property
    def machine(self) -> Platform:
        """The platform, as traces of all settings call it."""
        return self.platform

    @property
    def load(self) -> Workload:
        """The workload, as traces of all settings call it."""
        return self.workload

    @property
    def tasks(self) -> NDArray[np.void]:
        """Outcome of each job, as an array of `hdrl.trace.TASK_DTYPE`."""
        jobs, records = self.workload.jobs, self.records
        tasks = np.zeros(len(jobs), dtype=TASK_DTYPE)
        tasks["release_s"], tasks["start_s"] = jobs["submit_s"], records["start_s"]
        tasks["end_s"] = np.where(records["run_s"] >= 0, records["start_s"] + records["run_s"], -1.0)
        tasks["deadline_s"] = np.inf
        tasks["state"], tasks["requested_s"] = records["state"], jobs["requested_time_s"]
        tasks["user"], tasks["kind"] = jobs["user"], jobs["executable"]
        return tasks

    @property
    def stays(self) -> NDArray[np.void]:
        """Spans in which jobs held cores, as an array of `hdrl.trace.STAY_DTYPE`, by start."""
        records = self.records
        held = np.flatnonzero(records["n_cores"] > 0)
        held = held[np.argsort(records["start_s"][held], kind="stable")]
        stays = np.zeros(len(held), dtype=STAY_DTYPE)
        stays["task"], stays["start_s"], stays["pace"] = held, records["start_s"][held], 1.0
        stays["end_s"] = self.tasks["end_s"][held]
        stays["first_unit"], stays["n_units"] = records["first_core"][held], records["n_cores"][held]
        return stays

    @property
    def stay_units(self) -> NDArray[np.int32]:
        """The cores of all stays."""
        return self.allocated_cores

    @property
    def signals(self) -> dict[str, Signal]:
        """Number of computing hosts over time."""
        states = self.machine_states
        return {"computing": Signal(states["time_s"], states["computing"].astype(np.float64), "hosts")}

    @property
    def counts(self) -> dict[str, float]:
        """Numbers of shortages of cores, memory and bandwidth."""
        log = self.overutilization
        return {
            "core_shortages": float(len(log.core_s)),
            "memory_shortages": float(len(log.memory_s)),
            "bandwidth_overcommitments": float(len(log.bandwidth_start_s)),
        }

    def cores_of(self, job: int) -> NDArray[np.int32]:
        """Return the core ids on which a job ran, ascending; empty if it never started."""
        first = int(self.records["first_core"][job])
        return self.allocated_cores[first : first + int(self.records["n_cores"][job])]

    def allocation(self, job: int) -> ProcSet:
        """Return the cores on which a job ran as a `procset.ProcSet`."""
        from procset import ProcSet

        return ProcSet(*(int(core) for core in self.cores_of(job)))
