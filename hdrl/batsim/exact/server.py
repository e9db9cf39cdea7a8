"""Batsim's server: it receives internal messages one by one, and sends events to the scheduler."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from hdrl.base.errors import BatsimError
from hdrl.batsim.exact.actors import Sleep, Spawn, Steps
from hdrl.batsim.exact.context import ExactContext, Scheduler
from hdrl.batsim.exact.idsets import format_ids, parse_ids
from hdrl.batsim.exact.jobs import KILLED, SUBMITTED, ExactJob
from hdrl.batsim.exact.messages import (
    Called,
    Completed,
    ExternalEvents,
    FromJob,
    Goodbye,
    Hello,
    Killed,
    Message,
    Ready,
    Registered,
    RequestArrived,
    Submitted,
    Switched,
)
from hdrl.batsim.exact.protocol import dump, dump_job, parse_reply
from hdrl.batsim.exact.rapidjson import reread
from hdrl.batsim.exact.requests import Requests, Unfinished
from hdrl.batsim.exact.submission import MACHINE_EVENTS


class Server:
    """The server of a simulation, with what it counts."""

    def __init__(self, context: ExactContext, scheduler: Scheduler, n_event_submitters: int) -> None:
        self.context = context
        self.counts = Unfinished(n_job_submitters=len(context.workloads), n_event_submitters=n_event_submitters)
        self.finished = False
        self.scheduling_s = 0.0
        self._scheduler = scheduler
        self._requests = Requests(context, self.counts, self.emit)
        self._pending: list[str] = []
        self._ready = False
        self._ending = False
        self._ended: list[ExactJob] = []
        self._last_s, self._last_date = -1.0, ""
        self._handlers: dict[type[Message], Callable[[Any], Steps[None] | None]] = {
            Hello: self._handle_hello,
            Submitted: self._all_submitted,
            ExternalEvents: self._handle_external_events,
            Goodbye: self._handle_goodbye,
            RequestArrived: self._handle_request,
            Registered: self._registered,
            Ready: self._is_ready,
            Completed: self._completed,
            Killed: self._killed,
            Called: self._called,
            Switched: self._switched,
            FromJob: self._message_of_job,
        }
        """Handlers of internal messages, by their type; a handler may return steps that are left to do."""

    def emit(self, kind: str, data: dict[str, Any]) -> None:
        """Note an event for the scheduler, at the present date."""
        self._emit_text(kind, dump(data))

    def _emit_text(self, kind: str, data: str) -> None:
        self._pending.append(f'{{"timestamp":{self._date()},"type":"{kind}","data":{data}}}')

    def _date(self) -> str:
        """Return the present date as text, which most dates need several times."""
        now_s = self.context.now_s
        if now_s != self._last_s:
            self._last_s, self._last_date = now_s, dump(now_s)
        return self._last_date

    def run(self, begins: dict[str, Any]) -> Steps[None]:
        """Be the server, from SIMULATION_BEGINS until the reply to SIMULATION_ENDS has been applied."""
        self.emit("SIMULATION_BEGINS", begins)
        yield from self._send()
        mailbox = self.context.server
        receive = mailbox.get(self.context.master)
        while not self.finished:
            message = yield receive
            steps = self._handlers[type(message)](message)
            if steps is not None:
                yield from steps
            if self._ready and not self.finished and mailbox.empty:
                if self._pending:
                    yield from self._send()
                elif self._is_over():
                    self.emit("SIMULATION_ENDS", {})
                    self._ending = True
                    yield from self._send()
        if self.counts.waiters:
            raise BatsimError("the reply to SIMULATION_ENDS requests a call at a later date: Batsim would stop here")

    def _is_over(self) -> bool:
        counts, options = self.counts, self.context.options
        return (
            not self._ending
            and counts.n_job_submitters == 0
            and counts.n_event_submitters == 0
            and (not options.dynamic_jobs or counts.registration_finished)
            and counts.completed == counts.submitted
            and counts.running == counts.switching == counts.waiters == counts.killers == 0
        )

    def _send(self) -> Steps[None]:
        """Send everything that is pending, then forget the jobs that it reports as complete."""
        text = f'{{"now":{self._date()},"events":[{",".join(self._pending)}]}}'
        self._pending = []
        self._ready = False
        yield Spawn(self._exchange(text), self.context.master)
        for job in self._ended:
            job.workload.jobs.pop(job.id, None)
            if not self.context.options.profile_reuse:
                job.workload.drop_profile(job.profile.name)
        self._ended = []

    def _exchange(self, text: str) -> Steps[None]:
        """Be the actor of one exchange: apply the requests of the reply one after the other, at their dates."""
        context = self.context
        began_s = time.perf_counter()
        reply = parse_reply(self._scheduler.exchange(text))
        self.scheduling_s += time.perf_counter() - began_s
        for request in reply.requests:
            message = self._requests.register(request)
            if request.timestamp_s > context.now_s:
                yield Sleep(request.timestamp_s - context.now_s)
            yield context.server.put(context.master, message)
        if reply.now_s > context.now_s:
            yield Sleep(reply.now_s - context.now_s)
        yield context.server.put(context.master, Ready())

    def _is_ready(self, message: Ready) -> None:  # noqa: ARG002 - as of all messages
        self._ready = True
        self.finished = self._ending

    def _handle_request(self, message: RequestArrived) -> Steps[None] | None:
        return self._requests.apply(message.request)

    def _all_submitted(self, message: Submitted) -> None:
        for job in message.jobs:
            job.state = SUBMITTED
            self._submitted(job, announce=True)

    def _registered(self, message: Registered) -> None:
        self._submitted(message.job, announce=self.context.options.acknowledge_dynamic_jobs)

    def _switched(self, message: Switched) -> Steps[None]:
        return self._requests.switched(message.machine_id, message.pstate)

    def _called(self, message: Called) -> None:  # noqa: ARG002 - as of all messages
        self.counts.waiters -= 1
        self.emit("REQUESTED_CALL", {})

    def _message_of_job(self, message: FromJob) -> None:
        self.emit("FROM_JOB_MSG", {"job_id": message.job.id, "msg": message.message})

    def _handle_hello(self, message: Hello) -> None:
        """Do nothing: that a submitter has started is no news."""

    def _submitted(self, job: ExactJob, *, announce: bool) -> None:
        self.counts.submitted += 1
        if announce:
            data = f'"job_id":{dump(job.id)},"job":{dump_job(job.description, job.id)}'
            if self.context.options.forward_profiles:
                data += f',"profile":{dump(reread(job.profile.description))}'
            self._emit_text("JOB_SUBMITTED", f"{{{data}}}")

    def _completed(self, message: Completed) -> None:
        self._end(message.job)

    def _end(self, job: ExactJob) -> None:
        self.counts.running -= 1
        self.counts.completed += 1
        self._ended.append(job)
        data = f'"job_id":{dump(job.id)},"job_state":"{job.state}","return_code":{job.return_code}'
        self._emit_text("JOB_COMPLETED", f'{{{data},"alloc":"{job.allocation_text}"}}')
        self.context.outputs.add_job(job)

    def _killed(self, message: Killed) -> None:
        for job in message.jobs:
            if job.state == KILLED:
                self._end(job)
        progress = {job.id: task.report() for job, task in message.tasks}
        self.emit("JOB_KILLED", {"job_ids": [job.id for job in message.jobs], "job_progress": progress})
        self.counts.killers -= 1

    def _handle_goodbye(self, message: Goodbye) -> None:
        counts = self.counts
        if message.of_jobs:
            counts.n_job_submitters -= 1
            if counts.n_job_submitters == 0:
                self.emit("NOTIFY", {"type": "no_more_static_job_to_submit"})
        else:
            counts.n_event_submitters -= 1
            if counts.n_event_submitters == 0:
                self.emit("NOTIFY", {"type": "no_more_external_event_to_occur"})

    def _handle_external_events(self, message: ExternalEvents) -> None:
        for event in message.events:
            self._apply_external_event(dict(event))

    def _apply_external_event(self, event: dict[str, Any]) -> None:
        """Apply an external event and report it."""
        kind = event["type"]
        if kind not in MACHINE_EVENTS:
            self.emit("NOTIFY", event)
            return
        machines = self.context.machines
        ids = parse_ids(event["resources"], len(machines))
        for machine_id in ids:
            machine = machines[machine_id]
            if (machine.state == "unavailable") == (kind == "machine_unavailable"):
                problem = f"machine {machine_id} ({machine.name}) is {machine.state}"
                raise BatsimError(f"{kind} at {event['timestamp']:f}: {problem}: Batsim would stop here")
            back = "computing" if machine.jobs else "idle"
            machines.set_state((machine,), "unavailable" if kind == "machine_unavailable" else back, self.context.now_s)
        self.emit("NOTIFY", {"type": f"event_{kind}", "resources": format_ids(ids)})
