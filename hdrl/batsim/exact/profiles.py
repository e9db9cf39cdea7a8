"""Profiles of jobs, read from JSON and checked once, as Batsim checks them."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hdrl.base.errors import ReadError, WorkloadError, suggest
from hdrl.base.files import read_text
from hdrl.base.textnumbers import float_of

_SMALLEST_AMOUNT = 1e-200
"""Less than this is done at a rate beyond what a double can hold; the simulation would never end."""


@dataclass(slots=True, eq=False, repr=False, kw_only=True)
class Profile:
    """A profile."""

    name: str
    description: Mapping[str, Any] = field(repr=False)  # its JSON description, as the scheduler gets it
    return_code: int = 0  # return code of a job with it when nothing goes wrong


@dataclass(slots=True, eq=False, repr=False, kw_only=True)
class Delay(Profile):
    """Sleeps for ``delay_s`` seconds."""

    delay_s: float


@dataclass(slots=True, eq=False, repr=False, kw_only=True)
class Parallel(Profile):
    """One parallel task: flop of each executor, and a matrix of bytes between them, row by row."""

    flops: tuple[float, ...]
    transfer_bytes: tuple[float, ...]


@dataclass(slots=True, eq=False, repr=False, kw_only=True)
class Homogeneous(Profile):
    """One parallel task with equal executors; with ``total`` the amounts are shared out between them."""

    flops: float
    transfer_bytes: float
    total: bool


@dataclass(slots=True, eq=False, repr=False, kw_only=True)
class Composed(Profile):
    """Other profiles (by name), one after the other, ``repeat`` times."""

    sequence: tuple[str, ...]
    repeat: int


@dataclass(slots=True, eq=False, repr=False, kw_only=True)
class ParallelStorage(Profile):
    """Each executor reads from a storage host and writes to it (parallel_homogeneous_pfs)."""

    storage: str
    read_bytes: float
    write_bytes: float


@dataclass(slots=True, eq=False, repr=False, kw_only=True)
class DataStaging(Profile):
    """Bytes from one storage host to another."""

    source: str
    target: str
    n_bytes: float


@dataclass(slots=True, eq=False, repr=False, kw_only=True)
class Send(Profile):
    """Sends a message (any JSON value) to the scheduler, then sleeps."""

    message: Any
    sleep_s: float


@dataclass(slots=True, eq=False, repr=False, kw_only=True)
class Receive(Profile):
    """Waits for a message of the scheduler, and goes on with one of three profiles (``""`` for none)."""

    pattern: re.Pattern[str]
    success: str
    failure: str
    timeout: str
    poll_s: float


@dataclass(slots=True, eq=False, repr=False, kw_only=True)
class UsageTrace(Profile):
    """Per rank, phases of ``(usage, flops)``: as many executors as the usage of the host's cores says."""

    ranks: tuple[tuple[tuple[float, float], ...], ...]


class _Fields:
    """Reads members of one description; every problem says where it is."""

    def __init__(self, where: str, name: str, description: Mapping[str, Any], folder: Path) -> None:
        self.where = f"{where}: profile {name!r}"
        self.name = name
        self.description = description
        self.folder = folder

    def error(self, problem: str) -> WorkloadError:
        return WorkloadError(f"{self.where}: {problem}")

    def number(self, key: str, default: float | None = None) -> float:
        value = self.description.get(key, default)
        if value is None:
            raise self.error(f"has no {key!r}")
        return self.amount(key, value)

    def amount(self, key: str, value: object) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.error(f"{key!r} is {_short(value)}, expected a number")
        try:
            result = float(value)
        except OverflowError:
            result = math.inf
        if not (math.isfinite(result) and (result == 0 or result >= _SMALLEST_AMOUNT)):
            raise self.error(f"{key!r} is {_short(value)}, expected 0 or a finite positive number")
        return result

    def numbers(self, key: str) -> tuple[float, ...]:
        values = self.description.get(key)
        if not isinstance(values, list):
            raise self.error(f"{key!r} is {_short(values)}, expected an array of numbers")
        return tuple(self.amount(key, value) for value in values)

    def text(self, key: str, default: str | None = None) -> str:
        value = self.description.get(key, default)
        if not isinstance(value, str):
            raise self.error(f"{key!r} is {_short(value)}, expected a string")
        return value

    def integer(self, key: str, default: int, smallest: int) -> int:
        value = self.description.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int) or not smallest <= value < 2**31:
            raise self.error(f"{key!r} is {_short(value)}, expected an integer of at least {smallest}")
        return value

    def common(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "description": self.description,
            "return_code": self.integer("ret", 0, -(2**31)),
        }


