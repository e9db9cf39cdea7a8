"""Batsim's messages: the text that Batsim writes, and the requests that a scheduler may reply with."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from json.encoder import encode_basestring
from typing import Any

from hdrl.base.errors import BatsimError, suggest
from hdrl.batsim.exact.rapidjson import loads, reread

_LONGEST_DOUBLE = 30
_NESTED = (dict, list)
_NUMBERS = (int, float)
_SPECIAL = re.compile(r'["\\\x00-\x1f]')
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def dump(value: Any) -> str:
    """Write a JSON value as Batsim does: no spaces, six decimals for every number that is no integer.

    Raise BatsimError if a number needs more characters than Batsim has room for.
    """
    return _WRITERS.get(type(value), _write_other)(value)


def _write_other(value: Any) -> str:
    """Write a value of another type than `json.loads` gives."""
    return next((write for kind, write in _WRITERS.items() if isinstance(value, kind)), _double)(value)


def _object(value: Mapping[str, Any]) -> str:
    get = _WRITERS.get
    members = [f"{_name(key)}:{get(type(item), _write_other)(item)}" for key, item in value.items()]
    return "{" + ",".join(members) + "}"


def _array(value: Iterable[Any]) -> str:
    return "[" + ",".join(map(dump, value)) + "]"


def _integer(value: int) -> str:
    return str(value) if -(2**63) <= value < 2**64 else _double(value)


def dump_job(description: Mapping[str, Any], job_id: str) -> str:
    """Write a job's description as Batsim does: every member ``id``, nested ones too, becomes the full id."""
    members = []
    for key, value in description.items():
        kind = type(value)
        if kind is dict or kind is list:
            text = dump(_with_id(reread(value), job_id))
        elif key == "id":
            text = _text(job_id)
        else:
            text = _WRITERS.get(kind, _write_other)(value if kind is int or kind is str else reread(value))
        members.append(f"{_name(key)}:{text}")
    return "{" + ",".join(members) + "}"


@lru_cache(maxsize=1000)
def _name(key: str) -> str:
    return _text(key)


def _text(value: str) -> str:
    text = encode_basestring(value)
    if "\\u" not in text:
        return text
    # hexadecimal digits in capitals
    return '"' + _SPECIAL.sub(lambda match: _ESCAPES.get(match[0]) or f"\\u{ord(match[0]):04X}", value) + '"'


def _double(value: float) -> str:
    try:
        text = f"{float(value):f}"
    except OverflowError:
        text = "9" * 400
    if len(text) > _LONGEST_DOUBLE:
        raise BatsimError(f"{text[:12]}... has {len(text)} characters with six decimals: Batsim would stop here")
    return text


_WRITERS: dict[type, Callable[[Any], str]] = {
    str: _text,
    float: _double,
    bool: lambda value: "true" if value else "false",
    int: _integer,
    dict: _object,
    list: _array,
    tuple: _array,
    type(None): lambda _: "null",
}
"""Functions that write a JSON value, by its type."""


def with_id(description: Mapping[str, Any], job_id: str) -> dict[str, Any]:
    """Return a job's description as Batsim sends it: every member ``id``, nested ones too, becomes the full id."""
    return {
        key: _with_id(value, job_id) if isinstance(value, _NESTED) else job_id if key == "id" else value
        for key, value in description.items()
    }


def _with_id(value: Any, job_id: str) -> Any:
    if isinstance(value, dict):
        return with_id(value, job_id)
    if isinstance(value, list):
        return [_with_id(item, job_id) for item in value]
    return value


@dataclass(slots=True, eq=False, repr=False)
class SchedulerRequest:
    """A request of the scheduler."""

    timestamp_s: float  # date at which it is to be applied
    kind: str  # its type, as in the protocol
    data: dict[str, Any]  # its data, with the members that this type needs


@dataclass(slots=True, eq=False, repr=False)
class Reply:
    """Reply of a scheduler: requests in order, and the date at which it is ready again."""

    now_s: float
    requests: list[SchedulerRequest]


