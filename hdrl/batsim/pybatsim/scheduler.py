"""hdrl's decision system as a scheduler that PyBatsim runs.

::

    pybatsim -t 0 -o '{"platform": "platform.xml", "policy": "shortest-high_gflops"}' \
        "$(python -m hdrl.batsim.pybatsim)"

PyBatsim takes the class from the name of this file. Options (``-o``): `SchedulerSettings`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from procset import ProcSet

from hdrl.base.errors import DecisionError, HdrlError, OptionsError, suggest
from hdrl.batsim.decision_system import DecisionSystem
from hdrl.batsim.exact.protocol import SchedulerRequest, parse_reply
from hdrl.batsim.pybatsim.require import require_pybatsim
from hdrl.settings.batch.kernel import warm_up
from hdrl.settings.batch.kernel.beginning import NO_RULE, PolicyRule
from hdrl.settings.batch.platform.reader import read_platform
from hdrl.settings.batch.policies.choices import PolicyPair
from hdrl.settings.batch.policies.predicted import OwnPrediction
from hdrl.settings.batch.policies.priorities import OwnPriority
from hdrl.settings.batch.policies.pyfile import read_policy
from hdrl.settings.batch.simulation.embedded import start_by
from hdrl.settings.batch.workload.batsim_json import merge, read_batsim_json

_KINDS: dict[str, tuple[type, ...]] = {"str": (str,), "int": (int,), "bool": (bool,), "str | None": (str, type(None))}


@dataclass(frozen=True, slots=True)
class SchedulerSettings:
    """Settings of a scheduler: its policy, its platform and its workload."""

    platform: str  # the platform that Batsim simulates: its SimGrid file, or one that it was made from
    # the name of a policy, a Python file with a function ``policy(view)`` or ``priority(job, now_s)``, or a model of
    # weights
    policy: str = "shortest-high_gflops"
    # the workload that Batsim reads; by default the files that Batsim itself names, if they can be seen from here
    workload: str = ""
    seed: int = 0  # seed of what is random in a policy
    energy: bool = True  # True if Batsim measures energy (``-E``)
    compatibility: str | None = None  # ``None``, or ``"hdeeprm-0.3.1"``

    @classmethod
    def read(cls, options: Mapping[str, Any]) -> SchedulerSettings:
        """Return the settings in the options (``-o`` or ``-O``) of the command ``pybatsim``."""
        known = {field.name: _KINDS[str(field.type)] for field in fields(cls)}
        for key, value in options.items():
            if key not in known:
                raise OptionsError(f"the scheduler's options have no key {key!r}; {suggest(key, known)}")
            if type(value) not in known[key]:
                names = " or ".join(kind.__name__ for kind in known[key])
                raise OptionsError(f"the scheduler's options: {key!r} is {value!r}, expected {names}")
        if "platform" not in options:
            raise OptionsError("the scheduler's options have no 'platform', expected that which Batsim simulates")
        return cls(**options)


class Scheduler(require_pybatsim().BatsimScheduler):  # type: ignore[misc] # PyBatsim has no types
    """Pass PyBatsim's events to a `DecisionSystem`, and its requests back to PyBatsim.

    PyBatsim loads the class by this name, which follows from the name of the file.
    """

    def __init__(self, options: Mapping[str, Any]) -> None:
        super().__init__(options)
        self._settings = _or_exit(SchedulerSettings.read, options)
        self._policy = _or_exit(_read, self._settings.policy)
        self._system: DecisionSystem | None = None
        warm_up(self.logger.info)  # before anybody waits for an answer

    @property
    def bs(self) -> Any:
        """PyBatsim's face of Batsim; its messages are read along as they come."""
        return self._bs

    @bs.setter
    def bs(self, bs: Any) -> None:
        self._bs = bs
        self._network = bs.network = _RecordingNetwork(bs.network)

    def onSimulationBegins(self) -> None:
        """Read the platform and the workload."""
        rule = self._policy.rule if isinstance(self._policy, PolicyPair) else NO_RULE
        self._system = _or_exit(_new_system, self._settings, self._bs.workloads, rule)

    def onNoMoreEvents(self) -> None:
        """Decide, after all events of a message."""
        _or_exit(self._decide)

    def onDeadlock(self) -> None:
        """Give up: PyBatsim has waited longer than its limit."""
        raise SystemExit("hdrl: Batsim was silent for longer than -t of pybatsim allows (2 s); -t 0 waits forever")

    def _ignore(self, *event: Any) -> None:
        """Do nothing: the message as a whole is what counts."""

    onJobSubmission = onJobCompletion = onJobsKilled = onMachinePStateChanged = _ignore
    onReportEnergyConsumed = onRequestedCall = onNoMoreJobsInWorkloads = onNoMoreExternalEvents = _ignore
    onNotifyEventMachineUnavailable = onNotifyEventMachineAvailable = onNotifyGenericEvent = _ignore

    def _decide(self) -> None:
        assert self._system is not None  # noqa: S101 - Batsim begins with SIMULATION_BEGINS
        system, policy = self._system, self._policy
        is_due = system.receive(self._network.text)
        if system.is_over:
            return
        if isinstance(policy, PolicyPair):
            if is_due:
                system.schedule_pair(policy.job_key, policy.core_key, policy.backfilling)
        elif isinstance(policy, OwnPriority):
            if is_due:
                start_by(system.borrowed, policy.of(system.view), *policy.numbers)
        else:
            system.decide(policy(system.view))
        reply = parse_reply(system.reply())
        for request in reply.requests:
            self._wait_until(request.timestamp_s)
            self._send_request(request)
        self._wait_until(reply.now_s)

    def _wait_until(self, date_s: float) -> None:
        if date_s > self._bs.time():
            self._bs.consume_time(date_s - self._bs.time())

    def _send_request(self, request: SchedulerRequest) -> None:
        """Ask Batsim for something through PyBatsim, which keeps account of it."""
        bs, data = self._bs, request.data
        askers: dict[str, Callable[[], object]] = {
            "EXECUTE_JOB": lambda: bs.execute_job(_with_allocation(bs.jobs[data["job_id"]], data["alloc"])),
            "REJECT_JOB": lambda: bs.reject_jobs_by_id([data["job_id"]]),
            "KILL_JOB": lambda: bs.kill_jobs([bs.jobs[job_id] for job_id in data["job_ids"]]),
            "SET_RESOURCE_STATE": lambda: bs.set_resource_state(data["resources"], data["state"]),
            "CALL_ME_LATER": lambda: bs.wake_me_up_at(data["timestamp"]),
            "SET_JOB_METADATA": lambda: bs.set_job_metadata(data["job_id"], data["metadata"]),
            "QUERY": bs.request_consumed_energy,
            "NOTIFY": bs.notify_registration_finished,
        }
        askers[request.kind]()


