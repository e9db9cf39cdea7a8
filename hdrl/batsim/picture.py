"""The decision system's picture of Batsim's world: events so far, and requests whose outcomes are awaited.

Messages that contradict what was said before are refused, for nothing that follows them could be trusted.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from hdrl.base.errors import BatsimError, suggest
from hdrl.batsim.exact.idsets import format_ids, parse_ids
from hdrl.batsim.incoming import Event, Message, is_number, shown
from hdrl.settings.batch.kernel import codes
from hdrl.settings.batch.kernel.state import BatchState
from hdrl.settings.batch.platform.model import Platform
from hdrl.settings.batch.platform.sleep import SLEEPS
from hdrl.settings.batch.simulation.answer import Answer, job_name
from hdrl.settings.batch.simulation.trace import JobState
from hdrl.settings.batch.workload.model import Workload

_ENDS = {state.name: int(state) for state in JobState if JobState.RUNNING < state < JobState.REJECTED}
_IGNORED_NOTIFICATIONS = ("no_more_external_event_to_occur",)


@dataclass(slots=True)
class Awaited:
    """Requests to Batsim whose outcomes have not come yet."""

    # calls at dates, questions for the energy, and requests to kill jobs
    n_calls: int = 0
    n_questions: int = 0
    n_kills: int = 0
    # requests for P-states: machines, the P-state, and the first node that has a way to go there, if any has
    switches: list[tuple[tuple[int, ...], int, int | None]] = field(default_factory=list)

    def __bool__(self) -> bool:
        """Return whether there is anything."""
        return self.n_calls + self.n_questions + self.n_kills + len(self.switches) > 0


class BatsimPicture:
    """State of a simulation that runs elsewhere, in the arrays of the decision system.

    Attributes
    ----------
    ids, index_of
        Each job's full id, as Batsim calls it, and the index of each job by it.
    awaited
        Requests that Batsim has not answered yet.
    is_listening
        True if the next message may come: the last one has been answered.
    hosts_were_looked_at
        True if Batsim has brought the power of its hosts up to date.
    must_finish_registration
        True if Batsim waits for the end of registration.
    """

    def __init__(self, platform: Platform, workload: Workload, answer: Answer) -> None:
        self.platform = platform
        self.workload = workload
        self.ids = [job_name(workload, job) for job in range(workload.n_jobs)]
        self.index_of = {job_id: job for job, job_id in enumerate(self.ids)}
        self.awaited = Awaited()
        self.is_listening = True
        self.hosts_were_looked_at = self.must_finish_registration = False
        self._has_begun = False
        self._answer = answer
        self._takers = {
            "SIMULATION_BEGINS": self._begins,
            "SIMULATION_ENDS": self._ends,
            "JOB_SUBMITTED": self._submitted,
            "JOB_COMPLETED": self._completed,
            "JOB_KILLED": self._killed,
            "RESOURCE_STATE_CHANGED": self._state_changed,
            "REQUESTED_CALL": self._called,
            "ANSWER": self._answered,
            "NOTIFY": self._notified,
        }

    @property
    def state(self) -> BatchState:
        """The arrays."""
        return self._answer.state

    @property
    def _now_s(self) -> float:
        """Date of the last message, in seconds."""
        return float(self.state.scalars["message_s"][0])

    def await_switch(self, cores: list[int], pstate: int) -> None:
        """Note a request for a P-state of machines."""
        cores = sorted(cores)
        self.awaited.switches.append((tuple(cores), pstate, self._leader_of(cores, pstate)))

    def take(self, message: Message) -> None:
        """Update the picture by a message, whose events replace those before; raise BatsimError for a contradiction."""
        self._check_order(message)
        state = self.state
        for name in ("message_s", "now", "energy_time_s"):
            state.scalars[name] = message.now_s
        state.scalars["energy_j"] = math.nan
        if len(message.events) > len(state.events):
            events = np.zeros(2 * len(message.events), dtype=state.events.dtype)
            self._answer.state = state = state._replace(events=events)
        state.scalars["n_events"] = 0
        for event in self._in_order(message.events):
            self._takers[event.kind](event)
        self.is_listening = False

    def _in_order(self, events: Sequence[Event]) -> list[Event]:
        """Return events with the jobs that one file submits at one date in our order; Batsim sorts them as text."""

        def submission(event: Event) -> tuple[float, str] | None:
            if event.kind != "JOB_SUBMITTED":
                return None
            return event.timestamp_s, event.data["job_id"].partition("!")[0]

        together = (list(group) for _, group in itertools.groupby(events, submission))
        return [event for group in together for event in self._by_index(group)]

    def _by_index(self, group: list[Event]) -> list[Event]:
        if len(group) == 1 or group[0].kind != "JOB_SUBMITTED":
            return group
        return sorted(group, key=lambda event: self.index_of.get(event.data["job_id"], -1))

    def _check_order(self, message: Message) -> None:
        """Refuse messages that come at the wrong time."""
        kinds = [event.kind for event in message.events]
        if not self.is_listening:
            raise BatsimError(f"t={message.now_s:g} s: Batsim sent a message before the last one was answered")
        if bool(self.state.scalars["ended"][0]):
            raise BatsimError(f"t={message.now_s:g} s: Batsim sent a message after SIMULATION_ENDS")
        if not kinds:
            raise BatsimError(f"t={message.now_s:g} s: Batsim sent a message without events")
        if message.now_s < self._now_s:
            raise BatsimError(f"Batsim's message is dated {message.now_s:f}, before the last one ({self._now_s:f})")
        if self._has_begun == ("SIMULATION_BEGINS" in kinds) or (not self._has_begun and len(kinds) > 1):
            problem = "again" if self._has_begun else f"expected first and alone, got {', '.join(kinds[:3])}"
            raise BatsimError(f"t={message.now_s:g} s: SIMULATION_BEGINS {problem}")

    def _record(self, kind: int, subject: int, event: Event) -> None:
        n = int(self.state.scalars["n_events"][0])
        self.state.events[n] = (kind, subject, event.timestamp_s)
        self.state.scalars["n_events"] = n + 1

    def _wrong(self, event: Event, problem: str) -> BatsimError:
        return BatsimError(f"t={event.timestamp_s:g} s: Batsim's {event.kind}: {problem}")

    def _job(self, event: Event, job_id: str, state: int) -> int:
        """Return a job that Batsim names, which must be in a certain state."""
        job = self.index_of.get(job_id)
        if job is None:
            raise self._wrong(event, f"no job {shown(job_id)}; {suggest(job_id, self.index_of)}")
        found = int(self.state.jobs["state"][job])
        if found != state:
            raise self._wrong(event, f"job {job_id!r} is {JobState(found).name}, expected {JobState(state).name}")
        return job

    def _begins(self, event: Event) -> None:
        config, machines = event.data["config"], event.data["compute_resources"]
        if config.get("redis-enabled"):
            raise self._wrong(event, "it keeps its data in Redis, which hdrl does not read")
        n_cores = self.platform.n_cores
        if len(machines) != n_cores:
            raise self._wrong(event, f"{len(machines)} machines, but platform {self.platform.name!r} has {n_cores}")
        for core, machine in enumerate(machines):
            name = self.platform.core_names[core]
            if (machine["id"], machine["name"]) != (core, name):
                raise self._wrong(
                    event, f"machine {machine['id']} is {shown(machine['name'])}, expected {core} {name!r}"
                )
        self._take_names(event, list(event.data["workloads"]))
        self.must_finish_registration = bool(config.get("dynamic-jobs-enabled"))
        self._has_begun = True
        self._record(codes.EVENT_BEGINS, 0, event)

    def _take_names(self, event: Event, named: list[str]) -> None:
        """Take over what Batsim calls the workload, if there is only one (older versions make up a name)."""
        sources = self.workload.sources
        if len(named) == len(sources) == 1:
            self.ids = [f"{named[0]}!{name}" for name in self.workload.job_ids]
            self.index_of = {job_id: job for job, job_id in enumerate(self.ids)}
        elif sorted(named) != sorted(sources):
            raise self._wrong(event, f"workloads {', '.join(named) or 'none'}, expected {', '.join(sources)}")

    def _ends(self, event: Event) -> None:
        left = np.flatnonzero(self.state.jobs["state"] < codes.SUCCEEDED)
        if len(left):
            raise self._wrong(event, f"{len(left)} jobs have not ended, for instance {self.ids[int(left[0])]!r}")
        self.state.scalars["ended"] = 1
        self._record(codes.EVENT_ENDS, 0, event)

    def _submitted(self, event: Event) -> None:
        job = self._job(event, event.data["job_id"], codes.NOT_SUBMITTED)
        expected, found = int(self.workload.jobs["cores"][job]), event.data["job"].get("res")
        if found != expected:
            raise self._wrong(event, f"job {event.data['job_id']!r} asks for {shown(found)} cores, expected {expected}")
        self.state.jobs["state"][job] = codes.WAITING
        self.state.scalars["n_submitted"] += 1
        self.hosts_were_looked_at = True
        self._record(codes.EVENT_SUBMITTED, job, event)

    def _completed(self, event: Event) -> None:
        job_id, state = event.data["job_id"], event.data["job_state"]
        job = self._job(event, job_id, codes.RUNNING)
        if state not in _ENDS:
            raise self._wrong(event, f"job {job_id!r} ended as {shown(state)}; {suggest(state, _ENDS)}")
        row = self.state.jobs[job]
        first = int(row["first_core"])
        cores = self.state.allocated[first : first + int(row["n_cores"])].tolist()
        if self._machines(event, event.data["alloc"]) != sorted(cores):
            raise self._wrong(event, f"job {job_id!r} ran on {shown(event.data['alloc'])}, not {format_ids(cores)!r}")
        row["state"] = _ENDS[state]
        row["return_code"] = event.data["return_code"]
        row["run_s"] = event.timestamp_s - row["start_s"]
        self.state.scalars["n_done"] += 1
        self._record(codes.EVENT_COMPLETED, job, event)

    def _killed(self, event: Event) -> None:
        for job_id in event.data["job_ids"]:
            job = self.index_of.get(job_id, -1)
            if job < 0 or not self.state.jobs["kill_requested"][job]:
                raise self._wrong(event, f"the scheduler did not request to kill job {shown(job_id)}")
            report = event.data["job_progress"].get(job_id)
            progress = report.get("progress") if isinstance(report, dict) else None
            if progress is not None and is_number(progress):
                row = self.state.jobs[job]
                row["remaining"], row["updated_s"] = 1.0 - progress, row["start_s"] + row["run_s"]
        if self.awaited.n_kills == 0:
            raise self._wrong(event, "the scheduler did not request it")
        self.awaited.n_kills -= 1
        self._record(codes.EVENT_KILLED, 0, event)

    def _state_changed(self, event: Event) -> None:
        switched = tuple(self._machines(event, event.data["resources"])), int(event.data["state"])
        switch = next((switch for switch in self.awaited.switches if switch[:2] == switched), None)
        if switch is None:
            raise self._wrong(
                event, f"the scheduler did not request P-state {switched[1]} of {shown(event.data['resources'])}"
            )
        self.awaited.switches.remove(switch)
        self.hosts_were_looked_at = True
        _, pstate, node = switch
        if node is None:
            self._record(codes.EVENT_PSTATE, pstate, event)
        else:
            self._record(codes.EVENT_NODE, node, event)

    def _leader_of(self, cores: list[int], pstate: int) -> int | None:
        """Return the first node that goes a way to a P-state by a request; ``None`` if P-states alone change."""
        nodes = self.platform.node_of_processor[self.platform.processor_of_core[cores]]
        rows = self.state.node_power
        if len(rows) == 0:
            return None
        falls_asleep = self.platform.pstate_uses[cores, pstate] == SLEEPS
        way = np.where(falls_asleep, codes.NODE_SHUTTING_DOWN, codes.NODE_BOOTING)
        on_way = nodes[rows["status"][nodes] == way]
        return int(rows["leader"][on_way[0]]) if len(on_way) else None

    def _called(self, event: Event) -> None:
        if self.awaited.n_calls == 0:
            raise self._wrong(event, "the scheduler did not request it")
        self.awaited.n_calls -= 1
        self._record(codes.EVENT_CALLED, 0, event)

    def _answered(self, event: Event) -> None:
        if self.awaited.n_questions == 0:
            raise self._wrong(event, "the scheduler did not request it")
        self.awaited.n_questions -= 1
        self.hosts_were_looked_at = True
        self.state.scalars["energy_j"] = event.data["consumed_energy"]
        self._record(codes.EVENT_ENERGY, 0, event)

    def _notified(self, event: Event) -> None:
        kind = event.data["type"]
        if kind == "no_more_static_job_to_submit":
            self._record(codes.EVENT_NO_MORE_JOBS, 0, event)
        elif kind not in _IGNORED_NOTIFICATIONS:
            raise self._wrong(event, f"external event {shown(kind)}: hdrl supports none")

    def _machines(self, event: Event, text: str) -> list[int]:
        try:
            return parse_ids(text, self.platform.n_cores)
        except ValueError as error:
            raise self._wrong(event, str(error)) from None