Check = Callable[[Any], bool]


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_number(value: Any) -> bool:
    return type(value) in _NUMBERS and abs(value) < 1e300


def _is_object(value: Any) -> bool:
    return isinstance(value, dict)


def _is_ids(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(item, str) for item in value)


def _is_query(value: Any) -> bool:
    return isinstance(value, dict) and list(value) == ["consumed_energy"]


def _is_metadata(value: Any) -> bool:
    return isinstance(value, str) and '"' not in value


def _is_pstate(value: Any) -> bool:
    return isinstance(value, str) and re.fullmatch(r"[0-9]{1,6}", value) is not None


_TEXT = (_is_text, "a string")
_MEMBERS: dict[str, dict[str, tuple[Check, str]]] = {
    "EXECUTE_JOB": {"job_id": _TEXT, "alloc": _TEXT},
    "REJECT_JOB": {"job_id": _TEXT},
    "KILL_JOB": {"job_ids": (_is_ids, "an array of job ids")},
    "SET_RESOURCE_STATE": {"resources": _TEXT, "state": (_is_pstate, "a P-state, as a string")},
    "CALL_ME_LATER": {"timestamp": (_is_number, "a number")},
    "QUERY": {"requests": (_is_query, '{"consumed_energy": {}}')},
    "SET_JOB_METADATA": {"job_id": _TEXT, "metadata": (_is_metadata, "a string without double quotes")},
    "TO_JOB_MSG": {"job_id": _TEXT, "msg": _TEXT},
    "CHANGE_JOB_STATE": {"job_id": _TEXT, "job_state": _TEXT},
    "REGISTER_PROFILE": {"workload_name": _TEXT, "profile_name": _TEXT, "profile": (_is_object, "an object")},
    "REGISTER_JOB": {"job_id": _TEXT, "job": (_is_object, "an object")},
    "NOTIFY": {"type": _TEXT},
}
_REQUEST_MEMBERS = {"timestamp", "type", "data"}
_EXECUTE_OPTIONS = {"mapping", "storage_mapping", "additional_io_job"}
_REPLY_LENGTH_SHOWN = 200


def parse_reply(text: str) -> Reply:
    """Return the reply of a scheduler; raise BatsimError if it is no JSON, or not of the protocol."""
    data = _parse_json(text)
    if not isinstance(data, dict) or "now" not in data or "events" not in data:
        raise BatsimError(f"the scheduler's reply has no 'now' or no 'events': {_shown(text)}")
    now_s, events = data["now"], data["events"]
    if not _is_number(now_s):
        raise BatsimError(f"'now' of the scheduler's reply is {_shown(now_s)}, expected a number")
    if not isinstance(events, list):
        raise BatsimError(f"'events' of the scheduler's reply is {_shown(events)}, expected an array")
    requests = [_parse_request(k, event) for k, event in enumerate(events)]
    for k, request in enumerate(requests):
        if request.timestamp_s > now_s:
            raise BatsimError(
                f"events[{k}] of the scheduler's reply is dated {request.timestamp_s:f}, after its 'now' of {now_s:f}"
            )
    return Reply(float(now_s), requests)


def _parse_json(text: str) -> Any:
    try:
        return loads(text)
    except (ValueError, RecursionError) as error:
        raise BatsimError(f"the scheduler's reply is not JSON ({error}): {_shown(text)}") from None


def _parse_request(k: int, event: Any) -> SchedulerRequest:
    if not isinstance(event, dict) or event.keys() != _REQUEST_MEMBERS:
        raise _wrong(k, f" is {_shown(event)}, expected 'timestamp', 'type' and 'data'")
    timestamp_s, kind, data = event["timestamp"], event["type"], event["data"]
    if not _is_number(timestamp_s):
        raise _wrong(k, f": 'timestamp' is {_shown(timestamp_s)}, expected a number")
    if not isinstance(kind, str) or kind not in _MEMBERS:
        raise _wrong(k, f": type {_shown(kind)} is unknown; {suggest(str(kind), _MEMBERS)}")
    if not isinstance(data, dict):
        raise _wrong(k, f": {kind}: 'data' is {_shown(data)}, expected an object")
    members = _MEMBERS[kind]
    for name, (check, expected) in members.items():
        if name not in data:
            raise _wrong(k, f": {kind} has no {name!r}")
        if not check(data[name]):
            raise _wrong(k, f": {kind}: {name!r} is {_shown(data[name])}, expected {expected}")
    if len(data) > len(members):
        _check_extra(f"events[{k}] of the scheduler's reply: {kind}", kind, data)
    return SchedulerRequest(float(timestamp_s), kind, data)


