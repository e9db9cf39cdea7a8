"""The files of a run: what happened, its metrics, and where they come from."""

from __future__ import annotations

import dataclasses
import platform as python_platform
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from hdrl.base.files import without_nan, write_json
from hdrl.base.hashing import sha256_of_file
from hdrl.experiment.plan import RunPlan
from hdrl.setting import Trace
from hdrl.trace.model import Load, Machine
from hdrl.version import VERSION

WALL_CLOCK_INFO = ("scheduling_time_s", "simulation_time_s")
"""Keys of a Trace about the wall clock: they go into timing.json, so that the other files repeat exactly."""


def write_results(
    folder: Path, plan: RunPlan, trace: Any, model: Path | None = None, extra: Mapping[str, Any] | None = None
) -> dict[str, float]:
    """Write the files of a run into its folder, and return its metrics.

    ``model`` is the file that decided, by default the one that the options name. ``extra`` is added to the provenance.
    """
    options, setting = plan.request, plan.setting
    repeatable = {name: value for name, value in trace.info.items() if name not in WALL_CLOCK_INFO}
    trace = dataclasses.replace(trace, info=repeatable)
    for one in setting.view.files:
        if not one.is_extra or set(one.names) & set(options.also_write_names):
            one.write(trace, folder)
    metrics = setting.measures.measure(trace)
    write_json(folder / "metrics.json", without_nan(metrics))
    write_json(folder / "options.resolved.json", options.portable())
    given = options.agent_options.input_model
    if model is None and given is not None:
        model = options.path_of(given)
    write_json(folder / "provenance.json", _provenance(plan, trace, model) | dict(extra or {}))
    return metrics


def _simulator_version(trace: Trace) -> dict[str, str]:
    found = {name: trace.info.get(f"{name}_version") for name in ("batsim", "slurm")}
    return {name: str(version) for name, version in found.items() if version is not None}


def _provenance(plan: RunPlan, trace: Trace, model: Path | None) -> dict[str, Any]:
    options, agent = plan.request, plan.agent
    learned: dict[str, Any] = {} if model is None else {"model_sha256": sha256_of_file(model)}
    read = plan.setting.policies.files(agent.policy) if isinstance(agent.policy, str) else ()
    if read:
        learned["files"] = {Path(file).name: sha256_of_file(Path(file)) for file in read}
    return {
        "versions": versions(torch=model is not None) | _simulator_version(trace),
        "seed": options.seed,
        "options": {"sha256": options.sha256()},
        **inputs_of(trace.machine, trace.load),
        "agent": {
            "name": agent.name,
            "policy": agent.policy if isinstance(agent.policy, str) else None,
            "sha256": agent.sha256 or None,
            **learned,
        },
    }


def versions(*, torch: bool = False) -> dict[str, str]:
    """Return the versions of hdrl, Python and what the numbers depend on."""
    return ({"torch": metadata.version("torch")} if torch else {}) | {
        "hdrl": VERSION,
        "python": python_platform.python_version(),
        "numpy": metadata.version("numpy"),
        "numba": metadata.version("numba"),
    }


def strip_folders(value: object) -> Any:
    """Return a value made of dicts and lists with all absolute paths in it cut to their last part."""
    if isinstance(value, Mapping):
        return {str(key): strip_folders(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [strip_folders(inner) for inner in value]
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, str | Path):
        path = Path(value)
        return path.name if path.is_absolute() else str(value)
    return value


def inputs_of(machine: Machine, load: Load) -> dict[str, Any]:
    """Return the machine and the load of a simulation, with hashes."""
    return {
        "platform": {**machine.facts(), "sha256": machine.sha256()},
        "workload": {
            "name": load.name,
            "n_jobs": load.n_items,
            "n_dropped": dict(load.n_dropped),
            "sha256": load.sha256(),
            "origin": strip_folders(load.origin),
        },
    }
