"""Philly's, Helios' and Tiresias' traces, and the cut CSV files of the DRL scheduler for GPU clusters."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any

from hdrl.base.errors import ReadError
from hdrl.settings.gpu.loads.source import (
    Faulty,
    Row,
    Source,
    TraceFormat,
    gpus,
    kept,
    name_prefix,
    named_format,
    number,
)

_SIA = ("timestamp", "duration", "num_gpus", "gpu_time", "cluster")
_HELIOS = ("job_id", "user", "gpu_num", "state", "submit_time", "duration")
_TIRESIAS = ("job_id", "num_gpu", "submit_time", "model_name", "duration")
_DRL = ("arrival_time", "runtime", "gpus", "priority")

_DATE = re.compile(r"(\d{4}-\d\d-\d\d[ T]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?)\s*(Z|[+-]\d\d(?::?\d\d)?)?", re.ASCII)
"""A date and the offset of its zone from UTC."""


def date_s(text: str | None) -> float:
    """Return a date such as ``2017-10-09 07:01:55+08:00`` as seconds; one without an offset counts as UTC.

    Names of zones have no effect, since they are ambiguous.
    """
    found = _DATE.match(text or "")
    if found is None:
        raise Faulty("jobs without a date")
    try:
        date = datetime.fromisoformat(found[1] + (found[2] or ""))
        return (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()
    except ValueError:  # the 31st of February
        raise Faulty("jobs with an impossible date") from None


def _sia(line: dict[str, str]) -> Row:
    return {
        "arrival_s": date_s(line["timestamp"]),
        "duration_s": number(line["duration"], "a duration"),
        **gpus(line["num_gpus"]),
        "user": line["cluster"],
    }


def _helios(line: dict[str, str]) -> Row:
    return {
        "arrival_s": date_s(line["submit_time"]),
        "duration_s": number(line["duration"], "a duration"),
        **gpus(line["gpu_num"]),
        "user": line["user"],
        "group": line.get("vc", ""),
        "name": name_prefix(line.get("jobname", "")),
        "wait_s": max(0.0, _start_s(line.get("start_time")) - date_s(line["submit_time"])),
    }


def _start_s(text: str | None) -> float:
    """Return a date, or a date before all others if there is none."""
    try:
        return date_s(text)
    except Faulty:
        return -math.inf


def _tiresias(line: dict[str, str]) -> Row:
    return {
        "arrival_s": number(line["submit_time"], "a date"),
        "duration_s": number(line["duration"], "a duration"),
        **gpus(line["num_gpu"]),
        "kind": line["model_name"],
    }


def _drl_job(line: dict[str, str], size: Row) -> Row:
    runtime_s = number(line["runtime"], "a run time")
    if 0.0 < runtime_s <= 1.0:
        raise Faulty("jobs of a second or less")
    return {
        "arrival_s": number(line["arrival_time"], "a date"),
        "duration_s": runtime_s,
        **size,
        "priority": number(line["priority"], "a priority"),
    }


def _drl(line: dict[str, str]) -> Row:
    return _drl_job(line, gpus(line["gpus"]))


def _drl_whole(line: dict[str, str]) -> Row:
    asks_for_none = number(line["gpus"], "a number of GPUs") == 0
    return _drl_job(line, {"n_gpus": 0} if asks_for_none else gpus(line["gpus"]))


def _philly(source: Source) -> Iterator[Row]:
    try:
        jobs = json.loads(source.text) if source.first_line.startswith("[") else list(_json_lines(source))
        if not isinstance(jobs, list) or not all(isinstance(one, dict) for one in jobs):
            raise ValueError("no list of objects")
    except ValueError as error:
        raise ReadError(source.path, f"is not a Philly job log: {error}") from None
    except (RecursionError, MemoryError):
        raise ReadError(source.path, "is nested too deeply, or does not fit into the memory") from None
    for one in jobs:
        try:
            yield _philly_job(one)
        except Faulty as fault:
            source.drop(str(fault))
        except (KeyError, TypeError, AttributeError):
            raise ReadError(
                source.path, f"job {one.get('jobid')!r} is not a job of Philly's log: submitted_time, attempts"
            ) from None


def _json_lines(source: Source) -> Iterator[Any]:
    for line in source.text.splitlines():
        if line.strip():
            yield json.loads(line)


def _philly_job(one: dict[str, Any]) -> Row:
    """Return a job of Philly's log: all of its attempts in a row, on the GPUs of the first that says which."""
    attempts = one["attempts"]
    if not attempts:
        raise Faulty("jobs that never ran")
    duration_s = 0.0
    for attempt in attempts:
        if not attempt["start_time"] or not attempt["end_time"]:
            raise Faulty("jobs that had not ended")
        duration_s += date_s(attempt["end_time"]) - date_s(attempt["start_time"])
    submitted_s, user = date_s(one["submitted_time"]), str(one.get("user") or "")
    group = str(one.get("vc") or "")
    sizes = [sum(len(node["gpus"]) for node in attempt.get("detail") or ()) for attempt in attempts]
    size = next((one for one in sizes if one > 0), 0)
    return {
        "arrival_s": submitted_s,
        "duration_s": duration_s,
        **gpus(str(size)),
        "user": user or group,
        "group": group if user else "",
        "wait_s": max(0.0, date_s(attempts[-1]["end_time"]) - submitted_s - duration_s),
    }


FORMATS: Mapping[str, TraceFormat] = MappingProxyType(
    {
        "philly-sia": named_format("Philly as in Sia's artifact", _sia, "flops", _SIA, has_calendar_dates=True),
        "philly": TraceFormat(
            "Philly's own cluster_job_log (JSON)",
            _philly,
            "flops",
            lambda line: line.startswith(("[", "{")),
            has_calendar_dates=True,
        ),
        "helios": named_format("Helios' cluster_log.csv", _helios, "flops", _HELIOS, has_calendar_dates=True),
        "tiresias": named_format("job traces of Tiresias' simulator", _tiresias, "equal", _TIRESIAS),
        "drl-gpu": named_format("cut traces of the DRL scheduler for GPU clusters", _drl, "equal", _DRL),
        "drl-gpu-whole": TraceFormat(
            "the same with the jobs that ask for no GPU",
            lambda source: kept(source, source.table(_DRL), _drl_whole),
            "equal",
            lambda _line: False,
        ),
    }
)

USERS_ARE_VIRTUAL_CLUSTERS = frozenset({"philly-sia"})
"""Formats that name virtual clusters alone, which stand for users."""
