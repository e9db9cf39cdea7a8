"""Objects of a `handler.SimulatorHandler`: jobs, hosts, and events; the names are batsim-py's."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from hdrl.base.errors import DecisionError
from hdrl.batsim.exact.machines import COMPUTATION, SLEEP, BatsimMachine


class JobEvent(Enum):
    """Events of a job; listeners get the `Job`."""

    SUBMITTED = 0
    ALLOCATED = 1
    REJECTED = 2
    STARTED = 3
    COMPLETED = 4


class HostEvent(Enum):
    """Events of a host; listeners get the `Host`."""

    STATE_CHANGED = 0
    COMPUTATION_POWER_STATE_CHANGED = 1


class SimulatorEvent(Enum):
    """Events of the simulation; listeners get the handler."""

    SIMULATION_BEGINS = 0
    SIMULATION_ENDS = 1


class JobState(Enum):
    """State of a job, under batsim-py's name."""

    SUBMITTED = 1
    RUNNING = 2
    COMPLETED_SUCCESSFULLY = 3
    COMPLETED_FAILED = 4
    COMPLETED_WALLTIME_REACHED = 5
    COMPLETED_KILLED = 6
    REJECTED = 7
    ALLOCATED = 8


class HostState(Enum):
    """State of a host."""

    IDLE = "idle"
    COMPUTING = "computing"
    SWITCHING_ON = "switching_on"
    SWITCHING_OFF = "switching_off"
    SLEEPING = "sleeping"


@dataclass(slots=True, eq=False)
class Job:
    """A job, from its submission on.

    Attributes
    ----------
    id, name, workload
        Its full id, ``"workload!name"``, and the two parts.
    res, subtime, walltime, profile
        The request: hosts, date and time limit (``None`` for none) in seconds, name of the profile.
    description
        Its JSON description.
    state, allocation, storage_mapping
        Its state; its hosts, once it has some; machines of storage labels.
    start_time, stop_time
        Dates of its start and its end, in seconds, ``None`` before.
    """

    id: str
    res: int
    subtime: float
    walltime: float | None
    profile: str
    description: dict[str, Any] = field(repr=False)
    state: JobState = JobState.SUBMITTED
    allocation: tuple[int, ...] | None = None
    storage_mapping: dict[str, int] | None = None
    start_time: float | None = None
    stop_time: float | None = None

    @property
    def name(self) -> str:
        """Its name within the workload."""
        return self.id.split("!")[1]

    @property
    def workload(self) -> str:
        """The name of its workload."""
        return self.id.split("!")[0]

    @property
    def is_submitted(self) -> bool:
        """True if it waits for hosts."""
        return self.state == JobState.SUBMITTED

    @property
    def is_runnable(self) -> bool:
        """True if it has hosts and waits for them to be ready."""
        return self.state == JobState.ALLOCATED

    @property
    def is_running(self) -> bool:
        """True if it runs."""
        return self.state == JobState.RUNNING

    @property
    def is_finished(self) -> bool:
        """True if it has ended, or was rejected."""
        return self.state.name.startswith("COMPLETED") or self.state == JobState.REJECTED

    @property
    def waiting_time(self) -> float | None:
        """Seconds from its submission to its start."""
        return None if self.start_time is None else self.start_time - self.subtime

    @property
    def runtime(self) -> float | None:
        """Seconds from its start to its end."""
        return None if self.start_time is None or self.stop_time is None else self.stop_time - self.start_time

    @property
    def turnaround_time(self) -> float | None:
        """Seconds from its submission to its end."""
        return None if self.stop_time is None else self.stop_time - self.subtime

    @property
    def slowdown(self) -> float | None:
        """Turnaround per second of run time, at least 1."""
        return self._slowdown(1)

    @property
    def per_processor_slowdown(self) -> float | None:
        """The same, divided by the number of hosts, at least 1."""
        return self._slowdown(self.res)

    def _slowdown(self, hosts: int) -> float | None:
        turnaround_s, run_s = self.turnaround_time, self.runtime
        if turnaround_s is None or run_s is None:
            return None
        return max(1.0, turnaround_s / (hosts * run_s)) if run_s > 0 else math.inf


class Host:
    """A compute host, as the scheduler sees it.

    Attributes
    ----------
    id, name
        Its id and its name.
    state, pstate
        What it does, and its P-state.
    jobs
        Ids of the jobs that it was allocated to.
    """

    def __init__(self, machine: BatsimMachine, *, may_share: bool) -> None:
        self.id = machine.id
        self.name = machine.name
        self.state = HostState.IDLE
        self.pstate = machine.cpu.pstate
        self.jobs: list[str] = []
        self._kinds = machine.kinds
        self._ways = machine.sleep_pstates
        self._watts = machine.cpu.spec.watts
        self._may_share = may_share

    def __repr__(self) -> str:
        """Return its id and state."""
        return f"Host_{self.id}: {self.state.name}"

    @property
    def is_allocated(self) -> bool:
        """True if a job has it."""
        return bool(self.jobs)

    @property
    def is_idle(self) -> bool:
        """True if it is on and computes nothing."""
        return self.state == HostState.IDLE

    @property
    def is_computing(self) -> bool:
        """True if a job runs on it."""
        return self.state == HostState.COMPUTING

    @property
    def is_sleeping(self) -> bool:
        """True if it is off."""
        return self.state == HostState.SLEEPING

    @property
    def is_switching_on(self) -> bool:
        """True if it is on its way from sleep."""
        return self.state == HostState.SWITCHING_ON

    @property
    def is_switching_off(self) -> bool:
        """True if it is on its way to sleep."""
        return self.state == HostState.SWITCHING_OFF

    @property
    def power(self) -> float | None:
        """Its power in watts, at full load where it computes; ``None`` if the platform does not say."""
        if self._watts is None:
            return None
        pstate = self.pstate
        if self.is_switching_on or self.is_switching_off:
            pstate = self._ways[self.sleep_pstate()][1 if self.is_switching_on else 0]
        idle_w, _, full_w = self._watts[pstate]
        return idle_w if self.is_idle or self.is_sleeping else full_w

    def computation_pstates(self) -> list[int]:
        """Return the P-states in which it computes."""
        return [pstate for pstate, kind in enumerate(self._kinds) if kind == COMPUTATION]

    def sleep_pstate(self) -> int:
        """Return the P-state in which it sleeps; raise `DecisionError` if there is none."""
        for pstate, kind in enumerate(self._kinds):
            if kind == SLEEP:
                return pstate
        raise DecisionError(f"host {self.id} ({self.name}) has no P-state in which it sleeps")

    def allocate(self, job_id: str) -> None:
        """Give it to a job; raise `DecisionError` if another one has it."""
        if self.jobs and not self._may_share:
            raise DecisionError(f"host {self.id} ({self.name}) is allocated to job {self.jobs[0]!r}")
        self.jobs.append(job_id)


@dataclass(frozen=True, slots=True)
class Reservation:
    """Reservation of a host in seconds: 0 for a free one, infinite where a job has no walltime."""

    host: Host
    release_time: float


@dataclass(frozen=True, slots=True)
class HandledPlatform:
    """The compute hosts, by id."""

    hosts: tuple[Host, ...]

    @property
    def size(self) -> int:
        """Number of hosts."""
        return len(self.hosts)

    def get_host(self, host_id: int) -> Host:
        """Return a host; raise `DecisionError` if there is none with this id."""
        if not 0 <= host_id < len(self.hosts):
            raise DecisionError(f"no host {host_id}; ids are 0 to {len(self.hosts) - 1}")
        return self.hosts[host_id]
