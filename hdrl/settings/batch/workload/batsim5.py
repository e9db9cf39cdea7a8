"""Workloads as Batsim 5 reads them: other names of profiles, and what Batsim does not know in ``extra_data``.

The format: https://batsim.readthedocs.io/en/latest/input-workload.html (v5.0.0-rc2).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from hdrl.base.errors import WorkloadError, suggest
from hdrl.base.files import write_json
from hdrl.settings.batch.platform.model import Platform
from hdrl.settings.batch.workload.batsim5_document import UNIFORMLY
from hdrl.settings.batch.workload.batsim_description import describe_for_batsim
from hdrl.settings.batch.workload.model import NO_WALLTIME, Workload

_TYPES: dict[str, tuple[str, tuple[str, ...]]] = {
    "delay": ("DelayProfile", ("delay",)),
    "parallel": ("ParallelTaskProfile", ("cpu", "com")),
    "parallel_homogeneous": ("ParallelTaskHomogeneousProfile", ("cpu", "com")),
    "parallel_homogeneous_total": ("ParallelTaskHomogeneousProfile", ("cpu", "com")),
    "composed": ("SequentialCompositionProfile", ("seq", "repeat")),
    "sequence": ("SequentialCompositionProfile", ("seq", "repeat")),
    "parallel_homogeneous_pfs": (
        "ParallelTaskOnStorageHomogeneousProfile",
        ("bytes_to_read", "bytes_to_write", "storage"),
    ),
    "data_staging": ("ParallelTaskDataStagingBetweenStoragesProfile", ("nb_bytes", "from", "to")),
    "smpi": ("TraceReplayProfile", ()),
    "usage_trace": ("TraceReplayProfile", ()),
}
"""Name in Batsim 5 of each type of profile, and the members that both versions have."""

_TRACE_TYPES = {"smpi": "SMPI", "usage_trace": "FractionalComputation"}
_JOB_KEYS = ("id", "subtime", "res", "profile", "walltime")


def write_batsim5_json(
    workload: Workload, path: str | Path, *, platform: Platform | None = None, source: str | None = None
) -> None:
    """Write a workload for Batsim 5.

    Raises
    ------
    OptionsError
        If the source is unknown, or not named where there are several.
    WorkloadError
        If a profile has no like in Batsim 5.
    OutputError
        If the file cannot be written.
    """
    write_json(path, describe_for_batsim5(describe_for_batsim(workload, platform=platform, source=source)), indent=None)


def describe_for_batsim5(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return a workload of Batsim 4 as one of Batsim 5.

    Raises
    ------
    WorkloadError
        If a profile has no like in Batsim 5: it sends or receives messages, or shares out bytes.
    """
    profiles = {name: _profile(name, profile) for name, profile in document["profiles"].items()}
    return {"nb_res": document["nb_res"], "jobs": [_job(job) for job in document["jobs"]], "profiles": profiles}


def _job(job: Mapping[str, Any]) -> dict[str, Any]:
    written = {key: job[key] for key in _JOB_KEYS if key in job}
    written["id"] = str(written["id"])
    if written.get("walltime") == NO_WALLTIME:
        del written["walltime"]
    return written | _extra(job, _JOB_KEYS)


def _profile(name: str, profile: Mapping[str, Any]) -> dict[str, Any]:
    kind = profile["type"]
    if isinstance(kind, str) and kind.endswith("Profile"):  # it is one of Batsim 5 alone
        return dict(profile)
    if kind not in _TYPES:
        raise WorkloadError(f"profile {name!r}: Batsim 5 has nothing like type {kind!r}; {suggest(kind, _TYPES)}")
    new_kind, keys = _TYPES[kind]
    written: dict[str, Any] = {"type": new_kind} | {key: profile[key] for key in keys if key in profile}
    known = ["type", "ret", *keys]
    if kind == "parallel_homogeneous_total":
        if profile.get("com", 0):
            raise WorkloadError(
                f"profile {name!r}: Batsim 5 divides 'com' by the number of pairs, Batsim 4 by that of hosts; "
                "no one number is right for jobs of every size"
            )
        written["generation_strategy"] = UNIFORMLY
    elif kind == "parallel_homogeneous_pfs" and "host" in profile:
        written.setdefault("storage", profile["host"])
        known.append("host")
    elif kind in _TRACE_TYPES:
        written |= {"trace_type": _TRACE_TYPES[kind], "filename": profile["trace"]}
        known.append("trace")
    if "ret" in profile:
        written["ret"] = profile["ret"]
    return written | _extra(profile, known)


def _extra(described: Mapping[str, Any], known: Iterable[str]) -> dict[str, str]:
    """Return keys that Batsim does not know, as the one text that it passes on."""
    rest = {key: value for key, value in described.items() if key not in {*known, "extra_data"}}
    if not rest:
        return {"extra_data": described["extra_data"]} if "extra_data" in described else {}
    if "extra_data" in described:
        rest["extra_data"] = described["extra_data"]
    return {"extra_data": json.dumps(rest)}
