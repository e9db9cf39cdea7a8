"""Batsim 5's protocol, in its JSON flavour, translated to that of Batsim 4 and back.

Written from the documentation of Batsim and batprotocol (https://batprotocol.readthedocs.io/en/latest/) and of PyBatsim
4's sources, and held against conversations with v5.0.0-rc2. The decision system speaks the protocol of Batsim 4, so
that it is the same for every simulator; what differs is here.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from typing import Any

from hdrl.base.errors import BatsimError, suggest
from hdrl.base.textnumbers import int_of
from hdrl.batsim.exact.idsets import parse_ids
from hdrl.batsim.incoming import is_number, shown
from hdrl.version import VERSION

JSON_FORMAT = 2
"""The flag by which a decision component chooses JSON in its answer to Batsim's first message."""

BATPROTOCOL_VERSION = "1.0.0"
_ENERGY_PROBE = "hdrl-energy"
_MS_PER_S = 1000
_SIGN_BIT = 2**31

Data = dict[str, Any]


def check_first_message(message: bytes) -> None:
    """Refuse a first message that is not Batsim 5's: the size of the decision component's configuration, then it."""
    if message[:1] == b"{":
        raise BatsimError("Batsim's first message is JSON, so it speaks the protocol of Batsim 4: batsim.protocol 4")
    size = int.from_bytes(message[:4], "little")
    if len(message) == 4 + size:
        return
    if size in (1, JSON_FORMAT) and len(message) == 8 + int.from_bytes(message[4:8], "little"):
        raise BatsimError(
            "Batsim's first message has flags in front: it is an early Batsim 5, before the decision component chose "
            "the format; hdrl speaks the protocol of v5.0.0-rc2"
        )
    raise BatsimError(f"Batsim's first message has {len(message)} bytes, expected the {4 + size} that its size says")


def hello() -> bytes:
    """Return the answer to the first message: that we use JSON, and EDCHelloEvent with our name and needs."""
    features = (
        "dynamic_registration",
        "profile_reuse",
        "acknowledge_dynamic_jobs",
        "forward_profiles_on_job_submission",
        "forward_profiles_on_jobs_killed",
        "forward_profiles_on_simulation_begins",
    )
    event = {
        "batprotocol_version": BATPROTOCOL_VERSION,
        "decision_component_name": "hdrl",
        "decision_component_version": VERSION,
        "decision_component_commit": "",
        "requested_simulation_features": dict.fromkeys(features, False),
    }
    text = json.dumps({"now": 0.0, "events": [{"timestamp": 0.0, "event_type": "EDCHelloEvent", "event": event}]})
    return JSON_FORMAT.to_bytes(4, "little") + text.encode()


