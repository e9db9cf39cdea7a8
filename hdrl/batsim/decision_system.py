"""The decision system for a simulator that speaks Batsim's protocol: a message in, a reply out.

It keeps the same picture of the machine as the embedded simulator does and decides by the same compiled functions,
but jobs run elsewhere: in the exact engine, or in Batsim itself.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from hdrl.base.errors import DecisionError, SimulationError
from hdrl.batsim.exact.idsets import format_ids
from hdrl.batsim.incoming import parse_message
from hdrl.batsim.picture import BatsimPicture
from hdrl.compiled.borrowed import Borrowed
from hdrl.settings.batch.kernel import codes, entries
from hdrl.settings.batch.kernel.beginning import NO_RULE, PolicyRule
from hdrl.settings.batch.kernel.state import BatchState
from hdrl.settings.batch.platform.model import Platform
from hdrl.settings.batch.simulation.answer import Answer, deadlock_message, with_room_for_decisions
from hdrl.settings.batch.simulation.decisions import Decision
from hdrl.settings.batch.simulation.embedded import first_state
from hdrl.settings.batch.simulation.view import View
from hdrl.settings.batch.workload.model import Workload


class DecisionSystem:
    """The decision process, as Batsim sees it.

    For each message: `receive` it, decide (`decide` or `schedule_pair`), then `reply`.

    Parameters
    ----------
    platform, workload
        Machine and jobs; the workload's sources are called w0, w1, ... as by Batsim.
    rule
        Rules of a policy beyond its job key and its backfilling.

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
        rule: PolicyRule = NO_RULE,
    ) -> None:
        _check(platform, workload, energy=energy)
        self.platform = platform
        self.workload = workload
        state = first_state(platform, workload, seed=seed, energy=energy, compatibility=compatibility, rule=rule)
        self._answer = Answer(platform, workload, state, may_sleep=True)
        self._energy = energy
        self._picture = BatsimPicture(platform, workload, self._answer)
        self._hosts_may_sleep = any("sleep_pstates" in properties for properties in platform.properties)

    @property
    def borrowed(self) -> Borrowed[BatchState]:
        """The arrays, as the kernel is given them."""
        return self._answer.borrowed

    @property
    def state(self) -> BatchState:
        """The arrays of the environment: its jobs, its picture of the machine, its answer."""
        return self._answer.state

    @property
    def index_of(self) -> dict[str, int]:
        """Index of each job by its full id, as Batsim calls it."""
        return self._picture.index_of

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
        """True if Batsim has ended the simulation."""
        return bool(self.state.scalars["ended"][0])

    @property
    def is_stuck(self) -> bool:
        """True if jobs are waiting and nothing can ever happen again: nothing runs and nothing is awaited."""
        s = self.state.scalars[0]
        runs = bool(np.any(self.state.jobs["state"] == codes.RUNNING))
        goes_on = self.is_over or runs or bool(self._picture.awaited)
        return not goes_on and bool(s["no_more_jobs"]) and int(s["n_queue"]) > 0

    def deadlock_message(self) -> str:
        """Say that the simulation is stuck, and on which job."""
        return deadlock_message(self.workload, self.state)

    @property
    def view(self) -> View:
        """View of the present state for a policy.

        Its ``power_w`` is NaN where the power of a host depends on its load, or hosts sleep. Its ``energy_j`` is what
        Batsim answered to `simulation.AskEnergy`, and NaN at messages without such an answer.
        """
        state = self.state
        if state.scalars["flat_power"][0] and not self._hosts_may_sleep:
            # Batsim takes all hosts to be in P-state 0 until it first looks at them.
            pstate = state.pstates if self._picture.hosts_were_looked_at else 0
            state.scalars["power_w"] = self.platform.idle_w[np.arange(self.platform.n_cores), pstate].sum()
        else:
            state.scalars["power_w"] = math.nan
        return View(self.platform, self.workload, self.borrowed)

    def receive(self, message: str) -> bool:
        """Take in a message; raise BatsimError if it is no message of Batsim, or contradicts what was said before."""
        self._picture.take(parse_message(message))
        self._answer.state = with_room_for_decisions(self.state, self.platform, self.workload)
        return entries.take_events(self.borrowed)

    def decide(self, decisions: Iterable[Decision]) -> None:
        """Write decisions into the reply.

        Raise DecisionError at the first one that cannot be followed; those before it are kept.
        """
        self.state.scalars["n_decisions"] += 1
        self._answer.add_all(decisions)

    def schedule_pair(self, job_key: int, core_key: int, backfilling: int = codes.NO_BACKFILLING) -> None:
        """Let a policy pair decide, by the numbers of its keys and its backfilling in `kernel.codes`."""
        entries.schedule_pair(self.borrowed, job_key, core_key, backfilling)

    def reply(self, now_s: float | None = None) -> str:
        """Return the text of the reply, and note it as carried out.

        The scheduler is busy with it until ``now_s``; ``None``: it takes no time. Raise DecisionError for a decision
        that the protocol cannot express.
        """
        state = self.state
        entries.hand_out(self.borrowed)
        ops = state.ops[: int(state.scalars["n_ops"][0])]
        events: list[dict[str, Any]] = []
        until_s = self.now_s if now_s is None else max(now_s, self.now_s)
        if self._picture.must_finish_registration:
            events.append({"timestamp": self.now_s, "type": "NOTIFY", "data": {"type": "registration_finished"}})
            self._picture.must_finish_registration = False
        for op in ops:
            kind, data = self._request(op)
            if data is not None:
                date_s = float(op["time_s"])
                events.append({"timestamp": date_s, "type": kind, "data": data})
                until_s = max(until_s, date_s)
        self._picture.is_listening = True
        return json.dumps({"now": until_s, "events": events})

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
            self._picture.await_switch(named, subject)
            return "SET_RESOURCE_STATE", {"resources": format_ids(named), "state": str(subject)}
        if kind == codes.CALL:
            self._picture.awaited.n_calls += 1
            return "CALL_ME_LATER", {"timestamp": float(op["value"])}
        if kind == codes.KILL:
            return "KILL_JOB", self._kill(named)
        if kind == codes.ANNOTATE:
            return "SET_JOB_METADATA", self._annotate(subject)
        return "QUERY", self._query()

    def _name(self, job: int) -> str:
        return self._picture.ids[job]

    def _kill(self, jobs: list[int]) -> dict[str, Any] | None:
        rows = self.state.jobs
        # Batsim stops at a kill of a job whose end it has reported, and sends nothing if all were requested already.
        alive = [job for job in jobs if rows["state"][job] == codes.RUNNING and not rows["kill_requested"][job]]
        rows["kill_requested"][alive] = 1
        self._picture.awaited.n_kills += 1 if alive else 0
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
            raise DecisionError("a policy cannot request the energy: this simulation has none")
        self._picture.awaited.n_questions += 1
        return {"requests": {"consumed_energy": {}}}


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
