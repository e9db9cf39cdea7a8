"""The loads of environments of GPU clusters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from hdrl.base.arguments import listed
from hdrl.base.errors import OptionsError, WorkloadError
from hdrl.settings.gpu.cluster.machine import GpuCluster
from hdrl.settings.gpu.loads.load import GpuLoad, check_runs_on
from hdrl.settings.gpu.loads.readers import read_trace
from hdrl.settings.gpu.loads.synthetic import Poisson, at_offered_load

N_DEFAULT_JOBS, DEFAULT_LOAD = 4096, 0.85
"""Generated jobs, and their offered load, if no load is given."""


def loads_of(
    load: Any, cluster: GpuCluster, check: Callable[[GpuLoad, GpuCluster], None] = check_runs_on
) -> list[GpuLoad]:
    """Return the loads that a user has named, generated ones if there are none.

    ``check`` refuses loads that the cluster cannot run. Raise HdrlError if one cannot be read or run, or loads cannot
    be combined.
    """
    if load is None:
        return [at_offered_load(Poisson(), N_DEFAULT_JOBS, cluster, DEFAULT_LOAD, seed=0)]
    given = listed("load", load, (GpuLoad, str, Path), "a trace, or what hdrl.gpu.read_trace returns")
    found = [one if isinstance(one, GpuLoad) else read_trace(Path(one)) for one in given]
    for one in found:
        check(one, cluster)
        if one.values is not None:
            raise WorkloadError(f"{one.name}: no agent learns with jobs that adapt and end at their deadlines")
        if (one.throughputs, one.speeds) != (found[0].throughputs, found[0].speeds):
            raise OptionsError(f"{one.name} and {found[0].name} differ in throughputs or speeds: make two environments")
    return found


def joined(loads: Sequence[GpuLoad]) -> GpuLoad:
    """Return all jobs of several loads as one, so that kinds and constraints have the same numbers."""
    if len(loads) == 1:
        return loads[0]
    kinds = tuple(dict.fromkeys(kind for load in loads for kind in load.kinds))
    constraints = tuple(dict.fromkeys(types for load in loads for types in load.constraints))
    tables, shift_s = [], 0.0
    for load in loads:
        jobs = load.jobs.copy()
        jobs["arrival_s"] = jobs["arrival_s"] - jobs["arrival_s"][0] + shift_s
        shift_s = float(jobs["arrival_s"][-1])
        jobs["kind"] = np.array([*map(kinds.index, load.kinds), -1])[jobs["kind"]]
        jobs["constraint"] = np.array([*map(constraints.index, load.constraints), -1])[jobs["constraint"]]
        tables.append(jobs)
    return replace(loads[0], jobs=np.concatenate(tables), kinds=kinds, constraints=constraints)
