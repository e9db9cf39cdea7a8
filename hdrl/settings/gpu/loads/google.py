"""Google's cluster traces: task events of 2011, and the CSV form of 2019's. They have no GPUs: cores stand for them."""

from __future__ import annotations

import ast
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import TypeAlias

from hdrl.settings.gpu.loads.source import Faulty, Row, Source, TraceFormat, cells_of, number

_EVENTS_2011 = (
    *("time", "missing", "job_id", "task_index", "machine_id", "event", "user", "class", "priority"),
    *("cpu", "memory", "disk", "constraint"),
)
_CSV_2019 = ("time", "collection_id", "instance_index", "priority", "resource_request")

SUBMIT_2011, SCHEDULE_2011, FINISH_2011 = "0", "1", "4"
SUBMIT_2019, SCHEDULE_2019, FINISH_2019 = ("0", "SUBMIT"), ("3", "SCHEDULE"), ("6", "FINISH")

_US = 1e6

Event: TypeAlias = tuple[tuple[str, ...], str, float, Row]
"""The task, the event (``submit``, ``schedule``, ``finish``), its date, and the task's request."""


def _tasks(source: Source, events: Iterable[Event]) -> Iterator[Row]:
    """Give the tasks that were submitted, scheduled and finished, by events in order; their last stretch counts."""
    submitted: dict[tuple[str, ...], tuple[float, Row]] = {}
    started: dict[tuple[str, ...], float] = {}
    for task, what, time_s, request in events:
        if what == "submit":
            submitted.setdefault(task, (time_s, request))
        elif what == "schedule":
            started[task] = time_s
        elif task in submitted and task in started:
            arrival_s, request = submitted.pop(task)
            yield {**request, "arrival_s": arrival_s, "duration_s": time_s - started.pop(task)}
    for _ in submitted:
        source.drop("tasks that did not finish")
    source.faults.append(
        f"it has no GPUs: the cores of a machine stand for {source.gpus_per_machine} of them (gpus_per_machine)"
    )


_MOST_CORES = 1e6
"""Cores are shares of a machine: a task that requests more is a mistake."""


def _gpus_of(source: Source, cpu: float) -> int:
    if not 0 <= cpu <= _MOST_CORES:
        raise Faulty(f"tasks that ask for fewer than 0 cores, or for more than {_MOST_CORES:g}")
    return max(1, round(cpu * source.gpus_per_machine))


def _tasks_of(
    source: Source,
    lines: Iterator[tuple[int, dict[str, str]]],
    kinds: Mapping[str, str],
    *,
    kind_of: Callable[[dict[str, str]], str],
    cores_of: Callable[[dict[str, str]], float],
    task: tuple[str, str],
) -> Iterator[Row]:
    """Yield the tasks of lines with events: kinds by their codes, how to read a line, what names a task."""

    def events() -> Iterator[Event]:
        for _, line in lines:
            kind = kinds.get(kind_of(line))
            if kind is None:
                continue
            try:
                request = {
                    "n_gpus": _gpus_of(source, cores_of(line)),
                    "priority": number(line["priority"], "a priority"),
                    "user": line.get("user", ""),
                }
                time_s = number(line["time"], "a date") / _US
            except Faulty as fault:
                source.drop(str(fault))
                continue
            yield tuple(line[name] for name in task), kind, time_s, request

    # Exports of a database have no order; a task's schedule may follow its end.
    yield from _tasks(source, sorted(events(), key=lambda event: event[2]))


def _task_events(source: Source) -> Iterator[Row]:
    return _tasks_of(
        source,
        source.table(_EVENTS_2011, has_header=False),
        {SUBMIT_2011: "submit", SCHEDULE_2011: "schedule", FINISH_2011: "finish"},
        kind_of=lambda line: line["event"],
        cores_of=lambda line: number(line["cpu"] or "0", "cores"),
        task=("job_id", "task_index"),
    )


def _cores_2019(line: dict[str, str]) -> float:
    if "resource_request.cpus" in line:
        return number(line["resource_request.cpus"] or "0", "cores")
    text = line["resource_request"]
    try:
        try:
            request = json.loads(text)
        except ValueError:  # pandas writes dictionaries as Python does
            request = ast.literal_eval(text)
        return number(str(request["cpus"]), "cores")
    except (ValueError, SyntaxError, KeyError, TypeError, RecursionError, MemoryError):
        raise Faulty("tasks without cores") from None


def _csv_2019(source: Source) -> Iterator[Row]:
    names = {"submit": SUBMIT_2019, "schedule": SCHEDULE_2019, "finish": FINISH_2019}
    return _tasks_of(
        source,
        source.table(_CSV_2019),
        {code: what for what, both in names.items() for code in both},
        kind_of=lambda line: line.get("type", line.get("instance_events_type", "")),
        cores_of=_cores_2019,
        task=("collection_id", "instance_index"),
    )


def _is_2011(line: str) -> bool:
    cells = cells_of(line)
    return len(cells) == len(_EVENTS_2011) and cells[0].isdigit() and cells[5] in tuple("012345678")


FORMATS: Mapping[str, TraceFormat] = MappingProxyType(
    {
        "google-2011": TraceFormat("task_events of Google's trace of 2011", _task_events, "flops", _is_2011),
        "google-2019": TraceFormat(
            "instance events of Google's trace of 2019 as CSV",
            _csv_2019,
            "flops",
            lambda line: {"collection_id", "instance_index"} <= set(cells_of(line)),
        ),
    }
)
