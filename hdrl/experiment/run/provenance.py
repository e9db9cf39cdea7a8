"""Where results come from: versions and hashes, without dates and places, so that equal runs give equal bytes."""

from __future__ import annotations

import platform as python_platform
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from hdrl.trace.model import Load, Machine
from hdrl.version import VERSION


def versions(*, torch: bool = False) -> dict[str, str]:
    """Return the versions of hdrl, Python and what the numbers depend on."""
    return ({"torch": metadata.version("torch")} if torch else {}) | {
        "hdrl": VERSION,
        "python": python_platform.python_version(),
        "numpy": metadata.version("numpy"),
        "numba": metadata.version("numba"),
    }


def without_places(value: object) -> Any:
    """Return a value made of dicts and lists with all absolute paths in it cut to their last part."""
    if isinstance(value, Mapping):
        return {str(key): without_places(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [without_places(inner) for inner in value]
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, str | Path):
        path = Path(value)
        return path.name if path.is_absolute() else str(value)
    return value


def inputs_of(machine: Machine, load: Load) -> dict[str, Any]:
    """Return what was simulated on what, with hashes."""
    return {
        "platform": {**machine.facts(), "sha256": machine.sha256()},
        "workload": {
            "name": load.name,
            "n_jobs": load.n_items,
            "n_dropped": dict(load.n_dropped),
            "sha256": load.sha256(),
            "origin": without_places(load.origin),
        },
    }
