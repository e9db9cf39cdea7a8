"""A handler of a simulation as in batsim-py: listeners, call-backs, an agenda, and time that proceeds on calls.

`SimulatorHandler` has batsim-py 3's names; the simulation is the exact engine in this process, so that there is no
Batsim to install. Its decisions are those of batsim-py: a job that got hosts starts when they are ready, and hosts that
sleep are switched on for it.
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import Any

from hdrl.base.closing import Closing
from hdrl.base.errors import DecisionError, SimulationError, suggest
from hdrl.batsim.exact import BatsimOptions, ExactBatsim, Result
from hdrl.batsim.exact.idsets import format_ids, parse_ids
from hdrl.batsim.handled import (
    HandledPlatform,
    Host,
    HostEvent,
    HostState,
    Job,
    JobEvent,
    JobState,
    Reservation,
    SimulatorEvent,
)
from hdrl.batsim.turned import TurnedEngine

Listener = Callable[[Any], None]
_SAME_DATE_S = 1e-6
"""Dates have six decimals in messages."""


class SimulatorHandler(Closing):
    """A simulation that the caller handles step by step.

    `start` it, then decide (`allocate`, `reject_job`, ...) and let time proceed (`proceed_time`) until it is not
    running any more; or `subscribe` what decides to events. Use it as a context manager, or `close` it.

    Attributes
    ----------
    result
        Results of the engine, once the simulation has ended by itself.
    """

    def __init__(self) -> None:
        self.result: Result | None = None
        self._listeners: dict[Enum, list[Listener]] = defaultdict(list)
        self._reset()

    def _reset(self) -> None:
        self._engine: TurnedEngine | None = None
        self._now_s = 0.0
        self._ends_s = math.inf
        self._jobs: dict[str, Job] = {}
        self._requests: list[dict[str, Any]] = []
        self._calls: dict[float, list[Callable[[float], None]]] = defaultdict(list)
        self._platform = HandledPlatform(())
        self._no_more_jobs = False

    # ---- what there is to see

    @property
    def current_time(self) -> float:
        """The date in seconds; not cut to whole ones, as batsim-py does."""
        return self._now_s

    @property
    def is_running(self) -> bool:
        """True if a simulation has begun and not ended."""
        return self._engine is not None

    @property
    def is_submitter_finished(self) -> bool:
        """True if no more jobs of the workload will be submitted."""
        return self._no_more_jobs

    @property
    def platform(self) -> HandledPlatform:
        """The compute hosts."""
        return self._platform

    @property
    def jobs(self) -> list[Job]:
        """The jobs that have been submitted and have not ended."""
        return list(self._jobs.values())

    @property
    def queue(self) -> list[Job]:
        """The jobs that wait for hosts, in the order in which they came."""
        return [job for job in self._jobs.values() if job.is_submitted]

    @property
    def agenda(self) -> Iterator[Reservation]:
        """For each host, the seconds until its jobs reach their walltimes."""
        for host in self._platform.hosts:
            yield Reservation(host, max((self._left_s(self._jobs[job_id]) for job_id in host.jobs), default=0.0))

    def _left_s(self, job: Job) -> float:
        ran_s = 0.0 if job.start_time is None else self._now_s - job.start_time
        return math.inf if job.walltime is None else job.walltime - ran_s

    # ---- listeners, and the progress of time

    def subscribe(self, event: JobEvent | HostEvent | SimulatorEvent, call: Listener) -> None:
        """Call a function with the job, host or handler of every event of a kind."""
        self._listeners[event].append(call)

    def set_callback(self, at: float, call: Callable[[float], None]) -> None:
        """Call a function at a date in seconds; raise DecisionError unless it is later than now."""
        self._need_running()
        if at <= self._now_s:
            raise DecisionError(f"a call at {at:f} was requested at {self._now_s:f}, expected a later date")
        if at not in self._calls:
            self._send_request("CALL_ME_LATER", {"timestamp": at})
        self._calls[at].append(call)

    def start(
        self,
        platform: str | Path,
        workload: str | Path,
        *,
        simulation_time: float | None = None,
        allow_compute_sharing: bool = False,
        allow_storage_sharing: bool = True,
        energy: bool = True,
    ) -> None:
        """Begin a simulation.

        Parameters
        ----------
        platform, workload
            SimGrid XML and Batsim JSON.
        simulation_time
            Date at which it is stopped, in seconds; ``None``: when all jobs have ended.
        allow_compute_sharing, allow_storage_sharing
            True if several jobs may use one host at a time.
        energy
            True if energy is measured, which P-states need; every host then has ``wattage_per_state``.

        Raises
        ------
        SimulationError
            If one is running.
        ReadError, PlatformError, WorkloadError
            If a file is wrong.
        """
        if self.is_running:
            raise SimulationError("a simulation is running: close it first")
        options = BatsimOptions(
            platform=Path(platform),
            workloads=(Path(workload),),
            compute_sharing=allow_compute_sharing,
            storage_sharing=allow_storage_sharing,
            energy=energy,
            host_table=True,
        )
        simulation = ExactBatsim(options)
        self._reset()
        self.result = None
        machines = simulation.context.machines
        hosts = (Host(machine, may_share=allow_compute_sharing) for machine in machines.all[: machines.n_compute])
        self._platform = HandledPlatform(tuple(hosts))
        self._engine = TurnedEngine(simulation)
        self._take_in(self._engine.next(None))
        if simulation_time is not None:
            self._ends_s = simulation_time
            self.set_callback(simulation_time, lambda now_s: None)  # noqa: ARG005
        self._publish(SimulatorEvent.SIMULATION_BEGINS, self)

    def proceed_time(self, time: float = 0.0) -> None:
        """Go on to the next message, or to a date; listeners are called on the way.

        Parameters
        ----------
        time
            Seconds to go on; 0: until something happens. Less, if the simulation ends before.

        Raises
        ------
        DecisionError
            If the time is negative.
        SimulationError
            If nothing will ever happen again.
        BatsimError
            If Batsim would stop at a request.
        """
        self._need_running()
        if time < 0:
            raise DecisionError(f"time cannot proceed by {time:g} s")
        arrived: list[float] = []
        if time > 0 and not (self._no_more_jobs and not self._jobs and self._ends_s == math.inf):
            self.set_callback(self._now_s + time, arrived.append)
        else:
            arrived.append(self._now_s)
        while True:
            self._exchange()
            if arrived or not self.is_running:
                return

    def close(self) -> None:
        """End the simulation, wherever it is."""
        if self._engine is not None:
            engine, self._engine = self._engine, None
            engine.close()
            self._publish(SimulatorEvent.SIMULATION_ENDS, self)

    # ---- what is decided

    def allocate(self, job_id: str, hosts_id: Sequence[int], storage_mapping: Mapping[str, int] | None = None) -> None:
        """Give hosts to a job; it starts when all of them are on, and those that sleep are switched on.

        Parameters
        ----------
        storage_mapping
            Machines of storage labels.

        Raises
        ------
        DecisionError
            If the job is not in the queue, or a host is not free.
        """
        job = self._job(job_id)
        if not job.is_submitted:
            raise DecisionError(f"job {job_id!r} is {job.state.name}, expected one of the queue")
        hosts = [self._platform.get_host(host_id) for host_id in dict.fromkeys(hosts_id)]
        if len(hosts) != job.res:
            raise DecisionError(f"job {job_id!r} asks for {job.res} hosts, not {len(hosts)}")
        given: list[Host] = []
        try:
            for host in hosts:
                host.allocate(job_id)
                given.append(host)
        except DecisionError:
            for host in given:
                host.jobs.remove(job_id)
            raise
        job.state, job.allocation = JobState.ALLOCATED, tuple(sorted(host.id for host in hosts))
        job.storage_mapping = None if storage_mapping is None else dict(storage_mapping)
        self._publish(JobEvent.ALLOCATED, job)
        self._start_runnable()

    def reject_job(self, job_id: str) -> None:
        """Reject a job of the queue; raise `DecisionError` if it is not there."""
        job = self._job(job_id)
        if not job.is_submitted:
            raise DecisionError(f"job {job_id!r} is {job.state.name}, expected one of the queue")
        job.state = JobState.REJECTED
        del self._jobs[job_id]
        self._send_request("REJECT_JOB", {"job_id": job_id})
        self._publish(JobEvent.REJECTED, job)

    def kill_job(self, job_id: str) -> None:
        """Kill a job that runs; its end is an event once time proceeds. Raise `DecisionError` if it does not run."""
        job = self._job(job_id)
        if not job.is_running:
            raise DecisionError(f"job {job_id!r} is {job.state.name}, expected one that runs")
        self._send_request("KILL_JOB", {"job_ids": [job_id]})

    def switch_on(self, hosts_id: Sequence[int]) -> None:
        """Switch hosts on; raise `DecisionError` at one that does not sleep."""
        for host in map(self._platform.get_host, hosts_id):
            if not host.is_sleeping:
                raise DecisionError(f"host {host.id} ({host.name}) is {host.state.value}, expected one that sleeps")
            self._switch(host, host.computation_pstates()[0], HostState.SWITCHING_ON)

    def switch_off(self, hosts_id: Sequence[int]) -> None:
        """Switch hosts off; raise `DecisionError` at one that is not idle and free, or cannot sleep."""
        for host in map(self._platform.get_host, hosts_id):
            if not host.is_idle or host.is_allocated:
                raise DecisionError(f"host {host.id} ({host.name}) is {host.state.value}, expected an idle, free one")
            self._switch(host, host.sleep_pstate(), HostState.SWITCHING_OFF)

    def switch_power_state(self, host_id: int, pstate_id: int) -> None:
        """Let a host that is on compute in another P-state; raise `DecisionError` if it cannot."""
        host = self._platform.get_host(host_id)
        if pstate_id not in host.computation_pstates() or not (host.is_idle or host.is_computing):
            raise DecisionError(f"host {host.id} ({host.name}), which is {host.state.value}: no P-state {pstate_id}")
        self._send_request("SET_RESOURCE_STATE", {"resources": str(host.id), "state": str(pstate_id)})
        host.pstate = pstate_id
        self._publish(HostEvent.COMPUTATION_POWER_STATE_CHANGED, host)

    def _switch(self, host: Host, pstate: int, state: HostState) -> None:
        self._send_request("SET_RESOURCE_STATE", {"resources": str(host.id), "state": str(pstate)})
        self._become(host, state)

    def _start_runnable(self) -> None:
        for job in [job for job in self._jobs.values() if job.is_runnable]:
            hosts = [self._platform.hosts[host_id] for host_id in job.allocation or ()]
            self.switch_on([host.id for host in hosts if host.is_sleeping])
            if all(host.is_idle or host.is_computing for host in hosts):
                data: dict[str, Any] = {"job_id": job.id, "alloc": format_ids(job.allocation or ())}
                self._send_request(
                    "EXECUTE_JOB", data | ({"storage_mapping": job.storage_mapping} if job.storage_mapping else {})
                )
                job.state, job.start_time = JobState.RUNNING, self._now_s
                for host in hosts:
                    self._become(host, HostState.COMPUTING)
                self._publish(JobEvent.STARTED, job)

    # ---- the conversation with the engine

    def _need_running(self) -> None:
        if not self.is_running:
            raise SimulationError("no simulation is running: start one")

    def _job(self, job_id: str) -> Job:
        self._need_running()
        if job_id not in self._jobs:
            raise DecisionError(f"no job {job_id!r}; {suggest(job_id, self._jobs)}")
        return self._jobs[job_id]

    def _send_request(self, kind: str, data: dict[str, Any]) -> None:
        self._need_running()
        self._requests.append({"timestamp": self._now_s, "type": kind, "data": data})

    def _publish(self, event: JobEvent | HostEvent | SimulatorEvent, subject: object) -> None:
        for call in list(self._listeners[event]):
            call(subject)

    def _become(self, host: Host, state: HostState) -> None:
        if host.state != state:
            host.state = state
            self._publish(HostEvent.STATE_CHANGED, host)

    def _exchange(self) -> None:
        reply = json.dumps({"now": self._now_s, "events": self._requests})
        self._requests = []
        assert self._engine is not None  # noqa: S101 - the callers have looked
        try:
            message = self._engine.next(reply)
        except BaseException:
            self._engine = None  # its thread has ended
            raise
        self._take_in(message)
        if self._now_s >= self._ends_s:
            self.close()

    def _take_in(self, message: str | Result) -> None:
        if isinstance(message, Result):
            self._engine, self.result = None, message
            if message.deadlocked:
                raise SimulationError(message.deadlock())
            return
        content = json.loads(message)
        for event in content["events"]:
            self._now_s = event["timestamp"]
            self._take(event["type"], event["data"])
            if not self.is_running:
                return
        self._now_s = content["now"]

    def _take(self, kind: str, data: dict[str, Any]) -> None:
        if kind == "JOB_SUBMITTED":
            self._submitted(data["job_id"], data["job"])
        elif kind == "JOB_COMPLETED":
            self._completed(self._jobs.pop(data["job_id"]), data["job_state"])
        elif kind == "RESOURCE_STATE_CHANGED":
            self._switched(data["resources"], int(data["state"]))
        elif kind == "REQUESTED_CALL":
            self._called()
        elif kind == "NOTIFY" and data["type"] == "no_more_static_job_to_submit":
            self._no_more_jobs = True
        elif kind == "SIMULATION_ENDS":
            self._end()

    def _submitted(self, job_id: str, description: dict[str, Any]) -> None:
        walltime_s = float(description.get("walltime", -1))
        job = Job(
            id=job_id,
            res=description["res"],
            subtime=float(description["subtime"]),
            walltime=walltime_s if walltime_s > 0 else None,
            profile=description["profile"],
            description=description,
        )
        self._jobs[job_id] = job
        self._publish(JobEvent.SUBMITTED, job)

    def _completed(self, job: Job, state: str) -> None:
        job.state, job.stop_time = JobState[state], self._now_s
        for host_id in job.allocation or ():
            host = self._platform.hosts[host_id]
            host.jobs.remove(job.id)
            if not any(self._jobs[other].is_running for other in host.jobs):
                self._become(host, HostState.IDLE)
        self._publish(JobEvent.COMPLETED, job)
        if self.is_running:
            self._start_runnable()

    def _switched(self, resources: str, pstate: int) -> None:
        for host_id in parse_ids(resources, self._platform.size):
            host = self._platform.hosts[host_id]
            host.pstate = pstate
            if host.is_switching_off:
                self._become(host, HostState.SLEEPING)
            elif host.is_switching_on:
                self._become(host, HostState.IDLE)
        self._start_runnable()

    def _called(self) -> None:
        for date_s in sorted(date_s for date_s in self._calls if date_s <= self._now_s + _SAME_DATE_S):
            for call in self._calls.pop(date_s):
                call(self._now_s)

    def _end(self) -> None:
        assert self._engine is not None  # noqa: S101 - it has just spoken
        result = self._engine.next(json.dumps({"now": self._now_s, "events": []}))
        self._engine = None
        if isinstance(result, Result):
            self.result = result
        self._publish(SimulatorEvent.SIMULATION_ENDS, self)
