"""The decision system for a simulator that speaks Batsim's protocol: a message in, a reply out.

It keeps the same picture of the machine as the embedded simulator does and decides by the same compiled functions,
but jobs run elsewhere: in the exact engine, or in Batsim itself. Messages that contradict what was said before are
refused, for nothing that follows them could be trusted.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from hdrl.compiled.lend import Lent
from hdrl.errors import BatsimError, DecisionError, SimulationError, suggest
from hdrl.settings.batch.batsim.exact.idsets import format_ids, parse_ids
from hdrl.settings.batch.batsim.incoming import Event, Message, is_number, parse_message, shown
from hdrl.settings.batch.kernel import codes, entries
from hdrl.settings.batch.kernel.rule import NO_RULE, Rule
from hdrl.settings.batch.kernel.state import State
from hdrl.settings.batch.platform.model import Platform
from hdrl.settings.batch.simulation.answer import Answer, job_name, why_stuck, with_room_for_decisions
from hdrl.settings.batch.simulation.decisions import Decision
from hdrl.settings.batch.simulation.embedded import first_state
from hdrl.settings.batch.simulation.trace import JobState
from hdrl.settings.batch.simulation.view import View
from hdrl.settings.batch.workload.model import Workload

_ENDS = {state.name: int(state) for state in JobState if JobState.RUNNING < state < JobState.REJECTED}
_IGNORED_NOTIFICATIONS = ("no_more_external_event_to_occur",)


class DecisionSystem:
    """The decision process, as Batsim knows it.

    For each message: `hear` it, decide (`decide` or `schedule_pair`), then `reply`.

    Parameters
    ----------
    platform, workload
        What is simulated; the workload's sources are called w0, w1, ... as by Batsim.
    seed
        Seed of what is random in a policy.
    energy
        Whether Batsim accounts for energy.
    compatibility
        ``None``, or ``"hdeeprm-0.3.1"``.
    rule
        What a policy adds to its job key and its backfilling.

    Attributes
    ----------
    index_of
        Index of each job by its full id, as Batsim calls it.

    Raises
    ------
    SimulationError
        If Batsim could not follow: the sources have other names, or P-states are needed without energy.
    """

    def __init__(
        self,
        platform: Platform,
        workload: Workload,
        *,
        seed: int = 0,
        energy: bool = True,
        compatibility: str | None = None,
        rule: Rule = NO_RULE,
    ) -> None:
        _check(platform, workload, energy=energy)
        self.platform = platform
        self.workload = workload
        state = first_state(platform, workload, seed=seed, energy=energy, compatibility=compatibility, rule=rule)
        self._answer = Answer(platform, workload, state, may_sleep=True)
        self._energy = energy
        self._ids = [job_name(workload, job) for job in range(workload.n_jobs)]
        self.index_of = {job_id: job for job, job_id in enumerate(self._ids)}
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
        self._has_begun = self._hosts_were_looked_at = False
        self._hosts_may_sleep = any("sleep_pstates" in properties for properties in platform.properties)
        self._listening = True
        self._must_finish_registration = False
        self._n_calls = self._n_questions = self._n_kills = 0
        self._switches: list[tuple[tuple[int, ...], int]] = []

    @property
    def lent(self) -> Lent[State]:
        """The arrays, as the kernel is given them."""
        return self._answer.lent

    @property
    def state(self) -> State:
        """The arrays of the environment: its jobs, its picture of the machine, its answer."""
        return self._answer.state

    @property
    def metadata(self) -> dict[int, str]:
        """Texts attached to jobs, by index."""
        return self._answer.metadata

    @property
    def now_s(self) -> float:
        """Date of the last message, in seconds."""
        return float(self.state.scalars["message_s"][0])

    @property
    def n_done(self) -> int:
        """Number of jobs that have ended or were rejected."""
        return int(self.state.scalars["n_done"][0])

    @property
    def is_over(self) -> bool:
        """Whether Batsim has said that the simulation ends."""
        return bool(self.state.scalars["ended"][0])

    @property
    def is_stuck(self) -> bool:
        """Whether nothing can ever happen again although jobs are waiting: nothing runs and nothing is awaited."""
        s = self.state.scalars[0]
        awaited = self._n_calls + self._n_questions + self._n_kills + len(self._switches)
        runs = bool(np.any(self.state.jobs["state"] == codes.RUNNING))
        return not self.is_over and bool(s["no_more_jobs"]) and not runs and not awaited and int(s["n_queue"]) > 0

    def why_stuck(self) -> str:
        """Say that the simulation is stuck, and on which job."""
        return why_stuck(self.workload, self.state)

    @property
    def view(self) -> View:
        """What a policy may see now.

        Its ``power_w`` is NaN where the power of a host depends on its load, or hosts sleep. Its ``energy_j`` is what
        Batsim answered to `simulation.AskEnergy`, and NaN at messages without such an answer.
        """
        state = self.state
        if state.scalars["flat_power"][0] and not self._hosts_may_sleep:
            # Batsim takes all hosts to be in P-state 0 until it first looks at them.
            pstate = state.pstates if self._hosts_were_looked_at else 0
            state.scalars["power_w"] = self.platform.idle_w[np.arange(self.platform.n_cores), pstate].sum()
        else:
            state.scalars["power_w"] = math.nan
        return View(self.platform, self.workload, self.lent)

    def hear(self, message: str) -> bool:
        """Take in a message.

        Parameters
        ----------
        message
            Its text.

        Returns
        -------
        bool
            Whether jobs came or ended since the last decision, and jobs wait: a policy pair is to decide.

        Raises
        ------
        BatsimError
            If it is no message of Batsim, or contradicts what was said before.
        """
        parsed = parse_message(message)
        self._check_order(parsed)
        state = self.state
        for name in ("message_s", "now", "energy_time_s"):
            state.scalars[name] = parsed.now_s
        state.scalars["energy_j"] = math.nan
        if len(parsed.events) > len(state.events):
            events = np.zeros(2 * len(parsed.events), dtype=state.events.dtype)
            self._answer.state = state = state._replace(events=events)
        state.scalars["n_events"] = 0
        for event in parsed.events:
            self._takers[event.kind](event)
        self._listening = False
        self._answer.state = with_room_for_decisions(self.state, self.platform, self.workload)
        return entries.hear(self.lent)

    def decide(self, decisions: Iterable[Decision]) -> None:
        """Write decisions into the reply.

        Parameters
        ----------
        decisions
            The decisions, in order.

        Raises
        ------
        DecisionError
            At the first one that cannot be followed; those before it are kept.
        """
        self.state.scalars["n_decisions"] += 1
        self._answer.add_all(decisions)

    def schedule_pair(self, job_key: int, core_key: int, backfilling: int = codes.NO_BACKFILLING) -> None:
        """Let a policy pair decide.

        Parameters
        ----------
        job_key, core_key, backfilling
            Numbers of the keys and of the kind of backfilling in `kernel.codes`.
        """
        entries.schedule_pair(self.lent, job_key, core_key, backfilling)

    def reply(self, now_s: float | None = None) -> str:
        """Return the text of the reply, and book it as carried out.

        Parameters
        ----------
        now_s
            Date until which the scheduler is busy with it; ``None``: it takes no time.

        Raises
        ------
        DecisionError
            If what was decided is nothing that Batsim can be asked for.
        """
        state = self.state
        entries.hand_out(self.lent)
        ops = state.ops[: int(state.scalars["n_ops"][0])]
        events: list[dict[str, Any]] = []
        until_s = self.now_s if now_s is None else max(now_s, self.now_s)
        if self._must_finish_registration:
            events.append({"timestamp": self.now_s, "type": "NOTIFY", "data": {"type": "registration_finished"}})
            self._must_finish_registration = False
        for op in ops:
            kind, data = self._request(op)
            if data is not None:
                date_s = float(op["time_s"])
                events.append({"timestamp": date_s, "type": kind, "data": data})
                until_s = max(until_s, date_s)
        self._listening = True
        return json.dumps({"now": until_s, "events": events})

    # ---- what is said to Batsim

    def _request(self, op: Any) -> tuple[str, dict[str, Any] | None]:
        """Return type and data of an event for one op; no data if it is not worth asking for."""
        kind, subject = int(op["kind"]), int(op["subject"])
        named = self.state.pool[int(op["first"]) : int(op["first"]) + int(op["n"])].tolist()
        if kind == codes.EXECUTE:
            self.state.jobs["start_s"][subject] = op["time_s"]
            return "EXECUTE_JOB", {"job_id": self._name(subject), "alloc": format_ids(named)}
        if kind == codes.REJECT:
            self.state.scalars["n_done"] += 1
            return "REJECT_JOB", {"job_id": self._name(subject)}
        if kind == codes.SET_PSTATE:
            self._switches.append((tuple(sorted(named)), subject))
            return "SET_RESOURCE_STATE", {"resources": format_ids(named), "state": str(subject)}
        if kind == codes.CALL:
            self._n_calls += 1
            return "CALL_ME_LATER", {"timestamp": float(op["value"])}
        if kind == codes.KILL:
            return "KILL_JOB", self._kill(named)
        if kind == codes.ANNOTATE:
            return "SET_JOB_METADATA", self._annotate(subject)
        return "QUERY", self._query()

    def _name(self, job: int) -> str:
        return self._ids[job]

    def _kill(self, jobs: list[int]) -> dict[str, Any] | None:
        rows = self.state.jobs
        # Batsim stops if it is to kill a job whose end it has told; it tells nothing if all were asked for before.
        alive = [job for job in jobs if rows["state"][job] == codes.RUNNING and not rows["kill_asked"][job]]
        rows["kill_asked"][alive] = 1
        self._n_kills += 1 if alive else 0
        return {"job_ids": [self._name(job) for job in alive]} if alive else None

    def _annotate(self, job: int) -> dict[str, Any]:
        text = self.metadata[job]
        if self.state.jobs["state"][job] >= codes.SUCCEEDED:
            raise DecisionError(f"job {self._name(job)!r} is over: Batsim takes no text for it any more")
        if '"' in text:
            raise DecisionError(f"job {self._name(job)!r}: its text has a double quote, which Batsim does not take")
        return {"job_id": self._name(job), "metadata": text}

    def _query(self) -> dict[str, Any]:
        if not self._energy:
            raise DecisionError("the energy cannot be asked for: it is not accounted for")
        self._n_questions += 1
        return {"requests": {"consumed_energy": {}}}

    # ---- what Batsim says

    def _check_order(self, message: Message) -> None:
        """Refuse messages that come at the wrong time."""
        kinds = [event.kind for event in message.events]
        if not self._listening:
            raise BatsimError(f"t={message.now_s:g} s: Batsim sent a message before the last one was answered")
        if self.is_over:
            raise BatsimError(f"t={message.now_s:g} s: Batsim sent a message after SIMULATION_ENDS")
        if not kinds:
            raise BatsimError(f"t={message.now_s:g} s: Batsim sent a message without events")
        if message.now_s < self.now_s:
            raise BatsimError(f"Batsim's message is dated {message.now_s:f}, before the last one ({self.now_s:f})")
        if self._has_begun == ("SIMULATION_BEGINS" in kinds) or (not self._has_begun and len(kinds) > 1):
            problem = "again" if self._has_begun else f"expected first and alone, got {', '.join(kinds[:3])}"
            raise BatsimError(f"t={message.now_s:g} s: SIMULATION_BEGINS {problem}")

    def _tell(self, kind: int, subject: int, event: Event) -> None:
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
        self._must_finish_registration = bool(config.get("dynamic-jobs-enabled"))
        self._has_begun = True
        self._tell(codes.TOLD_BEGINS, 0, event)

    def _take_names(self, event: Event, told: list[str]) -> None:
        """Take over what Batsim calls the workload, if there is only one (older versions make up a name)."""
        sources = self.workload.sources
        if len(told) == len(sources) == 1:
            self._ids = [f"{told[0]}!{name}" for name in self.workload.job_ids]
            self.index_of = {job_id: job for job, job_id in enumerate(self._ids)}
        elif sorted(told) != sorted(sources):
            raise self._wrong(event, f"workloads {', '.join(told) or 'none'}, expected {', '.join(sources)}")

    def _ends(self, event: Event) -> None:
        left = np.flatnonzero(self.state.jobs["state"] < codes.SUCCEEDED)
        if len(left):
            raise self._wrong(event, f"{len(left)} jobs have not ended, for instance {self._name(int(left[0]))!r}")
        self.state.scalars["ended"] = 1
        self._tell(codes.TOLD_ENDS, 0, event)

    def _submitted(self, event: Event) -> None:
        job = self._job(event, event.data["job_id"], codes.NOT_SUBMITTED)
        asked, told = int(self.workload.jobs["cores"][job]), event.data["job"].get("res")
        if told != asked:
            raise self._wrong(event, f"job {event.data['job_id']!r} asks for {shown(told)} cores, expected {asked}")
        self.state.jobs["state"][job] = codes.WAITING
        self.state.scalars["n_submitted"] += 1
        self._hosts_were_looked_at = True
        self._tell(codes.TOLD_SUBMITTED, job, event)

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
        self._tell(codes.TOLD_COMPLETED, job, event)

    def _killed(self, event: Event) -> None:
        for job_id in event.data["job_ids"]:
            job = self.index_of.get(job_id, -1)
            if job < 0 or not self.state.jobs["kill_asked"][job]:
                raise self._wrong(event, f"nobody asked to kill job {shown(job_id)}")
            told = event.data["job_progress"].get(job_id)
            progress = told.get("progress") if isinstance(told, dict) else None
            if progress is not None and is_number(progress):
                row = self.state.jobs[job]
                row["remaining"], row["updated_s"] = 1.0 - progress, row["start_s"] + row["run_s"]
        if self._n_kills == 0:
            raise self._wrong(event, "nobody asked for it")
        self._n_kills -= 1
        self._tell(codes.TOLD_KILLED, 0, event)

    def _state_changed(self, event: Event) -> None:
        switch = tuple(self._machines(event, event.data["resources"])), int(event.data["state"])
        if switch not in self._switches:
            raise self._wrong(event, f"nobody asked for P-state {switch[1]} of {shown(event.data['resources'])}")
        self._switches.remove(switch)
        self._hosts_were_looked_at = True
        node = self._switched_node(switch[0][0], switch[1])
        if node is None:
            self._tell(codes.TOLD_PSTATE, switch[1], event)
        else:
            self._tell(codes.TOLD_NODE, node, event)

    def _switched_node(self, core: int, pstate: int) -> int | None:
        """Return the node of a core if it was on its way to a P-state; ``None`` if its P-state alone has changed."""
        node = int(self.platform.node_of_processor[self.platform.processor_of_core[core]])
        rows = self.state.node_power
        if len(rows) == 0:
            return None
        off = int(self.state.scalars["off_pstate"][0])
        way = codes.NODE_SHUTTING_DOWN if pstate == off else codes.NODE_BOOTING
        return node if rows["status"][node] == way else None

    def _called(self, event: Event) -> None:
        if self._n_calls == 0:
            raise self._wrong(event, "nobody asked for it")
        self._n_calls -= 1
        self._tell(codes.TOLD_CALLED, 0, event)

    def _answered(self, event: Event) -> None:
        if self._n_questions == 0:
            raise self._wrong(event, "nobody asked for it")
        self._n_questions -= 1
        self._hosts_were_looked_at = True
        self.state.scalars["energy_j"] = event.data["consumed_energy"]
        self._tell(codes.TOLD_ENERGY, 0, event)

    def _notified(self, event: Event) -> None:
        kind = event.data["type"]
        if kind == "no_more_static_job_to_submit":
            self._tell(codes.TOLD_NO_MORE_JOBS, 0, event)
        elif kind not in _IGNORED_NOTIFICATIONS:
            raise self._wrong(event, f"external event {shown(kind)}: hdrl knows none")

    def _machines(self, event: Event, text: str) -> list[int]:
        try:
            return parse_ids(text, self.platform.n_cores)
        except ValueError as error:
            raise self._wrong(event, str(error)) from None


def _check(platform: Platform, workload: Workload, *, energy: bool) -> None:
    expected = tuple(f"w{k}" for k in range(len(workload.sources)))
    if workload.sources != expected:
        raise SimulationError(
            f"{workload.name}: its sources are called {', '.join(workload.sources)}; Batsim calls them "
            f"{', '.join(expected)}"
        )
    if platform.rules is not None and not energy:
        raise SimulationError(
            f"platform {platform.name!r} changes P-states, which Batsim does with energy only: "
            "switch energy on, or use the embedded simulator"
        )