def parse_profile(name: str, description: object, where: str, folder: Path) -> Profile:
    """Return a profile from its JSON description.

    File names in it refer to ``folder``.
    """
    if not isinstance(description, dict):
        raise WorkloadError(f"{where}: profile {name!r} is {_short(description)}, expected an object")
    fields = _Fields(where, name, description, folder)
    kind = fields.text("type")
    if kind == "smpi":
        raise fields.error("type 'smpi' (replay of an MPI trace) is not simulated")
    if kind not in _READERS:
        raise fields.error(f"type {kind!r} is unknown; {suggest(kind, _READERS)}")
    return _READERS[kind](fields)


def _delay(fields: _Fields) -> Profile:
    return Delay(delay_s=fields.number("delay"), **fields.common())


def _parallel(fields: _Fields) -> Profile:
    flops, sizes = fields.numbers("cpu"), fields.numbers("com")
    if not flops:
        raise fields.error("'cpu' is empty")
    if len(sizes) != len(flops) ** 2:
        raise fields.error(f"'com' has {len(sizes)} entries, expected {len(flops)} x {len(flops)}")
    return Parallel(flops=flops, transfer_bytes=sizes, **fields.common())


def _homogeneous(fields: _Fields) -> Profile:
    return Homogeneous(flops=fields.number("cpu"), transfer_bytes=fields.number("com"), total=False, **fields.common())


def _homogeneous_total(fields: _Fields) -> Profile:
    return Homogeneous(flops=fields.number("cpu"), transfer_bytes=fields.number("com"), total=True, **fields.common())


def _composed(fields: _Fields) -> Profile:
    sequence = fields.description.get("seq")
    if not isinstance(sequence, list) or not sequence or not all(isinstance(item, str) for item in sequence):
        raise fields.error(f"'seq' is {_short(sequence)}, expected names of profiles")
    return Composed(sequence=tuple(sequence), repeat=fields.integer("repeat", 1, 1), **fields.common())


def _parallel_storage(fields: _Fields) -> Profile:
    if "bytes_to_read" not in fields.description and "bytes_to_write" not in fields.description:
        raise fields.error("has neither 'bytes_to_read' nor 'bytes_to_write'")
    return ParallelStorage(
        storage=fields.text("storage", fields.text("host", "pfs")),
        read_bytes=fields.number("bytes_to_read", 0.0),
        write_bytes=fields.number("bytes_to_write", 0.0),
        **fields.common(),
    )


def _data_staging(fields: _Fields) -> Profile:
    return DataStaging(
        source=fields.text("from"), target=fields.text("to"), n_bytes=fields.number("nb_bytes"), **fields.common()
    )


def _send(fields: _Fields) -> Profile:
    if "msg" not in fields.description:
        raise fields.error("has no 'msg'")
    return Send(message=fields.description["msg"], sleep_s=fields.number("sleeptime", 1e-7), **fields.common())


def _receive(fields: _Fields) -> Profile:
    pattern = fields.text("regex", ".*")
    try:
        compiled = re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise fields.error(f"'regex' {pattern!r} is not a regular expression ({error})") from None
    poll_s = fields.number("polltime", 0.005)
    if poll_s <= 0:
        raise fields.error("'polltime' is 0, expected a positive number")
    return Receive(
        pattern=compiled,
        success=fields.text("success", ""),
        failure=fields.text("failure", ""),
        timeout=fields.text("timeout", ""),
        poll_s=poll_s,
        **fields.common(),
    )


def _usage_trace(fields: _Fields) -> Profile:
    path = fields.folder / fields.text("trace")
    names = [line.strip() for line in read_text(path).splitlines() if line.strip()]
    if not names:
        raise ReadError(path, "names no trace, expected one file per rank")
    ranks = tuple(_read_rank(path.parent / name, rank) for rank, name in enumerate(names))
    return UsageTrace(ranks=ranks, **fields.common())


def _read_rank(path: Path, rank: int) -> tuple[tuple[float, float], ...]:
    phases = []
    for number, line in enumerate(read_text(path).splitlines(), start=1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        try:
            usage, flops = float_of(words[2]), float_of(words[3])
        except (IndexError, ValueError):
            usage = flops = math.nan
        if (
            len(words) != 4
            or words[0] != str(rank)
            or words[1] != "m_usage"
            or not (0 <= usage <= 1 and 0 <= flops < 1e300)
        ):
            raise ReadError(path, f"{line.strip()[:60]!r}, expected '{rank} m_usage USAGE FLOPS'", line=number)
        phases.append((usage, flops))
    return tuple(phases)


_READERS: dict[str, Callable[[_Fields], Profile]] = {
    "delay": _delay,
    "parallel": _parallel,
    "parallel_homogeneous": _homogeneous,
    "parallel_homogeneous_total": _homogeneous_total,
    "composed": _composed,
    "parallel_homogeneous_pfs": _parallel_storage,
    "data_staging": _data_staging,
    "send": _send,
    "recv": _receive,
    "usage_trace": _usage_trace,
}


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 40 else text[:37] + "..."
