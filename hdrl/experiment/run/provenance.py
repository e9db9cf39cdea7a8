"""Where results come from: versions and hashes, without dates and places, so that equal runs give equal bytes."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import platform as python_platform
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from hdrl.platform.model import Platform
from hdrl.version import VERSION
from hdrl.workload.model import Workload


def versions(*, torch: bool = False) -> dict[str, str]:
    """Return the versions of hdrl, Python and what the numbers depend on.

    Parameters
    ----------
    torch
        Whether torch is among that.
    """
    return ({"torch": metadata.version("torch")} if torch else {}) | {
        "hdrl": VERSION,
        "python": python_platform.python_version(),
        "numpy": metadata.version("numpy"),
        "numba": metadata.version("numba"),
    }


def platform_sha256(platform: Platform) -> str:
    """Return the SHA-256 of everything in a platform that a simulation depends on.

    Parameters
    ----------
    platform
        The platform; files that describe it in different ways have the same hash.
    """
    digest = hashlib.sha256()
    for field in dataclasses.fields(platform):
        value = getattr(platform, field.name)
        if isinstance(value, np.ndarray):
            _add_array(digest, field.name, value)
    _add_text(digest, [platform.core_names, platform.loopback_s, platform.loopback_latency_s])
    return digest.hexdigest()


def workload_sha256(workload: Workload) -> str:
    """Return the SHA-256 of the jobs and profiles of a workload.

    Parameters
    ----------
    workload
        The workload; its name and origin do not count.
    """
    digest = hashlib.sha256()
    for array in (workload.jobs, workload.steps):
        for name in array.dtype.names or ():
            _add_array(digest, name, array[name])
    _add_array(digest, "first_step", workload.first_step)
    _add_text(digest, [workload.job_ids, workload.profile_names, workload.sources])
    return digest.hexdigest()


def without_places(value: object) -> Any:
    """Return a value made of dicts and lists with all absolute paths in it cut to their last part.

    Parameters
    ----------
    value
        What `json.dumps` takes, paths and NumPy scalars besides.
    """
    if isinstance(value, dict):
        return {str(key): without_places(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [without_places(inner) for inner in value]
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, str | Path):
        path = Path(value)
        return path.name if path.is_absolute() else str(value)
    return value


def _add_array(digest: Any, name: str, array: np.ndarray[Any, Any]) -> None:
    digest.update(f"{name} {array.dtype.str} {array.shape}".encode())
    digest.update(np.ascontiguousarray(array).tobytes())


def _add_text(digest: Any, value: object) -> None:
    digest.update(json.dumps(value).encode())
