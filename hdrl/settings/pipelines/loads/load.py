"""The load: pipelines and the dates at which their instances are released."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from hdrl.base.arguments import check_type
from hdrl.base.errors import WorkloadError
from hdrl.base.seeding import stream
from hdrl.base.windows import check_window
from hdrl.settings.pipelines.loads.covers import demand_us
from hdrl.settings.pipelines.loads.pipeline import NEVER, Pipeline
from hdrl.settings.pipelines.machine import KINDS, Units
from hdrl.trace.model import repr_of_load

INSTANCE_DTYPE = np.dtype(
    [
        ("pipeline", np.int64),
        ("release_us", np.int64),
        ("deadline_us", np.int64),
        ("tolerance_us", np.int64),
        ("period_us", np.int64),
    ]
)
"""An instance of a pipeline: dates of its release and of its deadline, how much later it may end and still counts as
met, and the period that was in force when it was released."""

WHOLE = 1 << 16
"""Shares of worst-case times are counted in this many parts."""


@dataclass(frozen=True, slots=True)
class Times:
    """Actual execution times of kernels: shares of their worst cases, drawn evenly."""

    low: float = 1.0  # the smallest share, in (0, 1]; 1: always the worst case
    seed: int = 0  # seed of the draws. They belong to kernels of instances, so that all policies meet the same

    def __post_init__(self) -> None:
        if not 0.0 < self.low <= 1.0:
            raise WorkloadError(
                f"execution times from {self.low} of the worst case on, expected more than 0, at most 1"
            )

    def shares(self, n: int, seed: int | None = None) -> NDArray[np.int64]:
        """Return the shares of consecutive kernels in parts of `WHOLE`."""
        if self.low == 1.0:
            return np.full(n, WHOLE, dtype=np.int64)
        random = stream(self.seed if seed is None else seed, "execution times")
        return random.integers(max(1, round(self.low * WHOLE)), WHOLE, size=n, endpoint=True)


@dataclass(frozen=True)
class PipelineLoad:
    """Pipelines and their instances; making one checks it.

    Attributes
    ----------
    instances
        Array of `INSTANCE_DTYPE`, by release, of the same release by pipeline.
    times
        Actual execution times of kernels.
    origin
        Its source, as JSON.
    first_items
        Positions of the first instances of its configurations, which follow each other: sets, or contexts.

    Raises
    ------
    WorkloadError
        If there is nothing in it, or dates make no sense.
    """

    name: str
    pipelines: tuple[Pipeline, ...]
    instances: NDArray[np.void]
    times: Times = field(default_factory=Times)
    origin: Mapping[str, Any] = field(default_factory=dict)
    first_items: tuple[int, ...] = (0,)

    def __repr__(self) -> str:
        """Return one line, see `repr_of_load`."""
        return repr_of_load(self)

    def __post_init__(self) -> None:
        table = self.instances
        if len(table) == 0:
            raise WorkloadError(f"load {self.name!r}: no instance is released")
        later_us, later = np.diff(table["release_us"]), np.diff(table["pipeline"])
        if np.any((later_us < 0) | ((later_us == 0) & (later < 0))):
            raise WorkloadError(f"load {self.name!r}: instances are not in the order of release and pipeline")
        if np.any(table["deadline_us"] <= table["release_us"]) or np.any(table["period_us"] < 1):
            raise WorkloadError(f"load {self.name!r}: an instance has its deadline at or before its release")

    @property
    def n_items(self) -> int:
        """Number of released instances."""
        return len(self.instances)

    @property
    def n_dropped(self) -> Mapping[str, int]:
        """Nothing is left out."""
        return {}

    @cached_property
    def first_kernels(self) -> NDArray[np.int64]:
        """Positions of the first kernels of all instances if all kernels are counted through; one more at the end."""
        sizes = np.array([len(one.kernels) for one in self.pipelines], dtype=np.int64)
        return np.concatenate([[0], np.cumsum(sizes[self.instances["pipeline"]])]).astype(np.int64)

    @cached_property
    def found_out(self) -> dict[str, int]:
        """Results about the load that take long to compute, by name: their functions keep them here."""
        return {}

    def window(self, start: int, n_items: int, /) -> Self:
        """Return consecutive instances; how long their kernels take does not change. See `hdrl.trace.Load.window`."""
        check_window(self.name, start, n_items, self.n_items, items="instances")
        if n_items == self.n_items:
            return self
        origin = {**self.origin, "first_item": self.origin.get("first_item", 0) + start}
        position = self.origin.get("first_kernel", 0) + int(self.first_kernels[start])
        inside = {0, *(first - start for first in self.first_items if start < first < start + n_items)}
        return replace(
            self,
            instances=self.instances[start : start + n_items],
            origin={**origin, "first_kernel": position},
            first_items=tuple(sorted(inside)),
        )

    def shares(self, seed: int | None = None) -> NDArray[np.int64]:
        """Return the time of each kernel of each instance, in parts of `WHOLE` of its worst case.

        ``seed`` replaces that of the load's draws.
        """
        before = int(self.origin.get("first_kernel", 0))
        return self.times.shares(before + int(self.first_kernels[-1]), seed)[before:]

    def sha256(self) -> str:
        """Return the SHA-256 of the pipelines, dates and times, hexadecimal."""
        digest = hashlib.sha256(json.dumps([one.sha256() for one in self.pipelines]).encode())
        digest.update(self.instances.tobytes())
        digest.update(self.shares().tobytes())
        return digest.hexdigest()

    def offered(self, machine: Units, *, is_fusing: bool = True) -> float:
        """Return the least unit time that instances need, as a share of what units have until the last period ends."""
        kinds = tuple(sorted(set(machine.kinds)))
        needs = np.array([demand_us(one, kinds, is_fusing=is_fusing) for one in self.pipelines])
        needed_us = float(needs[self.instances["pipeline"]].sum())
        ends = self.instances["release_us"] + self.instances["period_us"]
        span_us = float(ends.max() - self.instances["release_us"].min())
        return needed_us / (span_us * machine.n_units)


def check_runs_on(load: PipelineLoad, machine: Units) -> None:
    """Refuse a load that a machine can never run; raise WorkloadError if a kernel has no unit to run on."""
    check_type("load", load, PipelineLoad, "a PipelineLoad")
    check_type("machine", machine, Units, "what hdrl.pipelines.read_machine returns")
    for pipeline in load.pipelines:
        if pipeline.ecu >= machine.n_ecus:
            raise WorkloadError(
                f"pipeline {pipeline.name!r} is for ECU {pipeline.ecu}, but machine {machine.name!r} has"
                f" {machine.n_ecus}"
            )
        kinds = {kind for kind, ecu in zip(machine.kinds, machine.ecus, strict=True) if pipeline.ecu in (-1, ecu)}
        for number, kernel in enumerate(pipeline.kernels):
            if all(kernel.times_us[kind] == NEVER for kind in kinds):
                has = " and ".join(KINDS[kind] for kind in sorted(kinds))
                raise WorkloadError(
                    f"pipeline {pipeline.name!r}: kernel {number} ({kernel.name}) runs on no unit, machine"
                    f" {machine.name!r} has only {has} for it"
                )
