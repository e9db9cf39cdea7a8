"""Profiles of Batsim's JSON workloads: read into steps, and described again."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeGuard

from hdrl.base.errors import ReadError, WorkloadError, suggest
from hdrl.settings.batch.workload.build import MAX_AMOUNT, MAX_INT32, MAX_VALUE
from hdrl.settings.batch.workload.model import StepKind, Workload

MAX_STEPS = 100_000
"""Steps that one profile may have after all its repetitions are written out."""

LEAF_AMOUNTS = {
    "delay": (StepKind.DELAY, "delay"),
    "parallel_homogeneous": (StepKind.COMPUTE, "cpu"),
    "parallel_homogeneous_total": (StepKind.COMPUTE_TOTAL, "cpu"),
}
"""Profile types that are one step, and the key that says how long it is."""

COMPOSED_TYPES = ("composed", "sequence")
FOREIGN_TYPES = (
    "parallel",
    "parallel_homogeneous_pfs",
    "parallel_homogeneous_pfs_multiple_tiers",
    "data_staging",
    "smpi",
    "usage_trace",
    "send",
    "recv",
)
"""Profile types of Batsim that the embedded simulator cannot run."""

_LARGEST_EXACT_INT = 2**53

Step = tuple[StepKind, float, int]


_FOREIGN_OF_BATSIM5 = (
    "ForkJoinCompositionProfile",
    "ParallelTaskMergeCompositionProfile",
    "ParallelTaskHomogeneousProfile",
)
"""Profile types of Batsim 5 without a like in Batsim 4; the last one if it shares out bytes."""


def is_number(value: object) -> TypeGuard[int | float]:
    """Tell whether a JSON value is a number (``true`` is none)."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


class ProfileReader:
    """The profiles of one file, written out into steps on demand."""

    def __init__(self, path: Path, described: dict[str, Any]) -> None:
        self.path = path
        self.described = described
        self._steps: dict[str, list[Step]] = {}

    def fail(self, name: str, problem: str) -> ReadError:
        """Return the error of a profile."""
        return ReadError(self.path, f"profile {name!r}: {problem}")

    def steps(self, name: str) -> list[Step]:
        """Return the steps of a profile, those after a failing one left out."""
        self._write_out(name, ())
        return self._steps[name]

    def _write_out(self, name: str, outer: tuple[str, ...]) -> None:
        if name in self._steps:
            return
        if name in outer:
            raise self.fail(name, f"contains itself ({' > '.join([*outer, name])})")
        if len(outer) > 100:
            raise self.fail(outer[0], "is nested more than 100 levels deep")
        profile = self.described[name]
        kind = profile.get("type")
        if not isinstance(kind, str):
            raise self.fail(name, f"'type' is {shown(kind)}, expected text")
        if kind in LEAF_AMOUNTS:
            self._steps[name] = [self._leaf(name, profile)]
        elif kind in COMPOSED_TYPES:
            self._steps[name] = self._composed(name, profile, outer)
        else:
            raise self._foreign(name, kind)

    def _foreign(self, name: str, kind: str) -> WorkloadError | ReadError:
        if kind in (*FOREIGN_TYPES, *_FOREIGN_OF_BATSIM5):
            return WorkloadError(
                f"{self.path}: profile {name!r} is of type {kind!r}, which the embedded simulator cannot run"
            )
        known = (*LEAF_AMOUNTS, *COMPOSED_TYPES, *FOREIGN_TYPES)
        return self.fail(name, f"'type' is {shown(kind)}; {suggest(kind, known)}")

    def _leaf(self, name: str, profile: dict[str, Any]) -> Step:
        kind, key = LEAF_AMOUNTS[profile["type"]]
        fail = partial(self.fail, name)
        most = MAX_VALUE if kind == StepKind.DELAY else MAX_AMOUNT
        amount = checked_number(profile.get(key), key, fail, low=0.0, high=most)
        com = checked_number(profile.get("com", 0), "com", fail, low=0.0, high=MAX_AMOUNT)
        if com > 0 and kind != StepKind.DELAY:
            problem = f"communicates ('com' is {com:g}), which the embedded simulator cannot run"
            raise WorkloadError(f"{self.path}: profile {name!r} {problem}")
        return kind, amount, checked_whole(profile.get("ret", 0), "ret", fail)

    def _composed(self, name: str, profile: dict[str, Any], outer: tuple[str, ...]) -> list[Step]:
        sequence, repeat = profile.get("seq"), profile.get("repeat", 1)
        if not isinstance(sequence, list) or not sequence:
            raise self.fail(name, f"'seq' is {shown(sequence)}, expected a list of profile names")
        if not isinstance(repeat, int) or isinstance(repeat, bool) or repeat < 1:
            raise self.fail(name, f"'repeat' is {shown(repeat)}, expected a whole number of at least 1")
        once: list[Step] = []
        for inner in sequence:
            if not isinstance(inner, str) or inner not in self.described:
                found = shown(inner)
                raise self.fail(name, f"'seq' names {found}: no such profile; {suggest(str(inner), self.described)}")
            self._write_out(inner, (*outer, name))
            once += self._steps[inner]
            if len(once) > MAX_STEPS:
                break
            if once[-1][2] != 0:
                return once  # nothing runs after a step that fails
        if len(once) * repeat > MAX_STEPS:
            raise self.fail(name, f"has more than {MAX_STEPS} steps")
        steps = once * repeat
        code = checked_whole(profile.get("ret", 0), "ret", partial(self.fail, name))
        return steps if code == 0 else [*steps, (StepKind.RETURN, 0.0, code)]