class _RecordingNetwork:
    """PyBatsim's network, with the text of the last message kept."""

    def __init__(self, network: Any) -> None:
        self.text = ""
        self._network = network
        self.send = network.send
        self.close = network.close

    def recv(self, *, blocking: bool = False) -> Any:
        """Return the next message, or ``None`` if none came in time."""
        text = self._network.recv_string(blocking=blocking)
        if text is None:
            return None
        self.text = text
        return json.loads(text)


def _read(name: str) -> Any:
    """Return a policy that can decide through PyBatsim."""
    policy = read_policy(name)
    if isinstance(policy, OwnPrediction):
        raise DecisionError(f"{name}: predictors in Python are simulated by hdrl's embedded simulator alone")
    return policy


def _or_exit(function: Callable[..., Any], *args: Any) -> Any:
    """Call a function; a mistake of the user ends the process with one line instead of a traceback."""
    try:
        return function(*args)
    except HdrlError as error:
        raise SystemExit(f"hdrl: {error}") from error


def _new_system(settings: SchedulerSettings, files: Mapping[str, str], rule: PolicyRule) -> DecisionSystem:
    """Return the decision system for a simulation."""
    files = {"w0": settings.workload} if settings.workload else files
    parts = [read_batsim_json(path, source=source) for source, path in files.items()]
    return DecisionSystem(
        read_platform(settings.platform),
        merge(parts),
        seed=settings.seed,
        energy=settings.energy,
        compatibility=settings.compatibility,
        rule=rule,
    )


def _with_allocation(job: Any, text: str) -> Any:
    job.allocation = ProcSet.from_str(text)
    return job