class Batprotocol:
    """One conversation with Batsim 5.

    `decode` turns what Batsim says into a message of Batsim 4, `encode` a reply to that into one to Batsim.
    """

    def __init__(self) -> None:
        self._allocations: dict[str, str] = {}
        self._held: list[Data] = []
        self._said: list[Data] = []
        self._n_calls = self._n_probes = 0
        self._n_hosts = 0
        self._sleep_pstates: dict[int, frozenset[int]] = {}
        self._asleep: set[int] = set()
        self._decoders: dict[str, Callable[[Data], tuple[str, Data] | None]] = {
            "SimulationBeginsEvent": self._begins,
            "SimulationEndsEvent": lambda data: ("SIMULATION_ENDS", {}),  # noqa: ARG005
            "JobSubmittedEvent": _submitted,
            "JobCompletedEvent": self._completed,
            "JobsKilledEvent": _killed,
            "RequestedCallEvent": lambda data: ("REQUESTED_CALL", {}),  # noqa: ARG005
            "HostsPStateChangedEvent": lambda data: _state_changed(data, "pstate"),
            "HostsTurnedOnOffEvent": lambda data: _state_changed(data, "state"),
            "ProbeDataEmittedEvent": _measured,
            "AllStaticJobsHaveBeenSubmittedEvent": lambda data: (  # noqa: ARG005
                "NOTIFY",
                {"type": "no_more_static_job_to_submit"},
            ),
            "AllStaticExternalEventsHaveBeenInjectedEvent": lambda data: (  # noqa: ARG005
                "NOTIFY",
                {"type": "no_more_external_event_to_occur"},
            ),
        }
        self._sayers: dict[str, Callable[[Data], tuple[str, Data] | None]] = {
            "EXECUTE_JOB": self._execute,
            "REJECT_JOB": lambda data: ("RejectJobEvent", {"job_id": data["job_id"]}),
            "KILL_JOB": lambda data: ("KillJobsEvent", {"job_ids": data["job_ids"]}),
            "SET_RESOURCE_STATE": self._switch,
            "CALL_ME_LATER": self._call_later,
            "NOTIFY": lambda data: ("FinishRegistrationEvent", {}),  # noqa: ARG005
            # texts attached to jobs stay with us: Batsim 5 takes none
            "SET_JOB_METADATA": lambda data: None,  # noqa: ARG005
        }

    def decode(self, text: str) -> str:
        """Return a message of Batsim 5 as one of Batsim 4; what comes with SimulationBeginsEvent waits for `more`.

        Raises
        ------
        BatsimError
            If it is no message of Batsim 5.
        """
        message = _parse(text.rstrip("\0"))
        events = []
        for k, event in enumerate(message["events"]):
            decoded = self._decoded_event(f"event {k} of Batsim's message", event)
            if decoded is not None:
                events.append(decoded)
        if len(events) > 1 and events[0]["type"] == "SIMULATION_BEGINS":
            self._held = [{"now": message["now"], "events": events[1:]}]
            events = events[:1]
        return json.dumps({"now": message["now"], "events": events})

    def more(self, reply: str) -> str | None:
        """Keep a reply (of Batsim 4's form) and return the message that is held, if one is."""
        if not self._held:
            return None
        self._said += json.loads(reply)["events"]
        return json.dumps(self._held.pop(0))

    def encode(self, reply: str) -> str:
        """Return a reply of Batsim 4's form as Batsim 5 takes it, with its events by date."""
        data = json.loads(reply)
        events = []
        for event in sorted([*self._said, *data["events"]], key=lambda event: float(event["timestamp"])):
            said = self._request(event)
            if said is not None:
                events.append({"timestamp": event["timestamp"], "event_type": said[0], "event": said[1]})
        self._said = []
        return json.dumps({"now": data["now"], "events": events})

    def _decoded_event(self, where: str, event: object) -> Data | None:
        if not isinstance(event, dict) or not {"timestamp", "event_type"} <= event.keys():
            raise BatsimError(f"{where} is {shown(event)}, expected 'timestamp', 'event_type' and 'event'")
        kind, data = event["event_type"], event.get("event", {})
        if kind == "SimulationErrorEvent":
            raise BatsimError(f"Batsim gives up: {shown(data)}")
        if kind not in self._decoders:
            raise BatsimError(f"{where} is of type {shown(kind)}; {suggest(str(kind), self._decoders)}")
        try:
            decoded = self._decoders[kind](data)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise BatsimError(f"{where}: {kind} is {shown(data)} ({error})") from None
        if decoded is None:
            return None
        return {"timestamp": event["timestamp"], "type": decoded[0], "data": decoded[1]}

    def _request(self, event: Data) -> tuple[str, Data] | None:
        if event["type"] == "QUERY":
            return self._measure(float(event["timestamp"]))
        return self._sayers[event["type"]](event["data"])

    # ---- what Batsim says

    def _begins(self, data: Data) -> tuple[str, Data]:
        hosts = data["computation_hosts"]
        self._n_hosts = len(hosts)
        self._sleep_pstates = {host["id"]: _sleep_pstates(host) for host in hosts}
        machines = [{"id": host["id"], "name": host["name"]} for host in hosts]
        workloads = {workload["name"]: workload["filename"] for workload in data["workloads"]}
        return "SIMULATION_BEGINS", {"compute_resources": machines, "config": {}, "workloads": workloads}

    def _completed(self, data: Data) -> tuple[str, Data]:
        code = int(data.get("return_code", 0))
        data_of_end = {
            "job_id": data["job_id"],
            "job_state": data["state"],
            # an unsigned number in the schema
            "return_code": code - 2 * _SIGN_BIT if code >= _SIGN_BIT else code,
            "alloc": self._allocations.pop(data["job_id"], ""),
        }
        return "JOB_COMPLETED", data_of_end

    # ---- what is said to Batsim

    def _execute(self, data: Data) -> tuple[str, Data]:
        self._allocations[data["job_id"]] = data["alloc"]
        allocation = {
            "host_allocation": data["alloc"],
            "executor_placement_type": "PredefinedExecutorPlacementStrategyWrapper",
            "executor_placement": {"strategy": "SpreadOverHostsFirst"},
        }
        empty: Data = {"profile_allocation_override": [], "storage_placement": []}
        return "ExecuteJobEvent", {"job_id": data["job_id"], "allocation": allocation, **empty}

    def _switch(self, data: Data) -> tuple[str, Data]:
        """Ask for a P-state; what falls asleep or wakes up is turned off or on, which takes the time that it takes."""
        ids, pstate = parse_ids(data["resources"], _SIGN_BIT), int(data["state"])
        falls_asleep = any(pstate in self._sleep_pstates.get(host, ()) for host in ids)
        wakes_up = not self._asleep.isdisjoint(ids)
        self._asleep = self._asleep | set(ids) if falls_asleep else self._asleep - set(ids)
        if falls_asleep or wakes_up:
            return "TurnOnOffHostsEvent", {"host_ids": data["resources"], "state": pstate}
        return "ChangeHostsPStateEvent", {"host_ids": data["resources"], "pstate": pstate}

    def _call_later(self, data: Data) -> tuple[str, Data]:
        self._n_calls += 1
        when = _one_shot(float(data["timestamp"]))
        return "CallMeLaterEvent", {"call_me_later_id": f"hdrl-{self._n_calls}", **_trigger("when", when)}

    def _measure(self, now_s: float) -> tuple[str, Data]:
        """Ask for the energy of all hosts since date 0: a probe of their power, accumulated and never reset."""
        self._n_probes += 1
        nothing: Data = {}
        trigger = _trigger("temporal_trigger", _one_shot(now_s + 1 / _MS_PER_S))
        event = {
            "probe_id": f"{_ENERGY_PROBE}-{self._n_probes}",
            "metrics": "Power",
            "resources_type": "HostResources",
            "resources": {"host_ids": f"0-{self._n_hosts - 1}" if self._n_hosts > 1 else "0"},
            "data_accumulation_strategy_type": "ProbeDataAccumulation",
            "data_accumulation_strategy": {
                "reset_mode_type": "NoReset",
                "reset_mode": nothing,
                "cumulative_function": "Sum",
                "temporal_normalization": False,
            },
            "measurement_triggering_policy_type": "TemporalTriggerWrapper",
            "measurement_triggering_policy": trigger,
            "resources_aggregation_function_type": "Sum",
            "resources_aggregation_function": nothing,
            "temporal_aggregation_function_type": "NoTemporalAggregation",
            "temporal_aggregation_function": nothing,
            "emission_filtering_policy_type": "NoFiltering",
            "emission_filtering_policy": nothing,
        }
        return "CreateProbeEvent", event


