"""A simulator that takes Batsim's place: it talks to a scheduler in Batsim's protocol.

`ProtocolServer` says what Batsim would say, as the same text, and takes the requests of the replies as decisions for
any simulator with the face of the embedded one; `EmbeddedServer` is the server for that one. What has no place in
views and decisions is refused with one line that says so; the command ``hdrl-batsim`` supports all of it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol

from hdrl.base.errors import BatsimError, suggest
from hdrl.batsim.exact.context import Scheduler
from hdrl.batsim.exact.idsets import format_ids, parse_ids
from hdrl.batsim.exact.jobs import kept_profiles
from hdrl.batsim.exact.protocol import Reply, SchedulerRequest, dump, parse_reply, with_id
from hdrl.settings.batch.platform.model import Platform
from hdrl.settings.batch.platform.sleep import SLEEPS
from hdrl.settings.batch.simulation.decisions import (
    Annotate,
    AskEnergy,
    At,
    CallAt,
    Decision,
    Kill,
    Reject,
    SetPState,
    Start,
)
from hdrl.settings.batch.simulation.embedded import EmbeddedSimulator
from hdrl.settings.batch.simulation.trace import BatchTrace, JobState
from hdrl.settings.batch.simulation.view import News, View
from hdrl.settings.batch.workload.batsim_description import describe_for_batsim
from hdrl.settings.batch.workload.batsim_profiles import COMPOSED_TYPES
from hdrl.settings.batch.workload.model import Workload

_STOP = "Batsim would stop here"
_PUBLIC_KEYS = ("id", "subtime", "res", "user", "queue")
_NOT_SIMULATED = {
    "TO_JOB_MSG": "messages to jobs",
    "CHANGE_JOB_STATE": "changes of a job's state",
    "REGISTER_JOB": "jobs registered by the scheduler",
    "REGISTER_PROFILE": "profiles registered by the scheduler",
    "NOTIFY": "jobs registered by the scheduler",
}

Event = tuple[str, dict[str, Any]]


class ServedSimulator(Protocol):
    """Simulator with views and decisions: the interface of `simulation.EmbeddedSimulator`."""

    @property
    def platform(self) -> Platform:
        """The machine."""

    @property
    def workload(self) -> Workload:
        """The jobs."""

    @property
    def trace(self) -> BatchTrace:
        """Trace of the simulation, once it is over."""

    def reset(self) -> View:
        """Go back to date 0 and return the first view."""

    def step(self, decisions: Iterable[Decision] = (), *, now_s: float | None = None) -> View:
        """Carry out decisions and return the view at the next message."""


class ProtocolServer:
    """One simulation for a scheduler that speaks Batsim's protocol.

    On a platform whose cores change their P-states by rules (`platform.Platform.rules`), these
    changes go on by themselves: the scheduler gets no events of them and cannot request others.

    Parameters
    ----------
    energy
        True if it measures energy (``-E`` of Batsim); requests that need it are refused otherwise.
    hides_work
        True if messages leave out what jobs do, from which their run times follow. The requested time of each job is
        then its ``walltime``, whether the job is killed after it or not.
    """

    def __init__(self, simulator: ServedSimulator, *, energy: bool = True, hides_work: bool = False) -> None:
        self.platform = simulator.platform
        self.workload = workload = simulator.workload
        self.energy = energy
        self._hides_work = hides_work
        self._simulator = simulator
        self._documents = {source: describe_for_batsim(workload, source=source) for source in workload.sources}
        self._descriptions = self._described_jobs()
        self._ids = [
            f"{workload.sources[source]}!{job_id}"
            for source, job_id in zip(workload.jobs["source"].tolist(), workload.job_ids, strict=True)
        ]
        self._index = {job_id: job for job, job_id in enumerate(self._ids)}
        self._forget()

    def _forget(self) -> None:
        """Clear the state of the last simulation."""
        self._allocations: dict[int, list[int]] = {}
        self._ended: set[int] = set()
        self._kill_requested: set[int] = set()
        self._kills: deque[list[int]] = deque()
        self._changes: deque[tuple[list[int], int]] = deque()  # of P-states, at once
        self._switches: dict[int, tuple[list[int], int]] = {}  # off and on, by the first node

    def run(self, scheduler: Scheduler) -> BatchTrace:
        """Simulate from the beginning to the end.

        Raises
        ------
        BatsimError
            If Batsim would refuse a request by stopping, or a request is not simulated here.
        DecisionError
            If the simulated cluster cannot do what it asks for.
        SimulationError
            If jobs are waiting and nothing will ever happen again.
        """
        self._forget()
        view = self._simulator.reset()
        while not view.is_over:
            events = [
                {"timestamp": time_s, "type": kind, "data": data} for time_s, (kind, data) in self._events_of(view)
            ]
            if events:
                reply = parse_reply(scheduler.exchange(dump({"now": view.now_s, "events": events})))
                view = self._follow(view, reply)
            else:
                view = self._simulator.step()
        self._take_leave(scheduler, view)
        return self._simulator.trace

    def begins(self) -> dict[str, Any]:
        """Return the data of SIMULATION_BEGINS."""
        n_cores = self.platform.n_cores
        return {
            "nb_resources": n_cores,
            "nb_compute_resources": n_cores,
            "nb_storage_resources": 0,
            "allow_compute_sharing": False,
            "allow_storage_sharing": True,
            "config": {
                "redis-enabled": False,
                "redis-hostname": "127.0.0.1",
                "redis-port": 6379,
                "redis-prefix": "default",
                "profiles-forwarded-on-submission": False,
                "dynamic-jobs-enabled": False,
                "dynamic-jobs-acknowledged": False,
                "profile-reuse-enabled": False,
                "sched-config": "",
                "forward-unknown-events": False,
            },
            "compute_resources": [self._described_host(core) for core in range(n_cores)],
            "storage_resources": [],
            "workloads": self._files(),
            "profiles": {
                source: {} if self._hides_work else _used_profiles(document)
                for source, document in self._documents.items()
            },
        }

    def _files(self) -> dict[str, str]:
        """Return the name of each source's file, or of the workload where there is none."""
        origin = self.workload.origin
        parts = origin.get("parts", [origin])
        return {
            source: str(part.get("file", self.workload.name))
            for source, part in zip(self.workload.sources, parts if isinstance(parts, list) else [], strict=True)
        }

    def _described_host(self, core: int) -> dict[str, Any]:
        properties = {"role": "", **self.platform.properties[core]} if self.platform.properties else {"role": ""}
        return {
            "id": core,
            "name": self.platform.core_names[core],
            "state": "idle",
            "properties": properties,
            "zone_properties": {},
        }

    def _described_jobs(self) -> list[dict[str, Any]]:
        """Return the description of each job, in the order of the workload."""
        described = {source: iter(document["jobs"]) for source, document in self._documents.items()}
        jobs = [next(described[self.workload.sources[source]]) for source in self.workload.jobs["source"].tolist()]
        if not self._hides_work:
            return jobs
        requested = self.workload.jobs["requested_time_s"].tolist()
        return [
            {key: job[key] for key in _PUBLIC_KEYS if key in job} | {"walltime": time_s, "profile": str(number)}
            for number, (job, time_s) in enumerate(zip(jobs, requested, strict=True))
        ]

    def _events_of(self, view: View) -> Iterator[tuple[float, Event]]:
        """Yield date, type and data of all events for the scheduler."""
        for time_s, (kind, subject) in zip(view.news_s.tolist(), view.news, strict=True):
            event = self._event(view, kind, subject)
            if event is not None:
                yield time_s, event

    def _event(self, view: View, kind: News, subject: int) -> Event | None:
        match kind:
            case News.SIMULATION_BEGINS:
                return "SIMULATION_BEGINS", self.begins()
            case News.JOB_SUBMITTED:
                job_id = self._ids[subject]
                return "JOB_SUBMITTED", {"job_id": job_id, "job": with_id(self._descriptions[subject], job_id)}
            case News.JOB_COMPLETED:
                return self._completed(view, subject)
            case News.JOB_KILLED:
                return self._killed(view)
            case News.PSTATE_CHANGED:
                return self._pstate_changed()
            case News.NODE_SWITCHED:
                return self._switched(subject)
            case News.REQUESTED_CALL:
                return "REQUESTED_CALL", {}
            case News.ENERGY:
                return "ANSWER", {"consumed_energy": view.energy_j}
            case _:
                return "NOTIFY", {"type": "no_more_static_job_to_submit"}

    def _completed(self, view: View, job: int) -> Event:
        self._ended.add(job)
        state, return_code = view.outcome(job)
        return "JOB_COMPLETED", {
            "job_id": self._ids[job],
            "job_state": state.name,
            "return_code": return_code,
            "alloc": format_ids(self._allocations[job]),
        }

    def _killed(self, view: View) -> Event:
        jobs = self._kills.popleft()
        progress = {
            self._ids[job]: {"profile_name": self._profile_name(job), "progress": view.progress(job)}
            for job in jobs
            if view.outcome(job)[0] == JobState.COMPLETED_KILLED
        }
        return "JOB_KILLED", {"job_ids": [self._ids[job] for job in jobs], "job_progress": progress}

    def _pstate_changed(self) -> Event | None:
        """Tell that hosts have a P-state; requests that take no time are done in their order."""
        if self.platform.rules is not None:
            return None
        return self._state_changed(*self._changes.popleft())

    def _switched(self, node: int) -> Event:
        """Tell that all hosts of a request are off, or on; the first one is of a node."""
        return self._state_changed(*self._switches.pop(node))

    def _state_changed(self, cores: list[int], pstate: int) -> Event:
        return "RESOURCE_STATE_CHANGED", {"resources": format_ids(cores), "state": str(pstate)}

    def _take_leave(self, scheduler: Scheduler, view: View) -> None:
        ends = {"timestamp": view.now_s, "type": "SIMULATION_ENDS", "data": {}}
        reply = parse_reply(scheduler.exchange(dump({"now": view.now_s, "events": [ends]})))
        if reply.requests:
            raise BatsimError(
                f"the reply to SIMULATION_ENDS asks for {reply.requests[0].kind}, but nothing will happen any more"
            )

    def _follow(self, view: View, reply: Reply) -> View:
        decisions = [self._dated(view, request) for request in reply.requests]
        return self._simulator.step(decisions, now_s=reply.now_s)

    def _dated(self, view: View, request: SchedulerRequest) -> Decision:
        where = f"{request.kind} at {request.timestamp_s:f}"
        if request.kind in _NOT_SIMULATED:
            raise BatsimError(f"{where}: {_NOT_SIMULATED[request.kind]} are not supported here; hdrl-batsim has them")
        deciders: dict[str, Callable[[dict[str, Any], str], Any]] = {
            "EXECUTE_JOB": self._execute,
            "REJECT_JOB": lambda data, where: Reject(self._job(data["job_id"], where)),
            "KILL_JOB": self._kill,
            "SET_RESOURCE_STATE": lambda data, where: self._set_state(data, where, view),
            "CALL_ME_LATER": lambda data, where: self._call_later(data, where, request.timestamp_s),
            "QUERY": self._query,
            "SET_JOB_METADATA": lambda data, where: Annotate(self._job(data["job_id"], where), data["metadata"]),
        }
        decision = deciders[request.kind](request.data, where)
        return decision if request.timestamp_s == view.now_s else At(request.timestamp_s, decision)

    def _job(self, job_id: str, where: str) -> int:
        job = self._index.get(job_id)
        if job is None:
            raise BatsimError(f"{where}: no job {job_id!r}; {suggest(job_id, self._index)}: {_STOP}")
        return job

    def _cores(self, text: str, where: str) -> list[int]:
        try:
            return parse_ids(text, self.platform.n_cores)
        except ValueError as error:
            raise BatsimError(f"{where}: {error}: {_STOP}") from None

    def _execute(self, data: dict[str, Any], where: str) -> Start:
        job = self._job(data["job_id"], where)
        extra = [name for name in data if name not in ("job_id", "alloc")]
        if extra:
            raise BatsimError(f"{where}: {extra[0]!r} is not supported here; hdrl-batsim has it")
        self._allocations[job] = self._cores(data["alloc"], where)
        return Start(job, self._allocations[job])

    def _kill(self, data: dict[str, Any], where: str) -> Kill:
        jobs = [self._job(job_id, where) for job_id in data["job_ids"]]
        for job in jobs:
            if job in self._ended and job not in self._kill_requested:
                raise BatsimError(f"{where}: job {self._ids[job]!r} does not exist any more: {_STOP}")
            if self._profile(job).get("type") in COMPOSED_TYPES:
                raise BatsimError(
                    f"{where}: job {self._ids[job]!r} has a composed profile, whose progress "
                    "is not available here; hdrl-batsim has it"
                )
        new = [job for job in dict.fromkeys(jobs) if job not in self._kill_requested]
        self._kill_requested.update(new)
        if new:
            self._kills.append(new)
        return Kill(new)

    def _set_state(self, data: dict[str, Any], where: str, view: View) -> SetPState:
        self._need_energy(where)
        if self.platform.rules is not None:
            raise BatsimError(
                f"{where}: the cores of platform {self.platform.name!r} change their P-states by its rules; "
                "a scheduler cannot ask for others"
            )
        cores, pstate = self._cores(data["resources"], where), int(data["state"])
        leader = self._first_to_switch(view, cores, pstate)
        if leader is None:
            self._changes.append((cores, pstate))
        else:
            self._switches[leader] = cores, pstate
        return SetPState(cores, pstate)

    def _first_to_switch(self, view: View, cores: list[int], pstate: int) -> int | None:
        """Return the first node that is to be switched off, or on, which takes time; ``None`` if none is."""
        cores = sorted(cores)
        nodes = self.platform.node_of_processor[self.platform.processor_of_core[cores]]
        falls_asleep = self.platform.pstate_uses[cores, pstate] == SLEEPS
        nodes = nodes[falls_asleep | (view.node_status[nodes] != 0)]
        return int(nodes[0]) if len(nodes) else None

    def _call_later(self, data: dict[str, Any], where: str, requested_s: float) -> CallAt:
        date_s = float(data["timestamp"])
        if date_s <= requested_s:
            raise BatsimError(f"{where} asks for a call at {date_s:f}, which is not later: {_STOP}")
        return CallAt(date_s)

    def _query(self, data: dict[str, Any], where: str) -> AskEnergy:  # noqa: ARG002 - asks for energy, always
        self._need_energy(where)
        return AskEnergy()

    def _need_energy(self, where: str) -> None:
        if not self.energy:
            raise BatsimError(f"{where} needs energy, which is not measured: {_STOP}")

    def _profile_name(self, job: int) -> str:
        return str(self.workload.profile_names[self.workload.jobs["profile"][job]])

    def _profile(self, job: int) -> dict[str, Any]:
        source = self.workload.sources[self.workload.jobs["source"][job]]
        profile: dict[str, Any] = self._documents[source]["profiles"][self._profile_name(job)]
        return profile


class EmbeddedServer(ProtocolServer):
    """One simulation on the embedded simulator for a scheduler that speaks Batsim's protocol.

    Raise SimulationError if the platform has what only the exact simulator supports.
    """

    def __init__(self, platform: Platform, workload: Workload, *, energy: bool = True, seed: int = 0) -> None:
        super().__init__(EmbeddedSimulator(platform, workload, seed=seed, energy=energy), energy=energy)


def _used_profiles(document: dict[str, Any]) -> dict[str, Any]:
    """Return the profiles in Batsim's messages."""
    profiles = document["profiles"]
    parts = {name: profile.get("seq", ()) for name, profile in profiles.items()}
    kept = kept_profiles((job["profile"] for job in document["jobs"]), parts)
    return {name: profiles[name] for name in kept}
