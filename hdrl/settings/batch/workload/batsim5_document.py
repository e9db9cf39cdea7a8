"""Documents of Batsim 5 in the words of Batsim 4: `batsim5` the other way round."""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

UNIFORMLY = "DefinedAmountsSpreadUniformly"
HOMOGENEOUS = "ParallelTaskHomogeneousProfile"
ON_STORAGE = "ParallelTaskOnStorageHomogeneousProfile"
REPLAY = "TraceReplayProfile"

_TYPES: Mapping[str, str] = MappingProxyType(
    {
        "DelayProfile": "delay",
        "ParallelTaskProfile": "parallel",
        HOMOGENEOUS: "parallel_homogeneous",
        "SequentialCompositionProfile": "composed",
        ON_STORAGE: "parallel_homogeneous_pfs",
        "ParallelTaskDataStagingBetweenStoragesProfile": "data_staging",
    }
)
"""Name in Batsim 4 of each type of profile that both versions have."""

_TRACES: Mapping[str, str] = MappingProxyType({"SMPI": "smpi", "FractionalComputation": "usage_trace"})
"""Name in Batsim 4 of each type of trace that is replayed."""


def is_of_batsim5(document: Mapping[str, Any]) -> bool:
    """Tell whether a workload is one of Batsim 5: by the names of its types of profiles."""
    kinds = (profile.get("type") for profile in document["profiles"].values() if isinstance(profile, dict))
    return any(isinstance(kind, str) and kind.endswith("Profile") for kind in kinds)


def document_of_batsim5(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return a workload of Batsim 5 as one of Batsim 4.

    What stands in ``extra_data`` as an object becomes keys of the job or profile. Profiles without a like in Batsim 4
    keep their type: no simulator of ours runs them.

    ``document``: what the file holds: jobs, and profiles that are objects.
    """
    profiles = {name: _profile(_opened(profile)) for name, profile in document["profiles"].items()}
    jobs = [_opened(job) if isinstance(job, dict) else job for job in document["jobs"]]
    return {**document, "jobs": jobs, "profiles": profiles}


def _opened(described: dict[str, Any]) -> dict[str, Any]:
    """Return a job or a profile with what its ``extra_data`` holds."""
    more = described.get("extra_data")
    if isinstance(more, str):
        try:
            more = json.loads(more)
        except (ValueError, RecursionError):
            return described
    if not isinstance(more, dict):
        return described
    return {**more, **{key: value for key, value in described.items() if key != "extra_data"}}


def _profile(profile: dict[str, Any]) -> dict[str, Any]:
    kind = profile.get("type")
    if kind == HOMOGENEOUS and profile.get("generation_strategy") == UNIFORMLY:
        if profile.get("com", 0):
            return profile  # bytes are shared out among pairs there, among hosts in Batsim 4
        rest = {key: value for key, value in profile.items() if key != "generation_strategy"}
        return {**rest, "type": "parallel_homogeneous_total"}
    if kind == REPLAY and profile.get("trace_type") in _TRACES:
        rest = {key: value for key, value in profile.items() if key not in ("trace_type", "filename")}
        return {**rest, "type": _TRACES[profile["trace_type"]], "trace": profile.get("filename")}
    return {**profile, "type": _TYPES.get(kind, kind)} if isinstance(kind, str) else profile