def shown(value: object) -> str:
    """Return a value of a file as messages show it."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def checked_number(
    value: object, key: str, fail: Callable[[str], ReadError], *, low: float = -math.inf, high: float = MAX_VALUE
) -> float:
    """Return the value of a key if it is a number in a range; else ``fail`` makes the error."""
    if is_number(value) and low <= value <= high:
        return float(value)
    expected = "a number" if low == -math.inf else f"a number of at least {low:g}"
    if is_number(value) and value > high:
        expected = f"at most {high:g}"
    raise fail(f"{key!r} is {shown(value)}, expected {expected}")


def checked_whole(value: object, key: str, fail: Callable[[str], ReadError]) -> int:
    """Return the value of a key if it is a whole number of at most 32 bits; else ``fail`` makes the error."""
    if not isinstance(value, int) or isinstance(value, bool) or abs(value) > MAX_INT32:
        raise fail(f"{key!r} is {shown(value)}, expected a whole number")
    return value


def plain_number(value: float) -> int | float:
    """Return a whole number as an integer, as people write it."""
    return int(value) if value.is_integer() and abs(value) <= _LARGEST_EXACT_INT else value


def describe_profile(
    workload: Workload, job: dict[str, Any], name: str, gflops: float | None
) -> dict[str, dict[str, Any]]:
    """Describe a profile that was not read from a Batsim file; several steps become profiles of their own."""
    first, last = workload.first_step[job["profile"]], workload.first_step[job["profile"] + 1]
    steps = workload.steps[first:last].tolist()
    req_ops = sum(step[1] for step in steps) if gflops is None else gflops * job["requested_time_s"] * 1e9
    hints: dict[str, Any] = {
        "req_time": plain_number(job["requested_time_s"]),
        "req_ops": plain_number(req_ops),
        "mem": plain_number(job["memory_mib"]),
        "mem_bw": plain_number(job["bandwidth_gbps"]),
    }
    if len(steps) == 1:
        return {name: _describe_step(*steps[0]) | hints}
    result: dict[str, dict[str, Any]] = {}
    sequence = [f"{name}_step_{i}" for i, step in enumerate(steps) if step[0] != StepKind.RETURN]
    for part, step in zip(sequence, steps, strict=False):
        result[part] = _describe_step(*step)
    whole = {"type": "composed", "seq": sequence} | hints
    if steps[-1][0] == StepKind.RETURN:
        whole["ret"] = steps[-1][2]
    return {**result, name: whole}


def _describe_step(kind: int, amount: float, return_code: int) -> dict[str, Any]:
    type_name, key = next((name, key) for name, (step, key) in LEAF_AMOUNTS.items() if step == kind)
    result: dict[str, Any] = {"type": type_name, key: plain_number(amount)}
    if kind != StepKind.DELAY:
        result["com"] = 0
    if return_code:
        result["ret"] = return_code
    return result
