"""Claims about pipelines that are more than one comparison: a function each, by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hdrl.experiments import PROTOCOLS
from hdrl.experiments.findings import Finding, Place, Playable
from hdrl.metrics.statistics import Bootstrap
from hdrl.settings.pipelines.inputs import load_of
from hdrl.settings.pipelines.loads.load import PipelineLoad
from hdrl.settings.pipelines.loads.readers import read_set
from hdrl.settings.pipelines.loads.releases import Context
from hdrl.settings.pipelines.machine import read_machine

MACHINE = "1cpu+1gpu"
"""rlschedsim's units."""

OPPONENTS = ("edf", "edf_global", "edf_global+fusion", "edf_local+fusion", "earliest_finish+fusion", "random")
"""Policies that are simulated in rlschedsim's world, too: its baselines, the best other one, and any."""


@PROTOCOLS.register("adas-worlds")
def adas_worlds(traces: Mapping[str, Path], models: Sequence[Playable]) -> dict[Place, float | Finding]:
    """Return the misses of agents and policies in all configurations of period sets, in the world of the training.

    rlschedsim's world, which notices releases late, is another one than that of comparisons; here everybody is
    simulated in it. A configuration is *met* if nothing is missed in it, as rlschedsim sorts its traces.

    Parameters
    ----------
    traces
        Period files of rlschedsim, their times in seconds.
    models
        The models of one training, by seed.
    """
    found: dict[Place, float | Finding] = {}
    for path in traces.values():
        periods = read_set(path, unit="s")
        loads = [load_of(periods, [Context(one)]) for one in periods.configurations()]
        machine = read_machine(MACHINE)
        missed = {name: values[:, np.newaxis] for name, values in _policies(loads, models[0].environment).items()}
        missed["agent"] = np.array(
            [[_miss_ratio(one.play(machine, load, as_trained=True)) for one in models] for load in loads]
        )
        bootstrap = Bootstrap(np.zeros(len(loads)))
        for name, table in missed.items():
            row, n_met = f"{name} on {path.stem}", (table == 0.0).sum(axis=0)
            ratios, counts = (_each(one) if name == "agent" else () for one in (table.mean(axis=0), n_met))
            found[row, "miss_ratio"] = Finding(*bootstrap.mean(table), trainings=ratios)
            found[row, "configurations met"] = Finding(float(n_met.mean()), trainings=counts)
    return found


def _each(values: np.ndarray[Any, Any]) -> tuple[float, ...]:
    return tuple(float(one) for one in values)


def _policies(loads: Sequence[PipelineLoad], environment: Mapping[str, Any]) -> dict[str, np.ndarray[Any, Any]]:
    """Return the share of missed deadlines of each policy in each load, in the world of an environment."""
    from hdrl.settings.pipelines.envs.env import PipelinesVectorEnv

    envs = PipelinesVectorEnv(1, machine=MACHINE, load=list(loads), start="consecutive", **environment["arguments"])
    try:
        return {name: one["miss_ratio"] for name, one in envs.run_policies(OPPONENTS).items()}
    finally:
        envs.close()


def _miss_ratio(trace: Any) -> float:
    return float(np.mean(trace.is_missed))
