"""Requests of a scheduler, and Batsim's reactions to them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hdrl.base.errors import BatsimError, WorkloadError, suggest
from hdrl.batsim.exact.activities import Execution
from hdrl.batsim.exact.actors import Do, Spawn, Steps
from hdrl.batsim.exact.added_io import JobIo, job_io
from hdrl.batsim.exact.context import ExactContext
from hdrl.batsim.exact.execution import kill_jobs, run_job
from hdrl.batsim.exact.flows import Work
from hdrl.batsim.exact.idsets import format_ids, parse_ids
from hdrl.batsim.exact.jobs import ENDED, REJECTED, RUNNING, SUBMITTED, ExactJob, ExactWorkload
from hdrl.batsim.exact.machines import COMPUTATION, SLEEP, VIRTUAL, BatsimMachine
from hdrl.batsim.exact.messages import Message, Registered, RequestArrived, Switched
from hdrl.batsim.exact.profiles import Composed, Homogeneous
from hdrl.batsim.exact.protocol import (
    SchedulerRequest,
    dump,
    parse_added_io,
    parse_mapping,
    parse_storage_mapping,
)
from hdrl.batsim.exact.rapidjson import loads
from hdrl.batsim.exact.submission import call_later

_STOP = "Batsim would stop here"


@dataclass(slots=True, eq=False, repr=False)
class Unfinished:
    """Counts of the activities that must end before the simulation does."""

    n_job_submitters: int
    n_event_submitters: int
    submitted: int = 0
    completed: int = 0
    running: int = 0
    switching: int = 0
    waiters: int = 0
    killers: int = 0
    registration_finished: bool = False


class Requests:
    """Carries out the requests of the scheduler."""

    def __init__(self, context: ExactContext, counts: Unfinished, emit: Callable[[str, dict[str, Any]], None]) -> None:
        self._context = context
        self._counts = counts
        self._emit = emit
        self._appliers: dict[str, Callable[[dict[str, Any], str], Steps[None] | None]] = {
            "EXECUTE_JOB": self._execute,
            "REJECT_JOB": self._reject,
            "KILL_JOB": self._kill,
            "SET_RESOURCE_STATE": self._set_state,
            "CALL_ME_LATER": self._call_later,
            "QUERY": self._query,
            "SET_JOB_METADATA": self._set_metadata,
            "TO_JOB_MSG": self._message_job,
            "CHANGE_JOB_STATE": self._change_state,
            "NOTIFY": self._notified,
            "REGISTER_PROFILE": self._do_nothing,
        }

    def register(self, request: SchedulerRequest) -> Message:
        """Register the contents of a request, before its date has come; return the internal message for it."""
        if request.kind == "EXECUTE_JOB" and "additional_io_job" in request.data:
            self._register_io(request.data)
        if request.kind not in ("REGISTER_JOB", "REGISTER_PROFILE"):
            return RequestArrived(request)
        if not self._context.options.dynamic_jobs:
            raise BatsimError(f"{request.kind}: --enable-dynamic-jobs is not given: {_STOP}")
        try:
            if request.kind == "REGISTER_JOB":
                return Registered(self._register_job(request.data))
            self._register_profile(request.data)
        except WorkloadError as error:
            raise BatsimError(f"{error}: {_STOP}") from None
        return RequestArrived(request)

    def apply(self, request: SchedulerRequest) -> Steps[None] | None:
        """Carry out a request; return the steps that are left to do, if it takes any."""
        where = f"{request.kind} at {self._context.now_s:f}"
        return self._appliers[request.kind](request.data, where)

    def switched(self, machine_id: int, pstate: int) -> Steps[None]:
        """Note that a machine has gone to or left a sleep state."""
        self._counts.switching -= 1
        done = yield from self._finish_switch(machine_id, pstate)
        if done:
            self._context.note_machine_states()
            self._report_state(done, pstate)

    def _workload(self, name: str, where: str) -> ExactWorkload:
        if "!" in name:
            raise BatsimError(f"{where}: workload name {name!r} contains '!': {_STOP}")
        return self._context.workloads.setdefault(name, ExactWorkload(name))

    def _register_profile(self, data: dict[str, Any]) -> None:
        workload = self._workload(data["workload_name"], "REGISTER_PROFILE")
        workload.add_profile(data["profile_name"], _as_kept(data["profile"]), "REGISTER_PROFILE")
        workload.check_composition("REGISTER_PROFILE", complete=False)

    def _register_io(self, data: dict[str, Any]) -> None:
        """Add the profile that comes with an additional_io_job; it stays."""
        where = f"EXECUTE_JOB: job {data['job_id']!r}"
        io = parse_added_io(where, data["additional_io_job"])
        if io.profile is None:
            return
        workload = self._context.job(data["job_id"], where).workload
        if io.profile_name in workload.profiles:
            raise BatsimError(f"{where}: additional_io_job: profile {io.profile_name!r} exists already: {_STOP}")
        try:
            workload.add_profile(io.profile_name, _as_kept(io.profile), where)
            workload.check_composition(where, complete=False)
        except WorkloadError as error:
            raise BatsimError(f"{error}: {_STOP}") from None

    def _register_job(self, data: dict[str, Any]) -> ExactJob:
        name = data["job_id"].split("!")[0]
        if name not in self._context.workloads:
            raise BatsimError(f"REGISTER_JOB: no workload {name!r}; {suggest(name, self._context.workloads)}: {_STOP}")
        job = self._context.workloads[name].add_job(_as_kept(data["job"]), "REGISTER_JOB")
        if job.id != data["job_id"]:
            raise BatsimError(f"REGISTER_JOB: 'job_id' is {data['job_id']!r}, but the job's id is {job.id!r}: {_STOP}")
        job.state = SUBMITTED
        return job

    def _machines(self, text: str, where: str) -> list[int]:
        try:
            return parse_ids(text, len(self._context.machines))
        except ValueError as error:
            raise BatsimError(f"{where}: {error}: {_STOP}") from None

    def _execute(self, data: dict[str, Any], where: str) -> Steps[None]:
        context = self._context
        job = context.job(data["job_id"], where)
        where = f"{where}: job {job.id!r}"
        if job.state != SUBMITTED:
            raise BatsimError(f"{where} cannot start, it is {job.state}: {_STOP}")
        ids = self._machines(data["alloc"], where)
        machines = context.machines.all
        for machine_id in ids:
            machine = machines[machine_id]
            if machine.state != "idle" or machine.jobs or machine.sleep_pstates:
                self._check_free(machine, where)
        positions = parse_mapping(where, data["mapping"], len(ids)) if "mapping" in data else list(range(len(ids)))
        if len(positions) != job.n_requested and not _fits_any_number(job):
            raise BatsimError(
                f"{where} requests {job.n_requested} machines but gets {len(positions)} ({data['alloc']}): {_STOP}"
            )
        storage = parse_storage_mapping(where, data.get("storage_mapping", {}))
        io = self._io(data, job, where)
        job.state = RUNNING
        job.allocation, job.allocation_text = ids, format_ids(ids)
        self._counts.running += 1
        cpus = [machines[ids[position]].cpu for position in positions]
        actor = yield Spawn(run_job(context, job, cpus, storage, io), machines[ids[0]].cpu)
        job.actors.append(actor)

    def _io(self, data: dict[str, Any], job: ExactJob, where: str) -> JobIo | None:
        if "additional_io_job" not in data:
            return None
        io = parse_added_io(where, data["additional_io_job"])
        where = f"{where}: additional_io_job"
        try:
            return job_io(job, io.profile_name, self._machines(io.alloc, where), where)
        except WorkloadError as error:
            raise BatsimError(f"{error}: {_STOP}") from None

    def _check_free(self, machine: BatsimMachine, where: str) -> None:
        options = self._context.options
        shared = options.storage_sharing if machine.is_storage else options.compute_sharing
        if machine.jobs and not shared:
            jobs = ", ".join(job.id for job in machine.jobs)
            raise BatsimError(
                f"{where}: machine {machine.id} ({machine.name}) is computing {jobs}, "
                f"and sharing is not enabled: {_STOP}"
            )
        if machine.state not in ("idle", "computing"):
            raise BatsimError(f"{where}: machine {machine.id} ({machine.name}) is {machine.state}: {_STOP}")
        if options.energy and machine.kind != COMPUTATION:
            raise BatsimError(
                f"{where}: machine {machine.id} ({machine.name}) is in P-state {machine.cpu.pstate}, "
                f"in which it cannot compute: {_STOP}"
            )

    def _reject(self, data: dict[str, Any], where: str) -> None:
        job = self._context.job(data["job_id"], where)
        if job.state != SUBMITTED:
            raise BatsimError(f"{where}: job {job.id!r} cannot be rejected, it is {job.state}: {_STOP}")
        job.state = REJECTED
        self._counts.completed += 1
        self._context.outputs.add_job(job)

    def _kill(self, data: dict[str, Any], where: str) -> Steps[None]:
        jobs = []
        for job_id in data["job_ids"]:
            job = self._context.job(job_id, where)
            if job.kill_requested:
                continue
            if job.state not in ENDED and (job.state != RUNNING or not job.allocation):
                raise BatsimError(f"{where}: job {job.id!r} cannot be killed, it is {job.state}: {_STOP}")
            job.kill_requested = True
            jobs.append(job)
        if jobs:
            self._counts.killers += 1
            yield Spawn(kill_jobs(self._context, jobs), self._context.master)

    def _call_later(self, data: dict[str, Any], where: str) -> Steps[None]:
        date_s = float(data["timestamp"])
        if date_s <= self._context.now_s:
            raise BatsimError(f"{where} asks for a call at {date_s:f}, which is not later: {_STOP}")
        self._counts.waiters += 1
        yield Spawn(call_later(self._context, date_s), self._context.master)

    def _query(self, data: dict[str, Any], where: str) -> Steps[None]:  # noqa: ARG002 - asks for energy, always
        self._need_energy(where)
        total_j = yield from self._context.read_energy()
        self._emit("ANSWER", {"consumed_energy": total_j[0]})

    def _set_metadata(self, data: dict[str, Any], where: str) -> None:
        self._context.job(data["job_id"], where).metadata = data["metadata"]

    def _message_job(self, data: dict[str, Any], where: str) -> None:
        self._context.job(data["job_id"], where).messages.append(data["msg"])

    def _change_state(self, data: dict[str, Any], where: str) -> None:
        job, state = self._context.job(data["job_id"], where), data["job_state"]
        if job.state != SUBMITTED or state != RUNNING:
            raise BatsimError(
                f"{where}: job {job.id!r} is {job.state} and cannot be set to {state}: Batsim would stop here, "
                "for an end state with 'did not complete'"
            )
        job.state = RUNNING
        job.start_s = self._context.now_s
        self._counts.running += 1

    def _notified(self, data: dict[str, Any], where: str) -> None:
        kinds = {"registration_finished": True, "continue_registration": False}
        if data["type"] not in kinds:
            raise BatsimError(f"{where}: 'type' {data['type']!r} is unknown; {suggest(data['type'], kinds)}: {_STOP}")
        self._counts.registration_finished = kinds[data["type"]]

    def _do_nothing(self, data: dict[str, Any], where: str) -> None:
        """Do nothing: a profile is registered when the reply is read."""

    def _need_energy(self, where: str) -> None:
        if not self._context.options.energy:
            raise BatsimError(f"{where} needs energy, and -E is not given: {_STOP}")

    def _set_state(self, data: dict[str, Any], where: str) -> Steps[None]:
        self._need_energy(where)
        context = self._context
        ids, pstate = self._machines(data["resources"], where), int(data["state"])
        machines = [context.machines[machine_id] for machine_id in ids]
        for machine in machines:
            self._check_switch(machine, pstate, where)
        context.machines.request_switch(ids, pstate)
        yield from context.note_energy("p")
        sentinels = {COMPUTATION: -1, SLEEP: -2}
        context.outputs.add_pstate_change(context.now_s, ids, sentinels.get(machines[0].kinds[pstate], -42))
        for machine in machines:
            if machine.kind == COMPUTATION == machine.kinds[pstate]:
                yield context.set_pstate(machine.cpu, pstate)
                done = yield from self._finish_switch(machine.id, pstate)
                if done:
                    self._report_state(done, pstate)
            elif machine.kinds[pstate] != VIRTUAL:
                yield from self._start_switch(machine, pstate, where)
        context.note_machine_states()

    def _check_switch(self, machine: BatsimMachine, pstate: int, where: str) -> None:
        name = f"machine {machine.id} ({machine.name})"
        if pstate >= len(machine.kinds):
            raise BatsimError(f"{where}: {name} has P-states 0 to {len(machine.kinds) - 1}, not {pstate}: {_STOP}")
        ways = {(COMPUTATION, COMPUTATION), (COMPUTATION, SLEEP), (SLEEP, COMPUTATION), (COMPUTATION, VIRTUAL)}
        if (machine.kind, machine.kinds[pstate]) not in ways:
            raise BatsimError(
                f"{where}: {name} cannot go from P-state {machine.cpu.pstate} ({machine.kind}) to {pstate} "
                f"({machine.kinds[pstate]}): {_STOP}"
            )

    def _start_switch(self, machine: BatsimMachine, pstate: int, where: str) -> Steps[None]:
        # Only now: a job may have ended while energies were read. Whether the machine is available does not matter.
        if machine.kinds[pstate] == SLEEP and machine.jobs:
            name = f"machine {machine.id} ({machine.name})"
            raise BatsimError(f"{where}: {name} is computing, so it cannot go to sleep: {_STOP}")
        state = "switching_on" if machine.kind == SLEEP else "switching_off"
        self._context.machines.set_state((machine,), state, self._context.now_s)
        yield Spawn(self._switch(machine, pstate), machine.cpu)
        self._counts.switching += 1

    def _switch(self, machine: BatsimMachine, pstate: int) -> Steps[None]:
        """Be the actor that switches a machine: one flop in the P-state of the way, then the target."""
        context = self._context
        waking = machine.kind == SLEEP
        to_sleep, from_sleep = machine.sleep_pstates[machine.cpu.pstate if waking else pstate]
        yield context.set_pstate(machine.cpu, from_sleep if waking else to_sleep)
        execution = Execution(context.kernel, Work(context.network, [machine.cpu], [1.0], ()))
        yield Do(execution.start)
        context.meter.update(machine.id, context.now_s)
        yield execution
        yield context.set_pstate(machine.cpu, pstate)
        context.machines.set_state((machine,), "idle" if waking else "sleeping", context.now_s)
        yield context.server.put(machine.cpu, Switched(machine.id, pstate))

    def _finish_switch(self, machine_id: int, pstate: int) -> Steps[list[int] | None]:
        done = self._context.machines.finish_switch(machine_id, pstate)
        if done:
            self._context.outputs.add_pstate_change(self._context.now_s, done, pstate)
            yield from self._context.note_energy("p")
        return done

    def _report_state(self, ids: list[int], pstate: int) -> None:
        self._emit("RESOURCE_STATE_CHANGED", {"resources": format_ids(ids), "state": str(pstate)})


def _as_kept(description: dict[str, Any]) -> Any:
    """Return a description that the scheduler has registered as Batsim keeps it: with six decimals, as in a message."""
    return loads(dump(description))


def _fits_any_number(job: ExactJob) -> bool:
    """Return whether a job may run on any number of machines: amounts are shared out, now or in every part."""
    profile = job.profile
    if isinstance(profile, Homogeneous):
        return profile.total
    if isinstance(profile, Composed):
        parts = [job.workload.part(name, f"job {job.id!r}") for name in profile.sequence]
        return all(isinstance(part, Homogeneous) and part.total for part in parts)
    return False