def _submitted(data: Data) -> tuple[str, Data]:
    return "JOB_SUBMITTED", {"job_id": data["job_id"], "job": {"res": data["job"]["resource_request"]}}


def _killed(data: Data) -> tuple[str, Data]:
    progress = {}
    for report in data["progresses"]:
        wrapper = report["wrapper"]
        if wrapper["kill_progress_type"] == "KillProgressAtomicProfile":
            progress[report["job_id"]] = {"progress": wrapper["kill_progress"].get("progress", 0.0)}
    return "JOB_KILLED", {"job_ids": data["job_ids"], "job_progress": progress}


def _state_changed(data: Data, key: str) -> tuple[str, Data]:
    return "RESOURCE_STATE_CHANGED", {"resources": data["host_ids"], "state": str(data[key])}


def _sleep_pstates(host: Data) -> frozenset[int]:
    """Return the P-states of a host in which it sleeps, or is on the way: ``sleep:off:on`` of its properties."""
    properties = host.get("properties", [])
    texts = [one["value"] for one in properties if one["key"] == "sleep_pstates"]
    return frozenset(int_of(word) for text in texts for part in text.split(",") for word in part.split(":")[:1])


def _measured(data: Data) -> tuple[str, Data] | None:
    if not data["probe_id"].startswith(_ENERGY_PROBE):
        return None
    return "ANSWER", {"consumed_energy": data["data"]["data"]}


def _one_shot(date_s: float) -> Data:
    """Return a date as batprotocol takes it: a whole number, here of milliseconds, and not before the date."""
    return {"time": math.ceil(round(date_s * _MS_PER_S, 6)), "time_unit": "Millisecond"}


def _trigger(name: str, one_shot: Mapping[str, Any]) -> Data:
    return {f"{name}_type": "OneShot", name: dict(one_shot)}


def _parse(text: str) -> Data:
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BatsimError(f"Batsim's message is not JSON ({error}): {shown(text)}") from None
    if not (isinstance(data, dict) and is_number(data.get("now")) and isinstance(data.get("events"), list)):
        raise BatsimError(f"Batsim's message has no 'now' or no 'events': {shown(text)}")
    return data