def _wrong(k: int, problem: str) -> BatsimError:
    return BatsimError(f"events[{k}] of the scheduler's reply{problem}")


def _check_extra(where: str, kind: str, data: dict[str, Any]) -> None:
    extra = [name for name in data if name not in _MEMBERS[kind]]
    if kind == "EXECUTE_JOB":
        _check_options(where, extra)
    else:
        raise BatsimError(f"{where} has a member {extra[0]!r} that Batsim does not expect")


def _check_options(where: str, extra: list[str]) -> None:
    unknown = [name for name in extra if name not in _EXECUTE_OPTIONS]
    if unknown:
        raise BatsimError(f"{where} has a member {unknown[0]!r}; {suggest(unknown[0], _EXECUTE_OPTIONS)}")
    if len(extra) > 1:
        raise BatsimError(f"{where} has {len(extra) + 2} members; Batsim accepts two or three")


def parse_mapping(where: str, mapping: Any, n_allocated: int) -> list[int]:
    """Return the position in the allocation of each executor, in the order of the executors."""
    if not isinstance(mapping, dict) or not mapping:
        raise BatsimError(f"{where}: 'mapping' is {_shown(mapping)}, expected an object")
    pairs = []
    for executor, position in mapping.items():
        texts = (executor, position if isinstance(position, str) else "")
        if not all(text.isdecimal() and text.isascii() and len(text) < 9 for text in texts):
            raise BatsimError(
                f"{where}: 'mapping' maps {executor!r} to {_shown(position)}, expected integers in strings"
            )
        if int(texts[1]) >= n_allocated:
            raise BatsimError(f"{where}: 'mapping' has index {position}, but the allocation has {n_allocated} hosts")
        pairs.append((int(executor), int(texts[1])))
    return [position for _, position in sorted(pairs)]


def parse_storage_mapping(where: str, mapping: Any) -> dict[str, int]:
    """Return the machine of each storage label."""
    if not isinstance(mapping, dict):
        raise BatsimError(f"{where}: 'storage_mapping' is {_shown(mapping)}, expected an object")
    for label, machine in mapping.items():
        if isinstance(machine, bool) or not isinstance(machine, int):
            raise BatsimError(f"{where}: 'storage_mapping' maps {label!r} to {_shown(machine)}, expected a machine id")
    return dict(mapping)


@dataclass(slots=True, eq=False, repr=False)
class AddedIo:
    """Transfers that the scheduler adds to a job when it starts it (``additional_io_job``)."""

    alloc: str  # the machines that take part, as a set of ids
    profile_name: str  # the profile that says how much is transferred
    profile: dict[str, Any] | None  # its description, ``None`` for a profile that there is already


def parse_added_io(where: str, value: Any) -> AddedIo:
    """Return the request of an ``additional_io_job``."""
    where = f"{where}: 'additional_io_job'"
    if not isinstance(value, dict):
        raise BatsimError(f"{where} is {_shown(value)}, expected an object")
    for name in ("alloc", "profile_name"):
        if not isinstance(value.get(name), str):
            raise BatsimError(f"{where}: {name!r} is {_shown(value.get(name))}, expected a string")
    profile = value.get("profile")
    if "profile" in value and not isinstance(profile, dict):
        raise BatsimError(f"{where}: 'profile' is {_shown(profile)}, expected an object")
    return AddedIo(value["alloc"], value["profile_name"], profile)


def _shown(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, default=repr)
    text = " ".join(text.split())
    return repr(text if len(text) <= _REPLY_LENGTH_SHOWN else text[: _REPLY_LENGTH_SHOWN - 3] + "...")
