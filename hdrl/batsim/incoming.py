"""Batsim's messages as values: messages of versions 3.1 to 4.2.1, every member checked."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from hdrl.base.errors import BatsimError, suggest

_SHOWN = 120


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened."""

    timestamp_s: float  # when, in simulated seconds
    kind: str  # its type, as in the protocol
    data: Mapping[str, Any]  # its data; the members that hdrl uses are there and of the right type


@dataclass(frozen=True, slots=True)
class Message:
    """A message of Batsim: the date at which it was sent, and what happened since the last one."""

    now_s: float
    events: tuple[Event, ...]


def shown(value: object) -> str:
    """Return a text or a value of JSON in one line of a readable length, quoted."""
    text = value if isinstance(value, str) else json.dumps(value, default=repr)
    text = " ".join(text.split())
    return repr(text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "...")


def is_number(value: object) -> bool:
    """Return whether a JSON value is a number that a date or an energy can be."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e300


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_object(value: object) -> bool:
    return isinstance(value, dict)


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**31


def _is_ids(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _is_pstate(value: object) -> bool:
    return isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < 9


def _is_machines(value: object) -> bool:
    return isinstance(value, list) and all(
        isinstance(item, dict) and _is_whole(item.get("id")) and _is_text(item.get("name")) for item in value
    )


_TEXT = (_is_text, "a string")
_OBJECT = (_is_object, "an object")
_NUMBER = (is_number, "a number")
_MEMBERS: dict[str, dict[str, tuple[Callable[[object], bool], str]]] = {
    "SIMULATION_BEGINS": {
        "compute_resources": (_is_machines, "an array of objects with 'id' and 'name'"),
        "config": _OBJECT,
        "workloads": _OBJECT,
    },
    "SIMULATION_ENDS": {},
    "JOB_SUBMITTED": {"job_id": _TEXT, "job": _OBJECT},
    "JOB_COMPLETED": {
        "job_id": _TEXT,
        "job_state": _TEXT,
        "return_code": (_is_whole, "a whole number"),
        "alloc": _TEXT,
    },
    "JOB_KILLED": {"job_ids": (_is_ids, "an array of job ids"), "job_progress": _OBJECT},
    "RESOURCE_STATE_CHANGED": {"resources": _TEXT, "state": (_is_pstate, "a P-state, as a string")},
    "REQUESTED_CALL": {},
    "ANSWER": {"consumed_energy": _NUMBER},
    "NOTIFY": {"type": _TEXT},
}


def parse_message(text: str) -> Message:
    """Return a message of Batsim; raise BatsimError if it is no JSON, or no message of Batsim 3.1 to 4.2."""
    data = _parse_json(text)
    if not (isinstance(data, dict) and {"now", "events"} <= data.keys()):
        raise BatsimError(f"Batsim's message has no 'now' or no 'events': {shown(text)}")
    now_s, events = data["now"], data["events"]
    if not is_number(now_s) or now_s < 0:
        raise BatsimError(f"'now' of Batsim's message is {shown(now_s)}, expected a date of at least 0")
    if not isinstance(events, list):
        raise BatsimError(f"'events' of Batsim's message is {shown(events)}, expected an array")
    where = f"t={now_s:g} s: Batsim's event"
    return Message(float(now_s), tuple(_parse_event(f"{where} {k}", now_s, event) for k, event in enumerate(events)))


def _parse_json(text: str) -> Any:
    def refuse(constant: str) -> None:
        raise ValueError(f"{constant} is not a JSON number")

    try:
        return json.loads(text, parse_constant=refuse)
    except (ValueError, RecursionError) as error:
        raise BatsimError(
            f"Batsim's message is not JSON ({error}): {shown(text)}; hdrl speaks the protocol of Batsim 3.1 to 4.2"
        ) from None


def _parse_event(where: str, now_s: float, event: object) -> Event:
    if not isinstance(event, dict) or not {"timestamp", "type", "data"} <= event.keys():
        raise BatsimError(f"{where} is {shown(event)}, expected 'timestamp', 'type' and 'data'")
    timestamp_s, kind, data = event["timestamp"], event["type"], event["data"]
    if not is_number(timestamp_s) or timestamp_s < 0:
        raise BatsimError(f"{where}: 'timestamp' is {shown(timestamp_s)}, expected a date of at least 0")
    if timestamp_s > now_s:
        raise BatsimError(f"{where} is dated {timestamp_s:f}, after the message's 'now'")
    if not isinstance(kind, str) or kind not in _MEMBERS:
        raise BatsimError(f"{where} is of the unknown type {shown(kind)}; {suggest(str(kind), _MEMBERS)}")
    if not isinstance(data, dict):
        raise BatsimError(f"{where}: {kind}: 'data' is {shown(data)}, expected an object")
    for name, (check, expected) in _MEMBERS[kind].items():
        if name not in data:
            raise BatsimError(f"{where}: {kind} has no {name!r}; hdrl speaks the protocol of Batsim 3.1 to 4.2")
        if not check(data[name]):
            raise BatsimError(f"{where}: {kind}: {name!r} is {shown(data[name])}, expected {expected}")
    return Event(float(timestamp_s), kind, data)
