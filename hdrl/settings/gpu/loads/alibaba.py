"""Alibaba's traces of GPU clusters: gpu-v2020 (PAI) and gpu-v2023 (openb)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

from hdrl.base.files import read_text
from hdrl.settings.gpu.loads.load import WHOLE_GPU, GpuLoad
from hdrl.settings.gpu.loads.source import (
    Faulty,
    Row,
    Source,
    TraceFormat,
    cells_of,
    kept,
    load_of,
    name_prefix,
    number,
    whole,
)

_OPENB_REQUEST = ("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli")
_OPENB_DATES = ("creation_time", "deletion_time", "scheduled_time")
_OPENB = (*_OPENB_REQUEST, "gpu_spec", "qos", "pod_phase", *_OPENB_DATES)
_PAI = (
    *("job_name", "task_name", "inst_num", "status", "start_time", "end_time"),
    *("plan_cpu", "plan_mem", "plan_gpu", "gpu_type"),
)


def _openb_job(line: dict[str, str]) -> Row:
    """Return a pod of gpu-v2023 as a job; pods without GPUs take cores alone."""
    arrival_s = number(line["creation_time"], "a date")
    start_s = number(line["scheduled_time"] or line["creation_time"], "a date")
    return {
        "arrival_s": arrival_s,
        "duration_s": number(line["deletion_time"], "an end") - max(start_s, arrival_s),
        "wait_s": max(0.0, start_s - arrival_s),
        **_owner_of(line, line.get("job_name", "")),
        **_openb_request(line),
    }


def _owner_of(line: dict[str, str], name: str) -> Row:
    """Return user, group and name of a job; Alibaba's own lists of pods have none, others may have the columns."""
    return {"user": line.get("user", ""), "group": line.get("group", ""), "name": name_prefix(name)}


def _openb_request(line: dict[str, str]) -> Row:
    """Return the request of a pod of gpu-v2023."""
    n_gpus = whole(line["num_gpu"], "a number of GPUs")
    milli = whole(line["gpu_milli"] or "0", "a share of a GPU")
    if n_gpus < 0 or milli < 0:
        raise Faulty("jobs that ask for fewer than 0 GPUs")
    if n_gpus == 1 and milli > WHOLE_GPU:
        raise Faulty("jobs that ask for one GPU, and more than all of it")
    types = line.get("gpu_spec", "")
    return {
        "n_gpus": n_gpus,
        "gpu_milli": milli if n_gpus == 1 and milli else WHOLE_GPU,
        "cpu_milli": int(number(line["cpu_milli"], "cores")),
        "memory_mib": int(number(line["memory_mib"], "memory")),
        "types": tuple(types.split("|")) if types else (),
    }


def read_pods(path: Path) -> GpuLoad:
    """Return all pods of gpu-v2023 in the order of their list, without their dates: what they request.

    Some of FGD's lists have no more than the columns that say so: no dates, no types of GPUs. Raise ReadError if it
    cannot be read, or is of another form.
    """
    source = Source(path, read_text(path))
    return load_of(source, "openb", list(_undated(source)))


def _undated(source: Source) -> Iterator[Row]:
    """Give the pods in the order of their list: one arrives each second, and all take as long as their arrivals."""
    rows = list(kept(source, source.table(_OPENB_REQUEST), _openb_request))
    for position, row in enumerate(rows):
        yield {**row, "arrival_s": float(position), "duration_s": float(len(rows))}


def _openb(source: Source) -> Iterator[Row]:
    if set(_OPENB_DATES) & set(cells_of(source.first_line)):
        yield from kept(source, source.table(_OPENB), _openb_job)
        return
    yield from _undated(source)
    source.faults.append("it has no dates: a pod arrives each second, and takes as many seconds as there are pods")


def _is_openb(line: str) -> bool:
    names = set(cells_of(line))
    return set(_OPENB_REQUEST) <= names and not 0 < len(names & set(_OPENB_DATES)) < len(_OPENB_DATES)


def _pai(source: Source) -> Iterator[Row]:
    rounded = 0

    def job(line: dict[str, str]) -> Row:
        nonlocal rounded
        if line["status"] != "Terminated":
            raise Faulty("tasks that did not end well")
        n, percent = number(line["inst_num"], "instances"), number(line["plan_gpu"] or "0", "a number of GPUs")
        if percent <= 0 or n <= 0:
            raise Faulty("jobs that ask for 0 GPUs")
        milli = WHOLE_GPU
        size = int(n) * math.ceil(percent / 100)
        if n == 1 and percent < 100:
            milli = math.ceil(percent * 10)
        elif percent % 100:
            size = math.ceil(n * percent / 100)
            rounded += 1
        start_s = number(line["start_time"], "a date")
        return {
            "arrival_s": start_s,
            "duration_s": number(line["end_time"], "an end") - start_s,
            "n_gpus": size,
            "gpu_milli": milli,
            "cpu_milli": int(n * number(line["plan_cpu"] or "0", "cores") * 10),
            "memory_mib": int(n * number(line["plan_mem"] or "0", "memory") * 1024),
            "types": () if line["gpu_type"] in ("", "MISC", "CPU") else (line["gpu_type"],),
            **_owner_of(line, line["task_name"]),
        }

    has_header = cells_of(source.first_line)[:1] == ["job_name"]
    yield from kept(source, source.table(_PAI, has_header=has_header), job)
    if rounded:
        source.faults.append(f"{rounded:,} tasks of several instances share GPUs: they were given whole ones")


def _is_pai(line: str) -> bool:
    cells = cells_of(line)
    return cells[:3] == list(_PAI[:3]) or (len(cells) == len(_PAI) and cells[3] in _STATES)


_STATES = ("Terminated", "Failed", "Running", "Waiting", "Interrupted")

FORMATS: Mapping[str, TraceFormat] = MappingProxyType(
    {
        "openb": TraceFormat("pods of Alibaba's gpu-v2023", _openb, "flops", _is_openb, _OPENB),
        "pai": TraceFormat("pai_task_table of Alibaba's gpu-v2020", _pai, "flops", _is_pai),
    }
)
