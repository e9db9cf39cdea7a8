"""A workload as Batsim's JSON describes it, see `hdrl.settings.batch.workload.batsim_json`: writing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from hdrl.base.errors import OptionsError, suggest
from hdrl.base.files import write_json
from hdrl.settings.batch.platform.model import Platform
from hdrl.settings.batch.workload.batsim_json import NUMBER_KEYS, mapping
from hdrl.settings.batch.workload.batsim_profiles import describe_profile, plain_number
from hdrl.settings.batch.workload.build import MAX_INT32, is_plain_name
from hdrl.settings.batch.workload.hdeeprm import reference_gflops
from hdrl.settings.batch.workload.model import NO_WALLTIME, UNKNOWN, Workload


def write_batsim_json(
    workload: Workload, path: str | Path, *, platform: Platform | None = None, source: str | None = None
) -> None:
    """Write a workload for Batsim and HDeepRM.

    What was read from a Batsim file is written as it was, but for what has changed since. Other profiles
    carry HDeepRM's ``req_time``, ``req_ops``, ``mem`` and ``mem_bw`` (of the first job that uses them; a job that
    differs carries its own).

    Parameters
    ----------
    path
        The file; a name that ends in ``.gz`` is compressed.
    platform
        The platform, for ``nb_res`` (without it: what was read, else the cores of the largest job) and for
        ``req_ops``, the operations that a job would do in its requested time (without it: those that it does).
    source
        Source to write; needed if there are several.

    Raises
    ------
    OptionsError
        If the source is unknown, or not named where there are several.
    OutputError
        If the file cannot be written.
    """
    write_json(path, describe_for_batsim(workload, platform=platform, source=source), indent=None)


def describe_for_batsim(
    workload: Workload, *, platform: Platform | None = None, source: str | None = None
) -> dict[str, Any]:
    """Return the output of `write_batsim_json`, as `json.loads` would give it.

    Raises
    ------
    OptionsError
        If the source is unknown, or not named where there are several.
    """
    index = _source_index(workload, source)
    rows = np.flatnonzero(workload.jobs["source"] == index).tolist()
    name = workload.sources[index]
    profiles = dict(mapping(mapping(workload.extra.get("profiles")).get(name)))
    jobs = list(_described_jobs(workload, rows, profiles, None if platform is None else reference_gflops(platform)))
    others = mapping(mapping(workload.extra.get("files")).get(name))
    largest = int(workload.jobs["cores"][rows].max()) if rows else 1
    nb_res = others.get("nb_res", largest) if platform is None else platform.n_cores
    return {**others, "nb_res": nb_res, "jobs": jobs, "profiles": profiles}


def _source_index(workload: Workload, source: str | None) -> int:
    if source is None and len(workload.sources) == 1:
        return 0
    if source not in workload.sources:
        raise OptionsError(f"{workload.name}: no source {source!r}; {suggest(str(source), workload.sources)}")
    return workload.sources.index(source)


def _described_jobs(
    workload: Workload, rows: list[int], profiles: dict[str, Any], gflops: float | None
) -> Iterator[dict[str, Any]]:
    """Describe the jobs; adds to ``profiles`` those that are not described yet."""
    described = workload.extra.get("jobs")
    names = workload.jobs.dtype.names or ()
    table = workload.jobs.tolist()
    for row in rows:
        job = dict(zip(names, table[row], strict=True))
        profile_name = workload.profile_names[job["profile"]]
        if profile_name not in profiles:
            profiles.update(describe_profile(workload, job, profile_name, gflops))
        read = described[row] if isinstance(described, list) else {}
        needed = {"id": _plain_id(workload.job_ids[row]), "subtime": None, "res": None, "profile": profile_name}
        base = read | {key: value for key, value in needed.items() if key not in read}
        yield _updated(base, job, profiles[profile_name])


def _plain_id(job_id: str) -> int | str:
    """Return an id as the number that Batsim prints the same way, if there is one."""
    is_plain = job_id.isascii() and job_id.isdigit() and (job_id == "0" or not job_id.startswith("0"))
    return int(job_id) if is_plain and int(job_id) <= MAX_INT32 else job_id


def _updated(description: dict[str, Any], job: dict[str, Any], profile: dict[str, Any]) -> dict[str, Any]:
    """Return the description of a job, true to its row: keys are set only where they would read differently."""
    result = dict(description)
    walltime_s = job["walltime_s"]
    if description.get("subtime") != job["submit_s"]:
        result["subtime"] = plain_number(job["submit_s"])
    if description.get("res") != job["cores"]:
        result["res"] = job["cores"]
    if description.get("walltime", NO_WALLTIME) != walltime_s:
        result["walltime"] = plain_number(walltime_s)
    both = profile | description
    requested = both.get("req_time", walltime_s if walltime_s > 0 else float(UNKNOWN))
    for key, read, now in (
        ("req_time", requested, job["requested_time_s"]),
        ("mem", both.get("mem", 0), job["memory_mib"]),
        ("mem_bw", both.get("mem_bw", 0), job["bandwidth_gbps"]),
    ):
        if read != now:
            result[key] = plain_number(now)
    for key in NUMBER_KEYS:
        known = description.get(key, UNKNOWN)
        if is_plain_name(known) and known != job[key]:  # other names have numbers that only we know
            result[key] = job[key]
    return result
