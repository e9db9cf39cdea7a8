"""Recognition of IRMaSim's files; `hdrl.compat.irmasim`, which reads them, is loaded when one appears."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

_PARTS = {part: f"hdrl.compat.irmasim.{part}" for part in ("managers", "options", "platforms", "workloads")}

OPTIONS_KEYS = ("workload_file", "platform_name", "platform_file", "workload_manager")
"""Keys of options files."""

CSV_SUFFIXES = (".csv", ".csv.gz")
"""Endings of the names of tables of jobs."""

_JOB_KEYS = ("req_ops", "ipc", "mem_vol")
"""Keys of jobs and profiles; HDeepRM's profiles have the first of them, too, and a type."""


def irmasim(part: str) -> Any:
    """Return a module of `hdrl.compat.irmasim`.

    ``part``: a key of `_PARTS`.
    """
    return importlib.import_module(_PARTS[part])


def is_irmasim_options(data: Mapping[str, Any]) -> bool:
    """Return whether what an options file holds is meant for IRMaSim."""
    return "platform_file_path" not in data and any(key in data for key in OPTIONS_KEYS)


def is_irmasim_platform(description: object) -> bool:
    """Return whether what a JSON file holds is meant for IRMaSim."""
    return isinstance(description, Mapping) and isinstance(description.get("platform"), Mapping)


def is_irmasim_workload(content: object) -> bool:
    """Return whether what a JSON file holds is a workload of IRMaSim."""
    jobs = content.get("jobs") if isinstance(content, Mapping) else None
    if not isinstance(content, Mapping) or not isinstance(jobs, list) or not jobs or not isinstance(jobs[0], Mapping):
        return False
    profiles = content.get("profiles")
    name = jobs[0].get("profile")
    sample = profiles.get(name) if isinstance(profiles, Mapping) and isinstance(name, str) else jobs[0]
    return isinstance(sample, Mapping) and any(key in sample for key in _JOB_KEYS[1 if name is not None else 0 :])
