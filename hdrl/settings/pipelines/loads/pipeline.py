"""Pipelines: graphs of kernels, their worst-case times, and the groups that can be fused."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import NoReturn, TypeAlias

from hdrl.base.errors import WorkloadError
from hdrl.settings.pipelines.machine import KINDS

NEVER = -1
"""The time of what cannot run on units of a kind."""

MAX_US = 10**12
"""The longest time or period, about eleven days: sums of them stay exact."""

MAX_KERNELS = 4096
"""The most kernels of a pipeline."""

_Refuse: TypeAlias = Callable[[str], NoReturn]


@dataclass(frozen=True, slots=True)
class Kernel:
    """A step of a pipeline, with worst-case times; `NEVER` where it cannot run."""

    name: str
    cpu_us: int
    gpu_us: int

    @property
    def times_us(self) -> tuple[int, int]:
        """The times by the numbers of `KINDS`."""
        return self.cpu_us, self.gpu_us


@dataclass(frozen=True, slots=True)
class Group:
    """Kernels that can be run as one, fused.

    ``kernels`` are their numbers, ascending, at least two; times are worst cases, `NEVER` where the group cannot run.
    """

    kernels: tuple[int, ...]
    cpu_us: int
    gpu_us: int

    @property
    def times_us(self) -> tuple[int, int]:
        """The times by the numbers of `KINDS`."""
        return self.cpu_us, self.gpu_us


@dataclass(frozen=True)
class Pipeline:
    """A pipeline; making one checks it.

    Attributes
    ----------
    edges
        Pairs of kernels by number; the second waits for the first.
    groups
        Groups that can be fused. No path leads out of a group and back into it.
    phase_us
        Date of the first release.
    tolerance_us
        Lateness up to which an instance still counts as met, in microseconds.
    deadline_us
        Deadline, counted from the release; 0: the period.
    ecu
        The only ECU whose units may run it; -1: any.

    Raises
    ------
    WorkloadError
        If it makes no sense.
    """

    name: str
    kernels: tuple[Kernel, ...]
    edges: tuple[tuple[int, int], ...] = ()
    groups: tuple[Group, ...] = ()
    phase_us: int = 0
    tolerance_us: int = 0
    deadline_us: int = 0
    ecu: int = -1

    def __post_init__(self) -> None:
        _check(self)

    @cached_property
    def successors(self) -> tuple[tuple[int, ...], ...]:
        """For each kernel those that wait for it, ascending."""
        return tuple(tuple(sorted(v for u, v in self.edges if u == k)) for k in range(len(self.kernels)))

    @cached_property
    def predecessors(self) -> tuple[tuple[int, ...], ...]:
        """For each kernel those that it waits for, ascending."""
        return tuple(tuple(sorted(u for u, v in self.edges if v == k)) for k in range(len(self.kernels)))

    @cached_property
    def order(self) -> tuple[int, ...]:
        """The kernels in an order in which none comes before what it waits for; shorter if the graph has a cycle."""
        waits = [len(one) for one in self.predecessors]
        free = [k for k, n in enumerate(waits) if n == 0]
        order: list[int] = []
        while free:
            kernel = free.pop(0)
            order.append(kernel)
            for after in self.successors[kernel]:
                waits[after] -= 1
                if waits[after] == 0:
                    free.append(after)
        return tuple(order)

    @cached_property
    def options(self) -> tuple[Group, ...]:
        """Everything that can be started: each kernel alone, then the groups."""
        return (*(Group((k,), one.cpu_us, one.gpu_us) for k, one in enumerate(self.kernels)), *self.groups)

    @cached_property
    def choices(self) -> tuple[tuple[int, ...], ...]:
        """For each kernel the options that begin with it, alone first, then by size: numbers in `options`.

        A group begins with the first of its kernels that waits for none of the group.
        """
        if not self.groups:
            return tuple((k,) for k in range(len(self.kernels)))
        chosen: list[list[int]] = [[k] for k in range(len(self.kernels))]
        for number, group in enumerate(self.groups, start=len(self.kernels)):
            members = set(group.kernels)
            first = min(k for k in group.kernels if not members & set(self.predecessors[k]))
            chosen[first].append(number)
        return tuple(tuple(sorted(one, key=lambda n: (len(self.options[n].kernels), n))) for one in chosen)

    def sha256(self) -> str:
        """Return the SHA-256 of all of it, hexadecimal; names do not count."""
        value = asdict(self)
        del value["name"]
        for kernel in value["kernels"]:
            del kernel["name"]
        return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def _check(pipeline: Pipeline) -> None:
    def refuse(problem: str) -> NoReturn:
        raise WorkloadError(f"pipeline {pipeline.name!r}: {problem}")

    if not 1 <= len(pipeline.kernels) <= MAX_KERNELS:
        refuse(f"{len(pipeline.kernels)} kernels, expected 1 to {MAX_KERNELS}")
    for name in ("phase_us", "tolerance_us", "deadline_us"):
        if not 0 <= getattr(pipeline, name) <= MAX_US:
            refuse(f"{name} is {getattr(pipeline, name)}, expected 0 to {MAX_US}")
    if pipeline.ecu < -1:
        refuse(f"ecu is {pipeline.ecu}, expected a number from 0 on, or -1 for any")
    for number, kernel in enumerate(pipeline.kernels):
        _check_times(f"kernel {number} ({kernel.name})", kernel.times_us, refuse)
    _check_edges(pipeline, refuse)
    seen: set[tuple[int, ...]] = set()
    for group in pipeline.groups:
        _check_group(pipeline, group, refuse)
        if group.kernels in seen:
            refuse(f"group {_text(group)} appears twice")
        seen.add(group.kernels)


def _check_edges(pipeline: Pipeline, refuse: _Refuse) -> None:
    n = len(pipeline.kernels)
    for u, v in pipeline.edges:
        if not (0 <= u < n and 0 <= v < n):
            refuse(f"edge {u} {v}, but its kernels are 0 to {n - 1}")
    if len(set(pipeline.edges)) < len(pipeline.edges):
        refuse("an edge appears twice")
    if pipeline.edges and len(pipeline.order) < n:
        refuse("its edges go round in a circle")


def _check_times(what: str, times_us: tuple[int, int], refuse: _Refuse) -> None:
    for kind, time_us in zip(KINDS, times_us, strict=True):
        if time_us != NEVER and not 1 <= time_us <= MAX_US:
            refuse(f"{what} takes {time_us} us on a {kind}, expected 1 to {MAX_US}")
    if max(times_us) == NEVER:
        refuse(f"{what} can run nowhere")


def _check_group(pipeline: Pipeline, group: Group, refuse: _Refuse) -> None:
    members = group.kernels
    if len(members) < 2 or list(members) != sorted(set(members)):
        refuse(f"group {_text(group)}, expected at least two kernels in ascending order")
    if members[0] < 0 or members[-1] >= len(pipeline.kernels):
        refuse(f"group {_text(group)}, but its kernels are 0 to {len(pipeline.kernels) - 1}")
    _check_times(f"group {_text(group)}", group.times_us, refuse)
    inside = set(members)
    reached = {after for k in members for after in pipeline.successors[k]} - inside
    todo = list(reached)
    while todo:
        for after in pipeline.successors[todo.pop()]:
            if after in inside:
                refuse(f"group {_text(group)}: a path leads out of it and back into it")
            if after not in reached:
                reached.add(after)
                todo.append(after)


def _text(group: Group) -> str:
    return ",".join(map(str, group.kernels))
