"""The files of a run: what happened, its metrics, and where they come from."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hdrl.base.files import write_json
from hdrl.base.hashing import sha256_of_file
from hdrl.experiment.plan import RunPlan
from hdrl.experiment.run.provenance import inputs_of, versions
from hdrl.setting import Trace

WALL_CLOCK_INFO = ("scheduling_time_s", "simulation_time_s")
"""What a Trace says about the wall clock: it goes into timing.json, so that the other files repeat exactly."""


def write_results(
    folder: Path, plan: RunPlan, trace: Any, model: Path | None = None, told: Mapping[str, Any] | None = None
) -> dict[str, float]:
    """Write the files of a run into its folder, and return its metrics.

    ``model`` is the file that decided, by default the one that the options name. ``told`` is added to the provenance.
    """
    options, setting = plan.asked, plan.setting
    repeatable = {name: value for name, value in trace.info.items() if name not in WALL_CLOCK_INFO}
    trace = dataclasses.replace(trace, info=repeatable)
    for one in setting.view.files:
        if not one.is_extra or set(one.names) & set(options.also_write_names):
            one.write(trace, folder)
    metrics = setting.measures.measure(trace)
    write_json(
        folder / "metrics.json", {name: value if math.isfinite(value) else None for name, value in metrics.items()}
    )
    write_json(folder / "options.resolved.json", options.portable())
    given = options.agent_options.input_model
    if model is None and given is not None:
        model = options.path_of(given)
    write_json(folder / "provenance.json", _provenance(plan, trace, model) | dict(told or {}))
    return metrics


def _simulator_version(trace: Trace) -> dict[str, str]:
    found = {name: trace.info.get(f"{name}_version") for name in ("batsim", "slurm")}
    return {name: str(version) for name, version in found.items() if version is not None}


def _provenance(plan: RunPlan, trace: Trace, model: Path | None) -> dict[str, Any]:
    options, agent = plan.asked, plan.agent
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
