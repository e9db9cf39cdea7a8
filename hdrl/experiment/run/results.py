"""The files of a run: what happened, its metrics, and where they come from."""

from __future__ import annotations

import dataclasses
import hashlib
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hdrl.experiment.run.agentfile import AgentChoice
from hdrl.experiment.run.provenance import platform_sha256, versions, without_places, workload_sha256
from hdrl.files import write_json
from hdrl.options import Options

if TYPE_CHECKING:
    from hdrl.simulation.trace import Trace

WALL_CLOCK_INFO = ("scheduling_time_s", "simulation_time_s")
"""What a Trace tells about the wall clock: it goes into timing.json, so that the other files repeat exactly."""


def write_results(
    folder: Path, options: Options, trace: Trace, agent: AgentChoice, model: Path | None = None
) -> dict[str, float]:
    """Write the files of a run into its folder, and return its metrics.

    Parameters
    ----------
    folder
        The folder.
    options
        The options of the run.
    trace
        What happened.
    agent
        Who decided.
    model
        The model file that it decided with; ``None``: the one that the options name, if any.
    """
    from hdrl.metrics import compute_metrics
    from hdrl.simulation.outputs import write_batsim_files, write_overutilizations

    repeatable = {name: value for name, value in trace.info.items() if name not in WALL_CLOCK_INFO}
    trace = dataclasses.replace(trace, info=repeatable)
    if options.simulator == "embedded":
        write_batsim_files(trace, folder)
    write_overutilizations(trace, folder / "overutilizations.json")
    metrics = {name: float(value) for name, value in compute_metrics(trace).items()}
    write_json(
        folder / "metrics.json", {name: value if math.isfinite(value) else None for name, value in metrics.items()}
    )
    write_json(folder / "options.resolved.json", options.portable())
    given = options.pybatsim.agent.input_model
    if model is None and given is not None:
        model = options.path_of(given)
    write_json(folder / "provenance.json", _provenance(options, trace, agent, model))
    return metrics


def _simulator_version(trace: Trace) -> dict[str, str]:
    version = trace.info.get("batsim_version")
    return {} if version is None else {"batsim": str(version)}


def _provenance(options: Options, trace: Trace, agent: AgentChoice, model: Path | None) -> dict[str, Any]:
    platform, workload = trace.platform, trace.workload
    learned = {} if model is None else {"model_sha256": hashlib.sha256(model.read_bytes()).hexdigest()}
    return {
        "versions": versions(torch=model is not None) | _simulator_version(trace),
        "seed": options.seed,
        "options": {"sha256": options.sha256()},
        "platform": {"name": platform.name, "n_cores": platform.n_cores, "sha256": platform_sha256(platform)},
        "workload": {
            "name": workload.name,
            "n_jobs": workload.n_jobs,
            "n_dropped": dict(workload.n_dropped),
            "sha256": workload_sha256(workload),
            "origin": without_places(workload.origin),
        },
        "agent": {
            "name": agent.name,
            "policy": agent.policy if isinstance(agent.policy, str) else None,
            "sha256": agent.sha256 or None,
            **learned,
        },
    }
