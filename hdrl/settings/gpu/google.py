"""Google's cluster traces: task events of 2011, and the CSV form of 2019's. They have no GPUs: cores stand for them."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import TypeAlias

from hdrl.settings.gpu.source import Faulty, Format, Row, Source, number

_EVENTS_2011 = (
    *("time", "missing", "job_id", "task_index", "machine_id", "event", "user", "class", "priority"),
    *("cpu", "memory", "disk", "constraint"),
)
_CSV_2019 = ("time", "collection_id", "instance_index", "priority", "resource_request")

SUBMIT_2011, SCHEDULE_2011, FINISH_2011 = "0", "1", "4"
SUBMIT_2019, SCHEDULE_2019, FINISH_2019 = ("0", "SUBMIT"), ("3", "SCHEDULE"), ("6", "FINISH")

_US = 1e6

Event: TypeAlias = tuple[tuple[str, ...], str, float, Row]
"""The task, what happened (``submit``, ``schedule``, ``finish``), when, and what it asks for."""


def _tasks(source: Source, events: Iterator[Event]) -> Iterator[Row]:
    """Give the tasks that were submitted, scheduled and finished; their last stretch counts."""
    submitted: dict[tuple[str, ...], tuple[float, Row]] = {}
    started: dict[tuple[str, ...], float] = {}
    for task, what, time_s, asks in events:
        if what == "submit":
            submitted.setdefault(task, (time_s, asks))
        elif what == "schedule":
            started[task] = time_s
        elif task in submitted and task in started:
            arrival_s, asked = submitted.pop(task)
            yield {**asked, "arrival_s": arrival_s, "duration_s": time_s - started.pop(task)}
    for _ in submitted:
        source.drop("tasks that did not finish")
    source.faults.append(
        f"it has no GPUs: the cores of a machine stand for {source.gpus_per_machine} of them (gpus_per_machine)"
    )


def _gpus_of(source: Source, cpu: float) -> int:
    if cpu < 0:
        raise Faulty("tasks that ask for less than no core")
    return max(1, round(cpu * source.gpus_per_machine))


def _task_events(source: Source) -> Iterator[Row]:
    kinds = {SUBMIT_2011: "submit", SCHEDULE_2011: "schedule", FINISH_2011: "finish"}

    def events() -> Iterator[Event]:
        for _, line in source.table(_EVENTS_2011, has_header=False):
            if line["event"] not in kinds:
                continue
            try:
                asks = {
                    "n_gpus": _gpus_of(source, number(line["cpu"] or "0", "cores")),
                    "priority": number(line["priority"], "a priority"),
                    "user": line["user"],
                }
                time_s = number(line["time"], "a date") / _US
            except Faulty as fault:
                source.drop(str(fault))
                continue
            yield (line["job_id"], line["task_index"]), kinds[line["event"]], time_s, asks

    yield from _tasks(source, events())


def _cores_2019(line: dict[str, str]) -> float:
    if "resource_request.cpus" in line:
        return number(line["resource_request.cpus"] or "0", "cores")
    try:
        return float(ast.literal_eval(line["resource_request"])["cpus"])
    except (ValueError, SyntaxError, KeyError, TypeError):
        raise Faulty("tasks without cores") from None


def _csv_2019(source: Source) -> Iterator[Row]:
    kinds = {
        code: what
        for what, both in (("submit", SUBMIT_2019), ("schedule", SCHEDULE_2019), ("finish", FINISH_2019))
        for code in both
    }

    def events() -> Iterator[Event]:
        for _, line in source.table(_CSV_2019):
            kind = line.get("type", line.get("instance_events_type", ""))
            if kind not in kinds:
                continue
            try:
                asks = {
                    "n_gpus": _gpus_of(source, _cores_2019(line)),
                    "priority": number(line["priority"], "a priority"),
                    "user": line.get("user", ""),
                }
                time_s = number(line["time"], "a date") / _US
            except Faulty as fault:
                source.drop(str(fault))
                continue
            yield (line["collection_id"], line["instance_index"]), kinds[kind], time_s, asks

    yield from _tasks(source, events())


def _is_2011(line: str) -> bool:
    cells = line.split(",")
    return len(cells) == len(_EVENTS_2011) and cells[0].isdigit() and cells[5] in tuple("012345678")


FORMATS: Mapping[str, Format] = MappingProxyType(
    {
        "google-2011": Format("task_events of Google's trace of 2011", _task_events, "flops", _is_2011),
        "google-2019": Format(
            "instance events of Google's trace of 2019 as CSV",
            _csv_2019,
            "flops",
            lambda line: {"collection_id", "instance_index"} <= set(line.split(",")),
        ),
    }
)
